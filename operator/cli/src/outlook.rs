//! What a rollout brings at today's traffic, before it starts and while it runs. Pure.
//!
//! Stable's pods have counted an hour of their own latencies. That says when a revision that equals stable would be
//! promoted, and when a slower one would be found, under the steps of the spec and under fewer of them.

use slipway_analysis::judge::{
    Config, CostGuard, CountedObjective, Expectation, Observation, Reference, Step, Window,
    config::margin_bins,
    power::{CanaryPods, Outlook, Plan, UnitsAtPercentile, outlooks, units_at_percentiles},
};
use slipway_crds::v1alpha1::{
    AgentDeployment,
    agent_deployment::{Baseline, Rollout, RolloutStep, TrafficType},
};
use slipway_vocabulary::{
    LatencyObjective,
    evidence::{Evidence, Metric, WINDOW_SECONDS},
};

use crate::table::{counted, indented, table};

/// How many times as long the model calls of the slower revision take.
const SLOWER: f64 = 1.5;

/// Shares of the default schedule, in percent.
const DEFAULT_WEIGHTS: [i32; 3] = [5, 20, 50];

/// The largest share of a canary beside a baseline, in percent.
const LARGEST_BESIDE_BASELINE: i32 = 33;

/// Whether rollouts of this AgentDeployment are judged.
pub fn is_judged(object: &AgentDeployment) -> bool {
    object.spec.rollout.traffic.r#type != TrafficType::BlueGreen
}

/// How long verdicts take at the traffic of the last hour.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Seconds of traffic that it rests on.
    pub seconds: u64,
    /// Runs that began per second, over all pods.
    pub runs_per_second: f64,
    /// Stable's pods.
    pub pods: usize,
    /// The steps of the spec, and fewer of them.
    pub outlooks: Vec<Outlook>,
    /// What a promotion takes at the percentiles of objectives.
    pub at_percentiles: Vec<UnitsAtPercentile>,
}

/// Gives the time to a verdict under the steps of the spec and under fewer of them. None if rollouts are not judged, or
/// no pod of stable has counted anything.
pub fn forecast(object: &AgentDeployment, pods: &[Evidence]) -> Option<Forecast> {
    let status = object.status.as_ref().and_then(|status| status.rollout.as_ref());
    let stable = status.and_then(|rollout| rollout.stable.as_ref());
    let pods: Vec<&Evidence> = pods.iter().filter(|pod| stable.is_none_or(|stable| pod.revision == *stable)).collect();
    let windows = Window::of_stable(pods.iter().copied());
    let plan = plan(&object.spec.rollout, pods.len());
    if !is_judged(object) || windows.is_empty() || plan.steps.is_empty() {
        return None;
    }
    let config = config(object, &plan);
    let seconds = windows.len() as u64 * WINDOW_SECONDS;
    Some(Forecast {
        seconds,
        runs_per_second: runs(&windows) as f64 / seconds as f64,
        pods: pods.len(),
        outlooks: outlooks(&config, &windows, &plan, SLOWER),
        at_percentiles: units_at_percentiles(&config, &windows),
    })
}

/// Runs that began in windows.
fn runs(windows: &[Window]) -> u64 {
    let of_runs = |observation: &&Observation| observation.metric == Metric::AgentRunLatency;
    let observed = windows.iter().flat_map(|window| &window.observations).filter(of_runs);
    observed.filter_map(|observation| observation.started).fold(0, u64::saturating_add)
}

/// Gives a forecast as a table. It is empty where there is none.
pub fn outlook(object: &AgentDeployment, pods: &[Evidence]) -> String {
    let Some(forecast) = forecast(object, pods) else { return String::new() };
    let mut text = table(&HEADER.map(str::to_uppercase).each_ref().map(String::as_str), &rows(&forecast));
    notes(object, &forecast).iter().for_each(|note| text.push_str(&format!("{note}\n")));
    format!("{}:\n{}", title(&forecast), indented(&text))
}

/// What the columns of [`rows`] are.
pub(crate) const HEADER: [&str; 3] =
    ["Steps", "An equal revision is promoted after", "One 50 % slower is rolled back within"];

/// A row for the steps of the spec, and for fewer of them.
pub(crate) fn rows(forecast: &Forecast) -> Vec<Vec<String>> {
    forecast.outlooks.iter().map(row).collect()
}

/// What a reader of [`rows`] must know.
pub(crate) fn notes(object: &AgentDeployment, forecast: &Forecast) -> Vec<String> {
    let judge = &object.spec.rollout.judge;
    let mut notes = vec![format!(
        "equal: shown to be slower by less than {}; slower: the model calls are, and 95 of 100 are found by then",
        judge.max_regression
    )];
    if forecast.outlooks.len() > 1 {
        notes.push("fewer steps are faster, and a bad revision has more users from the start".to_owned());
    }
    if !judge.costs.is_empty() || judge.task_failures.is_some() {
        notes.push("what the bounds on costs and failed tasks take is not counted in".to_owned());
    }
    notes.extend(forecast.at_percentiles.iter().filter_map(at_percentile));
    notes
}

/// Below the number the judge gives its reason in place of a promotion.
fn at_percentile(of: &UnitsAtPercentile) -> Option<String> {
    let UnitsAtPercentile { metric, percentile, units } = of;
    let units = (*units)?;
    Some(format!(
        "{metric} at {percentile}: promoted from about {units} units of each revision on, TooFewUnitsAtPercentile below"
    ))
}

/// `Outlook at the traffic of the last 60 min, 2.0 runs/s on 4 pods`.
pub(crate) fn title(forecast: &Forecast) -> String {
    format!("Outlook at the traffic of {}", traffic(forecast))
}

fn traffic(forecast: &Forecast) -> String {
    let Forecast { seconds, runs_per_second: rate, pods, .. } = forecast;
    format!("the last {} min, {rate:.2} runs/s on {}", seconds.div_ceil(60), counted(*pods as u64, "pod"))
}

/// The steps before the canary takes over, as the operator plans them where there is room for all pods.
fn plan(rollout: &Rollout, stable_pods: usize) -> Plan {
    let (reference, largest) = match rollout.baseline {
        Baseline::MirrorBaseline => (Reference::Baseline, LARGEST_BESIDE_BASELINE),
        Baseline::Stable => (Reference::Rest, 100),
    };
    let defaults = DEFAULT_WEIGHTS.map(RolloutStep::with_weight);
    let given = if rollout.steps.is_empty() { &defaults[..] } else { &rollout.steps[..] };
    let mut steps: Vec<Step> = Vec::new();
    for step in given.iter().filter(|step| step.weight < 100) {
        let weight_percent = share(rollout.traffic.r#type, step.weight.min(largest), stable_pods);
        let (min, max) = (step.min_soak.seconds_rounded_up(), step.max_soak.seconds_rounded_up());
        match steps.last_mut() {
            // Two steps of the same share are one, for as long as both.
            Some(last) if last.weight_percent >= weight_percent => {
                last.min_soak_seconds = last.min_soak_seconds.saturating_add(min);
                last.max_soak_seconds = last.max_soak_seconds.saturating_add(max);
            }
            _ => steps.push(Step { weight_percent, min_soak_seconds: min, max_soak_seconds: max }),
        }
    }
    Plan { steps, stable_pods, canary_pods: CanaryPods::ByWeight, reference }
}

/// The share that a canary really gets, in percent: of whole pods, or of the route.
fn share(traffic: TrafficType, weight: i32, stable_pods: usize) -> f64 {
    let weight = f64::from(weight);
    match traffic {
        TrafficType::GatewayAPI | TrafficType::BlueGreen => weight,
        TrafficType::ReplicaRatio => {
            let pods = CanaryPods::ByWeight.at(weight / 100.0, stable_pods);
            100.0 * pods as f64 / (pods + stable_pods) as f64
        }
    }
}

/// How the operator judges, without what depends on the change itself.
fn config(object: &AgentDeployment, plan: &Plan) -> Config {
    let judge = &object.spec.rollout.judge;
    let objectives = object.spec.slo.objectives.iter().map(LatencyObjective::from);
    // A change of prompt or tools leaves the price of a token as it is.
    let margins = judge.cost_margins(1.0).into_iter();
    let costs = margins.map(|(metric, margin)| CostGuard { metric, margin_bins: margin_bins(margin) });
    Config {
        steps: plan.steps.clone(),
        margin_bins: margin_bins(judge.max_regression.ratio()),
        alpha: judge.false_rollback_probability(),
        objectives: objectives.map(|objective| CountedObjective::from(&objective)).collect(),
        cost_guards: costs.collect(),
        ..Config::default()
    }
}

fn row(outlook: &Outlook) -> Vec<String> {
    let Outlook { plan, promotion, rollback_seconds } = outlook;
    let steps: Vec<String> = plan.steps.iter().map(|step| format!("{:.0} %", step.weight_percent)).collect();
    let promoted = match promotion {
        Expectation::Unknown => "unknown: too little traffic".to_owned(),
        Expectation::Seconds(seconds) => minutes(*seconds),
        Expectation::Unreachable { seconds: Some(seconds), .. } => format!("{}, beyond maxSoak", minutes(*seconds)),
        Expectation::Unreachable { seconds: None, .. } => "more than a week".to_owned(),
    };
    let rolled_back = rollback_seconds.map_or_else(|| "not within minSoak".to_owned(), minutes);
    vec![steps.join(", "), promoted, rolled_back]
}

fn minutes(seconds: u64) -> String {
    format!("{} min", seconds.div_ceil(60))
}
