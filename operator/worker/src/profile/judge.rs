//! From records to a row: percentiles with bounds, throughput, verdict. Pure.

use slipway_analysis::slo;
use slipway_worker_contract::{Latency, Metric, Objective, Percentile, Row, Verdict};

use super::records::Records;

/// Confidence of every bound, each side.
const CONFIDENCE: f64 = slo::CONFIDENCE;

/// What a level cost and what is known beside its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// GPU time, load and warm-up included, in milliseconds.
    pub gpu_millis: u64,
    /// Requests or runs that failed.
    pub errors: u32,
    /// Most errors in parts per million, where there is a limit.
    pub error_rate_max_ppm: Option<u32>,
    /// Why the level ended.
    pub ended: String,
}

/// Returns a percentile as the analysis knows it.
pub fn analysis_percentile(percentile: Percentile) -> slo::Percentile {
    match percentile {
        Percentile::P50 => slo::Percentile::P50,
        Percentile::P90 => slo::Percentile::P90,
        Percentile::P95 => slo::Percentile::P95,
        Percentile::P99 => slo::Percentile::P99,
        Percentile::P999 => slo::Percentile::P999,
    }
}

/// Computes a level's row from its records alone; Model Analyzer's figures and the GPU's are added by the caller.
pub fn row(records: &Records, objectives: &[Objective], circumstances: Circumstances) -> Row {
    let latencies = records.latencies_micros();
    let window_nanos = records.window_nanos();
    let Circumstances { gpu_millis, errors, error_rate_max_ppm, ended } = circumstances;
    let (verdict, found) = match too_many_errors(errors, latencies.len(), error_rate_max_ppm) {
        Some(found) => (Verdict::Infeasible, found),
        None => verdict(&latencies, objectives),
    };
    Row {
        arm: records.arm.clone(),
        level: records.level,
        verdict,
        count: u32::try_from(latencies.len()).unwrap_or(u32::MAX),
        errors,
        millis: window_nanos / 1_000_000,
        per_kilosecond: (latencies.len() as f64 * 1e12 / window_nanos.max(1) as f64).round() as u64,
        latencies: percentiles(objectives).into_iter().filter_map(|p| latency(records.metric, &latencies, p)).collect(),
        gpu: None,
        gpu_millis,
        model_analyzer: None,
        records: None,
        arrivals_per_kilosecond: None,
        reason: [found, ended].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; "),
    }
}

/// The median, p99, and what the objectives ask for.
fn percentiles(objectives: &[Objective]) -> Vec<Percentile> {
    let asked = objectives.iter().map(|o| o.percentile);
    let mut all: Vec<Percentile> = [Percentile::P50, Percentile::P99].into_iter().chain(asked).collect();
    all.sort();
    all.dedup();
    all
}

fn latency(metric: Metric, sorted: &[f64], percentile: Percentile) -> Option<Latency> {
    let bounds = slo::quantile_bounds(sorted, analysis_percentile(percentile), CONFIDENCE)?;
    Some(Latency {
        metric,
        percentile,
        micros: bounds.point.round() as u64,
        // Without a lower bound nothing is known but that latencies are positive.
        lower_micros: bounds.lower.unwrap_or(0.0).floor() as u64,
        upper_micros: bounds.upper.map(|upper| upper.ceil() as u64),
    })
}

/// Errors block by their share as it was seen: a proof of a small share would take more runs than any campaign has.
fn too_many_errors(errors: u32, successes: usize, max_ppm: Option<u32>) -> Option<String> {
    let total = u64::from(errors) + successes as u64;
    let ppm = u64::from(errors) * 1_000_000 / total.max(1);
    let over = successes == 0 && errors > 0 || max_ppm.is_some_and(|max| ppm > u64::from(max));
    over.then(|| format!("{errors} of {total} failed"))
}

/// Judges all objectives; the worst decides: missed, then undecided, then met.
fn verdict(sorted: &[f64], objectives: &[Objective]) -> (Verdict, String) {
    let mut unbounded = None;
    for objective in objectives {
        let limit = objective.max_micros as f64;
        let exceeding = sorted.iter().filter(|latency| **latency > limit).count() as u64;
        let percentile = analysis_percentile(objective.percentile);
        let samples = sorted.len() as u64;
        match slo::judge_counts(exceeding, samples, percentile, CONFIDENCE) {
            slo::Verdict::Feasible => {}
            slo::Verdict::Infeasible => {
                let share = exceeding as f64 * 100.0 / samples.max(1) as f64;
                let text = format!("{} is missed: {share:.1} % of {samples} are above its limit", objective.name);
                return (Verdict::Infeasible, text);
            }
            slo::Verdict::Undecided => {
                unbounded = Some(format!("{} lies within the bounds of {samples} requests", objective.name));
            }
            slo::Verdict::Unbounded => {
                let needed = percentile.least_sample(CONFIDENCE);
                unbounded = Some(format!("{} needs {needed} requests, {samples} were measured", objective.name));
            }
        }
    }
    match unbounded {
        Some(text) => (Verdict::Unbounded, text),
        None => (Verdict::Feasible, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::profile::records::{Chunk, Request};

    /// `count` requests, one every 10 ms, of which every tenth takes 80 ms and the others 20 ms.
    fn records(count: u64) -> Records {
        let request = |i: u64| {
            let millis = if i % 10 == 9 { 80 } else { 20 };
            Request { sent: i * 10_000_000, answered: (i * 10 + millis) * 1_000_000 }
        };
        let chunk = Chunk { window_nanos: count * 10_000_000, requests: (0..count).map(request).collect() };
        Records { format_version: 1, metric: Metric::RequestLatency, arm: "i1".into(), level: 4, chunks: vec![chunk] }
    }

    fn objective(percentile: Percentile, max_micros: u64) -> Objective {
        Objective { name: "fast".into(), metric: Metric::RequestLatency, percentile, max_micros }
    }

    fn judged(count: u64, objectives: &[Objective]) -> (Verdict, String) {
        let row = row(&records(count), objectives, Circumstances::default());
        (row.verdict, row.reason)
    }

    #[test]
    fn a_row_has_throughput_and_percentiles_with_bounds() {
        let circumstances =
            Circumstances { gpu_millis: 9_000, ended: "all requests measured".into(), ..Circumstances::default() };
        let row = row(&records(420), &[objective(Percentile::P95, 100_000)], circumstances);
        let latency = |percentile, micros, lower_micros, upper_micros| Latency {
            metric: Metric::RequestLatency,
            percentile,
            micros,
            lower_micros,
            upper_micros: Some(upper_micros),
        };
        let expected = Row {
            arm: "i1".into(),
            level: 4,
            verdict: Verdict::Feasible,
            count: 420,
            errors: 0,
            millis: 4_200,
            per_kilosecond: 100_000,
            latencies: vec![
                latency(Percentile::P50, 20_000, 20_000, 20_000),
                latency(Percentile::P95, 80_000, 80_000, 80_000),
                latency(Percentile::P99, 80_000, 80_000, 80_000),
            ],
            gpu: None,
            gpu_millis: 9_000,
            model_analyzer: None,
            records: None,
            arrivals_per_kilosecond: None,
            reason: "all requests measured".into(),
        };
        assert_eq!(row, expected);
    }

    #[test]
    fn an_objective_is_missed_met_or_left_open_by_its_bound() {
        let p95 = |max| [objective(Percentile::P95, max)];
        assert_eq!(judged(420, &p95(100_000)).0, Verdict::Feasible);
        assert_eq!(
            judged(420, &p95(50_000)),
            (Verdict::Infeasible, "fast is missed: 10.0 % of 420 are above its limit".to_owned())
        );
        let (verdict, reason) = judged(420, &[objective(Percentile::P90, 50_000)]);
        assert_eq!((verdict, reason.as_str()), (Verdict::Unbounded, "fast lies within the bounds of 420 requests"));
        let (verdict, reason) = judged(58, &p95(100_000));
        assert_eq!((verdict, reason.as_str()), (Verdict::Unbounded, "fast needs 59 requests, 58 were measured"));
    }

    #[test]
    fn errors_beyond_their_limit_make_a_level_infeasible() {
        let judged = |errors, error_rate_max_ppm| {
            let circumstances = Circumstances { errors, error_rate_max_ppm, ..Circumstances::default() };
            let row = row(&records(420), &[], circumstances);
            (row.verdict, row.errors, row.reason)
        };
        assert_eq!(judged(5, Some(20_000)), (Verdict::Feasible, 5, String::new()));
        assert_eq!(judged(5, Some(10_000)), (Verdict::Infeasible, 5, "5 of 425 failed".to_owned()));
        assert_eq!(judged(5, None).0, Verdict::Feasible);
    }

    #[test]
    fn one_altered_number_in_the_records_changes_the_row() {
        let text = String::from_utf8(records(420).to_bytes()).unwrap();
        let altered = text.replacen("[0,20000000]", "[0,90000000]", 1);
        assert_ne!(altered, text);
        let of = |text: &str| row(&Records::parse(text.as_bytes()).unwrap(), &[], Circumstances::default());
        assert_ne!(of(&altered), of(&text));
    }
}
