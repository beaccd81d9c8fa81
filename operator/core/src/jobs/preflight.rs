//! The container that checks a pod's GPUs, and what its termination message says. Pure.

use slipway_vocabulary::preflight::{PreflightReport, REPORT_FORMAT_VERSION};

/// Name of the container.
pub const CONTAINER: &str = "preflight";

/// Why it refuses the GPUs, in words; absent of any other message.
pub fn refused(message: &str) -> Option<String> {
    let report: PreflightReport = serde_json::from_str(message).ok()?;
    report.refused().filter(|_| report.format_version == REPORT_FORMAT_VERSION)
}
