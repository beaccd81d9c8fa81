//! Known ways to misread a trace, one fixture each.

use pretty_assertions::assert_eq;
use slipway_trace::{Cause, EnginePhase, KernelClass, diagnose::BottleneckClass, report::Report};

use super::{
    chrome::{Chrome, chrome, ranks},
    nsys::{PID, export},
};

const GEMM: &str = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n";
const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const ADD: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>";

#[test]
fn the_short_name_is_a_key_of_string_ids() {
    let capture = export()
        .kernel((0, 60), 0, GEMM, 1)
        .kernel((60, 40), 0, NCCL, 2)
        .with("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName")
        .with("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN mangledName")
        .report();

    assert_eq!(capture.communication.nccl_pct, 40.0);
    assert_eq!(capture.kernels[0].name, GEMM);
}

#[test]
fn a_name_that_is_text_is_taken_as_it_is() {
    let capture = export()
        .kernel((0, 50), 0, GEMM, 1)
        .with("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName")
        .with("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN demangledName TEXT")
        .with("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 'ncclKernel'")
        .report();

    assert_eq!(capture.communication.nccl_count, 1);
}

#[test]
fn intervals_merge_per_device() {
    // Merged over both devices there would be no gap at all.
    let capture = export()
        .kernel((0, 50), 0, GEMM, 1)
        .kernel((25, 25), 0, ADD, 2)
        .kernel((100, 50), 0, GEMM, 3)
        .kernel((50, 50), 1, GEMM, 4)
        .kernel((150, 50), 1, GEMM, 5)
        .report();

    let found: Vec<_> =
        capture.devices.iter().map(|d| (d.active_ms, d.total_gap_ms, d.num_gaps, d.active_pct)).collect();
    assert_eq!(found, [(0.1, 0.05, 1, 66.667), (0.1, 0.05, 1, 66.667)]);
}

#[test]
fn ranks_that_each_call_their_gpu_zero_are_told_apart() {
    let capture = export()
        .gpu_of(100, 2)
        .gpu_of(200, 3)
        .kernel_of(100, (0, 50), 0, NCCL, 1)
        .kernel_of(200, (0, 100), 0, NCCL, 1)
        .report();

    assert_eq!(capture.devices.iter().map(|device| (device.id, device.kernels)).collect::<Vec<_>>(), [(2, 1), (3, 1)]);
}

#[test]
fn correlations_of_two_processes_do_not_mix() {
    let capture = export()
        .call_of(100, (0, 1), "cudaLaunchKernel", 1)
        .call_of(200, (50, 1), "cudaLaunchKernel", 1)
        .kernel_of(100, (60, 10), 0, GEMM, 1)
        .report();

    assert!((55.0..66.0).contains(&capture.launch.to_start_p50_us.unwrap()), "{:?}", capture.launch);
}

#[test]
fn a_graph_level_capture_has_activity_but_no_kernels_to_name() {
    let capture = export()
        .call((0, 2), "cudaGraphLaunch_v10000", 1)
        .graph((10, 80), 1)
        .call((95, 2), "cudaGraphLaunch_v10000", 2)
        .graph((100, 80), 2)
        .report();

    assert_eq!((capture.devices[0].active_ms, capture.devices[0].num_gaps), (0.16, 1));
    assert_eq!(capture.kernel_classes.iter().map(|row| row.class).collect::<Vec<_>>(), [KernelClass::Graph]);
    assert_eq!(capture.bottleneck.class, None);
    assert!(capture.warnings[0].ends_with("capture with --cuda-graph-trace=node"), "{:?}", capture.warnings);
}

#[test]
fn graphs_captured_by_node_have_many_kernels_of_one_launch() {
    let capture = export()
        .range((0, 10), "decode")
        .call((0, 2), "cudaGraphLaunch_v10000", 1)
        .kernel((10, 10), 0, GEMM, 1)
        .kernel((21, 10), 0, ADD, 1)
        .kernel((32, 10), 0, GEMM, 1)
        .report();

    assert_eq!((capture.launch.calls, capture.launch.kernels_per_call), (1, 3.0));
    assert_eq!(capture.engine_phases[0].kernels, 3);
    assert_eq!(capture.devices[0].idle[0].cause, Cause::Queued);
}

#[test]
fn nested_operators_count_their_own_time_once() {
    let capture = chrome()
        .operator((0, 100), "aten::linear")
        .operator((10, 80), "aten::addmm")
        .call((20, 10), "cudaLaunchKernel", 5)
        .kernel((40, 50), 0, GEMM, 5)
        .report();

    let operators = capture.operators.unwrap();
    let rows: Vec<_> = operators.by_cpu_time.iter().map(|row| (row.name.as_str(), row.cpu_ms, row.device_ms)).collect();
    assert_eq!(rows, [("aten::addmm", 0.07, 0.05), ("aten::linear", 0.02, 0.0)]);
    assert_eq!((operators.cpu_ms, operators.device_ms, operators.cpu_to_gpu_ratio), (0.1, 0.05, Some(2.0)));
}

/// Kernel time of a step of a 70B model in decode, batch 8: 51.9 % matrix products.
fn seventy_billion(mut trace: Chrome, range: Option<&str>) -> Chrome {
    let shares = [
        (GEMM, 519),
        ("flash_fwd_splitkv_kernel", 205),
        (ADD, 91),
        ("rms_norm_kernel", 56),
        ("topk_kernel", 106),
        (NCCL, 23),
    ];
    if let Some(name) = range {
        trace = trace.range((0, 100), name);
    }
    let mut at = 10;
    for (id, (name, length)) in shares.into_iter().enumerate() {
        trace = trace.launch(id as u32 * 2, (at, length), name, id as u32 + 1);
        at += length;
    }
    trace
}

#[test]
fn matrix_products_of_decode_are_bound_by_memory() {
    let class = |range| seventy_billion(chrome(), range).report().bottleneck;

    let decode = class(Some("[Executor] _forward_step 7: 0 ctx reqs, 8 gen reqs"));
    let prefill = class(Some("execute_context_8(4096)_generation_0(0)"));
    let unknown = class(None);

    assert_eq!((decode.class, decode.evidence.gemm_pct), (Some(BottleneckClass::MemoryBound), 51.9));
    assert_eq!(prefill.class, Some(BottleneckClass::ComputeBound));
    assert_eq!(unknown.class, Some(BottleneckClass::ComputeBound));
    assert!(unknown.caveats[0].contains("could be limited by memory (as in decode)"), "{:?}", unknown.caveats);
}

#[test]
fn counters_decide_where_nothing_else_tells_decode_from_prefill() {
    let capture = export()
        .launch(0, (10, 519), GEMM, 1)
        .launch(2, (529, 481), ADD, 2)
        .metric(100, "DRAM Read Bandwidth [Throughput %]", 80)
        .metric(100, "DRAM Write Bandwidth [Throughput %]", 5)
        .metric(100, "Tensor Active [Throughput %]", 9)
        .metric(100, "Unallocated Warps in Active SMs [Throughput %]", 60)
        // A sample before the first kernel says nothing about kernels.
        .metric(5, "DRAM Read Bandwidth [Throughput %]", 0)
        .report();

    assert_eq!(capture.bottleneck.class, Some(BottleneckClass::MemoryBound));
    assert_eq!((capture.bottleneck.evidence.dram_pct, capture.bottleneck.evidence.tensor_pct), (Some(85.0), Some(9.0)));
    assert_eq!(capture.bottleneck.caveats, Vec::<String>::new());
}

#[test]
fn shapes_decide_before_the_phase_does() {
    // 4,096 tokens against weights of 4,096 x 4,096 are far above an H200's ridge although the range says decode.
    let shaped = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":400,"tid":400,"ts":0.000,"dur":20.000,"args":{
        "Input type":["c10::BFloat16","c10::BFloat16"],"Input Dims":[[4096,4096],[4096,4096]]}}"#;
    let capture = chrome()
        .on("NVIDIA H200")
        .range((0, 30), "decode")
        .event(shaped.to_owned())
        .launch(5, (30, 400), GEMM, 1)
        .report();

    assert_eq!(capture.bottleneck.class, Some(BottleneckClass::ComputeBound));
    let row = capture.operators.unwrap().by_device_time[0].clone();
    assert_eq!((row.achieved_tflops, row.peak_pct, row.flops_per_byte), (Some(343.597), Some(34.742), Some(1365.333)));
}

/// Two requests of 100 us each, with 900 us in between, in which the host does nothing that is recorded.
fn two_requests() -> Chrome {
    chrome().launch(0, (5, 100), GEMM, 1).launch(1_000, (1_005, 100), GEMM, 2)
}

#[test]
fn a_gpu_that_waits_for_a_tool_is_neither_overhead_nor_memory_bound() {
    let spans = [("a", "inference", 0, 110), ("a", "tool", 110, 890), ("a", "inference", 1_000, 110)];

    let without = two_requests().report();
    let with = two_requests().report_with_spans(&spans);

    assert_eq!(without.bottleneck.class, Some(BottleneckClass::OverheadBound));
    assert_eq!(with.bottleneck.class, Some(BottleneckClass::ToolBound));
    assert_eq!(with.actions[0].action, "ServeMoreRunsAtOnce");
    assert_eq!(
        with.actions.iter().map(|action| action.field).find(|field| field.contains("cache")),
        Some("spec.agent.tools[].http.url (a service that answers repeated calls from a cache)")
    );
}

#[test]
fn a_gpu_that_waits_for_preprocessing_has_a_class_of_its_own() {
    let spans = [("a", "inference", 0, 110), ("a", "preprocessing", 110, 890), ("a", "inference", 1_000, 110)];

    let capture = two_requests().report_with_spans(&spans);

    assert_eq!(capture.bottleneck.class, Some(BottleneckClass::PreprocessingBound));
}

#[test]
fn another_run_in_inference_makes_the_wait_the_engines_own() {
    let spans = [("a", "tool", 0, 1_110), ("b", "inference", 0, 1_110)];

    let capture = two_requests().report_with_spans(&spans);

    assert_eq!(capture.bottleneck.class, Some(BottleneckClass::OverheadBound));
    assert_eq!(capture.bottleneck.evidence.tool_pct, 0.0);
}

#[test]
fn long_silence_without_spans_is_named_not_blamed_on_dispatch() {
    let capture = chrome().launch(0, (5, 1_000), GEMM, 1).launch(20_000, (20_005, 1_000), GEMM, 2).report();

    assert_eq!(capture.devices[0].idle[0].cause, Cause::Unexplained);
    assert!(capture.bottleneck.caveats[0].contains("pass the agent runtime's --spans"), "{:?}", capture.bottleneck);
    assert_ne!(capture.bottleneck.class, Some(BottleneckClass::OverheadBound));
}

#[test]
fn mm_is_a_word_and_comm_is_not_one() {
    let capture =
        chrome().launch(0, (10, 30), "triton_tem_fused_mm_3", 1).launch(2, (40, 70), "comm_buffer_copyin", 2).report();

    let classes: Vec<_> = capture.kernel_classes.iter().map(|row| (row.class, row.pct)).collect();
    assert_eq!(classes, [(KernelClass::Gemm, 30.0), (KernelClass::Other, 70.0)]);
}

#[test]
fn the_rank_with_most_nccl_time_is_the_fast_one_that_waits() {
    let fast = chrome().kernel((0, 20), 0, GEMM, 0).kernel((20, 80), 0, NCCL, 0);
    let slow = chrome().kernel((0, 60), 0, GEMM, 0).kernel((60, 40), 0, NCCL, 0);

    let capture = ranks(&[&fast, &slow]);

    let imbalance = capture.communication.imbalance.unwrap();
    assert_eq!((imbalance.waiting_device, imbalance.slowest_device), (0, 1));
    assert_eq!((imbalance.imbalance_pct, imbalance.check_balance), (50.0, true));
    assert_eq!(capture.devices.iter().map(|device| device.file).collect::<Vec<_>>(), [0, 1]);
    assert!(capture.actions.iter().any(|action| action.action == "BalanceRanks"));
}

#[test]
fn activity_is_kernels_not_the_span_around_them() {
    // gpu_user_annotation reaches from the first kernel to the last, as an event pair around a request would.
    let span = r#"{"ph":"X","cat":"gpu_user_annotation","name":"decode","pid":0,"tid":7,"ts":10.000,"dur":1000.000,"args":{}}"#;
    let capture = chrome()
        .range((0, 500), "prefill")
        .range((500, 500), "decode")
        .event(span.to_owned())
        .launch(1, (10, 210), GEMM, 1)
        .launch(701, (800, 210), GEMM, 2)
        .report();

    assert_eq!((capture.devices[0].active_pct, capture.devices[0].kernels), (42.0, 2));
    let phases: Vec<_> = capture.engine_phases.iter().map(|row| (row.phase, row.host_ms, row.kernel_ms)).collect();
    assert_eq!(phases, [(EnginePhase::Prefill, 0.5, 0.21), (EnginePhase::Decode, 0.5, 0.21)]);
}

#[test]
fn an_engine_without_nvtx_is_still_diagnosed() {
    let capture = export().launch(0, (10, 90), GEMM, 1).report();

    assert_eq!(capture.bottleneck.class, Some(BottleneckClass::ComputeBound));
    assert_eq!(capture.engine_phases, []);
    assert!(capture.warnings[0].starts_with("table NVTX_EVENTS is missing"), "{:?}", capture.warnings);
}

#[test]
fn spans_of_another_container_join_by_wall_clock() {
    let capture = export().launch(0, (5, 100), GEMM, 1).launch(1_000, (1_005, 100), GEMM, 2).report_with_spans(&[
        ("inference", -500, 610),
        ("tool", 110, 890),
        ("inference", 1_000, 5_000),
    ]);

    assert_eq!(capture.bottleneck.class, Some(BottleneckClass::ToolBound));
    let wall = |report: &Report| {
        let agent = report.agent_phases.clone().unwrap();
        agent.phases.iter().map(|row| (row.phase, row.wall_ms)).collect::<Vec<_>>()
    };
    // Spans are cut at the capture, which lasts 1.105 ms.
    assert_eq!(wall(&capture), [("preprocessing", 0.0), ("inference", 0.215), ("tool", 0.89), ("idle", 0.0)]);
}

#[test]
fn ranges_that_start_and_end_on_two_threads_state_a_phase_too() {
    let capture = export()
        .process_range((0, 200), "prefill")
        .launch(1, (10, 100), GEMM, 1)
        .process_range((200, 200), "decode")
        .launch(201, (210, 100), GEMM, 2)
        .report();

    let phases: Vec<_> = capture.engine_phases.iter().map(|row| (row.phase, row.steps, row.kernels)).collect();
    assert_eq!(phases, [(EnginePhase::Prefill, 1, 1), (EnginePhase::Decode, 1, 1)]);
}

#[test]
fn a_range_that_was_open_at_the_end_ends_with_the_capture() {
    let capture = export()
        .range((0, 10), "decode")
        .with("UPDATE NVTX_EVENTS SET \"end\" = NULL")
        .launch(1, (10, 100), GEMM, 1)
        .report();

    assert_eq!(capture.ranges[0].wall_ms, 0.11);
    assert_eq!(capture.warnings, ["1 NVTX ranges were open when the capture ended and end there"]);
}

#[test]
fn marks_and_domains_are_no_ranges() {
    let capture = export()
        .range((0, 10), "decode")
        .with("INSERT INTO NVTX_EVENTS SELECT 0, NULL, 75, NULL, 'NCCL', globalTid, NULL, NULL, 1 FROM NVTX_EVENTS")
        .with("INSERT INTO NVTX_EVENTS SELECT 0, NULL, 34, NULL, 'mark', globalTid, NULL, NULL, 1 FROM NVTX_EVENTS LIMIT 1")
        .kernel_of(PID, (10, 100), 0, GEMM, 1)
        .report();

    assert_eq!(capture.ranges.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["decode"]);
}

#[test]
fn kernels_of_a_process_that_was_not_traced_are_named() {
    let capture = export().launch(0, (10, 50), GEMM, 1).kernel_of(900, (60, 50), 0, GEMM, 2).report();

    assert_eq!(capture.launch.unattributed_kernels, 1);
    assert!(capture.warnings[1].starts_with("50 % of the kernels have no recorded launch"), "{:?}", capture.warnings);
}
