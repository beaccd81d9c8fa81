//! What GPUs do while a server uses them, counted into the windows of the evidence. Pure: the time is an argument.

use std::collections::VecDeque;

use slipway_vocabulary::{
    evidence::{RING_WINDOWS, window_id},
    preflight::Slowdown,
    telemetry::{GpuWindow, MOST_XIDS, Telemetry, TelemetryWindow},
};

use crate::judge;

/// The GPUs of a container whose server works.
pub trait Working {
    /// What each says of itself now, in a fixed order. One that says nothing has an empty sample.
    fn sample(&self) -> Vec<Sample>;
}

/// What a GPU says of itself at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// What slows it down.
    pub slowed_by: Vec<Slowdown>,
    /// Errors that the driver reported since the sample before, each with its number where it has one.
    pub xids: Vec<Option<u64>>,
    /// Share of the time lately in which it had work, percent.
    pub utilization_percent: Option<u32>,
    /// Memory in use, MiB.
    pub memory_used_mib: Option<u64>,
    /// Its power, milliwatts.
    pub milliwatts: Option<u32>,
    /// Clock of its multiprocessors, MHz.
    pub clock_mhz: Option<u32>,
    /// The highest that it can have, MHz.
    pub max_clock_mhz: Option<u32>,
}

/// Counts samples into windows.
///
/// # Invariants
/// Windows close in order and each once; a closed window never changes.
#[derive(Debug, Default)]
pub struct Watch {
    open: Option<(u64, Vec<Counts>)>,
    closed: VecDeque<TelemetryWindow>,
}

#[derive(Debug, Clone, Default)]
struct Counts {
    samples: u32,
    slowed: Vec<(Slowdown, u32)>,
    xids: Vec<u64>,
    utilization: Mean,
    memory_used_mib: Option<u64>,
    milliwatts: Mean,
    clock_mhz: Mean,
    max_clock_mhz: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: u64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: Option<u32>) {
        if let Some(value) = value {
            self.sum += u64::from(value);
            self.count += 1;
        }
    }

    fn rounded(self) -> Option<u32> {
        (self.count > 0).then(|| u32::try_from((self.sum + self.count / 2) / self.count).unwrap_or(u32::MAX))
    }
}

impl Watch {
    /// Counts what the GPUs said at a second since the Unix epoch.
    pub fn count(&mut self, unix_seconds: u64, samples: &[Sample]) {
        self.close_until(unix_seconds);
        let (_, counts) = self.open.get_or_insert_with(|| (window_id(unix_seconds), Vec::new()));
        counts.resize_with(counts.len().max(samples.len()), Counts::default);
        counts.iter_mut().zip(samples).for_each(|(counts, sample)| counts.add(sample));
    }

    /// The windows with a greater id than `after`, or all that are kept. The last is the open one as it stands: an
    /// error may end the server, and this program with it.
    pub fn told(&mut self, unix_seconds: u64, after: Option<u64>) -> Telemetry {
        self.close_until(unix_seconds);
        let is_new = |window: &TelemetryWindow| after.is_none_or(|after| window.id > after);
        let open = self.open.as_ref().map(|(id, counts)| closed(*id, counts.clone()));
        Telemetry { windows: self.closed.iter().cloned().chain(open).filter(is_new).collect() }
    }

    /// A clock that was set back adds to the open window.
    fn close_until(&mut self, unix_seconds: u64) {
        let Some((id, counts)) = self.open.take_if(|(id, _)| *id < window_id(unix_seconds)) else { return };
        if self.closed.len() == RING_WINDOWS {
            self.closed.pop_front();
        }
        self.closed.push_back(closed(id, counts));
    }
}

fn closed(id: u64, counts: Vec<Counts>) -> TelemetryWindow {
    let gpus = counts.into_iter().enumerate();
    TelemetryWindow { id, gpus: gpus.map(|(place, counts)| counts.window(judge::number(place))).collect() }
}

impl Counts {
    fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        for by in &sample.slowed_by {
            match self.slowed.iter_mut().find(|(known, _)| known == by) {
                Some((_, samples)) => *samples += 1,
                None => self.slowed.push((*by, 1)),
            }
        }
        let room = MOST_XIDS.saturating_sub(self.xids.len());
        self.xids.extend(sample.xids.iter().map(|code| code.unwrap_or(0)).take(room));
        self.utilization.add(sample.utilization_percent);
        self.memory_used_mib = self.memory_used_mib.max(sample.memory_used_mib);
        self.milliwatts.add(sample.milliwatts);
        self.clock_mhz.add(sample.clock_mhz);
        self.max_clock_mhz = self.max_clock_mhz.max(sample.max_clock_mhz);
    }

    fn window(self, gpu: u32) -> GpuWindow {
        GpuWindow {
            gpu,
            samples: self.samples,
            slowed: self.slowed,
            xids: self.xids,
            utilization_percent: self.utilization.rounded(),
            memory_used_mib: self.memory_used_mib,
            power_watts: self.milliwatts.rounded().map(|milliwatts| (milliwatts + 500) / 1_000),
            clock_mhz: self.clock_mhz.rounded(),
            max_clock_mhz: self.max_clock_mhz,
        }
    }
}
