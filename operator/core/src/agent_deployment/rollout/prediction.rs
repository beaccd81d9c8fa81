//! What profiling predicts of a change: how much slower a cheaper configuration may be without doing harm. Pure.

use slipway_analysis::judge::Prediction;
use slipway_crds::v1alpha1::{
    ProfileStatus,
    agent_deployment::{LatencyMetric, WrittenObjective},
    profile::{MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict},
};
use slipway_selection::{close, select::milliseconds};
use slipway_vocabulary::evidence::Metric;

use super::{
    World,
    revision::{RevisionPlan, ServedArtifact},
};
use crate::agent_deployment::profiling;

/// The ratio of the new plan's latency to that of the serving one, for the metrics that a changed engine is held by.
///
/// Measurements have what their driver counts and what the objectives name. The whole request stands for a part of it
/// that was not measured, and for a run's time at the model, which is made of requests. Without any request the whole
/// run does: its tools take the same time in both, which makes its ratio smaller.
pub(in super::super) fn ratios(world: &World, stable: &RevisionPlan, canary: &RevisionPlan) -> Vec<Prediction> {
    let Some((before, after)) = comparable(world, stable, canary) else { return Vec::new() };
    let measured = |metric| ratio_percent(before, after, metric);
    let run = measured(LatencyMetric::AgentRunLatency);
    let request = measured(LatencyMetric::RequestLatency).or(run);
    let of_metrics = [
        (Metric::RequestLatency, request),
        (Metric::RequestTimeToFirstToken, measured(LatencyMetric::RequestTimeToFirstToken).or(request)),
        (Metric::InterTokenLatency, measured(LatencyMetric::InterTokenLatency).or(request)),
        (Metric::ModelTime, request),
        (Metric::AgentRunLatency, run),
        (Metric::TimeToFirstToken, measured(LatencyMetric::TimeToFirstToken)),
    ];
    of_metrics
        .into_iter()
        .filter_map(|(metric, ratio_percent)| Some(Prediction { metric, ratio_percent: ratio_percent? }))
        .collect()
}

fn ratio_percent(before: &Measurement, after: &Measurement, metric: LatencyMetric) -> Option<u32> {
    let (before, after) = largest_common(before, after, metric)?;
    let percent = u32::try_from(after.checked_mul(100)?.checked_div(before)?).ok()?;
    Some(percent.clamp(1, 100_000))
}

/// Measurements of both plans that were made alike: by confirm runs, or by as many requests in flight where nothing was
/// confirmed.
fn comparable<'a>(
    world: &'a World,
    stable: &RevisionPlan,
    canary: &RevisionPlan,
) -> Option<(&'a Measurement, &'a Measurement)> {
    let both = |is_confirmed| feasible(world, stable, is_confirmed).zip(feasible(world, canary, is_confirmed));
    let is_alike = |(before, after): &(&Measurement, &Measurement)| before.level == after.level;
    both(true).or_else(|| both(false).filter(is_alike))
}

/// What a million output tokens are predicted to cost, in millionths of a US dollar.
pub(in super::super) struct TokenCosts {
    /// Of the plan that serves.
    pub before: i64,
    /// Of the new one.
    pub after: i64,
}

/// What tokens of both plans cost, where measurements that were made alike counted them, and had a price.
pub(in super::super) fn token_costs(world: &World, stable: &RevisionPlan, canary: &RevisionPlan) -> Option<TokenCosts> {
    let (before, after) = comparable(world, stable, canary)?;
    let of = |row: &Measurement| row.cost?.microdollars_per_million_tokens.filter(|cost| *cost > 0);
    Some(TokenCosts { before: of(before)?, after: of(after)? })
}

/// What profiling predicts of a change, for people: every objective and the throughput, as `field: from -> to`.
pub(in super::super) fn changes(world: &World, stable: Option<&RevisionPlan>, canary: &RevisionPlan) -> Vec<String> {
    let row = |plan: &RevisionPlan| latest(world).find_map(|(_, profile)| predicting(profile, plan));
    let (before, after) = (stable.and_then(row), row(canary));
    let both = |of: &dyn Fn(&Measurement) -> Option<String>| {
        let text = |row: Option<&Measurement>| row.and_then(of).unwrap_or_else(|| "not measured".to_owned());
        (text(before), text(after))
    };
    let mut lines = Vec::new();
    for WrittenObjective { name, metric, percentile, max } in &world.spec.slo.objectives {
        let is_it = |value: &&MeasuredLatency| value.metric == *metric && value.percentile == *percentile;
        let (before, after) =
            both(&|row| row.latencies.iter().find(is_it).map(|value| milliseconds(value.microseconds)));
        lines.push(format!("predicted {name} ({} {percentile}, at most {max}): {before} -> {after}", metric.as_str()));
    }
    let (before, after) = both(&|row| Some(format!("{:.2}", row.per_kilosecond as f64 / 1e3)));
    lines.push(format!("predicted throughput of a replica, a second: {before} -> {after}"));
    lines
}

/// The campaign that chose a plan.
pub(in super::super) fn campaign<'a>(world: &'a World, plan: &RevisionPlan) -> Option<&'a String> {
    latest(world).find_map(|(name, profile)| predicting(profile, plan).map(|_| name))
}

/// Campaigns, the latest first where it is known which that is.
fn latest(world: &World) -> impl Iterator<Item = (&String, &ProfileStatus)> {
    let latest = world.campaigns.iter().filter_map(|campaign| world.profiles.get_key_value(&campaign.name));
    latest.chain(&world.profiles)
}

/// The measurement by which a campaign, any that is kept, predicts what a plan will be: a confirm run, or not.
fn feasible<'a>(world: &'a World, plan: &RevisionPlan, is_confirmed: bool) -> Option<&'a Measurement> {
    world.profiles.values().find_map(|profile| {
        let row = predicting(profile, plan)?;
        let is_it = (row.purpose == MeasurementPurpose::Confirm) == is_confirmed;
        // That the point of an open round meets the objectives was shown by its first measurement.
        let holds = row.verdict == MeasurementVerdict::Feasible || close::is_open_round(row);
        (is_it && holds).then_some(row)
    })
}

/// The row by which a campaign predicts what a plan will be, if it chose that plan.
fn predicting<'a>(profile: &'a ProfileStatus, plan: &RevisionPlan) -> Option<&'a Measurement> {
    let ServedArtifact { engine, configuration, .. } = plan.served.artifact()?;
    let choice = profile.choice.as_ref().filter(|choice| {
        // A configuration that is named by its number is known to its own campaign only.
        choice.engine == engine.name
            && choice.level == plan.max_in_flight
            && choice.configuration == profiling::name(configuration, usize::MAX)
    })?;
    profile.measurements.get(usize::try_from(choice.predicted_by).ok()?)
}

/// The same percentile of both, the highest that both have.
fn largest_common(stable: &Measurement, canary: &Measurement, metric: LatencyMetric) -> Option<(i64, i64)> {
    let of = |row: &Measurement| {
        let mut values: Vec<_> = row
            .latencies
            .iter()
            .filter(|value| value.metric == metric)
            .map(|value| (value.percentile.per_mille(), value.microseconds))
            .collect();
        values.sort_unstable();
        values
    };
    let before = of(stable);
    of(canary).into_iter().rev().find_map(|(percentile, after)| {
        let (_, before) = before.iter().find(|(other, _)| *other == percentile)?;
        Some((*before, after))
    })
}
