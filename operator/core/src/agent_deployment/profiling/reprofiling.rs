//! Beside the five steps: what serves is measured anew, as `spec.profiling.schedule` asks, and after drift ([`after_drift`]). Pure.
//!
//! A repetition is a campaign of its own, with a number in its inputs, so that neither stored rows nor a kept revision stand in for it.
//! While it runs nothing else is touched. If it chooses otherwise, its number becomes a part of what the plan is made from, and the
//! choice is rolled out (or asked for) as that of an edited spec would be.

mod after_drift;
mod allowance;
mod verdict;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    identity::IdentityError,
    v1alpha1::{
        ProfileStatus,
        agent_deployment::{AdoptedCampaign, ReprofilingCause, ReprofilingResult, ReprofilingRun, ReprofilingStatus},
    },
};

use self::{after_drift::Call, verdict::Verdict};
use super::{Campaign, Conducted, Repetition, schedule::Schedule};
use crate::{
    agent_deployment::{
        draft::Draft,
        prepare::prepare,
        profiling,
        rollout::{build::controller_revision, revision::PlanInputs},
        status::{Background, Outcome},
        world::{OwnedObject, World},
    },
    plan::{AT_ONCE, Child, Note, SOON},
    why::{Blocked, Step, Why},
};

/// What the plan is made from: the spec, and the repetition whose choice was taken for it.
pub(in crate::agent_deployment) fn inputs(world: &World, spec: &str) -> PlanInputs {
    PlanInputs { spec: spec.to_owned(), repetition: adopted(world, spec).map_or(0, |adopted| adopted.number) }
}

/// The repetition whose choice was taken for this spec.
pub(in crate::agent_deployment) fn adopted<'a>(world: &'a World, spec: &str) -> Option<&'a AdoptedCampaign> {
    world.status.reprofiling.as_ref()?.adopted.as_ref().filter(|adopted| adopted.input_hash == spec)
}

/// Whether one is being measured.
pub(in crate::agent_deployment) fn is_under_way(world: &World) -> bool {
    world.status.reprofiling.as_ref().is_some_and(has_open_run)
}

fn has_open_run(state: &ReprofilingStatus) -> bool {
    state.run.as_ref().is_some_and(|run| run.ended_at.is_none())
}

/// The number of the next repetition. Numbers are given once, even where the status was lost and only the records of revisions remember
/// them.
pub(in crate::agent_deployment) fn next_number(world: &World) -> i32 {
    let recorded = world.revisions.iter().map(|revision| revision.inputs().repetition);
    let latest = world.status.reprofiling.as_ref().and_then(|state| state.run.as_ref()).map(|run| run.number);
    1 + recorded.chain(latest).max().unwrap_or(0)
}

/// Goes on with a repetition, or begins one that is due and affordable.
pub(in crate::agent_deployment) fn decide(
    world: &World,
    spec: &str,
    outcome: &Outcome,
    draft: &mut Draft,
) -> Result<Option<Background>, IdentityError> {
    let state = world.status.reprofiling.clone().unwrap_or_default();
    let call = after_drift::call(world, draft.status.drift.as_ref());
    let mut planner = Planner { world, spec, call, state };
    planner.decline(draft);
    let schedule = planner.set_clock();
    let mut held = None;
    if let (Ok(schedule), false) = (&schedule, has_open_run(&planner.state)) {
        held = planner.begin_if_due(schedule.as_ref(), outcome, draft);
    }
    let under_way = if has_open_run(&planner.state) { planner.go_on(draft)? } else { None };
    let background = under_way.map(Background::Measuring).or_else(|| {
        let why = match schedule {
            Err(why) => why,
            Ok(_) if planner.state.next_at.is_none() => return None,
            Ok(_) => held.unwrap_or_else(|| planner.planned(None, draft)),
        };
        Some(Background::Idle(why))
    });
    draft.status.reprofiling = (planner.state != ReprofilingStatus::default()).then_some(planner.state);
    Ok(background)
}

struct Planner<'a> {
    world: &'a World,
    /// Hash of the spec, as far as it decides a plan.
    spec: &'a str,
    /// What drift asks for.
    call: Option<Call>,
    state: ReprofilingStatus,
}

impl Planner<'_> {
    /// A proposal of a repetition's that a person does not want: what serves stays.
    fn decline(&mut self, draft: &mut Draft) {
        let proposed = self.world.status.rollout.as_ref().and_then(|rollout| rollout.proposed.as_ref());
        let is_declined = proposed.is_some_and(|p| self.world.spec.rollout.abort.as_ref() == Some(&p.plan_hash));
        let Some(adopted) = adopted(self.world, self.spec).filter(|_| is_declined) else { return };
        let line = format!(
            "plan {} is declined: spec.rollout.abort names it",
            self.world.spec.rollout.abort.as_deref().unwrap_or_default()
        );
        if let Some(run) = self.state.run.as_mut().filter(|run| run.number == adopted.number) {
            run.result = Some(ReprofilingResult::Declined);
            run.message = line.clone();
        }
        self.state.adopted = None;
        draft.notes.push(Note::normal(Reason::CampaignDiscarded, line));
        draft.requeue = AT_ONCE;
    }

    /// Takes over a schedule that is new or was edited, which counts from now on, and what drift asks for before its next time.
    fn set_clock(&mut self) -> Result<Option<Schedule>, Why> {
        let declared = self.world.spec.profiling.as_ref().and_then(|profiling| profiling.schedule.as_ref());
        let schedule = declared
            .map(|declared| Schedule::read(declared, self.world.now))
            .transpose()
            .map_err(|error| Why::SpecRefused { field: error.field(), problem: error.to_string() });
        let text = schedule.as_ref().ok().and_then(Option::as_ref).map(|schedule| schedule.text().to_owned());
        if text != self.state.schedule {
            self.set_by_schedule(schedule.as_ref().ok().and_then(Option::as_ref));
            self.state.schedule = text;
        }
        if self.state.because == ReprofilingCause::Drift {
            self.set_by_schedule(schedule.as_ref().ok().and_then(Option::as_ref));
        }
        if let Some(at) = self.call.as_ref().map(|call| Time(call.at))
            && self.state.next_at.as_ref().is_none_or(|next| at.0 < next.0)
        {
            self.state.next_at = Some(at);
            self.state.because = ReprofilingCause::Drift;
        }
        schedule
    }

    fn set_by_schedule(&mut self, schedule: Option<&Schedule>) {
        self.state.next_at = schedule.and_then(|schedule| schedule.next_after(self.world.now)).map(Time);
        self.state.because = ReprofilingCause::Schedule;
    }

    /// Begins where its time has come and nothing else is under way; else says what it waits for. However many times have passed
    /// unused, it begins once.
    fn begin_if_due(&mut self, schedule: Option<&Schedule>, outcome: &Outcome, draft: &mut Draft) -> Option<Why> {
        let due = self.state.next_at.as_ref().is_some_and(|at| at.0 <= self.world.now);
        if !due {
            return None;
        }
        if let Some(held) = held_by(self.world, outcome) {
            return Some(self.planned(Some(held), draft));
        }
        let gpu_hours = match self.allowance() {
            Ok(gpu_hours) => gpu_hours,
            Err(why) => return Some(why),
        };
        let number = next_number(self.world);
        let because = self.state.because;
        let asked = match (because, &self.call, schedule) {
            (ReprofilingCause::Drift, Some(call), _) => format!("after drift ({})", call.risk),
            (_, _, Some(schedule)) => format!("as {} asks", schedule.text()),
            (_, _, None) => "as it was due".to_owned(),
        };
        let line = format!("measurement {number} of what serves begins, {asked}: at most {gpu_hours} GPU hours");
        draft.notes.push(Note::normal(Reason::Profiling, line));
        self.set_by_schedule(schedule);
        self.state.run = Some(ReprofilingRun {
            number,
            because,
            input_hash: self.spec.to_owned(),
            profile: None,
            gpu_hours,
            started_at: Time(self.world.now),
            ended_at: None,
            result: None,
            message: String::new(),
            gpu_milliseconds: 0,
        });
        None
    }

    /// When it is measured again, and what came of it last.
    fn planned(&self, held: Option<&'static str>, draft: &mut Draft) -> Why {
        let at = self.state.next_at.as_ref().map(|at| at.0);
        if let (Some(at), None) = (at, held) {
            let left = std::time::Duration::try_from(at.duration_since(self.world.now)).unwrap_or_default();
            draft.requeue = draft.requeue.min(left.max(SOON));
        }
        let latest = self.state.run.as_ref().filter(|run| run.result.is_some()).map(|run| run.message.clone());
        let at = at.map(|at| at.to_string()).unwrap_or_default();
        match (self.state.because, &self.call) {
            (ReprofilingCause::Drift, Some(call)) => {
                Why::ReprofilingAfterDrift { at, held, risk: call.risk.clone(), latest }
            }
            (ReprofilingCause::Drift, None) | (ReprofilingCause::Schedule, _) => {
                Why::ReprofilingPlanned { at, held, latest }
            }
        }
    }

    /// The campaign's next step; nothing once it has ended.
    fn go_on(&mut self, draft: &mut Draft) -> Result<Option<Why>, IdentityError> {
        let Some(run) = self.state.run.clone() else { return Ok(None) };
        if run.input_hash != self.spec {
            self.supersede(&run, draft);
            return Ok(None);
        }
        let prepared = match prepare(self.world, draft)? {
            Ok(prepared) => prepared,
            Err(Blocked::Waiting(why)) => return Ok(Some(why)),
            Err(Blocked::Stopped(why)) => return Ok(self.failed(&why, draft)),
        };
        let repetition =
            Repetition { number: run.number, profile: run.profile.as_deref(), gpu_hours: Some(&run.gpu_hours) };
        let campaign = match profiling::campaign(self.world, &prepared, Some(repetition))? {
            Ok(campaign) => campaign,
            Err(Blocked::Waiting(why)) => {
                draft.requeue = draft.requeue.min(SOON);
                return Ok(Some(why));
            }
            Err(Blocked::Stopped(why)) => return Ok(self.failed(&why, draft)),
        };
        if let Some(run) = &mut self.state.run {
            run.profile = Some(campaign.name.clone());
        }
        Ok(self.carry_out(campaign, draft))
    }

    fn carry_out(&mut self, campaign: Campaign, draft: &mut Draft) -> Option<Why> {
        let Campaign { name, inputs, .. } = &campaign;
        match profiling::conduct(self.world, &campaign, draft) {
            Conducted::UnderWay(why) => return Some(why),
            Conducted::Failed(failure) => {
                self.end(ReprofilingResult::Failed, &format!("Profile {name} failed: {failure}"), draft);
            }
            Conducted::Infeasible { answer, .. } => {
                let message = format!("no configuration that Profile {name} measured meets spec.slo: {answer}");
                self.end(ReprofilingResult::Infeasible, &message, draft);
            }
            Conducted::Chosen(status, _) => match verdict::verdict(self.world, self.spec, inputs, status) {
                Verdict::Stays(message) => {
                    self.remember_stable(draft);
                    self.end(ReprofilingResult::Unchanged, &message, draft);
                }
                Verdict::Changes(message) => {
                    self.adopt(name.clone());
                    self.end(ReprofilingResult::Changed, &message, draft);
                }
            },
        }
        None
    }

    /// What serves is what this spec leads to, as of this measurement.
    fn remember_stable(&self, draft: &mut Draft) {
        let Some((stable, run)) =
            self.world.stable().and_then(|stable| self.world.revision(stable)).zip(self.state.run.as_ref())
        else {
            return;
        };
        let inputs = PlanInputs { spec: self.spec.to_owned(), repetition: run.number }.to_string();
        let record =
            controller_revision::controller_revision(self.world, &stable.hash, &inputs, (stable.number, &stable.plan));
        draft.children.push(Child::ControllerRevision(Box::new(record)));
    }

    fn adopt(&mut self, profile: String) {
        let number = self.state.run.as_ref().map_or(0, |run| run.number);
        self.state.adopted = Some(AdoptedCampaign { input_hash: self.spec.to_owned(), number, profile });
    }

    /// An edited spec has a campaign of its own, and this one's pods would be in its way.
    fn supersede(&mut self, run: &ReprofilingRun, draft: &mut Draft) {
        let own = self.world.campaigns.iter().find(|campaign| Some(&campaign.name) == run.profile.as_ref());
        draft.removals.extend(own.map(OwnedObject::removal));
        self.end(ReprofilingResult::Superseded, "the spec was edited meanwhile", draft);
    }

    fn failed(&mut self, why: &Why, draft: &mut Draft) -> Option<Why> {
        self.end(ReprofilingResult::Failed, &why.to_string(), draft);
        None
    }

    fn end(&mut self, result: ReprofilingResult, message: &str, draft: &mut Draft) {
        let Some(run) = &mut self.state.run else { return };
        let (is_well, reason) = match result {
            ReprofilingResult::Changed | ReprofilingResult::Unchanged => (true, Reason::ConfigurationFound),
            ReprofilingResult::Superseded | ReprofilingResult::Declined => (true, Reason::CampaignDiscarded),
            ReprofilingResult::Infeasible => (false, Reason::NoFeasibleConfiguration),
            ReprofilingResult::Failed => (false, Reason::ProfilingFailed),
        };
        let spent: Option<&ProfileStatus> = run.profile.as_ref().and_then(|name| self.world.profiles.get(name));
        run.gpu_milliseconds = spent.map_or(0, |status| status.gpu_milliseconds);
        run.ended_at = Some(Time(self.world.now));
        run.result = Some(result);
        run.message = format!("measurement {}: {message}", run.number).chars().take(512).collect();
        let line = run.message.clone();
        draft.notes.push(if is_well { Note::normal(reason, line) } else { Note::warning(reason, line) });
        self.account();
        draft.requeue = AT_ONCE;
    }
}

/// What else is under way: a campaign beside it would measure for a plan that is about to change, on nodes that are needed.
fn held_by(world: &World, outcome: &Outcome) -> Option<&'static str> {
    if outcome.serving.is_none() {
        return Some("a revision serves");
    }
    if world.replicas() == 0 {
        return Some("spec.serving.replicas is above 0");
    }
    match &outcome.next {
        None | Some(Ok(()) | Err(Blocked::Stopped(Why::PlanRejected { .. }))) => None,
        Some(Err(Blocked::Waiting(Why::AwaitingApproval { .. }))) => Some("the proposed plan is approved or declined"),
        Some(Err(Blocked::Waiting(_))) => Some("nothing else is under way"),
        Some(Err(Blocked::Stopped(_))) => Some("the AgentDeployment is stalled no more"),
    }
}
