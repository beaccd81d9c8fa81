//! Diagnosis of GPU traces: what the GPU did, why it was idle, and which manifest field would change that.
//!
//! Readers ([`nsys`], [`kineto`], [`spans`]) turn files into records. `sort` puts them into time order in bounded
//! memory, and `timeline` counts everything in one pass. [`diagnose`] names the bottleneck and the actions, and
//! [`report`] is what leaves the crate. A file of any size takes a bounded amount of memory (measured: 100 to 150 MB).
//! It takes temporary files of 41 bytes a record: about a tenth of a JSON trace's size, or as much as a SQLite export.

pub mod averages;
mod classify;
pub mod diagnose;
pub mod format;
mod intake;
pub mod kineto;
pub mod nsys;
mod record;
pub mod report;
mod sort;
pub mod spans;
mod timeline;
mod wire;

pub use self::{
    classify::{EnginePhase, KernelClass},
    intake::{Collected, Extent, Intake},
    sort::{SortError, SortOptions},
    timeline::{causes::Cause, phases::PhaseSource},
};

use self::{
    averages::Averages,
    diagnose::peaks,
    format::Format,
    report::Report,
    timeline::{Setup, Timeline},
};

/// How to analyse what was collected.
#[derive(Clone, Debug)]
pub struct Options {
    /// Format of the files, for the report.
    pub format: Format,
    /// Where phases of agent runs come from.
    pub phase_source: PhaseSource,
    /// Operators as torch averages them, in place of those of the trace.
    pub averages: Option<Averages>,
}

/// Analyses what the readers collected.
///
/// # Errors
/// When the records cannot be read back from the temporary files.
pub fn analyze(collected: Collected, options: Options) -> Result<Report, SortError> {
    let Collected { names, source, sorter, clock, extent, records } = collected;
    let extent = extent.unwrap_or(Extent { from: 0, to: 0 });
    let peaks: Vec<_> = source.devices.iter().map(|device| peaks::of(device.name.as_deref())).collect();
    let ridges = peaks.iter().map(|peak| peak.map(|peak| peak.ridge())).collect();
    let setup = Setup { extent, phase_source: options.phase_source, ridges };
    let mut timeline = Timeline::new(setup, source.devices.len());
    let mut sorted = sorter.finish()?;
    while let Some(record) = sorted.next_record()? {
        timeline.record(&record, &names);
    }
    timeline.finish();
    let capture =
        report::CaptureFacts { format: options.format, clock, extent, records, peaks, averages: options.averages };
    Ok(report::build(&timeline, &names, &source, &capture))
}
