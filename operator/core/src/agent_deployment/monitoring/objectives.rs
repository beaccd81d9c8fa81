//! Every objective as it stands: target, prediction, observation. Pure.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    v1alpha1::{
        ProfileStatus,
        agent_deployment::{LatencyMetric, ObjectiveStatus, ThroughputUnit, WrittenObjective},
        profile::{Measurement, MeasurementPurpose},
    },
    values::{DurationText, readable_duration},
};

use crate::agent_deployment::world::World;

/// How long an observation stands before a new figure replaces it, unless the objective is met now and was not, or the other way
/// round, or something else is predicted, or the observations span twice as long as those of the figure: every figure is a write of the
/// status.
const FIGURE_STANDS: SignedDuration = SignedDuration::from_mins(5);

/// Every objective, and how many of those that traffic has judged so far are met: `2/3`; nothing before the first is judged,
/// for `0/3` would read as a failure.
pub fn summarise(world: &World, profile: Option<&ProfileStatus>) -> (Vec<ObjectiveStatus>, Option<String>) {
    let slo = &world.spec.slo;
    let predicted = profile.and_then(predicting_row);
    let mut all: Vec<ObjectiveStatus> =
        slo.objectives.iter().map(|objective| latency(world, objective, predicted)).collect();
    if let Some(error_rate) = &slo.error_rate {
        let counted = world.observed.of_metric(LatencyMetric::AgentRunLatency);
        let share = |errors: u64, count: u64| (count > 0).then(|| errors as f64 / count as f64);
        let observed = counted.and_then(|counted| share(counted.errors, counted.count));
        let measured = predicted.and_then(|row| share(whole(row.errors), whole(row.errors) + whole(row.count)));
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let entry = ObjectiveStatus {
            predicted: measured.map(percent),
            observed: observed.map(percent),
            met: observed.map(|share| share <= error_rate.max.ratio()),
            ..declared("slo.errorRate", "errors", &format!("≤ {}", error_rate.max))
        };
        all.push(standing(world, entry));
    }
    if let Some(throughput) = &slo.throughput {
        let unit = match throughput.unit {
            ThroughputUnit::Runs => "runs/s",
            ThroughputUnit::Requests => "requests/s",
        };
        let replicas = f64::from(world.most_replicas().max(1));
        let measured = profile.and_then(|profile| measured_throughput(profile, throughput.unit));
        let predicted = measured.map(|row| format!("{:.2} {unit}", row.per_kilosecond as f64 * replicas / 1e3));
        let entry = declared("slo.throughput", "throughput", &format!("≥ {} {unit}", throughput.min));
        all.push(ObjectiveStatus { predicted, ..entry });
    }
    let judged = all.iter().filter_map(|entry| entry.met);
    let total = judged.clone().count();
    let met = judged.filter(|is_met| *is_met).count();
    (all, (total > 0).then(|| format!("{met}/{total}")))
}

/// Names of the objectives that are missed: an objective that traffic does not judge now stays as it was judged last, one that is
/// declared no more is not missed.
pub fn missed(slo: &[ObjectiveStatus], before: &[String]) -> Vec<String> {
    let is_missed = |entry: &&ObjectiveStatus| !entry.met.unwrap_or(!before.contains(&entry.name));
    slo.iter().filter(is_missed).map(|entry| entry.name.clone()).collect()
}

/// The row that says what serving will be like.
fn predicting_row(profile: &ProfileStatus) -> Option<&Measurement> {
    let choice = profile.choice.as_ref()?;
    profile.measurements.get(usize::try_from(choice.predicted_by).ok()?)
}

/// The row that measured the choice in a unit: confirm runs count runs, and exploring counts what the driver sends, which is
/// requests unless it replays runs.
fn measured_throughput(profile: &ProfileStatus, unit: ThroughputUnit) -> Option<&Measurement> {
    let predicting = predicting_row(profile)?;
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
    let Some(counted) = world.observed.of_metric(*metric) else {
        return standing(world, ObjectiveStatus { predicted, ..entry });
    };
    // An error took for ever: the percentile is one of everything that finished.
    let rank = (counted.count as f64 * percentile.probability()).ceil().max(1.0) as u64;
    let value = counted.values.value_at_rank(rank);
    let is_met = counted.beyond(max.microseconds()) as f64 <= counted.count as f64 * (1.0 - percentile.probability());
    let middle = value.map(|value| value.lower.midpoint(value.upper));
    let observed = middle.map_or_else(|| "an error".to_owned(), |middle| readable_duration(middle, 2));
    let prediction_error = middle.zip(measured).and_then(|(middle, measured)| gap(middle, measured));
    let figures = ObjectiveStatus { predicted, observed: Some(observed), prediction_error, met: Some(is_met), ..entry };
    standing(world, figures)
}

/// How far what is observed is from what is predicted, in percent of that.
fn gap(observed: u64, predicted: u64) -> Option<String> {
    let percent = (observed as f64 / predicted as f64 - 1.0) * 100.0;
    // As an integer a rounded zero has no sign of its own.
    (predicted > 0).then(|| format!("{:+}%", percent.round() as i64))
}

/// The entry with its times; the figure of before, while it stands.
fn standing(world: &World, mut entry: ObjectiveStatus) -> ObjectiveStatus {
    if entry.observed.is_none() {
        return entry;
    }
    let before = world.status.slo.iter().find(|known| known.name == entry.name && known.target == entry.target);
    let stands = before.filter(|known| {
        known.met == entry.met
            && known.predicted == entry.predicted
            && spanned(known.window.as_deref()) * 2 > world.observed.window_seconds
            && known.observed_at.as_ref().is_some_and(|at| world.now.duration_since(at.0) < FIGURE_STANDS)
    });
    if let Some(before) = stands {
        return before.clone();
    }
    entry.observed_at = Some(Time(world.now));
    entry.window = Some(window(world.observed.window_seconds));
    entry
}

/// The seconds that a figure of before speaks of, as [`window`] wrote them.
fn spanned(window: Option<&str>) -> u64 {
    let span = window.and_then(|text| text.parse::<DurationText>().ok());
    span.map_or(0, |span| span.seconds_rounded_up())
}

fn window(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m", seconds.div_ceil(60)) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_a_figure_spans_is_read_as_it_was_written() {
        assert_eq!([10, 50, 60, 61, 3_600].map(|seconds| spanned(Some(&window(seconds)))), [10, 50, 60, 120, 3_600]);
        assert_eq!(spanned(None), 0);
    }

    #[test]
    fn the_gap_to_the_prediction_is_a_share_of_it() {
        let gaps =
            [(112, 100), (88, 100), (1_002, 1_000), (998, 1_000)].map(|(observed, predicted)| gap(observed, predicted));
        assert_eq!(gaps.map(Option::unwrap), ["+12%", "-12%", "+0%", "+0%"]);
        assert_eq!(gap(1, 0), None);
    }
}
