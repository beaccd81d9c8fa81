//! Rows of the worker as measurements of the status, and back. Pure.

use slipway_crds::v1alpha1::{
    ProfileStatus,
    profile::{
        DEFINITIONS, ExpectedLevel, MeasuredGpu, MeasuredLatency, Measurement, MeasurementPurpose, MeasurementVerdict,
        NotMeasured, ProfiledEngine,
    },
};
pub use slipway_selection::natural;
use slipway_worker_contract::{self as contract, Expected, Gpu, Latency, Phase, Progress, Row};

use super::{
    parts::Found,
    scope::{CONFIRM, EXPLORE, JOB_PREFIX, REPEAT, Subject},
    status::cut,
};
use crate::jobs::attempts::job_name;

/// What rows of the worker, and what it did not measure, add to a status.
pub fn found(subject: Subject<'_>, rows: &[Row], not_measured: &[contract::NotMeasured]) -> Found {
    Found {
        measurements: rows.iter().map(|row| measurement(subject, row)).collect(),
        not_measured: not_measured.iter().map(|entry| skipped(subject.engine, entry)).collect(),
        ..Found::default()
    }
}

fn skipped(engine: &str, entry: &contract::NotMeasured) -> NotMeasured {
    let levels = match entry.levels {
        Some((low, high)) if low == high => format!("{low} in flight: "),
        Some((low, high)) => format!("{low} to {high} in flight: "),
        None => String::new(),
    };
    NotMeasured {
        engine: engine.to_owned(),
        configuration: Some(entry.arm.clone()),
        from_level: entry.levels.map(|(low, _)| signed(low)),
        to_level: entry.levels.map(|(_, high)| signed(high)),
        reason: cut(&format!("{levels}{}", entry.reason), 256),
    }
}

/// Whether a Job has nothing more to tell, and everything that it told is in the status.
pub fn is_recorded(status: &ProfileStatus, of: JobPurpose, progress: &Progress) -> bool {
    let has_ended = match progress.phase {
        Phase::Finished { .. } | Phase::Failed { .. } => true,
        Phase::Loading { .. } | Phase::Measuring { .. } => false,
    };
    let JobPurpose { purpose, round } = of;
    let subject = Subject { engine: &progress.engine.identity, purpose, round };
    has_ended && progress.rows.iter().all(|row| holds(status, subject, row))
}

/// What a Job measures for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobPurpose {
    /// What its rows are for.
    pub purpose: MeasurementPurpose,
    /// The round of points that are measured again.
    pub round: Option<i32>,
}

/// What a Job of this name measures for, if the status knows it.
pub fn purpose(status: &ProfileStatus, job: &str) -> Option<JobPurpose> {
    let known = status
        .jobs
        .iter()
        .find(|known| job_name(&format!("{JOB_PREFIX}{}", known.input_hash), known.attempt) == job)?;
    let once = |purpose| Some(JobPurpose { purpose, round: None });
    match known.kind.as_str() {
        EXPLORE => once(MeasurementPurpose::Explore),
        CONFIRM => once(MeasurementPurpose::Confirm),
        kind => {
            let round = kind.strip_prefix(REPEAT)?.parse().ok()?;
            Some(JobPurpose { purpose: MeasurementPurpose::Repeat, round: Some(round) })
        }
    }
}

/// The rows of an engine that the status holds for a purpose, as the worker knows them.
pub fn recorded(status: &ProfileStatus, subject: Subject<'_>) -> Vec<Row> {
    status.measurements.iter().filter(|m| is_of(subject, m)).map(row).collect()
}

/// What is expected of an engine, as the worker knows it.
pub fn expected(engine: &ProfiledEngine) -> Vec<Expected> {
    let of = |of: &ExpectedLevel| Expected {
        level: unsigned(of.level),
        per_kilosecond: natural(of.per_kilosecond),
        request_micros: natural(of.request_microseconds),
        first_token_micros: natural(of.first_token_microseconds),
        inter_token_micros: natural(of.inter_token_microseconds),
    };
    engine.expected.iter().map(of).collect()
}

fn holds(status: &ProfileStatus, subject: Subject<'_>, row: &Row) -> bool {
    let is_it = |m: &&Measurement| m.configuration == row.arm && m.level == signed(row.level);
    status.measurements.iter().filter(is_it).any(|m| is_of(subject, m))
}

fn is_of(subject: Subject<'_>, m: &Measurement) -> bool {
    m.engine == subject.engine && (m.purpose, m.round) == (subject.purpose, subject.round)
}

fn measurement(subject: Subject<'_>, row: &Row) -> Measurement {
    Measurement {
        engine: subject.engine.to_owned(),
        configuration: row.arm.clone(),
        level: signed(row.level),
        purpose: subject.purpose,
        round: subject.round,
        verdict: row.verdict,
        count: signed(row.count),
        errors: signed(row.errors),
        milliseconds: long(row.millis),
        per_kilosecond: long(row.per_kilosecond),
        per_kilosecond_error: row.per_kilosecond_error.map(long),
        latencies: row.latencies.iter().take(16).map(measured_latency).collect(),
        output_tokens: row.output_tokens.map(long),
        gpu: row.gpu.as_ref().and_then(measured_gpu),
        cost: None,
        gpu_milliseconds: long(row.gpu_millis),
        records: row.records.as_ref().map(ToString::to_string),
        measured_in: None,
        reason: cut(&row.reason, 512),
        definitions: DEFINITIONS,
    }
}

/// The row of a point that has none: words in place of figures.
pub fn failed(subject: Subject<'_>, (configuration, level): (&str, i32), words: &str) -> Measurement {
    Measurement {
        engine: subject.engine.to_owned(),
        configuration: configuration.to_owned(),
        level,
        purpose: subject.purpose,
        round: subject.round,
        verdict: MeasurementVerdict::Failed,
        count: 0,
        errors: 0,
        milliseconds: 0,
        per_kilosecond: 0,
        per_kilosecond_error: None,
        latencies: Vec::new(),
        output_tokens: None,
        gpu: None,
        cost: None,
        gpu_milliseconds: 0,
        records: None,
        measured_in: None,
        reason: cut(words, 512),
        definitions: DEFINITIONS,
    }
}

/// A row of the status as the worker reported it.
pub fn row(measurement: &Measurement) -> Row {
    Row {
        arm: measurement.configuration.clone(),
        level: unsigned(measurement.level),
        verdict: measurement.verdict,
        count: unsigned(measurement.count),
        errors: unsigned(measurement.errors),
        millis: natural(measurement.milliseconds),
        per_kilosecond: natural(measurement.per_kilosecond),
        per_kilosecond_error: measurement.per_kilosecond_error.map(natural),
        latencies: measurement.latencies.iter().map(latency).collect(),
        output_tokens: measurement.output_tokens.map(natural),
        gpu: measurement.gpu.as_ref().map(gpu),
        gpu_millis: natural(measurement.gpu_milliseconds),
        model_analyzer: None,
        records: measurement.records.as_deref().and_then(|digest| digest.parse().ok()),
        arrivals_per_kilosecond: None,
        reason: String::new(),
    }
}

/// A zero is what workers of earlier versions had in place of a figure that is not known.
fn measured_gpu(gpu: &Gpu) -> Option<MeasuredGpu> {
    let Gpu { memory_mib, utilization_percent, power_watts } = *gpu;
    let measured = MeasuredGpu {
        utilization_percent: utilization_percent.map(i32::from).filter(|percent| *percent > 0),
        power_watts: power_watts.map(signed).filter(|watts| *watts > 0),
        memory_mebibytes: memory_mib.map(signed).filter(|mebibytes| *mebibytes > 0),
    };
    let MeasuredGpu { utilization_percent, power_watts, memory_mebibytes } = measured;
    let is_known = utilization_percent.or(power_watts).or(memory_mebibytes).is_some();
    is_known.then_some(measured)
}

fn gpu(measured: &MeasuredGpu) -> Gpu {
    let MeasuredGpu { utilization_percent, power_watts, memory_mebibytes } = *measured;
    Gpu {
        memory_mib: memory_mebibytes.map(unsigned),
        utilization_percent: utilization_percent.map(|percent| u8::try_from(percent).unwrap_or(u8::MAX)),
        power_watts: power_watts.map(unsigned),
    }
}

fn measured_latency(latency: &Latency) -> MeasuredLatency {
    MeasuredLatency {
        metric: latency.metric,
        percentile: latency.percentile,
        microseconds: long(latency.micros),
        lower: long(latency.lower_micros),
        upper: latency.upper_micros.map(long),
    }
}

fn latency(measured: &MeasuredLatency) -> Latency {
    Latency {
        metric: measured.metric,
        percentile: measured.percentile,
        micros: natural(measured.microseconds),
        lower_micros: natural(measured.lower),
        upper_micros: measured.upper.map(natural),
    }
}

/// Integers of the API are signed, those of the worker are not; both stay far from the bounds.
pub fn unsigned(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn signed(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
