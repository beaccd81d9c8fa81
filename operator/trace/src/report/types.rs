//! The report as JSON: camelCase, units in the names, percent as 0 to 100. Pure.

use serde::Serialize;

use super::DeviceReport;
use crate::{
    classify::{EnginePhase, KernelClass},
    diagnose::{Action, Bottleneck},
};

/// Everything that is said about a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// `nsys` or `kineto`.
    pub format: &'static str,
    /// Version of the file's schema, as it states it.
    pub schema_version: Option<String>,
    /// The capture as a whole.
    pub capture: Capture,
    /// What limits the capture, and by which rule.
    pub bottleneck: Bottleneck,
    /// What to change, greatest expected gain first.
    pub actions: Vec<Action>,
    /// One entry per device.
    pub devices: Vec<DeviceReport>,
    /// Kernel time by family over all devices.
    pub kernel_classes: Vec<ClassRow>,
    /// Kernels with the most time.
    pub kernels: Vec<KernelRow>,
    /// Prefill, decode and mixed steps, where ranges tell them apart.
    pub engine_phases: Vec<EnginePhaseRow>,
    /// Phases of agent runs, where spans or ranges state them.
    pub agent_phases: Option<AgentPhases>,
    /// Collectives.
    pub communication: Communication,
    /// Allocations and releases of memory by the host.
    pub allocation: Allocation,
    /// Launches by the host.
    pub launch: LaunchReport,
    /// CUDA calls with the most time.
    pub cuda_calls: Vec<CallRow>,
    /// Named ranges with the most GPU time.
    pub ranges: Vec<RangeRow>,
    /// Operators of the framework, where they were recorded.
    pub operators: Option<Operators>,
    /// What the reader left out or could not tell.
    pub warnings: Vec<String>,
}

/// The capture as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capture {
    /// First start to last end of all records.
    pub duration_ms: f64,
    /// Wall clock of the first start, where the file states one.
    pub start_unix_nanos: Option<i64>,
    /// Records read.
    pub records: u64,
}

/// Kernel time of one family.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassRow {
    /// The family.
    pub class: KernelClass,
    /// Kernels.
    pub count: u64,
    /// Their time.
    pub ms: f64,
    /// Share of all kernel time.
    pub pct: f64,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelRow {
    /// Name as the file has it.
    pub name: String,
    /// Family.
    pub class: KernelClass,
    /// Instances.
    pub count: u64,
    /// Their time.
    pub total_ms: f64,
    /// Share of all kernel time.
    pub pct: f64,
    /// Mean.
    pub avg_us: f64,
    /// Shortest.
    pub min_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// One phase of the engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnginePhaseRow {
    /// The phase.
    pub phase: EnginePhase,
    /// Steps (ranges that state the phase).
    pub steps: u64,
    /// Host time of the steps.
    pub host_ms: f64,
    /// Kernels launched in the steps.
    pub kernels: u64,
    /// Their time.
    pub kernel_ms: f64,
    /// Busy share of the GPU between kernels of this phase, waits for the agent left out.
    pub active_pct: f64,
    /// Kernel time by family.
    pub classes: Vec<ClassRow>,
    /// What limits this phase.
    pub bottleneck: Bottleneck,
}

/// Phases of agent runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPhases {
    /// `spans` (the agent runtime's file) or `ranges` (of the trace itself).
    pub source: &'static str,
    /// One row per phase.
    pub phases: Vec<AgentPhaseRow>,
    /// Share of the capture in which no run was in any phase.
    pub outside_pct: f64,
}

/// One phase of agent runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentPhaseRow {
    /// `preprocessing`, `inference`, `tool` or `idle`.
    pub phase: &'static str,
    /// Time of the capture in which this phase decides: inference before preprocessing before tool before idle.
    pub wall_ms: f64,
    /// Its share of the capture.
    pub wall_pct: f64,
    /// Time summed over all runs.
    pub run_ms: f64,
    /// Share of the time of all runs.
    pub run_pct: f64,
}

/// Collectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Communication {
    /// Kernel time of NCCL.
    pub nccl_time_ms: f64,
    /// Kernels of NCCL.
    pub nccl_count: u64,
    /// NCCL's share of all kernel time.
    pub nccl_pct: f64,
    /// All other kernel time.
    pub compute_time_ms: f64,
    /// Share of all collectives, the engines' own included.
    pub communication_pct: f64,
    /// Time in which a device ran collectives and nothing else.
    pub exposed_ms: f64,
    /// NCCL by device.
    pub per_device: Vec<NcclRow>,
    /// Imbalance, where two devices or more ran NCCL.
    pub imbalance: Option<Imbalance>,
}

/// NCCL on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NcclRow {
    /// Index of the device.
    pub device: usize,
    /// Kernels.
    pub count: u64,
    /// Their time.
    pub total_ms: f64,
    /// Mean.
    pub avg_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// How unevenly ranks wait in collectives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Imbalance {
    /// (greatest - least) / greatest of the devices' NCCL time.
    pub imbalance_pct: f64,
    /// Whether it is above 15 %: check the balance.
    pub check_balance: bool,
    /// The device with the most NCCL time: it arrives first and waits.
    pub waiting_device: usize,
    /// The device with the least NCCL time: the others wait for it.
    pub slowest_device: usize,
}

/// Allocations and releases by the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation {
    /// Allocations.
    pub total_allocs: u64,
    /// Allocations over 1 ms.
    pub slow_allocs_count: u64,
    /// Longest allocation.
    pub worst_alloc_ms: f64,
    /// Mean allocation.
    pub avg_alloc_us: f64,
    /// Releases.
    pub total_frees: u64,
    /// Releases over 1 ms: each waits for the device.
    pub slow_frees_count: u64,
    /// Longest release.
    pub worst_free_ms: f64,
    /// Host time in slow allocations and releases.
    pub slow_ms: f64,
}

/// Launches by the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaunchReport {
    /// Launch calls (a graph launch is one).
    pub calls: u64,
    /// Host time in them.
    pub total_ms: f64,
    /// Mean call.
    pub avg_us: f64,
    /// Kernels per launch call; far above 1 where CUDA graphs are used.
    pub kernels_per_call: f64,
    /// Time from the start of a call to the start of its first kernel, queueing included.
    pub to_start_p50_us: Option<f64>,
    /// The same at the 95th percentile.
    pub to_start_p95_us: Option<f64>,
    /// The same at the 99th percentile.
    pub to_start_p99_us: Option<f64>,
    /// Kernels whose launch was not recorded.
    pub unattributed_kernels: u64,
}

/// A CUDA call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRow {
    /// Name as the file has it.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// Their time.
    pub total_ms: f64,
    /// Mean.
    pub avg_us: f64,
    /// Longest.
    pub max_us: f64,
}

/// A named range.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeRow {
    /// Name; digits read `#` where there are many names.
    pub name: String,
    /// Times entered.
    pub count: u64,
    /// Host time inside.
    pub wall_ms: f64,
    /// Kernel time launched inside.
    pub gpu_ms: f64,
    /// Kernel time launched inside and in no enclosed range.
    pub self_gpu_ms: f64,
    /// Kernels launched inside.
    pub kernels: u64,
}

/// Operators of the framework. All times are self times: nested operators count once.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Operators {
    /// `trace`, or `averages` where torch's own averages were given.
    pub source: &'static str,
    /// Host time in operators and in CUDA calls that do not wait.
    pub cpu_ms: f64,
    /// GPU time that operators launched.
    pub device_ms: f64,
    /// The first over the second; above 2 the host may limit, above 3 it does.
    pub cpu_to_gpu_ratio: Option<f64>,
    /// Operators with the most GPU time.
    pub by_device_time: Vec<OperatorRow>,
    /// Operators with the most host time.
    pub by_cpu_time: Vec<OperatorRow>,
    /// Operators with more than five times as much host time as GPU time.
    pub dispatch_heavy: Vec<OperatorRow>,
    /// Operators without GPU time.
    pub cpu_only: Vec<OperatorRow>,
    /// Operators that handle memory.
    pub memory: MemoryOperators,
}

/// One operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorRow {
    /// Name.
    pub name: String,
    /// Calls.
    pub count: u64,
    /// Host time without what it called.
    pub cpu_ms: f64,
    /// GPU time it launched itself.
    pub device_ms: f64,
    /// Host time over GPU time.
    pub ratio: Option<f64>,
    /// FLOPs over GPU time of the calls with known shapes.
    pub achieved_tflops: Option<f64>,
    /// The same as a share of the device's dense half-precision peak, where the product is known.
    pub peak_pct: Option<f64>,
    /// FLOPs per byte at least; below the device's ridge the memory limits.
    pub flops_per_byte: Option<f64>,
}

/// Operators that handle memory: names with alloc, free, empty or resize.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryOperators {
    /// Calls.
    pub count: u64,
    /// Host time.
    pub cpu_ms: f64,
    /// Share of the host time in operators and calls.
    pub cpu_pct: f64,
}
