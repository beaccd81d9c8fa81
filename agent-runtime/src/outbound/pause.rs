//! Pauses between attempts. Pure.

use std::time::Duration;

/// The shortest pause before a second attempt: long enough for a restarting service's next endpoint, short beside a
/// model call.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause before any attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pause after so many attempts: it doubles, and up to half of it is left to the dice, so that calls that failed
/// together do not come back together.
pub(crate) fn pause(attempts: u32, dice: u64) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(attempts)).min(LONGEST_PAUSE);
    let half = u64::try_from(longest.as_micros() / 2).unwrap_or(u64::MAX);
    Duration::from_micros(half + dice % (half + 1))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_double_up_to_a_bound_and_differ_by_half(attempts in 1..40_u32, dice: u64) {
            let (shortest, longest) = (pause(attempts, 0), 2 * pause(attempts, 0));
            let pause = pause(attempts, dice);
            prop_assert!(shortest <= pause && pause <= longest && longest <= LONGEST_PAUSE, "{pause:?}");
        }
    }

    #[test]
    fn a_first_pause_is_short() {
        assert_eq!([1, 2, 9].map(|attempts| pause(attempts, 0).as_millis()), [100, 200, 1_000]);
    }
}
