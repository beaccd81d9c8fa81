//! `slipway-analysis power`: how long a verdict will take, before a rollout starts. Reads a file.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use slipway_analysis::judge::{
    Reference,
    power::{CanaryPods, Forecast, Plan, Traffic, UnitsAtPercentile, units_at_percentiles},
};
use slipway_vocabulary::{Percentile, evidence::Metric};

use super::{CliError, judge::Lines};

/// Arguments of `power`.
#[derive(Debug, Args)]
pub struct PowerArgs {
    /// Evidence as `judge` reads it. Stable's windows describe the traffic; the first line's config has the schedule
    #[arg(long, value_name = "FILE.jsonl")]
    evidence: PathBuf,
    /// How much slower the model calls of the canary are, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0)]
    slower: f64,
    /// Pods of the canary
    #[arg(long, value_name = "PODS", default_value_t = 1)]
    canary_pods: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    units_per_second: f64,
    stable_pods: usize,
    in_flight: f64,
    /// Standard deviations of the logarithms of request latencies.
    request_spread: Option<f64>,
    slower_percent: f64,
    /// The fastest first.
    schedules: Vec<Schedule>,
    /// What a promotion takes at the percentile of each objective.
    percentiles: Vec<AtPercentile>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AtPercentile {
    metric: Metric,
    percentile: Percentile,
    /// Below so many comparable units of each revision the verdict is Inconclusive; null where that is not known yet.
    units_of_each_revision: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Schedule {
    weights_percent: Vec<f64>,
    canary_pods: usize,
    is_as_given: bool,
    is_decidable: bool,
    rollback_seconds: Option<u64>,
}

pub(super) fn run(args: &PowerArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let refuse = |argument: &str, problem: String, remedy: &str| CliError::Argument {
        argument: argument.into(),
        problem,
        remedy: remedy.into(),
    };
    if !(args.slower > 0.0 && args.slower <= 10_000.0) {
        let problem = format!("{} is not between 0 and 10,000", args.slower);
        return Err(refuse("--slower", problem, "give percent, 50 for half again as slow"));
    }
    if args.canary_pods == 0 {
        return Err(refuse("--canary-pods", "0 pods serve nothing".into(), "give 1 or more"));
    }
    let mut lines = Lines::open(&args.evidence).map_err(CliError::Input)?;
    let config = lines.config().map_err(CliError::Input)?;
    let (mut traffic, mut windows) = (Traffic::default(), Vec::new());
    while let Some(window) = lines.window().map_err(CliError::Input)? {
        traffic.observe(&window);
        windows.push(window);
    }
    let plan = Plan {
        steps: config.steps.clone(),
        stable_pods: traffic.stable_pods(),
        canary_pods: CanaryPods::Fixed(args.canary_pods),
        reference: Reference::Rest,
    };
    let forecasts = traffic.schedules(&config, &plan, 1.0 + args.slower / 100.0);
    let answer = Answer {
        units_per_second: traffic.units_per_second(),
        stable_pods: traffic.stable_pods(),
        in_flight: traffic.in_flight(),
        request_spread: traffic.spread(Metric::RequestLatency),
        slower_percent: args.slower,
        schedules: forecasts.iter().map(|forecast| schedule(forecast, &plan)).collect(),
        percentiles: units_at_percentiles(&config, &windows).into_iter().map(at_percentile).collect(),
    };
    serde_json::to_writer(&mut *out, &answer).map_err(|e| CliError::Write(e.into()))?;
    out.write_all(b"\n").map_err(CliError::Write)
}

fn at_percentile(of: UnitsAtPercentile) -> AtPercentile {
    let UnitsAtPercentile { metric, percentile, units } = of;
    AtPercentile { metric, percentile, units_of_each_revision: units }
}

fn schedule(forecast: &Forecast, given: &Plan) -> Schedule {
    let canary_pods = match forecast.plan.canary_pods {
        CanaryPods::Fixed(pods) => pods,
        CanaryPods::ByWeight => forecast.plan.stable_pods,
    };
    Schedule {
        weights_percent: forecast.plan.steps.iter().map(|step| step.weight_percent).collect(),
        canary_pods,
        is_as_given: forecast.plan == *given,
        is_decidable: forecast.is_decidable(),
        rollback_seconds: forecast.seconds,
    }
}
