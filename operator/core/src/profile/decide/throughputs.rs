//! The throughputs by which a campaign compares engines: as measured, or for a dollar where GPU models have several
//! prices. Pure.

use slipway_analysis::slo::Bound;
use slipway_crds::v1alpha1::{agent_deployment::OptimizeFor, profile::ProfileInputs};
use slipway_selection::{
    cost::{ReplicaPrice, gpus},
    target::{target_per_kilosecond, throughput_per_kilosecond},
};

/// Requests or runs of a thousand in 1,000 seconds and for a dollar an hour, at a dollar for each thousand.
const PER_DOLLAR: f64 = 1_000_000.0 / 3_600.0;

/// A throughput of one replica in 1,000 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Throughput {
    /// As measured.
    Measured,
    /// For each dollar that an hour of the replica costs.
    PerDollar,
}

impl Throughput {
    /// The name of the metric, which tells the search its unit.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Measured => "throughput",
            Self::PerDollar => "throughput_per_dollar",
        }
    }

    /// What the measured throughput of an engine is divided by.
    pub(super) fn divisor(self, inputs: &ProfileInputs, engine: &str) -> f64 {
        match self {
            Self::Measured => 1.0,
            Self::PerDollar => dollars_per_hour(inputs, engine).unwrap_or(1.0),
        }
    }
}

/// The throughput that is looked for, and the other one where a limit is of it.
pub(super) fn compared(inputs: &ProfileInputs) -> (Throughput, Option<Throughput>) {
    let first = match inputs.optimize_for {
        OptimizeFor::Cost if !inputs.prices.is_empty() => Throughput::PerDollar,
        OptimizeFor::Cost | OptimizeFor::Throughput | OptimizeFor::Latency => Throughput::Measured,
    };
    (first, limits(inputs).into_iter().map(|(of, _)| of).find(|of| *of != first))
}

/// What the throughputs are held to. At one price a limit on cost is one on the measured throughput.
pub(super) fn limits(inputs: &ProfileInputs) -> Vec<(Throughput, Bound)> {
    let at_least = |value: u64| Bound::AtLeast(value as f64);
    if inputs.prices.is_empty() {
        let any = inputs.engines.first().map_or("", |engine| engine.name.as_str());
        let target = target_per_kilosecond(inputs, any, inputs.driver);
        return target.map(|target| (Throughput::Measured, at_least(target))).into_iter().collect();
    }
    let target = throughput_per_kilosecond(inputs, inputs.driver);
    let cost = inputs.cost.as_ref().filter(|cost| cost.unit == inputs.driver.unit());
    let per_dollar = cost.map(|cost| Bound::AtLeast(PER_DOLLAR / cost.max.value()));
    let target = target.map(|target| (Throughput::Measured, at_least(target)));
    target.into_iter().chain(per_dollar.map(|bound| (Throughput::PerDollar, bound))).collect()
}

/// What an hour of one of a replica's GPUs costs in dollars, where GPU models have several prices.
pub(super) fn gpu_price(inputs: &ProfileInputs, engine: &str) -> Option<f64> {
    dollars_per_hour(inputs, engine).map(|dollars| dollars / f64::from(gpus(inputs).max(1)))
}

fn dollars_per_hour(inputs: &ProfileInputs, engine: &str) -> Option<f64> {
    let price = ReplicaPrice::of_engine(inputs, engine).filter(|_| !inputs.prices.is_empty())?;
    Some(price.microdollars_per_hour() as f64 / 1e6)
}
