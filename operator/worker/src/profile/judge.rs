//! From records to a row: percentiles with bounds, throughput, verdict. Pure.

use slipway_analysis::slo;
use slipway_vocabulary::evidence::Quantile;
use slipway_worker_contract::{
    Digest, Gpu, GpuLimit, Judged, Latency, LatencyMetric, LatencyObjective, MeasurementVerdict, Percentile,
    ProfileTask, Row, RowTooLarge, has_too_many_errors,
};

use super::{
    drivers,
    records::{Chunk, Circumstances, Records},
};

/// Confidence of every bound, each side.
const CONFIDENCE: f64 = slo::CONFIDENCE;

/// What a row is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The objectives that the driver can measure.
    pub objectives: Vec<LatencyObjective>,
    /// Most errors in parts per million, where there is a limit.
    pub error_rate_max_ppm: Option<u32>,
    /// The throughput that an open loop must reach, per 1,000 seconds.
    pub target_per_kilosecond: Option<u64>,
    /// Bounds on what the GPUs did.
    pub gpu_limits: Vec<GpuLimit>,
}

impl Rules {
    /// Returns the rules of a task; objectives that its driver cannot measure are left to another measurement.
    pub fn of(task: &ProfileTask) -> Self {
        Self {
            objectives: drivers::measurable(task),
            error_rate_max_ppm: task.error_rate_max_ppm,
            target_per_kilosecond: task.target_per_kilosecond,
            gpu_limits: task.gpu_limits.clone(),
        }
    }
}

/// Computes a level's row from its records alone.
pub fn row(records: &Records, rules: &Rules) -> Row {
    let window_nanos = records.window_nanos();
    let per_kilosecond = records.count() as f64 * 1e12 / window_nanos.max(1) as f64;
    let (verdict, found) = verdict(records, rules);
    let Circumstances { gpu_millis, errors, arrivals_per_kilosecond, gpu, model_analyzer, ended } =
        records.circumstances.clone();
    Row {
        arm: records.arm.clone(),
        level: records.level,
        verdict,
        count: u32::try_from(records.count()).unwrap_or(u32::MAX),
        errors,
        millis: window_nanos / 1_000_000,
        per_kilosecond: per_kilosecond.round() as u64,
        per_kilosecond_error: throughput_error(records).map(|error| (error * per_kilosecond).round() as u64),
        latencies: latencies(records, &rules.objectives),
        output_tokens: records.output_tokens().filter(|_| records.count() > 0),
        gpu,
        gpu_millis,
        model_analyzer,
        records: None,
        arrivals_per_kilosecond,
        reason: [found, ended].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
    }
}

/// The standard error of a closed loop's throughput in ln, where it ran long enough to show it. An open loop serves
/// what arrives.
fn throughput_error(records: &Records) -> Option<f64> {
    if records.circumstances.arrivals_per_kilosecond.is_some() {
        return None;
    }
    let sent = |chunk: &Chunk| chunk.requests.iter().map(|request| request.sent).collect();
    let sent: Vec<Vec<u64>> = records.chunks.iter().map(sent).collect();
    slo::throughput_error_by_batches(sent.iter().map(Vec::as_slice), records.level as usize)
}

/// Computes the row as it is reported: it names its records and has the size that a row may have. What nobody asked for
/// is left out first, then the percentiles of the last objectives. They stay in the records. Where a figure of a GPU
/// has a limit, the others go before all.
///
/// # Errors
/// [`RowTooLarge`] if not even a row without percentiles fits.
pub fn reported(records: &Records, digest: Option<Digest>, rules: &Rules) -> Result<Row, RowTooLarge> {
    let mut row = Row { records: digest, ..row(records, rules) };
    let limited = row.gpu.map(|gpu| gpu.limited_by(&rules.gpu_limits)).filter(|_| !rules.gpu_limits.is_empty());
    loop {
        let bare = Row { reason: String::new(), ..row.clone() };
        match bare.fitted() {
            Ok(_) => return row.fitted(),
            Err(_) if limited.is_some() && row.gpu != limited => row.gpu = limited,
            Err(error) => {
                let asked = |l: &Latency| {
                    rules.objectives.iter().position(|o| (o.metric, o.percentile) == (l.metric, l.percentile))
                };
                // Nothing asked for is greater than every position.
                let least = row.latencies.iter().enumerate().max_by_key(|(_, l)| asked(l).unwrap_or(usize::MAX));
                let Some((position, _)) = least else { return Err(error) };
                row.latencies.remove(position);
            }
        }
    }
}

/// Gives the median and p99 of the requests' own time, the medians of a run's parts, and what the objectives ask for.
///
/// Parts are kept whether or not an objective names them: a rollout of the choice is judged by them too, against what
/// was measured.
fn latencies(records: &Records, objectives: &[LatencyObjective]) -> Vec<Latency> {
    let own = [Percentile::P50, Percentile::P99].map(|percentile| (records.metric, percentile));
    let parts = [
        LatencyMetric::TimeToFirstToken,
        LatencyMetric::RequestLatency,
        LatencyMetric::RequestTimeToFirstToken,
        LatencyMetric::InterTokenLatency,
    ];
    let parts = parts.map(|metric| (metric, Percentile::P50));
    let asked = objectives.iter().map(|o| (o.metric, o.percentile));
    let mut all: Vec<(LatencyMetric, Percentile)> = own.into_iter().chain(parts).chain(asked).collect();
    all.sort();
    all.dedup();
    let of = |(metric, percentile): (LatencyMetric, Percentile)| {
        latency(metric, &records.latencies_micros(metric), percentile)
    };
    all.into_iter().filter_map(of).collect()
}

fn latency(metric: LatencyMetric, sorted: &[f64], percentile: Percentile) -> Option<Latency> {
    let bounds = slo::quantile_bounds(sorted, percentile.into(), CONFIDENCE)?;
    Some(Latency {
        metric,
        percentile,
        micros: bounds.point.round() as u64,
        // Without a lower bound nothing is known but that latencies are positive.
        lower_micros: bounds.lower.unwrap_or(0.0).floor() as u64,
        upper_micros: bounds.upper.map(|upper| upper.ceil() as u64),
    })
}

/// That too many failed, in words.
fn too_many_errors(errors: u32, successes: usize, max_ppm: Option<u32>) -> Option<String> {
    let total = u64::from(errors) + successes as u64;
    has_too_many_errors(errors, successes, max_ppm).then(|| format!("{errors} of {total} failed"))
}

/// Tells whether an open loop serves less than its target by more than chance. The count of a Poisson process stays
/// above its mean minus so many standard deviations with 95 %.
fn too_slow(records: &Records, target_per_kilosecond: Option<u64>) -> Option<String> {
    records.circumstances.arrivals_per_kilosecond?;
    let target = target_per_kilosecond?;
    let seconds = records.window_nanos() as f64 / 1e9;
    let (expected, count) = (target as f64 / 1e3 * seconds, records.count() as f64);
    let slow = count + slo::ERRORS_TO_BOUND * expected.sqrt() < expected;
    slow.then(|| {
        let (served, target) = (count / seconds.max(1e-9), target as f64 / 1e3);
        format!("throughput is too low: {served:.2} of {target:.2} a second were served")
    })
}

/// Judges errors, throughput, latencies and GPUs; the worst decides: missed, then undecided, then met. A miss of a
/// latency is named before one of a GPU's, because more in flight may help only the latter.
fn verdict(records: &Records, rules: &Rules) -> (MeasurementVerdict, String) {
    let errors = too_many_errors(records.circumstances.errors, records.count(), rules.error_rate_max_ppm);
    if let Some(found) = errors.or_else(|| too_slow(records, rules.target_per_kilosecond)) {
        return (MeasurementVerdict::Infeasible, found);
    }
    let of_latencies = latency_verdict(records, &rules.objectives);
    match (of_latencies.0, gpu_verdict(records.circumstances.gpu.as_ref(), &rules.gpu_limits)) {
        (MeasurementVerdict::Feasible, Some(of_gpus)) => of_gpus,
        (MeasurementVerdict::Unbounded, Some(of_gpus)) if of_gpus.0 == MeasurementVerdict::Infeasible => of_gpus,
        _ => of_latencies,
    }
}

/// What limits on GPUs say against a level. Figures are sampled and have no bounds: they are compared as they are.
fn gpu_verdict(gpu: Option<&Gpu>, limits: &[GpuLimit]) -> Option<(MeasurementVerdict, String)> {
    let figure = |limit: &GpuLimit| gpu.and_then(|gpu| gpu.figure(limit.figure));
    let missed = limits.iter().find_map(|limit| limit.miss(figure(limit)?));
    let unknown = || {
        let limit = limits.iter().find(|limit| figure(limit).is_none())?;
        let text = format!("{} is not known: Triton's metrics did not have it during this level", limit.figure);
        Some((MeasurementVerdict::Unbounded, text))
    };
    missed.map(|text| (MeasurementVerdict::Infeasible, text)).or_else(unknown)
}

/// Whether more in flight may meet all that a row misses.
pub fn leaves_higher_levels_open(row: &Row, rules: &Rules) -> bool {
    let Rules { objectives, error_rate_max_ppm, target_per_kilosecond: _, gpu_limits } = rules;
    row.leaves_higher_levels_open(Judged { objectives, error_rate_max_ppm: *error_rate_max_ppm, gpu_limits })
}

fn latency_verdict(records: &Records, objectives: &[LatencyObjective]) -> (MeasurementVerdict, String) {
    let mut unbounded = None;
    for objective in objectives {
        let sorted = records.latencies_micros(objective.metric);
        let limit = objective.max_microseconds as f64;
        let exceeding = sorted.iter().filter(|latency| **latency > limit).count() as u64;
        let quantile = Quantile::from(objective.percentile);
        let samples = sorted.len() as u64;
        let in_order = records.requests().filter_map(|request| request.micros(objective.metric, records.metric));
        let groups = slo::groups(in_order.map(|micros| micros > limit), records.level);
        match slo::judge_groups(&groups, quantile, CONFIDENCE) {
            slo::SampleVerdict::Feasible => {}
            slo::SampleVerdict::Infeasible => {
                let share = exceeding as f64 * 100.0 / samples.max(1) as f64;
                let text = format!("{} is missed: {share:.1} % of {samples} are above its limit", objective.name);
                return (MeasurementVerdict::Infeasible, text);
            }
            slo::SampleVerdict::Undecided => {
                unbounded = Some(format!("{} lies within the bounds of {samples} requests", objective.name));
            }
            slo::SampleVerdict::Unbounded => {
                let needed = slo::least_sample(quantile, CONFIDENCE);
                unbounded = Some(format!("{} needs {needed} requests, {samples} were measured", objective.name));
            }
        }
    }
    match unbounded {
        Some(text) => (MeasurementVerdict::Unbounded, text),
        None => (MeasurementVerdict::Feasible, String::new()),
    }
}

#[cfg(test)]
mod tests;
