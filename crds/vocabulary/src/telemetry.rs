//! What the GPUs of a serving pod do, window by window, and when that speaks against their node. Pure.
//!
//! Only the server's container sees the GPUs. A program beside the server counts there, and answers on loopback; the
//! sidecar puts what it counted into the windows of the evidence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::preflight::Slowdown;

/// Port of loopback where the pod's GPUs are told.
pub const PORT: u16 = 9465;
/// Path of what they did, on that port.
pub const PATH: &str = "/slipway/v1/gpus";
/// Most GPUs of one window.
pub const MOST_GPUS: usize = 64;
/// Most XID errors of one GPU that one window tells.
pub const MOST_XIDS: usize = 16;

/// A GPU that is slowed down in this share of its samples, of a hundred, explains slow requests.
const SLOWED_PERCENT: u32 = 20;

/// XID errors that NVIDIA's catalog lays at hardware, driver or links. Others may be a program's own, such as 13, 31,
/// 43 and 45: those speak against the revision.
const OF_HARDWARE: [u64; 15] = [46, 48, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 121, 140];

/// What the GPUs of a pod did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// Windows, ascending by id. The last one may still grow.
    pub windows: Vec<TelemetryWindow>,
}

/// What they did in one window of the evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TelemetryWindow {
    /// The window's id.
    pub id: u64,
    /// The GPUs that the container sees.
    pub gpus: Vec<GpuWindow>,
}

/// What a GPU did in one window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuWindow {
    /// Its place among those of the pod.
    pub gpu: u32,
    /// How often it was looked at.
    pub samples: u32,
    /// What lowered its clocks, with the number of samples that saw it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowed: Vec<(Slowdown, u32)>,
    /// XID errors that the driver reported; 0 where it gave no number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<u64>,
    /// Mean share of time in which it had work, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization_percent: Option<u32>,
    /// Most memory in use, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_mib: Option<u64>,
    /// Mean power, watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_watts: Option<u32>,
    /// Mean clock of its multiprocessors, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<u32>,
    /// The highest clock that it can have, MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_clock_mhz: Option<u32>,
}

impl GpuWindow {
    /// What of this window is its node's doing, the gravest first.
    #[must_use]
    pub fn faults(&self) -> Vec<GpuFault> {
        self.broken().into_iter().chain(self.slowed_down()).collect()
    }

    /// An error of hardware, which lasts beyond the window.
    #[must_use]
    pub fn broken(&self) -> Option<GpuFault> {
        let code = self.xids.iter().copied().find(|code| OF_HARDWARE.contains(code))?;
        Some(GpuFault::Broken { gpu: self.gpu, code })
    }

    fn slowed_down(&self) -> Option<GpuFault> {
        let of_node = |(by, samples): &&(Slowdown, u32)| {
            !by.is_normal() && u64::from(*samples) * 100 >= u64::from(self.samples) * u64::from(SLOWED_PERCENT)
        };
        let slowed: Vec<(Slowdown, u32)> = self.slowed.iter().filter(of_node).copied().collect();
        let most = slowed.iter().map(|(_, samples)| *samples).max().filter(|most| *most > 0)?;
        Some(GpuFault::Slowed {
            gpu: self.gpu,
            by: slowed.into_iter().map(|(by, _)| by).collect(),
            slowed_samples: most,
            samples: self.samples,
            clock_mhz: self.clock_mhz,
            max_clock_mhz: self.max_clock_mhz,
        })
    }
}

/// Why a GPU does not do what one that works well does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GpuFault {
    /// The driver reported an error of its hardware.
    Broken {
        /// Its place.
        gpu: u32,
        /// Number of the XID error.
        code: u64,
    },
    /// Heat, the power supply or the hardware lowers its clocks.
    Slowed {
        /// Its place.
        gpu: u32,
        /// Why.
        by: Vec<Slowdown>,
        /// Samples that saw it slowed down.
        slowed_samples: u32,
        /// All samples.
        samples: u32,
        /// Its mean clock, MHz.
        clock_mhz: Option<u32>,
        /// The highest that it can have.
        max_clock_mhz: Option<u32>,
    },
}

impl fmt::Display for GpuFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken { gpu, code } => write!(f, "GPU {gpu} raised XID {code}"),
            Self::Slowed { gpu, by, slowed_samples, samples, clock_mhz, max_clock_mhz } => {
                let by: Vec<String> = by.iter().map(ToString::to_string).collect();
                write!(f, "GPU {gpu} is slowed down by {}", by.join(" and "))?;
                if let (Some(clock), Some(max)) = (clock_mhz, max_clock_mhz) {
                    write!(f, " to {clock} of {max} MHz")?;
                }
                write!(f, " in {slowed_samples} of {samples} samples")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn gpu(slowed: &[(Slowdown, u32)], xids: &[u64]) -> GpuWindow {
        let (slowed, xids) = (slowed.to_vec(), xids.to_vec());
        GpuWindow {
            samples: 50,
            slowed,
            xids,
            clock_mhz: Some(1_200),
            max_clock_mhz: Some(1_980),
            ..GpuWindow::default()
        }
    }

    fn said(gpu: &GpuWindow) -> String {
        let words: Vec<String> = gpu.faults().iter().map(ToString::to_string).collect();
        words.join("; ")
    }

    #[rstest]
    #[case::at_its_power_limit(gpu(&[(Slowdown::PowerCap, 50)], &[]), "")]
    #[case::hot_for_a_moment(gpu(&[(Slowdown::Heat, 9)], &[]), "")]
    #[case::hot(
        gpu(&[(Slowdown::Heat, 40), (Slowdown::PowerCap, 10)], &[]),
        "GPU 0 is slowed down by heat to 1200 of 1980 MHz in 40 of 50 samples"
    )]
    #[case::braked(
        gpu(&[(Slowdown::PowerBrake, 10), (Slowdown::Hardware, 50)], &[]),
        "GPU 0 is slowed down by its power supply and its hardware to 1200 of 1980 MHz in 50 of 50 samples"
    )]
    #[case::a_programs_own_error(gpu(&[], &[31, 13, 43, 0]), "")]
    #[case::off_its_bus(gpu(&[], &[31, 79]), "GPU 0 raised XID 79")]
    #[case::not_looked_at(GpuWindow { slowed: vec![(Slowdown::Heat, 0)], ..GpuWindow::default() }, "")]
    fn a_node_is_at_fault_for_heat_power_and_hardware_alone(#[case] gpu: GpuWindow, #[case] expected: &str) {
        assert_eq!(said(&gpu), expected);
    }

    #[test]
    fn what_is_not_known_is_not_written() {
        let window = GpuWindow { gpu: 1, samples: 50, slowed: vec![(Slowdown::Heat, 3)], ..GpuWindow::default() };
        let text = serde_json::to_string(&window).unwrap();
        assert_eq!(text, r#"{"gpu":1,"samples":50,"slowed":[["Heat",3]]}"#);
        assert_eq!(serde_json::from_str::<GpuWindow>(&text).unwrap(), window);
    }
}
