//! Metrics with their labels and values, read from expositions that programs wrote.

use std::collections::{BTreeMap, BTreeSet};

use super::{exposition::exposition, read};

/// The agent runtime's whole exposition, as its own test compares it.
const RUNTIME: &str =
    "agent-runtime/tests/runtime/snapshots/runtime__admin__metrics_count_runs_calls_and_objectives.snap";
/// What a pod exports besides whose GPUs are watched, likewise.
const GPUS: &str = "agent-runtime/src/telemetry/snapshots/slipway_agent_runtime__telemetry__gpu_metrics__tests__\
    figures_are_those_of_the_last_finished_window_and_errors_those_of_all.snap";
/// Labels that Prometheus sets itself.
pub const OF_THE_TARGET: [&str; 5] = ["namespace", "pod", "container", "job", "instance"];

/// A series with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name, with the suffix of a histogram's part.
    pub name: String,
    /// Labels with values that are not empty: an empty one is an absent one.
    pub labels: BTreeMap<String, String>,
    /// The value.
    pub value: f64,
}

impl Series {
    fn of(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) =
            series.split_once('{').map_or((series, ""), |(name, rest)| (name, rest.trim_end_matches('}')));
        let pairs = labels.split("\",").filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once("=\"").unwrap();
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        });
        Self { name: name.to_owned(), labels: pairs.collect(), value: value.parse().unwrap() }
    }
}

fn series(text: &str) -> Vec<Series> {
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(Series::of).collect()
}

/// What the operator exports.
pub fn of_the_operator() -> Vec<Series> {
    series(&exposition())
}

/// What the agent runtime exports.
pub fn of_the_runtime() -> Vec<Series> {
    of_snapshot(RUNTIME)
}

/// What the agent runtime exports besides where a program beside the engine watches its GPUs.
pub fn of_the_gpus() -> Vec<Series> {
    of_snapshot(GPUS)
}

fn of_snapshot(file: &str) -> Vec<Series> {
    let snapshot = read(file);
    let (_, text) = snapshot.split_once("\n---\n").unwrap();
    series(text)
}

/// Labels of a metric, each with the values that were seen.
pub type Labels = BTreeMap<String, BTreeSet<String>>;

/// All series by name, with those labels that Prometheus sets.
pub fn all() -> BTreeMap<String, Labels> {
    let mut all = BTreeMap::<String, Labels>::new();
    for series in of_the_operator().into_iter().chain(of_the_runtime()).chain(of_the_gpus()) {
        let labels = all.entry(series.name).or_default();
        for label in OF_THE_TARGET {
            labels.entry(label.to_owned()).or_default();
        }
        for (label, value) in series.labels {
            labels.entry(label).or_default().insert(value);
        }
    }
    all
}
