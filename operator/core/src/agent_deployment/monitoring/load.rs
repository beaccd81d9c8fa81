//! How much work the serving pods have, from what they count in windows of ten seconds. Pure.

use std::collections::BTreeMap;

use slipway_vocabulary::evidence::{Evidence, Metric, WINDOW_SECONDS, window_id};

use super::counted::CountedHour;

/// Windows whose mean is one look at the load: half a minute, for a single window is noise.
const WINDOWS_OF_A_LOOK: u64 = 3;
/// Seconds after the end of a window in which a pod has counted it.
const GRACE_SECONDS: u64 = 2;
/// Refused runs count as admitted ones, up to as many of them: clients that try again are refused again.
const MOST_REFUSED_PER_ADMITTED: u64 = 1;
/// Means are in millionths, so that numbers of pods follow from them without rounding.
pub const MILLIONTHS: u64 = 1_000_000;

/// What the pods of the revisions with traffic carried, window by window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedLoad {
    windows: BTreeMap<u64, Carried>,
    /// Pods that were asked.
    asked: i32,
    /// Pods that answered.
    answered: i32,
    /// Pods that have finished a window.
    reporting: i32,
    /// Pods that count what they carry.
    counting: i32,
}

/// What all pods together carried in one window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Carried {
    pods: i32,
    model_request_microseconds: u64,
    run_microseconds: u64,
    admitted: u64,
    refused: u64,
}

/// What all pods together carried, on average over a look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// Pods that reported throughout.
    pub pods: i32,
    /// Model requests in flight, in millionths.
    pub requests: u64,
    /// Runs in flight, in millionths.
    pub runs: u64,
    /// Runs that were admitted.
    pub admitted: u64,
    /// Runs that were refused because a pod was full.
    pub refused: u64,
}

/// Why nothing is known of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// No pod answers.
    Silent {
        /// Pods that were asked.
        asked: i32,
    },
    /// Pods answer that are too new to have finished a window.
    TooNew,
    /// Pods answer that do not count what they carry.
    NotCounted,
}

impl ObservedLoad {
    /// Adds up what pods report; a pod that does not answer adds nothing.
    pub fn of<'a>(pods: impl IntoIterator<Item = Option<&'a Evidence>>) -> Self {
        let mut load = Self::default();
        for pod in pods {
            load.asked += 1;
            load.answered += i32::from(pod.is_some());
            let windows = pod.map(|pod| pod.windows.as_slice()).unwrap_or_default();
            load.reporting += i32::from(!windows.is_empty());
            load.counting += i32::from(windows.iter().any(|window| window.load.is_some()));
            for window in windows {
                let Some(counted) = &window.load else { continue };
                let carried = load.windows.entry(window.id).or_default();
                carried.pods += 1;
                add(&mut carried.model_request_microseconds, counted.model_request_microseconds);
                add(&mut carried.run_microseconds, counted.run_microseconds);
                for row in &window.metrics {
                    match row.metric {
                        Metric::AgentRunLatency => add(&mut carried.admitted, row.started),
                        Metric::Shed => add(&mut carried.refused, row.count),
                        _ => {}
                    }
                }
            }
        }
        load
    }

    /// Adds up what is remembered of pods; a pod that does not answer adds nothing.
    pub fn of_hours<'a>(pods: impl IntoIterator<Item = Option<&'a CountedHour>>) -> Self {
        let mut load = Self::default();
        for pod in pods {
            load.asked += 1;
            load.answered += i32::from(pod.is_some());
            let counting = || pod.into_iter().flat_map(CountedHour::loads);
            load.reporting += i32::from(counting().next().is_some());
            load.counting += i32::from(counting().any(|window| window.load.is_some()));
            for window in counting() {
                let Some(counted) = window.load else { continue };
                let carried = load.windows.entry(window.id).or_default();
                carried.pods += 1;
                add(&mut carried.model_request_microseconds, counted.model_request_microseconds);
                add(&mut carried.run_microseconds, counted.run_microseconds);
                add(&mut carried.admitted, window.admitted);
                add(&mut carried.refused, window.refused);
            }
        }
        load
    }

    /// The look whose last window has ended just now.
    ///
    /// # Errors
    /// When no pod has counted anything in it.
    pub fn present(&self, now_seconds: u64) -> Result<Look, Unknown> {
        let look = self.look(end(now_seconds));
        look.ok_or(match (self.answered, self.reporting, self.counting) {
            (0, _, _) => Unknown::Silent { asked: self.asked },
            (_, 1.., 0) => Unknown::NotCounted,
            (_, _, _) => Unknown::TooNew,
        })
    }

    /// Every look whose last window ended within so many seconds, except those in which nothing was reported.
    pub fn past(&self, now_seconds: u64, seconds: u64) -> impl Iterator<Item = Option<Look>> {
        let end = end(now_seconds);
        (end.saturating_sub(seconds / WINDOW_SECONDS)..=end).map(|end| self.look(end))
    }

    /// The windows before this one; those that nobody reported are left out of the mean, but not of the number of pods.
    fn look(&self, end: u64) -> Option<Look> {
        let begin = end.saturating_sub(WINDOWS_OF_A_LOOK);
        let windows: Vec<&Carried> = self.windows.range(begin..end).map(|(_, carried)| carried).collect();
        let reported = u64::try_from(windows.len()).ok().filter(|reported| *reported > 0)?;
        let sum = |of: fn(&Carried) -> u64| windows.iter().fold(0_u64, |sum, carried| sum.saturating_add(of(carried)));
        // Microseconds over seconds are millionths.
        let mean = |of: fn(&Carried) -> u64| sum(of) / (reported * WINDOW_SECONDS);
        let fewest = windows.iter().map(|carried| carried.pods).min().unwrap_or(0);
        Some(Look {
            pods: if reported == WINDOWS_OF_A_LOOK { fewest } else { 0 },
            requests: mean(|carried| carried.model_request_microseconds),
            runs: mean(|carried| carried.run_microseconds),
            admitted: sum(|carried| carried.admitted),
            refused: sum(|carried| carried.refused),
        })
    }
}

impl Look {
    /// What would have been in flight without refusals: refused runs would have taken as long as the others (Little's
    /// law).
    pub fn with_refused(&self, in_flight: u64) -> u64 {
        let admitted = self.admitted.max(1);
        let refused = self.refused.min(admitted.saturating_mul(MOST_REFUSED_PER_ADMITTED));
        let would_have_stayed = u128::from(in_flight) * u128::from(refused) / u128::from(admitted);
        in_flight.saturating_add(u64::try_from(would_have_stayed).unwrap_or(u64::MAX))
    }

    /// Whether the model is what at least half of the runs in flight wait for.
    pub fn is_busy_with_the_model(&self) -> bool {
        self.requests.saturating_mul(2) >= self.runs
    }
}

/// Adds what a pod counted; sums saturate, for pods of tenants decide what they report.
fn add(sum: &mut u64, counted: u64) {
    *sum = sum.saturating_add(counted);
}

/// The window after the last that every pod has counted.
fn end(now_seconds: u64) -> u64 {
    window_id(now_seconds.saturating_sub(GRACE_SECONDS))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// A pod with so many seconds of model requests in each of its windows, and twice as many of runs.
    fn pod(windows: &[(u64, u64)]) -> Evidence {
        let window = |(id, seconds): &(u64, u64)| {
            let row = |metric, started, count| json!({"metric": metric, "unit": "Run", "started": started, "count": count, "errors": 0});
            let (requests, runs) = (seconds * MILLIONTHS, 2 * seconds * MILLIONTHS);
            json!({"id": id, "metrics": [row("AgentRunLatency", 4, 3), row("Shed", 0, 1)],
                "load": {"runMicroseconds": runs, "modelRequestMicroseconds": requests}})
        };
        let windows: Vec<_> = windows.iter().map(window).collect();
        serde_json::from_value(json!({"revision": "r", "pod": "p", "startedAt": "t", "windows": windows}))
            .expect("evidence")
    }

    fn load(pods: &[Evidence]) -> ObservedLoad {
        ObservedLoad::of(pods.iter().map(Some))
    }

    #[test]
    fn a_look_is_the_mean_of_three_windows_over_all_pods() {
        let load = load(&[pod(&[(97, 1), (98, 10), (99, 20)]), pod(&[(97, 10), (98, 10), (99, 69)])]);
        let look = Look { pods: 2, requests: 4 * MILLIONTHS, runs: 8 * MILLIONTHS, admitted: 24, refused: 6 };
        assert_eq!(load.present(1_002), Ok(look));
        // Until two seconds after its end a window is not counted.
        assert_eq!(load.present(1_001).map(|look| (look.pods, look.requests)), Ok((0, 31 * MILLIONTHS / 20)));
    }

    #[test]
    fn a_pod_that_was_not_there_throughout_is_no_pod_that_reported() {
        let load = load(&[pod(&[(97, 10), (98, 10), (99, 10)]), pod(&[(99, 30)])]);
        assert_eq!(load.present(1_002).map(|look| (look.pods, look.requests)), Ok((1, 2 * MILLIONTHS)));
    }

    #[test]
    fn looks_of_the_past_are_as_many_as_windows_have_ended() {
        let load = load(&[pod(&[(98, 10), (99, 10)])]);
        let past: Vec<_> = load.past(1_002, 30).map(|look| look.map(|look| look.requests)).collect();
        assert_eq!(past, [None, None, Some(MILLIONTHS), Some(MILLIONTHS)]);
    }

    #[test]
    fn what_is_not_known_has_a_reason() {
        assert_eq!(ObservedLoad::of([None, None]).present(1_002), Err(Unknown::Silent { asked: 2 }));
        assert_eq!(load(&[pod(&[])]).present(1_002), Err(Unknown::TooNew));
        let mut before = pod(&[(99, 10)]);
        before.windows[0].load = None;
        assert_eq!(load(&[before]).present(1_002), Err(Unknown::NotCounted));
    }

    #[test]
    fn sums_of_any_size_saturate() {
        let most = u64::MAX;
        let row = json!({"metric": "AgentRunLatency", "unit": "Run", "started": most, "count": most, "errors": 0});
        let load = json!({"runMicroseconds": most, "modelRequestMicroseconds": most});
        let window = |id: u64| json!({"id": id, "metrics": [row], "load": load});
        let windows = [window(97), window(98), window(99)];
        let pod: Evidence =
            serde_json::from_value(json!({"revision": "r", "pod": "p", "startedAt": "t", "windows": windows}))
                .expect("evidence");
        let look = ObservedLoad::of([Some(&pod), Some(&pod)]).present(1_002).expect("a look");
        let requests = u64::MAX / 30;
        assert_eq!(look, Look { pods: 2, requests, runs: requests, admitted: most, refused: 0 });
        assert_eq!(Look { refused: most, ..look }.with_refused(most), most);
        assert!(look.is_busy_with_the_model());
    }

    #[test]
    fn refused_runs_count_as_admitted_ones_and_never_for_more() {
        let look = |admitted, refused| Look { admitted, refused, ..Look::default() };
        let counted = [(10, 0), (10, 5), (10, 1_000), (0, 3)].map(|(a, r)| look(a, r).with_refused(100));
        assert_eq!(counted, [100, 150, 200, 200]);
    }
}
