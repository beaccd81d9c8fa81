//! What the judge reads: windows of observations, and their sums per arm. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use slipway_vocabulary::evidence::{Evidence, Histogram, MOST_UNITS, Metric, MetricWindow, Unit, window_end};

/// The side of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// The revision that serves, or the baseline that stands for it.
    Stable,
    /// The revision on trial.
    Canary,
}

/// What one pod reported of one metric in one stratum for one window.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The side the pod is on.
    pub arm: Arm,
    /// The pod's name; empty when unknown.
    pub pod: String,
    /// The metric.
    pub metric: Metric,
    /// What one observation is.
    pub unit: Unit,
    /// The stratum; empty when there is none.
    pub stratum: String,
    /// Units that started; `None` when not reported.
    pub started: Option<u64>,
    /// New sessions.
    pub new_sessions: u64,
    /// Units in flight at the window's end by their age in windows, as
    /// [`MetricWindow::in_flight_ages`](slipway_vocabulary::evidence::MetricWindow::in_flight_ages); `None` when not
    /// reported.
    pub in_flight_ages: Option<Vec<(u16, u64)>>,
    /// Units that finished, errors included.
    pub count: u64,
    /// Units that finished with an error.
    pub errors: u64,
    /// Successes per bucket.
    pub buckets: Histogram,
}

/// Everything the pods reported for one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// The second at which the window ends.
    pub end_seconds: u64,
    /// The canary's share of new traffic in the window, percent; `None` keeps the judge's own step.
    pub weight_percent: Option<f64>,
    /// The share of its reference in percent, where the reference is a baseline beside the rest of the traffic. `None`
    /// when it is compared with all the rest.
    pub reference_percent: Option<f64>,
    /// The observations, in any order.
    pub observations: Vec<Observation>,
    /// Pods that the cluster or the operator ends, by a drain or a scale-down: they finish their units, and their end
    /// is not harm. A name without what follows an `@` stands for every process of the pod. To be said once, or as
    /// often as it is true.
    pub ended_pods: BTreeSet<String>,
}

impl Window {
    /// The windows of stable's pods, put together in the order of time. A restarted container counts from zero: it has
    /// another name.
    #[must_use]
    pub fn of_stable<'a>(pods: impl IntoIterator<Item = &'a Evidence>) -> Vec<Self> {
        let mut by_id: BTreeMap<u64, Vec<Observation>> = BTreeMap::new();
        for pod in pods {
            let name = format!("{}@{}", pod.pod, pod.started_at);
            for window in &pod.windows {
                let observed = window.metrics.iter().map(|of| Observation::from_evidence(Arm::Stable, &name, of));
                by_id.entry(window.id).or_default().extend(observed);
            }
        }
        let window = |(id, observations)| Self { end_seconds: window_end(id), observations, ..Self::default() };
        by_id.into_iter().map(window).collect()
    }
}

impl Observation {
    /// Makes an observation from one window of a pod's evidence.
    #[must_use]
    pub fn from_evidence(arm: Arm, pod: &str, metric: &MetricWindow) -> Self {
        Self {
            arm,
            pod: pod.to_owned(),
            metric: metric.metric,
            unit: metric.unit,
            stratum: metric.stratum.clone(),
            started: Some(metric.started),
            new_sessions: metric.new_sessions,
            in_flight_ages: metric.ages(),
            count: metric.count,
            errors: metric.errors,
            buckets: metric.buckets.clone(),
        }
    }

    /// Whether a pod can have counted this; what passes adds up over any number of windows without an overflow.
    pub(super) fn is_plausible(&self) -> bool {
        let Self { started, new_sessions, in_flight_ages, count, errors, buckets, .. } = self;
        let old = in_flight_ages.iter().flatten().map(|(_, units)| *units);
        let units = [started.unwrap_or(0), *new_sessions, *count, *errors, buckets.count()];
        let parts = errors.saturating_add(buckets.count());
        units.into_iter().chain(old).all(|units| units <= MOST_UNITS) && parts <= *count
    }
}

/// Names a guard: a metric of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The metric.
    pub metric: Metric,
    /// The unit.
    pub unit: Unit,
}

/// The sums of one arm over pods, for one metric and one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ArmSum {
    /// Units that started.
    pub started: u64,
    /// Whether a pod does not say how many.
    pub has_unknown_starts: bool,
    /// Units in flight by their age in windows, as far as they started after their pod's warm-up.
    pub ages: BTreeMap<u16, u64>,
    /// Whether a pod does not say how old its units in flight are.
    pub has_unknown_ages: bool,
    /// Finished units, without those that are left out.
    pub count: u64,
    pub errors: u64,
    /// Errors that their pods have together with others.
    pub left_out: u64,
    /// Successes per stratum.
    pub strata: BTreeMap<String, Histogram>,
    /// The same for each pod, where pods are told apart.
    pub pods: Vec<OfPod>,
}

/// The successes of a pod in a stratum.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OfPod {
    /// The hash of the pod's name.
    pub pod: u32,
    pub stratum: String,
    pub values: Histogram,
}

/// Both arms of one metric in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Arms {
    pub canary: ArmSum,
    pub stable: ArmSum,
}

impl Arms {
    pub fn of(&self, arm: Arm) -> &ArmSum {
        match arm {
            Arm::Canary => &self.canary,
            Arm::Stable => &self.stable,
        }
    }

    fn of_mut(&mut self, arm: Arm) -> &mut ArmSum {
        match arm {
            Arm::Canary => &mut self.canary,
            Arm::Stable => &mut self.stable,
        }
    }

    /// Adds an observation. Sums only, so that the order of pods does not matter.
    pub fn add(&mut self, observation: &Observation, taken: Taken<'_>) {
        let Taken { stratum, errors, oldest_counted, pod } = taken;
        let sum = self.of_mut(observation.arm);
        sum.started = sum.started.saturating_add(observation.started.unwrap_or(0));
        sum.has_unknown_starts |= observation.started.is_none();
        sum.has_unknown_ages |= observation.in_flight_ages.is_none();
        let counted = |age: u16| oldest_counted.is_none_or(|oldest| u64::from(age) <= oldest);
        for (age, units) in observation.in_flight_ages.iter().flatten().filter(|(age, _)| counted(*age)) {
            let of_age = sum.ages.entry(*age).or_default();
            *of_age = of_age.saturating_add(*units);
        }
        let left_out = observation.errors.saturating_sub(errors);
        sum.count = sum.count.saturating_add(observation.count.saturating_sub(left_out));
        sum.errors = sum.errors.saturating_add(errors);
        sum.left_out = sum.left_out.saturating_add(left_out);
        if let Some(stratum) = stratum
            && !observation.buckets.is_empty()
        {
            if let Some(pod) = pod {
                let values = observation.buckets.clone();
                sum.pods.push(OfPod { pod, stratum: stratum.to_owned(), values });
            }
            match sum.strata.get_mut(stratum) {
                Some(histogram) => histogram.merge(&observation.buckets),
                None => {
                    sum.strata.insert(stratum.to_owned(), observation.buckets.clone());
                }
            }
        }
    }
}

/// What of an observation is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken<'a> {
    /// The stratum in which its values are compared; `None` when they are not.
    pub stratum: Option<&'a str>,
    /// Its errors, without those that its pod has together with others.
    pub errors: u64,
    /// The largest age that counts; `None` where all do.
    pub oldest_counted: Option<u64>,
    /// The hash of its pod's name, where pods are told apart.
    pub pod: Option<u32>,
}

/// Whether a stratum holds units served while caches were filling: left out of the comparison of latencies in both
/// arms.
pub(super) fn is_cold(stratum: &str) -> bool {
    stratum.split(SEPARATORS).any(|part| part.trim().eq_ignore_ascii_case("cold"))
}

/// What separates the parts of a stratum's name.
const SEPARATORS: [char; 4] = ['/', '|', ',', ';'];

/// Names of an in-flight band in the strata of other reporters; slipway's own is `f`.
const IN_FLIGHT_NAMES: [&str; 13] =
    ["f", "inflight", "in-flight", "in_flight", "load", "b", "band", "q", "queue", "c", "concurrency", "n", ""];

/// Whether a part of a stratum's name is its in-flight band: `f2`, or spelled out as `inflight=2` or `load-4-7`.
fn is_in_flight_band(part: &str) -> bool {
    let part = part.trim().to_ascii_lowercase();
    let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit());
    let name = part[..part.len() - digits.len()].trim_end_matches(['=', ':', '-', '_']);
    let is_range = digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    !digits.is_empty() && is_range && IN_FLIGHT_NAMES.contains(&name)
}

/// Whether the stratum says under how much load its units were admitted.
pub(super) fn has_in_flight_band(stratum: &str) -> bool {
    stratum.split(SEPARATORS).any(is_in_flight_band)
}

/// The in-flight band of a stratum, where it has one: the first number of that part.
pub(super) fn in_flight_band(stratum: &str) -> Option<u32> {
    let band = stratum.split(SEPARATORS).find(|part| is_in_flight_band(part))?;
    let digits = band.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The stratum without its in-flight band.
pub(super) fn without_in_flight_band(stratum: &str) -> String {
    let parts: Vec<&str> = stratum.split(SEPARATORS).filter(|part| !is_in_flight_band(part)).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{has_in_flight_band, in_flight_band, is_cold, without_in_flight_band};

    #[test]
    fn the_in_flight_band_is_found_in_the_name_of_a_stratum() {
        let names = ["miss/p11/f2", "f3", "inflight=4-7", "miss", "", "p11", "fast", "load_2|hit", "3"];
        assert_eq!(names.map(has_in_flight_band), [true, true, true, false, false, false, false, true, true]);
        assert_eq!(names.map(without_in_flight_band), ["miss/p11", "", "", "miss", "", "p11", "fast", "hit", ""]);
    }

    #[test]
    fn bands_have_an_order() {
        let names = ["miss/p11/f2", "inflight=4-7", "miss", "load_12|hit", "99999999999"];
        assert_eq!(names.map(in_flight_band), [Some(2), Some(4), None, Some(12), None]);
    }

    #[test]
    fn cold_strata_are_recognised() {
        assert_eq!(["cold/p11/f2", "miss/p11/f2", "cold", ""].map(is_cold), [true, false, true, false]);
    }
}
