//! Units that started and do not finish: an exceedance as soon as they have been in flight for too long. Pure.
//!
//! The units that started in one window are a cohort. Once it is older than the age at which a unit counts as hanging,
//! how many of each arm are still in flight is compared, once. Given how many are, which arm they are of is
//! hypergeometric when the labels are exchangeable: heavy tails, and stalls that both arms share, are not evidence.

use slipway_vocabulary::evidence::{Metric, Unit, WINDOW_SECONDS};

use super::{
    hypergeometric::Table,
    observation::{Arm, ArmSum, Arms, Key},
    process::Mixture,
};

/// The longest age, in windows, at which a unit counts as hanging; slower metrics are judged when their units finish.
pub const MAX_AGE_WINDOWS: usize = 31;

/// Cohorts that are remembered, the one of the present window included.
pub(super) const MAX_COHORTS: usize = MAX_AGE_WINDOWS + 1;

/// The tilts of the lane: hanging is rare among healthy units, so the alternatives are large.
pub(super) const TILTS: [f64; 3] = [3.0, 15.0, 200.0];

/// Their weights.
pub(super) const MIXTURE: Mixture = Mixture { weights: &[0.2, 0.3, 0.5], unrestarted: 0.0 };

/// Units of a window in which nothing is known of how many started.
pub(super) const UNKNOWN: u16 = u16::MAX;

/// Units that became too old in a window, and the units of which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hung {
    pub units: u64,
    pub hung: u64,
}

/// The cohorts of both arms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hang {
    /// Units that started in the latest windows, oldest first: canary, stable. [`UNKNOWN`] where they are not known.
    pub started: Vec<[u16; 2]>,
    /// The oldest cohorts, whose turn is over.
    pub compared: u8,
}

/// What a window says of cohorts that are old enough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// A table for each cohort.
    pub tables: Vec<Table>,
    /// The canary's units of all of them.
    pub canary: Hung,
}

/// Whether the ages of a metric's units in flight are times since their start, so that an age names a cohort. In agent
/// mode the ages of a request are those of the run's worst, which does not say when the run started.
pub(super) const fn has_cohorts(key: Key) -> bool {
    match key.unit {
        Unit::Run => matches!(key.metric, Metric::AgentRunLatency),
        Unit::Request => matches!(key.metric, Metric::RequestLatency),
        Unit::Session => false,
    }
}

/// Windows after which a unit is older than a threshold for certain; `None` beyond [`MAX_AGE_WINDOWS`].
pub(super) fn age_in_windows(threshold_microseconds: u64) -> Option<usize> {
    let windows = threshold_microseconds.div_ceil(WINDOW_SECONDS * 1_000_000).max(1);
    usize::try_from(windows).ok().filter(|windows| *windows <= MAX_AGE_WINDOWS)
}

impl Hang {
    /// Notes windows that nobody reads: their cohorts are unknown.
    pub fn skip(&mut self, windows: u64) {
        let skipped = usize::try_from(windows).unwrap_or(MAX_COHORTS).min(MAX_COHORTS);
        (0..skipped).for_each(|_| self.push([UNKNOWN; 2]));
    }

    /// Reads a window, and compares the cohorts that are `age` windows old and were not compared before; none without
    /// an age.
    pub fn update(&mut self, arms: &Arms, age: Option<usize>) -> Compared {
        self.push([Arm::Canary, Arm::Stable].map(|arm| started(arms.of(arm))));
        let mut compared = Compared::default();
        let is_known = !(arms.canary.has_unknown_ages || arms.stable.has_unknown_ages);
        let Some(age) = age.filter(|_| is_known) else { return compared };
        let last = self.started.len() - 1;
        for position in usize::from(self.compared)..(last + 1).saturating_sub(age) {
            self.compared = position as u8 + 1;
            let [canary, stable] = self.started[position];
            if canary == UNKNOWN || stable == UNKNOWN {
                continue;
            }
            let of = |sum: &ArmSum, units: u16| {
                let age = u16::try_from(last - position).unwrap_or(u16::MAX);
                let hung = sum.ages.get(&age).copied().unwrap_or(0).min(u64::from(units));
                Hung { units: u64::from(units), hung }
            };
            let (canary, stable) = (of(&arms.canary, canary), of(&arms.stable, stable));
            compared.tables.push(table(canary, stable));
            compared.canary.units += canary.units;
            compared.canary.hung += canary.hung;
        }
        compared
    }

    fn push(&mut self, started: [u16; 2]) {
        if self.started.len() == MAX_COHORTS {
            self.started.remove(0);
            self.compared = self.compared.saturating_sub(1);
        }
        self.started.push(started);
    }
}

fn started(sum: &ArmSum) -> u16 {
    if sum.has_unknown_starts {
        return UNKNOWN;
    }
    u16::try_from(sum.started).unwrap_or(UNKNOWN - 1).min(UNKNOWN - 1)
}

fn table(canary: Hung, stable: Hung) -> Table {
    Table { canary: canary.units, stable: stable.units, events: canary.hung + stable.hung, canary_events: canary.hung }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_vocabulary::evidence::{Metric, Unit};

    use super::{ArmSum, Arms, Hang, Hung, Key, MAX_COHORTS, Table, age_in_windows, has_cohorts};

    fn sum(started: u64, ages: &[(u16, u64)]) -> ArmSum {
        ArmSum { started, ages: ages.iter().copied().collect(), ..ArmSum::default() }
    }

    fn arms(canary: ArmSum, stable: ArmSum) -> Arms {
        Arms { canary, stable }
    }

    fn hung_of(hang: &mut Hang, arms: &Arms, age: usize) -> Vec<(u64, u64)> {
        let compared = hang.update(arms, Some(age));
        compared.tables.iter().map(|table| (table.canary_events, table.events - table.canary_events)).collect()
    }

    #[test]
    fn a_cohort_is_compared_once_when_it_is_too_old() {
        let mut hang = Hang::default();
        let found: Vec<_> = (0..4)
            .map(|window| {
                let ages: Vec<(u16, u64)> = (1..=window).map(|age| (age, 10)).collect();
                hung_of(&mut hang, &arms(sum(10, &ages), sum(90, &[])), 2)
            })
            .collect();
        assert_eq!(found, [vec![], vec![], vec![(10, 0)], vec![(10, 0)]]);
    }

    #[test]
    fn cohorts_that_wait_for_an_age_are_all_compared_when_it_falls() {
        let mut hang = Hang::default();
        for _ in 0..4 {
            assert_eq!(hang.update(&arms(sum(10, &[]), sum(10, &[])), None).tables, []);
        }
        let window = arms(sum(10, &[(2, 3), (3, 1), (4, 2)]), sum(10, &[(3, 1)]));
        let compared = hang.update(&window, Some(2));
        let table = |canary_events, events| Table { canary: 10, stable: 10, events, canary_events };
        assert_eq!(compared.tables, [table(2, 2), table(1, 2), table(3, 3)]);
        assert_eq!(compared.canary, Hung { units: 30, hung: 6 });
        assert_eq!(hang.update(&window, Some(4)).tables, [], "none is compared again when the age grows");
    }

    #[test]
    fn windows_that_nobody_read_and_pods_that_count_no_ages_say_nothing() {
        let mut hang = Hang::default();
        hang.update(&arms(sum(10, &[]), sum(10, &[])), Some(1));
        hang.skip(2);
        let window = arms(sum(10, &[(1, 9), (2, 9), (3, 4)]), sum(10, &[]));
        assert_eq!(hung_of(&mut hang.clone(), &window, 1), [(4, 0)], "the cohort of the first window alone is known");
        let mut old = window.clone();
        old.stable.has_unknown_ages = true;
        assert_eq!(hang.update(&old, Some(1)).tables, []);
        let mut silent = window;
        silent.canary.has_unknown_starts = true;
        hang.update(&silent, None);
        assert_eq!(hung_of(&mut hang, &arms(sum(5, &[(1, 5), (2, 1)]), sum(5, &[])), 1), [(0, 0), (1, 0)]);
    }

    #[test]
    fn more_cannot_hang_than_started() {
        let mut hang = Hang::default();
        hang.update(&arms(sum(2, &[]), sum(2, &[])), Some(1));
        assert_eq!(hung_of(&mut hang, &arms(sum(0, &[(1, 7)]), sum(0, &[])), 1), [(2, 0)]);
    }

    #[test]
    fn the_memory_is_bounded() {
        let mut hang = Hang::default();
        hang.skip(u64::MAX);
        for _ in 0..100 {
            hang.update(&arms(sum(u64::MAX, &[]), sum(1, &[])), Some(5));
        }
        assert_eq!((hang.started.len(), hang.started[0]), (MAX_COHORTS, [u16::MAX - 1, 1]));
    }

    #[test]
    fn only_ages_since_the_start_name_a_cohort() {
        let has = |metric, unit| has_cohorts(Key { metric, unit });
        let found = [
            has(Metric::AgentRunLatency, Unit::Run),
            has(Metric::RequestLatency, Unit::Run),
            has(Metric::RequestLatency, Unit::Request),
            has(Metric::RequestTimeToFirstToken, Unit::Request),
        ];
        assert_eq!(found, [true, false, true, false]);
    }

    #[test]
    fn the_age_is_rounded_up_to_windows_and_bounded() {
        assert_eq!([1, 10_000_000, 10_000_001].map(age_in_windows), [Some(1), Some(1), Some(2)]);
        assert_eq!(age_in_windows(u64::MAX), None);
    }
}
