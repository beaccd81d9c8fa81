//! An AgentDeployment as people look at it. Pure.

use kube::ResourceExt;
use slipway_crds::v1alpha1::{
    AgentDeployment, AgentDeploymentStatus, Profile,
    agent_deployment::{DriftStatus, EngineChoice, LatencyMetric, MeasuredQuality, ObjectiveStatus, WrittenObjective},
};
use slipway_selection::cost::dollars;

use crate::{
    candidates::candidates,
    measured::Measurements,
    rollout,
    study::{Study, bounded, rate},
    table::{api_name, counted, duration, indented, table},
};

/// Stage, conditions, model, engines, candidates, choice and objectives.
pub fn overview(object: &AgentDeployment, profile: Option<&Profile>, measurements: &Measurements) -> String {
    let namespace = object.namespace().unwrap_or_default();
    let Some(status) = &object.status else {
        return format!("{} in {namespace}: the operator has not processed it yet\n", object.name_any());
    };
    let stage = status.stage.map_or("unknown".to_owned(), |stage| api_name(&stage));
    let mut text = format!("{} in {namespace}: {stage}", object.name_any());
    if let Some(ready) = &status.ready_replicas {
        let noun = if ready.as_str() == "1/1" { "replica" } else { "replicas" };
        text.push_str(&format!(", {ready} {noun} ready"));
    }
    text.push('\n');
    text.push_str(&outdated(object, status));
    text.push_str(&indented(&conditions(status)));
    let candidates = profile.map_or(String::new(), candidates);
    let nearest = profile.map_or(String::new(), infeasible);
    let parts = [
        model(status),
        engines(status),
        candidates,
        selected(status),
        nearest,
        rollout::rollout(object),
        objectives(object, measurements),
        status.drift.as_ref().map_or(String::new(), |found| drift(object, found)),
    ];
    for part in parts {
        if !part.is_empty() {
            text.push('\n');
            text.push_str(&part);
        }
    }
    text
}

/// A warning that the status describes an earlier spec.
fn outdated(object: &AgentDeployment, status: &AgentDeploymentStatus) -> String {
    if status.observed_generation == object.metadata.generation {
        String::new()
    } else {
        "  (the operator has not processed the latest change of the spec yet)\n".to_owned()
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

/// The checkpoint. With a server elsewhere, that of an earlier spec is left out.
fn model(status: &AgentDeploymentStatus) -> String {
    let is_elsewhere = status.selected.as_ref().is_some_and(|selected| selected.artifact.is_none());
    status.model.as_ref().filter(|_| !is_elsewhere).map_or(String::new(), |model| {
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
        let quality = choice.quality.as_ref().map_or("not required".to_owned(), quality);
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
        let most = counted(u64::try_from(selected.max_in_flight).unwrap_or(0), "run");
        let cost = selected.cost.as_ref().map_or(String::new(), |cost| {
            let hour = dollars(cost.microdollars_per_replica_hour);
            format!("  predicted to cost {}; a replica costs {hour} an hour\n", cost.text)
        });
        format!(
            "Selected: {}, at most {most} in flight on a replica\n  {}\n{cost}",
            selected.display_name, selected.why
        )
    })
}

/// What serves against its first day.
fn drift(object: &AgentDeployment, drift: &DriftStatus) -> String {
    let DriftStatus {
        verdict, since, message, baseline_from, baseline_until, restarted, left_out, unknown, risk, ..
    } = drift;
    let paused = if drift.paused { "; nothing is counted while a canary has a weight" } else { "" };
    let mut text = format!("Drift: {} since {}{paused}\n  {message}\n", api_name(verdict), since.0);
    let until = baseline_until.as_ref().map_or("still collecting".to_owned(), |until| format!("until {}", until.0));
    text.push_str(&format!("  baseline: from {}, {until}\n", baseline_from.0));
    let mut line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("  {name}: {value}\n"));
        }
    };
    line("restarted", restarted.as_deref());
    line("left out", left_out.as_deref());
    line("at risk", risk.as_ref().map(|risk| risk.message.as_str()));
    let left = risk.as_ref().and_then(|risk| risk.blocks_left);
    let cause = left.map(|left| format!("{left} more blocks with traffic show whether tools are slower"));
    line("cause", cause.as_deref());
    let again = drift.proposal.as_ref().map(|proposal| {
        let approve = rollout::approve(object);
        format!("run {approve}, or set spec.profiling.approveReprofiling to {proposal} in the manifest")
    });
    line("to measure again", again.as_deref());
    let unknown = unknown.join(", ");
    line("not reported by the pods", Some(unknown.as_str()).filter(|names| !names.is_empty()));
    text
}

/// Where nothing meets the objectives: what binds, the nearest point, and what it would take.
fn infeasible(profile: &Profile) -> String {
    let Some(study) = Study::of(profile) else { return String::new() };
    let Some(infeasible) = &study.status().infeasible else { return String::new() };
    let nearest = infeasible.nearest.and_then(|at| study.at(at)).map_or(String::new(), |(_, row)| {
        let latency = study.latency(row).map_or(String::new(), |latency| {
            format!(", {} {} {}", latency.metric.as_str(), latency.percentile, bounded(latency))
        });
        format!(
            "  nearest: {}, {} {}/s{latency}\n",
            study.place(row),
            rate(row.per_kilosecond),
            study.unit(row.purpose)
        )
    });
    let (binding, takes) = (&infeasible.binding_objective, &infeasible.what_it_would_take);
    format!("Nothing meets the objectives: {binding} binds\n{nearest}  {takes}\n")
}

/// One line an objective: what `.status.slo` says, and what the serving pods say at this moment.
pub fn objectives(object: &AgentDeployment, measurements: &Measurements) -> String {
    let known = object.status.as_ref().map_or(&[][..], |status| &status.slo);
    if known.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = known.iter().map(|entry| objective_row(object, entry, measurements)).collect();
    let mut header = vec!["OBJECTIVE", "BOUNDS", "TARGET", "PREDICTED", "OBSERVED", "MET", "NOW"];
    let budget = known.iter().find_map(|entry| entry.budget.as_ref());
    if budget.is_some() {
        header.push("BUDGET LEFT");
    }
    let budget = budget.map_or(String::new(), |budget| {
        format!("  BUDGET LEFT covers the runs of {}, as Prometheus counted them\n", budget.window)
    });
    let window = known.iter().find_map(|entry| entry.window.as_ref());
    let window = window.map_or(String::new(), |window| {
        format!("  OBSERVED spans {window} (.status.slo); it has two digits and may be some minutes old\n")
    });
    let runs = counted(measurements.count(LatencyMetric::AgentRunLatency), "run");
    let now = format!(
        "  NOW is read from the pods at this moment: {runs} of the last hour; a latency is at most its bucket's upper edge\n"
    );
    format!("Objectives:\n{}{window}{now}{budget}", indented(&table(&header, &rows)))
}

fn objective_row(object: &AgentDeployment, entry: &ObjectiveStatus, measurements: &Measurements) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let met = entry.met.map_or("-", |met| if met { "yes" } else { "no" });
    let latency = object.spec.slo.objectives.iter().find(|objective| objective.name == entry.name);
    let now = latency.map_or("-".to_owned(), |objective| at_most(objective, measurements));
    let mut row = vec![
        entry.name.clone(),
        entry.objective.clone(),
        entry.target.clone(),
        or_dash(&entry.predicted),
        with_gap(entry),
        met.to_owned(),
        now,
    ];
    // The last column: where nobody knows of budgets, there is none.
    row.push(entry.budget.as_ref().map_or("-".to_owned(), |budget| budget.left.clone()));
    row
}

/// What is observed, with how far that is from the prediction.
fn with_gap(entry: &ObjectiveStatus) -> String {
    let observed = entry.observed.clone().unwrap_or_else(|| "-".to_owned());
    entry.prediction_error.as_ref().map_or(observed.clone(), |gap| format!("{observed} ({gap})"))
}

/// A bucket's upper edge: what is said is never better than what was.
fn at_most(objective: &WrittenObjective, measurements: &Measurements) -> String {
    match measurements.percentile(objective.metric, objective.percentile) {
        Some(measured) => format!("≤ {}", duration(measured.upper_microseconds)),
        None if measurements.count(objective.metric) > 0 => "beyond what succeeded".to_owned(),
        None => "-".to_owned(),
    }
}
