//! Why this configuration serves, and why no other does, as far as status and campaign know it. Pure.

use kube::ResourceExt;
use slipway_crds::v1alpha1::{
    AgentDeployment, AgentDeploymentStatus, Profile,
    agent_deployment::{EngineChoice, MeasuredQuality, OptimizeFor, RejectedPlan, WrittenObjective},
    profile::{MeasuredCost, Measurement, MeasurementPurpose, MeasurementVerdict},
};
use slipway_selection::cost::dollars;
use thiserror::Error;

use crate::{
    study::{Assessment, Study, bounded, rate, time},
    table::counted,
};

/// Nothing of this name was considered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no candidate {asked}: name an engine, or ENGINE/CONFIGURATION, of {}", known.join(", "))]
pub struct UnknownCandidate {
    /// What was asked for.
    asked: String,
    /// What there is.
    known: Vec<String>,
}

/// Explains the choice, and for each candidate that was not chosen, or those that are asked for, why it was not.
///
/// # Errors
/// [`UnknownCandidate`] if nothing of the asked name was considered.
pub fn explain(
    object: &AgentDeployment,
    profile: Option<&Profile>,
    asked: Option<&str>,
) -> Result<String, UnknownCandidate> {
    let Some(status) = &object.status else {
        return Ok(format!("{}: the operator has not processed it yet\n", object.name_any()));
    };
    let study = profile.and_then(Study::of);
    let others = others(object, status, study.as_ref());
    let is_asked = |other: &&Other| asked.is_none_or(|asked| other.is_called(asked));
    let shown: Vec<&Other> = others.iter().filter(is_asked).collect();
    if let Some(asked) = asked.filter(|_| shown.is_empty()) {
        let mut known: Vec<String> = others.into_iter().map(|other| other.name).collect();
        known.dedup();
        return Err(UnknownCandidate { asked: asked.to_owned(), known });
    }
    let mut text = if asked.is_none() { chosen(object, status, study.as_ref()) } else { String::new() };
    if !shown.is_empty() {
        text.push_str("Why no other:\n");
        shown.iter().for_each(|other| text.push_str(&format!("  {}: {}\n", other.name, other.why)));
    }
    if asked.is_none() {
        text.push_str(&rejected(status));
    }
    Ok(text)
}

/// What was considered and does not serve.
struct Other {
    /// `int8`, `int8/instances-2`, or `int8/instances-2 at 8 in flight`.
    name: String,
    why: String,
}

impl Other {
    fn of(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), why: why.into() }
    }

    fn is_called(&self, asked: &str) -> bool {
        let rest = self.name.strip_prefix(asked);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with(' '))
    }
}

fn chosen(object: &AgentDeployment, status: &AgentDeploymentStatus, study: Option<&Study<'_>>) -> String {
    let name = object.name_any();
    let Some(selected) = &status.selected else {
        return format!("{name}: no configuration has been chosen yet\n{}", nothing_fits(study));
    };
    let most = counted(u64::try_from(selected.max_in_flight).unwrap_or(0), "run");
    let mut text = format!("{name}: {}, at most {most} in flight on a replica\n", selected.display_name);
    text.push_str(&format!("Why this one:\n  {}\n", selected.why));
    if let Some(study) = study {
        let row = study.status().choice.as_ref().and_then(|choice| study.at(choice.predicted_by));
        for objective in &study.inputs().objectives {
            let found = row.and_then(|(_, row)| latency(row, objective));
            let found = found.map_or("not measured".to_owned(), bounded);
            text.push_str(&format!("  {}: predicted {found}\n", bound(objective)));
        }
    } else if object.spec.profiling.is_none() {
        text.push_str("  nothing was measured, because the spec has no profiling\n");
    }
    text.push_str(&nothing_fits(study));
    text
}

/// `reply: RequestLatency p90, at most 5s`.
fn bound(objective: &WrittenObjective) -> String {
    let WrittenObjective { name, metric, percentile, max } = objective;
    format!("{name}: {metric} {percentile}, at most {max}")
}

fn nothing_fits(study: Option<&Study<'_>>) -> String {
    let infeasible = study.and_then(|study| study.status().infeasible.as_ref());
    infeasible.map_or(String::new(), |infeasible| {
        let (binding, takes) = (&infeasible.binding_objective, &infeasible.what_it_would_take);
        format!("Nothing meets the objectives: {binding} binds\n  {takes}\n")
    })
}

/// Everything that does not serve: engines that were refused, points that were measured, and what was not measured.
fn others(object: &AgentDeployment, status: &AgentDeploymentStatus, study: Option<&Study<'_>>) -> Vec<Other> {
    let is_measured = |engine: &&EngineChoice| {
        study.is_some_and(|study| study.inputs().engines.iter().any(|profiled| profiled.name == engine.name))
    };
    let serves = |engine: &&EngineChoice| status.selected.as_ref().is_some_and(|of| of.engine == engine.name);
    let engines = status.engines.iter().filter(|engine| !is_measured(engine) && !serves(engine));
    let mut others: Vec<Other> =
        engines.map(|engine| Other::of(&engine.display_name, engine_words(object, engine))).collect();
    let Some(study) = study else { return others };
    others.extend(study.rows().filter_map(|(position, row)| point(study, position, row)));
    others.extend(study.status().not_measured.iter().map(|skipped| {
        let engine = study.engine(&skipped.engine);
        let name = skipped.configuration.as_ref().map_or(engine.to_owned(), |of| format!("{engine}/{of}"));
        let name = match (skipped.from_level, skipped.to_level) {
            (Some(from), Some(to)) if from == to => format!("{name} at {from} in flight"),
            (Some(from), Some(to)) => format!("{name} at {from} to {to} in flight"),
            (Some(_) | None, _) => name,
        };
        Other::of(name, format!("not measured: {}", skipped.reason))
    }));
    others
}

/// Why an engine was not even measured.
fn engine_words(object: &AgentDeployment, engine: &EngineChoice) -> String {
    let percent = |parts: i32| f64::from(parts) / 10_000.0;
    match (&engine.quality, &object.spec.slo.quality) {
        (
            Some(MeasuredQuality { accepted: false, drop_upper_bound_parts_per_million: Some(drop), .. }),
            Some(asked),
        ) => {
            let (drop, most) = (percent(*drop), &asked.max_drop);
            format!(
                "refused: its answers may be worse than the reference's by {drop:.1} %, and slo.quality.maxDrop allows {most}"
            )
        }
        _ => engine.state.clone(),
    }
}

/// Why a measured point does not serve; nothing for the one that does.
fn point(study: &Study<'_>, position: usize, row: &Measurement) -> Option<Other> {
    let why = match study.assessment(position, row) {
        Assessment::Chosen | Assessment::Prediction => return None,
        Assessment::Beaten(by) => {
            let (_, better) = study.at(i32::try_from(by).ok()?)?;
            format!("{} is no slower and serves no less: {}", study.place(better), compared(study, better, row))
        }
        Assessment::Front | Assessment::Meets => less(study, row),
        Assessment::Nearest | Assessment::Misses | Assessment::Undecided => verdict_words(study, row),
        Assessment::Failed => format!("could not be measured: {}", row.reason),
    };
    let place = study.place(row);
    let name = match row.purpose {
        MeasurementPurpose::Explore => place,
        MeasurementPurpose::Confirm => format!("{place}, confirm run"),
    };
    Some(Other::of(name, why))
}

/// Why a point that meets the objectives was not chosen: what it has less of.
fn less(study: &Study<'_>, row: &Measurement) -> String {
    let choice = study.status().choice.as_ref();
    let is_choice = |other: &&Measurement| {
        choice.is_some_and(|choice| {
            (&choice.engine, &choice.configuration, choice.level) == (&other.engine, &other.configuration, other.level)
        }) && other.purpose == row.purpose
    };
    let Some(best) = study.rows().map(|(_, other)| other).find(is_choice) else {
        return "it meets the objectives as far as they are measured".to_owned();
    };
    let wanted = match study.inputs().optimize_for {
        OptimizeFor::Throughput => "throughput",
        OptimizeFor::Latency => "latency",
        OptimizeFor::Cost => "cost",
    };
    format!("it meets the objectives, and {wanted} decides: {}", compared(study, best, row))
}

/// `39.06 against 33.37 requests/s, RequestLatency p90 385ms against 944ms`, the better one first.
fn compared(study: &Study<'_>, better: &Measurement, row: &Measurement) -> String {
    let unit = study.unit(row.purpose);
    let mut text = format!("{} against {} {unit}/s", rate(better.per_kilosecond), rate(row.per_kilosecond));
    if let (Some(of_better), Some(own)) = (study.latency(better), study.latency(row)) {
        text.push_str(&format!(
            ", {} {} {} against {}",
            own.metric,
            own.percentile,
            time(of_better.microseconds),
            time(own.microseconds)
        ));
    }
    if let (Some(of_better), Some(own)) = (better.cost, row.cost) {
        let shown = |cost: MeasuredCost| dollars(cost.microdollars_per_thousand);
        text.push_str(&format!(", {} against {} for 1,000 {unit}", shown(of_better), shown(own)));
    }
    text
}

/// Which objective is missed or open, with its figures; in the campaign's words where no latency says it.
fn verdict_words(study: &Study<'_>, row: &Measurement) -> String {
    let limit = |objective: &WrittenObjective| i64::try_from(objective.max.microseconds()).unwrap_or(i64::MAX);
    let objectives = &study.inputs().objectives;
    let missed = objectives.iter().find_map(|objective| {
        let latency = latency(row, objective).filter(|latency| latency.lower > limit(objective))?;
        Some(format!("misses {}: {}", bound(objective), bounded(latency)))
    });
    let open = || {
        objectives.iter().find_map(|objective| {
            let is_met = |upper: i64| upper <= limit(objective);
            let latency = latency(row, objective).filter(|latency| !latency.upper.is_some_and(is_met))?;
            Some(format!("too few measurements to tell {}: {}", bound(objective), bounded(latency)))
        })
    };
    let words = match row.verdict {
        MeasurementVerdict::Infeasible => missed,
        MeasurementVerdict::Unbounded => missed.or_else(open),
        MeasurementVerdict::Feasible | MeasurementVerdict::Failed => None,
    };
    words.unwrap_or_else(|| row.reason.clone())
}

fn latency<'a>(
    row: &'a Measurement,
    objective: &WrittenObjective,
) -> Option<&'a slipway_crds::v1alpha1::profile::MeasuredLatency> {
    row.latencies.iter().find(|l| (l.metric, l.percentile) == (objective.metric, objective.percentile))
}

/// Plans that served users and were rolled back.
fn rejected(status: &AgentDeploymentStatus) -> String {
    let plans = status.rollout.iter().flat_map(|rollout| &rollout.rejected);
    let line = |RejectedPlan { plan, at, reason, .. }: &RejectedPlan| {
        format!("  plan {plan} was rolled back at {}: {reason}\n", at.0)
    };
    let lines: String = plans.map(line).collect();
    if lines.is_empty() { lines } else { format!("Tried with users:\n{lines}") }
}
