//! The rules at their limits.

use pretty_assertions::assert_eq;

use super::*;
use crate::timeline::device::Durations;

/// A load of 1,000 ns in which a kernel runs for the given time.
fn load(busy: u64) -> Load {
    let mut load = Load { wall_nanos: 1_000, busy_nanos: busy, ..Load::default() };
    load.mix.kernels = Durations { count: 10, nanos: 1_000, max_nanos: 100 };
    load
}

fn with_class(mut load: Load, class: KernelClass, nanos: u64) -> Load {
    let at = KernelClass::ALL.iter().position(|&other| other == class).unwrap();
    load.mix.classes[at] = Durations { count: 5, nanos, max_nanos: nanos };
    load
}

fn with_idle(mut load: Load, cause: Cause, nanos: u64) -> Load {
    load.idle.add(cause, nanos);
    load
}

fn class(load: &Load) -> Option<BottleneckClass> {
    bottleneck(load).class
}

#[test]
fn a_wait_for_the_agent_comes_first_where_it_is_the_greater_one() {
    let tools = with_idle(with_idle(load(300), Cause::Tool, 400), Cause::HostDispatch, 300);
    let both = with_idle(with_idle(load(100), Cause::Tool, 300), Cause::Preprocessing, 400);
    let dispatch = with_idle(with_idle(load(200), Cause::Tool, 300), Cause::HostDispatch, 500);
    let little = with_idle(load(760), Cause::Tool, 240);

    assert_eq!(class(&tools), Some(BottleneckClass::ToolBound));
    assert_eq!(class(&both), Some(BottleneckClass::PreprocessingBound));
    assert_eq!(class(&dispatch), Some(BottleneckClass::OverheadBound));
    assert_eq!(class(&little), Some(BottleneckClass::MemoryBound));
}

#[test]
fn time_without_work_and_the_profilers_own_are_left_out() {
    let idle = with_idle(with_idle(load(60), Cause::NoWork, 800), Cause::Profiler, 100);
    let load = with_idle(idle, Cause::Tool, 40);

    let found = bottleneck(&load);

    assert_eq!((found.class, found.evidence.tool_pct), (Some(BottleneckClass::ToolBound), 40.0));
    assert_eq!(found.caveats, ["the profiler held the host up 10 % of the capture; that time is left out"]);
}

#[test]
fn a_gpu_that_waits_for_copies_waits_for_the_host() {
    let found = bottleneck(&with_idle(with_idle(load(500), Cause::MemoryCopy, 350), Cause::Launch, 50));
    let loading = bottleneck(&with_idle(load(100), Cause::MemoryCopy, 900));

    assert_eq!(found.class, Some(BottleneckClass::OverheadBound));
    assert_eq!(
        found.rule,
        "the GPU waits for the engine's host side 5 % and for copies 35 % of the time (limit 40 % together)"
    );
    assert_eq!(found.caveats, Vec::<String>::new());
    assert!(loading.caveats[0].contains("if the model was loading, capture later"), "{:?}", loading.caveats);
}

#[test]
fn only_attention_of_decode_asks_for_more_requests_at_once() {
    let attention = with_class(load(1_000), KernelClass::Attention, 600);
    let names = |load: &Load| actions(load, &context()).iter().map(|action| action.action).collect::<Vec<_>>();

    assert_eq!(names(&Load { attention_prefill_nanos: 600, ..attention }), Vec::<&str>::new());
    assert_eq!(names(&attention), ["QuantizeKvCache"]);
    assert_eq!(names(&Load { attention_decode_nanos: 600, ..attention }), ["BatchMoreRequests", "QuantizeKvCache"]);
}

#[test]
fn much_host_time_is_overhead_only_where_the_gpu_waits_for_it() {
    let busy = Load { cpu_to_gpu_ratio: Some(4.0), ..with_idle(load(950), Cause::HostDispatch, 50) };
    let waiting = Load { cpu_to_gpu_ratio: Some(4.0), ..with_idle(load(850), Cause::HostDispatch, 150) };
    let at_limit = Load { cpu_to_gpu_ratio: Some(3.0), ..waiting };

    assert_eq!(class(&busy), Some(BottleneckClass::MemoryBound));
    assert_eq!(class(&waiting), Some(BottleneckClass::OverheadBound));
    assert_eq!(class(&at_limit), Some(BottleneckClass::MemoryBound));
}

#[test]
fn nccl_comes_before_matrix_products() {
    let mut at_limit = with_class(load(1_000), KernelClass::Gemm, 600);
    at_limit.mix.nccl_nanos = 200;
    let mut above = at_limit;
    above.mix.nccl_nanos = 201;

    assert_eq!(class(&at_limit), Some(BottleneckClass::ComputeBound));
    assert_eq!(class(&above), Some(BottleneckClass::CommunicationBound));
}

#[test]
fn matrix_products_count_for_what_limits_them() {
    let products = with_class(load(1_000), KernelClass::Gemm, 519);
    let of_decode = Load { gemm_memory_nanos: 519, ..products };
    let by_counters = Load { dram_pct: Some(84.9), tensor_pct: Some(9.0), ..products };
    let unknown = Load { gemm_unknown_nanos: 519, ..products };

    assert_eq!(class(&products), Some(BottleneckClass::ComputeBound));
    assert_eq!(class(&of_decode), Some(BottleneckClass::MemoryBound));
    assert_eq!(class(&by_counters), Some(BottleneckClass::MemoryBound));
    assert_eq!(class(&unknown), Some(BottleneckClass::ComputeBound));
    assert!(bottleneck(&unknown).caveats[0].contains("51.9 % of the kernel time could be limited by memory"));
    assert_eq!(bottleneck(&by_counters).rule, "counters: DRAM at 84.9 % of its peak, tensor pipe at 9 %");
}

#[test]
fn hidden_kernels_have_no_class() {
    let hidden = with_class(load(1_000), KernelClass::Graph, 600);

    let found = bottleneck(&hidden);

    assert_eq!(found.class, None);
    assert_eq!(found.rule, "most GPU time lies in CUDA graphs whose kernels were not recorded");
}

fn context() -> Context<'static> {
    Context { peaks: &[], nccl_imbalance: 0.0, slow_allocations: Durations::default() }
}

#[test]
fn gains_follow_amdahls_law_on_the_captures_own_share() {
    let load = with_idle(load(500), Cause::HostDispatch, 500);

    let found = actions(&load, &context());

    let graphs = &found[0];
    assert_eq!((graphs.rank, graphs.action), (1, "UseCudaGraphs"));
    assert!(graphs.field.starts_with("spec.search.parameters (cuda_graph_mode), "), "{}", graphs.field);
    assert_eq!(
        graphs.expected_gain,
        Gain { low: round(1.0 / (1.0 - 0.5 * 0.45)), high: round(1.0 / (1.0 - 0.5 * 0.81)) }
    );
    assert_eq!(graphs.why, "50 % of the time: idle on launches and dispatch");
    assert!(graphs.formula.starts_with("1 / (1 - f r), r = 0.45 to 0.81, f = 0.5; "), "{}", graphs.formula);
}

#[test]
fn actions_are_ranked_by_their_gain() {
    let load = with_idle(with_idle(load(300), Cause::Tool, 500), Cause::HostDispatch, 200);

    let found = actions(&load, &context());

    assert_eq!(found.iter().map(|action| action.rank).collect::<Vec<_>>(), (1..=found.len()).collect::<Vec<_>>());
    assert!(found.is_sorted_by(|a, b| {
        a.expected_gain.low * a.expected_gain.high >= b.expected_gain.low * b.expected_gain.high
    }));
    assert_eq!(found[0].action, "ServeMoreRunsAtOnce");
}

#[test]
fn fp8_is_not_offered_to_a_gpu_without_it() {
    let load = with_class(load(1_000), KernelClass::Gemm, 600);
    let on = |name| {
        let peaks = [peaks::of(Some(name))];
        let found = actions(&load, &Context { peaks: &peaks, ..context() });
        found.iter().find(|action| action.action.starts_with("Quantize")).map(|action| action.field)
    };

    assert_eq!(on("NVIDIA H100 80GB HBM3"), Some("spec.search.precision: [FP8]"));
    assert_eq!(on("NVIDIA A100-SXM4-80GB"), Some("spec.search.precision: [INT8WeightOnly, INT4AWQ]"));
}

#[test]
fn signals_below_their_limit_give_no_action() {
    let few = with_class(load(1_000), KernelClass::Gemm, 379);
    let mut little_nccl = load(1_000);
    little_nccl.mix.nccl_nanos = 100;
    little_nccl.exposed_communication_nanos = 100;

    assert_eq!(actions(&few, &context()), []);
    assert_eq!(actions(&little_nccl, &context()), []);
}
