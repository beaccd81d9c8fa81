//! The state has room in its field, whatever is in it.

use super::*;
use crate::judge::state::MAX_STATE_BYTES;

#[test]
fn the_fullest_state_fits_its_field() {
    let metrics: Vec<(Metric, f64)> = Metric::ALL.iter().map(|metric| (*metric, 1.0)).collect();
    let strata = vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"];
    let wide = Rollout { strata, windows_per_step: 240, per_window: 60, ..rollout() }.with_metrics(&metrics);
    let metrics = [Metric::AgentRunLatency, Metric::TimeToFirstToken, Metric::InterTokenLatency, Metric::ModelTime];
    let objectives = metrics.iter().flat_map(|metric| {
        [Percentile::P50, Percentile::P90, Percentile::P95, Percentile::P99].map(|percentile| CountedObjective {
            metric: *metric,
            percentile,
            max_microseconds: 900_000,
        })
    });
    let mut judge = Judge::new(Config { objectives: objectives.collect(), ..Config::default() });
    let mut largest = 0;
    for mut window in wide.windows(15) {
        for pod in 0..60 {
            let mut more = window.observations[0].clone();
            (more.pod, more.count, more.errors, more.buckets) = (format!("s-{pod}"), 0, 0, Histogram::new());
            window.observations.push(more);
        }
        judge.consume(&window);
        largest = largest.max(judge.encode().len());
    }
    assert!(largest <= MAX_STATE_BYTES, "{largest} bytes");
    assert!(largest > 6_000, "{largest} bytes: the test no longer fills the state");
}
