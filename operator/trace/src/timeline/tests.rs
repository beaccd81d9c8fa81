//! What holds for every capture.

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::record::{Counter, Thread};

const CAPTURE: Extent = Extent { from: 0, to: 1_000 };

fn run(mut records: Vec<Record>, source: PhaseSource) -> Timeline {
    let mut names = Names::default();
    for name in ["gemm", "ncclDevKernel_AllReduce", "cudaLaunchKernel", "cudaMalloc", "cudaStreamSynchronize", "tool"] {
        names.intern(name);
    }
    records.sort_by(Record::order);
    let setup = Setup { extent: CAPTURE, phase_source: source, ridges: vec![None, None] };
    let mut timeline = Timeline::new(setup, 2);
    for record in &records {
        timeline.record(record, &names);
    }
    timeline.finish();
    timeline
}

const GEMM: NameId = NameId(1);
const NCCL: NameId = NameId(2);
const LAUNCH: NameId = NameId(3);
const MALLOC: NameId = NameId(4);
const WAIT: NameId = NameId(5);

fn event() -> impl Strategy<Value = Event> {
    let device = (0u16..2).prop_map(Device);
    let correlation = (0u32..20).prop_map(|id| Correlation::new(0, id));
    let thread = (0u32..3).prop_map(Thread);
    prop_oneof![
        (device.clone(), 1u32..3, correlation.clone()).prop_map(|(device, name, correlation)| Event::Kernel {
            device,
            name: NameId(name),
            correlation
        }),
        (device.clone(), correlation.clone()).prop_map(|(device, correlation)| Event::Set {
            device,
            bytes: 1,
            correlation
        }),
        (thread.clone(), 3u32..6, correlation).prop_map(|(thread, name, correlation)| Event::Api {
            thread,
            name: NameId(name),
            correlation
        }),
        thread.prop_map(|thread| Event::Operator { thread, name: GEMM, flops: 0, bytes: 0 }),
        Just(Event::Overhead),
        device.prop_map(|device| Event::Sample { device, counter: Counter::SmActive, milli_percent: 5_000 }),
        (0u32..2, prop_oneof![Just(AgentPhase::Tool), Just(AgentPhase::Inference), Just(AgentPhase::Idle)])
            .prop_map(|(run, phase)| Event::Phase { run, phase }),
    ]
}

proptest! {
    #[test]
    fn every_nanosecond_of_a_device_is_busy_or_idle_for_one_cause(
        events in prop::collection::vec((0i64..990, 0i64..200, event()), 0..60),
        spans in any::<bool>(),
    ) {
        let records: Vec<_> = events
            .into_iter()
            .map(|(start, length, event)| Record::new(start, (start + length).min(CAPTURE.to), event))
            .collect();
        let source = if spans { PhaseSource::Spans } else { PhaseSource::Ranges };
        let timeline = run(records.clone(), source);
        for (at, device) in timeline.devices.iter().enumerate() {
            let mut covered = vec![false; 1_000];
            for record in &records {
                if matches!(record.event, Event::Kernel { device, .. } if usize::from(device.0) == at) {
                    covered[record.start as usize..record.end as usize].fill(true);
                }
            }
            prop_assert_eq!(device.busy_nanos, covered.iter().filter(|&&busy| busy).count() as u64);
            let idle = device.causes.sum(|_| true) + device.edge_causes.sum(|_| true);
            prop_assert_eq!(device.busy_nanos + idle, 1_000);
            prop_assert_eq!(device.gap_sizes.iter().map(|(_, nanos)| nanos).sum::<u64>(), device.causes.sum(|_| true));
            prop_assert!(device.exposed_communication_nanos <= device.busy_nanos);
        }
    }
}

fn kernel(start: i64, end: i64, device: u16, name: NameId, id: u32) -> Record {
    Record::new(start, end, Event::Kernel { device: Device(device), name, correlation: Correlation::new(0, id) })
}

fn call(start: i64, end: i64, name: NameId, id: u32) -> Record {
    Record::new(start, end, Event::Api { thread: Thread(0), name, correlation: Correlation::new(0, id) })
}

#[test]
fn a_kernel_that_was_launched_before_the_gap_waits_on_the_device() {
    let records = vec![
        call(0, 10, LAUNCH, 1),
        call(10, 20, LAUNCH, 2),
        call(20, 400, WAIT, 3),
        kernel(30, 100, 0, GEMM, 1),
        kernel(150, 200, 0, GEMM, 2),
    ];

    let timeline = run(records, PhaseSource::Ranges);

    assert_eq!(timeline.devices[0].causes.of(Cause::Queued), 50);
    assert_eq!(timeline.devices[0].causes.sum(|_| true), 50);
}

#[test]
fn a_gap_is_split_over_what_the_host_did_in_it() {
    let records = vec![
        call(0, 10, LAUNCH, 1),
        kernel(10, 100, 0, GEMM, 1),
        call(120, 180, MALLOC, 2),
        call(200, 210, LAUNCH, 3),
        kernel(215, 300, 0, GEMM, 3),
    ];

    let timeline = run(records, PhaseSource::Ranges);

    let causes = timeline.devices[0].causes;
    let found = [Cause::Allocation, Cause::Launch, Cause::HostOther].map(|cause| causes.of(cause));
    assert_eq!(found, [60, 10, 45]);
    assert_eq!(timeline.devices[0].longest[0].cause, Cause::Allocation);
}

#[test]
fn collectives_are_exposed_where_they_run_alone() {
    let records = vec![kernel(0, 100, 0, NCCL, 0), kernel(60, 200, 0, GEMM, 0), kernel(300, 400, 1, NCCL, 0)];

    let timeline = run(records, PhaseSource::Ranges);

    assert_eq!(timeline.devices.iter().map(|device| device.exposed_communication_nanos).collect::<Vec<_>>(), [60, 100]);
}

#[test]
fn a_driver_call_inside_a_runtime_call_counts_once() {
    let records = vec![call(0, 100, MALLOC, 1), call(10, 90, MALLOC, 2), call(200, 210, MALLOC, 3)];

    let timeline = run(records, PhaseSource::Ranges);

    assert_eq!(timeline.calls.allocations, device::Durations { count: 2, nanos: 110, max_nanos: 100 });
    assert_eq!(timeline.threads.working_nanos, 110);
}
