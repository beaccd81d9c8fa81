//! The analytic prior: a roofline's expectation of ln throughput and ln time up to a constant. Pure.
//!
//! For language models one decoding step of a batch of c costs t(c) = overhead + (weights / bandwidth + c work /
//! compute) / tp^0.8 + all-reduce (tp - 1). So throughput is c / t(c) (Williams, Waterman and Patterson, "Roofline",
//! CACM 52, 2009). Weights and work are those of a typical 10-billion-parameter model: only the shape enters, the scale
//! is learned from the first run. For classical models throughput is min(c, capacity), the capacity growing with the
//! instances. It is never trusted for feasibility.

use slipway_vocabulary::gpu::{Gpu, by_words};

use super::{Role, Space, Value};

/// GB/s, TFLOPS: what an arm has when its product is unknown.
const UNKNOWN: (f64, f64) = (1935.0, 312.0);
/// Bytes read a step, in GB: a mid-sized model in 16 bits.
const WEIGHTS_GB: f64 = 20.0;
/// Milliseconds of TFLOPS a sequence costs a step, prefill included.
const WORK: f64 = 500.0;
/// Milliseconds a step costs whatever the hardware.
const OVERHEAD_MS: f64 = 8.0;
/// Milliseconds of all-reduce a step costs per further GPU.
const ALL_REDUCE_MS: f64 = 1.0;
/// How steeply capacity grows with instances that share a GPU.
const INSTANCE_GAIN: f64 = 0.5;

/// ln of the expected throughput of an arm at a level, up to a constant that all cells share.
#[must_use]
pub fn log_throughput(space: &Space, arm: usize, concurrency: f64) -> f64 {
    let concurrency = concurrency.max(1e-9);
    if is_language_model(space) {
        return (concurrency / step_ms(space, arm, concurrency)).ln();
    }
    // An arm that does not say has the server's default of one instance.
    match space.axis(Role::Instances).map(|_| space.number(arm, Role::Instances).unwrap_or(1.0)) {
        Some(instances) => {
            // One request per instance computes while another is on its way.
            let capacity = 2.0 * instances.max(1.0).powf(INSTANCE_GAIN);
            -((1.0 / concurrency + 1.0 / capacity).ln())
        }
        None => 0.5 * concurrency.ln(),
    }
}

/// Whether the prior tells the values of an axis apart.
#[must_use]
pub fn tells(space: &Space, role: Role) -> bool {
    match role {
        Role::GpuType | Role::TensorParallel | Role::Precision => is_language_model(space),
        Role::Instances => !is_language_model(space),
        Role::MaxBatchSize | Role::Concurrency => false,
    }
}

/// Whether the prior has only a rule of thumb for an axis: more instances help only where a device has room.
#[must_use]
pub fn guesses(role: Role) -> bool {
    match role {
        Role::Instances => true,
        Role::GpuType | Role::TensorParallel | Role::Precision | Role::MaxBatchSize | Role::Concurrency => false,
    }
}

fn is_language_model(space: &Space) -> bool {
    space.axis(Role::GpuType).is_some() || space.axis(Role::TensorParallel).is_some()
}

fn step_ms(space: &Space, arm: usize, concurrency: f64) -> f64 {
    let gpu = product(space, arm);
    let (bandwidth, tflops) = gpu.map_or(UNKNOWN, |g| (g.bandwidth, g.tflops));
    let parallel = space.number(arm, Role::TensorParallel).unwrap_or(1.0).max(1.0);
    let bytes = precision_bytes(space, arm);
    let memory_ms = WEIGHTS_GB * bytes / 2.0 / bandwidth * 1000.0;
    let compute_ms = concurrency * WORK / tflops;
    OVERHEAD_MS + (memory_ms + compute_ms) / parallel.powf(0.8) + ALL_REDUCE_MS * (parallel - 1.0)
}

/// What the objective's unit divides throughput by, as its name tells: GPUs, or what they cost. 1 otherwise.
#[must_use]
pub fn divisor(space: &Space, arm: usize, metric: &str) -> f64 {
    let name = metric.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let gpus = space.arms[arm].gpus;
    if is_priced(metric) {
        gpus * space.arms[arm].price.unwrap_or(1.0)
    } else if has(&["per_gpu", "pergpu", "/gpu", "_gpu"]) {
        gpus
    } else {
        1.0
    }
}

/// Whether a metric's name tells that its unit divides by money.
#[must_use]
pub fn is_priced(metric: &str) -> bool {
    let name = metric.to_lowercase();
    ["dollar", "usd", "$", "price", "cost"].iter().any(|word| name.contains(word))
}

fn product(space: &Space, arm: usize) -> Option<Gpu> {
    space.text(arm, Role::GpuType).and_then(by_words)
}

fn precision_bytes(space: &Space, arm: usize) -> f64 {
    let text = match space.axis(Role::Precision).map(|axis| &space.arms[arm].values[axis]) {
        Some(Value::Text(text)) => text.to_lowercase(),
        Some(Value::Number(bits)) => return (bits / 8.0).clamp(0.25, 8.0),
        None => return 2.0,
    };
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["4"]) {
        0.6
    } else if has(&["8"]) {
        1.0
    } else if has(&["32"]) {
        4.0
    } else {
        2.0
    }
}
