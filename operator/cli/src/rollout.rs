//! A rollout as people look at it: who has the traffic, what the judge says and by which evidence. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use slipway_crds::{
    conditions::ConditionType,
    v1alpha1::{
        AgentDeployment,
        agent_deployment::{
            CapacityPhase, GuardrailStatus, LogEvidence, ProposedPlan, RejectedPlan, RolloutBaseline, RolloutCapacity,
            RolloutStatus,
        },
    },
};

use crate::{
    progress::{Progress, progress},
    table::{indented, table},
};

/// Characters of a full bar.
const BAR: f64 = 20.0;

/// Whether a new revision is on trial.
pub fn is_under_way(object: &AgentDeployment) -> bool {
    status(object).is_some_and(|rollout| rollout.canary.is_some())
}

/// Whether no revision is on trial, and nothing is under way or waits for a person.
pub fn is_over(object: &AgentDeployment) -> bool {
    match progress(object) {
        Progress::InProgress(_) | Progress::Suspended(_) => false,
        Progress::Ready | Progress::Stalled(_) => !is_under_way(object),
    }
}

/// Gives the revisions with their weights, the verdict, its evidence, rolled-back plans, and a plan that waits for
/// approval. It is empty if one revision serves, none was ever rolled back and none waits.
pub fn rollout(object: &AgentDeployment) -> String {
    let Some(rollout) = status(object) else { return String::new() };
    if rollout.canary.is_none() && rollout.rejected.is_empty() && rollout.proposed.is_none() {
        return String::new();
    }
    let parts = [
        shares(object, rollout),
        rollout.capacity.as_ref().map_or(String::new(), capacity),
        verdict(rollout),
        evidence(object, rollout),
        guardrails(rollout),
        rejected(&rollout.rejected),
        rollout.proposed.as_ref().map_or(String::new(), |proposed| proposal(object, proposed)),
    ];
    format!("Rollout:\n{}", indented(&parts.concat()))
}

/// Gives what there is to say beside shares, verdict and evidence: capacity, guardrails, rolled-back plans, and a plan
/// that waits for approval.
pub fn details(object: &AgentDeployment) -> String {
    let Some(rollout) = status(object) else { return String::new() };
    let parts = [
        rollout.capacity.as_ref().map_or(String::new(), capacity),
        guardrails(rollout),
        rejected(&rollout.rejected),
        rollout.proposed.as_ref().map_or(String::new(), |proposed| proposal(object, proposed)),
    ];
    parts.concat()
}

/// Gives what the judge's self-check says, where there was one.
pub fn self_check(object: &AgentDeployment) -> String {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let mut found = conditions.filter(|condition| condition.type_ == ConditionType::JudgeTrusted.as_str());
    found.next().map_or(String::new(), |Condition { status, reason, message, .. }| {
        let trusted = match status.as_str() {
            "True" => "can be trusted here",
            "False" => "cannot be trusted here",
            _ => "may or may not be trusted here",
        };
        format!("The judge {trusted} ({reason}):\n  {message}\n")
    })
}

fn status(object: &AgentDeployment) -> Option<&RolloutStatus> {
    object.status.as_ref()?.rollout.as_ref()
}

fn shares(object: &AgentDeployment, rollout: &RolloutStatus) -> String {
    let stable = rollout.stable.as_deref().unwrap_or("none");
    let Some(canary) = &rollout.canary else { return format!("revision {stable} has all traffic\n") };
    let weight = rollout.weight.unwrap_or(0);
    let of_baseline = rollout.baseline.as_ref().map_or(0, |baseline| baseline.weight);
    let since = rollout.weight_since.as_ref().map_or(String::new(), |at| format!(" since {}", clock(at)));
    let steps: Vec<String> = object.spec.rollout.steps.iter().map(|step| format!("{} %", step.weight)).collect();
    let schedule = if steps.is_empty() { String::new() } else { format!("; the steps are {}", steps.join(", ")) };
    format!(
        "revision {stable} has {} % of the traffic, canary {canary} has {weight} %{since}{schedule}\n{}",
        100 - weight - of_baseline,
        rollout.baseline.as_ref().map_or(String::new(), baseline)
    )
}

/// What the canary is compared with, where that is not the stable revision itself.
fn baseline(baseline: &RolloutBaseline) -> String {
    let RolloutBaseline { revision, weight, pods, ready_pods } = baseline;
    format!(
        "its baseline {revision}, fresh pods of stable's plan, has {weight} %: {ready_pods} of {pods} pods are ready\n"
    )
}

/// What there is room for, and what is done about it.
fn capacity(room: &RolloutCapacity) -> String {
    let RolloutCapacity { wanted, pods, drained, message, .. } = room;
    let since = clock(&room.since);
    let retry = room.retry_at.as_ref().map_or(String::new(), |at| format!(", next probe at {}", clock(at)));
    match room.phase {
        CapacityPhase::Waiting => {
            format!("the cluster lacks capacity for its {wanted} pods since {since}{retry}: {message}\n")
        }
        CapacityPhase::Limited => {
            format!("the cluster has capacity for {pods} of {wanted} pods since {since}{retry}: {message}\n")
        }
        CapacityPhase::InPlace => {
            format!(
                "in place: {drained} stable pods were drained, the last at {since}; the canary has {pods}: {message}\n"
            )
        }
        CapacityPhase::Restoring => {
            let reason = room.reason.as_deref().unwrap_or(message);
            format!("stable's pods are being restored, {drained} missing since {since}: {reason}\n")
        }
    }
}

fn verdict(rollout: &RolloutStatus) -> String {
    let mut text = String::new();
    if let (Some(verdict), Some(_)) = (rollout.verdict, &rollout.canary) {
        let reason = rollout.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
        let message = rollout.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        let at = rollout.judged_at.as_ref().map_or(String::new(), |at| format!(", at {}", clock(at)));
        text.push_str(&format!("the judge says {}{reason}{at}{message}\n", verdict.as_str()));
    }
    if let Some(expected) = &rollout.expected_verdict {
        text.push_str(&format!("for a revision that equals stable: {expected}\n"));
    }
    text
}

/// Every guard against the bound at which the canary is rolled back.
fn evidence(object: &AgentDeployment, rollout: &RolloutStatus) -> String {
    if rollout.evidence.is_empty() || rollout.canary.is_none() {
        return String::new();
    }
    let bound = rollback_bound(object);
    let rows: Vec<_> = rollout
        .evidence
        .iter()
        .map(|entry| {
            let sign = if is_strongest(entry, &rollout.evidence) { " the strongest" } else { "" };
            let bar = format!("{}{sign}", bar(&entry.log_evidence, bound));
            vec![entry.guard.clone(), entry.log_evidence.clone(), bar]
        })
        .collect();
    let title = format!("the canary is rolled back when their weighted mean reaches {bound:.1}");
    format!("evidence of harm, as logarithms; {title}\n{}", indented(&table(&["GUARD", "LOG", "OF THE BOUND"], &rows)))
}

/// The logarithm at which the weighted mean of the evidence rolls a canary back.
pub fn rollback_bound(object: &AgentDeployment) -> f64 {
    -object.spec.rollout.judge.false_rollback_probability().ln()
}

/// Whether a guard speaks against the canary, and none does so more.
pub fn is_strongest(entry: &LogEvidence, all: &[LogEvidence]) -> bool {
    let value = |of: &LogEvidence| of.log_evidence.parse::<f64>().unwrap_or(0.0);
    let most = all.iter().map(value).fold(0.0, f64::max);
    most > 0.0 && value(entry) >= most
}

fn bar(value: &str, bound: f64) -> String {
    let share = value.parse::<f64>().unwrap_or(0.0) / bound.max(f64::MIN_POSITIVE);
    "#".repeat((share.clamp(0.0, 1.0) * BAR).round() as usize)
}

/// What Prometheus says of the canary.
fn guardrails(rollout: &RolloutStatus) -> String {
    if rollout.guardrails.is_empty() || rollout.canary.is_none() {
        return String::new();
    }
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |found: &GuardrailStatus| {
        let state = match (&found.problem, found.exceeded) {
            (Some(problem), _) => problem.clone(),
            (None, 0) => "holds".to_owned(),
            (None, times) => format!("exceeded {times} times in a row"),
        };
        vec![found.name.clone(), or_dash(&found.value), or_dash(&found.limit), clock(&found.at), state]
    };
    let rows: Vec<_> = rollout.guardrails.iter().map(row).collect();
    let header = ["GUARDRAIL", "VALUE", "AT MOST", "AT", "STATE"];
    format!(
        "guardrails of spec.rollout; one that is exceeded three times in a row rolls the canary back\n{}",
        indented(&table(&header, &rows))
    )
}

fn rejected(plans: &[RejectedPlan]) -> String {
    let line = |plan: &RejectedPlan| format!("{} was rolled back at {}: {}\n", plan.plan, clock(&plan.at), plan.reason);
    plans.iter().map(line).collect()
}

/// What waits for approval, what it would change, and the command that approves it.
fn proposal(object: &AgentDeployment, proposed: &ProposedPlan) -> String {
    let ProposedPlan { plan_hash, since, why, changes } = proposed;
    let changes: String = changes.iter().map(|change| format!("{change}\n")).collect();
    format!(
        "{plan_hash} waits for approval since {}: {why}\n{}approve it with {}, or spec.rollout.approve: {plan_hash} in \
         the manifest\n",
        clock(since),
        indented(&changes),
        approve(object)
    )
}

/// The command that approves what waits.
pub fn approve(object: &AgentDeployment) -> String {
    let place = object.metadata.namespace.as_ref().map_or(String::new(), |namespace| format!(" -n {namespace}"));
    let name = object.metadata.name.as_deref().unwrap_or_default();
    format!("`kubectl slipway approve {name}{place}`")
}

fn clock(time: &Time) -> String {
    time.0.strftime("%H:%M:%S UTC").to_string()
}
