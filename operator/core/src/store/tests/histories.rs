//! Whatever happens in a namespace, the volume keeps what is needed, although the operator may be shown the past.
//! Kept revisions, pods, Jobs at work, Engines, campaigns and agents need something.
//!
//! Users, Engines, pods and Jobs are listed one after the other, and each list may show how it was minutes ago. What is
//! made on the volume is marked there, as the worker does under its lock. What only relies on an object that is there
//! marks nothing.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{apps::v1::ControllerRevision, batch::v1::Job, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::json;
use slipway_crds::{
    store::StoreRecord,
    v1alpha1::{Engine, Profile},
};
use slipway_worker_contract::{FailureClass, Outcome, SweepResult, SweepTask};

use super::{DAY, Life, agent, artifact, checkpoint, digest, engine, fetch_job};
use crate::{
    agent_deployment::rollout::revision::{PlannedEngine, Revision},
    jobs::view::{JobPhase, JobView},
    store::{
        decide::decide,
        references::{Namespace, References},
    },
};

/// How old a list may be, again and again: nine minutes.
const BEHIND: SignedDuration = SignedDuration::from_secs(540);
/// By how much clocks may differ for the worker.
const CLOCKS_DIFFER: u64 = 600;

/// How many changes ago users, Engines, pods and Jobs are shown.
type Lags = [usize; 4];

/// What happens. Numbers are of Engines, artifacts and sources.
#[derive(Debug, Clone)]
enum Event {
    /// An agent serves a checkpoint, and considers an Engine. It is fetched unless a Job proves that it is there.
    Agent(usize, usize),
    NoAgent,
    /// An Engine is asked for; its controller marks it as unused or not.
    Engine(usize, usize, bool),
    /// A build Job ends well.
    Built(usize, usize),
    NoEngine(usize),
    /// A plan with a built Engine is recorded.
    Revision(usize),
    NoRevision,
    /// A pod of a recorded plan starts.
    Pod(usize),
    NoPod,
    /// A campaign measures a built Engine.
    Campaign(usize),
    NoCampaign,
    /// A Job copies a built Engine.
    Job(usize),
    NoJob,
    Pass(i64),
    /// A look that is shown the past.
    Look(Lags),
    /// The same, of any age; the next one shows more.
    LookFarBehind(Lags),
    /// The record is written, and the operator ends before anything else.
    LookAndCrash(Lags),
    LoseRecord,
    /// The sweep does its work, and ends well or badly.
    Sweep(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let lags = || [0..4usize, 0..4usize, 0..4usize, 0..4usize];
    let far = || [0..40usize, 0..40usize, 0..40usize, 0..40usize];
    prop_oneof![
        2 => (0..3usize, 0..3usize).prop_map(|(engine, source)| Event::Agent(engine, source)),
        2 => Just(Event::NoAgent),
        2 => (0..3usize, 0..3usize, any::<bool>()).prop_map(|(of, from, unused)| Event::Engine(of, from, unused)),
        3 => (0..3usize, 0..2usize).prop_map(|(engine, artifact)| Event::Built(engine, artifact)),
        3 => (0..3usize).prop_map(Event::NoEngine),
        2 => (0..3usize).prop_map(Event::Revision),
        2 => Just(Event::NoRevision),
        2 => (0..3usize).prop_map(Event::Pod),
        2 => Just(Event::NoPod),
        1 => (0..3usize).prop_map(Event::Campaign),
        1 => Just(Event::NoCampaign),
        1 => (0..3usize).prop_map(Event::Job),
        1 => Just(Event::NoJob),
        3 => (1..600i64).prop_map(Event::Pass),
        4 => (600..8 * DAY).prop_map(Event::Pass),
        12 => lags().prop_map(Event::Look),
        1 => far().prop_map(Event::LookFarBehind),
        2 => lags().prop_map(Event::LookAndCrash),
        1 => Just(Event::LoseRecord),
        4 => any::<bool>().prop_map(Event::Sweep),
    ]
}

/// A namespace with its volume and its past.
struct History {
    life: Life,
    /// When each folder was written or found last.
    volume: BTreeMap<String, Timestamp>,
    /// The namespace as it was from each time on.
    past: Vec<(Timestamp, Namespace)>,
    was_far_behind: bool,
}

impl History {
    fn new() -> Self {
        let life = Life::new();
        let past = vec![(life.now, Namespace::default())];
        Self { life, volume: BTreeMap::new(), past, was_far_behind: false }
    }

    /// Something is written on the volume, or found there again.
    fn mark(&mut self, folder: String) {
        self.volume.insert(folder, self.life.now);
    }

    /// The namespace so many changes ago, at most as old as this.
    fn ago(&self, lag: usize, behind: SignedDuration) -> &Namespace {
        let last = self.past.len() - 1;
        let is_too_old =
            |at: usize| self.past.get(at + 1).is_some_and(|(ended, _)| self.life.now.duration_since(*ended) >= behind);
        let oldest = (0..=last).find(|at| !is_too_old(*at)).unwrap_or(last);
        &self.past[last.saturating_sub(lag).max(oldest)].1
    }

    fn references(&self, [users, engines, pods, jobs]: Lags, behind: SignedDuration) -> References {
        let of_jobs = self.ago(jobs, behind);
        References::of(&Namespace {
            users: self.ago(users, behind).users.clone(),
            engines: self.ago(engines, behind).engines.clone(),
            deployments: Vec::new(),
            jobs: of_jobs.jobs.clone(),
            views: of_jobs.views.clone(),
            pods: self.ago(pods, behind).pods.clone(),
        })
    }

    fn look(&mut self, lags: Lags, behind: SignedDuration) {
        self.life.shown = Some(self.references(lags, behind));
        drop(self.life.look());
    }

    fn built(&self, number: usize) -> Option<usize> {
        let engine = find(&self.life.namespace.engines, number)?;
        let digest = &engine.status.as_ref()?.artifact.as_ref()?.manifest_digest;
        usize::from_str_radix(digest, 16).ok()
    }

    /// Something asks for a checkpoint: a Job that fetched it proves that it is there, and is believed.
    fn needs_checkpoint(&mut self, source: usize) {
        let is_proved = self.life.namespace.jobs.iter().any(|job| job.name_any() == format!("fetch-{source}"));
        if !is_proved {
            self.mark(checkpoint(source));
            let at = self.life.now;
            fetch_job(&mut self.life.namespace, source, at);
        }
    }

    fn befall(&mut self, event: &Event) {
        let before = key(&self.life.namespace);
        match event {
            Event::Agent(of, source) => {
                self.needs_checkpoint(*source);
                let named = agent("support", *source, &[&format!("engine-{of}")]);
                self.life.namespace.users.agent_deployments = vec![named];
            }
            Event::NoAgent => self.life.namespace.users.agent_deployments.clear(),
            Event::Engine(number, source, is_unused) => self.ask_for(*number, *source, *is_unused),
            Event::Built(number, artifact_number) => self.build(*number, *artifact_number),
            Event::NoEngine(number) => {
                self.life.namespace.engines.retain(|engine| engine.name_any() != format!("engine-{number}"));
            }
            Event::Revision(number) => {
                let built = self.built(*number).map(|artifact| revision(*number, artifact));
                self.life.namespace.users.revisions.extend(built);
            }
            Event::NoRevision => drop(self.life.namespace.users.revisions.pop()),
            Event::Pod(at) => {
                let plan = self.life.namespace.users.revisions.get(*at).and_then(planned_engine);
                let pod = plan.map(|engine| pod(&engine.name, engine.manifest_digest.as_str()));
                self.life.namespace.pods.extend(pod);
            }
            Event::NoPod => drop(self.life.namespace.pods.pop()),
            Event::Campaign(number) => {
                let profile = self.built(*number).map(|artifact| profile(*number, artifact));
                profile.iter().for_each(|profile| self.mark(format!("profiles/{}", profile.spec.input_hash)));
                self.life.namespace.users.profiles.extend(profile);
            }
            Event::NoCampaign => drop(self.life.namespace.users.profiles.pop()),
            Event::Job(number) => self.copy(*number),
            Event::NoJob => {
                let job = self.life.namespace.jobs.pop();
                job.into_iter().for_each(|job| drop(self.life.namespace.views.remove(&job.name_any())));
            }
            Event::Pass(seconds) => self.life.pass(*seconds),
            Event::Look(lags) => self.look(*lags, BEHIND),
            Event::LookFarBehind(lags) if !self.was_far_behind => {
                self.look(*lags, SignedDuration::MAX);
                self.was_far_behind = true;
            }
            Event::LookFarBehind(lags) => self.look(*lags, BEHIND),
            Event::LookAndCrash(lags) => {
                self.life.shown = Some(self.references(*lags, BEHIND));
                self.life.record = decide(&self.life.world()).status;
            }
            Event::LoseRecord => self.life.record = StoreRecord::default(),
            Event::Sweep(well) => self.sweep(*well),
        }
        if matches!(event, Event::Look(_)) {
            self.was_far_behind = false;
        }
        if before != key(&self.life.namespace) {
            self.past.push((self.life.now, self.life.namespace.clone()));
        }
    }

    fn ask_for(&mut self, number: usize, source: usize, is_unused: bool) {
        let at = self.life.now;
        let engines = &mut self.life.namespace.engines;
        if find(engines, number).is_none() {
            engines.push(engine(number, source, None));
            self.needs_checkpoint(source);
        }
        let name = format!("engine-{number}");
        for engine in self.life.namespace.engines.iter_mut().filter(|engine| engine.name_any() == name) {
            engine.status.get_or_insert_default().unused_since = is_unused.then_some(Time(at));
        }
    }

    /// An Engine that is there and not built is built, or its artifact is found.
    fn build(&mut self, number: usize, artifact_number: usize) {
        if self.built(number).is_some() {
            return;
        }
        let engines = &mut self.life.namespace.engines;
        let Some(at) = engines.iter().position(|engine| engine.name_any() == format!("engine-{number}")) else {
            return;
        };
        let built = engine(number, 0, Some(artifact_number)).status.and_then(|status| status.artifact);
        engines[at].status.get_or_insert_default().artifact = built;
        self.mark(artifact(number, artifact_number));
    }

    fn copy(&mut self, number: usize) {
        let Some(artifact) = self.built(number) else { return };
        let name = format!("quality-{}", self.past.len());
        let spec = pod(&format!("engine-{number}"), &digest(artifact)).spec;
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"app.kubernetes.io/component": "quality"}},
            "spec": {"template": {"spec": spec}},
        }))
        .expect("a Job");
        let view = JobView::in_phase(&name, JobPhase::Running { started_at: None });
        self.life.namespace.jobs.push(job);
        self.life.namespace.views.insert(name, view);
    }

    /// What the worker does: it looks at the lists of the Job as it began, and at the volume as it is.
    fn sweep(&mut self, well: bool) {
        let Some(task) = self.life.begun.last().filter(|_| self.at_work() > 0) else { return };
        self.volume.retain(|folder, changed| !goes(task, folder, *changed));
        self.life.end_sweep(if well { ended_well() } else { failed() });
    }

    /// What must be on the volume, told from the objects themselves.
    fn needed(&self) -> Vec<String> {
        let Namespace { users, engines, jobs, pods, .. } = &self.life.namespace;
        let revisions = users.revisions.iter().filter_map(planned_engine);
        let of_revisions = revisions.map(|engine| format!("engines/{}/{}", engine.name, engine.manifest_digest));
        let templates = jobs.iter().filter_map(|job| job.spec.as_ref()?.template.spec.as_ref());
        let specs = pods.iter().filter_map(|pod| pod.spec.as_ref()).chain(templates);
        let of_pods = specs.map(|spec| {
            let arguments = spec.init_containers.as_ref().and_then(|containers| containers[0].args.clone());
            let arguments = arguments.expect("a pod has arguments");
            let value = |at: usize| arguments[at].split_once('=').expect("an option").1.to_owned();
            format!("engines/{}/{}", value(1), value(2))
        });
        let of_engines = engines.iter().filter_map(|engine| {
            let artifact = engine.status.as_ref()?.artifact.as_ref()?;
            Some(format!("engines/{}/{}", engine.name_any(), artifact.manifest_digest))
        });
        let sources = engines.iter().map(|engine| format!("checkpoints/{}", engine.spec.build.source_digest));
        let models = users.agent_deployments.iter().filter_map(|agent| agent.status.as_ref()?.model.as_ref());
        let of_models = models.map(|model| format!("checkpoints/{}", model.source_digest));
        let proofs = jobs.iter().filter_map(|job| job.name_any().strip_prefix("fetch-")?.parse().ok());
        let measured = users.profiles.iter().flat_map(|profile| {
            let engines = profile.spec.inputs.engines.iter().filter(|engine| !engine.manifest_digest.is_empty());
            let of_engines = engines.map(|engine| format!("engines/{}/{}", engine.name, engine.manifest_digest));
            let asked = profile.status.iter().flat_map(|status| &status.asked);
            let asked = asked.filter_map(|asked| Some((&asked.engine, asked.manifest_digest.as_ref()?)));
            let of_asked = asked.map(|(engine, digest)| format!("engines/{engine}/{digest}"));
            of_engines.chain(of_asked).chain([format!("profiles/{}", profile.spec.input_hash)])
        });
        of_revisions
            .chain(of_pods)
            .chain(of_engines)
            .chain(sources)
            .chain(of_models)
            .chain(proofs.map(checkpoint))
            .chain(measured)
            .collect()
    }

    fn lost(&self) -> Vec<String> {
        self.needed().into_iter().filter(|folder| !self.volume.contains_key(folder)).collect()
    }

    fn at_work(&self) -> usize {
        self.life.sweeps.values().filter(|phase| matches!(phase, JobPhase::Running { .. })).count()
    }
}

/// Enough of a namespace to tell a change.
fn key(namespace: &Namespace) -> Vec<String> {
    let Namespace { users, engines, deployments: _, jobs, views: _, pods } = namespace;
    let agents = users.agent_deployments.iter().map(|agent| format!("{:?}", agent.status));
    let revisions = users.revisions.iter().map(|revision| revision.name.clone());
    let campaigns = users.profiles.iter().map(|profile| profile.spec.input_hash.clone());
    let engines = engines.iter().map(|engine| format!("{} {:?}", engine.name_any(), engine.status));
    let jobs = jobs.iter().map(ResourceExt::name_any);
    agents.chain(revisions).chain(campaigns).chain(engines).chain(jobs).chain([pods.len().to_string()]).collect()
}

/// As the worker decides.
fn goes(task: &SweepTask, folder: &str, changed: Timestamp) -> bool {
    let changed = u64::try_from(changed.as_second()).expect("after 1970");
    let lists_made = task.as_of.saturating_sub(CLOCKS_DIFFER);
    let is_named = task.remove.iter().any(|removed| removed == folder);
    let before = if is_named { lists_made } else { task.others_before.min(lists_made) };
    !task.keeps(folder) && changed < before
}

fn find(engines: &[Engine], number: usize) -> Option<&Engine> {
    engines.iter().find(|engine| engine.name_any() == format!("engine-{number}"))
}

fn revision(engine: usize, artifact: usize) -> Revision {
    let record: ControllerRevision = serde_json::from_value(json!({
        "metadata": {"name": format!("support-{engine}{artifact}")}, "revision": 1,
        "data": {
            "agent": {"systemPrompt": "x"}, "agentResources": {}, "agentRuntimeImage": "r", "hardware": {},
            "engine": {"displayName": "fp32", "manifestDigest": digest(artifact), "name": format!("engine-{engine}")},
            "maxInFlight": 8, "tritonImage": "t", "tritonResources": {}, "workerImage": "w",
        },
    }))
    .expect("a ControllerRevision");
    Revision::read(&record).expect("a plan")
}

/// Of some campaigns the artifact is that of an engine that they asked for.
fn profile(engine: usize, artifact: usize) -> Profile {
    let (in_inputs, in_status) =
        if artifact.is_multiple_of(2) { (digest(artifact), None) } else { (String::new(), Some(digest(artifact))) };
    let name = format!("engine-{engine}");
    serde_json::from_value(json!({
        "apiVersion": "slipway.dev/v1alpha1", "kind": "Profile", "metadata": {"name": "support-1"},
        "spec": {"agentDeployment": "support", "inputHash": format!("{engine}{artifact}"), "inputs": {
            "engines": [{"name": name, "manifestDigest": in_inputs, "displayName": "fp32"}],
            "configurations": [], "levels": [1], "driver": "ModelAnalyzer", "objectives": [], "replicas": 1,
            "optimizeFor": "Throughput", "budget": {}, "agent": {"systemPrompt": "x"},
            "placement": {"tritonImage": "t", "agentResources": {}, "tritonResources": {}},
        }},
        "status": {"asked": [{"engine": name, "why": "the first", "manifestDigest": in_status}]},
    }))
    .expect("a Profile")
}

fn pod(engine: &str, manifest_digest: &str) -> Pod {
    let arguments =
        ["materialize".to_owned(), format!("--identity={engine}"), format!("--manifest-digest={manifest_digest}")];
    let spec = json!({"containers": [], "initContainers": [{"name": "materialize", "args": arguments}]});
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": {"phase": "Running"}}))
        .expect("a pod")
}

fn ended_well() -> JobPhase {
    JobPhase::Succeeded { outcome: Box::new(Outcome::Sweep(SweepResult::default())), milliseconds: 5 }
}

fn failed() -> JobPhase {
    JobPhase::Failed { class: FailureClass::Infrastructure, failure: "no".to_owned(), finished_at: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// In the end, with nobody left, everything goes that is recorded.
    #[test]
    fn nothing_that_is_needed_is_ever_swept(events in prop::collection::vec(event(), 1..120)) {
        let mut history = History::new();
        for event in &events {
            history.befall(event);
            prop_assert_eq!(history.lost(), Vec::<String>::new(), "after {:?}", event);
            prop_assert!(history.at_work() <= 1, "{} sweeps at once", history.at_work());
        }
        history.life.namespace = Namespace::default();
        history.past = vec![(history.life.now, Namespace::default())];
        for _ in 0..60 {
            history.befall(&Event::Pass(DAY));
            history.befall(&Event::Look([0; 4]));
            history.befall(&Event::Sweep(true));
        }
        prop_assert!(history.life.record.items.is_empty(), "{:#?}", history.life.record);
    }

    #[test]
    fn without_a_retention_nothing_is_ever_removed(events in prop::collection::vec(event(), 1..60)) {
        let mut history = History::new();
        history.life.settings = "{images: {worker: w, agentRuntime: r}}";
        for event in &events {
            let jobs = history.life.namespace.jobs.len();
            history.befall(event);
            let is_by_hand = matches!(event, Event::NoJob);
            prop_assert!(is_by_hand || history.life.namespace.jobs.len() >= jobs, "{:?} removed a Job", event);
        }
        prop_assert_eq!(history.life.begun, Vec::<SweepTask>::new());
    }
}

/// The engine of a revision.
fn planned_engine(revision: &Revision) -> Option<&PlannedEngine> {
    revision.plan.served.artifact().map(|artifact| &artifact.engine)
}
