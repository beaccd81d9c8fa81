//! An AgentDeployment as people look at it. Pure.

use kube::ResourceExt;
use slipway_crds::v1alpha1::{
    AgentDeployment, AgentDeploymentStatus,
    agent_deployment::{EngineChoice, LatencyObjective, MeasuredQuality},
};

use crate::{
    measured::Measurements,
    table::{duration, indented, table},
};

/// Stage, conditions, model, engines, choice and objectives.
pub fn overview(object: &AgentDeployment, measurements: &Measurements) -> String {
    let namespace = object.namespace().unwrap_or_default();
    let Some(status) = &object.status else {
        return format!("{} in {namespace}: the operator has not seen it yet\n", object.name_any());
    };
    let stage = status.stage.map_or("unknown".to_owned(), |stage| format!("{stage:?}"));
    let mut text = format!("{} in {namespace}: {stage}", object.name_any());
    if let Some(ready) = &status.ready_replicas {
        text.push_str(&format!(", {ready} replicas ready"));
    }
    text.push('\n');
    text.push_str(&outdated(object, status));
    text.push_str(&indented(&conditions(status)));
    for part in [model(status), engines(status), selected(status), objectives(object, measurements)] {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    text
}

/// A warning that the status speaks of an earlier spec.
fn outdated(object: &AgentDeployment, status: &AgentDeploymentStatus) -> String {
    if status.observed_generation == object.metadata.generation {
        String::new()
    } else {
        "  (the operator has yet to see the latest change of the spec)\n".to_owned()
    }
}

fn conditions(status: &AgentDeploymentStatus) -> String {
    let rows: Vec<_> = status
        .conditions
        .iter()
        .map(|c| vec![c.type_.clone(), c.status.clone(), c.reason.clone(), c.message.clone()])
        .collect();
    table(&["CONDITION", "STATUS", "REASON", "MESSAGE"], &rows)
}

fn model(status: &AgentDeploymentStatus) -> String {
    status.model.as_ref().map_or(String::new(), |model| {
        let megabytes = model.size_bytes as f64 / 1e6;
        let fetched = if model.fetched { "in the store" } else { "not fetched yet" };
        format!("Model: {}, {megabytes:.1} MB, {fetched}\n", model.pinned_uri)
    })
}

fn engines(status: &AgentDeploymentStatus) -> String {
    if status.engines.is_empty() {
        return String::new();
    }
    let row = |choice: &EngineChoice| {
        let quality = choice.quality.as_ref().map_or("not asked for".to_owned(), quality);
        vec![choice.display_name.clone(), choice.name.clone(), choice.state.clone(), quality]
    };
    let rows: Vec<_> = status.engines.iter().map(row).collect();
    format!("Engines:\n{}", indented(&table(&["ENGINE", "OBJECT", "STATE", "QUALITY"], &rows)))
}

/// A score, what it lost against the reference, and what the gate says.
pub fn quality(quality: &MeasuredQuality) -> String {
    let percent = |parts: i32| f64::from(parts) / 10_000.0;
    let score = format!("{:.1} % of {}", percent(quality.score_parts_per_million), quality.samples);
    let drop = match (quality.drop_parts_per_million, quality.drop_upper_bound_parts_per_million) {
        (Some(drop), Some(bound)) => format!(", drop {:.1} % (at most {:.1} %)", percent(drop), percent(bound)),
        _ => ", reference".to_owned(),
    };
    let verdict = if quality.accepted { "" } else { ", refused" };
    format!("{score}{drop}{verdict}")
}

fn selected(status: &AgentDeploymentStatus) -> String {
    status.selected.as_ref().map_or(String::new(), |selected| {
        format!(
            "Selected: {}, at most {} runs in flight on a replica\n  {}\n",
            selected.display_name, selected.max_in_flight, selected.why
        )
    })
}

/// One line an objective: its target, and what the serving pods counted.
pub fn objectives(object: &AgentDeployment, measurements: &Measurements) -> String {
    let objectives = &object.spec.slo.objectives;
    if objectives.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = objectives.iter().map(|objective| objective_row(objective, measurements)).collect();
    let header = ["OBJECTIVE", "METRIC", "TARGET", "MEASURED", "COUNT", "MET"];
    format!("Objectives:\n{}", indented(&table(&header, &rows)))
}

fn objective_row(objective: &LatencyObjective, measurements: &Measurements) -> Vec<String> {
    let metric = format!("{} {}", objective.metric.as_str(), objective.percentile);
    let target = duration(objective.max.microseconds());
    let measured = measurements.percentile(objective.metric, objective.percentile);
    let (value, count, met) = match measured {
        Some(measured) => {
            // An objective is met by a bucket's upper edge: what is said is never better than what was.
            let met = if measured.upper_microseconds <= objective.max.microseconds() { "yes" } else { "no" };
            (format!("<= {}", duration(measured.upper_microseconds)), measured.count.to_string(), met)
        }
        None if measurements.count(objective.metric) > 0 => {
            let count = measurements.count(objective.metric);
            ("beyond what succeeded".to_owned(), count.to_string(), "no")
        }
        None => ("no traffic yet".to_owned(), "-".to_owned(), "-"),
    };
    vec![objective.name.clone(), metric, format!("<= {target}"), value, count, met.to_owned()]
}
