//! The highest feasible level of every arm by bisection over its ladder. Pure.

use super::brute::ladder;
use super::memo::{Memo, Need};

pub(super) fn per_arm(memo: &Memo<'_>) -> Result<(), Need> {
    for arm in 0..memo.space.arms.len() {
        let ladder = ladder(memo, arm);
        let (mut feasible, mut open) = (0, ladder.len());
        while feasible < open {
            let middle = feasible + (open - feasible) / 2;
            match memo.run(ladder[middle], "bisection of the load")?.grade.is_feasible() {
                true => feasible = middle + 1,
                false => open = middle,
            }
        }
    }
    Ok(())
}
