//! Verdicts on requests that are slow together. Pure.

use slipway_vocabulary::evidence::Quantile;

use super::{SampleVerdict, judge_counts};

/// Least number of groups whose spread says anything about dependence.
const LEAST_GROUPS: usize = 4;

/// Requests that waited on the same server at the same time, and those of them above the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Requests above the limit.
    pub exceeding: u64,
    /// All requests.
    pub count: u64,
}

/// Gives the design effect of groups: the variance of the exceeding share, as a multiple of that of as many independent
/// requests. It is at least 1, and 1 where fewer than four groups say nothing. The variance is that of a ratio
/// estimator over clusters (Cochran, Sampling Techniques, 3rd edition, 1977, section 9.5; Kish, Survey Sampling, 1965).
#[must_use]
pub fn design_effect(groups: &[Group]) -> f64 {
    let count: u64 = groups.iter().map(|group| group.count).sum();
    let exceeding: u64 = groups.iter().map(|group| group.exceeding).sum();
    if groups.len() < LEAST_GROUPS || exceeding == 0 || exceeding == count {
        return 1.0;
    }
    let (n, k) = (count as f64, groups.len() as f64);
    let share = exceeding as f64 / n;
    let residual = |group: &Group| (group.exceeding as f64 - share * group.count as f64).powi(2);
    let variance = k / (k - 1.0) * groups.iter().map(residual).sum::<f64>() / (n * n);
    (variance * n / (share * (1.0 - share))).max(1.0)
}

/// Judges as [`judge_counts`] does, but a limit is shown to be missed only by what is left after dependence: the counts
/// are divided by the [`design_effect`]. One stall that holds every request in flight is one observation, not many.
///
/// Feasible is decided by the plain counts: a stall within the allowed share gives no reason to doubt what was met.
#[must_use]
pub fn judge_groups(groups: &[Group], quantile: Quantile, confidence: f64) -> SampleVerdict {
    let count: u64 = groups.iter().map(|group| group.count).sum();
    let exceeding: u64 = groups.iter().map(|group| group.exceeding).sum();
    match judge_counts(exceeding, count, quantile, confidence) {
        SampleVerdict::Infeasible => {}
        other => return other,
    }
    let effect = design_effect(groups);
    // Rounded so that what exceeds is never more than its share.
    let (exceeding, count) = ((exceeding as f64 / effect).floor(), (count as f64 / effect).ceil());
    match judge_counts(exceeding as u64, count as u64, quantile, confidence) {
        SampleVerdict::Infeasible => SampleVerdict::Infeasible,
        SampleVerdict::Feasible | SampleVerdict::Undecided | SampleVerdict::Unbounded => SampleVerdict::Undecided,
    }
}

/// Divides requests in their order into groups of as many as were in flight; the last may be smaller.
#[must_use]
pub fn groups(exceeding: impl IntoIterator<Item = bool>, in_flight: u32) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for exceeds in exceeding {
        match groups.last_mut() {
            Some(group) if group.count < u64::from(in_flight.max(1)) => {
                group.count += 1;
                group.exceeding += u64::from(exceeds);
            }
            Some(_) | None => groups.push(Group { exceeding: u64::from(exceeds), count: 1 }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    const CONFIDENCE: f64 = 0.95;

    /// Rounds of 32 requests in flight, of which the named ones stall as a whole.
    fn stalled(rounds: usize, stalls: &[usize]) -> Vec<Group> {
        groups((0..rounds * 32).map(|i| stalls.contains(&(i / 32))), 32)
    }

    #[test]
    fn two_stalls_of_all_that_is_in_flight_do_not_show_a_missed_limit() {
        let stalled = stalled(27, &[3, 9]);
        assert_eq!(judge_counts(64, 864, Quantile::P95, CONFIDENCE), SampleVerdict::Infeasible, "taken as independent");
        assert_eq!(judge_groups(&stalled, Quantile::P95, CONFIDENCE), SampleVerdict::Undecided);
        assert!((30.0..36.0).contains(&design_effect(&stalled)), "{}", design_effect(&stalled));
    }

    #[test]
    fn a_limit_that_one_request_in_ten_misses_is_missed() {
        let each_tenth = groups((0..864).map(|i| i % 10 == 9), 32);
        assert_eq!(judge_groups(&each_tenth, Quantile::P95, CONFIDENCE), SampleVerdict::Infeasible);
        let all = groups((0..64).map(|_| true), 32);
        assert_eq!(judge_groups(&all, Quantile::P95, CONFIDENCE), SampleVerdict::Infeasible);
    }

    #[test]
    fn stalls_in_every_third_round_are_a_missed_limit_too() {
        let stalls: Vec<usize> = (0..60).filter(|round| round % 3 == 0).collect();
        assert_eq!(judge_groups(&stalled(60, &stalls), Quantile::P95, CONFIDENCE), SampleVerdict::Infeasible);
    }

    #[test]
    fn a_stall_within_the_allowed_share_leaves_a_met_limit_met() {
        assert_eq!(judge_groups(&stalled(60, &[5]), Quantile::P95, CONFIDENCE), SampleVerdict::Feasible);
    }

    #[test]
    fn requests_are_divided_in_their_order() {
        let expected =
            [Group { exceeding: 1, count: 2 }, Group { exceeding: 2, count: 2 }, Group { exceeding: 0, count: 1 }];
        assert_eq!(groups([true, false, true, true, false], 2), expected);
    }

    proptest! {
        #[test]
        fn dependence_never_turns_what_is_open_into_a_missed_limit(
            exceeding in prop::collection::vec(any::<bool>(), 0..400), in_flight in 0_u32..40,
        ) {
            let grouped = groups(exceeding.iter().copied(), in_flight);
            let hits = exceeding.iter().filter(|hit| **hit).count() as u64;
            let plain = judge_counts(hits, exceeding.len() as u64, Quantile::P95, CONFIDENCE);
            let judged = judge_groups(&grouped, Quantile::P95, CONFIDENCE);
            prop_assert!(judged == plain || (plain, judged) == (SampleVerdict::Infeasible, SampleVerdict::Undecided));
            prop_assert!(design_effect(&grouped) >= 1.0);
        }
    }
}
