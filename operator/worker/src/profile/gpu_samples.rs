//! What the GPUs do while a level runs, as Triton's metrics say.
//!
//! Triton samples NVML itself, every two seconds by default. Metrics:
//! <https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md>.

use std::{collections::BTreeMap, time::Duration};

use reqwest::Client;
use slipway_worker_contract::Gpu;
use tokio::time::{Instant, interval_at, timeout};

/// How often the metrics are read: Triton has new ones every other time.
const EVERY: Duration = Duration::from_secs(1);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
const MEBIBYTE: f64 = 1_048_576.0;

/// The sums of some samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    utilization: Sum,
    power: Sum,
    memory_bytes: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    total: f64,
    number: u32,
}

impl Sum {
    fn add(&mut self, value: f64) {
        self.total += value;
        self.number += 1;
    }

    /// `None` without a value.
    fn mean(self) -> Option<f64> {
        (self.number > 0).then(|| self.total / f64::from(self.number))
    }
}

/// What one answer says of one GPU.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    utilization: Option<f64>,
    power: Option<f64>,
    memory_bytes: Option<f64>,
}

impl Samples {
    /// Adds what one answer of Triton's says of its GPUs. Triton has 0 in place of what it could not read, and before
    /// it has read anything. A GPU with a model takes power and has memory in use, so 0 of either does not count. It
    /// may idle: then the same answer has its power or memory.
    fn add(&mut self, metrics: &str) {
        let mut gpus: BTreeMap<&str, Seen> = BTreeMap::new();
        for (name, labels, value) in metrics.lines().filter_map(figure) {
            let seen = gpus.entry(labels).or_default();
            match name {
                "nv_gpu_utilization" => seen.utilization = Some(value),
                "nv_gpu_power_usage" => seen.power = known(value),
                "nv_gpu_memory_used_bytes" => seen.memory_bytes = known(value),
                _ => {}
            }
        }
        for Seen { utilization, power, memory_bytes } in gpus.into_values() {
            let is_read = power.or(memory_bytes).is_some();
            utilization.filter(|share| is_read || *share > 0.0).iter().for_each(|share| self.utilization.add(*share));
            power.iter().for_each(|watts| self.power.add(*watts));
            self.memory_bytes = self.memory_bytes.into_iter().chain(memory_bytes).reduce(f64::max);
        }
    }

    /// The figures of a level that Triton had, if it had any.
    pub fn figures(&self) -> Option<Gpu> {
        of_means(Means {
            memory_bytes: self.memory_bytes,
            utilization: self.utilization.mean(),
            power: self.power.mean(),
        })
    }
}

/// What GPUs did, in Triton's units.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// Most memory used.
    pub memory_bytes: Option<f64>,
    /// A share between 0 and 1.
    pub utilization: Option<f64>,
    /// Watts.
    pub power: Option<f64>,
}

/// The figures of a level, if there are any. Triton has a utilization of 0 for a GPU that does not report it, such as a
/// slice of one. A level without any utilization looks the same, so 0 is not known.
pub fn of_means(means: Means) -> Option<Gpu> {
    let Means { memory_bytes, utilization, power } = means;
    let gpu = Gpu {
        memory_mib: memory_bytes.map(|bytes| (bytes / MEBIBYTE).round() as u32),
        utilization_percent: utilization.map(|share| (100.0 * share).round() as u8).filter(|percent| *percent > 0),
        power_watts: power.map(|watts| watts.round() as u32),
    };
    (gpu != Gpu::default()).then_some(gpu)
}

/// A figure that no GPU with a model has as 0.
pub fn known(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

/// The name, the labels and the value of a line, where it has a value that can be one.
fn figure(line: &str) -> Option<(&str, &str, f64)> {
    let (labelled, value) = line.rsplit_once(' ')?;
    let (name, labels) = labelled.split_at(labelled.find('{').unwrap_or(labelled.len()));
    let value: f64 = value.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((name, labels, value))
}

/// Carries work out, and samples meanwhile. The first sample is taken after a second: the GPUs' figures are of the time
/// before.
pub async fn during<T>(client: &Client, url: &str, work: impl Future<Output = T>) -> (T, Samples) {
    let mut samples = Samples::default();
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return (done, samples),
            _ = ticks.tick() => {}
        }
        // The work goes on beside the question.
        let question = timeout(PATIENCE, read(client, url));
        tokio::select! {
            done = &mut work => return (done, samples),
            answer = question => if let Ok(Some(metrics)) = answer { samples.add(&metrics) },
        }
    }
}

async fn read(client: &Client, url: &str) -> Option<String> {
    let answer = client.get(url).send().await.ok()?.error_for_status().ok()?;
    answer.text().await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP nv_gpu_utilization GPU utilization rate [0.0 - 1.0)\n\
                           nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.5\nnv_gpu_utilization{gpu_uuid=\"GPU-b\"} 0.9\n\
                           nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-a\"} 15032385536\n\
                           nv_gpu_memory_used_bytes{gpu_uuid=\"GPU-b\"} 1048576\n\
                           nv_gpu_power_usage{gpu_uuid=\"GPU-a\"} 250\nnv_gpu_power_usage{gpu_uuid=\"GPU-b\"} 350\n";

    #[test]
    fn utilization_and_power_are_means_over_gpus_and_time_and_memory_is_the_most() {
        let mut samples = Samples::default();
        samples.add(METRICS);
        samples.add(&METRICS.replace("} 0.5", "} 0.1").replace("} 15032385536", "} 7516192768"));
        let expected = Gpu { memory_mib: Some(14_336), utilization_percent: Some(60), power_watts: Some(300) };
        assert_eq!(samples.figures(), Some(expected));
    }

    #[test]
    fn a_figure_that_triton_does_not_have_is_absent_and_not_zero() {
        let mut samples = Samples::default();
        samples.add("nv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.4\n");
        assert_eq!(samples.figures(), Some(Gpu { utilization_percent: Some(40), ..Gpu::default() }));
    }

    /// What one GPU has of utilization, memory and power in each answer.
    fn seen(answers: &[(f64, f64, f64)]) -> Option<Gpu> {
        let mut samples = Samples::default();
        for (utilization, memory, power) in answers {
            let of = |name: &str, value: &f64| format!("nv_gpu_{name}{{gpu_uuid=\"GPU-a\"}} {value}\n");
            let text = [of("utilization", utilization), of("memory_used_bytes", memory), of("power_usage", power)];
            samples.add(&text.concat());
        }
        samples.figures()
    }

    #[test]
    fn what_triton_could_not_read_is_not_zero() {
        let mebibyte = f64::from(1 << 20);
        assert_eq!(seen(&[(0.0, 0.0, 0.0)]), None, "before the first sample");
        let slice = Gpu { memory_mib: Some(2), ..Gpu::default() };
        assert_eq!(seen(&[(0.0, 2.0 * mebibyte, 0.0)]), Some(slice), "a slice of a GPU reports no more");
        let whole = Gpu { memory_mib: Some(2), utilization_percent: Some(40), power_watts: Some(300) };
        let one = (0.4, 2.0 * mebibyte, 300.0);
        assert_eq!(seen(&[one, (0.0, 0.0, 0.0), one]), Some(whole), "one failed sample");
        let idle = Gpu { memory_mib: Some(2), utilization_percent: Some(20), power_watts: Some(190) };
        assert_eq!(seen(&[one, (0.0, 2.0 * mebibyte, 80.0)]), Some(idle), "a GPU may idle");
    }

    #[test]
    fn without_a_gpu_there_are_no_figures_whatever_else_is_said() {
        let mut samples = Samples::default();
        samples.add("nv_cpu_utilization 0.4\nnv_gpu_utilization{gpu_uuid=\"GPU-a\"} NaN\nnv_gpu_power_usage\n\n");
        assert_eq!(samples.figures(), None);
    }
}
