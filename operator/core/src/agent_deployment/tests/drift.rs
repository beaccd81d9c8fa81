//! What serves changes, or what users ask does. The clock is the test's, and so is what pods count.

mod attribution;
mod histories;
mod memories;

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time};
use pretty_assertions::assert_eq;
use slipway_crds::{
    commands::Command,
    v1alpha1::{
        agent_deployment::{
            DriftStatus, DriftVerdict, MonthlyUse, OnDrift, Profiling, ReprofilingCause, ReprofilingResult,
            ReprofilingRun, RolloutStatus,
        },
        profile::{Measurement, MeasurementVerdict, ProfilePhase},
    },
};
use slipway_vocabulary::evidence::{Evidence, RING_WINDOWS, Window};

use super::{
    cluster::{Cluster, lines, name_of},
    profiling::{end, ended, message, profiled, row},
};
use crate::agent_deployment::{
    monitoring::drift::{
        LivePod, Memory, MemoryView,
        config_map::KEY,
        simulated::{Dice, SLOWER, USUAL, Users},
    },
    world::World,
};

const BLOCK: i64 = 600;
const DAY: i64 = 86_400;
const MEMORY: &str = "ConfigMap support-drift";

/// An agent of int8 with two pods, from its first look on.
#[derive(Clone)]
struct Life {
    cluster: Cluster,
    dice: Dice,
    windows: [Vec<Window>; 2],
    images: [&'static str; 2],
    events: Vec<String>,
    /// How often the memory was written.
    writes: usize,
}

/// The memory is observed as it was written.
pub(super) fn remember(world: &mut World, object: &ConfigMap) {
    let text = object.data.as_ref().and_then(|data| data.get(KEY)).expect("a memory has its key");
    world.memory = MemoryView::Read(Box::new(Memory::read(text).expect("a memory reads what it wrote")));
}

fn serving() -> Cluster {
    ended(profiled(), ProfilePhase::Chosen).with_pods_ready()
}

fn profiling(cluster: Cluster, edit: impl FnOnce(&mut Profiling)) -> Cluster {
    cluster.edited(|spec| edit(spec.profiling.as_mut().expect("it is profiled")))
}

/// The same that is measured again after drift.
fn reprofiling() -> Cluster {
    profiling(serving(), |profiling| profiling.on_drift = OnDrift::Reprofile)
}

/// What users ask has changed, and a campaign for it waits for a person.
pub(super) fn proposing() -> Cluster {
    Life::of(reprofiling()).hours(25, USUAL).hours(6, LONGER).cluster
}

impl Life {
    fn of(mut cluster: Cluster) -> Self {
        // Pods count a window a little after its end.
        cluster.pass(5);
        let windows = [Vec::new(), Vec::new()];
        Self { cluster, dice: Dice(7), windows, images: ["sha256:1"; 2], events: Vec::new(), writes: 0 }
    }

    /// Users send for so many hours, and the operator looks after each block.
    fn hours(self, hours: i64, users: Users) -> Self {
        self.blocks(hours * 6, users)
    }

    fn blocks(mut self, blocks: i64, users: Users) -> Self {
        for _ in 0..blocks {
            self.count(users);
            self.settle();
        }
        self
    }

    fn count(&mut self, users: Users) {
        let first = u64::try_from(self.cluster.world.now.as_second() / BLOCK * BLOCK / 10).expect("after 1970");
        for windows in &mut self.windows {
            windows.extend([first + 15, first + 30].map(|id| users.window(&mut self.dice, id)));
            windows.retain(|window| window.id + RING_WINDOWS as u64 >= first + 60);
        }
        self.cluster.pass(BLOCK);
    }

    fn after(mut self, seconds: i64) -> Self {
        self.cluster.pass(seconds);
        self.settle();
        self
    }

    fn edited(mut self, edit: impl FnOnce(Cluster) -> Cluster) -> Self {
        self.cluster.world.live.clear();
        self.cluster = edit(self.cluster);
        self.settle();
        self
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.look();
            let plan = self.cluster.plan();
            self.events
                .extend(plan.notes.iter().map(|note| format!("{:?} {}: {}", note.severity, note.reason, note.message)));
            self.writes += plan.children.iter().filter(|child| name_of(child) == MEMORY).count();
            let before = self.cluster.world.status.clone();
            self.cluster.step();
            let is_written = plan.children.iter().any(|child| name_of(child) == MEMORY);
            if self.cluster.world.status == before && !is_written {
                return;
            }
        }
        panic!("no rest: {:?}", lines(&self.cluster.plan()));
    }

    fn look(&mut self) {
        let rollout = self.cluster.world.status.rollout.clone().unwrap_or_default();
        let is_compared = rollout.weight.is_some_and(|weight| weight > 0);
        let revision = rollout.stable.filter(|_| !is_compared);
        let pod = |revision: &String, pod: usize| {
            let evidence = Evidence {
                version: 1,
                revision: revision.clone(),
                pod: format!("{revision}-{pod}"),
                started_at: "2026-01-01T00:00:00Z".to_owned(),
                windows: self.windows[pod].clone(),
            };
            let images = ["agent-runtime", "triton"].map(|name| (name.to_owned(), self.images[pod].to_owned()));
            LivePod { evidence, images: BTreeMap::from(images) }
        };
        self.cluster.world.live = revision.iter().flat_map(|revision| [pod(revision, 0), pod(revision, 1)]).collect();
    }

    fn drift(&self) -> DriftStatus {
        self.cluster.world.status.drift.clone().expect("there was traffic")
    }

    fn condition(&self, type_: &str) -> String {
        let found = self.cluster.world.status.conditions.iter().find(|c| c.type_ == type_);
        found.map_or_else(|| "absent".to_owned(), |c| format!("{} {}", c.status, c.reason))
    }

    fn conditions(&self) -> [String; 2] {
        ["WorkloadDrift", "BehaviorDrift"].map(|type_| self.condition(type_))
    }

    fn told(&self, reason: &str) -> usize {
        self.events.iter().filter(|event| event.contains(&format!(" {reason}: "))).count()
    }

    /// The repetition ends, and int8, which serves, stays.
    fn measured_anew(mut self) -> Self {
        let name = self.run().profile.expect("it has a Profile");
        let engine = self.cluster.world.status.engines[1].name.clone();
        end(&mut self.cluster, &name, (ProfilePhase::Chosen, engine.clone()));
        let profile = self.cluster.world.profiles.get_mut(&name).expect("the Profile exists");
        profile.measurements = vec![Measurement { verdict: MeasurementVerdict::Feasible, ..row(&engine) }];
        self.settle();
        self
    }

    fn run(&self) -> ReprofilingRun {
        let state = self.cluster.world.status.reprofiling.clone().expect("drift was acted on");
        state.run.expect("something is measured anew")
    }

    fn campaigns(&self) -> usize {
        self.cluster.world.profiles.len()
    }
}

const LONGER: Users = Users { longer: 1.6, ..USUAL };
const NO_USERS: Users = Users { runs: 0, ..USUAL };

#[test]
fn before_the_first_traffic_nothing_is_said_and_nothing_is_written() {
    let life = Life::of(serving()).hours(2, NO_USERS);
    assert_eq!((life.cluster.world.status.drift.clone(), life.writes), (None, 0));
    assert_eq!(life.conditions(), ["absent", "absent"]);
}

#[test]
fn the_first_day_is_counted_and_written_once_a_block_and_the_status_does_not_follow_it() {
    let mut life = Life::of(serving()).hours(1, USUAL);
    let drift = life.drift();
    assert_eq!((drift.verdict, drift.baseline_until.clone(), life.writes), (DriftVerdict::Collecting, None, 6));
    let words = "the first day lasts until 2026-01-02T00:02:30Z; later traffic is compared with it";
    assert_eq!(
        (drift.message.as_str(), drift.unknown.as_slice()),
        (words, ["driver".to_owned(), "gpu".to_owned()].as_slice())
    );
    assert_eq!(life.conditions(), ["absent", "absent"]);
    life = life.hours(3, USUAL).hours(2, NO_USERS);
    assert_eq!((life.drift(), life.writes), (drift, 24));
}

#[test]
fn after_the_first_day_both_conditions_say_that_nothing_has_changed() {
    let life = Life::of(serving()).hours(36, USUAL);
    assert_eq!(life.conditions(), ["False NoDrift", "False NoDrift"]);
    let drift = life.drift();
    assert_eq!((drift.verdict, drift.signals, drift.risk), (DriftVerdict::NoDrift, vec![], None));
    let until = drift.baseline_until.map(|until| until.0.to_string());
    assert_eq!(until.as_deref(), Some("2026-01-02T00:00:00Z"));
    assert_eq!(life.events.iter().filter(|event| event.contains("Drift")).count(), 0, "{:?}", life.events);
}

#[test]
fn a_slower_model_is_told_once_and_starts_nothing_by_default() {
    let life = Life::of(serving()).hours(25, USUAL).hours(6, SLOWER);
    assert_eq!(life.conditions(), ["False NoDrift", "True BehaviorChanged"]);
    assert_eq!(
        (life.told("BehaviorChanged"), life.campaigns(), life.condition("Profiling").as_str()),
        (1, 1, "absent")
    );
    let drift = life.drift();
    assert!(drift.signals.contains(&"RequestLatency is slower".to_owned()), "{:?}", drift.signals);
    let risk = drift.risk.map(|risk| risk.message);
    assert_eq!(risk.as_deref(), Some("reply: RequestLatency is slower than on the first day"));
    let told = message(&life.cluster, "BehaviorDrift");
    assert!(
        told.starts_with("comparable work is served worse than on the first day: ") && told.contains("at risk: reply"),
        "{told}"
    );
    assert_eq!(
        (life.condition("Ready").as_str(), life.condition("Stalled").as_str()),
        ("True Serving", "False UpToDate")
    );
}

#[test]
fn slower_tools_are_told_and_put_no_objective_at_risk_that_measuring_could_mend() {
    let users = Users { slower_tools: 4.0, ..USUAL };
    let life = Life::of(reprofiling()).hours(25, USUAL).hours(6, users);
    assert_eq!(life.conditions(), ["False NoDrift", "True BehaviorChanged"]);
    assert_eq!((life.drift().risk, life.condition("Profiling").as_str()), (None, "absent"));
}

#[test]
fn an_objective_at_risk_is_measured_anew_seven_days_after_the_last_campaign() {
    let life = Life::of(reprofiling()).hours(25, USUAL).hours(6, SLOWER);
    assert_eq!((life.condition("Profiling").as_str(), life.campaigns()), ("False ReprofilingAfterDrift", 1));
    let words = "re-profiling after drift waits until 2026-01-08T00:00:00Z, seven days after the last campaign: reply: RequestLatency is \
                 slower than on the first day";
    assert_eq!(message(&life.cluster, "Profiling"), words);
    let life = life.after(6 * DAY);
    assert_eq!((life.condition("Profiling").as_str(), life.campaigns()), ("True Profiling", 2));
    assert_eq!((life.run().number, life.run().because), (1, ReprofilingCause::Drift));
    let begun = "measurement 1 of the serving choice begins, after drift (reply: RequestLatency is slower than on the first day): at most 8 GPU hours";
    assert!(life.events.contains(&format!("Normal Profiling: {begun}")), "{:?}", life.events);
    // What was found to stay is compared with itself from then on, and nothing is measured again.
    let life = life.measured_anew();
    let drift = life.drift();
    assert_eq!((drift.verdict, drift.risk), (DriftVerdict::Collecting, None));
    assert_eq!(drift.restarted.as_deref(), Some("measurement 1 confirmed the serving choice"));
    let result = life.run().result;
    assert_eq!((result, life.condition("Profiling").as_str()), (Some(ReprofilingResult::Unchanged), "absent"));
    let life = life.hours(25, SLOWER).hours(6, SLOWER).after(8 * DAY);
    assert_eq!((life.drift().verdict, life.campaigns()), (DriftVerdict::NoDrift, 2));
}

#[test]
fn a_time_of_the_schedule_is_not_hidden_by_a_later_one_of_drift() {
    let weekly = profiling(reprofiling(), |profiling| {
        profiling.schedule = Some(serde_norway::from_str("{cron: 0 3 * * 1}").expect("a schedule"));
    });
    let mut life = Life::of(weekly).hours(25, USUAL).hours(6, SLOWER);
    // As a campaign leaves it that began after drift was found: the next is put off by seven days.
    let state = life.cluster.world.status.reprofiling.as_mut().expect("there is a schedule");
    state.because = ReprofilingCause::Drift;
    state.next_at = Some(Time("2026-01-08T00:00:00Z".parse().expect("a time")));
    life.settle();
    let state = life.cluster.world.status.reprofiling.expect("there is a schedule");
    let next = state.next_at.map(|at| at.0.to_string());
    assert_eq!((state.because, next.as_deref()), (ReprofilingCause::Schedule, Some("2026-01-05T03:00:00Z")));
}

#[test]
fn a_campaign_after_drift_that_fails_is_not_repeated_for_seven_days() {
    let mut life = Life::of(reprofiling()).hours(25, USUAL).hours(6, SLOWER).after(6 * DAY);
    let name = life.run().profile.expect("it has a Profile");
    let engine = life.cluster.world.status.engines[1].name.clone();
    end(&mut life.cluster, &name, (ProfilePhase::Failed, engine));
    life.settle();
    let told = message(&life.cluster, "Profiling");
    assert!(told.starts_with("re-profiling after drift waits until 2026-01-15T"), "{told}");
    assert!(told.ends_with("the image has no program model-analyzer"), "{told}");
    let life = life.after(5 * DAY);
    assert_eq!(life.campaigns(), 2);
    assert_eq!(life.after(2 * DAY).campaigns(), 3);
}

#[test]
fn a_month_without_budget_holds_it_back_with_numbers() {
    let budgeted = profiling(reprofiling(), |profiling| {
        profiling.budget.per_month = Some("0.5".parse().expect("a number"));
    });
    let mut life = Life::of(budgeted).hours(25, USUAL).hours(6, SLOWER);
    let state = life.cluster.world.status.reprofiling.get_or_insert_default();
    state.month = Some(MonthlyUse { month: "2026-01".to_owned(), gpu_milliseconds: 1_800_000 });
    let life = life.after(7 * DAY);
    assert_eq!((life.condition("Profiling").as_str(), life.campaigns()), ("False ReprofilingBudgetUsed", 1));
    assert!(message(&life.cluster, "Profiling").contains("0.50 of 0.5 GPU hours of 2026-01 are used"));
}

#[test]
fn other_work_is_proposed_to_be_measured_and_a_word_is_good_for_one_measurement() {
    let life = Life::of(reprofiling()).hours(25, USUAL).hours(6, LONGER);
    assert_eq!(life.conditions(), ["True WorkloadChanged", "absent"]);
    let word = format!("{}-1", life.cluster.stable());
    assert_eq!((life.drift().proposal, life.drift().risk, life.told("WorkloadChanged")), (Some(word.clone()), None, 1));
    let told = message(&life.cluster, "WorkloadDrift");
    let remedy = format!(
        "Then run `kubectl slipway approve support -n team`, or set spec.profiling.approveReprofiling to {word}, to \
         measure again"
    );
    assert!(told.ends_with(&remedy), "{told}");
    let approve = |word: &str| {
        let word = word.to_owned();
        move |cluster| profiling(cluster, |profiling| profiling.approve_reprofiling = Some(word))
    };
    let life = life.after(8 * DAY).edited(approve("another-1"));
    assert_eq!((life.campaigns(), life.condition("Profiling").as_str()), (1, "absent"));
    // A person need not wait for seven days.
    let life = life.edited(approve(&word));
    assert_eq!(
        (life.campaigns(), life.condition("Profiling").as_str(), life.drift().proposal),
        (2, "True Profiling", None)
    );
    let life = life.measured_anew();
    assert_eq!((life.drift().verdict, life.campaigns()), (DriftVerdict::Collecting, 2));
    assert_eq!(life.after(8 * DAY).campaigns(), 2, "the word is spent");
}

#[test]
fn a_measurement_is_approved_beside_the_spec_and_the_annotation_is_good_for_one() {
    let life = Life::of(reprofiling()).hours(25, USUAL).hours(6, LONGER);
    let (word, generation) = (format!("{}-1", life.cluster.stable()), life.cluster.world.generation);
    let approve = |word: &str| {
        let word = word.to_owned();
        move |cluster: Cluster| cluster.told(Command::ApproveReprofiling, &word)
    };
    let life = life.edited(approve(&word.replace("-1", "-2")));
    assert_eq!((life.campaigns(), life.condition("Profiling").as_str()), (1, "absent"), "it is for another one");
    let life = life.edited(approve(&word));
    assert_eq!((life.campaigns(), life.condition("Profiling").as_str()), (2, "True Profiling"));
    assert_eq!(life.cluster.world.generation, generation);
    let life = life.measured_anew();
    assert_eq!(life.after(8 * DAY).campaigns(), 2, "the annotation is spent");
}

#[test]
fn by_default_other_work_is_told_and_nothing_is_proposed() {
    let life = Life::of(serving()).hours(25, USUAL).hours(6, LONGER);
    assert_eq!(
        (life.conditions(), life.drift().proposal),
        (["True WorkloadChanged".to_owned(), "absent".to_owned()], None)
    );
    let told = message(&life.cluster, "WorkloadDrift");
    assert!(
        told.contains("OutputTokensPerRun is higher") && told.contains("Update spec.profiling.workloads"),
        "{told}"
    );
}

#[test]
fn drift_that_is_over_is_told_too() {
    let life = Life::of(serving()).hours(25, USUAL).hours(6, SLOWER).hours(48, USUAL);
    assert_eq!(life.conditions(), ["False NoDrift", "False NoDrift"]);
    assert_eq!((life.told("BehaviorChanged"), life.told("NoDrift")), (1, 1));
}

#[test]
fn pods_with_another_image_are_left_out_until_no_other_is_left() {
    let mut life = Life::of(serving()).hours(25, USUAL);
    life.images[1] = "sha256:2";
    let mut life = life.hours(1, USUAL);
    let drift = life.drift();
    let left_out = "in other pods image.agent-runtime was sha256:1 and is sha256:2";
    assert_eq!((drift.verdict, drift.left_out.as_deref()), (DriftVerdict::NoDrift, Some(left_out)));
    life.images[0] = "sha256:2";
    let life = life.hours(1, Users { slower: 3.0, ..USUAL });
    let drift = life.drift();
    let because = "image.agent-runtime was sha256:1 and is sha256:2, which cannot be compared";
    assert_eq!((drift.verdict, drift.restarted.as_deref()), (DriftVerdict::Collecting, Some(because)));
    assert_eq!((life.told("DriftBaselineRestarted"), life.told("BehaviorChanged")), (1, 0));
}

#[test]
fn while_a_canary_has_a_share_nothing_is_counted() {
    let mut life = Life::of(serving()).hours(25, USUAL);
    let (stable, writes, before) = (life.cluster.stable(), life.writes, life.drift());
    // As a rollout leaves it: the record of the canary's plan is no concern here.
    let share = |weight| RolloutStatus { stable: Some(stable.clone()), weight, ..RolloutStatus::default() };
    life.cluster.world.status.rollout = Some(share(Some(20)));
    life.look();
    life.count(USUAL);
    let (world, rollout) = (&life.cluster.world, life.cluster.world.status.rollout.as_ref());
    let planned = crate::agent_deployment::monitoring::drift::decide::decide(world, rollout);
    let paused = DriftStatus { paused: true, ..before.clone() };
    assert_eq!((planned.value, planned.parts.children.len()), (Some(paused.clone()), 0));
    life.cluster.world.status.drift = Some(paused);
    life.cluster.world.status.rollout = Some(share(None));
    life.settle();
    let resumed = life.drift();
    assert_eq!((resumed.paused, resumed.resumed_at.map(|at| at.0)), (false, Some(life.cluster.world.now)));
    assert_eq!(life.writes, writes, "what was counted beside a canary is left out");
    assert_eq!(life.hours(1, USUAL).writes, writes + 6);
}

#[test]
fn another_plan_has_a_first_day_of_its_own() {
    let mut life = Life::of(serving()).hours(25, USUAL).hours(6, SLOWER);
    let old = life.cluster.stable();
    life.windows = [Vec::new(), Vec::new()];
    let edited = |cluster: Cluster| {
        ended(cluster.edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned()), ProfilePhase::Chosen)
            .with_pods_ready()
    };
    let life = life.edited(edited);
    assert_ne!(life.cluster.stable(), old);
    assert_eq!(
        (life.cluster.world.status.drift.clone(), life.conditions()),
        (None, ["absent".to_owned(), "absent".to_owned()])
    );
    let drift = life.hours(1, SLOWER).drift();
    assert_eq!((drift.verdict, drift.restarted, drift.revision == old), (DriftVerdict::Collecting, None, false));
}

#[test]
fn receivers_are_told_of_drift_once_and_that_another_plan_ends_it() {
    let mut life = Life::of(serving().alerting()).hours(25, USUAL);
    life.cluster.heard.clear();
    let mut life = life.hours(6, SLOWER);
    let heard = life.cluster.heard.first().expect("it is told");
    let words = "comparable work is served worse than on the first day: RequestLatency is slower (log-evidence ";
    assert!(heard.topic.to_string() == "drift" && heard.message.starts_with(words), "{}", heard.message);
    assert_eq!(life.cluster.news(), ["BehaviorDrift warning"]);
    life.windows = [Vec::new(), Vec::new()];
    let edited = |cluster: Cluster| {
        ended(cluster.edited(|spec| spec.agent.system_prompt = "Be brief.".to_owned()), ProfilePhase::Chosen)
            .with_pods_ready()
    };
    let mut life = life.edited(edited);
    let news = life.cluster.news();
    assert_eq!(news.iter().filter(|news| *news == "DriftEnded info").count(), 1, "{news:?}");
}

#[test]
fn a_manifest_of_before_leads_to_the_plan_that_it_led_to() {
    let of = |cluster: &Cluster| {
        crate::agent_deployment::rollout::revision::input_hash(&crate::agent_deployment::defaults::completed(
            &cluster.world,
        ))
        .expect("a spec has a hash")
        .as_str()
        .to_owned()
    };
    let approved =
        profiling(reprofiling(), |profiling| profiling.approve_reprofiling = Some("7c1f9a2b3d-1".to_owned()));
    assert_eq!(of(&approved), of(&serving()));
}
