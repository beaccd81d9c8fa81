//! What to change, with the expected gain and the manifest field that does it. Pure.
//!
//! Every gain is Amdahl's law on a share of the time that *this* capture shows. A part f that runs s times as fast
//! gives 1 / (1 - f (1 - 1/s)). An idle part that shrinks by a share r gives 1 / (1 - f r). Both s and r are ranges
//! from published measurements, named in each formula. Gains overlap and do not multiply.

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
    /// Fields of the AgentDeployment, with the value to add.
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
            field: "spec.agent.tools[].http.url (a service that answers repeated calls from a cache)",
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
            field: "spec.search.parameters (cuda_graph_mode), \
                    spec.engine.tensorRTLLMPyTorch.extraArgs (cuda_graph_config), spec.engine.vllm.extraArgs (enforce_eager=false)",
            effort: Effort::Medium,
            share: load.share(dispatch),
            least: 0.1,
            change: Change::Removed(0.45, 0.81),
            what: "idle on launches and dispatch",
            source: "activity in decode: eager 42 %, torch.compile 68 % (r 0.45), CUDA graphs 89 % (r 0.81)",
        },
        Rule {
            action: "AvoidCopiesBetweenKernels",
            field: "spec.engine.tensorRTLLMPyTorch.extraArgs (disable_overlap_scheduler=false), \
                    spec.engine.vllm.extraArgs (async_scheduling=true)",
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
            field: "spec.search.parameters (kv_cache_free_gpu_mem_fraction), \
                    spec.engine.tensorRTLLMPyTorch.kvCacheFreeGpuMemory, spec.engine.vllm.gpuMemoryUtilization",
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
            field: if has_fp8 {
                "spec.search.precision: [FP8]"
            } else {
                "spec.search.precision: [INT8WeightOnly, INT4AWQ]"
            },
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
            field: "spec.engine.tensorRTLLMPyTorch.extraArgs (speculative_config), \
                    spec.engine.vllm.extraArgs (speculative_config)",
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
            field: "spec.engine.backend: [TensorRTLLM], spec.engine.vllm.extraArgs (compilation_config)",
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
            field: "spec.hardware.nodeSelector (one product, one NVLink domain)",
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::Value;

    use super::*;
    use crate::diagnose::peaks;

    const CRD: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../crds/yaml/agentdeployments.slipway.dev.yaml"));

    /// The fields of every rule, whatever a capture shows.
    fn fields() -> Vec<&'static str> {
        let of = |product: &str| {
            let peaks = [peaks::of(Some(product))];
            let slow_allocations = Durations { count: 1, ..Durations::default() };
            let context = Context { peaks: &peaks, nccl_imbalance: 0.0, slow_allocations };
            let load = Load::default();
            let rules = [
                agent_rules(&load),
                host_rules(&load, &context),
                kernel_rules(&load, &context),
                communication_rules(&load, &context),
            ];
            rules.into_iter().flatten().map(|rule| rule.field).collect::<Vec<_>>()
        };
        [of("NVIDIA H100 80GB HBM3"), of("NVIDIA A100-SXM4-80GB")].concat()
    }

    /// The parts of a field: a path, and the values that follow it in brackets.
    fn parts(field: &str) -> Vec<(String, Vec<String>)> {
        let path = |text: &str| text.split([' ', ',', ':', '(']).next().unwrap_or_default().to_owned();
        let values = |text: &str| {
            let list = text.split_once(": [").and_then(|(_, rest)| rest.split_once(']')).map(|(list, _)| list);
            list.map(|list| list.split(", ").map(str::to_owned).collect()).unwrap_or_default()
        };
        field.match_indices("spec.").map(|(at, _)| &field[at..]).map(|text| (path(text), values(text))).collect()
    }

    /// The schema of a path such as `spec.agent.tools[].name`.
    fn schema<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
        path.split('.').try_fold(root, |schema, part| {
            let found = &schema["properties"][part.trim_end_matches("[]")];
            let found = if part.ends_with("[]") { &found["items"] } else { found };
            found.is_object().then_some(found)
        })
    }

    #[test]
    fn every_field_that_an_action_names_is_one_of_the_agent_deployment() {
        let crd: Value = serde_norway::from_str(CRD).unwrap();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut unknown = Vec::new();
        for (path, values) in fields().into_iter().flat_map(parts) {
            let Some(schema) = schema(root, &path) else {
                unknown.push(path);
                continue;
            };
            let allowed = [&schema["enum"], &schema["items"]["enum"]].into_iter().find_map(Value::as_array);
            let is_refused = |value: &String| allowed.is_some_and(|allowed| !allowed.contains(&value.as_str().into()));
            unknown.extend(values.into_iter().filter(is_refused).map(|value| format!("{path}: {value}")));
        }
        assert_eq!(unknown, Vec::<String>::new());
    }

    #[test]
    fn every_field_begins_with_a_path() {
        assert_eq!(fields().into_iter().filter(|field| !field.starts_with("spec.")).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn a_field_that_the_schema_lacks_is_found() {
        let crd: Value = serde_norway::from_str(CRD).unwrap();
        let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert!(schema(root, "spec.search.cudaGraphs").is_none());
        assert!(schema(root, "spec.agent.tools[].http.url").is_some());
    }
}
