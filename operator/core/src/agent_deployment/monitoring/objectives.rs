//! Every objective as it stands: target, prediction, observation. Pure.

use std::fmt;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    v1alpha1::{
        ProfileStatus,
        agent_deployment::{
            CostFigures, CostObjective, ErrorRateFigures, LatencyFigures, LatencyMetric, ObjectiveStatus,
            ThroughputFigures, ThroughputUnit, WrittenObjective,
        },
        profile::{Measurement, MeasurementPurpose},
    },
    values::readable_duration,
};
use slipway_selection::cost::dollars;

use super::observed_objectives::Counted;
use crate::agent_deployment::world::World;

/// How long an observation stays before a new figure replaces it, because every figure is a write of the status. It is
/// replaced at once if the objective is met and was not or the reverse, if the prediction changes, or if observations
/// span twice as long.
const FIGURE_STANDS: SignedDuration = SignedDuration::from_mins(15);
/// The same of a look that counts a block of drift, once in ten minutes: the status is written by it anyway.
const FIGURE_STANDS_IN_BLOCK: SignedDuration = SignedDuration::from_mins(5);

/// How many objectives traffic has judged so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Those that are met.
    pub met: i32,
    /// All of them.
    pub observed: i32,
}

impl fmt::Display for Tally {
    /// `2/3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.met, self.observed)
    }
}

/// Every objective, and how many of those that traffic has judged so far are met; nothing before the first is judged,
/// for none of three would read as a failure.
pub fn summarise(world: &World, profile: Option<&ProfileStatus>) -> (Vec<ObjectiveStatus>, Option<Tally>) {
    let slo = &world.spec.slo;
    let predicted = profile.and_then(predicting_row);
    let mut all: Vec<ObjectiveStatus> =
        slo.objectives.iter().map(|objective| latency(world, objective, predicted)).collect();
    if let Some(error_rate) = &slo.error_rate {
        let counted = counted(world, LatencyMetric::AgentRunLatency);
        let share = |errors: u64, count: u64| (count > 0).then(|| errors as f64 / count as f64);
        let observed = counted.and_then(|counted| share(counted.errors, counted.count));
        let measured = predicted.and_then(|row| share(whole(row.errors), whole(row.errors) + whole(row.count)));
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let millionths = |share: f64| (share * 1e6).round() as i64;
        let entry = ObjectiveStatus {
            predicted: measured.map(percent),
            observed: observed.map(percent),
            met: observed.map(|share| share <= error_rate.max.ratio()),
            error_rate: Some(ErrorRateFigures {
                target_parts_per_million: i64::from(error_rate.max.parts_per_million()),
                predicted_parts_per_million: measured.map(millionths),
                observed_parts_per_million: observed.map(millionths),
            }),
            ..declared("slo.errorRate", "errors", &format!("≤ {}", error_rate.max))
        };
        all.push(standing(world, entry));
    }
    if let Some(throughput) = &slo.throughput {
        let unit = match throughput.unit {
            ThroughputUnit::Runs => "runs/s",
            ThroughputUnit::Requests => "requests/s",
        };
        let replicas = i64::from(world.most_replicas().max(1));
        let measured = profile.and_then(|profile| measured_throughput(profile, throughput.unit));
        let measured = measured.map(|row| row.per_kilosecond.saturating_mul(replicas));
        let figures = ThroughputFigures {
            unit: throughput.unit,
            target_per_kilosecond: (throughput.min.value() * 1e3).round() as i64,
            predicted_per_kilosecond: measured,
        };
        let predicted = measured.map(|of_all| format!("{:.2} {unit}", of_all as f64 / 1e3));
        let entry = declared("slo.throughput", "throughput", &format!("≥ {} {unit}", throughput.min));
        all.push(ObjectiveStatus { predicted, throughput: Some(figures), ..entry });
    }
    all.extend(slo.cost.as_ref().map(|objective| cost(objective, profile)));
    let tally = tally(&all);
    (all, tally)
}

/// What serving may cost, and what the row that counts it predicts.
fn cost(CostObjective { max, unit }: &CostObjective, profile: Option<&ProfileStatus>) -> ObjectiveStatus {
    let measured = profile.and_then(|profile| measured_throughput(profile, *unit)).and_then(|row| row.cost);
    let measured = measured.map(|cost| cost.microdollars_per_thousand);
    let unit_words = unit.words();
    let figures = CostFigures {
        unit: *unit,
        target_microdollars_per_thousand: max.millionths(),
        predicted_microdollars_per_thousand: measured,
    };
    ObjectiveStatus {
        predicted: measured.map(|microdollars| format!("{}/1,000 {unit_words}", dollars(microdollars))),
        cost: Some(figures),
        ..declared("slo.cost", "cost", &format!("≤ ${max}/1,000 {unit_words}"))
    }
}

fn tally(all: &[ObjectiveStatus]) -> Option<Tally> {
    let judged: Vec<bool> = all.iter().filter_map(|entry| entry.met).collect();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let met = judged.iter().filter(|is_met| **is_met).count();
    (!judged.is_empty()).then(|| Tally { met: number(met), observed: number(judged.len()) })
}

/// Names of missed objectives. Without traffic an objective keeps its last judgement; one that is no longer declared is
/// not missed.
pub fn missed(slo: &[ObjectiveStatus], before: &[String]) -> Vec<String> {
    let is_missed = |entry: &&ObjectiveStatus| !entry.met.unwrap_or(!before.contains(&entry.name));
    slo.iter().filter(is_missed).map(|entry| entry.name.clone()).collect()
}

/// The row that predicts serving.
fn predicting_row(profile: &ProfileStatus) -> Option<&Measurement> {
    let choice = profile.choice.as_ref()?;
    profile.measurements.get(usize::try_from(choice.predicted_by).ok()?)
}

/// The row that measured the choice in a unit: confirm runs count runs, and exploring counts what the driver sends,
/// which is requests unless it replays runs.
fn measured_throughput(profile: &ProfileStatus, unit: ThroughputUnit) -> Option<&Measurement> {
    let predicting = predicting_row(profile)?;
    if unit == ThroughputUnit::Requests && predicting.purpose == MeasurementPurpose::Repeat {
        return Some(predicting);
    }
    let purpose = match unit {
        ThroughputUnit::Runs => MeasurementPurpose::Confirm,
        ThroughputUnit::Requests => MeasurementPurpose::Explore,
    };
    let is_of_choice = |row: &&Measurement| {
        (row.purpose, &row.engine, &row.configuration, row.level)
            == (purpose, &predicting.engine, &predicting.configuration, predicting.level)
    };
    profile.measurements.iter().find(is_of_choice)
}

fn whole(count: i32) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

fn declared(name: &str, objective: &str, target: &str) -> ObjectiveStatus {
    ObjectiveStatus {
        name: name.to_owned(),
        objective: objective.to_owned(),
        target: target.to_owned(),
        predicted: None,
        observed: None,
        prediction_error: None,
        observed_at: None,
        window: None,
        window_seconds: None,
        latency: None,
        error_rate: None,
        throughput: None,
        cost: None,
        met: None,
        budget: None,
    }
}

fn latency(world: &World, objective: &WrittenObjective, predicted: Option<&Measurement>) -> ObjectiveStatus {
    let WrittenObjective { name, metric, percentile, max } = objective;
    let is_it = |value: &&slipway_crds::v1alpha1::profile::MeasuredLatency| {
        value.metric == *metric && value.percentile == *percentile
    };
    let measured = predicted.and_then(|row| row.latencies.iter().find(is_it));
    let measured = measured.and_then(|value| u64::try_from(value.microseconds).ok());
    let predicted = measured.map(|value| readable_duration(value, 3));
    let entry = declared(name, &format!("{} {percentile}", metric.as_str()), &format!("≤ {max}"));
    let numbers = LatencyFigures {
        metric: *metric,
        percentile: *percentile,
        target_microseconds: number(max.microseconds()),
        predicted_microseconds: measured.map(number),
        observed_microseconds: None,
        prediction_error_percent: None,
    };
    let Some(counted) = counted(world, *metric) else {
        return standing(world, ObjectiveStatus { predicted, latency: Some(numbers), ..entry });
    };
    // An error counts as infinitely slow: the percentile covers everything that finished.
    let rank = (counted.count as f64 * percentile.probability()).ceil().max(1.0) as u64;
    let value = counted.values.value_at_rank(rank);
    let is_met = counted.beyond(max.microseconds()) as f64 <= counted.count as f64 * (1.0 - percentile.probability());
    let middle = value.map(|value| value.lower.midpoint(value.upper));
    let observed = middle.map_or_else(|| "an error".to_owned(), |middle| readable_duration(middle, 2));
    let gap = middle.zip(measured).and_then(|(middle, measured)| gap_percent(middle, measured));
    let numbers =
        LatencyFigures { observed_microseconds: middle.map(number), prediction_error_percent: gap, ..numbers };
    let figures = ObjectiveStatus {
        predicted,
        observed: Some(observed),
        // As an integer a rounded zero has no sign of its own.
        prediction_error: gap.map(|percent| format!("{percent:+}%")),
        latency: Some(numbers),
        met: Some(is_met),
        ..entry
    };
    standing(world, figures)
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// How far what is observed is from what is predicted, in percent of that.
fn gap_percent(observed: u64, predicted: u64) -> Option<i64> {
    let percent = (observed as f64 / predicted as f64 - 1.0) * 100.0;
    (predicted > 0).then(|| percent.round() as i64)
}

/// What all pods counted, where all could be asked.
fn counted(world: &World, metric: LatencyMetric) -> Option<&Counted> {
    world.observed.of_metric(metric).filter(|_| world.are_all_heard)
}

/// The entry with its times, or the earlier figure while it stays.
fn standing(world: &World, mut entry: ObjectiveStatus) -> ObjectiveStatus {
    let before = world.status.slo.iter().find(|known| known.name == entry.name && known.target == entry.target);
    if !world.are_all_heard {
        return before.cloned().unwrap_or(entry);
    }
    if entry.observed.is_none() {
        return entry;
    }
    let time = if world.live.is_empty() { FIGURE_STANDS } else { FIGURE_STANDS_IN_BLOCK };
    let stands = before.filter(|known| {
        // An earlier operator wrote no numbers: its figure is replaced at once.
        let seconds = known.window_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        known.met == entry.met
            && known.predicted == entry.predicted
            && seconds.is_some_and(|seconds| seconds.saturating_mul(2) > world.observed.window_seconds)
            && known.observed_at.as_ref().is_some_and(|at| world.now.duration_since(at.0) < time)
    });
    if let Some(before) = stands {
        return before.clone();
    }
    entry.observed_at = Some(Time(world.now));
    entry.window = Some(window(world.observed.window_seconds));
    entry.window_seconds = Some(number(world.observed.window_seconds));
    entry
}

fn window(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m", seconds.div_ceil(60)) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_a_figure_spans_is_as_coarse_as_people_say_it() {
        assert_eq!([10, 50, 60, 61, 3_600].map(window), ["10s", "50s", "1m", "2m", "60m"]);
    }

    #[test]
    fn the_gap_to_the_prediction_is_a_share_of_it() {
        let gaps =
            [(112, 100), (88, 100), (1_002, 1_000), (998, 1_000)].map(|(of, predicted)| gap_percent(of, predicted));
        assert_eq!(gaps.map(Option::unwrap), [12, -12, 0, 0]);
        assert_eq!(gap_percent(1, 0), None);
    }
}
