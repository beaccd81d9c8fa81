//! Stores over time. The clock is the test's, and so are the objects of the namespace.

mod bounds;
mod histories;
mod quality_jobs;

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::ResourceExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_crds::{
    labels::{self, Component},
    store::{StoreItem, StoreRecord, SweepEnd, SweepFigures},
    v1alpha1::{AgentDeployment, Engine},
};
use slipway_worker_contract::{FailureClass, FetchResult, Outcome, SweepResult, SweepTask, Task};

use super::{
    decide::decide,
    references::{Namespace, References},
    world::{SeenJob, SeenTask, StoreWorld},
};
use crate::{
    agent_deployment::engine_users::Users,
    jobs::view::{JobPhase, JobView},
    plan::{Child, Plan, RemovalKind},
};

pub(super) const DAY: i64 = 86_400;

/// A digest that begins with a number.
pub(super) fn digest(number: usize) -> String {
    format!("{number:064x}")
}

/// The namespace, with the operator in it.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) now: Timestamp,
    pub(super) settings: &'static str,
    pub(super) namespace: Namespace,
    pub(super) record: StoreRecord,
    is_readable: bool,
    /// What lists show, where it is not the namespace as it is.
    pub(super) shown: Option<References>,
    pub(super) sweeps: BTreeMap<String, JobPhase>,
    tasks: BTreeMap<String, SweepTask>,
    /// Lists of all sweeps, as their Jobs began.
    pub(super) begun: Vec<SweepTask>,
    events: Vec<String>,
}

impl Life {
    pub(super) fn new() -> Self {
        Self {
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            settings: "{images: {worker: w, agentRuntime: r}, store: {retention: {seconds: 604800}}}",
            namespace: Namespace::default(),
            record: StoreRecord::default(),
            is_readable: true,
            shown: None,
            sweeps: BTreeMap::new(),
            tasks: BTreeMap::new(),
            begun: Vec::new(),
            events: Vec::new(),
        }
    }

    /// An agent that serves engine 1 of checkpoint 9.
    fn serving() -> Self {
        let mut life = Self::new();
        life.namespace.users.agent_deployments = vec![agent("support", 9, &["engine-1"])];
        life.namespace.engines = vec![engine(1, 9, Some(10))];
        life.looked(0)
    }

    pub(super) fn world(&self) -> StoreWorld {
        let sweep = |(name, phase): (&String, &JobPhase)| SeenJob {
            view: JobView::in_phase(name, phase.clone()),
            component: Component::Sweep.as_str().to_owned(),
            uid: name.clone(),
            resource_version: "1".to_owned(),
        };
        let other = |job: &Job| SeenJob {
            view: self.namespace.views[&job.name_any()].clone(),
            component: job.labels()[labels::APP_COMPONENT].clone(),
            uid: job.name_any(),
            resource_version: "1".to_owned(),
        };
        let task = |name: &String| SeenTask { name: name.clone(), uid: name.clone(), resource_version: "1".to_owned() };
        StoreWorld {
            now: self.now,
            settings: Arc::new(serde_norway::from_str(self.settings).expect("settings")),
            namespace: "team".to_owned(),
            owner: OwnerReference {
                name: "slipway-store".to_owned(),
                uid: "uid-1".to_owned(),
                ..OwnerReference::default()
            },
            record: self.record.clone(),
            references: self.is_readable.then(|| self.shown.clone().unwrap_or_else(|| References::of(&self.namespace))),
            jobs: self.sweeps.iter().map(sweep).chain(self.namespace.jobs.iter().map(other)).collect(),
            tasks: self.tasks.keys().map(task).collect(),
        }
    }

    /// A look of the operator's.
    pub(super) fn look(&mut self) -> Plan<StoreRecord> {
        let plan = decide(&self.world());
        assert_eq!(plan, decide(&self.world()), "the same world gives the same plan");
        self.record = plan.status.clone();
        self.events.extend(plan.notes.iter().map(|note| format!("{} {}", note.reason, note.message)));
        for child in &plan.children {
            match child {
                Child::ConfigMap(object) => {
                    let text = &object.data.as_ref().expect("a task")["task.json"];
                    let Ok(Task::Sweep(task)) = Task::parse(text.as_bytes()) else { panic!("{text}") };
                    self.tasks.insert(object.name_any(), task);
                }
                Child::Job(job) => {
                    assert!(!self.sweeps.contains_key(&job.name_any()), "a second Job of that name");
                    self.begun.push(self.tasks[&job.name_any()].clone());
                    self.sweeps.insert(job.name_any(), JobPhase::Running { started_at: None });
                }
                other => panic!("{other:?}"),
            }
        }
        for removal in &plan.removals {
            match removal.kind {
                RemovalKind::Job => {
                    self.sweeps.remove(&removal.name);
                    self.namespace.jobs.retain(|job| job.name_any() != removal.name);
                    self.namespace.views.remove(&removal.name);
                }
                RemovalKind::ConfigMap => drop(self.tasks.remove(&removal.name)),
                other => panic!("{other:?}"),
            }
        }
        plan
    }

    /// So much later, looked at until nothing changes.
    fn looked(mut self, seconds: i64) -> Self {
        self.pass(seconds);
        for _ in 0..10 {
            let before = (self.record.clone(), self.sweeps.len(), self.tasks.len(), self.namespace.jobs.len());
            drop(self.look());
            if before == (self.record.clone(), self.sweeps.len(), self.tasks.len(), self.namespace.jobs.len()) {
                return self;
            }
        }
        panic!("no rest: {:#?}", self.record);
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// The Job of the sweep in progress ends.
    pub(super) fn end_sweep(&mut self, phase: JobPhase) {
        let running = self.sweeps.values_mut().find(|phase| matches!(phase, JobPhase::Running { .. }));
        *running.expect("a sweep is in progress") = phase;
    }

    fn swept(mut self, result: SweepResult) -> Self {
        self.end_sweep(JobPhase::Succeeded { outcome: Box::new(Outcome::Sweep(result)), milliseconds: 5 });
        self.looked(0)
    }

    fn edited(mut self, edit: impl FnOnce(&mut Namespace)) -> Self {
        edit(&mut self.namespace);
        self.looked(0)
    }

    fn held(&self) -> Vec<(String, Vec<String>)> {
        let short = |folder: &String| folder.replace(&"0".repeat(62), "");
        self.record.items.iter().map(|(folder, item)| (short(folder), item.held_by.clone())).collect()
    }
}

pub(super) fn agent(name: &str, source: usize, engines: &[&str]) -> AgentDeployment {
    let engines: Vec<Value> =
        engines.iter().map(|name| json!({"name": name, "precision": "FP32", "state": ""})).collect();
    let object = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": name},
        "spec": {"model": {"uri": "hf://a/b"}, "engine": {"backend": "Custom"}, "agent": {"systemPrompt": "x"}},
        "status": {"engines": engines, "model": {"uri": "hf://a/b", "pinnedUri": "hf://a/b@1",
            "sourceDigest": digest(source), "sizeBytes": 400, "fetched": true}},
    });
    serde_json::from_value(object).expect("an AgentDeployment")
}

pub(super) fn engine(number: usize, source: usize, artifact: Option<usize>) -> Engine {
    let artifact = artifact.map(|artifact| {
        json!({"manifestDigest": digest(artifact), "location": "", "sizeBytes": 1_000, "buildMilliseconds": 5})
    });
    let object = json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Engine", "metadata": {"name": format!("engine-{number}")},
        "spec": {
            "build": {"backend": "Custom", "sourceDigest": digest(source), "precision": "FP32",
                "builderImageDigest": "sha256:b"},
            "placement": {"builderImage": "example.com/builder:1"},
        },
        "status": {"artifact": artifact},
    });
    serde_json::from_value(object).expect("an Engine")
}

/// A fetch Job that ended well.
pub(super) fn fetch_job(namespace: &mut Namespace, source: usize, at: Timestamp) {
    let name = format!("fetch-{source}");
    let job = json!({"metadata": {
        "name": name, "labels": {labels::APP_COMPONENT: "fetch"},
        "annotations": {labels::FETCH_CONTENT: digest(source)},
    }});
    let source_digest = digest(source).parse().expect("a digest");
    let result = FetchResult { source_digest, files: 1, bytes: 400, transferred_bytes: 400, millis: 5 };
    let phase = JobPhase::Succeeded { outcome: Box::new(Outcome::Fetch(result)), milliseconds: 5 };
    let view = JobView { ended_at: Some(at), ..JobView::in_phase(&name, phase) };
    namespace.jobs.push(serde_json::from_value(job).expect("a Job"));
    namespace.views.insert(name, view);
}

pub(super) fn artifact(engine: usize, manifest: usize) -> String {
    format!("engines/engine-{engine}/{}", digest(manifest))
}

pub(super) fn checkpoint(source: usize) -> String {
    format!("checkpoints/{}", digest(source))
}

#[test]
fn a_store_whose_folders_are_needed_is_recorded_once_and_left_alone() {
    let life = Life::serving().looked(400 * DAY);
    let holders = vec!["AgentDeployment support".to_owned()];
    let bytes = |bytes| StoreItem { bytes: Some(bytes), held_by: holders.clone(), ..StoreItem::default() };
    let items = BTreeMap::from([(checkpoint(9), bytes(400)), (artifact(1, 10), bytes(1_000))]);
    assert_eq!(life.record, StoreRecord { items, ..StoreRecord::default() });
    assert!(life.begun.is_empty() && life.events.is_empty());
}

#[test]
fn an_agent_that_moved_to_a_server_elsewhere_needs_no_checkpoint() {
    let moved = Life::serving().edited(|namespace| {
        let model = json!({"upstream": {"url": "https://llm.example", "model": "qwen3"}});
        let agent = &mut namespace.users.agent_deployments[0];
        agent.spec.model = serde_json::from_value(model).expect("a model");
        agent.spec.engine = None;
        agent.status.as_mut().expect("a status").engines = Vec::new();
        namespace.engines = Vec::new();
    });
    assert_eq!(References::of(&moved.namespace).held.get(&checkpoint(9)), None);
}

#[test]
fn what_nothing_has_needed_for_the_retention_is_swept_by_one_job() {
    let deleted = Life::serving().edited(|namespace| *namespace = Namespace::default());
    let almost = deleted.looked(7 * DAY - 1);
    assert!(almost.begun.is_empty() && almost.record.sweep.is_none());
    let sweeping = almost.looked(1);
    let as_of = u64::try_from(sweeping.now.as_second()).expect("after 1970");
    let task = SweepTask {
        claim: "uid-1".to_owned(),
        as_of,
        keep: vec![],
        remove: vec![checkpoint(9), artifact(1, 10)],
        others_before: as_of - 7 * 86_400,
    };
    assert_eq!(sweeping.begun, [task]);
    let found = SweepResult { removed: 2, removed_bytes: 1_400, free_bytes: 3_000_000_000, ..SweepResult::default() };
    let life = sweeping.swept(SweepResult { capacity_bytes: 4_000_000_000, ..found });
    let line = "StoreSwept 2 folders with 0.00 GB removed, 0 with 0.00 GB stay; 3.00 GB of 4.00 GB are free";
    assert_eq!(life.events, [line]);
    let figures = SweepFigures {
        removed: 2,
        removed_bytes: 1_400,
        free_bytes: 3_000_000_000,
        capacity_bytes: 4_000_000_000,
        ..SweepFigures::default()
    };
    let at = life.record.last.as_ref().expect("it ended").at.clone();
    let last = Some(SweepEnd { number: 1, at, failure: None, figures: Some(figures) });
    assert_eq!(life.record, StoreRecord { sweeps: 1, last, ..StoreRecord::default() });
    assert!(life.sweeps.is_empty() && life.tasks.is_empty(), "the Job and its task go once the end is recorded");
}

#[test]
fn an_engine_that_nobody_names_holds_its_folders_while_it_is_there_and_time_counts_from_before() {
    let unused = Life::serving().edited(|namespace| {
        namespace.users = Users::default();
        let since = serde_json::from_value(json!("2026-01-01T00:00:00Z")).expect("a time");
        namespace.engines[0].status.as_mut().expect("a status").unused_since = Some(since);
    });
    let holders: Vec<_> = unused.record.items.values().map(|item| item.held_by.join(", ")).collect();
    assert_eq!(holders, ["Engine engine-1", "Engine engine-1"]);
    let late = unused.looked(30 * DAY);
    assert!(late.begun.is_empty(), "its own controller removes it");
    let gone = late.edited(|namespace| namespace.engines.clear()).looked(3_599);
    assert!(gone.begun.is_empty(), "what was held within the hour stays");
    assert_eq!(gone.looked(1).begun.len(), 1);
}

#[test]
fn what_is_needed_again_before_its_time_starts_anew() {
    let life = Life::serving().edited(|namespace| *namespace = Namespace::default()).looked(6 * DAY);
    let back = Life::serving().namespace;
    let life = life.edited(|namespace| *namespace = back).looked(6 * DAY);
    assert!(life.record.items.values().all(|item| item.unreferenced_since.is_none()));
    let life = life.edited(|namespace| *namespace = Namespace::default()).looked(6 * DAY);
    assert!(life.begun.is_empty());
}

#[test]
fn what_is_needed_again_after_a_sweep_was_decided_on_is_on_no_list() {
    let mut life = Life::serving().edited(|namespace| *namespace = Namespace::default());
    life.pass(7 * DAY);
    drop(life.look());
    assert_eq!((life.record.sweep.as_ref().map(|sweep| sweep.number), life.begun.len()), (Some(1), 0));
    life.namespace.engines = vec![engine(1, 8, Some(10))];
    let life = life.looked(0);
    let begun = life.begun.first().expect("the checkpoint is still not needed");
    assert_eq!((begun.keep.clone(), begun.remove.clone()), (vec![checkpoint(8), artifact(1, 10)], vec![checkpoint(9)]));
    let mut life = Life::serving().edited(|namespace| *namespace = Namespace::default());
    life.pass(7 * DAY);
    drop(life.look());
    life.namespace = Life::serving().namespace;
    let life = life.looked(0);
    assert_eq!((life.record.sweep, life.begun.len()), (None, 0));
}

#[test]
fn while_something_cannot_be_read_nothing_begins_and_no_time_counts() {
    let mut life = Life::serving();
    life.is_readable = false;
    life.namespace = Namespace::default();
    let mut life = life.looked(30 * DAY);
    assert!(life.begun.is_empty() && life.record.items.values().all(|item| item.unreferenced_since.is_none()));
    life.is_readable = true;
    assert!(life.looked(0).looked(7 * DAY - 1).begun.is_empty());
}

#[test]
fn an_engine_that_somebody_names_and_that_is_gone_keeps_all_of_its_folder() {
    let life = Life::serving().edited(|namespace| namespace.engines.clear()).looked(30 * DAY);
    assert!(life.begun.is_empty(), "it is asked for again");
    let held: Vec<String> = life.record.items[&artifact(1, 10)].held_by.clone();
    assert_eq!(held, ["AgentDeployment support"]);
}

#[test]
fn without_a_retention_the_record_is_kept_and_nothing_goes() {
    let mut life = Life::serving();
    life.settings = "{images: {worker: w, agentRuntime: r}}";
    let at = life.now;
    fetch_job(&mut life.namespace, 7, at);
    let life = life.edited(|namespace| namespace.users = Users::default()).looked(400 * DAY);
    let life = life.edited(|namespace| namespace.engines.clear()).looked(400 * DAY);
    assert_eq!((life.begun.len(), life.namespace.jobs.len(), life.record.items.len()), (0, 1, 3));
}

#[test]
fn a_sweep_without_a_job_is_forgotten_once_there_is_no_retention_and_one_with_a_job_ends() {
    let mut decided = Life::serving().edited(|namespace| *namespace = Namespace::default());
    decided.pass(7 * DAY);
    drop(decided.look());
    let mut begun = decided.clone().looked(0);
    decided.settings = "{images: {worker: w, agentRuntime: r}}";
    let decided = decided.looked(0);
    assert_eq!((decided.record.sweep, decided.begun.len()), (None, 0));
    begun.settings = "{images: {worker: w, agentRuntime: r}}";
    let ended = begun.swept(SweepResult::default());
    assert_eq!((ended.record.sweep.is_some(), ended.record.last.is_some(), ended.sweeps.len()), (false, true, 1));
}

#[test]
fn an_engine_that_may_be_built_keeps_all_of_its_folder() {
    let life = Life::serving().edited(|namespace| {
        namespace.users = Users::default();
        namespace.engines = vec![engine(2, 9, None)];
    });
    let begun = life.looked(7 * DAY).begun;
    assert_eq!(begun[0].keep, [checkpoint(9), "engines/engine-2".to_owned()]);
    assert_eq!(begun[0].remove, [artifact(1, 10)]);
}

#[test]
fn a_job_that_ended_goes_after_the_retention_unless_a_status_names_it() {
    let mut life = Life::serving();
    let at = life.now;
    fetch_job(&mut life.namespace, 7, at);
    let early = life.looked(0).looked(7 * DAY - 1);
    assert_eq!((early.namespace.jobs.len(), &early.record.jobs["fetch-7"].0), (1, &at));
    let late = early.clone().looked(1);
    assert_eq!((late.namespace.jobs.len(), late.begun.len()), (0, 0));
    assert_eq!(late.looked(3_600).begun[0].remove, [checkpoint(7)], "its checkpoint goes an hour later");
    let named = early.edited(|namespace| {
        let status = namespace.users.agent_deployments[0].status.as_mut().expect("a status");
        status.jobs = serde_json::from_value(json!([{"kind": "fetch", "inputHash": "", "attempt": 1}])).expect("jobs");
        let attempt = crate::jobs::attempts::job_of(&status.jobs[0]);
        namespace.jobs[0].metadata.name = Some(attempt.clone());
        let view = namespace.views.remove("fetch-7").expect("a view");
        namespace.views.insert(attempt.clone(), JobView { name: attempt, ..view });
    });
    assert_eq!(named.looked(400 * DAY).namespace.jobs.len(), 1);
}

#[test]
fn a_failed_sweep_is_told_and_another_begins_six_hours_later() {
    let failed = |class| JobPhase::Failed { class, failure: "the volume is read-only".to_owned(), finished_at: None };
    let mut life = Life::serving().edited(|namespace| *namespace = Namespace::default()).looked(7 * DAY);
    life.end_sweep(failed(FailureClass::Infrastructure));
    let life = life.looked(0);
    assert_eq!(life.events, ["StoreSweepFailed Job slipway-store-sweep-1 failed: the volume is read-only"]);
    let last = life.record.last.as_ref().and_then(|last| last.failure.clone());
    assert_eq!((last.as_deref(), life.sweeps.len()), (Some("the volume is read-only"), 1), "it stays to be looked at");
    let life = life.looked(6 * 3_600 - 1);
    assert_eq!(life.begun.len(), 1);
    let life = life.looked(1);
    assert_eq!((life.begun.len(), life.sweeps.len()), (2, 2));
    assert_eq!(life.swept(SweepResult::default()).sweeps.len(), 0);
}

#[test]
fn holders_are_told_by_their_kind_and_a_pod_only_where_nothing_else_needs_the_folder() {
    let pod = json!({
        "metadata": {"name": "support-1"}, "status": {"phase": "Running"},
        "spec": {"containers": [], "initContainers": [{"name": "materialize", "args": ["materialize",
            "--identity=engine-1", format!("--manifest-digest={}", digest(10))]}]},
    });
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod).expect("a pod");
    let life = Life::serving().edited(|namespace| namespace.pods = vec![pod.clone()]);
    let of_agent = vec!["AgentDeployment support".to_owned()];
    assert_eq!(
        life.held(),
        [("checkpoints/09".to_owned(), of_agent.clone()), ("engines/engine-1/0a".to_owned(), of_agent)]
    );
    let alone = life.edited(|namespace| *namespace = Namespace { pods: vec![pod], ..Namespace::default() });
    assert_eq!(alone.held()[1].1, ["Pod support-1"]);
    let swept = alone.looked(7 * DAY).begun;
    assert_eq!((swept[0].keep.clone(), swept[0].remove.clone()), (vec![artifact(1, 10)], vec![checkpoint(9)]));
}

/// A ConfigMap in users' clusters holds it.
#[test]
fn the_text_of_a_record_stays() {
    let life = Life::serving().edited(|namespace| *namespace = Namespace::default()).looked(7 * DAY);
    let text = serde_json::to_string(&life.record).expect("JSON");
    let since = "2026-01-01T00:00:00Z";
    let item = |bytes: i64| {
        format!("{{\"bytes\":{bytes},\"unreferencedSince\":\"{since}\",\"freeSince\":\"{since}\",\"isSwept\":true}}")
    };
    let expected = format!(
        "{{\"version\":1,\"items\":{{\"{}\":{},\"{}\":{}}},\"sweeps\":1,\"sweep\":{{\"number\":1,\"at\":\"2026-01-08T00:00:00Z\"}}}}",
        checkpoint(9),
        item(400),
        artifact(1, 10),
        item(1_000),
    );
    assert_eq!(text, expected);
    assert_eq!(serde_json::from_str::<StoreRecord>(&text).expect("a record"), life.record);
}
