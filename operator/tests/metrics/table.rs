//! docs/metrics.md lists every metric with its labels, and no other.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;

use super::{
    exported::{Series, of_the_gpus, of_the_operator, of_the_runtime},
    read,
};

/// `name{a, b}` of every metric; a histogram is one.
fn metrics(series: Vec<Series>) -> BTreeSet<String> {
    let names: BTreeSet<String> = series.iter().map(|series| series.name.clone()).collect();
    let mut metrics = BTreeMap::<String, BTreeSet<String>>::new();
    for Series { name, labels, .. } in series {
        let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| name.strip_suffix(part));
        let histogram = parts.into_iter().find(|base| names.contains(&format!("{base}_bucket")));
        let entry = metrics.entry(histogram.unwrap_or(&name).to_owned()).or_default();
        entry.extend(labels.into_keys().filter(|label| label != "le"));
    }
    let shown = metrics.into_iter().map(|(name, labels)| {
        let labels: Vec<_> = labels.into_iter().collect();
        if labels.is_empty() { name } else { format!("{name}{{{}}}", labels.join(", ")) }
    });
    shown.collect()
}

/// The first cells of the table below a heading.
fn documented(heading: &str) -> BTreeSet<String> {
    let text = read("docs/metrics.md");
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    cells.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn the_table_has_every_metric_of_the_operator_with_its_labels() {
    assert_eq!(documented("Operator"), metrics(of_the_operator()));
}

#[test]
fn the_table_has_every_metric_of_the_agent_runtime_with_its_labels() {
    assert_eq!(documented("Agents"), metrics(of_the_runtime()));
}

#[test]
fn the_table_has_every_metric_of_watched_gpus_with_its_labels() {
    assert_eq!(documented("GPUs of an agent"), metrics(of_the_gpus()));
}
