//! How well the values of a row are known, and in which order runs are taken.

use pretty_assertions::assert_eq;
use slipway_worker_contract::ServeConfig;

use super::*;
use crate::profile::search::tests::large_space;

/// A row of 180 requests, as runs may stop at: its p99 has no upper bound.
fn row(latencies: &[(Percentile, u64, u64, Option<u64>)]) -> Row {
    let latency = |(percentile, micros, lower_micros, upper_micros): &(Percentile, u64, u64, Option<u64>)| Latency {
        metric: LatencyMetric::RequestLatency,
        percentile: *percentile,
        micros: *micros,
        lower_micros: *lower_micros,
        upper_micros: *upper_micros,
    };
    let json = serde_json::json!({
        "arm": "a", "level": 4, "verdict": "Feasible", "count": 180, "errors": 0, "millis": 20_000,
        "perKilosecond": 9_000, "gpuMillis": 20_000,
    });
    let bare: Row = serde_json::from_value(json).expect("a row");
    Row { latencies: latencies.iter().map(latency).collect(), ..bare }
}

fn per_mille(log_sd: f64) -> i64 {
    (log_sd * 1e3).round() as i64
}

#[test]
fn each_value_is_as_uncertain_as_its_own_bounds() {
    let row = row(&[
        (Percentile::P50, 400_000, 390_000, Some(410_000)),
        (Percentile::P95, 700_000, 640_000, Some(780_000)),
        (Percentile::P99, 900_000, 760_000, None),
    ]);
    let of = |percentile| per_mille(latency_log_sd(&row, (LatencyMetric::RequestLatency, percentile)));
    assert_eq!([Percentile::P50, Percentile::P95, Percentile::P99].map(of), [15, 60, 103]);
    assert_eq!(per_mille(throughput_log_sd(&row)), 15, "not what the widest of the percentiles says");
}

#[test]
fn what_a_row_does_not_tell_is_known_least_and_nothing_is_known_exactly() {
    let unknown = row(&[(Percentile::P99, 900_000, 0, None)]);
    let of = |row: &Row, percentile| latency_log_sd(row, (LatencyMetric::RequestLatency, percentile));
    assert_eq!([of(&unknown, Percentile::P99), of(&unknown, Percentile::P50)], [0.3; 2]);
    assert_eq!(per_mille(throughput_log_sd(&unknown)), 75, "one over the root of 180");
    let equal = row(&[(Percentile::P50, 400_000, 400_000, Some(400_000))]);
    assert_eq!([of(&equal, Percentile::P50), throughput_log_sd(&equal)], [0.01; 2]);
}

/// A campaign of two configurations that knows rows of another engine.
fn beside(other: OtherEngine) -> Guided {
    let arms = ["a", "b"].map(|id| Arm { id: id.to_owned(), config: ServeConfig::default() });
    let task = ProfileTask { other_engines: vec![other], ..large_space(OptimizeFor::Throughput) };
    Guided::new(&task, Plan::new(&arms, &[4, 8], 9, 0))
}

/// A start costs nothing on the engine that is loaded, and its arms are not left before they met the limits.
#[test]
fn the_engine_of_the_job_is_the_one_that_is_loaded_whatever_other_engines_have_rows() {
    let rows = vec![row(&[])];
    let (name, expected) = ("fp8".to_owned(), Vec::new());
    let search = beside(OtherEngine { name, gpus: 1, microdollars_per_hour: None, rows: rows.clone(), expected });
    let runs = View::new(&search, &rows).runs;
    assert_eq!(runs.iter().map(|run| run.cell.arm).collect::<Vec<_>>(), [2, 0]);
}
