//! The analytic prior: a roofline's expectation of ln throughput and ln time up to a constant. Pure.
//!
//! For language models one decoding step of a batch of c costs t(c) = overhead + (weights / bandwidth + c work /
//! compute) / tp^0.8 + all-reduce (tp - 1). So throughput is c / t(c) (Williams, Waterman and Patterson, "Roofline",
//! CACM 52, 2009). Weights and work grow with the model's parameters, where the space has them. Otherwise they are
//! those of a model of 10 billion parameters. Of a mixture, a step reads the experts of its c tokens, at most all. Only
//! the form of the curve enters: the scale is learned from the first run. For classical models throughput is
//! min(c, capacity), the capacity growing with the instances. It is never trusted for feasibility.

use slipway_vocabulary::gpu::{Gpu, by_words};

use super::{ModelSize, Role, Space, Value};

/// GB/s, TFLOPS: what an arm has when its product is unknown.
const UNKNOWN: (f64, f64) = (1935.0, 312.0);
/// A model whose size is not known.
const TYPICAL: ModelSize = ModelSize { parameters: 1e10, active: 1e10 };
/// Bytes of a parameter in 16 bits, in GB.
const PARAMETER_GB: f64 = 2e-9;
/// Milliseconds of TFLOPS that a sequence of [`TYPICAL`] costs a step, prefill included.
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
    let size = space.model.unwrap_or(TYPICAL);
    let read = size.parameters.min(size.active * concurrency.max(1.0)) * PARAMETER_GB;
    let memory_ms = read * bytes / 2.0 / bandwidth * 1000.0;
    let compute_ms = concurrency * WORK * (size.active / TYPICAL.active) / tflops;
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::pareto::Direction;
    use crate::search::{Arm, Axis, Columns};

    /// FP16 and FP8 of one model on an H200.
    fn formats(model: Option<ModelSize>) -> Space {
        let arm = |precision: &str| Arm {
            values: vec![Value::Text("NVIDIA-H200".into()), Value::Text(precision.into())],
            gpus: 1.0,
            price: None,
            start_seconds: None,
            engine: 0,
            levels: Vec::new(),
        };
        let axis = |name: &str, role| Axis { name: name.into(), role: Some(role) };
        Space {
            axes: vec![axis("gpu", Role::GpuType), axis("precision", Role::Precision)],
            arms: vec![arm("FP16"), arm("FP8")],
            levels: Vec::new(),
            run_seconds: None,
            metrics: Vec::new(),
            objective: 0,
            direction: Direction::Maximize,
            constraints: Vec::new(),
            abort_fraction: 1.0,
            prices_known: false,
            columns: Columns::default(),
            model,
        }
    }

    fn dense(parameters: f64) -> Option<ModelSize> {
        Some(ModelSize { parameters, active: parameters })
    }

    /// How many times as fast FP8 is as FP16.
    fn gain(model: Option<ModelSize>, concurrency: f64) -> f64 {
        let space = formats(model);
        (log_throughput(&space, 1, concurrency) - log_throughput(&space, 0, concurrency)).exp()
    }

    #[test]
    fn the_larger_a_model_is_the_more_half_of_its_bytes_gain() {
        let gains = [1e9, 8e9, 70e9].map(|parameters| (100.0 * gain(dense(parameters), 1.0)).round());
        assert_eq!(gains, [103.0, 117.0, 156.0], "percent of FP16 at one sequence");
    }

    #[test]
    fn a_model_of_unknown_size_is_taken_for_one_of_ten_billion_parameters() {
        let expected = |model| [1.0, 64.0].map(|level| log_throughput(&formats(model), 0, level));
        assert_eq!(expected(None), expected(dense(1e10)));
    }

    #[test]
    fn one_sequence_of_a_mixture_reads_the_experts_that_it_visits_and_many_read_all() {
        let mixture = Some(ModelSize { parameters: 30e9, active: 3e9 });
        assert_eq!(gain(mixture, 1.0), gain(dense(3e9), 1.0));
        let of_all = |level: f64| step_ms(&formats(mixture), 0, level) - level * WORK * 0.3 / 989.0;
        assert_eq!((of_all(10.0) * 1e6).round(), (of_all(256.0) * 1e6).round(), "ten sequences visit every expert");
    }
}
