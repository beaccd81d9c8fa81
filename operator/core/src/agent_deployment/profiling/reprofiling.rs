//! Beside the five steps: the serving choice is measured again, as `spec.profiling.schedule` asks, and after drift
//! ([`after_drift`]). Pure.
//!
//! A repetition is a campaign of its own, with a number in its inputs, so that neither stored rows nor a kept revision
//! replace it. While it runs nothing else is touched. If its choice differs, its number becomes a part of the plan's
//! inputs, and the choice is rolled out (or proposed) like that of an edited spec.

mod after_drift;
mod allowance;
mod verdict;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use slipway_crds::{
    conditions::Reason,
    identity::IdentityError,
    v1alpha1::{
        ProfileStatus,
        agent_deployment::{
            AdoptedCampaign, DriftStatus, ReprofilingCause, ReprofilingResult, ReprofilingRun, ReprofilingStatus,
        },
    },
    values::PositiveDecimal,
};

use self::{after_drift::Call, verdict::Verdict};
use super::{
    Campaign, Conducted, Repetition,
    repetitions::{adopted, has_open_run, next_number},
    schedule::Schedule,
};
use crate::{
    agent_deployment::{
        outcome::{Background, Outcome},
        parts::{Halt, Parts, Planned, Planning},
        prepare::prepare,
        profiling,
        rollout::{build::controller_revision, revision::PlanInputs},
        world::{OwnedObject, World},
    },
    plan::{AT_ONCE, Child, Note, SOON},
    why::{AfterDrift, Blocked, Why},
};

/// What is recorded of repetitions, and whether one is in progress.
pub(in crate::agent_deployment) struct Repeated {
    pub(in crate::agent_deployment) reprofiling: Option<ReprofilingStatus>,
    /// Absent where nothing is measured by schedule.
    pub(in crate::agent_deployment) background: Option<Background>,
}

/// Continues a repetition, or begins one that is due and affordable.
pub(in crate::agent_deployment) fn decide(
    world: &World,
    spec: &str,
    outcome: &Outcome,
    drift: Option<&DriftStatus>,
) -> Planned<Result<Repeated, IdentityError>> {
    Planned::of(|parts| {
        let state = world.status.reprofiling.clone().unwrap_or_default();
        let call = after_drift::call(world, drift);
        let mut planner = Planner { world, spec, call, state };
        parts.add(planner.decline());
        let schedule = planner.set_clock();
        let mut held = None;
        if let (Ok(schedule), false) = (&schedule, has_open_run(&planner.state)) {
            held = parts.join(planner.begin_if_due(schedule.as_ref(), outcome));
        }
        let under_way = if has_open_run(&planner.state) { parts.join(planner.go_on())? } else { None };
        let background = match (under_way, schedule) {
            (Some(why), _) => Some(Background::Measuring(why)),
            (None, Err(why)) => Some(Background::Idle(why)),
            (None, Ok(_)) if planner.state.next_at.is_none() => {
                after_drift::awaited(world, drift).map(Background::Idle)
            }
            (None, Ok(_)) => Some(Background::Idle(held.unwrap_or_else(|| parts.join(planner.planned(None))))),
        };
        let reprofiling = Some(planner.state).filter(|state| *state != ReprofilingStatus::default());
        Ok(Repeated { reprofiling, background })
    })
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
    /// A repetition's proposal that a person declines: the serving choice stays.
    fn decline(&mut self) -> Parts {
        let proposed = self.world.status.rollout.as_ref().and_then(|rollout| rollout.proposed.as_ref());
        let declined = proposed.and_then(|p| Some((&p.plan_hash, self.world.commands().aborts(&p.plan_hash)?)));
        let Some((plan, source)) = declined else { return Parts::default() };
        let Some(adopted) = adopted(self.world, self.spec) else { return Parts::default() };
        let line = format!("plan {plan} is declined: {source} names it");
        if let Some(run) = self.state.run.as_mut().filter(|run| run.number == adopted.number) {
            run.result = Some(ReprofilingResult::Declined);
            run.message = line.clone();
        }
        self.state.adopted = None;
        Parts::of_notes([Note::normal(Reason::CampaignDiscarded, line)]).and(Parts::look_within(AT_ONCE))
    }

    /// Takes over a schedule that is new or was edited, which counts from now on, and what drift asks for before its
    /// next time.
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

    /// Begins when it is due and nothing else is in progress; else says what it waits for. However many due times have
    /// passed, it begins once.
    fn begin_if_due(&mut self, schedule: Option<&Schedule>, outcome: &Outcome) -> Planned<Option<Why>> {
        let due = self.state.next_at.as_ref().is_some_and(|at| at.0 <= self.world.now);
        if !due {
            return Parts::default().with(None);
        }
        if let Some(held) = held_by(self.world, outcome) {
            let Planned { value, parts } = self.planned(Some(held));
            return parts.with(Some(value));
        }
        match self.allowance() {
            Ok(gpu_hours) => self.begin(schedule, gpu_hours).with(None),
            Err(why) => Parts::default().with(Some(why)),
        }
    }

    fn begin(&mut self, schedule: Option<&Schedule>, gpu_hours: PositiveDecimal) -> Parts {
        let number = next_number(self.world);
        let because = self.state.because;
        let asked = match (because, &self.call, schedule) {
            (ReprofilingCause::Drift, Some(call), _) => format!("after drift ({})", call.risk),
            (_, _, Some(schedule)) => format!("as {} asks", schedule.text()),
            (_, _, None) => "as planned".to_owned(),
        };
        let line = format!(
            "measurement {number} of the serving choice begins, {asked}: at most {gpu_hours} GPU \
                            hours"
        );
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
        Parts::of_notes([Note::normal(Reason::Profiling, line)])
    }

    /// When it is measured next, and the last outcome.
    fn planned(&self, held: Option<&'static str>) -> Planned<Why> {
        let at = self.state.next_at.as_ref().map(|at| at.0);
        let left = at.filter(|_| held.is_none()).map(|at| {
            let left = Duration::try_from(at.duration_since(self.world.now)).unwrap_or_default();
            left.max(SOON)
        });
        let latest = self.state.run.as_ref().filter(|run| run.result.is_some()).map(|run| run.message.clone());
        let at = at.map(|at| at.to_string()).unwrap_or_default();
        let why = match (self.state.because, &self.call) {
            (ReprofilingCause::Drift, Some(call)) => {
                let waits = match held {
                    None => AfterDrift::Rest { until: at },
                    Some(held) => AfterDrift::Else { since: at, held },
                };
                Why::ReprofilingAfterDrift { waits, risk: call.risk.clone(), latest }
            }
            (ReprofilingCause::Drift, None) | (ReprofilingCause::Schedule, _) => {
                Why::ReprofilingPlanned { at, held, latest }
            }
        };
        Parts { requeue: left, ..Parts::default() }.with(why)
    }

    /// The campaign's next step; nothing once it has ended.
    fn go_on(&mut self) -> Planned<Result<Option<Why>, IdentityError>> {
        let Some(run) = self.state.run.clone() else { return Parts::default().with(Ok(None)) };
        if run.input_hash != self.spec {
            return self.supersede(&run).with(Ok(None));
        }
        Planned::of(|parts| match parts.join(self.campaign(&run)) {
            Ok(campaign) => Ok(parts.join(self.carry_out(campaign))),
            Err(Halt::Blocked(Blocked::Waiting(why))) => Ok(Some(why)),
            Err(Halt::Blocked(Blocked::Stopped(why))) => {
                parts.add(self.end(ReprofilingResult::Failed, &why.to_string()));
                Ok(None)
            }
            Err(Halt::NoIdentity(error)) => Err(error),
        })
    }

    fn campaign(&self, run: &ReprofilingRun) -> Planning<Campaign> {
        Planned::of(|parts| {
            let prepared = parts.join(prepare(self.world))?;
            let repetition =
                Repetition { number: run.number, profile: run.profile.as_deref(), gpu_hours: Some(&run.gpu_hours) };
            let campaign = profiling::campaign(self.world, &prepared, Some(repetition));
            if matches!(campaign, Err(Halt::Blocked(Blocked::Waiting(_)))) {
                parts.add(Parts::look_within(SOON));
            }
            campaign
        })
    }

    fn carry_out(&mut self, campaign: Campaign) -> Planned<Option<Why>> {
        let Campaign { name, inputs, .. } = &campaign;
        if let Some(run) = &mut self.state.run {
            run.profile = Some(name.clone());
        }
        Planned::of(|parts| {
            match parts.join(profiling::conduct(self.world, &campaign)) {
                Conducted::UnderWay(why) => return Some(why),
                Conducted::Failed(failure) => {
                    parts.add(self.end(ReprofilingResult::Failed, &format!("Profile {name} failed: {failure}")));
                }
                Conducted::Infeasible { answer, .. } => {
                    let message = format!("no configuration that Profile {name} measured meets spec.slo: {answer}");
                    parts.add(self.end(ReprofilingResult::Infeasible, &message));
                }
                Conducted::Chosen(status, _) => match verdict::verdict(self.world, self.spec, inputs, status) {
                    Verdict::Stays(message) => {
                        parts.add(Parts::of_children(self.record_of_stable()));
                        parts.add(self.end(ReprofilingResult::Unchanged, &message));
                    }
                    Verdict::Changes(message) => {
                        self.adopt(name.clone());
                        parts.add(self.end(ReprofilingResult::Changed, &message));
                    }
                },
            }
            None
        })
    }

    /// What serves is what this spec leads to, as of this measurement.
    fn record_of_stable(&self) -> Option<Child> {
        let stable = self.world.stable().and_then(|stable| self.world.revision(stable))?;
        let run = self.state.run.as_ref()?;
        let inputs = PlanInputs { spec: self.spec.to_owned(), repetition: run.number }.to_string();
        let record =
            controller_revision::controller_revision(self.world, &stable.hash, &inputs, (stable.number, &stable.plan));
        Some(Child::ControllerRevision(Box::new(record)))
    }

    fn adopt(&mut self, profile: String) {
        let number = self.state.run.as_ref().map_or(0, |run| run.number);
        self.state.adopted = Some(AdoptedCampaign { input_hash: self.spec.to_owned(), number, profile });
    }

    /// An edited spec has a campaign of its own, and this one's pods would be in its way.
    fn supersede(&mut self, run: &ReprofilingRun) -> Parts {
        let own = self.world.campaigns.iter().find(|campaign| Some(&campaign.name) == run.profile.as_ref());
        let removal = Parts::of_removals(own.map(OwnedObject::removal));
        removal.and(self.end(ReprofilingResult::Superseded, "the spec was edited meanwhile"))
    }

    fn end(&mut self, result: ReprofilingResult, message: &str) -> Parts {
        let Some(run) = &mut self.state.run else { return Parts::default() };
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
        self.account();
        let note = if is_well { Note::normal(reason, line) } else { Note::warning(reason, line) };
        Parts::of_notes([note]).and(Parts::look_within(AT_ONCE))
    }
}

/// What else is under way: a campaign beside it would measure for a plan that is about to change, on nodes that are
/// needed.
fn held_by(world: &World, outcome: &Outcome) -> Option<&'static str> {
    if outcome.serving.is_none() {
        return Some("a revision serves");
    }
    if world.replicas() == 0 {
        return Some("spec.serving.replicas is above 0");
    }
    match &outcome.next {
        None | Some(Blocked::Stopped(Why::PlanRejected(_))) => None,
        Some(Blocked::Waiting(Why::AwaitingApproval(_))) => Some("the proposed plan is approved or declined"),
        Some(Blocked::Waiting(_)) => Some("nothing else is in progress"),
        Some(Blocked::Stopped(_)) => Some("the AgentDeployment is no longer stalled"),
    }
}
