//! What to change, with the expected gain and the manifest field that does it. Pure.
//!
//! Every gain is Amdahl's law on a share of the time that *this* capture shows: a part f that runs s times as fast gives
//! 1 / (1 - f (1 - 1/s)); an idle part of which a share r goes away gives 1 / (1 - f r). s and r are ranges from published
//! measurements, named in each formula. Gains overlap and do not multiply.

use serde::Serialize;

use super::{Load, peaks::Peak, ratio, round};
use crate::{
    classify::KernelClass,
    timeline::{causes::Cause, device::Durations},
};

/// How much work a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Effort {
    /// A field of the manifest.
    Low,
    /// A field, and a new engine or a new measurement.
    Medium,
    /// Other hardware, another topology or another architecture.
    High,
}

/// Expected factor on throughput at equal load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gain {
    /// Cautious.
    pub low: f64,
    /// Optimistic.
    pub high: f64,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// Place in the list, from 1.
    pub rank: usize,
    /// Short name.
    pub action: &'static str,
    /// Why, with the capture's numbers.
    pub why: String,
    /// Field of the AgentDeployment, with the value to add.
    pub field: &'static str,
    /// Expected factor.
    pub expected_gain: Gain,
    /// Formula with its numbers and where the ranges come from.
    pub formula: String,
    /// Work.
    pub effort: Effort,
}

/// How a share of the time shrinks.
#[derive(Clone, Copy)]
enum Change {
    /// It runs this many times as fast.
    Faster(f64, f64),
    /// This share of it goes away.
    Removed(f64, f64),
}

struct Rule {
    action: &'static str,
    field: &'static str,
    effort: Effort,
    /// Share of the time with work that it touches, 0 to 1.
    share: f64,
    /// Least share for the rule to speak.
    least: f64,
    change: Change,
    what: &'static str,
    source: &'static str,
}

/// Facts of the capture beside the load.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Peaks of the devices, where known.
    pub peaks: &'a [Option<Peak>],
    /// Imbalance of NCCL over devices, 0 to 1.
    pub nccl_imbalance: f64,
    /// Slow allocations and releases.
    pub slow_allocations: Durations,
}

/// Returns the changes that apply, greatest gain first.
#[must_use]
pub fn actions(load: &Load, context: &Context<'_>) -> Vec<Action> {
    let rules = agent_rules(load)
        .into_iter()
        .chain(host_rules(load, context))
        .chain(kernel_rules(load, context))
        .chain(communication_rules(load, context));
    let mut actions: Vec<_> = rules.filter(|rule| rule.share >= rule.least).map(|rule| rule.action()).collect();
    actions.sort_by(|a, b| {
        let merit = |action: &Action| action.expected_gain.low * action.expected_gain.high;
        merit(b).total_cmp(&merit(a))
    });
    for (at, action) in actions.iter_mut().enumerate() {
        action.rank = at + 1;
    }
    actions
}

fn agent_rules(load: &Load) -> Vec<Rule> {
    let tool = load.share(load.idle.of(Cause::Tool));
    let preprocessing = load.share(load.idle.of(Cause::Preprocessing));
    vec![
        Rule {
            action: "ServeMoreRunsAtOnce",
            field: "spec.search.concurrency",
            effort: Effort::Low,
            share: tool,
            least: 0.1,
            change: Change::Removed(0.5, 0.9),
            what: "idle while tools run and no run is in inference",
            source: "other runs fill the wait; asynchronous tools took a GPU from 28 % to 86 % of use",
        },
        Rule {
            action: "CacheToolResults",
            field: "spec.agent.tools[].cache",
            effort: Effort::Low,
            share: tool,
            least: 0.1,
            change: Change::Removed(0.2, 0.9),
            what: "idle while tools run",
            source: "r is the share of calls that repeat within the ttl; the only change here that also shortens a run",
        },
        Rule {
            action: "MovePreprocessingOffTheCriticalPath",
            field: "spec.serving.agentResources (cpu), spec.search.concurrency",
            effort: Effort::Low,
            share: preprocessing,
            least: 0.1,
            change: Change::Removed(0.5, 0.9),
            what: "idle while the CPU preprocesses and no run is in inference",
            source: "batched tokenisation and preprocessing in parallel took use from 45 % to 82 %",
        },
    ]
}

fn host_rules(load: &Load, context: &Context<'_>) -> Vec<Rule> {
    let allocation = load.idle.of(Cause::Allocation);
    let dispatch = load.idle.sum(Cause::is_overhead) - allocation;
    let mut rules = vec![
        Rule {
            action: "UseCudaGraphs",
            field: "spec.search.cudaGraphs",
            effort: Effort::Medium,
            share: load.share(dispatch),
            least: 0.1,
            change: Change::Removed(0.45, 0.81),
            what: "idle on launches and dispatch",
            source: "activity in decode: eager 42 %, torch.compile 68 % (r 0.45), CUDA graphs 89 % (r 0.81)",
        },
        Rule {
            action: "AvoidCopiesBetweenKernels",
            field: "spec.engine (extraArgs: pinned memory, overlap scheduling)",
            effort: Effort::Medium,
            share: load.share(load.idle.of(Cause::MemoryCopy)),
            least: 0.05,
            change: Change::Removed(0.5, 0.9),
            what: "only copies or sets run",
            source: "copies overlap kernels once they are asynchronous",
        },
    ];
    if context.slow_allocations.count > 0 {
        rules.push(Rule {
            action: "PreallocateMemory",
            field: "spec.search.kvCacheFreeGpuMemory, spec.serving.env (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
            effort: Effort::Low,
            share: load.share(allocation),
            least: 0.005,
            change: Change::Removed(0.8, 1.0),
            what: "idle while the host allocates or releases memory",
            source: "a pool that is taken once leaves the driver alone",
        });
    }
    rules
}

fn kernel_rules(load: &Load, context: &Context<'_>) -> Vec<Rule> {
    let class = |class| load.mix.class(class).nanos;
    let of_kernels = |nanos| ratio(nanos, load.mix.kernels.nanos);
    let has_fp8 = context.peaks.iter().flatten().all(|peak| peak.has_fp8);
    let gemm = class(KernelClass::Gemm);
    let memory_bound = load.gemm_memory_nanos.saturating_add(load.attention_decode_nanos);
    let attention = class(KernelClass::Attention).saturating_sub(load.attention_prefill_nanos);
    let small = class(KernelClass::Elementwise) + class(KernelClass::Norm);
    vec![
        Rule {
            action: if has_fp8 { "QuantizeToFp8" } else { "QuantizeWeights" },
            field: if has_fp8 { "spec.search.precision: [FP8]" } else { "spec.search.precision: [INT8, INT4AWQ]" },
            effort: Effort::Low,
            share: load.kernel_share(gemm),
            least: if of_kernels(gemm) >= 0.38 { 0.05 } else { f64::INFINITY },
            change: Change::Faster(1.3, 2.0),
            what: "matrix products",
            source: "half the bytes per weight, twice the tensor rate; measured 1.3 to 1.8 in prefill",
        },
        Rule {
            action: "BatchMoreRequests",
            field: "spec.search.maxBatchSize, spec.search.concurrency",
            effort: Effort::Medium,
            share: load.kernel_share(memory_bound),
            least: 0.3,
            change: Change::Faster(1.5, 3.0),
            what: "kernels that read weights or keys and values for few tokens",
            source: "weights are read once per step however many requests share it; 8 requests gave 6.8 times one's \
                     throughput on an A100; latency per token grows",
        },
        Rule {
            action: "UseSpeculativeDecoding",
            field: "spec.search.speculativeDecoding",
            effort: Effort::Medium,
            share: load.kernel_share(load.gemm_memory_nanos),
            least: 0.3,
            change: Change::Faster(1.2, 2.0),
            what: "matrix products that memory limits",
            source: "several tokens per read of the weights, as far as drafts are accepted",
        },
        Rule {
            action: "QuantizeKvCache",
            field: "spec.search.kvCachePrecision: [FP8]",
            effort: Effort::Low,
            share: load.kernel_share(attention),
            least: if of_kernels(attention) >= 0.2 { 0.02 } else { f64::INFINITY },
            change: Change::Faster(1.2, 2.0),
            what: "attention outside prefill",
            source: "half the bytes per key and value; measured 1.2 to 1.5 in decode",
        },
        Rule {
            action: "FuseSmallKernels",
            field: "spec.engine (TensorRTLLM, or extraArgs with torch.compile)",
            effort: Effort::Medium,
            share: load.kernel_share(small),
            least: 0.08,
            change: Change::Faster(1.5, 3.0),
            what: "pointwise kernels and norms",
            source: "fused, each tensor is read and written once; torch.compile gave 1.1 to 1.3 overall",
        },
    ]
}

fn communication_rules(load: &Load, context: &Context<'_>) -> Vec<Rule> {
    let exposed = load.share(load.exposed_communication_nanos);
    let heavy = ratio(load.mix.nccl_nanos, load.mix.kernels.nanos) > 0.1;
    let unbalanced = context.nccl_imbalance > 0.15;
    vec![
        Rule {
            action: "LowerTensorParallelism",
            field: "spec.search.tensorParallel, spec.search.pipelineParallel",
            effort: Effort::High,
            share: exposed,
            least: if heavy { 0.02 } else { f64::INFINITY },
            change: Change::Removed(0.37, 0.75),
            what: "collectives that overlap no other kernel",
            source: "NCCL's share on four H100: TP4 8 to 12 %, PP4 3 to 5 %",
        },
        Rule {
            action: "BalanceRanks",
            field: "spec.hardware (one product, one NVLink domain)",
            effort: Effort::High,
            share: exposed * context.nccl_imbalance,
            least: if unbalanced { 0.01 } else { f64::INFINITY },
            change: Change::Removed(0.5, 1.0),
            what: "collectives in which fast ranks wait for the slowest",
            source: "f is the exposed share times the imbalance (max - min) / max",
        },
    ]
}

impl Rule {
    fn action(self) -> Action {
        let share = round(self.share);
        let factor = |removed: f64| round(1.0 / (1.0 - self.share * removed));
        let (low, high, how) = match self.change {
            Change::Faster(low, high) => (
                factor(1.0 - 1.0 / low),
                factor(1.0 - 1.0 / high),
                format!("1 / (1 - f (1 - 1/s)), s = {low} to {high}"),
            ),
            Change::Removed(low, high) => (factor(low), factor(high), format!("1 / (1 - f r), r = {low} to {high}")),
        };
        Action {
            rank: 0,
            action: self.action,
            why: format!("{} % of the time: {}", round(100.0 * self.share), self.what),
            field: self.field,
            expected_gain: Gain { low, high },
            formula: format!("{how}, f = {share}; {}", self.source),
            effort: self.effort,
        }
    }
}
