//! Diagnosis of GPU traces: what the GPU did, why it was idle, and which manifest field would change that.
//!
//! Readers ([`nsys`], [`kineto`], [`spans`]) turn files into records, [`sort`] puts them into time order in bounded memory,
//! [`timeline`] counts everything in one pass, [`diagnose`] names the bottleneck and the actions, [`report`] is what leaves
//! the crate. A file of any size takes a constant amount of memory and a temporary file of about a fifth of its size.

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
    diagnose::peaks,
    format::Format,
    report::Report,
    timeline::{Setup, Timeline},
};

/// Analyses what the readers collected.
///
/// # Errors
/// When the records cannot be read back from the temporary files.
pub fn analyze(collected: Collected, format: Format, phase_source: PhaseSource) -> Result<Report, SortError> {
    let Collected { names, source, sorter, clock, extent, records } = collected;
    let extent = extent.unwrap_or(Extent { from: 0, to: 0 });
    let peaks: Vec<_> = source.devices.iter().map(|device| peaks::of(device.name.as_deref())).collect();
    let setup =
        Setup { extent, phase_source, ridges: peaks.iter().map(|peak| peak.map(|peak| peak.ridge())).collect() };
    let mut timeline = Timeline::new(setup, source.devices.len());
    let mut sorted = sorter.finish()?;
    while let Some(record) = sorted.next_record()? {
        timeline.record(&record, &names);
    }
    timeline.finish();
    let capture = report::CaptureFacts { format, clock, extent, records, peaks };
    Ok(report::build(&timeline, &names, &source, &capture))
}
