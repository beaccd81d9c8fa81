//! Beside the five steps: whether the judge keeps its promise on this agent's own pods and traffic. Pure: the
//! statistics are those of slipway-analysis.
//!
//! Once an hour, while all traffic goes to stable, its pods are split into two groups and judged as a rollout would be.
//! What the last day of checks says is a condition, before a rollout rests on it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::judge::{
    Window,
    self_check::{Checked, MIN_PODS, Promise, Unfit, promise, self_check},
};
use slipway_crds::{
    conditions::{ConditionType, Reason},
    v1alpha1::{
        AgentDeploymentSpec,
        agent_deployment::{JudgeCheck, RolloutStatus, SelfCheckStatus, TrafficType, UncheckedJudge},
    },
};

use crate::{
    agent_deployment::{judge_config::judge_config, world::World},
    conditions::Answer,
};

/// Pods keep an hour: later checks share no evidence.
const EVERY: SignedDuration = SignedDuration::from_hours(1);
/// Time after which pods and traffic that did not suffice are looked at again.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// Checks that are kept, as the schema has it: a day.
const MAX_CHECKS: usize = 24;

/// Whether the pods of a revision are to be read for a check.
pub fn is_due(spec: &AgentDeploymentSpec, known: Option<&SelfCheckStatus>, stable: &str, now: Timestamp) -> bool {
    let waits = |known: &SelfCheckStatus| if known.unknown.is_some() { AGAIN } else { EVERY };
    let known = known.filter(|known| still_holds(known, spec, stable));
    is_judged(spec) && known.is_none_or(|known| now.duration_since(known.checked_at.0) >= waits(known))
}

/// Checks the judge where that is due. The rollout is that of the status that is being written.
pub(in crate::agent_deployment) fn decide(world: &World, rollout: Option<&RolloutStatus>) -> Option<SelfCheckStatus> {
    let (spec, stable) = (&world.spec, rollout?.stable.as_deref()?);
    let known = world.status.self_check.clone().filter(|known| is_judged(spec) && still_holds(known, spec, stable));
    let has_all_traffic = rollout.is_some_and(|rollout| rollout.weight.unwrap_or(0) == 0);
    let pods = || world.live.iter().map(|pod| &pod.evidence).filter(|of| of.revision == stable);
    if !has_all_traffic || pods().next().is_none() || !is_due(spec, known.as_ref(), stable, world.now) {
        return known;
    }
    // Any number does, as long as the next operator draws the same.
    let seed = u64::try_from(world.now.as_second()).unwrap_or(0);
    let found = self_check(&judge_config(spec, Vec::new(), 1.0), &Window::of_stable(pods()), seed);
    let checks = known.map(|known| known.checks).unwrap_or_default();
    Some(recorded(found, checks, (stable, spec, world.now)))
}

fn recorded(
    found: Result<Checked, Unfit>,
    mut checks: Vec<JudgeCheck>,
    (stable, spec, now): (&str, &AgentDeploymentSpec, Timestamp),
) -> SelfCheckStatus {
    let (pods, unknown, runs) = match found {
        Ok(Checked { pods, shuffles, harms, seconds }) => {
            checks.push(JudgeCheck {
                shuffles: number(shuffles),
                rolled_back: number(harms),
                seconds: number(seconds),
            });
            (pods, None, None)
        }
        Err(Unfit::TooFewPods { pods }) => (pods, Some(UncheckedJudge::TooFewPods), None),
        Err(Unfit::TooFewUnits { pods, finished, needed }) => {
            (pods, Some(UncheckedJudge::TooFewRuns), Some([finished, needed]))
        }
    };
    checks.drain(..checks.len().saturating_sub(MAX_CHECKS));
    SelfCheckStatus {
        revision: stable.to_owned(),
        promised_parts_per_million: promised(spec),
        checked_at: Time(now),
        pods: number(pods),
        unknown,
        finished_runs: runs.and_then(|[finished, _]| i64::try_from(finished).ok()),
        needed_runs: runs.and_then(|[_, needed]| i64::try_from(needed).ok()),
        checks,
    }
}

/// Whether the judge can be trusted here; absent where nothing is judged, and before the first look.
pub(in crate::agent_deployment) fn condition(spec: &AgentDeploymentSpec, known: &SelfCheckStatus) -> Answer {
    let answer = |holds, reason, message| Answer { condition: ConditionType::JudgeTrusted, holds, reason, message };
    let SelfCheckStatus { pods, unknown, finished_runs, needed_runs, checks, .. } = known;
    let counts = |check: &JudgeCheck| (unsigned(check.shuffles), unsigned(check.rolled_back));
    let counts: Vec<(u32, u32)> = checks.iter().map(counts).collect();
    let promise = promise(spec.rollout.judge.false_rollback_probability(), &counts);
    match (unknown, promise) {
        (Some(UncheckedJudge::TooFewPods), _) => {
            let message =
                format!("{pods} pods of stable have counted something: the self-check needs at least {MIN_PODS}");
            answer(None, Reason::TooFewPods, message)
        }
        (Some(UncheckedJudge::TooFewRuns), _) | (None, None) => {
            let of = |runs: &Option<i64>| runs.unwrap_or(0);
            let message = format!(
                "{} runs of stable have finished in the last hour: the self-check of its {pods} pods needs {}",
                of(finished_runs),
                of(needed_runs)
            );
            answer(None, Reason::TooLittleTraffic, message)
        }
        (None, Some(Promise::Kept)) => answer(Some(true), Reason::SelfCheckPassed, figures(spec, checks)),
        (None, Some(Promise::Unclear)) => {
            let message = format!("{}; chance explains that, later hours will tell", figures(spec, checks));
            answer(None, Reason::SelfCheckUnclear, message)
        }
        (None, Some(Promise::Broken)) => {
            let message = format!(
                "{}. Pods of one plan differ by more than chance: look for slow or failing nodes, or raise \
                 spec.rollout.judge.maxRegression",
                figures(spec, checks)
            );
            answer(Some(false), Reason::SelfCheckFailed, message)
        }
    }
}

/// What the checks found, with what is promised.
fn figures(spec: &AgentDeploymentSpec, checks: &[JudgeCheck]) -> String {
    let sum = |of: fn(&JudgeCheck) -> i32| checks.iter().map(|check| i64::from(of(check))).sum::<i64>();
    let (harms, shuffles) = (sum(|check| check.rolled_back), sum(|check| check.shuffles));
    let share = 100.0 * harms as f64 / shuffles.max(1) as f64;
    let hours = sum(|check| check.seconds) as f64 / 3_600.0;
    let promised = String::from(spec.rollout.judge.false_rollback.clone());
    format!(
        "{harms} of {shuffles} shuffles of stable's pods would have been rolled back ({share:.1}%, {promised} is \
         promised), in {hours:.1} h of evidence"
    )
}

/// Whether rollouts of this AgentDeployment are judged.
fn is_judged(spec: &AgentDeploymentSpec) -> bool {
    spec.rollout.traffic.r#type != TrafficType::BlueGreen
}

/// Whether what was checked is what is to be checked.
fn still_holds(known: &SelfCheckStatus, spec: &AgentDeploymentSpec, stable: &str) -> bool {
    known.revision == stable && known.promised_parts_per_million == promised(spec)
}

fn promised(spec: &AgentDeploymentSpec) -> i64 {
    i64::from(spec.rollout.judge.false_rollback.parts_per_million())
}

/// A number of the status; the largest stands for larger ones.
fn number(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

fn unsigned(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}
