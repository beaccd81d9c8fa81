//! Levels beside the choice, on servers of eight GPUs that InferenceX measured (github.com/SemiAnalysisAI/InferenceX,
//! 843c6254ff69, Apache-2.0).

use pretty_assertions::assert_eq;

use super::*;

const LOADS: [f64; 6] = [4.0, 8.0, 16.0, 32.0, 48.0, 64.0];

/// Output tokens per second and GPU, and the p99 of the time per output token in milliseconds, at each load.
type Table = [[(f64, f64); 6]; 3];

/// GLM-5, MiniMax-M2.5 and Qwen3.5 with 4,096 tokens of input. Of the last nothing is known at 48.
const OF_4096: Table = [
    [(14.7, 43.4), (27.1, 53.0), (25.7, 98.4), (28.5, 173.6), (29.9, 236.0), (30.4, 270.4)],
    [(24.3, 18.8), (45.5, 20.5), (59.5, 38.0), (86.6, 43.5), (106.4, 62.3), (123.7, 69.9)],
    [(8.8, 44.2), (16.2, 69.9), (22.8, 112.3), (21.4, 201.5), (0.0, 0.0), (19.8, 385.2)],
];

/// The same servers with 8,192 tokens of input.
const OF_8192: Table = [
    [(10.3, 49.1), (12.8, 89.9), (14.4, 160.3), (14.9, 308.6), (14.8, 312.6), (15.1, 281.6)],
    [(17.9, 26.0), (29.3, 39.3), (33.6, 62.3), (39.0, 114.2), (51.0, 162.8), (31.5, 216.7)],
    [(6.3, 69.5), (11.4, 116.9), (14.9, 187.5), (10.0, 389.5), (0.0, 0.0), (10.5, 739.1)],
];

const GLM: usize = 0;
const MINIMAX: usize = 1;
const QWEN: usize = 2;

fn servers(limit: f64) -> Space {
    let arm = |server: usize| Arm {
        values: vec![Value::Text(["glm", "minimax", "qwen"][server].into())],
        gpus: 8.0,
        start_seconds: Some(180.0),
        engine: server,
        levels: LOADS.map(|load| server != QWEN || load != 48.0).to_vec(),
        ..space().arms[0].clone()
    };
    let metric = |name: &str, kind| Metric { name: name.into(), kind, prior: Vec::new() };
    Space {
        axes: vec![Axis { name: "series".into(), role: None }],
        arms: (0..3).map(arm).collect(),
        levels: LOADS.to_vec(),
        run_seconds: Some(150.0),
        metrics: vec![metric("tok_per_s_per_gpu", MetricKind::Throughput), metric("tpot_p99_ms", MetricKind::PerToken)],
        constraints: vec![Constraint { metric: 1, bound: Bound::AtMost(limit) }],
        ..space()
    }
}

/// What a search that stops at a gain does after runs of a table's servers at some loads. Those that missed the limit
/// were cut short.
fn next_after(table: &Table, (limit, stop_gain): (f64, f64), runs: &[(usize, f64)]) -> Proposal {
    let space = servers(limit);
    let measurement = |(server, load): &(usize, f64)| {
        let level = LOADS.iter().position(|known| known == load).unwrap();
        let (rate, time) = table[*server][level];
        let proposal =
            Proposal { cell: Cell { arm: *server, level }, purpose: Purpose::Explore, reason: String::new() };
        let run = measured(&proposal, None, vec![rate, time]);
        let estimates = || Outcome::Aborted { values: vec![Some(rate), Some(time)], log_sds: vec![0.1; 2] };
        if space.meets(&[rate, time]) { run } else { Measurement { outcome: estimates(), ..run } }
    };
    let measurements: Vec<Measurement> = runs.iter().map(measurement).collect();
    let settings = Settings { stop_gain, ..Settings::default() };
    match Slipway::new(space.clone(), settings).next(Progress { measurements: &measurements, pending: &[] }) {
        Step::Measure { proposals } => proposals[0].clone(),
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_load_between_two_that_were_run_may_surprise_and_is_run() {
    // At 64 the server did less than at 32, and at 48 it does most.
    let runs =
        [(MINIMAX, 32.0), (MINIMAX, 64.0), (MINIMAX, 4.0), (QWEN, 64.0), (GLM, 64.0), (MINIMAX, 16.0), (GLM, 4.0)];
    let next = next_after(&OF_8192, (281.6, 0.01), &runs);
    assert_eq!((next.cell, next.purpose), (Cell { arm: MINIMAX, level: 4 }, Purpose::Explore), "{}", next.reason);
}

#[test]
fn the_load_above_all_that_were_run_is_not_left_because_a_time_doubled_once() {
    // From 8 to 16 the time per token doubled. At 32 it just meets the limit, with 1.45 times the throughput. The
    // surrogate expects a gain of 1.3 % of it.
    let runs = [(GLM, 32.0), (GLM, 8.0), (QWEN, 8.0), (QWEN, 4.0), (GLM, 4.0), (MINIMAX, 8.0), (MINIMAX, 16.0)];
    let next = next_after(&OF_4096, (43.5, 0.02), &runs);
    assert_eq!((next.cell, next.purpose), (Cell { arm: MINIMAX, level: 3 }, Purpose::Explore), "{}", next.reason);
}
