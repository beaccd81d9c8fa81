//! Why nothing was chosen, and what it would take. Pure.

use slipway_analysis::slo::{Bound, Limit, nearest};
use slipway_crds::{
    v1alpha1::{
        agent_deployment::{CostObjective, ThroughputUnit, WrittenObjective},
        profile::{Infeasible, Measurement, MeasurementPurpose, MeasurementVerdict, ProfileInputs},
    },
    values::PositiveDecimal,
};
use slipway_vocabulary::GpuLimit;

use crate::{
    close,
    cost::{ReplicaPrice, dollars},
    judged::{figure, gpu_limits, judged},
    select,
    target::{driver_for, throughput_per_kilosecond},
};

/// Name of the limit on failures.
const ERROR_RATE: &str = "error-rate";
/// Name of the limit on throughput.
const THROUGHPUT: &str = "throughput";
/// Name of the limit on what 1,000 cost.
const COST: &str = "cost";

/// What binds at the point that comes nearest, among the rows of a purpose.
pub fn explain(inputs: &ProfileInputs, measurements: &[Measurement], purpose: MeasurementPurpose) -> Infeasible {
    let objectives = judged(inputs, purpose);
    let limits = limits(inputs, &objectives, purpose);
    let values: Vec<Vec<Option<f64>>> = measurements
        .iter()
        .map(|m| if serves(m, purpose) { values(inputs, &objectives, m) } else { vec![None] })
        .map(|row| only_misses(&limits, row))
        .collect();
    let Some(nearest) = nearest(&limits, &values) else { return undecided(inputs, &objectives, measurements, purpose) };
    let point = &measurements[nearest.point];
    let missed = nearest.binding.limit.as_str();
    let place = select::place(inputs, point);
    let what = match objectives.iter().find(|objective| objective.name == missed) {
        Some(objective) => {
            let value = select::milliseconds(nearest.binding.value.ceil() as i64);
            let limit = String::from(objective.max.clone());
            format!("{missed} would be met with a max of {value} or more (it is {limit}), by {place}")
        }
        None if missed == THROUGHPUT => format!(
            "throughput would be met with a min of {:.3} a second or less for each replica (it is {:.3}), by {place}",
            nearest.binding.value / 1e3,
            target(inputs, purpose) as f64 / 1e3
        ),
        None if missed == COST => cost_words(inputs, nearest.binding.value, &place),
        None if of_gpus(inputs, purpose).any(|(limit, _)| limit.figure.limit_name() == missed) => {
            gpu_words((inputs, purpose), (missed, nearest.binding.value), &place)
        }
        None => format!(
            "the error rate would be met with a max of {:.2} % or more (it is {:.2} %), by {place}",
            nearest.binding.value / 1e4,
            inputs.error_rate.as_ref().map_or(0.0, |rate| f64::from(rate.max.parts_per_million()) / 1e4)
        ),
    };
    Infeasible {
        binding_objective: missed.to_owned(),
        nearest: i32::try_from(nearest.point).ok(),
        what_it_would_take: cut(&what, 512),
    }
}

/// Whether a row is for a purpose: one that was measured again is as the first.
fn serves(row: &Measurement, purpose: MeasurementPurpose) -> bool {
    let of = match row.purpose {
        MeasurementPurpose::Explore | MeasurementPurpose::Repeat => MeasurementPurpose::Explore,
        MeasurementPurpose::Confirm => MeasurementPurpose::Confirm,
    };
    of == purpose
}

/// Every bound on what the GPUs do that the rows of a purpose are judged by.
fn of_gpus(inputs: &ProfileInputs, purpose: MeasurementPurpose) -> impl Iterator<Item = (GpuLimit, Bound)> {
    gpu_limits(inputs, purpose).into_iter().flat_map(|limit| {
        let bounds = [limit.min.map(|min| Bound::AtLeast(min.into())), limit.max.map(|max| Bound::AtMost(max.into()))];
        bounds.into_iter().flatten().map(move |bound| (limit, bound))
    })
}

fn gpu_words(
    (inputs, purpose): (&ProfileInputs, MeasurementPurpose),
    (missed, value): (&str, f64),
    place: &str,
) -> String {
    let is_it = |(limit, bound): &(GpuLimit, Bound)| {
        limit.figure.limit_name() == missed && !Limit::new(missed, *bound).is_met(value)
    };
    let Some((limit, bound)) = of_gpus(inputs, purpose).find(is_it) else { return String::new() };
    let (figure, unit) = (limit.figure, limit.figure.unit());
    let (field, comparison, is) = match bound {
        Bound::AtLeast(is) => ("min", "less", is),
        Bound::AtMost(is) => ("max", "more", is),
    };
    format!("{figure} would be met with a {field} of {value} {unit} or {comparison} (it is {is} {unit}), by {place}")
}

fn cost_words(inputs: &ProfileInputs, microdollars: f64, place: &str) -> String {
    let Some(CostObjective { max, unit }) = &inputs.cost else { return String::new() };
    let unit = unit.words();
    // Rounded up to what the field can hold: a limit of that much is met.
    let needed = PositiveDecimal::from_ten_thousandths((microdollars / 100.0).ceil() as u64);
    let needed = needed.map_or_else(|| dollars(microdollars as i64), |needed| format!("${needed}"));
    format!("cost would be met with a max of {needed} or more for 1,000 {unit} (it is ${max}), by {place}")
}

fn target(inputs: &ProfileInputs, purpose: MeasurementPurpose) -> u64 {
    throughput_per_kilosecond(inputs, driver_for(inputs, purpose)).unwrap_or(0)
}

/// The most that 1,000 may cost, where the rows of a purpose count what is limited.
fn affordable(inputs: &ProfileInputs, purpose: MeasurementPurpose) -> Option<i64> {
    let is_counted = |unit: ThroughputUnit| unit == driver_for(inputs, purpose).unit();
    let cost = inputs.cost.as_ref().filter(|cost| is_counted(cost.unit))?;
    Some(cost.max.millionths())
}

fn limits(inputs: &ProfileInputs, objectives: &[WrittenObjective], purpose: MeasurementPurpose) -> Vec<Limit> {
    let latencies = objectives.iter().map(|o| Limit::new(&o.name, Bound::AtMost(o.max.microseconds() as f64)));
    let most_errors = inputs.error_rate.as_ref().map_or(1e6, |rate| f64::from(rate.max.parts_per_million()));
    latencies
        .chain([
            Limit::new(ERROR_RATE, Bound::AtMost(most_errors)),
            Limit::new(THROUGHPUT, Bound::AtLeast(target(inputs, purpose) as f64)),
        ])
        .chain(affordable(inputs, purpose).map(|most| Limit::new(COST, Bound::AtMost(most as f64))))
        .chain(of_gpus(inputs, purpose).map(|(limit, bound)| Limit::new(limit.figure.limit_name(), bound)))
        .collect()
}

/// Values in the order of the limits. A latency is held against its limit by its upper bound: a limit of that much
/// would be met beyond doubt. One that a round leaves open misses nothing.
fn values(inputs: &ProfileInputs, objectives: &[WrittenObjective], measurement: &Measurement) -> Vec<Option<f64>> {
    let is_measured = match measurement.verdict {
        MeasurementVerdict::Feasible | MeasurementVerdict::Infeasible | MeasurementVerdict::Unbounded => true,
        MeasurementVerdict::Failed => false,
    };
    let latency = |objective: &WrittenObjective| {
        let found = measurement
            .latencies
            .iter()
            .find(|l| l.metric == objective.metric && l.percentile == objective.percentile)?;
        let value = found.upper.unwrap_or(found.microseconds) as f64;
        Some(if close::is_open_round(measurement) { value.min(objective.max.microseconds() as f64) } else { value })
    };
    let total = f64::from(measurement.count) + f64::from(measurement.errors);
    let errors = (total > 0.0 && inputs.error_rate.is_some()).then(|| f64::from(measurement.errors) * 1e6 / total);
    let others = [Some(errors.unwrap_or(0.0)), Some(measurement.per_kilosecond as f64)];
    let cost = affordable(inputs, measurement.purpose).map(|_| {
        let price = ReplicaPrice::of_engine(inputs, &measurement.engine)?;
        price.per_thousand(measurement.per_kilosecond).map(|microdollars| microdollars as f64)
    });
    let gpus = of_gpus(inputs, measurement.purpose).map(|(limit, _)| figure(measurement, limit.figure).map(f64::from));
    objectives
        .iter()
        .map(latency)
        .chain(others)
        .chain(cost)
        .chain(gpus)
        .map(|value| value.filter(|_| is_measured))
        .collect()
}

/// A row that misses nothing by its values was not decided for want of requests: it says nothing of what it would take.
fn only_misses(limits: &[Limit], row: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let is_missing = limits.iter().zip(&row).any(|(limit, value)| value.is_some_and(|value| !limit.is_met(value)));
    if is_missing { row } else { vec![None] }
}

/// The text, cut to what a field of the status holds.
fn cut(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

fn undecided(
    inputs: &ProfileInputs,
    objectives: &[WrittenObjective],
    measurements: &[Measurement],
    purpose: MeasurementPurpose,
) -> Infeasible {
    let is_open = |m: &Measurement| m.verdict == MeasurementVerdict::Unbounded && !close::is_open_round(m);
    let first = measurements.iter().position(|m| serves(m, purpose) && is_open(m));
    let found = first.and_then(|index| measurements.get(index));
    let (place, reason) = found.map_or((String::new(), ""), |m| (select::place(inputs, m), m.reason.as_str()));
    let what = if found.is_some() {
        format!("no measurement is conclusive; {place}: {reason}")
    } else {
        "no measurement could be judged by the objectives: see the rows' reasons".to_owned()
    };
    let unknown = found.and_then(|m| gpu_limits(inputs, purpose).into_iter().find(|l| figure(m, l.figure).is_none()));
    let binding = unknown.map(|limit| limit.figure.limit_name().to_owned());
    let first_objective = || objectives.first().map_or_else(|| ERROR_RATE.to_owned(), |o| o.name.clone());
    Infeasible {
        binding_objective: binding.unwrap_or_else(first_objective),
        nearest: first.and_then(|index| i32::try_from(index).ok()),
        what_it_would_take: cut(&what, 512),
    }
}
