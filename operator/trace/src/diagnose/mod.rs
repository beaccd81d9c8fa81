//! What limits a capture. Pure.
//!
//! The rules are those that profiling guides give (host time over GPU time, NCCL's share, GEMM's share, first match),
//! with corrections. A GPU that waits for a tool or for preprocessing has classes of its own, and host time is self
//! time. A matrix product counts as compute-bound only where shapes, counters or the phase do not say otherwise. Decode
//! reads all weights for a few tokens, so its products are limited by memory although they are most of the GPU time.

mod actions;
pub mod peaks;

use serde::Serialize;

pub use actions::{Action, Context, Effort, Gain, actions};

use super::{
    classify::{EnginePhase, KernelClass},
    timeline::{
        causes::{Cause, CauseTimes},
        stats::KernelMix,
    },
};

/// What limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum BottleneckClass {
    /// The GPU waits for tools of the agent.
    ToolBound,
    /// The GPU waits for the CPU to preprocess.
    PreprocessingBound,
    /// The GPU waits for launches and dispatch.
    OverheadBound,
    /// Collectives take the GPU's time.
    CommunicationBound,
    /// Arithmetic takes the GPU's time.
    ComputeBound,
    /// Memory bandwidth takes the GPU's time.
    MemoryBound,
}

/// The verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bottleneck {
    /// The class, nothing where the capture does not tell.
    pub class: Option<BottleneckClass>,
    /// The rule that matched, with its numbers.
    pub rule: String,
    /// The shares that the rules looked at.
    pub evidence: Evidence,
    /// What would make the verdict surer, or what it leaves out.
    pub caveats: Vec<String>,
}

/// Shares in percent. Shares of time are of the time in which there was work: the profiler's own and `noWork` are left
/// out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Time with a kernel.
    pub busy_pct: f64,
    /// Idle, waiting for tools.
    pub tool_pct: f64,
    /// Idle, waiting for preprocessing.
    pub preprocessing_pct: f64,
    /// Idle, waiting for the engine's host side.
    pub overhead_pct: f64,
    /// Idle while only copies or sets run: data arrives too late.
    pub memory_copy_pct: f64,
    /// Idle in long gaps that nothing explains.
    pub unexplained_pct: f64,
    /// Share of the capture without work, of all time.
    pub no_work_pct: f64,
    /// Share that the profiler held the host up, of all time.
    pub profiler_pct: f64,
    /// Host time over GPU time in operators.
    pub cpu_to_gpu_ratio: Option<f64>,
    /// NCCL's share of kernel time.
    pub nccl_pct: f64,
    /// Share of matrix products in kernel time.
    pub gemm_pct: f64,
    /// Of these, what memory limits, in percent of kernel time.
    pub gemm_memory_bound_pct: f64,
    /// Share of attention in kernel time.
    pub attention_pct: f64,
    /// Mean DRAM reads and writes while kernels ran, percent of the peak.
    pub dram_pct: Option<f64>,
    /// Mean of the tensor pipe while kernels ran, percent of the peak.
    pub tensor_pct: Option<f64>,
}

/// What the rules look at; times are sums over devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// All time.
    pub wall_nanos: u64,
    /// Time with a kernel.
    pub busy_nanos: u64,
    /// Idle time by cause.
    pub idle: CauseTimes,
    /// Kernels.
    pub mix: KernelMix,
    /// Matrix products that memory limits, as far as known.
    pub gemm_memory_nanos: u64,
    /// Attention in decode, which memory limits.
    pub attention_decode_nanos: u64,
    /// Attention in prefill.
    pub attention_prefill_nanos: u64,
    /// Matrix products of which nothing is known.
    pub gemm_unknown_nanos: u64,
    /// Time in which collectives ran alone.
    pub exposed_communication_nanos: u64,
    /// Host time over GPU time in operators.
    pub cpu_to_gpu_ratio: Option<f64>,
    /// Mean DRAM traffic, percent of the peak.
    pub dram_pct: Option<f64>,
    /// Mean of the tensor pipe, percent of the peak.
    pub tensor_pct: Option<f64>,
}

/// An agent that waits a quarter of the time is the first thing to change. Without the wait all is 1.33 times as fast,
/// more than any single change of the engine promises at the least.
const AGENT_WAIT_PCT: f64 = 25.0;
/// Below 60 % of activity, dispatch and data limit decode (eager PyTorch shows 42 %, torch.compile 68 %).
const OVERHEAD_PCT: f64 = 40.0;
/// Host time over GPU time above which dispatch limits...
const CPU_TO_GPU_RATIO: f64 = 3.0;
/// ... if the GPU really waits: several host threads also add up to more than the GPU's time.
const LEAST_OVERHEAD_PCT: f64 = 10.0;
const NCCL_PCT: f64 = 20.0;
const GEMM_PCT: f64 = 50.0;
/// Counters: memory limits where DRAM is this busy and busier than the tensor pipe.
const DRAM_PCT: f64 = 60.0;

/// The cause under which gaps between kernels of one engine phase count: what is left of them is the engine's own.
pub const PHASE_GAP: Cause = Cause::HostOther;

impl Load {
    /// Returns the time in which there was work.
    #[must_use]
    pub fn working_nanos(&self) -> u64 {
        self.wall_nanos.saturating_sub(self.idle.of(Cause::Profiler) + self.idle.of(Cause::NoWork))
    }

    /// Returns a time as a share of the time with work, 0 to 1.
    #[must_use]
    pub fn share(&self, nanos: u64) -> f64 {
        ratio(nanos, self.working_nanos())
    }

    /// Returns the share of the time with work that a family's kernels take: busy time, split by kernel time.
    #[must_use]
    pub fn kernel_share(&self, nanos: u64) -> f64 {
        self.share(self.busy_nanos) * ratio(nanos, self.mix.kernels.nanos)
    }

    /// Splits the matrix products of one phase by what limits them; `None` is outside every known phase.
    #[must_use]
    pub fn gemm_split(mix: &KernelMix, phase: Option<EnginePhase>) -> (u64, u64) {
        let known = mix.gemm.compute_nanos + mix.gemm.memory_nanos;
        let rest = mix.class(KernelClass::Gemm).nanos.saturating_sub(known);
        match phase {
            Some(EnginePhase::Decode) => (mix.gemm.memory_nanos + rest, 0),
            Some(EnginePhase::Prefill) => (mix.gemm.memory_nanos, 0),
            Some(EnginePhase::Mixed) | None => (mix.gemm.memory_nanos, rest),
        }
    }

    /// Returns the shares that the rules look at.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        let kernels = self.mix.kernels.nanos;
        let pct = |nanos| round(100.0 * self.share(nanos));
        let of_kernels = |nanos| round(100.0 * ratio(nanos, kernels));
        let of_wall = |nanos| round(100.0 * ratio(nanos, self.wall_nanos));
        Evidence {
            busy_pct: pct(self.busy_nanos),
            tool_pct: pct(self.idle.of(Cause::Tool)),
            preprocessing_pct: pct(self.idle.of(Cause::Preprocessing)),
            overhead_pct: pct(self.idle.sum(Cause::is_overhead)),
            memory_copy_pct: pct(self.idle.of(Cause::MemoryCopy)),
            unexplained_pct: pct(self.idle.of(Cause::Unexplained)),
            no_work_pct: of_wall(self.idle.of(Cause::NoWork)),
            profiler_pct: of_wall(self.idle.of(Cause::Profiler)),
            cpu_to_gpu_ratio: self.cpu_to_gpu_ratio.map(round),
            nccl_pct: of_kernels(self.mix.nccl_nanos),
            gemm_pct: of_kernels(self.mix.class(KernelClass::Gemm).nanos),
            gemm_memory_bound_pct: of_kernels(self.gemm_memory_nanos),
            attention_pct: of_kernels(self.mix.class(KernelClass::Attention).nanos),
            dram_pct: self.dram_pct.map(round),
            tensor_pct: self.tensor_pct.map(round),
        }
    }
}

/// Names what limits.
#[must_use]
pub fn bottleneck(load: &Load) -> Bottleneck {
    let evidence = load.evidence();
    let (class, rule) = agent_rule(&evidence)
        .or_else(|| overhead_rule(&evidence))
        .map_or_else(|| kernel_rule(load, &evidence), |(class, rule)| (Some(class), rule));
    Bottleneck { class, rule, evidence, caveats: caveats(load, &evidence) }
}

fn agent_rule(evidence: &Evidence) -> Option<(BottleneckClass, String)> {
    let (tool, preprocessing) = (evidence.tool_pct, evidence.preprocessing_pct);
    let (class, pct, what) = if tool >= preprocessing {
        (BottleneckClass::ToolBound, tool, "tools")
    } else {
        (BottleneckClass::PreprocessingBound, preprocessing, "preprocessing")
    };
    let applies = pct >= AGENT_WAIT_PCT && pct >= evidence.overhead_pct;
    applies.then(|| (class, format!("the GPU waits for {what} {pct} % of the time (limit {AGENT_WAIT_PCT} %)")))
}

fn overhead_rule(evidence: &Evidence) -> Option<(BottleneckClass, String)> {
    let (overhead, copies) = (evidence.overhead_pct, evidence.memory_copy_pct);
    if overhead + copies >= OVERHEAD_PCT {
        let rule = format!(
            "the GPU waits for the engine's host side {overhead} % and for copies {copies} % of the time (limit {OVERHEAD_PCT} % \
             together)"
        );
        return Some((BottleneckClass::OverheadBound, rule));
    }
    let ratio = evidence.cpu_to_gpu_ratio?;
    let applies = ratio > CPU_TO_GPU_RATIO && overhead >= LEAST_OVERHEAD_PCT;
    applies.then(|| {
        let rule = format!(
            "host time is {ratio} times GPU time (limit {CPU_TO_GPU_RATIO}) and the GPU waits for the host {overhead} % of \
             the time"
        );
        (BottleneckClass::OverheadBound, rule)
    })
}

fn kernel_rule(load: &Load, evidence: &Evidence) -> (Option<BottleneckClass>, String) {
    let (kernels, graphs) = (load.mix.kernels.nanos, load.mix.class(KernelClass::Graph).nanos);
    if kernels == 0 || graphs * 2 > kernels {
        return (None, "most GPU time lies in CUDA graphs whose kernels were not recorded".to_owned());
    }
    let nccl = evidence.nccl_pct;
    if nccl > NCCL_PCT {
        let rule = format!("NCCL takes {nccl} % of the kernel time (limit {NCCL_PCT} %)");
        return (Some(BottleneckClass::CommunicationBound), rule);
    }
    if let (Some(dram), Some(tensor)) = (evidence.dram_pct, evidence.tensor_pct)
        && dram >= DRAM_PCT
        && dram > tensor
    {
        let rule = format!("counters: DRAM at {dram} % of its peak, tensor pipe at {tensor} %");
        return (Some(BottleneckClass::MemoryBound), rule);
    }
    let (gemm, by_memory) = (evidence.gemm_pct, evidence.gemm_memory_bound_pct);
    let by_compute = round(gemm - by_memory);
    if by_compute > GEMM_PCT {
        let rule = format!(
            "matrix products that arithmetic limits take {by_compute} % of the kernel time (limit {GEMM_PCT} %)"
        );
        return (Some(BottleneckClass::ComputeBound), rule);
    }
    let rule = format!(
        "none of the other rules; matrix products take {gemm} % of the kernel time, {by_memory} % of it limited by memory"
    );
    (Some(BottleneckClass::MemoryBound), rule)
}

fn caveats(load: &Load, evidence: &Evidence) -> Vec<String> {
    let mut caveats = Vec::new();
    let unexplained = evidence.unexplained_pct;
    if unexplained >= LEAST_OVERHEAD_PCT {
        caveats.push(format!(
            "{unexplained} % of the time is gaps over 5 ms without recorded host work; pass the agent runtime's --spans to \
             tell tools, preprocessing and an empty queue apart"
        ));
    }
    let copies = evidence.memory_copy_pct;
    if copies >= OVERHEAD_PCT {
        caveats.push(format!(
            "only copies run {copies} % of the time; if the model was loading, capture later (nsys --delay, the profiler's wait)"
        ));
    }
    let unknown = round(100.0 * ratio(load.gemm_unknown_nanos, load.mix.kernels.nanos));
    if unknown >= LEAST_OVERHEAD_PCT && evidence.dram_pct.is_none() {
        caveats.push(format!(
            "matrix products with {unknown} % of the kernel time could be limited by memory (as in decode) or arithmetic (as \
             in prefill). The capture has no ranges for the two, no shapes and no GPU metrics"
        ));
    }
    let profiler = evidence.profiler_pct;
    if profiler >= 1.0 {
        caveats.push(format!("the profiler held the host up {profiler} % of the capture; that time is left out"));
    }
    caveats
}

/// Returns a quotient, zero for a zero divisor.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Rounds to three decimals: a report is read by people.
#[must_use]
pub fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests;
