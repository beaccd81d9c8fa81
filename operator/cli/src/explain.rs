//! Why this configuration serves, and why no other does, in words. Pure.

use slipway_crds::v1alpha1::{
    AgentDeployment, Profile,
    agent_deployment::{ObjectiveStatus, RejectedPlan},
};
use thiserror::Error;

use crate::{
    overview::quality,
    study::bounded,
    table::{api_name, counted},
    view::explanation::{Bounded, Chosen, Explanation, Other, Standing, State, bound, explanation},
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

/// Explains the choice, and why each candidate that was not chosen was not; or only what is asked for.
///
/// # Errors
/// [`UnknownCandidate`] if nothing of the asked name was considered.
pub fn explain(
    object: &AgentDeployment,
    profile: Option<&Profile>,
    asked: Option<&str>,
) -> Result<Explanation, UnknownCandidate> {
    let all = explanation(object, profile);
    match asked {
        None => Ok(all),
        Some(asked) => only(all, asked),
    }
}

/// The part of an explanation that is about a candidate.
fn only(all: Explanation, asked: &str) -> Result<Explanation, UnknownCandidate> {
    let is_asked = |name: &str| {
        let rest = name.strip_prefix(asked);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest.starts_with(' '))
    };
    let chosen = all.chosen.filter(|chosen| is_asked(&name(chosen)));
    let of_choice = chosen.as_ref().map(name);
    let (others, rest): (Vec<_>, Vec<_>) = all.others.into_iter().partition(|other| is_asked(&other.name));
    if others.is_empty() && of_choice.is_none() {
        let mut known: Vec<String> = rest.into_iter().map(|other| other.name).collect();
        known.dedup();
        return Err(UnknownCandidate { asked: asked.to_owned(), known });
    }
    Ok(Explanation { chosen, others, pending: None, infeasible: None, rolled_back: Vec::new(), ..all })
}

/// The name of the choice, as other candidates have theirs: `int8/instances-2 at 8 in flight`.
fn name(chosen: &Chosen) -> String {
    match &chosen.configuration {
        Some(configuration) => format!("{}/{configuration} at {} in flight", chosen.engine, chosen.max_in_flight),
        None => chosen.engine.clone(),
    }
}

/// An explanation for people.
pub fn text(explanation: &Explanation) -> String {
    let Explanation { name, namespace: _, is_current, chosen, pending, infeasible, others, rolled_back } = explanation;
    let mut text = match (chosen, pending) {
        (Some(chosen), _) => choice(name, chosen),
        (None, Some(pending)) => format!("{name}: no configuration has been chosen yet\n  {pending}\n"),
        (None, None) => String::new(),
    };
    if !is_current && (chosen.is_some() || !others.is_empty()) {
        text.push_str(
            "  (the operator has not processed the latest change of the spec: this is about the one before)\n",
        );
    }
    if let Some(infeasible) = infeasible {
        let (binding, takes) = (&infeasible.binding_objective, &infeasible.what_it_would_take);
        text.push_str(&format!("Nothing meets the objectives: {binding} binds\n  {takes}\n"));
    }
    if !others.is_empty() {
        let lines: String = others.iter().map(|Other { name, why, .. }| format!("  {name}: {why}\n")).collect();
        text.push_str(&format!("Why no other:\n{lines}"));
    }
    if !rolled_back.is_empty() {
        let line =
            |plan: &RejectedPlan| format!("  plan {} was rolled back at {}: {}\n", plan.plan, plan.at.0, plan.reason);
        text.push_str(&format!("Tried with users:\n{}", rolled_back.iter().map(line).collect::<String>()));
    }
    text
}

fn choice(name: &str, chosen: &Chosen) -> String {
    let most = counted(u64::try_from(chosen.max_in_flight).unwrap_or(0), "run");
    let mut text = format!("{name}: {}, at most {most} in flight on a replica\n", chosen.engine);
    text.push_str(&format!("  {}\n", standing(&chosen.standing)));
    text.push_str(&format!("Why this one:\n  {}\n", chosen.why));
    chosen.latencies.iter().filter(|_| chosen.is_measured).for_each(|of| text.push_str(&latency(of)));
    chosen.others.iter().for_each(|of| text.push_str(&other_objective(of)));
    if let Some(found) = &chosen.quality {
        text.push_str(&format!("  quality of its answers: {}\n", quality(found)));
    }
    if !chosen.is_measured {
        text.push_str(match chosen.engine_object {
            Some(_) => "  nothing was measured, because the spec has no profiling\n",
            None => "  nothing is measured of a model that another server has: status.slo has what users see\n",
        });
    }
    if let Some(other) = &chosen.alternative {
        let (wanted, name, figures) = (api_name(&other.optimize_for), &other.name, &other.figures);
        text.push_str(&format!("With slo.optimizeFor {wanted} it would be {name}:\n  {figures}\n"));
    }
    text
}

/// Where the choice stands.
fn standing(Standing { state, revision, share_percent }: &Standing) -> String {
    let revision = revision.as_deref().unwrap_or_default();
    match state {
        State::Starting => "it does not serve yet: its first revision is about to start".to_owned(),
        State::OnTrial => {
            format!("it is on trial: canary {revision} has {share_percent} % of the traffic")
        }
        State::AwaitsApproval => {
            format!("it waits for approval as {revision}: see `kubectl slipway rollout`")
        }
        State::RolledBack => format!("it was rolled back: revision {revision} serves what was chosen before"),
        State::Serving => format!("it serves: revision {revision} has all traffic"),
    }
}

fn latency(Bounded { objective, predicted, observed }: &Bounded) -> String {
    let predicted = predicted.as_ref().map_or("not measured".to_owned(), bounded);
    let observed = observed.as_ref().map_or(String::new(), |observed| format!(", observed {observed}"));
    format!("  {}: predicted {predicted}{observed}\n", bound(objective))
}

/// `slo.throughput: throughput ≥ 2 runs/s: predicted 1.95 runs/s`.
fn other_objective(entry: &ObjectiveStatus) -> String {
    let ObjectiveStatus { name, objective, target, predicted, observed, .. } = entry;
    let predicted = predicted.as_deref().unwrap_or("nothing");
    let observed = observed.as_ref().map_or(String::new(), |observed| format!(", observed {observed}"));
    format!("  {name}: {objective} {target}: predicted {predicted}{observed}\n")
}
