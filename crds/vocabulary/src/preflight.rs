//! What a pod checks of its GPUs before its server starts: what is asked, what was found, and why GPUs are refused.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format of the report.
pub const REPORT_FORMAT_VERSION: u32 = 1;

/// What the GPUs of a pod must be. Members that a program does not know are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreflightTask {
    /// GPUs that the pod asks for.
    pub gpus: u32,
    /// Their product, as the node label `nvidia.com/gpu.product` has it; absent if any will do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// The oldest driver that will do; absent if any will.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_driver: Option<String>,
    /// Share of the memory of each that must be free, in parts per million.
    pub min_free_per_million: u32,
    /// Folder with the engine, whose weights must fit; absent if nothing is known of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Bytes of the report that the kubelet keeps.
    pub message_bytes: usize,
    /// Folder that the program copies itself to, for the server's container, which it counts in; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_to: Option<String>,
}

impl Default for PreflightTask {
    fn default() -> Self {
        Self {
            gpus: 1,
            product: None,
            min_driver: None,
            min_free_per_million: 900_000,
            engine: None,
            message_bytes: 4_096,
            copy_to: None,
        }
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreflightReport {
    /// [`REPORT_FORMAT_VERSION`].
    pub format_version: u32,
    /// Why the GPUs are refused; empty if they will do.
    pub refusals: Vec<GpuRefusal>,
    /// Refusals beyond these, for want of room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_refusals: u32,
    /// Version of the driver, as in `580.159.04`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The newest CUDA that it serves, as in `13.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// What was found of each GPU.
    pub gpus: Vec<GpuReport>,
    /// GPUs beyond these, for want of room.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_gpus: u32,
    /// What was not measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_measured: Vec<String>,
    /// MiB of the engine's weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_mib: Option<u64>,
    /// Milliseconds that the checks took.
    pub millis: u64,
}

impl PreflightReport {
    /// A report of nothing but refusals.
    #[must_use]
    pub fn of(refusals: Vec<GpuRefusal>) -> Self {
        Self {
            format_version: REPORT_FORMAT_VERSION,
            refusals,
            omitted_refusals: 0,
            driver: None,
            cuda: None,
            gpus: Vec::new(),
            omitted_gpus: 0,
            not_measured: Vec::new(),
            weights_mib: None,
            millis: 0,
        }
    }

    /// Why the GPUs are refused, in words; absent if they will do.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        let all: Vec<String> = self.refusals.iter().map(ToString::to_string).collect();
        let more = match self.omitted_refusals {
            0 => String::new(),
            omitted => format!("; and {omitted} further problems"),
        };
        (!all.is_empty()).then(|| format!("{}{more}", all.join("; ")))
    }
}

/// What was found of a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GpuReport {
    /// Its place among those of the pod.
    pub gpu: u32,
    /// Its name, as the driver has it.
    pub name: String,
    /// Its compute capability times ten: 89 is SM89.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm: Option<u32>,
    /// Its memory in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// How much of that was free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_mib: Option<u64>,
    /// GB/s read and written by copies within its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_gb_per_second: Option<u32>,
    /// GB/s of its data sheet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sheet_gb_per_second: Option<u32>,
    /// TFLOPS of matrix products in BF16, by the instruction of a warp.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bf16_tflops: Option<u32>,
    /// TFLOPS of its data sheet, dense.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sheet_tflops: Option<u32>,
    /// Clock of its multiprocessors meanwhile, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<u32>,
    /// The highest that it can have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_clock_mhz: Option<u32>,
    /// What slowed it down meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowed_by: Vec<Slowdown>,
    /// Errors of its memory that could not be corrected, since its driver was loaded; absent without ECC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected_errors: Option<u64>,
}

/// Why a GPU lowers its clocks though it has work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slowdown {
    /// It draws as much power as it may. Large GPUs do so at full work.
    PowerCap,
    /// The driver finds it too hot.
    Heat,
    /// It finds itself too hot, and halves its clocks or worse.
    HardwareHeat,
    /// The power supply asks for less, and it halves its clocks or worse.
    PowerBrake,
    /// It halves its clocks or worse, and does not say why.
    Hardware,
}

impl Slowdown {
    /// Whether a GPU that works well has it too.
    #[must_use]
    pub const fn is_normal(self) -> bool {
        match self {
            Self::PowerCap => true,
            Self::Heat | Self::HardwareHeat | Self::PowerBrake | Self::Hardware => false,
        }
    }
}

impl fmt::Display for Slowdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PowerCap => "its power limit",
            Self::Heat => "heat",
            Self::HardwareHeat => "its thermal protection",
            Self::PowerBrake => "its power supply",
            Self::Hardware => "its hardware",
        })
    }
}

/// Why GPUs are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum GpuRefusal {
    /// A library of the driver is not there, or is another's.
    NoLibrary {
        /// Its file.
        library: String,
        /// What the loader said.
        problem: String,
    },
    /// The driver did not answer.
    TimedOut {
        /// Seconds that it was given.
        seconds: u64,
    },
    /// The driver refuses something that it must do.
    DriverFailed {
        /// What it refuses.
        step: String,
        /// What it says.
        problem: String,
    },
    /// Fewer GPUs are there than the pod asks for.
    TooFew {
        /// GPUs that are there.
        seen: u32,
        /// GPUs that the pod asks for.
        asked: u32,
    },
    /// The driver is older than the image needs.
    OldDriver {
        /// Its version.
        driver: String,
        /// The oldest that will do.
        needed: String,
    },
    /// A GPU is cut into slices.
    Mig {
        /// Its place.
        gpu: u32,
        /// Its name.
        name: String,
    },
    /// A GPU is another than the spec names.
    OtherProduct {
        /// Its place.
        gpu: u32,
        /// Its product.
        product: String,
        /// The product that the spec names.
        asked: String,
    },
    /// A GPU that the table of products lacks has another compute capability than the product that the spec names.
    OtherCapability {
        /// Its place.
        gpu: u32,
        /// Its name.
        name: String,
        /// Its compute capability times ten.
        sm: u32,
        /// The product that the spec names.
        asked: String,
        /// The compute capability of that product times ten.
        asked_sm: u32,
    },
    /// A GPU cannot be used.
    Unusable {
        /// Its place.
        gpu: u32,
        /// What failed.
        step: String,
        /// What the driver says.
        problem: String,
    },
    /// Somebody else holds memory of a GPU.
    Occupied {
        /// Its place.
        gpu: u32,
        /// MiB that are free.
        free_mib: u64,
        /// MiB that it has.
        memory_mib: u64,
        /// MiB that must be free.
        needed_mib: u64,
    },
    /// The engine's weights are larger than the free memory.
    WeightsDoNotFit {
        /// MiB of the weights.
        weights_mib: u64,
        /// MiB that are free on all GPUs together.
        free_mib: u64,
        /// The GPUs.
        gpus: u32,
    },
    /// A GPU copies slower than one that works well.
    SlowMemory {
        /// Its place.
        gpu: u32,
        /// GB/s measured.
        copy_gb_per_second: u32,
        /// GB/s that it must reach.
        needed_gb_per_second: u32,
        /// GB/s of its data sheet.
        data_sheet_gb_per_second: u32,
    },
    /// A GPU multiplies matrices slower than one that works well.
    SlowProducts {
        /// Its place.
        gpu: u32,
        /// TFLOPS measured in BF16.
        bf16_tflops: u32,
        /// TFLOPS that it must reach.
        needed_tflops: u32,
        /// TFLOPS of its data sheet.
        data_sheet_tflops: u32,
    },
    /// A GPU multiplies matrices wrong.
    WrongProducts {
        /// Its place.
        gpu: u32,
    },
    /// Memory of a GPU had errors that could not be corrected.
    UncorrectedErrors {
        /// Its place.
        gpu: u32,
        /// How many, since its driver was loaded.
        errors: u64,
    },
    /// Memory of a GPU is to be replaced by spare rows or pages.
    RepairPending {
        /// Its place.
        gpu: u32,
    },
    /// Memory of a GPU is broken, and no spare rows are left.
    RepairFailed {
        /// Its place.
        gpu: u32,
    },
    /// A GPU lowers its clocks.
    Slowed {
        /// Its place.
        gpu: u32,
        /// Why.
        by: Vec<Slowdown>,
        /// The clock that it has, in MHz.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clock_mhz: Option<u32>,
        /// The highest that it can have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_clock_mhz: Option<u32>,
    },
    /// The driver reported an error of a GPU while the checks ran.
    Xid {
        /// Its place.
        gpu: u32,
        /// The error's number; absent where the driver gives none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<u64>,
    },
}

impl fmt::Display for GpuRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary { library, problem } => write!(
                f,
                "{library} cannot be loaded ({problem}): check the node's driver and NVIDIA's container toolkit"
            ),
            Self::TimedOut { seconds } => {
                write!(f, "the driver did not answer within {seconds} s: look for XID errors in the node's kernel log")
            }
            Self::DriverFailed { step, problem } => write!(f, "the driver refuses to {step}: {problem}"),
            Self::TooFew { seen, asked } => {
                write!(f, "the container sees {seen} of {asked} GPUs: check the node's device plugin")
            }
            Self::OldDriver { driver, needed } => write!(
                f,
                "driver {driver} is older than {needed}, which spec.serving.preflight.minDriver asks for: update it, \
                 or choose other nodes"
            ),
            Self::Mig { gpu, name } => {
                write!(f, "GPU {gpu} ({name}) is cut into MIG slices: choose nodes with whole GPUs")
            }
            Self::OtherProduct { gpu, product, asked } => write!(
                f,
                "GPU {gpu} is {product}, but spec.hardware.nodeSelector names {asked}: correct the node's labels"
            ),
            Self::OtherCapability { gpu, name, sm, asked, asked_sm } => write!(
                f,
                "GPU {gpu} ({name}) has compute capability {}, and {asked}, which spec.hardware.nodeSelector names, \
                 has {}: correct the node's labels",
                capability(*sm),
                capability(*asked_sm)
            ),
            Self::Unusable { gpu, step, problem } => write!(
                f,
                "GPU {gpu} fails to {step} ({problem}): look for XID errors in the node's kernel log, and reset the \
                 GPU or choose other nodes"
            ),
            Self::Occupied { gpu, free_mib, memory_mib, needed_mib } => write!(
                f,
                "GPU {gpu} has {free_mib} of {memory_mib} MiB free and {needed_mib} are needed: end what holds the \
                 rest, or lower spec.serving.preflight.minFreeMemory"
            ),
            Self::WeightsDoNotFit { weights_mib, free_mib, gpus } => write!(
                f,
                "the weights take {weights_mib} MiB, and {} {free_mib} MiB free: split the engine over more GPUs, or \
                 choose a smaller precision",
                if *gpus == 1 { "one GPU has".to_owned() } else { format!("{gpus} GPUs have") }
            ),
            Self::SlowMemory { gpu, copy_gb_per_second, needed_gb_per_second, data_sheet_gb_per_second } => write!(
                f,
                "GPU {gpu} copies {copy_gb_per_second} GB/s, and needs {needed_gb_per_second} of the \
                 {data_sheet_gb_per_second} of its data sheet: another process uses it, or it is damaged"
            ),
            Self::SlowProducts { gpu, bf16_tflops, needed_tflops, data_sheet_tflops } => write!(
                f,
                "GPU {gpu} multiplies {bf16_tflops} TFLOPS in BF16, and needs {needed_tflops} of the \
                 {data_sheet_tflops} of its data sheet: another process uses it, or it is damaged"
            ),
            Self::WrongProducts { gpu } => {
                write!(f, "GPU {gpu} multiplies matrices wrong: replace it, and distrust what it computed")
            }
            Self::UncorrectedErrors { gpu, errors } => {
                write!(f, "GPU {gpu} has {errors} uncorrected memory errors: reset it, or replace it if they come back")
            }
            Self::RepairPending { gpu } => write!(f, "GPU {gpu} waits for a reset that repairs its memory: reset it"),
            Self::RepairFailed { gpu } => write!(f, "GPU {gpu} has memory that cannot be repaired: replace it"),
            Self::Slowed { gpu, by, clock_mhz, max_clock_mhz } => {
                let by: Vec<String> = by.iter().map(ToString::to_string).collect();
                write!(f, "GPU {gpu} is slowed down by {}", by.join(" and "))?;
                match (clock_mhz, max_clock_mhz) {
                    (Some(clock), Some(max)) => write!(f, " to {clock} of {max} MHz"),
                    _ => Ok(()),
                }?;
                f.write_str(": check the node's cooling and power")
            }
            Self::Xid { gpu, code } => {
                let code = code.map(|code| format!(" {code}")).unwrap_or_default();
                write!(f, "GPU {gpu} raised XID{code} during the checks: look it up in NVIDIA's list of XID errors")
            }
        }
    }
}

/// A compute capability as CUDA writes it: 89 is 8.9.
fn capability(sm: u32) -> String {
    format!("{}.{}", sm / 10, sm % 10)
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
