//! Tables and numbers as the profiling guides define them.

use pretty_assertions::assert_eq;
use slipway_trace::{Cause, PhaseSource, format::Format};

use super::{
    chrome::{BASE, chrome},
    nsys::{SESSION, export},
};

#[test]
fn gaps_are_counted_between_merged_intervals() {
    let capture = chrome()
        .kernel((0, 100), 0, "gemm", 0)
        .kernel((50, 100), 0, "gemm", 0)
        .kernel((250, 50), 0, "gemm", 0)
        .kernel((305, 95), 0, "gemm", 0)
        .report();

    let device = &capture.devices[0];
    assert_eq!((device.active_pct, device.total_wall_ms, device.total_gap_ms), (73.75, 0.4, 0.105));
    assert_eq!((device.num_gaps, device.avg_gap_us), (2, 52.5));
    let sizes: Vec<_> = device.gap_sizes.iter().map(|row| (row.below_us, row.count)).collect();
    assert_eq!(sizes, [(Some(10), 1), (Some(50), 0), (Some(200), 1), (Some(1_000), 0), (Some(10_000), 0), (None, 0)]);
    assert_eq!((device.longest_gaps[0].at_ms, device.longest_gaps[0].us), (0.15, 100.0));
}

#[test]
fn an_allocation_over_a_millisecond_is_slow() {
    let capture = export()
        .kernel((0, 100), 0, "gemm", 9)
        .call((200, 1_000), "cudaMalloc_v3020", 1)
        .call((1_300, 1_001), "cudaMalloc_v3020", 2)
        .call((2_400, 2_500), "cudaFree_v3020", 3)
        .launch(5_000, (5_005, 100), "gemm", 10)
        .report();

    let found = capture.allocation;
    assert_eq!((found.total_allocs, found.slow_allocs_count, found.worst_alloc_ms), (2, 1, 1.001));
    assert_eq!((found.total_frees, found.slow_frees_count, found.worst_free_ms), (1, 1, 2.5));
    assert_eq!(found.avg_alloc_us, 1_000.5);
    assert_eq!(capture.devices[0].idle[0].cause, Cause::Allocation);
    let action = capture.actions.iter().find(|action| action.action == "PreallocateMemory").unwrap();
    assert!(action.field.contains("spec.engine.vllm.gpuMemoryUtilization"), "{}", action.field);
}

#[test]
fn copies_are_counted_by_direction_and_explain_gaps() {
    let capture = export()
        .kernel((0, 100), 0, "gemm", 1)
        .copy((100, 50), 1_000_000, 1)
        .copy((150, 10), 64, 2)
        .kernel((200, 100), 0, "gemm", 2)
        .report();

    let device = &capture.devices[0];
    let copies: Vec<_> =
        device.copies.iter().map(|row| (row.kind.as_str(), row.count, row.bytes, row.gb_per_s)).collect();
    assert_eq!(copies, [("HostToDevice", 1, 1_000_000, 20.0), ("DeviceToHost", 1, 64, 0.006)]);
    assert_eq!(device.copy_pct, 20.0);
    let idle: Vec<_> = device.idle.iter().map(|row| (row.cause, row.ms, row.gaps)).collect();
    assert_eq!(idle, [(Cause::MemoryCopy, 0.06, 1), (Cause::HostOther, 0.04, 0)]);
}

#[test]
fn memory_is_followed_from_allocations() {
    let capture = export()
        .kernel((0, 100), 0, "gemm", 1)
        .memory(10, 3_000_000)
        .memory(20, 5_000_000)
        .memory(30, -3_000_000)
        .on("NVIDIA A100-SXM4-80GB")
        .report();

    let memory = capture.devices[0].memory.clone().unwrap();
    assert_eq!((memory.peak_allocated_mb, memory.growth_mb), (8.0, 2.0));
    assert_eq!((memory.peak_reserved_mb, memory.peak_pct_of_device), (None, Some(0.009)));
}

#[test]
fn kernel_time_goes_to_every_range_around_the_launch() {
    let capture = export()
        .range((0, 50), "request 1")
        .range((5, 20), "attention")
        .launch(6, (100, 30), "flash_fwd", 1)
        .launch(30, (130, 10), "gemm", 2)
        .report();

    let rows: Vec<_> =
        capture.ranges.iter().map(|row| (row.name.as_str(), row.gpu_ms, row.self_gpu_ms, row.kernels)).collect();
    assert_eq!(rows, [("request 1", 0.04, 0.01, 2), ("attention", 0.03, 0.03, 1)]);
}

#[test]
fn many_numbered_ranges_count_as_one() {
    let mut trace = chrome();
    for step in 0..100 {
        trace = trace.range((step * 10, 9), &format!("step {step}")).launch(
            step * 10 + 1,
            (step * 10 + 2, 5),
            "gemm",
            step + 1,
        );
    }

    let capture = trace.report();

    assert_eq!(capture.ranges.iter().map(|row| (row.name.as_str(), row.count)).collect::<Vec<_>>(), [("step #", 100)]);
}

#[test]
fn operators_that_only_dispatch_are_listed() {
    let capture = chrome()
        .operator((0, 60), "aten::add")
        .launch(10, (20, 10), "vectorized_elementwise_kernel", 1)
        .operator((100, 40), "aten::mm")
        .launch(110, (120, 400), "gemm", 2)
        .operator((200, 30), "aten::empty")
        .report();

    let operators = capture.operators.unwrap();
    let names =
        |rows: &[slipway_trace::report::OperatorRow]| rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&operators.dispatch_heavy), ["aten::add"]);
    assert_eq!(names(&operators.cpu_only), ["aten::empty"]);
    assert_eq!((operators.memory.count, operators.memory.cpu_ms), (1, 0.03));
}

#[test]
fn the_wall_clock_of_the_first_record_is_stated() {
    let kineto = chrome().kernel((5, 10), 0, "gemm", 0).report();
    let nsys = export().kernel((7, 10), 0, "gemm", 0).report();

    assert_eq!(kineto.capture.start_unix_nanos, Some(BASE + 5_000));
    assert_eq!(nsys.capture.start_unix_nanos, Some(SESSION + 7_000));
    assert_eq!(nsys.schema_version.as_deref(), Some("3.16.1"));
}

#[test]
fn traces_of_older_torch_versions_read_the_same() {
    // Before 1.12 categories were capitalised; before 2.3 times were absolute and there was no baseTimeNanoseconds.
    let text = r#"{"traceEvents": [
        {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":400,"tid":"400","ts":1700000000000001,"dur":2,
         "args":{"correlation":7,"external id":3}},
        {"ph":"X","cat":"Kernel","name":"gemm","pid":1,"tid":"stream 7","ts":1700000000000010,"dur":100,
         "args":{"device":1,"correlation":7,"external id":3}}]}"#;
    let mut intake = super::chrome::intake();
    slipway_trace::kineto::read(text.as_bytes(), &mut intake).unwrap();
    let capture =
        slipway_trace::analyze(intake.finish(), super::chrome::options(Format::Kineto, PhaseSource::Ranges)).unwrap();

    assert_eq!((capture.devices[0].id, capture.devices[0].active_ms), (1, 0.1));
    assert_eq!((capture.launch.calls, capture.launch.unattributed_kernels), (1, 0));
}
