//! The libraries of NVIDIA's driver. The only module that loads them; [`products`] is a part of it.
//!
//! `libnvidia-ml.so.1` says what GPUs are, and `libcuda.so.1` lets them work. The wrapper of the first reports a
//! library that is not there. That of the second panics, as it does at each function that an old driver lacks. These
//! panics are caught.

mod products;

use std::{
    ffi::OsStr,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    thread,
};

use cudarc::driver::{
    CudaContext, CudaStream, DriverError,
    result::device,
    sys::{CUevent_flags, CUuuid},
};
use nvml_wrapper::{
    Device, Nvml,
    bitmasks::{device::ThrottleReasons, event::EventTypes},
    cuda_driver_version_major, cuda_driver_version_minor,
    enum_wrappers::device::{Clock, EccCounter, MemoryError},
    enums::{device::SampleValue, event::XidError},
    error::NvmlError,
    event::EventSet,
    structs::device::FieldId,
    sys_exports::field_id::{NVML_FI_DEV_REMAPPED_FAILURE, NVML_FI_DEV_REMAPPED_PENDING},
};
use slipway_vocabulary::preflight::{GpuRefusal, Slowdown};

use crate::{
    check::{Copied, Gpus, Memory, Node, Products, Repair, Run, Seen},
    judge::number,
    watch::{Sample, Working},
};

const MANAGEMENT: &str = "libnvidia-ml.so.1";
const CUDA: &str = "libcuda.so.1";
const MIB: u64 = 1 << 20;
/// Bytes of a copy: several times the cache of any GPU, so that memory is measured.
const COPY_BYTES: usize = 256 << 20;
/// MiB that must be free for two buffers and what CUDA itself takes of a GPU.
const ROOM_MIB: u64 = 2_048;
/// Milliseconds that a round of copies takes about.
const ROUND_MILLIS: f32 = 100.0;
/// The first compute capability with products in BF16, times ten.
const FIRST_WITH_BF16: u32 = 80;
/// Rounds, of which the fastest counts: clocks rise during the first.
const ROUNDS: usize = 3;
/// Copies of a round, at most and at least.
const COPIES: (f32, f32) = (4.0, 1_000.0);
/// Errors that are read of one GPU: more say nothing new.
const MOST_XIDS: usize = 16;

/// The GPUs that NVIDIA's driver shows to this container.
pub struct Nvidia {
    management: Nvml,
}

impl Nvidia {
    /// Loads the library that manages GPUs.
    ///
    /// # Errors
    /// [`GpuRefusal::NoLibrary`] if it is not there, [`GpuRefusal::DriverFailed`] if it does not start.
    pub fn open() -> Result<Self, GpuRefusal> {
        let found = Nvml::builder().lib_path(OsStr::new(MANAGEMENT)).init();
        let management = found.map_err(|error| match error {
            NvmlError::LibloadingError(problem) => no_library(MANAGEMENT, &problem.to_string()),
            error => driver_failed("start libnvidia-ml.so.1", &error),
        })?;
        Ok(Self { management })
    }

    fn devices(&self) -> Result<Vec<Device<'_>>, NvmlError> {
        (0..self.management.device_count()?).map(|index| self.management.device_by_index(index)).collect()
    }

    /// Errors of every GPU are reported from now on; absent where the driver does not report any.
    fn watched(&self, seen: &[Seen]) -> Option<EventSet<'_>> {
        let devices = seen.iter().filter_map(|seen| self.management.device_by_uuid(seen.uuid.as_str()).ok());
        let empty = self.management.create_event_set().ok()?;
        devices
            .into_iter()
            .try_fold(empty, |set, device| device.register_events(EventTypes::CRITICAL_XID_ERROR, set).ok())
    }

    fn meanwhile(&self, uuid: &str) -> AtWork {
        let Ok(device) = self.management.device_by_uuid(uuid) else { return AtWork::default() };
        let slowed_by = device.current_throttle_reasons().map(slowdowns).unwrap_or_default();
        AtWork { clock_mhz: device.clock_info(Clock::SM).ok(), slowed_by }
    }
}

impl Gpus for Nvidia {
    fn look(&self) -> Result<Node, GpuRefusal> {
        let driver = self.management.sys_driver_version().map_err(|error| driver_failed("tell its version", &error))?;
        let cuda = self.management.sys_cuda_driver_version().ok();
        let cuda = cuda.map(|cuda| format!("{}.{}", cuda_driver_version_major(cuda), cuda_driver_version_minor(cuda)));
        let devices = self.devices().map_err(|error| driver_failed("list its GPUs", &error))?;
        let described = |(place, device)| seen(device).map_err(|error| undescribed(place, &error));
        let gpus = devices.iter().enumerate().map(described).collect::<Result<_, _>>()?;
        Ok(Node { driver, cuda, gpus })
    }

    fn run(&self, seen: &[Seen]) -> Result<Vec<Run>, GpuRefusal> {
        let uuids = cuda_uuids()?;
        let events = self.watched(seen);
        let mut runs: Vec<Run> = thread::scope(|scope| {
            let workers: Vec<_> = seen
                .iter()
                .map(|seen| {
                    let ordinal = uuids.iter().position(|uuid| *uuid == seen.uuid);
                    scope.spawn(move || self.working(seen, ordinal))
                })
                .collect();
            let ended =
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| failed_run("work", "it ended")));
            ended.collect()
        });
        for (uuid, code) in events.iter().flat_map(reported) {
            let places = seen.iter().zip(&mut runs).filter(|(seen, _)| seen.uuid == uuid);
            places.for_each(|(_, run)| run.xids.push(code));
        }
        Ok(runs)
    }
}

impl Nvidia {
    fn working(&self, seen: &Seen, ordinal: Option<usize>) -> Run {
        let Some(ordinal) = ordinal else { return failed_run("be found by CUDA", "CUDA does not list it") };
        if seen.memory.as_ref().is_ok_and(|memory| memory.free_mib < ROOM_MIB) {
            let products = Products::NotRun { problem: "too little of its memory is free".to_owned() };
            return Run { products, ..Run::of(Copied::NoRoom) };
        }
        let copied = flat(caught(|| {
            let context = CudaContext::new(ordinal)?;
            let copied = copies(&context, || self.meanwhile(&seen.uuid))?;
            Ok((context, copied))
        }));
        let (context, (gb_per_second, copying)) = match copied {
            Ok(copied) => copied,
            Err(problem) => return failed_run("copy within its memory", &problem),
        };
        let (products, multiplying) = self.products(seen, &context);
        let AtWork { clock_mhz, slowed_by } = copying.and(multiplying);
        Run { products, clock_mhz, slowed_by, ..Run::of(Copied::GbPerSecond(gb_per_second)) }
    }

    fn products(&self, seen: &Seen, context: &Arc<CudaContext>) -> (Products, AtWork) {
        if seen.sm.is_some_and(|sm| sm < FIRST_WITH_BF16) {
            let problem = "it has no units for them".to_owned();
            return (Products::NotRun { problem }, AtWork::default());
        }
        let measured = caught(|| products::measure(context, || self.meanwhile(&seen.uuid)));
        flat(measured).unwrap_or_else(|problem| (Products::Failed { problem }, AtWork::default()))
    }
}

/// GPUs whose server works, with the errors that the driver reports of them from now on.
pub struct AtServer<'a> {
    nvidia: &'a Nvidia,
    uuids: Vec<String>,
    events: Option<EventSet<'a>>,
}

impl Nvidia {
    /// Looks at the GPUs from now on.
    ///
    /// # Errors
    /// Why nothing can be said of them.
    pub fn at_server(&self) -> Result<AtServer<'_>, GpuRefusal> {
        let seen = self.look()?.gpus;
        let uuids = seen.iter().map(|seen| seen.uuid.clone()).collect();
        Ok(AtServer { nvidia: self, uuids, events: self.watched(&seen) })
    }
}

impl Working for AtServer<'_> {
    fn sample(&self) -> Vec<Sample> {
        let reported: Vec<(String, Option<u64>)> = self.events.iter().flat_map(reported).collect();
        let sample = |uuid: &String| {
            let xids = reported.iter().filter(|(of, _)| of == uuid).map(|(_, code)| *code).collect();
            let Ok(device) = self.nvidia.management.device_by_uuid(uuid.as_str()) else {
                return Sample { xids, ..Sample::default() };
            };
            Sample {
                slowed_by: device.current_throttle_reasons().map(slowdowns).unwrap_or_default(),
                xids,
                utilization_percent: device.utilization_rates().ok().map(|rates| rates.gpu),
                memory_used_mib: device.memory_info().ok().map(|memory| memory.used / MIB),
                milliwatts: device.power_usage().ok(),
                clock_mhz: device.clock_info(Clock::SM).ok(),
                max_clock_mhz: device.max_clock_info(Clock::SM).ok(),
            }
        };
        self.uuids.iter().map(sample).collect()
    }
}

/// What a GPU says of itself at work.
#[derive(Default)]
struct AtWork {
    clock_mhz: Option<u32>,
    slowed_by: Vec<Slowdown>,
}

impl AtWork {
    /// Of two works: the lower clock, and whatever slowed either down.
    fn and(mut self, other: Self) -> Self {
        let clocks = [self.clock_mhz, other.clock_mhz];
        self.clock_mhz = clocks.into_iter().flatten().min();
        for by in other.slowed_by {
            if !self.slowed_by.contains(&by) {
                self.slowed_by.push(by);
            }
        }
        self
    }
}

/// GB/s of the fastest round, and what the GPU said meanwhile.
fn copies(context: &Arc<CudaContext>, meanwhile: impl Fn() -> AtWork) -> Result<(u32, AtWork), DriverError> {
    let stream = context.default_stream();
    let from = stream.alloc_zeros::<u8>(COPY_BYTES)?;
    let mut into = stream.alloc_zeros::<u8>(COPY_BYTES)?;
    let mut round = |count: u32| {
        let copy = || (0..count).try_for_each(|_| stream.memcpy_dtod(&from, &mut into));
        timed(context, &stream, copy, &meanwhile)
    };
    let (warm_up, _) = round(4)?;
    let count = (ROUND_MILLIS / (warm_up / 4.0).max(0.001)).clamp(COPIES.0, COPIES.1) as u32;
    let (millis, at_work) = fastest(|| round(count))?;
    // Every byte is read once and written once.
    let gigabytes = 2.0 * COPY_BYTES as f64 * f64::from(count) / 1e9;
    Ok(((gigabytes / (f64::from(millis) / 1e3)) as u32, at_work))
}

/// The fastest of [`ROUNDS`]: its milliseconds, and what the GPU said meanwhile.
fn fastest(mut round: impl FnMut() -> Result<(f32, AtWork), DriverError>) -> Result<(f32, AtWork), DriverError> {
    let mut fastest = round()?;
    for _ in 1..ROUNDS {
        let ended = round()?;
        if ended.0 < fastest.0 {
            fastest = ended;
        }
    }
    Ok(fastest)
}

/// Milliseconds of some work. All of it is in the queue of the GPU while it is asked what it does.
fn timed<T>(
    context: &Arc<CudaContext>,
    stream: &Arc<CudaStream>,
    work: impl FnOnce() -> Result<(), DriverError>,
    meanwhile: impl Fn() -> T,
) -> Result<(f32, T), DriverError> {
    let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
    let (start, end) = (event()?, event()?);
    start.record(stream)?;
    work()?;
    end.record(stream)?;
    let said = meanwhile();
    Ok((start.elapsed_ms(&end)?, said))
}

/// The UUIDs of the GPUs that CUDA lists, in its order.
fn cuda_uuids() -> Result<Vec<String>, GpuRefusal> {
    let list = || -> Result<Vec<String>, DriverError> {
        let count = CudaContext::device_count()?;
        (0..count).map(|ordinal| device::get_uuid(device::get(ordinal)?).map(|uuid| text(&uuid))).collect()
    };
    match caught(list) {
        Ok(Ok(uuids)) => Ok(uuids),
        Ok(Err(error)) => Err(driver_failed("start CUDA", &error)),
        Err(panicked) => Err(no_library(CUDA, &panicked)),
    }
}

fn text(uuid: &CUuuid) -> String {
    let hex: String = uuid.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let group = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("GPU-{}-{}-{}-{}-{}", group(0, 8), group(8, 12), group(12, 16), group(16, 20), group(20, 32))
}

/// What a function returns, or the words of its panic.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it gives no reason");
        text.split(" - ").next().unwrap_or(text).to_owned()
    })
}

fn failed_run(step: &str, problem: &str) -> Run {
    Run::of(Copied::Failed { step: step.to_owned(), problem: problem.to_owned() })
}

/// Errors and panics alike, in words.
fn flat<T>(work: Result<Result<T, DriverError>, String>) -> Result<T, String> {
    work.and_then(|done| done.map_err(|error| error.to_string()))
}

fn seen(device: &Device<'_>) -> Result<Seen, NvmlError> {
    let memory =
        device.memory_info().map(|memory| Memory { free_mib: memory.free / MIB, total_mib: memory.total / MIB });
    let capability = device.cuda_compute_capability().ok();
    let sm = capability.and_then(|capability| u32::try_from(capability.major * 10 + capability.minor).ok());
    Ok(Seen {
        name: device.name()?,
        uuid: device.uuid()?,
        sm,
        memory: memory.map_err(|error| error.to_string()),
        // GPUs that cannot be cut say so by an error.
        is_mig: device.mig_mode().is_ok_and(|mode| mode.current == 1),
        uncorrected_errors: device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile).ok(),
        repair: repair(device),
        max_clock_mhz: device.max_clock_info(Clock::SM).ok(),
    })
}

/// Rows are replaced since Ampere, and pages retired before it.
fn repair(device: &Device<'_>) -> Repair {
    let fields = [NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_FAILURE].map(FieldId);
    let is_set = |sample: &SampleValue| match sample {
        SampleValue::U32(value) => *value != 0,
        SampleValue::U64(value) => *value != 0,
        SampleValue::I64(value) => *value != 0,
        SampleValue::F64(_) => false,
    };
    let values = device.field_values_for(&fields).unwrap_or_default();
    let said: Vec<bool> =
        values.iter().map(|value| value.as_ref().is_ok_and(|v| v.value.as_ref().is_ok_and(is_set))).collect();
    match said.as_slice() {
        [_, true] => Repair::Failed,
        [true, _] => Repair::Pending,
        _ if device.are_pages_pending_retired().unwrap_or(false) => Repair::Pending,
        _ => Repair::NotNeeded,
    }
}

fn slowdowns(reasons: ThrottleReasons) -> Vec<Slowdown> {
    let known = [
        (ThrottleReasons::SW_POWER_CAP, Slowdown::PowerCap),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, Slowdown::Heat),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, Slowdown::HardwareHeat),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, Slowdown::PowerBrake),
        (ThrottleReasons::HW_SLOWDOWN, Slowdown::Hardware),
    ];
    known.into_iter().filter(|(flag, _)| reasons.contains(*flag)).map(|(_, slowdown)| slowdown).collect()
}

/// The errors that a set of events holds: the GPU's UUID, and the number.
fn reported(events: &EventSet<'_>) -> Vec<(String, Option<u64>)> {
    let next = || {
        events.wait(0).ok().and_then(|event| {
            let code = match event.event_data {
                Some(XidError::Value(code)) => Some(code),
                Some(XidError::Unknown) | None => None,
            };
            Some((event.device.uuid().ok()?, code))
        })
    };
    std::iter::from_fn(next).take(MOST_XIDS).collect()
}

fn no_library(library: &str, problem: &str) -> GpuRefusal {
    GpuRefusal::NoLibrary { library: library.to_owned(), problem: problem.to_owned() }
}

/// One that the driver lists and cannot reach: it has fallen off its bus, or hangs.
fn undescribed(place: usize, error: &NvmlError) -> GpuRefusal {
    GpuRefusal::Unusable { gpu: number(place), step: "describe itself".to_owned(), problem: error.to_string() }
}

fn driver_failed(step: &str, error: &dyn std::error::Error) -> GpuRefusal {
    GpuRefusal::DriverFailed { step: step.to_owned(), problem: error.to_string() }
}
