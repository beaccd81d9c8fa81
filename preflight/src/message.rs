//! The report in the room that the kubelet gives a termination message. Pure.

use slipway_vocabulary::preflight::PreflightReport;

/// Writes a report in at most `limit` bytes. What was not measured is left out first, then GPUs from the last on, then
/// refusals; those left out are counted.
///
/// # Errors
/// When the report cannot be written as JSON; its types leave no such case.
pub fn encode(report: &PreflightReport, limit: usize) -> Result<String, serde_json::Error> {
    let mut report = report.clone();
    loop {
        let text = serde_json::to_string(&report)?;
        if text.len() <= limit || !shorten(&mut report) {
            return Ok(text);
        }
    }
}

/// Leaves one thing out; false if nothing is left that could be.
fn shorten(report: &mut PreflightReport) -> bool {
    if !report.not_measured.is_empty() {
        report.not_measured.clear();
        return true;
    }
    if report.gpus.pop().is_some() {
        report.omitted_gpus += 1;
        return true;
    }
    if report.refusals.len() > 1 {
        report.refusals.pop();
        report.omitted_refusals += 1;
        return true;
    }
    false
}
