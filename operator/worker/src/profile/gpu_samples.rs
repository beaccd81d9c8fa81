//! What the GPUs do while a level runs, as Triton's metrics say.
//!
//! Triton samples NVML itself, every two seconds unless it is told otherwise. Metrics:
//! <https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md>.

use std::time::Duration;

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

impl Samples {
    /// Adds what one answer of Triton's says of its GPUs.
    fn add(&mut self, metrics: &str) {
        for (name, value) in metrics.lines().filter_map(figure) {
            match name {
                "nv_gpu_utilization" => self.utilization.add(value),
                "nv_gpu_power_usage" => self.power.add(value),
                "nv_gpu_memory_used_bytes" => {
                    self.memory_bytes = Some(self.memory_bytes.map_or(value, |most| most.max(value)))
                }
                _ => {}
            }
        }
    }

    /// The figures of a level that Triton had, if it had any.
    pub fn figures(&self) -> Option<Gpu> {
        let gpu = Gpu {
            memory_mib: self.memory_bytes.map(|bytes| (bytes / MEBIBYTE).round() as u32),
            // Triton reports a share between 0 and 1.
            utilization_percent: self.utilization.mean().map(|share| (100.0 * share).round() as u8),
            power_watts: self.power.mean().map(|watts| watts.round() as u32),
        };
        (gpu != Gpu::default()).then_some(gpu)
    }
}

/// The name and the value of a line, where it has a value that can be one.
fn figure(line: &str) -> Option<(&str, f64)> {
    let (labelled, value) = line.rsplit_once(' ')?;
    let name = labelled.split('{').next()?;
    let value: f64 = value.parse().ok()?;
    (value.is_finite() && value >= 0.0).then_some((name, value))
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

    #[test]
    fn without_a_gpu_there_are_no_figures_whatever_else_is_said() {
        let mut samples = Samples::default();
        samples.add("nv_cpu_utilization 0.4\nnv_gpu_utilization{gpu_uuid=\"GPU-a\"} NaN\nnv_gpu_power_usage\n\n");
        assert_eq!(samples.figures(), None);
    }
}
