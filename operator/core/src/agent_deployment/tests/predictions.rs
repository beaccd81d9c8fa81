//! A choice that campaigns measured as slower than what serves.

use pretty_assertions::assert_eq;
use slipway_analysis::judge::Prediction;
use slipway_crds::{
    v1alpha1::{
        agent_deployment::LatencyMetric,
        profile::{MeasuredCost, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict, ProfilePhase},
    },
    values::Percentile,
};
use slipway_vocabulary::evidence::Metric;

use super::{
    cluster::Cluster,
    profiling::{end, ended, profiled},
    trial::{EQUAL, ROLLOUT, Trial},
};
use crate::agent_deployment::rollout::prediction::ratios;

const REQUEST: LatencyMetric = LatencyMetric::RequestLatency;
const FIRST_TOKEN: LatencyMetric = LatencyMetric::RequestTimeToFirstToken;
const RUN: LatencyMetric = LatencyMetric::AgentRunLatency;

/// The row by which the latest campaign predicts what its choice will be, in milliseconds.
fn measured(cluster: &mut Cluster, latencies: &[(LatencyMetric, i64)], edit: impl FnOnce(&mut Measurement)) {
    let name = cluster.world.status.profile.clone().expect("a campaign has ended");
    let row = &mut cluster.world.profiles.get_mut(&name).expect("the Profile exists").measurements[0];
    row.verdict = MeasurementVerdict::Feasible;
    let latency = |(metric, milliseconds): &(LatencyMetric, i64)| {
        let microseconds = 1_000 * milliseconds;
        let percentile = Percentile::P95;
        MeasuredLatency { metric: *metric, percentile, microseconds, lower: microseconds, upper: Some(microseconds) }
    };
    row.latencies = latencies.iter().map(latency).collect();
    edit(row);
}

/// What is predicted once a campaign has chosen the other engine.
fn predicted(
    before: &[(LatencyMetric, i64)],
    after: &[(LatencyMetric, i64)],
    edit: impl Fn(&mut Measurement, bool),
) -> Vec<(Metric, u32)> {
    let cluster = chosen_anew(profiled(), (before, after), edit);
    let plan = |hash: &str| &cluster.world.revision(hash).expect("it is recorded").plan;
    let predictions = ratios(&cluster.world, plan(&cluster.stable()), plan(&cluster.canary()));
    predictions.into_iter().map(|Prediction { metric, ratio_percent }| (metric, ratio_percent)).collect()
}

/// Metrics with what was measured of them, in milliseconds.
type Latencies<'a> = &'a [(LatencyMetric, i64)];

/// A campaign has chosen the other engine.
fn chosen_anew(
    cluster: Cluster,
    (before, after): (Latencies<'_>, Latencies<'_>),
    edit: impl Fn(&mut Measurement, bool),
) -> Cluster {
    let mut cluster = ended(cluster, ProfilePhase::Chosen).with_pods_ready();
    measured(&mut cluster, before, |row| edit(row, false));
    let mut cluster = cluster.edited(|spec| spec.slo.objectives[0].max = "600ms".parse().expect("a duration"));
    cluster.settle();
    let name = cluster.world.status.profile.clone().expect("a campaign is under way");
    let engine = cluster.world.status.engines[0].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    measured(&mut cluster, after, |row| edit(row, true));
    cluster.settle();
    cluster
}

/// A canary of another engine, a million of whose tokens are predicted to cost so much instead of a dollar.
fn canary_that_costs(microdollars: i64) -> Trial {
    let rollout = format!(
        "{}  costs: [{{metric: CostPerRun, maxIncrease: 20%}}]",
        ROLLOUT.replace("judge: {warmUp: 0s}", "judge:\n  warmUp: 0s")
    );
    let cluster = profiled().edited(|spec| {
        spec.serving.replicas = 4;
        spec.rollout = serde_norway::from_str(&rollout).expect("a valid rollout");
    });
    let cost = |row: &mut Measurement, is_after: bool| {
        let of_tokens = if is_after { microdollars } else { 1_000_000 };
        let (microdollars_per_thousand, microdollars_per_million_tokens) = (350_000, Some(of_tokens));
        row.cost = Some(MeasuredCost { microdollars_per_thousand, microdollars_per_million_tokens });
    };
    let mut trial = Trial::on(chosen_anew(cluster, (&[(REQUEST, 200)], &[(REQUEST, 200)]), cost));
    trial.settle();
    trial.cluster.ready_pods();
    trial.settle();
    trial
}

/// No traffic is needed to see it.
#[test]
fn an_engine_whose_tokens_cost_more_than_runs_may_is_rolled_back_for_its_price() {
    let mut dear = canary_that_costs(1_500_000);
    dear.serve(60, EQUAL);
    let rejected = dear.rollout().rejected;
    let words = "CostPerRun: a million output tokens are predicted to cost $1.50 instead of $1.00, 50 % more, and \
                 rollout.judge.costs allows 20 %";
    assert_eq!(rejected.len(), 1, "{:?}", dear.rollout());
    assert!(rejected[0].reason.contains(words), "{}", rejected[0].reason);
    let mut dearer_within_the_margin = canary_that_costs(1_100_000);
    dearer_within_the_margin.serve(60, EQUAL);
    assert_eq!(dearer_within_the_margin.rollout().rejected.len(), 0);
    assert!(dearer_within_the_margin.canary().is_some());
}

fn as_measured(_: &mut Measurement, _: bool) {}

/// Else a plan that was chosen though it is slower would be rolled back for what no objective names.
#[test]
fn what_was_not_measured_is_expected_to_be_as_much_slower_as_what_it_is_a_part_of() {
    let all = predicted(&[(REQUEST, 200), (FIRST_TOKEN, 40)], &[(REQUEST, 400), (FIRST_TOKEN, 60)], as_measured);
    let of_request = [
        (Metric::RequestLatency, 200),
        (Metric::RequestTimeToFirstToken, 150),
        (Metric::InterTokenLatency, 200),
        (Metric::ModelTime, 200),
    ];
    assert_eq!(all, of_request);
    let runs = predicted(&[(RUN, 1_000)], &[(RUN, 1_300)], as_measured);
    let of_run = [
        (Metric::RequestLatency, 130),
        (Metric::RequestTimeToFirstToken, 130),
        (Metric::InterTokenLatency, 130),
        (Metric::ModelTime, 130),
        (Metric::AgentRunLatency, 130),
    ];
    assert_eq!(runs, of_run);
}

#[test]
fn only_measurements_that_were_made_alike_predict_a_ratio() {
    let of = |edit: fn(&mut Measurement, bool)| predicted(&[(REQUEST, 200)], &[(REQUEST, 400)], edit).len();
    let confirmed: fn(&mut Measurement, bool) = |row, _| row.purpose = MeasurementPurpose::Confirm;
    let only_one: fn(&mut Measurement, bool) = |row, is_after| {
        row.purpose = if is_after { MeasurementPurpose::Confirm } else { MeasurementPurpose::Explore };
    };
    let other_level: fn(&mut Measurement, bool) = |row, is_after| row.level = if is_after { 16 } else { 8 };
    let infeasible: fn(&mut Measurement, bool) = |row, _| row.verdict = MeasurementVerdict::Infeasible;
    let open: fn(&mut Measurement, bool) = |row, _| row.verdict = MeasurementVerdict::Unbounded;
    let open_round: fn(&mut Measurement, bool) = |row, _| {
        (row.purpose, row.verdict) = (MeasurementPurpose::Repeat, MeasurementVerdict::Unbounded);
    };
    assert_eq!([confirmed, only_one, other_level, infeasible, open].map(of), [4, 0, 0, 0, 0]);
    assert_eq!(of(open_round), predicted(&[(REQUEST, 200)], &[(REQUEST, 400)], |_, _| {}).len());
}
