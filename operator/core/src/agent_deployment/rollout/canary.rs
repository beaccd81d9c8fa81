//! A canary: pods first, then a share of the traffic, then a verdict, step by step. Pure.
//!
//! Everything that is decided is in the status before it is done: an operator that is replaced at any point goes on from there.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_analysis::judge::Verdict;
use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{LeavingRevision, RejectedPlan, RolloutStatus, TrafficType},
};

use super::{
    Blocked, Draft, Split, Step, Target, Why, World, build, capacity,
    guardrails::{self, Guarded},
    judge::{Case, Judged, until_next_window},
    keep, keep_split, promote, remove_others, route_contest, route_problem, settle,
    steps::{self, Planned},
    tell_of_start,
};
use crate::{agent_deployment::world::RouteView, plan::Note, why::counted_pods};

/// How soon the pods before are looked at after a revision has taken over: the length of a window of evidence.
pub(super) const LOOK: Duration = Duration::from_secs(10);
/// Rejected plans that are remembered.
const MAX_REJECTED: usize = 8;

/// Takes the rollout as far as it may go now.
pub(super) fn advance(world: &World, stable: &str, target: &Target, draft: &mut Draft) -> Option<Step<()>> {
    let refuse = |problem: String| Err(Blocked::Stopped(Why::SpecRefused { field: "spec.rollout.steps", problem }));
    if let Some(problem) = steps::problem(&world.spec.rollout) {
        stand_still(world, stable, draft);
        return Some(refuse(problem));
    }
    if let Some(rejected) = rejection(world, target) {
        stand_still(world, stable, draft);
        let (revision, reason) = (target.hash.clone(), rejected.reason.clone());
        return Some(Err(Blocked::Stopped(Why::PlanRejected { revision, reason })));
    }
    let mut canary = Canary::new(world, stable, target, opened(world, stable, target, draft));
    tell_of_start(world, target, canary.wanted(), draft);
    let is_aborted = canary.is_named_by(world.spec.rollout.abort.as_ref());
    if canary.is_to_give_way() && !is_aborted {
        return canary.give_way(draft);
    }
    let next = match canary.judge(draft) {
        Next::GoOn => canary.ask_for_room(draft),
        Next::RollBack(reason) => Next::RollBack(reason),
    };
    match next {
        Next::GoOn => canary.carry_on(draft),
        Next::RollBack(reason) => canary.roll_back(&reason, draft),
    }
}

/// What becomes of a plan when no pods are asked for: nothing that was rejected or is on trial takes over for want of pods that could
/// speak against it. Absent for a plan that nobody has seen yet: it takes the place of one that does not serve either.
pub(super) fn without_pods(world: &World, stable: &str, target: &Target, draft: &mut Draft) -> Option<Step<()>> {
    let revision = target.hash.clone();
    if let Some(rejected) = rejection(world, target) {
        stand_still(world, stable, draft);
        return Some(Err(Blocked::Stopped(Why::PlanRejected { revision, reason: rejected.reason.clone() })));
    }
    let recorded = draft.status.rollout.clone()?;
    let is_on_trial = recorded.canary.as_ref() == Some(&target.hash) && recorded.step.is_some();
    is_on_trial.then(|| {
        let canary = Canary::new(world, stable, target, from_the_start(world, stable, target, recorded));
        canary.keep_both(draft);
        canary.record(draft);
        Err(Blocked::Waiting(Why::RolloutWithoutPods { revision }))
    })
}

/// A canary that stands where several pods of stable stood gives their places back, pod by pod, before anything else is done: for
/// another plan, for stable's own, or for one that is not known yet.
pub(super) fn bring_back_first(
    world: &World,
    stable: &str,
    target: Option<&Target>,
    draft: &mut Draft,
) -> Option<Step<()>> {
    let rollout = draft.status.rollout.clone()?;
    let hash = rollout.canary.clone()?;
    let goes_on = target.is_some_and(|target| target.hash == hash) && steps::problem(&world.spec.rollout).is_none();
    // Without a record of it there is nothing that it could be kept by.
    let revision = world.revision(&hash).filter(|_| !goes_on)?;
    let target = Target { hash, input_hash: revision.input_hash.clone(), plan: revision.plan.clone() };
    let mut canary = Canary::new(world, stable, &target, rollout);
    let holds_several = canary.holds_several_places() && canary.hands_back(None, draft);
    holds_several.then(|| canary.keep_handing_back(draft))
}

/// What follows from the verdict.
pub(super) enum Next {
    GoOn,
    RollBack(String),
}

/// A rollout on its way.
pub(super) struct Canary<'a> {
    pub(super) world: &'a World,
    pub(super) stable: &'a str,
    pub(super) target: &'a Target,
    /// The steps, with the pods that there is room for; none where nothing splits the traffic.
    pub(super) schedule: Vec<Planned>,
    pub(super) rollout: RolloutStatus,
    /// Who else writes its route.
    contest: Option<Why>,
    /// Why a guardrail of the user's keeps it at its step.
    guarded: Option<String>,
}

impl<'a> Canary<'a> {
    fn new(world: &'a World, stable: &'a str, target: &'a Target, rollout: RolloutStatus) -> Self {
        let schedule = capacity::schedule(world, rollout.capacity.as_ref());
        Self { world, stable, target, schedule, rollout, contest: route_contest::why(world), guarded: None }
    }
}

impl Canary<'_> {
    /// Position of the step in the schedule, from 1; beyond its end the canary is about to take over.
    pub(super) fn step(&self) -> usize {
        self.rollout.step.and_then(|step| usize::try_from(step).ok()).unwrap_or(1).clamp(1, self.schedule.len() + 1)
    }

    pub(super) fn planned(&self) -> Option<&Planned> {
        self.schedule.get(self.step() - 1)
    }

    pub(super) fn weight(&self) -> i32 {
        self.rollout.weight.unwrap_or(0)
    }

    pub(super) fn set_weight(&mut self, weight: i32) {
        if weight != self.weight() {
            self.rollout.weight = Some(weight);
            let planned = self.planned().filter(|step| step.weight == weight);
            self.rollout.canary_share = Some(format!("{:.0}%", planned.map_or(f64::from(weight), |step| step.share)));
            self.note_other_shares();
        }
    }

    /// Another share is another load, and what was seen before is no part of the comparison.
    pub(super) fn note_other_shares(&mut self) {
        self.rollout.weight_since = Some(Time(self.world.now));
        self.rollout.guardrails.clear();
    }

    /// Pods that the step needs; all of them before the canary takes over.
    pub(super) fn needed(&self) -> i32 {
        self.planned().map_or(self.world.replicas(), |step| step.pods)
    }

    pub(super) fn is_named_by(&self, token: Option<&String>) -> bool {
        token.is_some_and(|token| *token == self.target.hash)
    }

    /// Reads the evidence, and takes the verdict into the rollout.
    fn judge(&mut self, draft: &mut Draft) -> Next {
        let spec = &self.world.spec.rollout;
        if self.is_named_by(spec.abort.as_ref()) {
            return Next::RollBack("spec.rollout.abort names it".to_owned());
        }
        if let Some(reason) = self.unready_under_traffic() {
            return Next::RollBack(reason);
        }
        let mut verdict = Verdict::Hold;
        if self.weight() > 0 && !self.schedule.is_empty() {
            let (declared, views) = (&spec.guardrails, &self.world.guardrails);
            match guardrails::judge(declared, views, self.world.now, &mut self.rollout) {
                Guarded::Clear => {}
                Guarded::Held(why) => self.guarded = Some(why),
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
        let Self { world, stable, target, schedule, rollout, contest: _, guarded: _ } = self;
        let may_advance = self.may_advance();
        Case { world, rollout, schedule, stable, canary: &target.hash, plan: &target.plan, may_advance }.judge()
    }

    /// A person, a guardrail of theirs, or somebody who writes its route keeps it at its step.
    fn is_held(&self) -> bool {
        self.world.spec.rollout.paused || self.contest.is_some() || self.guarded.is_some()
    }

    /// Not while it is held, and not before it has the share of its step.
    fn may_advance(&self) -> bool {
        !self.is_held() && self.planned().is_some_and(|step| self.has_shares(step.weight))
    }

    fn enter(&mut self, step: usize, draft: &mut Draft) {
        if step == self.step() {
            return;
        }
        self.rollout.step = i32::try_from(step).ok();
        let next = match self.planned() {
            Some(planned) => format!("{} % of the traffic with {} ready", planned.weight, counted_pods(planned.pods)),
            None => format!("it takes over with {} ready", counted_pods(self.needed())),
        };
        let line = format!("plan {} passed at {} %: {next}", self.target.hash, self.weight());
        draft.notes.push(Note::normal(Reason::RolloutAdvanced, line));
    }

    /// Brings up what the step needs and there is room for, and moves the traffic when it is there.
    pub(super) fn carry_on(mut self, draft: &mut Draft) -> Option<Step<()>> {
        let (world, wanted) = (self.world, self.wanted());
        self.look_after_baseline(draft);
        let progress = self.progress();
        let is_ready = wanted > 0 && matches!(progress, Ok(()));
        self.spare_users(draft);
        let planned = self.planned().map(|step| step.weight);
        match planned {
            // Whoever else writes the route may send users to the pods before, which go a little later.
            None if is_ready && wanted >= world.replicas() && self.contest.is_none() => {
                return self.take_over(draft);
            }
            None => self.share_by_pods(),
            Some(weight) if is_ready && !self.has_shares(weight) && self.may_move() => {
                let beside = self.rollout.baseline.as_ref();
                let beside = beside.map(|baseline| format!(", and {} as much", baseline.revision)).unwrap_or_default();
                let pods = counted_pods(wanted);
                let line = format!("plan {} is given {weight} % of the traffic, {pods}{beside}", self.target.hash);
                draft.notes.push(Note::normal(Reason::RolloutProgressing, line));
                self.give_shares(weight);
            }
            Some(_) => {}
        }
        if self.weight() > 0 || self.spared_since().is_some() {
            draft.requeue = draft.requeue.min(until_next_window(self.world.now));
        }
        self.look_again_in_time(draft);
        self.keep_both(draft);
        let why = self.shortage().unwrap_or_else(|| self.why(progress));
        self.record(draft);
        Some(why)
    }

    /// Writes the rollout down. Who leaves was found when it was said who stays.
    pub(super) fn record(self, draft: &mut Draft) {
        draft.status.rollout = Some(RolloutStatus { leaving: leaving(draft), ..self.rollout });
    }

    /// Both revisions and the baseline, with the pods and shares that the rollout gives them. Stable comes first.
    pub(super) fn keep_both(&self, draft: &mut Draft) {
        let (world, stable, target) = (self.world, self.stable, self.target);
        let baseline = self.rollout.baseline.as_ref().map(|baseline| (baseline.revision.as_str(), baseline.weight));
        let split = Split { stable: Some(stable), canary: Some((&target.hash, self.weight())), baseline };
        keep_split(world, split, self.stable_pods(), draft);
        draft.children.extend(build::serving::revision_children(world, &target.hash, &target.plan, self.wanted()));
        draft.children.extend(self.baseline_children());
        let kept = [stable, target.hash.as_str()].into_iter().chain(baseline.map(|(revision, _)| revision));
        remove_others(world, kept.collect(), draft);
    }

    /// A canary that nobody is left beside is sent to whatever a person or a gateway says, and as long as it is so.
    fn may_move(&self) -> bool {
        if self.stable_pods() == 0 {
            return true;
        }
        let is_alone = self.weight() == 100 && self.stable_ready() == 0;
        !is_alone && !self.world.spec.rollout.paused && self.is_route_there()
    }

    /// Traffic moves only through a route that a gateway serves and nobody else writes.
    pub(super) fn is_route_there(&self) -> bool {
        match self.world.spec.rollout.traffic.r#type {
            TrafficType::BlueGreen | TrafficType::ReplicaRatio => true,
            TrafficType::GatewayAPI => {
                let is_served = matches!(self.world.route, RouteView::Present { problem: None, .. });
                is_served && self.contest.is_none() && build::pool::problem(self.world).is_none()
            }
        }
    }

    /// What is waited for.
    fn why(&self, progress: Step<()>) -> Step<()> {
        let revision = self.target.hash.clone();
        match progress {
            Err(Blocked::Waiting(_)) | Err(Blocked::Stopped(_)) => return progress,
            Ok(()) => {}
        }
        if let Some(why) = route_problem(self.world) {
            return Err(Blocked::Waiting(self.held_for_long(why)));
        }
        let weight = self.weight();
        if self.world.spec.rollout.paused {
            return Err(Blocked::Waiting(Why::RolloutPaused { revision, weight }));
        }
        if let Some(message) = self.guarded.clone() {
            let why = Why::CanaryJudged { revision, weight, reason: Reason::GuardrailBlocking, message };
            return Err(Blocked::Waiting(self.held_for_long(why)));
        }
        let reason = reason(self.rollout.reason.as_deref());
        let message = self.rollout.message.clone().unwrap_or_else(|| "no evidence yet".to_owned());
        Err(Blocked::Waiting(self.held_for_long(Why::CanaryJudged { revision, weight, reason, message })))
    }

    fn take_over(self, draft: &mut Draft) -> Option<Step<()>> {
        let Self { world, stable, target, rollout, .. } = self;
        let rejected = rollout.rejected;
        draft.status.rollout = Some(RolloutStatus { leaving: leaving(draft), rejected, ..rollout_of(stable) });
        promote(world, Some(stable), target, draft);
        draft.requeue = draft.requeue.min(LOOK);
        None
    }

    /// Stable first, whatever room was made for the canary.
    pub(super) fn roll_back(mut self, reason: &str, draft: &mut Draft) -> Option<Step<()>> {
        if self.holds_several_places() && self.hands_back(Some(reason), draft) {
            return Some(self.keep_handing_back(draft));
        }
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
        draft.status.rollout = Some(RolloutStatus { leaving: leaving(draft), rejected, ..rollout_of(stable) });
        keep(world, Some(stable), draft);
        remove_others(world, vec![stable], draft);
        Some(Err(Blocked::Stopped(Why::PlanRejected { revision: target.hash.clone(), reason })))
    }
}

/// The rollout of this plan: as it was recorded, or opened now.
fn opened(world: &World, stable: &str, target: &Target, draft: &Draft) -> RolloutStatus {
    let recorded = draft.status.rollout.clone().unwrap_or_default();
    if recorded.canary.as_deref() == Some(&target.hash) {
        return recorded;
    }
    from_the_start(world, stable, target, recorded)
}

/// The rollout of this plan before anything has happened. Where nothing splits the traffic there are no steps and no shares.
pub(super) fn from_the_start(world: &World, stable: &str, target: &Target, recorded: RolloutStatus) -> RolloutStatus {
    let is_split = world.spec.rollout.traffic.r#type != TrafficType::BlueGreen;
    RolloutStatus {
        canary: Some(target.hash.clone()),
        step: is_split.then_some(1),
        weight: is_split.then_some(0),
        canary_share: is_split.then(|| "0%".to_owned()),
        rejected: recorded.rejected,
        ..rollout_of(stable)
    }
}

fn leaving(draft: &mut Draft) -> Vec<LeavingRevision> {
    draft.status.rollout.take().map(|rollout| rollout.leaving).unwrap_or_default()
}

fn rollout_of(stable: &str) -> RolloutStatus {
    RolloutStatus { stable: Some(stable.to_owned()), ..RolloutStatus::default() }
}

/// The rejection of a plan, unless `spec.rollout.retry` asks for another try.
fn rejection<'a>(world: &'a World, target: &Target) -> Option<&'a RejectedPlan> {
    let rejected = world.status.rollout.as_ref()?.rejected.iter().find(|rejected| rejected.plan == target.hash)?;
    let retry = retry_word(world, target);
    // While it is tried once more it stands as canary; until then only a new word opens it.
    let is_tried = world.status.rollout.as_ref().and_then(|rollout| rollout.canary.as_deref()) == Some(&target.hash);
    let is_new = retry.is_some() && retry != rejected.retry.as_ref();
    (!is_tried && !is_new).then_some(rejected)
}

/// What `spec.rollout.retry` says of this plan.
pub(super) fn retry_word<'a>(world: &'a World, target: &Target) -> Option<&'a String> {
    let is_for_it = |token: &&String| {
        token.strip_prefix(target.hash.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    world.spec.rollout.retry.as_ref().filter(is_for_it)
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
