//! How long one window takes. Reads the clock.

use std::time::Instant;

use slipway_analysis::judge::{Arm, Config, CountedObjective, Judge, Observation, Window};
use slipway_vocabulary::{
    Percentile,
    evidence::{Histogram, Metric, Unit},
};

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

const WINDOWS: u64 = 360;
const STRATA: [&str; 6] = ["miss/p9/f0", "miss/p9/f1", "miss/p11/f0", "miss/p11/f1", "hit/p9/f0", "hit/p11/f1"];

/// Microseconds per window: smallest, median, 99th percentile, largest.
pub struct Timing {
    pub requests_per_second: u64,
    pub microseconds: [f64; 4],
}

/// Measures windows of ten metrics with objectives on two, five pods and six strata.
pub fn measure(requests_per_second: u64) -> Timing {
    let mut rng = Pcg64Mcg::new(11);
    let mut judge = Judge::new(config());
    let mut microseconds: Vec<f64> = (1..=WINDOWS)
        .map(|index| {
            let window = window(&mut rng, index * 10, requests_per_second);
            let began = Instant::now();
            std::hint::black_box(judge.consume(&window));
            let elapsed = began.elapsed().as_secs_f64() * 1e6;
            // A canary that is promoted would be read no further.
            judge.hold();
            elapsed
        })
        .collect();
    microseconds.sort_by(f64::total_cmp);
    let at = |share: f64| microseconds[((microseconds.len() - 1) as f64 * share) as usize];
    Timing { requests_per_second, microseconds: [at(0.0), at(0.5), at(0.99), at(1.0)] }
}

fn config() -> Config {
    let metrics = [Metric::AgentRunLatency, Metric::RequestTimeToFirstToken];
    let objective = |metric| CountedObjective { metric, percentile: Percentile::P95, max_microseconds: 900_000 };
    Config { objectives: metrics.map(objective).to_vec(), ..Config::default() }
}

fn window(rng: &mut Pcg64Mcg, end_seconds: u64, requests_per_second: u64) -> Window {
    let mut observations = Vec::new();
    for metric in Metric::ALL.into_iter().take(10) {
        for (arm, pod, share) in [
            (Arm::Canary, "c0", 5),
            (Arm::Stable, "s0", 2),
            (Arm::Stable, "s1", 1),
            (Arm::Stable, "s2", 1),
            (Arm::Stable, "s3", 1),
        ] {
            for stratum in STRATA {
                let n = requests_per_second * 10 * share / 10 / STRATA.len() as u64;
                let buckets: Histogram = (0..n).map(|_| (1e5 / rng.random_range(0.01..1.0_f64)) as u64).collect();
                observations.push(Observation {
                    arm,
                    pod: pod.to_owned(),
                    metric,
                    unit: Unit::Run,
                    stratum: stratum.to_owned(),
                    started: Some(n),
                    new_sessions: 0,
                    in_flight_ages: Some(Vec::new()),
                    count: n,
                    errors: 0,
                    buckets,
                });
            }
        }
    }
    Window { end_seconds, weight_percent: Some(50.0), observations, ..Window::default() }
}
