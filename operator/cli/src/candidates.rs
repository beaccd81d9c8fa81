//! The candidates of a campaign as a table, and what it decided. Pure.

use slipway_crds::v1alpha1::{
    Profile,
    profile::{Measurement, MeasurementPurpose},
};

use crate::{
    study::{Extras, Study, bounded, rate, time, verdict},
    table::{counted, indented, table},
};

/// Every measurement with its result, what was not measured, and the decision.
pub fn candidates(profile: &Profile) -> String {
    let Some(study) = Study::of(profile) else { return String::new() };
    if study.status().measurements.is_empty() {
        return format!("Candidates: {}\n", study.status().message);
    }
    let mut text = format!("Candidates ({}):\n", profile.metadata.name.as_deref().unwrap_or_default());
    text.push_str(&indented(&explored(&study)));
    let further = [(MeasurementPurpose::Repeat, "measured again:"), (MeasurementPurpose::Confirm, "confirm run of")];
    for (purpose, word) in further {
        for (position, row) in study.rows().filter(|(_, row)| row.purpose == purpose) {
            text.push_str(&format!("  {word} {}: {}\n", study.place(row), measured(&study, row)));
            text.push_str(&format!("    {}\n", study.remark(position, row)));
        }
    }
    for skipped in &study.status().not_measured {
        let configuration = skipped.configuration.as_deref().unwrap_or("every configuration");
        text.push_str(&format!(
            "  not measured: {}/{configuration}: {}\n",
            study.engine(&skipped.engine),
            skipped.reason
        ));
    }
    text
}

fn explored(study: &Study<'_>) -> String {
    let latency = study.judged().map_or("LATENCY".to_owned(), |o| format!("{} {}", o.metric.as_str(), o.percentile));
    let throughput = format!("{}/S", study.unit(MeasurementPurpose::Explore).to_uppercase());
    let mut header = vec!["#", "ENGINE", "CONFIGURATION", "IN FLIGHT", &throughput, &latency];
    let extras = Extras::of(study);
    header.extend(extras.titles());
    header.extend(["OBJECTIVES", "REMARK"]);
    let rows = study.rows().filter(|(_, row)| row.purpose == MeasurementPurpose::Explore).map(|(position, row)| {
        let mut cells = vec![
            (position + 1).to_string(),
            study.engine(&row.engine).to_owned(),
            row.configuration.clone(),
            row.level.to_string(),
            rate(row.per_kilosecond),
            study.latency(row).map_or("-".to_owned(), |latency| time(latency.microseconds)),
        ];
        cells.extend(extras.cells(row, "-"));
        cells.extend([verdict(row.verdict).to_owned(), study.remark(position, row)]);
        cells
    });
    table(&header, &rows.collect::<Vec<_>>())
}

/// `62 runs, 2.01 a second, AgentRunLatency p95 812ms (760ms to 901ms)`.
fn measured(study: &Study<'_>, row: &Measurement) -> String {
    let latencies = study.inputs().objectives.iter().filter_map(|objective| {
        let found =
            row.latencies.iter().find(|l| l.metric == objective.metric && l.percentile == objective.percentile)?;
        Some(format!(", {} {} {}", objective.metric.as_str(), objective.percentile, bounded(found)))
    });
    let thing = study.unit(row.purpose).trim_end_matches('s');
    let count = counted(u64::try_from(row.count).unwrap_or(0), thing);
    format!("{count}, {} a second{}", rate(row.per_kilosecond), latencies.collect::<String>())
}

/// One line for a measurement that has just finished.
pub fn news(study: &Study<'_>, row: &Measurement) -> String {
    let latency = match study.latency(row) {
        Some(latency) => format!(", {} {}", latency.percentile, time(latency.microseconds)),
        None => String::new(),
    };
    let reason = if row.reason.is_empty() { String::new() } else { format!(" ({})", row.reason) };
    format!(
        "{}: {} {}/s{latency}, {}{reason}",
        study.place(row),
        rate(row.per_kilosecond),
        study.unit(row.purpose),
        verdict(row.verdict)
    )
}
