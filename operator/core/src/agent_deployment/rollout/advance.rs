//! A canary: pods first, then a share of the traffic, then a verdict, step by step. Pure.
//!
//! Every decision is in the status before it is carried out: an operator that is replaced at any point continues from
//! there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::judge::Verdict;
use slipway_crds::{
    commands::{Command, Source},
    conditions::Reason,
    v1alpha1::agent_deployment::{RejectedPlan, RolloutStatus},
};

use super::{
    canary::{Canary, LOOK, Next, Turn, from_the_start},
    guardrails::{self, Guarded},
    judge::{Case, Judged},
    keep::{keep, remove_others, settled},
    revision::Target,
    route, steps,
    take_over::{promote, started},
    windows::until_next_window,
};
use crate::{
    agent_deployment::{
        parts::{Parts, Planned},
        world::World,
    },
    plan::Note,
    why::{Blocked, Rejected, Retry, Step, Why, counted_pods},
};

/// Rejected plans that are remembered.
const MAX_REJECTED: usize = 8;

/// Takes the rollout as far as it may go now.
pub(super) fn advance(world: &World, stable: &str, target: &Target, recorded: Option<RolloutStatus>) -> Planned<Turn> {
    let recorded = recorded.unwrap_or_default();
    if let Some(problem) = steps::problem(&world.spec.rollout) {
        let refused = Why::SpecRefused { field: "spec.rollout.steps", problem };
        return stand_still(world, stable, (recorded, Blocked::Stopped(refused)));
    }
    if let Some(rejected) = rejection(world, target) {
        return stand_still(world, stable, (recorded, Blocked::Stopped(rejected)));
    }
    Planned::of(|parts| {
        let leaving = recorded.leaving.clone();
        let mut canary = Canary::new(world, (stable, target), opened(world, stable, target, recorded), leaving);
        parts.add(started(world, target, canary.wanted()));
        let is_aborted = world.commands().aborts(&target.hash).is_some();
        if canary.is_to_give_way() && !is_aborted {
            return parts.join(canary.give_way());
        }
        let next = match parts.join(canary.judge()) {
            Next::GoOn => parts.join(canary.ask_for_room()),
            Next::RollBack(reason) => Next::RollBack(reason),
        };
        match next {
            Next::GoOn => parts.join(canary.carry_on()),
            Next::RollBack(reason) => parts.join(canary.roll_back(&reason)),
        }
    })
}

/// The outcome for a plan when no pods are requested: no rejected plan and no canary takes over just because there are
/// no pods to show harm. Absent for a plan that nobody has seen yet: it replaces one that does not serve either.
pub(super) fn without_pods(
    world: &World,
    stable: &str,
    target: &Target,
    recorded: Option<&RolloutStatus>,
) -> Option<Planned<Turn>> {
    if let Some(rejected) = rejection(world, target) {
        let recorded = recorded.cloned().unwrap_or_default();
        return Some(stand_still(world, stable, (recorded, Blocked::Stopped(rejected))));
    }
    let recorded = recorded?.clone();
    let is_on_trial = recorded.canary.as_ref() == Some(&target.hash) && recorded.step.is_some();
    is_on_trial.then(|| {
        let leaving = recorded.leaving.clone();
        let rollout = from_the_start(world, stable, target, recorded);
        let canary = Canary::new(world, (stable, target), rollout, leaving);
        let Planned { value: leaving, parts } = canary.keep_both();
        let next = Some(Blocked::Waiting(Why::RolloutWithoutPods { revision: target.hash.clone() }));
        parts.with(Turn { next, rollout: canary.recorded(leaving) })
    })
}

/// A canary in the place of several pods of stable gives their places back, pod by pod, before anything else is done.
/// That holds for another plan, stable's own, and an unknown one. Absent once that is done.
pub(super) fn bring_back_first(
    world: &World,
    stable: &str,
    target: Option<&Target>,
    recorded: &RolloutStatus,
) -> Planned<Option<Turn>> {
    let Some(target) = given_up(world, target, recorded) else { return Parts::default().with(None) };
    let mut canary = Canary::new(world, (stable, &target), recorded.clone(), recorded.leaving.clone());
    Planned::of(|parts| {
        let holds_several = canary.holds_several_places() && parts.join(canary.hands_back(None));
        holds_several.then(|| parts.join(canary.keep_handing_back()))
    })
}

/// The plan that was on trial, if it is not to continue. Without its record nothing could keep it.
fn given_up(world: &World, target: Option<&Target>, recorded: &RolloutStatus) -> Option<Target> {
    let hash = recorded.canary.clone()?;
    let goes_on = target.is_some_and(|target| target.hash == hash) && steps::problem(&world.spec.rollout).is_none();
    let revision = world.revision(&hash).filter(|_| !goes_on)?;
    Some(Target { hash, input_hash: revision.input_hash.clone(), plan: revision.plan.clone() })
}

impl Canary<'_> {
    /// Reads the evidence, and takes the verdict into the rollout.
    fn judge(&mut self) -> Planned<Next> {
        let roll_back = |reason: String| Parts::default().with(Next::RollBack(reason));
        let (spec, commands) = (&self.world.spec.rollout, self.world.commands());
        if let Some(source) = commands.aborts(&self.target.hash) {
            return roll_back(format!("{source} names it"));
        }
        if let Some(reason) = self.unready_under_traffic() {
            return roll_back(reason);
        }
        let mut verdict = Verdict::Hold;
        if self.weight() > 0 && !self.schedule.is_empty() {
            let (declared, views) = (&spec.guardrails, &self.world.guardrails);
            match guardrails::judge(declared, views, self.world.now, &mut self.rollout) {
                Guarded::Clear => {}
                Guarded::Held(why) => self.guarded = Some(why),
                Guarded::Harmed(harm) => return roll_back(harm),
            }
            let judged = self.judged();
            if judged.verdict == Verdict::Rollback {
                return roll_back(judged.reason);
            }
            self.rollout = judged.rollout;
            verdict = judged.verdict;
        }
        let promoted_by = commands.promotes(&self.target.hash);
        let told = if promoted_by.is_some() || (verdict == Verdict::Promote && !self.is_held()) {
            self.enter(self.schedule.len() + 1, promoted_by)
        } else if verdict == Verdict::Advance && self.may_advance() {
            self.enter(self.step() + 1, None)
        } else {
            Parts::default()
        };
        told.with(Next::GoOn)
    }

    fn judged(&self) -> Judged {
        let Self { world, stable, target, schedule, rollout, leaving: _, contest: _, guarded: _ } = self;
        let may_advance = self.may_advance();
        Case { world, rollout, schedule, stable, canary: &target.hash, plan: &target.plan, may_advance }.judge()
    }

    /// A person, a guardrail of theirs, or somebody who writes its route keeps it at its step.
    fn is_held(&self) -> bool {
        self.paused_by().is_some() || self.contest.is_some() || self.guarded.is_some()
    }

    /// Not while it is held, and not before it has the share of its step.
    fn may_advance(&self) -> bool {
        !self.is_held() && self.planned().is_some_and(|step| self.has_shares(step.weight))
    }

    /// Goes on to a step: by a verdict, or because a person said so.
    fn enter(&mut self, step: usize, promoted_by: Option<Source>) -> Parts {
        if step == self.step() {
            return Parts::default();
        }
        self.rollout.step = i32::try_from(step).ok();
        let next = match self.planned() {
            Some(planned) => {
                format!("next are {} % of the traffic with {} ready", planned.weight, counted_pods(planned.pods))
            }
            None => format!("it takes over with {} ready", counted_pods(self.needed())),
        };
        let how = match promoted_by {
            Some(source) => format!("is promoted by {source} at"),
            None => "passed at".to_owned(),
        };
        let line = format!("plan {} {how} {} %: {next}", self.target.hash, self.weight());
        Parts::of_notes([Note::normal(Reason::RolloutAdvanced, line)])
    }

    /// Gives places back; once at most one is held the canary waits for room, or is rolled back if that was why.
    fn give_way(mut self) -> Planned<Turn> {
        Planned::of(|parts| {
            if self.holds_several_places() && parts.join(self.hands_back(None)) {
                return parts.join(self.keep_handing_back());
            }
            let room = self.rollout.capacity.clone();
            if let Some(reason) = room.as_ref().and_then(|room| room.reason.clone()) {
                return parts.join(self.roll_back(&reason));
            }
            self.wait_for_room(&room.map(|room| room.message).unwrap_or_default());
            parts.join(self.carry_on())
        })
    }

    /// Brings up what the step needs and there is room for, and moves the traffic when it is there.
    fn carry_on(mut self) -> Planned<Turn> {
        Planned::of(|parts| {
            let (world, wanted) = (self.world, self.wanted());
            parts.add(self.look_after_baseline());
            let progress = self.progress();
            let is_ready = wanted > 0 && progress.is_ok();
            parts.add(self.spare_users());
            match self.planned().map(|step| step.weight) {
                // Another writer of the route may send users to the earlier pods, which go a little later.
                None if is_ready && wanted >= world.replicas() && self.contest.is_none() => {
                    return parts.join(self.take_over());
                }
                None => self.share_by_pods(),
                Some(weight) if is_ready && !self.has_shares(weight) && self.may_move() => {
                    parts.add(self.move_traffic(weight));
                }
                Some(_) => {}
            }
            if self.weight() > 0 || self.spared_since().is_some() {
                parts.add(Parts::look_within(until_next_window(self.world.now)));
            }
            parts.add(self.look_again_in_time());
            let leaving = parts.join(self.keep_both());
            let next = self.shortage().unwrap_or_else(|| self.why(progress));
            Turn { next: Some(next), rollout: self.recorded(leaving) }
        })
    }

    fn move_traffic(&mut self, weight: i32) -> Parts {
        let beside = self.rollout.baseline.as_ref();
        let beside = beside.map(|baseline| format!(", and {} as much", baseline.revision)).unwrap_or_default();
        let pods = counted_pods(self.wanted());
        let line = format!("plan {} receives {weight} % of the traffic, {pods}{beside}", self.target.hash);
        self.give_shares(weight);
        Parts::of_notes([Note::normal(Reason::RolloutProgressing, line)])
    }

    /// A canary that is alone gets the traffic as long as it is alone, whatever a person or a gateway says.
    fn may_move(&self) -> bool {
        if self.stable_pods() == 0 {
            return true;
        }
        let is_alone = self.weight() == 100 && self.stable_ready() == 0;
        !is_alone && self.paused_by().is_none() && self.is_route_there()
    }

    /// What is waited for.
    fn why(&self, progress: Step<()>) -> Blocked {
        let revision = self.target.hash.clone();
        if let Err(blocked) = progress {
            let weight = self.weight();
            let at_fault = self.broken_nodes().map(|message| Why::CanaryJudged {
                revision,
                weight,
                reason: Reason::NodeAtFault,
                message,
            });
            return at_fault.map_or(blocked, Blocked::Waiting);
        }
        if let Some(why) = route::problem(self.world) {
            return Blocked::Waiting(self.held_for_long(why));
        }
        let weight = self.weight();
        if let Some(by) = self.paused_by() {
            return Blocked::Waiting(Why::RolloutPaused { revision, weight, by, named: self.world.named() });
        }
        if let Some(message) = self.guarded.clone() {
            let why = Why::CanaryJudged { revision, weight, reason: Reason::GuardrailBlocking, message };
            return Blocked::Waiting(self.held_for_long(why));
        }
        let reason = reason(self.rollout.reason.as_deref());
        let message = self.rollout.message.clone().unwrap_or_else(|| "no evidence yet".to_owned());
        let message = self.with_remedy(reason, message);
        Blocked::Waiting(self.held_for_long(Why::CanaryJudged { revision, weight, reason, message }))
    }

    fn take_over(self) -> Planned<Turn> {
        let Self { world, stable, target, rollout, leaving, .. } = self;
        let Planned { value: rollout, parts } =
            promote(world, Some(stable), target, RolloutStatus { leaving, ..rollout });
        parts.and(Parts::look_within(LOOK)).with(Turn { next: None, rollout })
    }

    /// Stable first, whatever room was made for the canary.
    fn roll_back(mut self, reason: &str) -> Planned<Turn> {
        Planned::of(|parts| {
            if self.holds_several_places() && parts.join(self.hands_back(Some(reason))) {
                return parts.join(self.keep_handing_back());
            }
            let Self { world, stable, target, rollout, leaving, .. } = self;
            let reason: String =
                format!("at {} % of the traffic: {reason}", rollout.weight.unwrap_or(0)).chars().take(512).collect();
            let line = format!("plan {} {reason}; stable {stable} serves", target.hash);
            parts.add(Parts::of_notes([Note::warning(Reason::RolledBack, line)]));
            let rejected = with_rejection(world, target, (rollout.rejected, &reason));
            parts.add(keep(world, Some(stable)));
            let leaving = parts.join(remove_others(world, &[stable], leaving));
            let next = Some(Blocked::Stopped(why_rejected(world, target, reason)));
            let rollout =
                RolloutStatus { stable: Some(stable.to_owned()), leaving, rejected, ..RolloutStatus::default() };
            Turn { next, rollout }
        })
    }
}

/// The latest rejections, with that of the target.
fn with_rejection(
    world: &World,
    target: &Target,
    (mut rejected, reason): (Vec<RejectedPlan>, &str),
) -> Vec<RejectedPlan> {
    rejected.retain(|known| known.plan != target.hash);
    rejected.push(RejectedPlan {
        plan: target.hash.clone(),
        at: Time(world.now),
        reason: reason.to_owned(),
        retry: world.spec.rollout.retry.clone(),
        retry_annotation: world.annotated.value(Command::Retry).cloned(),
    });
    let surplus = rejected.len().saturating_sub(MAX_REJECTED);
    rejected.drain(..surplus);
    rejected
}

/// The rollout of this plan: as it was recorded, or opened now.
fn opened(world: &World, stable: &str, target: &Target, recorded: RolloutStatus) -> RolloutStatus {
    if recorded.canary.as_deref() == Some(&target.hash) {
        return recorded;
    }
    from_the_start(world, stable, target, recorded)
}

/// The rejection of a plan, unless a person asks for another try.
fn rejection(world: &World, target: &Target) -> Option<Why> {
    let rejected = world.status.rollout.as_ref()?.rejected.iter().find(|rejected| rejected.plan == target.hash)?;
    let commands = world.commands();
    let of_spec = commands.retry_of_spec(&target.hash).filter(|retry| Some(*retry) != rejected.retry.as_ref());
    let of_annotation = commands.retry_of_annotation(&target.hash);
    let of_annotation = of_annotation.filter(|retry| Some(*retry) != rejected.retry_annotation.as_ref());
    // While it is retried it is the canary; until then only a new token opens it.
    let is_tried = world.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref()) == Some(&target.hash);
    let is_new = of_spec.or(of_annotation).is_some();
    (!is_tried && !is_new).then(|| why_rejected(world, target, rejected.reason.clone()))
}

/// The stop of a plan that was rolled back.
fn why_rejected(world: &World, target: &Target, reason: String) -> Why {
    let retry = Retry { named: world.named(), token: target.hash.clone() };
    Why::PlanRejected(Box::new(Rejected { revision: target.hash.clone(), reason, retry }))
}

/// Stable goes on, and nothing else.
fn stand_still(world: &World, stable: &str, (recorded, next): (RolloutStatus, Blocked)) -> Planned<Turn> {
    Planned::of(|parts| {
        let settled = settled(stable, recorded);
        parts.add(keep(world, Some(stable)));
        let leaving = parts.join(remove_others(world, &[stable], settled.leaving));
        Turn { next: Some(next), rollout: RolloutStatus { leaving, ..settled } }
    })
}

/// The reason of a condition for what the judge says.
fn reason(code: Option<&str>) -> Reason {
    let known = [
        Reason::NoTraffic,
        Reason::EvidenceUnreachable,
        Reason::VerdictUnreachable,
        Reason::TrafficSplitMismatch,
        Reason::NodeAtFault,
    ];
    known.into_iter().find(|reason| Some(reason.as_str()) == code).unwrap_or(Reason::RolloutProgressing)
}
