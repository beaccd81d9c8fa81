//! `slipway-analysis regress`: a run against the baseline of its configuration. Reads files, writes the baselines.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use slipway_evaluation::{
    InputError,
    regress::{Regression, Rules, Run, THRESHOLD, compare},
};

use super::CliError;

/// Arguments of `regress`.
#[derive(Debug, Args)]
pub struct RegressArgs {
    /// JSON file of baselines by configuration name; made when absent, and added to when the configuration has none
    #[arg(long, value_name = "FILE.json")]
    baselines: PathBuf,
    /// JSON file of the run: {"timestamp","identity":{...},"metrics":{...},"records":[...]}, all optional
    #[arg(long, value_name = "FILE.json")]
    current: PathBuf,
    /// JSON lines of the run's records, one per iteration, instead of "records"
    #[arg(long, value_name = "FILE.jsonl")]
    records: Option<PathBuf>,
    /// Name of the configuration
    #[arg(long, value_name = "NAME")]
    configuration: String,
    /// Largest tolerated degradation, such as 10%
    #[arg(long, value_name = "PERCENT", default_value = "10%")]
    threshold: String,
    /// Records per window of the rolling p95
    #[arg(long, value_name = "N", default_value_t = 100)]
    rolling_window: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    configuration: &'a str,
    #[serde(flatten)]
    regression: &'a Regression,
    /// Whether the run was recorded as the baseline.
    recorded: bool,
}

pub(super) fn run(args: &RegressArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let rules = Rules { threshold: threshold(&args.threshold)?, rolling_window: args.rolling_window };
    let (current, mut baselines) = read(args).map_err(CliError::Input)?;
    let regression = compare(baselines.get(&args.configuration), &current, rules);
    let recorded = regression == Regression::NoBaseline;
    if recorded {
        baselines.insert(args.configuration.clone(), current);
        save(&args.baselines, &baselines)?;
    }
    let report = Report { configuration: &args.configuration, regression: &regression, recorded };
    serde_json::to_writer(&mut *out, &report).map_err(|e| CliError::Write(e.into()))?;
    out.write_all(b"\n").map_err(CliError::Write)
}

/// The run, and the baselines so far.
fn read(args: &RegressArgs) -> Result<(Run, BTreeMap<String, Run>), InputError> {
    let mut current = run_of(&args.current, read_json(&args.current)?)?;
    if let Some(path) = &args.records {
        current.records = records_of(path)?;
    }
    let baselines = if args.baselines.exists() { baselines_of(&args.baselines)? } else { BTreeMap::new() };
    Ok((current, baselines))
}

/// Replaces the file in one step, so that a reader never sees half of it.
fn save(path: &Path, baselines: &BTreeMap<String, Run>) -> Result<(), CliError> {
    let mut text = serde_json::to_vec_pretty(baselines).map_err(|e| CliError::Write(e.into()))?;
    text.push(b'\n');
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, path)).map_err(CliError::Write)
}

fn threshold(text: &str) -> Result<f64, CliError> {
    let percent = text.trim_end_matches('%').trim().parse().ok();
    percent.filter(|percent: &f64| (0.0..=1_000.0).contains(percent)).map(|percent| percent / 100.0).ok_or_else(|| {
        CliError::Argument {
            argument: format!("--threshold {text}"),
            problem: "not a percentage between 0% and 1000%".into(),
            remedy: format!("write {:.0}%, the default", THRESHOLD * 100.0),
        }
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, InputError> {
    let text = std::fs::read_to_string(path).map_err(|source| InputError::Read { path: path.into(), source })?;
    serde_json::from_str(&text).map_err(|source| InputError::Parse {
        path: path.into(),
        remedy: "it must be one JSON object",
        source: Box::new(source),
    })
}

fn baselines_of(path: &Path) -> Result<BTreeMap<String, Run>, InputError> {
    let values: BTreeMap<String, Value> = read_json(path)?;
    let parse = |(name, value)| {
        serde_json::from_value(value)
            .map(|run| (name, run))
            .map_err(|error| refuse(path, "a baseline", &error, "write it with regress itself"))
    };
    values.into_iter().map(|(name, value): (String, Value)| parse((name, value))).collect()
}

/// A run; metrics and identity are read field by field, so that an error names its field.
fn run_of(path: &Path, value: Value) -> Result<Run, InputError> {
    let Value::Object(mut object) = value else {
        return Err(refuse(path, "the file", &"not an object", "write {\"metrics\":{...}}"));
    };
    let mut records = Vec::new();
    if let Some(value) = object.remove("records") {
        let Value::Array(values) = value else {
            return Err(refuse(path, "records", &"not a list", "give one object per iteration"));
        };
        for (position, value) in values.into_iter().enumerate() {
            records.push(record_of(path, &format!("records[{position}]"), value)?);
        }
    }
    if let Some(Value::Object(metrics)) = object.get("metrics")
        && let Some((name, value)) = metrics.iter().find(|(_, value)| !value.is_number())
    {
        return Err(refuse(path, &format!("metrics.{name}"), &format!("{value} is not a number"), "give a number"));
    }
    let run: Run = serde_json::from_value(Value::Object(object))
        .map_err(|error| refuse(path, "the run", &error, "use timestamp, identity, metrics and records"))?;
    Ok(Run { records, ..run })
}

fn records_of(path: &Path) -> Result<Vec<BTreeMap<String, f64>>, InputError> {
    let text = std::fs::read_to_string(path).map_err(|source| InputError::Read { path: path.into(), source })?;
    let mut records = Vec::new();
    for (position, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {}", position + 1);
        let value = serde_json::from_str(line)
            .map_err(|error| refuse(path, &place, &error, "write one JSON object per line"))?;
        records.push(record_of(path, &place, value)?);
    }
    Ok(records)
}

/// The numbers of a record; a wrapper's ids and timestamps are not compared.
fn record_of(path: &Path, place: &str, value: Value) -> Result<BTreeMap<String, f64>, InputError> {
    let Value::Object(object) = value else {
        return Err(refuse(path, place, &"not an object", "write one JSON object per iteration"));
    };
    if let Some(latency) = object.get("total_ms").filter(|latency| !latency.is_number()) {
        return Err(refuse(
            path,
            &format!("{place}: total_ms"),
            &format!("{latency} is not a number"),
            "give milliseconds",
        ));
    }
    Ok(object.into_iter().filter_map(|(name, value)| value.as_f64().map(|number| (name, number))).collect())
}

fn refuse(path: &Path, place: &str, problem: &dyn std::fmt::Display, remedy: &str) -> InputError {
    InputError::Value { path: path.into(), place: place.into(), problem: problem.to_string(), remedy: remedy.into() }
}
