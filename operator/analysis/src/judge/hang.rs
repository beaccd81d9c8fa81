//! Units that started and never finish: an exceedance as soon as they have been in flight for too long. Pure.

use slipway_vocabulary::evidence::WINDOW_SECONDS;

use super::{
    hypergeometric::Table,
    observation::{Arm, ArmSum, Arms},
    process::Mixture,
};

/// The longest age, in windows, at which a unit counts as hanging; slower metrics are judged when their units finish.
pub const MAX_AGE_WINDOWS: usize = 31;

/// The tilts of the lane: hanging is rare among healthy units, so the alternatives are large.
pub(super) const TILTS: [f64; 3] = [3.0, 15.0, 200.0];

/// Their weights.
pub(super) const MIXTURE: Mixture = Mixture { weights: &[0.2, 0.3, 0.5], unrestarted: 0.0 };

/// What one arm had in flight in earlier windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ArmHistory {
    /// Units that started in the latest windows, oldest first.
    pub started: Vec<u16>,
    /// Units in flight, for arms that report starts but not what is in flight.
    pub derived_in_flight: u32,
    /// Units that were too old at the last window; `None` when unknown.
    pub old: Option<u32>,
    /// Pods of the last window, as a hash.
    pub pods: u32,
}

/// Units that became too old in a window, and the units of which they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hung {
    pub units: u64,
    pub hung: u64,
}

/// The histories of both arms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hang {
    pub canary: ArmHistory,
    pub stable: ArmHistory,
}

impl Hang {
    /// Reads a window and returns the table of units that became too old in it: those that started `age` windows ago
    /// and have not finished since. No units when there is no history yet, or the pods have changed.
    pub fn update(&mut self, arms: &Arms, pods: [u32; 2], age: usize) -> (Hung, Hung) {
        let canary = self.canary.update(arms.of(Arm::Canary), pods[0], age);
        let stable = self.stable.update(arms.of(Arm::Stable), pods[1], age);
        (canary, stable)
    }
}

/// Windows after which a unit is older than a threshold for certain; `None` beyond [`MAX_AGE_WINDOWS`].
pub(super) fn age_in_windows(threshold_microseconds: u64) -> Option<usize> {
    let windows = threshold_microseconds.div_ceil(WINDOW_SECONDS * 1_000_000).max(1);
    usize::try_from(windows).ok().filter(|windows| *windows <= MAX_AGE_WINDOWS)
}

/// The table of two arms' hung units.
pub(super) fn table(canary: Hung, stable: Hung) -> Table {
    Table { canary: canary.units, stable: stable.units, events: canary.hung + stable.hung, canary_events: canary.hung }
}

impl ArmHistory {
    fn update(&mut self, sum: &ArmSum, pods: u32, age: usize) -> Hung {
        let same_pods = std::mem::replace(&mut self.pods, pods) == pods;
        let started = self.started_of(sum);
        let in_flight = self.in_flight_of(sum, started);
        self.started.push(u16::try_from(started).unwrap_or(u16::MAX));
        while self.started.len() > age + 1 {
            self.started.remove(0);
        }
        let is_filled = self.started.len() == age + 1;
        let recent: u64 = self.started[usize::from(is_filled)..].iter().map(|n| u64::from(*n)).sum();
        let limit = age as u64 * WINDOW_SECONDS * 1_000_000;
        let is_old = sum.oldest_microseconds.is_none_or(|oldest| oldest >= limit);
        let old = if is_old { u32::try_from(in_flight.saturating_sub(recent)).unwrap_or(u32::MAX) } else { 0 };
        let before = self.old.replace(old);
        match before {
            Some(before) if same_pods && is_filled => {
                let units = u64::from(self.started[0]);
                Hung { units, hung: u64::from(old.saturating_sub(before)).min(units) }
            }
            _ => Hung::default(),
        }
    }

    /// Units that started: as reported, or what the flow of units implies. An arm that reports neither starts nor what
    /// is in flight is taken to finish what it starts, so that a canary that hangs is seen all the same.
    fn started_of(&self, sum: &ArmSum) -> u64 {
        let implied =
            |in_flight: u64| in_flight.saturating_add(sum.count).saturating_sub(u64::from(self.derived_in_flight));
        sum.started.or_else(|| sum.in_flight.map(implied)).unwrap_or(sum.count)
    }

    fn in_flight_of(&mut self, sum: &ArmSum, started: u64) -> u64 {
        let derived = u64::from(self.derived_in_flight).saturating_add(started).saturating_sub(sum.count);
        let in_flight = sum.in_flight.unwrap_or(derived);
        self.derived_in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        in_flight
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{ArmHistory, ArmSum, Hung, age_in_windows};

    fn sum(started: u64, in_flight: Option<u64>, count: u64) -> ArmSum {
        ArmSum { started: Some(started), in_flight, count, ..ArmSum::default() }
    }

    #[test]
    fn units_that_never_finish_are_counted_once_when_they_are_too_old() {
        let mut history = ArmHistory::default();
        let hung: Vec<Hung> = (1..5).map(|window| history.update(&sum(10, Some(10 * window), 0), 7, 1)).collect();
        let ten = Hung { units: 10, hung: 10 };
        assert_eq!(hung, [Hung::default(), ten, ten, ten]);
    }

    #[test]
    fn what_is_in_flight_follows_from_starts_and_ends() {
        let mut history = ArmHistory::default();
        let hung: Vec<u64> = (1..5).map(|_| history.update(&sum(10, None, 4), 7, 1).hung).collect();
        // 6 of 10 stay behind in each window; they are too old one window later.
        assert_eq!(hung, [0, 2, 6, 6]);
    }

    #[test]
    fn units_that_finish_in_time_never_hang() {
        let mut history = ArmHistory::default();
        for _ in 0..20 {
            assert_eq!(history.update(&sum(100, Some(3), 100), 7, 1).hung, 0);
        }
    }

    #[test]
    fn an_arm_that_reports_only_what_finished_never_hangs_and_is_compared_with() {
        let mut history = ArmHistory::default();
        let silent = ArmSum { count: 10, ..ArmSum::default() };
        let hung: Vec<Hung> = (0..3).map(|_| history.update(&silent, 7, 1)).collect();
        let finished = Hung { units: 10, hung: 0 };
        assert_eq!(hung, [Hung::default(), finished, finished]);
    }

    #[test]
    fn a_change_of_pods_is_no_evidence() {
        let mut history = ArmHistory::default();
        history.update(&sum(10, Some(10), 0), 7, 1);
        assert_eq!(history.update(&sum(10, Some(20), 0), 8, 1), Hung::default());
    }

    #[test]
    fn the_age_is_rounded_up_to_windows_and_bounded() {
        assert_eq!([1, 10_000_000, 10_000_001].map(age_in_windows), [Some(1), Some(1), Some(2)]);
        assert_eq!(age_in_windows(u64::MAX), None);
    }
}
