//! A canary: pods first, then a share of the traffic, then a verdict, step by step. Pure.
//!
//! Everything that is decided is in the status before it is done: an operator that is replaced at any point goes on from there.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::judge::Verdict;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{RejectedPlan, RolloutStatus, TrafficType},
};

use super::{
    Draft, Step, Target, Why, World, build,
    judge::{Case, Judged},
    keep, keep_beside, progress, promote, remove_others, route_problem,
    schedule::{self, Planned},
    settle, tell_of_start,
};
use crate::{
    agent_deployment::{
        guardrails::{self, Guarded},
        world::RouteView,
    },
    plan::Note,
};

/// How often a canary with traffic is looked at: the length of a window of evidence.
const LOOK: Duration = Duration::from_secs(10);
/// How long the pods of the revision before stay after another has taken over.
const KEEP_PREVIOUS: SignedDuration = SignedDuration::from_secs(30);
/// Rejected plans that are remembered.
const MAX_REJECTED: usize = 8;

/// Takes the rollout as far as it may go now.
pub(super) fn advance(world: &World, stable: &str, target: &Target, draft: &mut Draft) -> Option<Step<()>> {
    let refuse = |problem: String| Step::Stopped(Why::SpecRefused { field: "spec.rollout.steps", problem });
    if let Some(problem) = schedule::problem(&world.spec.rollout) {
        stand_still(world, stable, draft);
        return Some(refuse(problem));
    }
    if let Some(rejected) = rejection(world, target) {
        stand_still(world, stable, draft);
        let (revision, reason) = (target.hash.clone(), rejected.reason.clone());
        return Some(Step::Stopped(Why::PlanRejected { revision, reason }));
    }
    let schedule = schedule::schedule(&world.spec.rollout, world.spec.serving.replicas);
    let rollout = opened(stable, target, draft);
    let mut canary = Canary { world, stable, target, schedule: &schedule, rollout, held: None };
    tell_of_start(world, target, canary.wanted(), draft);
    match canary.judge(draft) {
        Next::GoOn => canary.carry_on(draft),
        Next::RollBack(reason) => Some(canary.roll_back(&reason, draft)),
    }
}

/// What follows from the verdict.
enum Next {
    GoOn,
    RollBack(String),
}

struct Canary<'a> {
    world: &'a World,
    stable: &'a str,
    target: &'a Target,
    schedule: &'a [Planned],
    rollout: RolloutStatus,
    /// Why a guardrail of the user's keeps it at its step.
    held: Option<String>,
}

impl Canary<'_> {
    /// Position of the step in the schedule, from 1; beyond its end the canary is about to take over.
    fn step(&self) -> usize {
        self.rollout.step.and_then(|step| usize::try_from(step).ok()).unwrap_or(1).clamp(1, self.schedule.len() + 1)
    }

    fn planned(&self) -> Option<&Planned> {
        self.schedule.get(self.step() - 1)
    }

    fn weight(&self) -> i32 {
        self.rollout.weight.unwrap_or(0)
    }

    /// Pods that the step needs; all of them before the canary takes over.
    fn wanted(&self) -> i32 {
        self.planned().map_or(self.world.spec.serving.replicas, |step| step.pods)
    }

    fn is_named_by(&self, token: Option<&String>) -> bool {
        token.is_some_and(|token| *token == self.target.hash)
    }

    /// Reads the evidence, and takes the verdict into the rollout.
    fn judge(&mut self, draft: &mut Draft) -> Next {
        let spec = &self.world.spec.rollout;
        if self.is_named_by(spec.abort.as_ref()) {
            return Next::RollBack("spec.rollout.abort names it".to_owned());
        }
        if let Some(reason) = self.failing_under_traffic() {
            return Next::RollBack(reason);
        }
        let mut verdict = Verdict::Hold;
        if self.weight() > 0 && !self.schedule.is_empty() {
            let (declared, views) = (&spec.guardrails, &self.world.guardrails);
            match guardrails::judge(declared, views, self.world.now, &mut self.rollout) {
                Guarded::Clear => {}
                Guarded::Held(why) => self.held = Some(why),
                Guarded::Harmed(harm) => return Next::RollBack(harm),
            }
            let judged = self.judged();
            if judged.verdict == Verdict::Rollback {
                return Next::RollBack(judged.reason);
            }
            self.rollout = judged.rollout;
            verdict = judged.verdict;
        }
        if self.is_named_by(spec.promote.as_ref()) || (verdict == Verdict::Promote && !self.is_held()) {
            self.enter(self.schedule.len() + 1, draft);
        } else if verdict == Verdict::Advance && self.may_advance() {
            self.enter(self.step() + 1, draft);
        }
        Next::GoOn
    }

    fn judged(&self) -> Judged {
        let Self { world, stable, target, schedule, rollout, held: _ } = self;
        let may_advance = self.may_advance();
        Case { world, rollout, schedule, stable, canary: &target.hash, plan: &target.plan, may_advance }.judge()
    }

    /// A person, or a guardrail of theirs, keeps it at its step.
    fn is_held(&self) -> bool {
        self.world.spec.rollout.paused || self.held.is_some()
    }

    /// Not while it is held, and not before it has the share of its step.
    fn may_advance(&self) -> bool {
        !self.is_held() && self.planned().is_some_and(|step| step.weight == self.weight())
    }

    /// A pod that ends with an error while users are sent to it needs no statistics.
    fn failing_under_traffic(&self) -> Option<String> {
        let view = self.world.serving.get(&self.target.hash).filter(|_| self.weight() > 0)?;
        let crash = view.crash.as_ref().filter(|_| view.ready < view.wanted)?;
        Some(format!("a pod of it failed under traffic: {crash}"))
    }

    fn enter(&mut self, step: usize, draft: &mut Draft) {
        if step == self.step() {
            return;
        }
        self.rollout.step = i32::try_from(step).ok();
        let next = match self.planned() {
            Some(planned) => format!("{} % of the traffic once {} pods are ready", planned.weight, planned.pods),
            None => format!("it takes over once {} pods are ready", self.wanted()),
        };
        let line = format!("plan {} passed at {} %: {next}", self.target.hash, self.weight());
        draft.notes.push(Note::normal(Reason::RolloutAdvanced, line));
    }

    /// Brings up what the step needs, and moves the traffic when it is there.
    fn carry_on(mut self, draft: &mut Draft) -> Option<Step<()>> {
        let (world, wanted) = (self.world, self.wanted());
        let progress = progress(self.target, world.serving.get(&self.target.hash), wanted);
        let is_ready = matches!(progress, Step::Done(()));
        let may_move = is_ready && !world.spec.rollout.paused && self.is_route_there();
        let planned = self.planned().map(|step| step.weight);
        match planned {
            None if is_ready => return self.take_over(draft),
            Some(weight) if may_move && weight != self.weight() => {
                let line = format!("plan {} is given {weight} % of the traffic, {wanted} pods", self.target.hash);
                draft.notes.push(Note::normal(Reason::RolloutProgressing, line));
                self.rollout.weight = Some(weight);
                self.rollout.weight_since = Some(Time(world.now));
                self.rollout.canary_share = Some(format!("{weight}%"));
                // Another share is another load.
                self.rollout.guardrails.clear();
            }
            Some(_) | None => {}
        }
        if self.weight() > 0 {
            draft.requeue = draft.requeue.min(LOOK);
        }
        let target = self.target;
        keep_beside(world, Some(self.stable), Some((&target.hash, self.weight())), draft);
        draft.children.extend(build::serving::revision_children(world, &target.hash, &target.plan, wanted));
        remove_others(world, vec![self.stable, &target.hash], draft);
        let why = self.why(progress);
        draft.status.rollout = Some(self.rollout);
        Some(why)
    }

    /// Traffic moves only through a route that a gateway serves.
    fn is_route_there(&self) -> bool {
        match self.world.spec.rollout.traffic.r#type {
            TrafficType::BlueGreen | TrafficType::ReplicaRatio => true,
            TrafficType::GatewayAPI => matches!(self.world.route, RouteView::Present { problem: None, .. }),
        }
    }

    /// What is waited for.
    fn why(&self, progress: Step<()>) -> Step<()> {
        let revision = self.target.hash.clone();
        match progress {
            Step::Waiting(_) | Step::Stopped(_) => return progress,
            Step::Done(()) => {}
        }
        if let Some(why) = route_problem(self.world) {
            return Step::Waiting(why);
        }
        let weight = self.weight();
        if self.world.spec.rollout.paused {
            return Step::Waiting(Why::RolloutPaused { revision, weight });
        }
        if let Some(message) = self.held.clone() {
            return Step::Waiting(Why::CanaryJudged { revision, weight, reason: Reason::GuardrailHolds, message });
        }
        let reason = reason(self.rollout.reason.as_deref());
        let message = self.rollout.message.clone().unwrap_or_else(|| "no evidence yet".to_owned());
        Step::Waiting(Why::CanaryJudged { revision, weight, reason, message })
    }

    fn take_over(self, draft: &mut Draft) -> Option<Step<()>> {
        let Self { world, stable, target, rollout, .. } = self;
        draft.status.rollout = Some(RolloutStatus {
            previous: Some(stable.to_owned()),
            previous_until: world.now.checked_add(KEEP_PREVIOUS).ok().map(Time),
            rejected: rollout.rejected,
            ..rollout_of(stable)
        });
        promote(world, Some(stable), target, draft);
        draft.requeue = draft.requeue.min(LOOK);
        None
    }

    fn roll_back(self, reason: &str, draft: &mut Draft) -> Step<()> {
        let Self { world, stable, target, rollout, .. } = self;
        let reason: String =
            format!("at {} % of the traffic: {reason}", rollout.weight.unwrap_or(0)).chars().take(512).collect();
        draft
            .notes
            .push(Note::warning(Reason::RolledBack, format!("plan {} {reason}; stable {stable} serves", target.hash)));
        let mut rejected = rollout.rejected;
        rejected.retain(|known| known.plan != target.hash);
        rejected.push(RejectedPlan {
            plan: target.hash.clone(),
            at: Time(world.now),
            reason: reason.clone(),
            retry: world.spec.rollout.retry.clone(),
        });
        let surplus = rejected.len().saturating_sub(MAX_REJECTED);
        rejected.drain(..surplus);
        draft.status.rollout = Some(RolloutStatus { rejected, ..rollout_of(stable) });
        keep(world, Some(stable), draft);
        remove_others(world, vec![stable], draft);
        Step::Stopped(Why::PlanRejected { revision: target.hash.clone(), reason })
    }
}

/// The rollout of this plan: as it was recorded, or opened now.
fn opened(stable: &str, target: &Target, draft: &Draft) -> RolloutStatus {
    let recorded = draft.status.rollout.clone().unwrap_or_default();
    if recorded.canary.as_deref() == Some(&target.hash) {
        return recorded;
    }
    RolloutStatus {
        canary: Some(target.hash.clone()),
        step: Some(1),
        weight: Some(0),
        canary_share: Some("0%".to_owned()),
        previous: recorded.previous.filter(|previous| *previous != target.hash),
        previous_until: recorded.previous_until,
        rejected: recorded.rejected,
        ..rollout_of(stable)
    }
}

fn rollout_of(stable: &str) -> RolloutStatus {
    RolloutStatus { stable: Some(stable.to_owned()), ..RolloutStatus::default() }
}

/// The rejection of a plan, unless `spec.rollout.retry` asks for another try.
fn rejection<'a>(world: &'a World, target: &Target) -> Option<&'a RejectedPlan> {
    let rejected = world.status.rollout.as_ref()?.rejected.iter().find(|rejected| rejected.plan == target.hash)?;
    let is_for_it = |token: &&String| {
        token.strip_prefix(target.hash.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let retry = world.spec.rollout.retry.as_ref().filter(is_for_it);
    // While it is tried once more it stands as canary; until then only a new word opens it.
    let is_tried = world.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref()) == Some(&target.hash);
    let is_new = retry.is_some() && retry != rejected.retry.as_ref();
    (!is_tried && !is_new).then_some(rejected)
}

/// Stable goes on, and nothing else.
fn stand_still(world: &World, stable: &str, draft: &mut Draft) {
    draft.status.rollout.get_or_insert_default();
    settle(Some(stable), draft);
    keep(world, Some(stable), draft);
    remove_others(world, vec![stable], draft);
}

/// The reason of a condition for what the judge says.
fn reason(code: Option<&str>) -> Reason {
    let known =
        [Reason::NoTraffic, Reason::EvidenceUnreachable, Reason::VerdictUnreachable, Reason::TrafficSplitMismatch];
    known.into_iter().find(|reason| Some(reason.as_str()) == code).unwrap_or(Reason::RolloutProgressing)
}
