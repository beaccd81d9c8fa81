//! How loaded the pods of each arm are. Pure.

/// Units started per pod and window in each arm, since the step began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Sums of units started: canary, stable.
    pub started: [f32; 2],
    /// Sums of pods that reported: canary, stable.
    pub pods: [f32; 2],
}

/// Windows over which the loads are averaged.
const LOAD_WINDOWS: f32 = 60.0;

/// Canary pods with this much more load than stable's are overloaded; with as much less, underloaded.
const LIKE_LOAD: f32 = 4.0 / 3.0;

/// How the load of a canary pod relates to that of a stable pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loading {
    /// Not known: compare within strata.
    Unknown,
    /// Lower on canary pods: for harm, a unit of the canary may be held against stable's under more load.
    Underloaded,
    /// Alike: the in-flight band is an outcome, not a cause, and is left out of the strata.
    Alike,
    /// Higher on canary pods: even within a band the canary has more in flight.
    Overloaded,
}

impl Load {
    /// Adds what started in a window.
    pub fn update(&mut self, started: [u64; 2], pods: [usize; 2]) {
        if self.pods[0] > LOAD_WINDOWS {
            self.started = self.started.map(|sum| sum / 2.0);
            self.pods = self.pods.map(|sum| sum / 2.0);
        }
        for arm in 0..2 {
            self.started[arm] += started[arm] as f32;
            self.pods[arm] += pods[arm] as f32;
        }
    }

    /// What earlier windows of the step say.
    pub fn loading(&self) -> Loading {
        if self.pods.iter().any(|pods| *pods < 3.0) || self.started.iter().any(|started| *started <= 0.0) {
            return Loading::Unknown;
        }
        let ratio = (self.started[0] / self.pods[0]) / (self.started[1] / self.pods[1]);
        if ratio > LIKE_LOAD {
            Loading::Overloaded
        } else if ratio < 1.0 / LIKE_LOAD {
            Loading::Underloaded
        } else {
            Loading::Alike
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{Load, Loading};

    #[test]
    fn loads_are_alike_when_pods_start_alike() {
        let loading = |started: [u64; 2], pods: [usize; 2]| {
            let mut load = Load::default();
            for _ in 0..5 {
                load.update(started, pods);
            }
            load.loading()
        };
        assert_eq!(loading([10, 190], [1, 4]), Loading::Underloaded);
        assert_eq!(loading([40, 160], [1, 4]), Loading::Alike);
        assert_eq!(loading([100, 100], [1, 4]), Loading::Overloaded);
        assert_eq!(loading([0, 100], [1, 4]), Loading::Unknown);
        assert_eq!(Load::default().loading(), Loading::Unknown);
    }
}
