//! The serving choice is measured again, as a schedule asks. The clock is the test's; it begins on a Thursday, at
//! midnight.

mod eligible;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_crds::v1alpha1::{
    agent_deployment::{Approval, Profiling, RejectedPlan, ReprofilingResult, ReprofilingRun, RolloutStatus, Stage},
    profile::{Measurement, MeasurementVerdict, ProfilePhase},
};

use super::{
    cluster::{Cluster, lines},
    profiling::{end, ended, message, profiled, row},
};
use crate::{
    agent_deployment::world::OwnedObject,
    plan::{Child, RemovalKind},
};

const DAY: i64 = 86_400;
/// From the beginning to the first Monday at three.
const TO_MONDAY: i64 = 4 * DAY + 3 * 3_600;

fn profiling(cluster: Cluster, edit: impl FnOnce(&mut Profiling)) -> Cluster {
    cluster.edited(|spec| edit(spec.profiling.as_mut().expect("it is profiled")))
}

fn scheduled(cluster: Cluster, schedule: &str) -> Cluster {
    let mut cluster = profiling(cluster, |profiling| {
        profiling.schedule = Some(serde_norway::from_str(schedule).expect("a schedule"));
    });
    cluster.settle();
    cluster
}

/// An agent of int8 that is measured every Monday at three.
fn weekly() -> Cluster {
    scheduled(ended(profiled(), ProfilePhase::Chosen).with_pods_ready(), "{cron: 0 3 * * 1}")
}

impl Cluster {
    fn after(mut self, seconds: i64) -> Self {
        self.pass(seconds);
        self.settle();
        self
    }

    fn run(&self) -> ReprofilingRun {
        let state = self.world.status.reprofiling.clone().expect("there is a schedule");
        state.run.expect("something was measured anew")
    }

    fn next_at(&self) -> String {
        let state = self.world.status.reprofiling.clone().expect("there is a schedule");
        state.next_at.map_or_else(|| "never".to_owned(), |at| at.0.to_string())
    }

    /// The repetition ends with these throughputs of int8, which serves, and of fp32, and chooses the higher one.
    fn measured_anew(mut self, int8: i64, fp32: i64) -> Self {
        let name = self.run().profile.expect("it has a Profile");
        let engines: Vec<String> = self.world.status.engines.iter().map(|engine| engine.name.clone()).collect();
        let best = if int8 >= fp32 { &engines[1] } else { &engines[0] };
        end(&mut self, &name, (ProfilePhase::Chosen, best.clone()));
        let feasible = |engine: &String, per_kilosecond: i64| Measurement {
            verdict: MeasurementVerdict::Feasible,
            per_kilosecond,
            per_kilosecond_error: None,
            ..row(engine)
        };
        let profile = self.world.profiles.get_mut(&name).expect("the Profile exists");
        profile.measurements = vec![feasible(&engines[1], int8), feasible(&engines[0], fp32)];
        profile.gpu_milliseconds = 1_800_000;
        self.settle();
        self
    }

    fn ended_anew(mut self, phase: ProfilePhase) -> Self {
        let name = self.run().profile.expect("it has a Profile");
        let engine = self.world.status.engines[1].name.clone();
        end(&mut self, &name, (phase, engine));
        self.settle();
        self
    }
}

fn condition(cluster: &Cluster, type_: &str) -> String {
    let found = cluster.world.status.conditions.iter().find(|c| c.type_ == type_);
    found.map_or_else(|| "absent".to_owned(), |c| format!("{} {}", c.status, c.reason))
}

#[test]
fn without_a_schedule_nothing_is_said_of_one() {
    let cluster = ended(profiled(), ProfilePhase::Chosen).with_pods_ready();
    assert_eq!((cluster.world.status.reprofiling.clone(), condition(&cluster, "Profiling").as_str()), (None, "absent"));
}

#[test]
fn nothing_is_measured_before_its_time_and_the_time_is_told() {
    let cluster = weekly().after(TO_MONDAY - 1);
    assert_eq!(message(&cluster, "Profiling"), "the serving choice is measured again at 2026-01-05T03:00:00Z");
    assert_eq!(
        (condition(&cluster, "Profiling").as_str(), cluster.world.profiles.len()),
        ("False ReprofilingPlanned", 1)
    );
    assert!(cluster.plan().requeue.as_secs() <= 5, "it is looked at in time: {:?}", cluster.plan().requeue);
}

#[test]
fn a_campaign_of_its_own_runs_beside_what_serves() {
    let mut waiting = weekly();
    let before = waiting.world.clone();
    waiting.pass(TO_MONDAY);
    let made = waiting.plan().children.into_iter().find_map(|child| match child {
        Child::Profile(profile) => Some(profile.spec.inputs),
        _ => None,
    });
    assert_eq!(made.and_then(|inputs| inputs.repetition), Some(1));
    waiting.settle();
    let states = ["Ready", "Reconciling", "Stalled", "Profiling"].map(|type_| condition(&waiting, type_));
    assert_eq!(states, ["True Serving", "False UpToDate", "False UpToDate", "True Profiling"]);
    let profile = waiting.run().profile.expect("it has a Profile");
    assert_eq!(message(&waiting, "Profiling"), format!("Profile {profile}: "));
    let after = &waiting.world;
    assert_eq!((after.profiles.len(), after.status.stage), (2, Some(Stage::Serving)));
    assert_eq!((&after.status.profile, &after.status.rollout), (&before.status.profile, &before.status.rollout));
    assert_eq!((&after.serving, &after.jobs), (&before.serving, &before.jobs));
}

#[test]
fn a_choice_that_holds_is_recorded_and_nothing_rolls_out() {
    let cluster = weekly().after(TO_MONDAY);
    let stable = cluster.stable();
    let cluster = cluster.measured_anew(2_000, 1_500);
    assert_eq!((cluster.run().result, cluster.stable()), (Some(ReprofilingResult::Unchanged), stable));
    let told = "the serving choice is measured again at 2026-01-12T03:00:00Z; measurement 1: the choice is unchanged: \
                int8/instances-2,max_batch-4 at 8 in flight, 2.00 requests a second";
    assert_eq!(message(&cluster, "Profiling"), told);
    assert_eq!((cluster.world.status.stage, cluster.world.serving.len()), (Some(Stage::Serving), 1));
}

#[test]
fn a_lead_within_what_campaigns_differ_by_changes_nothing() {
    let cluster = weekly().after(TO_MONDAY).measured_anew(2_000, 2_090);
    let run = cluster.run();
    assert_eq!(run.result, Some(ReprofilingResult::Unchanged));
    let told = "measurement 1: the choice is unchanged: fp32/instances-2,max_batch-4 at 8 in flight, 2.09 requests a second is not 5 % better than int8/instances-2,max_batch-4 at 8 in flight, 2.00 requests a second";
    assert_eq!((run.message.as_str(), cluster.world.serving.len()), (told, 1));
}

#[test]
fn a_clearly_better_choice_is_rolled_out_as_after_an_edit() {
    let cluster = weekly().after(TO_MONDAY);
    let old = cluster.stable();
    let cluster = cluster.measured_anew(2_000, 2_100);
    assert_eq!((cluster.run().result, cluster.stable()), (Some(ReprofilingResult::Changed), old.clone()));
    assert_ne!(cluster.canary(), old);
    let cluster = cluster.with_pods_ready();
    let plan = &cluster.world.revision(&cluster.stable()).expect("the plan is kept").plan;
    assert_eq!(plan.served.display_name(), "fp32");
    assert_eq!(
        (cluster.world.status.stage, cluster.world.status.profile.clone()),
        (Some(Stage::Serving), cluster.run().profile)
    );
}

#[test]
fn what_no_longer_meets_the_objectives_gives_way_to_what_does() {
    let mut cluster = weekly().after(TO_MONDAY);
    let name = cluster.run().profile.expect("it has a Profile");
    let engine = cluster.world.status.engines[0].name.clone();
    end(&mut cluster, &name, (ProfilePhase::Chosen, engine));
    cluster.settle();
    let run = cluster.run();
    assert_eq!(run.result, Some(ReprofilingResult::Changed));
    assert!(
        run.message.ends_with("replaces the serving choice, which was not measured or does not meet spec.slo"),
        "{}",
        run.message
    );
}

#[test]
fn a_choice_of_a_schedules_waits_for_approval_too_and_can_be_declined() {
    let asking = profiling(weekly(), |profiling| profiling.approval = Approval::Manual);
    let waiting = asking.after(TO_MONDAY).measured_anew(2_000, 3_000);
    let stable = waiting.stable();
    assert_eq!((waiting.world.status.stage, waiting.world.serving.len()), (Some(Stage::AwaitingApproval), 1));
    let hash = waiting.world.status.rollout.clone().and_then(|rollout| rollout.proposed).expect("a proposal").plan_hash;
    let decline =
        format!("To decline it, run `kubectl slipway abort support -n team`, or set spec.rollout.abort to {hash}");
    assert!(message(&waiting, "Suspended").ends_with(&decline));
    let approved = waiting.clone().edited(|spec| spec.rollout.approve = Some(hash.clone())).with_pods_ready();
    assert_eq!(approved.stable(), hash);
    let mut declined = waiting.edited(|spec| spec.rollout.abort = Some(hash.clone()));
    declined.settle();
    assert_eq!((declined.stable(), declined.world.status.stage), (stable, Some(Stage::Serving)));
    assert_eq!(declined.run().result, Some(ReprofilingResult::Declined));
    assert_eq!(declined.run().message, format!("plan {hash} is declined: spec.rollout.abort names it"));
}

#[test]
fn while_a_proposal_waits_nothing_is_measured() {
    let asking = profiling(weekly(), |profiling| profiling.approval = Approval::Manual);
    let waiting = asking.after(TO_MONDAY).measured_anew(2_000, 3_000).after(7 * DAY);
    let held = "measuring the serving choice again is due since 2026-01-12T03:00:00Z: it begins once the proposed plan is approved or declined";
    assert!(message(&waiting, "Profiling").starts_with(held), "{}", message(&waiting, "Profiling"));
    assert_eq!(waiting.run().number, 1);
}

#[test]
fn times_that_were_missed_are_made_up_for_once() {
    let cluster = weekly().after(TO_MONDAY + 5 * 7 * DAY);
    assert_eq!((cluster.run().number, cluster.next_at().as_str()), (1, "2026-02-16T03:00:00Z"));
    let cluster = cluster.measured_anew(2_000, 1_000).after(DAY);
    assert_eq!((cluster.run().number, cluster.run().result), (1, Some(ReprofilingResult::Unchanged)));
}

#[test]
fn a_rollout_is_waited_for() {
    let rolling = weekly().edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned());
    let mut rolling = ended(rolling, ProfilePhase::Chosen);
    let canary = rolling.canary();
    rolling = rolling.after(TO_MONDAY);
    let held = "measuring the serving choice again is due since 2026-01-05T03:00:00Z: it begins once nothing else is in progress";
    assert_eq!(message(&rolling, "Profiling"), held);
    let serving = rolling.with_pods_ready();
    assert_eq!((serving.stable(), serving.run().number), (canary, 1));
}

#[test]
fn a_time_that_comes_while_it_measures_begins_no_second_campaign() {
    let cluster = weekly().after(TO_MONDAY).after(14 * DAY);
    assert_eq!((cluster.run().number, cluster.world.profiles.len()), (1, 2));
    let cluster = cluster.measured_anew(2_000, 1_000);
    assert_eq!((cluster.run().number, cluster.world.profiles.len()), (2, 3));
}

#[test]
fn a_campaign_that_fails_disturbs_nobody() {
    let cluster = weekly().after(TO_MONDAY).ended_anew(ProfilePhase::Failed);
    let run = cluster.run();
    let profile = run.profile.clone().unwrap_or_default();
    let words = format!("measurement 1: Profile {profile} failed: the image has no program model-analyzer");
    assert_eq!((run.result, run.message), (Some(ReprofilingResult::Failed), words));
    let states = ["Ready", "Reconciling", "Stalled", "Profiling"].map(|type_| condition(&cluster, type_));
    assert_eq!(states, ["True Serving", "False UpToDate", "False UpToDate", "False ReprofilingPlanned"]);
}

#[test]
fn objectives_that_nothing_meets_any_more_leave_what_serves() {
    let cluster = weekly().after(TO_MONDAY);
    let stable = cluster.stable();
    let cluster = cluster.ended_anew(ProfilePhase::Infeasible);
    let told = "meets spec.slo: reply would be met with a max of 620ms or more";
    assert!(cluster.run().message.ends_with(told), "{}", cluster.run().message);
    assert_eq!((cluster.stable(), cluster.world.status.stage), (stable, Some(Stage::Serving)));
}

#[test]
fn an_edit_of_what_is_measured_ends_the_campaign_and_frees_its_pods() {
    let mut cluster = weekly().after(TO_MONDAY);
    let name = cluster.run().profile.expect("it has a Profile");
    let own = OwnedObject {
        kind: RemovalKind::Profile,
        name: name.clone(),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
    };
    cluster.world.campaigns = vec![own.clone()];
    let mut edited = cluster.edited(|spec| spec.slo.objectives[0].max = "600ms".parse().expect("a duration"));
    assert_eq!(edited.plan().removals, [own.removal()]);
    edited.settle();
    assert_eq!(
        (edited.run().result, edited.world.status.stage),
        (Some(ReprofilingResult::Superseded), Some(Stage::Profiling))
    );
}

#[test]
fn scaling_in_the_middle_changes_no_campaign() {
    let throughput = serde_norway::from_str("{min: '1', unit: Requests}").expect("a throughput");
    let agent = profiled().edited(|spec| spec.slo.throughput = Some(throughput));
    let weekly = scheduled(ended(agent, ProfilePhase::Chosen).with_pods_ready(), "{cron: 0 3 * * 1}");
    let measured = weekly.after(TO_MONDAY);
    let (run, campaigns) = (measured.run(), measured.world.profiles.len());
    let mut scaled = measured.edited(|spec| spec.serving.replicas = 3);
    scaled.settle();
    assert_eq!((scaled.run(), scaled.world.profiles.len()), (run, campaigns));
}

#[test]
fn a_schedule_that_cannot_be_kept_is_told_once_and_disturbs_nobody() {
    let mut cluster = weekly();
    cluster = profiling(cluster, |profiling| {
        profiling.schedule =
            Some(serde_norway::from_str("{cron: 0 3 * * 1, timeZone: Europe/Berln}").expect("a schedule"));
    });
    let problem = "spec.profiling.schedule.timeZone: \"Europe/Berln\" is not a time zone: write a name of the IANA \
                   database, such as Europe/Berlin, or leave it out for UTC";
    assert_eq!(lines(&cluster.plan()).last(), Some(&format!("Warning SpecRefused: {problem}")));
    cluster.settle();
    assert_eq!((message(&cluster, "Profiling").as_str(), cluster.plan().notes), (problem, vec![]));
    let states = ["Ready", "Reconciling", "Stalled", "Profiling"].map(|type_| condition(&cluster, type_));
    assert_eq!(states, ["True Serving", "False UpToDate", "False UpToDate", "False SpecRefused"]);
    assert_eq!((&cluster.world.status.reprofiling, cluster.world.status.stage), (&None, Some(Stage::Serving)));
}

#[test]
fn an_edited_schedule_counts_from_the_edit_on_and_changes_no_plan() {
    let cluster = weekly();
    let stable = cluster.stable();
    let cluster = scheduled(cluster.after(DAY), "{cron: 0 3 * * *, timeZone: Europe/Berlin}");
    assert_eq!((cluster.next_at().as_str(), cluster.stable()), ("2026-01-02T02:00:00Z", stable));
    assert_eq!((cluster.world.status.stage, cluster.world.profiles.len()), (Some(Stage::Serving), 1));
}

#[test]
fn an_agent_of_no_replicas_is_not_measured() {
    let scaled = weekly().edited(|spec| spec.serving.replicas = 0).after(TO_MONDAY);
    assert!(message(&scaled, "Profiling").ends_with("it begins once spec.serving.replicas is above 0"));
    let mut up = scaled.edited(|spec| spec.serving.replicas = 1).with_pods_ready();
    up.settle();
    assert_eq!(up.run().number, 1);
}

#[test]
fn a_month_costs_no_more_than_it_may() {
    let daily = scheduled(weekly(), "{cron: 0 3 * * *}");
    let mut cluster = profiling(daily, |profiling| profiling.budget.per_month = Some("1.2".parse().expect("a number")));
    let mut granted = Vec::new();
    for _ in 0..2 {
        cluster = cluster.after(DAY);
        granted.push(cluster.run().gpu_hours.to_string());
        cluster = cluster.measured_anew(2_000, 1_000);
    }
    // Half an hour was used each time.
    assert_eq!(granted, ["1.2", "0.7"]);
    cluster = cluster.after(DAY);
    let told = "spec.profiling.budget.perMonth: 1.00 of 1.2 GPU hours of 2026-01 are used, and a campaign takes about 0.50: it waits for the next month, or for a higher limit";
    assert_eq!((message(&cluster, "Profiling").as_str(), cluster.run().number), (told, 2));
    assert_eq!(condition(&cluster, "Profiling"), "False ReprofilingBudgetUsed");
    assert_eq!(cluster.after(31 * DAY).run().number, 3);
}

#[test]
fn a_spec_that_goes_back_gets_the_choice_that_was_measured_last_for_it() {
    let cluster = weekly().after(TO_MONDAY).measured_anew(2_000, 3_000).with_pods_ready();
    let (anew, profiles) = (cluster.stable(), cluster.world.profiles.len());
    let other = ended(cluster.edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned()), ProfilePhase::Chosen);
    let other = other.with_pods_ready();
    assert_ne!(other.stable(), anew);
    let back = other.edited(|spec| spec.agent.system_prompt = "Answer.".to_owned()).with_pods_ready();
    assert_eq!((back.stable(), back.world.profiles.len()), (anew, profiles + 1));
}

/// A schedule's choice that did harm blocks until a person, or the next measurement, confirms the serving choice.
#[test]
fn the_next_measurement_ends_the_stall_after_a_choice_that_did_harm() {
    let mut cluster = weekly().after(TO_MONDAY).measured_anew(2_000, 3_000);
    let (stable, harmful) = (cluster.stable(), cluster.canary());
    let rejected = RejectedPlan {
        plan: harmful,
        at: cluster.run().started_at,
        reason: "5 of 100 runs failed".to_owned(),
        retry: None,
        retry_annotation: None,
    };
    cluster.world.status.rollout =
        Some(RolloutStatus { stable: Some(stable.clone()), rejected: vec![rejected], ..RolloutStatus::default() });
    cluster.settle();
    assert_eq!(condition(&cluster, "Stalled"), "True RolledBack");
    let cluster = cluster.after(7 * DAY).measured_anew(3_000, 2_000);
    assert_eq!((condition(&cluster, "Stalled").as_str(), cluster.stable()), ("False UpToDate", stable));
    assert_eq!(cluster.world.status.stage, Some(Stage::Serving));
}

#[test]
fn a_lost_status_repeats_no_number() {
    let mut cluster = weekly().after(TO_MONDAY).measured_anew(2_000, 3_000).with_pods_ready();
    cluster.world.status.reprofiling = None;
    cluster.settle();
    let cluster = cluster.after(7 * DAY);
    assert_eq!(cluster.run().number, 2);
}

/// What befalls an agent that is measured by schedule.
#[derive(Debug, Clone)]
enum Event {
    Pass(i64),
    Prompt(u8),
    Scale(i32),
    ReadyPods,
    EndFirst(ProfilePhase),
    EndAnew(ProfilePhase),
    Schedule(Option<&'static str>),
}

fn phase() -> impl Strategy<Value = ProfilePhase> {
    prop_oneof![3 => Just(ProfilePhase::Chosen), 1 => Just(ProfilePhase::Infeasible), 1 => Just(ProfilePhase::Failed)]
}

fn event() -> impl Strategy<Value = Event> {
    let schedules = prop_oneof![
        Just(None),
        Just(Some("{cron: 0 3 * * *}")),
        Just(Some("{cron: 0 3 * * 1, timeZone: Asia/Tokyo}")),
        Just(Some("{cron: 0 25 * * *}")),
    ];
    prop_oneof![
        4 => (1..3 * DAY).prop_map(Event::Pass),
        1 => (0..3u8).prop_map(Event::Prompt),
        1 => (0..3i32).prop_map(Event::Scale),
        4 => Just(Event::ReadyPods),
        2 => phase().prop_map(Event::EndFirst),
        4 => phase().prop_map(Event::EndAnew),
        1 => schedules.prop_map(Event::Schedule),
    ]
}

fn befall(mut cluster: Cluster, event: Event) -> Cluster {
    let is_open = |cluster: &Cluster, name: &String| {
        let phase = cluster.world.profiles.get(name).map(|profile| profile.phase);
        phase.is_some_and(|phase| phase.is_none())
    };
    let engine = |cluster: &Cluster| cluster.world.status.engines[1].name.clone();
    match event {
        Event::Pass(seconds) => cluster.pass(seconds),
        Event::Prompt(text) => cluster = cluster.edited(|spec| spec.agent.system_prompt = format!("Answer {text}.")),
        Event::Scale(replicas) => cluster = cluster.edited(|spec| spec.serving.replicas = replicas),
        Event::ReadyPods => cluster.ready_pods(),
        Event::EndFirst(phase) => {
            if let Some(name) = cluster.world.status.profile.clone().filter(|name| is_open(&cluster, name)) {
                let engine = engine(&cluster);
                end(&mut cluster, &name, (phase, engine));
            }
        }
        Event::EndAnew(phase) => {
            let run = cluster.world.status.reprofiling.clone().and_then(|state| state.run);
            if let Some(name) = run.and_then(|run| run.profile).filter(|name| is_open(&cluster, name)) {
                let engine = engine(&cluster);
                end(&mut cluster, &name, (phase, engine));
            }
        }
        Event::Schedule(text) => {
            let schedule = text.map(|text| serde_norway::from_str(text).expect("a schedule"));
            cluster = profiling(cluster, |profiling| profiling.schedule = schedule);
        }
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever happens: numbers only rise, a campaign begins only while a revision serves and nothing rolls out, what
    /// serves is never left without its pods, and everything comes to rest.
    #[test]
    fn measuring_anew_never_gets_in_the_way(events in prop::collection::vec(event(), 0..40)) {
        let mut cluster = weekly();
        for event in events {
            let before = cluster.world.status.clone();
            cluster = befall(cluster, event);
            let plan = cluster.plan();
            prop_assert_eq!(&plan, &cluster.plan());
            let run = |status: &slipway_crds::v1alpha1::AgentDeploymentStatus| {
                status.reprofiling.clone().and_then(|state| state.run).map_or(0, |run| run.number)
            };
            prop_assert!(run(&plan.status) >= run(&before));
            if run(&plan.status) > run(&before) {
                let rollout = plan.status.rollout.clone().unwrap_or_default();
                prop_assert!(rollout.stable.is_some() && rollout.canary.is_none(), "{:?}", lines(&plan));
                prop_assert!(cluster.world.spec.serving.replicas > 0);
            }
            let campaigns = plan.children.iter().filter(|child| matches!(child, Child::Profile(_))).count();
            prop_assert!(campaigns <= 1, "{:?}", lines(&plan));
            cluster.settle();
            let stable = cluster.stable();
            prop_assert!(cluster.world.serving.contains_key(&stable));
            prop_assert_eq!(cluster.plan().notes, vec![], "told before");
        }
    }
}
