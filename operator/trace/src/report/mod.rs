//! Makes the report of a timeline. Pure.

mod device_types;
mod devices;
mod operators;
mod types;

use self::operators::OperatorTable;
pub use self::{
    device_types::{CopyRow, CounterRow, DeviceReport, GapRow, GapSizeRow, IdleRow, MemoryReport, MemoryRow},
    types::{
        AgentPhaseRow, AgentPhases, Allocation, CallRow, Capture, ClassRow, Communication, EnginePhaseRow, Imbalance,
        KernelRow, LaunchReport, MemoryOperators, NcclRow, OperatorRow, Operators, RangeRow, Report,
    },
};

use super::{
    averages::Averages,
    classify::{self, EnginePhase, KernelClass},
    diagnose::{self, Load, peaks::Peak, round},
    format::Format,
    intake::Extent,
    record::{AgentPhase, Counter, Names, Source, WallClock},
    timeline::{
        Timeline,
        causes::CauseTimes,
        device::{DeviceState, Durations},
        phases::PhaseSource,
        stats::KernelMix,
    },
};

/// Rows of tables that name things.
const ROWS: usize = 30;
/// Names of ranges past which counters in them are masked.
const MOST_RANGE_NAMES: usize = 64;
/// (max - min) / max of NCCL time above which ranks should be checked for balance.
const IMBALANCE_PCT: f64 = 15.0;

/// Share of kernels without a launch above which tables by range and phase are not whole.
const UNATTRIBUTED_PCT: f64 = 5.0;

/// What is known of a capture beside its timeline.
#[derive(Clone, Debug)]
pub struct CaptureFacts {
    /// Format of the files.
    pub format: Format,
    /// Wall clock of time zero.
    pub clock: Option<WallClock>,
    /// First start and last end.
    pub extent: Extent,
    /// Records.
    pub records: u64,
    /// Peaks of the devices, where known.
    pub peaks: Vec<Option<Peak>>,
    /// Operators as torch averages them, where given.
    pub averages: Option<Averages>,
}

/// Makes the report.
#[must_use]
pub fn build(timeline: &Timeline, names: &Names, source: &Source, capture: &CaptureFacts) -> Report {
    let communication = communication(timeline);
    let operators = OperatorTable::new(timeline, names, capture.averages.as_ref());
    let load = load(timeline, operators.as_ref());
    let context = diagnose::Context {
        peaks: &capture.peaks,
        nccl_imbalance: communication.imbalance.as_ref().map_or(0.0, |imbalance| imbalance.imbalance_pct / 100.0),
        slow_allocations: joined(timeline.calls.slow_allocations, timeline.calls.slow_frees),
    };
    let start = capture.clock.map(|clock| clock.origin_unix_nanos.saturating_add(capture.extent.from));
    Report {
        format: match capture.format {
            Format::Nsys => "nsys",
            Format::Kineto => "kineto",
        },
        schema_version: source.schema_version.clone(),
        capture: Capture {
            duration_ms: ms(timeline.capture_nanos()),
            start_unix_nanos: start,
            records: capture.records,
        },
        bottleneck: diagnose::bottleneck(&load),
        actions: diagnose::actions(&load, &context),
        devices: devices::rows(timeline, names, source, capture.extent.from),
        kernel_classes: classes(&timeline.mix),
        kernels: kernels(timeline, names),
        engine_phases: engine_phases(timeline),
        agent_phases: agent_phases(timeline),
        communication,
        allocation: allocation(timeline),
        launch: launch(timeline),
        cuda_calls: cuda_calls(timeline, names),
        ranges: ranges(timeline, names),
        operators: operators.map(|table| operators::tables(&table, &capture.peaks)),
        warnings: warnings(timeline, source),
    }
}

fn warnings(timeline: &Timeline, source: &Source) -> Vec<String> {
    let mut warnings = source.warnings.clone();
    let share = pct(timeline.unattributed_kernels, timeline.mix.kernels.count);
    if share >= UNATTRIBUTED_PCT && timeline.calls.launches.count > 0 {
        warnings.push(format!(
            "{share} % of the kernels have no recorded launch, so ranges, phases and launch delays leave them out; the capture \
             was cut, or another process launched them"
        ));
    }
    warnings
}

/// Returns the load over all devices. Where phases of agent runs are known, the whole capture counts (a tool also runs
/// before the first kernel and after the last). Otherwise the time between first and last kernel counts.
fn load(timeline: &Timeline, operators: Option<&OperatorTable>) -> Load {
    let whole = timeline.phases.source().is_some();
    let mut load = Load { mix: timeline.mix, ..Load::default() };
    for device in &timeline.devices {
        load.busy_nanos += device.busy_nanos;
        load.exposed_communication_nanos += device.exposed_communication_nanos;
        load.idle.merge(&device.causes);
        load.wall_nanos += if whole { timeline.capture_nanos() } else { device.wall_nanos() };
        if whole {
            load.idle.merge(&device.edge_causes);
        }
    }
    let mut outside = timeline.mix;
    for (phase, mix) in EnginePhase::ALL.into_iter().zip(&timeline.phase_mix) {
        let (memory, unknown) = Load::gemm_split(mix, Some(phase));
        load.gemm_memory_nanos += memory;
        load.gemm_unknown_nanos += unknown;
        match phase {
            EnginePhase::Prefill => load.attention_prefill_nanos = mix.class(KernelClass::Attention).nanos,
            EnginePhase::Decode => load.attention_decode_nanos = mix.class(KernelClass::Attention).nanos,
            EnginePhase::Mixed => {}
        }
        outside = outside.without(mix);
    }
    let (memory, unknown) = Load::gemm_split(&outside, None);
    load.gemm_memory_nanos += memory;
    load.gemm_unknown_nanos += unknown;
    load.cpu_to_gpu_ratio = operators.and_then(OperatorTable::cpu_to_gpu_ratio);
    (load.dram_pct, load.tensor_pct) = counters(&timeline.devices, None);
    load
}

/// Mean DRAM traffic and mean of the tensor pipe over the devices that have both counters.
fn counters(devices: &[DeviceState], phase: Option<EnginePhase>) -> (Option<f64>, Option<f64>) {
    let value = |device: &DeviceState, counter| device.counters.get(&(phase, counter)).and_then(|mean| mean.value());
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let dram = devices.iter().filter_map(|device| {
        let read = value(device, Counter::DramRead)?;
        Some(read + value(device, Counter::DramWrite).unwrap_or(0.0))
    });
    let tensor = devices.iter().filter_map(|device| value(device, Counter::TensorActive));
    (mean(dram.collect()), mean(tensor.collect()))
}

fn engine_phases(timeline: &Timeline) -> Vec<EnginePhaseRow> {
    let rows = EnginePhase::ALL.into_iter().zip(&timeline.phase_mix).zip(&timeline.threads.phase_steps);
    rows.filter(|((_, mix), steps)| mix.kernels.count > 0 || steps.count > 0)
        .map(|((phase, mix), steps)| {
            let (busy, gap) = timeline.devices.iter().fold((0, 0), |(busy, gap), device| {
                let (device_busy, device_gap) = device.phase_times[phase as usize];
                (busy + device_busy, gap + device_gap)
            });
            let mut idle = CauseTimes::default();
            idle.add(diagnose::PHASE_GAP, gap);
            let (memory, unknown) = Load::gemm_split(mix, Some(phase));
            let (dram_pct, tensor_pct) = counters(&timeline.devices, Some(phase));
            let load = Load {
                wall_nanos: busy + gap,
                busy_nanos: busy,
                idle,
                mix: *mix,
                gemm_memory_nanos: memory,
                gemm_unknown_nanos: unknown,
                dram_pct,
                tensor_pct,
                ..Load::default()
            };
            EnginePhaseRow {
                phase,
                steps: steps.count,
                host_ms: ms(steps.nanos),
                kernels: mix.kernels.count,
                kernel_ms: ms(mix.kernels.nanos),
                active_pct: pct(busy, busy + gap),
                classes: classes(mix),
                bottleneck: diagnose::bottleneck(&load),
            }
        })
        .collect()
}

fn classes(mix: &KernelMix) -> Vec<ClassRow> {
    let rows = KernelClass::ALL.into_iter().zip(mix.classes);
    rows.filter(|(_, durations)| durations.count > 0)
        .map(|(class, durations)| ClassRow {
            class,
            count: durations.count,
            ms: ms(durations.nanos),
            pct: pct(durations.nanos, mix.kernels.nanos),
        })
        .collect()
}

fn kernels(timeline: &Timeline, names: &Names) -> Vec<KernelRow> {
    let total = timeline.mix.kernels.nanos;
    let mut rows: Vec<_> = timeline.kernels.iter().filter(|(_, stats)| stats.durations.count > 0).collect();
    rows.sort_by_key(|(name, stats)| (std::cmp::Reverse(stats.durations.nanos), **name));
    rows.into_iter()
        .take(ROWS)
        .map(|(&name, stats)| KernelRow {
            name: names.text(name).to_owned(),
            class: stats.class,
            count: stats.durations.count,
            total_ms: ms(stats.durations.nanos),
            pct: pct(stats.durations.nanos, total),
            avg_us: average_us(stats.durations),
            min_us: us(stats.min_nanos),
            max_us: us(stats.durations.max_nanos),
        })
        .collect()
}

fn communication(timeline: &Timeline) -> Communication {
    let mix = &timeline.mix;
    let rows: Vec<_> = timeline.devices.iter().enumerate().filter(|(_, state)| state.nccl.count > 0).collect();
    let most = rows.iter().max_by_key(|(at, state)| (state.nccl.nanos, std::cmp::Reverse(*at)));
    let least = rows.iter().min_by_key(|(at, state)| (state.nccl.nanos, *at));
    let imbalance = match (most, least) {
        (Some(&(waiting_device, most)), Some(&(slowest_device, least))) if rows.len() > 1 => {
            let imbalance_pct = pct(most.nccl.nanos - least.nccl.nanos, most.nccl.nanos);
            let check_balance = imbalance_pct > IMBALANCE_PCT;
            Some(Imbalance { imbalance_pct, check_balance, waiting_device, slowest_device })
        }
        _ => None,
    };
    let per_device = rows.iter().map(|&(device, state)| NcclRow {
        device,
        count: state.nccl.count,
        total_ms: ms(state.nccl.nanos),
        avg_us: average_us(state.nccl),
        max_us: us(state.nccl.max_nanos),
    });
    Communication {
        nccl_time_ms: ms(mix.nccl_nanos),
        nccl_count: timeline.devices.iter().map(|device| device.nccl.count).sum(),
        nccl_pct: pct(mix.nccl_nanos, mix.kernels.nanos),
        compute_time_ms: ms(mix.kernels.nanos.saturating_sub(mix.nccl_nanos)),
        communication_pct: pct(mix.class(KernelClass::Communication).nanos, mix.kernels.nanos),
        exposed_ms: ms(timeline.devices.iter().map(|device| device.exposed_communication_nanos).sum()),
        per_device: per_device.collect(),
        imbalance,
    }
}

fn allocation(timeline: &Timeline) -> Allocation {
    let calls = &timeline.calls;
    Allocation {
        total_allocs: calls.allocations.count,
        slow_allocs_count: calls.slow_allocations.count,
        worst_alloc_ms: ms(calls.allocations.max_nanos),
        avg_alloc_us: average_us(calls.allocations),
        total_frees: calls.frees.count,
        slow_frees_count: calls.slow_frees.count,
        worst_free_ms: ms(calls.frees.max_nanos),
        slow_ms: ms(calls.slow_allocations.nanos + calls.slow_frees.nanos),
    }
}

fn launch(timeline: &Timeline) -> LaunchReport {
    let (launches, delays) = (timeline.calls.launches, &timeline.calls.launch_to_start);
    let kernels = timeline.mix.kernels.count;
    LaunchReport {
        calls: launches.count,
        total_ms: ms(launches.nanos),
        avg_us: average_us(launches),
        kernels_per_call: if launches.count == 0 { 0.0 } else { round(kernels as f64 / launches.count as f64) },
        to_start_p50_us: delays.quantile(0.5).map(us),
        to_start_p95_us: delays.quantile(0.95).map(us),
        to_start_p99_us: delays.quantile(0.99).map(us),
        unattributed_kernels: timeline.unattributed_kernels,
    }
}

fn cuda_calls(timeline: &Timeline, names: &Names) -> Vec<CallRow> {
    let mut rows: Vec<_> = timeline.calls.by_name.iter().collect();
    rows.sort_by_key(|(name, durations)| (std::cmp::Reverse(durations.nanos), **name));
    rows.into_iter()
        .take(ROWS)
        .map(|(&name, durations)| CallRow {
            name: names.text(name).to_owned(),
            count: durations.count,
            total_ms: ms(durations.nanos),
            avg_us: average_us(*durations),
            max_us: us(durations.max_nanos),
        })
        .collect()
}

fn ranges(timeline: &Timeline, names: &Names) -> Vec<RangeRow> {
    let mut totals = timeline.ranges.totals(names, str::to_owned);
    if totals.len() > MOST_RANGE_NAMES {
        totals = timeline.ranges.totals(names, classify::without_numbers);
    }
    let mut rows: Vec<_> = totals.into_iter().collect();
    rows.sort_by(|(a_name, a), (b_name, b)| {
        (b.gpu_nanos, b.wall_nanos).cmp(&(a.gpu_nanos, a.wall_nanos)).then(a_name.cmp(b_name))
    });
    rows.into_iter()
        .take(ROWS)
        .map(|(name, totals)| RangeRow {
            name,
            count: totals.count,
            wall_ms: ms(totals.wall_nanos),
            gpu_ms: ms(totals.gpu_nanos),
            self_gpu_ms: ms(totals.self_gpu_nanos),
            kernels: totals.kernels,
        })
        .collect()
}

fn agent_phases(timeline: &Timeline) -> Option<AgentPhases> {
    let source = match timeline.phases.source()? {
        PhaseSource::Spans => "spans",
        PhaseSource::Ranges => "ranges",
    };
    let named = [
        (AgentPhase::Preprocessing, "preprocessing"),
        (AgentPhase::Inference, "inference"),
        (AgentPhase::Tool, "tool"),
        (AgentPhase::Idle, "idle"),
    ];
    let run_total: u64 = named.iter().map(|&(phase, _)| timeline.phases.run_nanos(phase)).sum();
    let rows = named.map(|(phase, name)| {
        let (wall, run) = (timeline.phases.wall_nanos(phase), timeline.phases.run_nanos(phase));
        AgentPhaseRow {
            phase: name,
            wall_ms: ms(wall),
            wall_pct: pct(wall, timeline.capture_nanos()),
            run_ms: ms(run),
            run_pct: pct(run, run_total),
        }
    });
    let outside_pct = pct(timeline.phases.outside_nanos(), timeline.capture_nanos());
    Some(AgentPhases { source, phases: rows.to_vec(), outside_pct })
}

fn joined(a: Durations, b: Durations) -> Durations {
    Durations { count: a.count + b.count, nanos: a.nanos + b.nanos, max_nanos: a.max_nanos.max(b.max_nanos) }
}

/// Nanoseconds as milliseconds, to the nanosecond.
fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn us(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

fn average_us(durations: Durations) -> f64 {
    if durations.count == 0 { 0.0 } else { round(durations.nanos as f64 / durations.count as f64 / 1e3) }
}

fn pct(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { round(100.0 * part as f64 / whole as f64) }
}
