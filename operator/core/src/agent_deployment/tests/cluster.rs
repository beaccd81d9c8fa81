//! A cluster as far as planners can see one: it carries plans out, and its Jobs and pods end as a test says.

use std::collections::{BTreeMap, BTreeSet};

use gateway_api::httproutes::HttpRoute;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use slipway_crds::{
    labels::{APP_COMPONENT, REVISION},
    v1alpha1::{
        AgentDeploymentSpec, AgentDeploymentStatus, EngineSpec, EngineStatus, ProfileStatus,
        agent_deployment::{Backend, Precision},
    },
};
use slipway_worker_contract::{BuildResult, FailureClass, FetchResult, ModelShape, Outcome, ResolveResult};

use super::{fixtures::owner, stored, tensorrt_llm};
pub(super) use super::{
    fixtures::{digest, settings},
    routing::{routed_to, weights},
    shown::{lines, metadata_of, name_of},
};
use crate::{
    agent_deployment::{
        commands::Annotated,
        decide::decide,
        defaults,
        monitoring::{
            drift::MemoryView, judged_runs::BudgetsView, load::ObservedLoad, observed_objectives::ObservedObjectives,
        },
        resolve,
        rollout::revision::Revision,
        world::{OwnedObject, PoolsView, RouteView, RulesView, ServingView, World},
    },
    engine::{
        decide as engine_decide, lost,
        world::{EngineWorld, Use},
    },
    jobs::view::{JobPhase, JobView},
    notifications::events::Announcement,
    plan::{Child, Plan, Removal, RemovalKind},
    reworded,
};

const SPEC: &str = "
model: {uri: 'http://models.example/react'}
engine: {backend: Custom, custom: {builderImage: 'example.com/builder:1', tritonImage: 'example.com/triton:1'}}
agent: {systemPrompt: Answer.}
";

/// An AgentDeployment `support` in namespace `team`, and everything around it.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) world: World,
    /// The Engines, with the status that their own planner gave them.
    pub(super) engines: BTreeMap<String, (EngineSpec, EngineStatus)>,
    /// The revision to which the Service of the AgentDeployment goes.
    pub(super) routed_to: Option<String>,
    /// The weights of the route, by Service.
    pub(super) weights: BTreeMap<String, i32>,
    /// What receivers were told.
    pub(super) heard: Vec<Announcement>,
    pub(super) quantization: Option<&'static str>,
    pub(super) quantization_method: Option<&'static str>,
    pub(super) parameter_bytes: Option<u64>,
    /// When a pod last missed the artifact of its engine in the store.
    pub(super) missed_at: Option<Timestamp>,
    pub(super) annotations: BTreeMap<String, String>,
    writes: u32,
}

/// A cluster in which nothing has happened yet.
pub(super) fn world() -> Cluster {
    let spec: AgentDeploymentSpec = serde_norway::from_str(SPEC).expect("a valid spec");
    let world = World {
        now: Timestamp::from_second(1_767_225_600).expect("a time of this century"),
        settings: settings("1"),
        name: "support".to_owned(),
        namespace: "team".to_owned(),
        generation: 1,
        owner: owner("AgentDeployment", "support", "uid-of-support"),
        spec,
        annotated: Annotated::default(),
        status: AgentDeploymentStatus::default(),
        settled: BTreeSet::new(),
        store_bound: None,
        dataset: None,
        calibration: None,
        workloads: BTreeMap::new(),
        prior: None,
        profiles: BTreeMap::new(),
        campaigns: Vec::new(),
        observed: ObservedObjectives::default(),
        are_all_heard: true,
        load: ObservedLoad::default(),
        live: Vec::new(),
        memory: MemoryView::Absent,
        latest_campaign: None,
        scaled_by: None,
        budgets: BudgetsView::NotAsked,
        evidence: BTreeMap::new(),
        guardrails: BTreeMap::new(),
        route: RouteView::Absent,
        pools: PoolsView::default(),
        rules: RulesView::default(),
        jobs: BTreeMap::new(),
        engines: BTreeMap::new(),
        revisions: Vec::new(),
        serving: BTreeMap::new(),
        objects: BTreeMap::new(),
    };
    Cluster {
        world,
        engines: BTreeMap::new(),
        routed_to: None,
        weights: BTreeMap::new(),
        heard: Vec::new(),
        quantization: None,
        quantization_method: None,
        parameter_bytes: None,
        missed_at: None,
        annotations: BTreeMap::new(),
        writes: 0,
    }
}

/// How a Job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Success,
    Failure(FailureClass),
}

/// Readable verbs for stories: each plays on until what it names has happened.
impl Cluster {
    /// What would come next.
    pub(super) fn plan(&self) -> Plan<AgentDeploymentStatus> {
        decide(&self.world).expect("a spec has canonical JSON")
    }

    pub(super) fn resolved(self) -> Self {
        self.with_job_ended("resolve-", Ending::Success)
    }

    pub(super) fn fetched(self) -> Self {
        self.with_job_ended("fetch-", Ending::Success)
    }

    pub(super) fn with_engine_built(self, precision: Precision) -> Self {
        self.with_engine_ended(precision, Ending::Success)
    }

    pub(super) fn with_engine_ended(mut self, precision: Precision, ending: Ending) -> Self {
        self.settle();
        let engine = self
            .engines
            .iter()
            .find(|(_, (spec, status))| spec.build.precision == precision && status.artifact.is_none());
        let name = engine.expect("an engine of that precision is to be built").0.clone();
        self.with_job_ended(&name.replace("engine-", "build-"), ending)
    }

    /// Lets the running Job whose name begins so end.
    pub(super) fn with_job_ended(mut self, prefix: &str, ending: Ending) -> Self {
        self.settle();
        let name = self.running_jobs().into_iter().find(|name| name.starts_with(prefix));
        self.end_job(&name.unwrap_or_else(|| panic!("no such Job runs: {:?}", lines(&self.plan()))), ending);
        self.settle();
        self
    }

    /// Lets all pods of all revisions become ready.
    pub(super) fn with_pods_ready(mut self) -> Self {
        self.settle();
        self.ready_pods();
        self.settle();
        self
    }

    /// From nothing to serving, with one engine.
    pub(super) fn serving(self) -> Self {
        self.resolved().fetched().with_engine_built(Precision::FP32).with_pods_ready()
    }

    pub(super) fn edited(mut self, edit: impl FnOnce(&mut AgentDeploymentSpec)) -> Self {
        edit(&mut self.world.spec);
        self.world.generation += 1;
        self
    }

    pub(super) fn stable(&self) -> String {
        self.world.stable().expect("a revision serves").to_owned()
    }

    /// What receivers were told since they were asked last: happening and severity.
    pub(super) fn news(&mut self) -> Vec<String> {
        self.heard.drain(..).map(|heard| format!("{} {}", heard.happening.as_str(), heard.severity.as_str())).collect()
    }

    /// The team and the person on call want to be notified.
    pub(super) fn alerting(self) -> Self {
        self.edited(|spec| spec.alerts.receivers = vec!["team".to_owned(), "on-call".to_owned()])
    }

    pub(super) fn canary(&self) -> String {
        let rollout = self.world.status.rollout.as_ref();
        rollout.and_then(|rollout| rollout.canary.clone()).expect("a revision is being brought up")
    }
}

/// What a cluster does.
impl Cluster {
    /// Plans and carries out until nothing changes any more.
    pub(super) fn settle(&mut self) {
        for _ in 0..50 {
            let before = (self.world.status.clone(), self.writes);
            self.step();
            if before == (self.world.status.clone(), self.writes) {
                return;
            }
        }
        panic!("the planners do not come to rest: {:?}", self.world.status);
    }

    /// One reconciliation of everything there is.
    pub(super) fn step(&mut self) {
        self.build_engines();
        let plan = self.plan();
        self.assert_decides_by_no_words(&plan);
        self.carry_out(plan);
    }

    /// Every step is decided twice: the second time by an operator that finds other words.
    fn assert_decides_by_no_words(&self, plan: &Plan<AgentDeploymentStatus>) {
        let mut world = self.world.clone();
        reworded::agent_deployment(&mut world.status);
        world.engines.values_mut().for_each(reworded::engine);
        world.profiles.values_mut().for_each(reworded::profile);
        let other = decide(&world).expect("a spec has canonical JSON");
        reworded::assert_alike(plan, &other, reworded::agent_deployment);
    }

    pub(super) fn carry_out(&mut self, plan: Plan<AgentDeploymentStatus>) {
        stored::assert_accepted(&plan, &self.engines);
        // The API server keeps JSON: what does not survive it does not survive.
        let status = serde_json::to_value(&plan.status).expect("a status is JSON");
        self.world.status = serde_json::from_value(status).expect("a status reads what it wrote");
        self.world.settled = plan.announcements.iter().map(Announcement::id).collect();
        self.heard.extend(plan.announcements);
        for child in plan.children {
            self.apply(child);
        }
        for removal in &plan.removals {
            self.remove(removal);
        }
    }

    /// An Engine as its own planner sees it.
    pub(super) fn engine_world(&self, name: &str, spec: &EngineSpec, status: EngineStatus) -> EngineWorld {
        EngineWorld {
            now: self.world.now,
            settings: self.world.settings.clone(),
            name: name.to_owned(),
            namespace: self.world.namespace.clone(),
            generation: 1,
            owner: owner("Engine", name, &format!("uid-of-{name}")),
            spec: spec.clone(),
            status,
            jobs: self.world.jobs.clone(),
            resource_version: "1".to_owned(),
            used: Use::Used,
            missed_at: self.missed_at,
            fetched_at: lost::fetched_at(&self.world.jobs, &spec.build.source_digest),
        }
    }

    fn build_engines(&mut self) {
        for (name, (spec, status)) in self.engines.clone() {
            let world = self.engine_world(&name, &spec, status);
            let plan = engine_decide::decide(&world);
            let mut other = world.clone();
            reworded::engine(&mut other.status);
            reworded::assert_alike(&plan, &engine_decide::decide(&other), reworded::engine);
            self.world.engines.insert(name.clone(), plan.status.clone());
            self.engines.insert(name, (spec, plan.status));
            plan.children.into_iter().for_each(|child| self.apply(child));
        }
    }

    fn written(&mut self) -> String {
        self.writes += 1;
        self.writes.to_string()
    }

    fn apply(&mut self, child: Child) {
        match child {
            Child::PersistentVolumeClaim(_) => self.world.store_bound = Some(true),
            Child::ConfigMap(object) => match label(&object.metadata, APP_COMPONENT).as_deref() {
                Some("alerts") => self.own_rules(RemovalKind::ConfigMap, &object.metadata),
                Some("drift") => super::drift::remember(&mut self.world, &object),
                Some(_) | None => self.own(RemovalKind::ConfigMap, &object.metadata),
            },
            Child::Service(object) => {
                self.own(RemovalKind::Service, &object.metadata);
                if object.metadata.name.as_ref() == Some(&self.world.name) {
                    self.routed_to = routed_to(&object);
                }
            }
            Child::Deployment(object) => {
                self.own(RemovalKind::Deployment, &object.metadata);
                let revision = label(&object.metadata, REVISION).expect("a Deployment has a revision");
                let wanted = object.spec.and_then(|spec| spec.replicas).expect("a Deployment has replicas");
                let view = self.world.serving.entry(revision).or_default();
                view.is_observed = true;
                view.wanted = wanted;
                view.ready = view.ready.min(wanted);
                view.updated = wanted;
            }
            Child::HttpRoute(object) => self.own_route(&object),
            Child::NetworkPolicy(object) => self.own(RemovalKind::NetworkPolicy, &object.metadata),
            Child::InferencePool(object) => self.own(RemovalKind::InferencePool, &object.metadata),
            Child::PrometheusRule(object) => self.own_rules(RemovalKind::PrometheusRule, &object.metadata),
            Child::Job(object) => {
                let name = object.metadata.name.clone().expect("a Job has a name");
                if !self.world.jobs.contains_key(&name) {
                    self.written();
                    let view = JobView::new(&object, &[]);
                    self.world.jobs.insert(name, view);
                }
            }
            Child::Engine(object) => {
                let name = object.metadata.name.clone().expect("an Engine has a name");
                if !self.engines.contains_key(&name) {
                    self.written();
                    self.world.engines.insert(name.clone(), EngineStatus::default());
                    self.engines.insert(name, (object.spec, EngineStatus::default()));
                }
            }
            Child::Profile(object) => {
                let name = object.metadata.name.clone().expect("a Profile has a name");
                if !self.world.profiles.contains_key(&name) {
                    self.written();
                    self.world.profiles.insert(name, ProfileStatus::default());
                    self.world.latest_campaign = Some(self.world.now);
                }
            }
            Child::ControllerRevision(mut object) => {
                object.metadata.resource_version = Some(self.written());
                object.metadata.uid = Some(format!("uid-{}", self.writes));
                let revision = Revision::read(&object).expect("a record can be read");
                self.world.revisions.retain(|known| known.hash != revision.hash);
                self.world.revisions.push(revision);
            }
        }
    }

    fn own(&mut self, kind: RemovalKind, metadata: &ObjectMeta) {
        let (Some(revision), Some(name)) = (label(metadata, REVISION), metadata.name.clone()) else { return };
        let known = self.world.objects.entry(revision.clone()).or_default();
        if known.iter().all(|object| object.kind != kind) {
            self.writes += 1;
            let (uid, resource_version) = (format!("uid-{}", self.writes), self.writes.to_string());
            known.push(OwnedObject { kind, name, uid, resource_version });
        }
    }

    /// A gateway serves every route at once.
    fn own_route(&mut self, route: &HttpRoute) {
        self.weights = weights(route);
        if let RouteView::Absent = self.world.route {
            self.writes += 1;
            let name = route.metadata.name.clone().expect("a route has a name");
            let (uid, resource_version) = (format!("uid-{}", self.writes), self.writes.to_string());
            let object = OwnedObject { kind: RemovalKind::HttpRoute, name, uid, resource_version };
            self.world.route = RouteView::Present { object, problem: None, rival: None };
        }
    }

    fn own_rules(&mut self, kind: RemovalKind, metadata: &ObjectMeta) {
        if self.world.rules.objects.iter().all(|object| object.kind != kind) {
            self.writes += 1;
            let name = metadata.name.clone().expect("rules have a name");
            let (uid, resource_version) = (format!("uid-{}", self.writes), self.writes.to_string());
            self.world.rules.objects.push(OwnedObject { kind, name, uid, resource_version });
        }
    }

    fn remove(&mut self, removal: &Removal) {
        self.writes += 1;
        self.world.rules.objects.retain(|object| object.uid != removal.uid);
        if removal.kind == RemovalKind::HttpRoute {
            self.world.route = RouteView::Absent;
            return;
        }
        let is_it = |uid: &str, version: &str| removal.uid == uid && removal.resource_version == version;
        if removal.kind == RemovalKind::ControllerRevision {
            self.world.revisions.retain(|r| !is_it(&r.uid, &r.resource_version));
            return;
        }
        for (revision, objects) in &mut self.world.objects {
            let before = objects.len();
            objects.retain(|object| !is_it(&object.uid, &object.resource_version));
            if objects.len() < before && removal.kind == RemovalKind::Deployment {
                self.world.serving.remove(revision);
            }
        }
        self.world.objects.retain(|_, objects| !objects.is_empty());
    }

    pub(super) fn running_jobs(&self) -> Vec<String> {
        let is_running = |job: &&JobView| matches!(job.phase, JobPhase::Running { .. });
        self.world.jobs.values().filter(is_running).map(|job| job.name.clone()).collect()
    }

    pub(super) fn end_job(&mut self, name: &str, ending: Ending) {
        let phase = match ending {
            Ending::Success => JobPhase::Succeeded { outcome: Box::new(self.outcome(name)), milliseconds: 2_500 },
            Ending::Failure(class) => {
                JobPhase::Failed { class, failure: "the disk is full".to_owned(), finished_at: Some(self.world.now) }
            }
        };
        let engine = defaults::engine(&self.world, self.world.spec.engine.as_ref().expect("a Job is about an engine"));
        let images = resolve::builder(&engine).map(|builder| [builder.builder_image, builder.triton_image]);
        let image_digests =
            images.into_iter().flatten().map(|image| (image.clone(), format!("sha256:{}", digest(&image)))).collect();
        let job = self.world.jobs.get_mut(name).unwrap_or_else(|| panic!("no Job {name}"));
        (job.phase, job.image_digests, job.ended_at) = (phase, image_digests, Some(self.world.now));
    }

    /// What resolve finds of a model whose engines are planned by it.
    fn shape(&self) -> Option<ModelShape> {
        let is_planned = self.world.spec.engine.as_ref().is_some_and(|engine| engine.backend != Backend::Custom);
        let quantization = self.quantization.map(str::to_owned);
        let quantization_method = self.quantization_method.map(str::to_owned);
        let llama = tensorrt_llm::llama_8b();
        let parameter_bytes = self.parameter_bytes.unwrap_or(llama.parameter_bytes);
        is_planned.then_some(ModelShape { quantization, quantization_method, parameter_bytes, ..llama })
    }

    fn outcome(&self, job: &str) -> Outcome {
        let uri = self.world.spec.model.uri.clone().expect("engines come from a checkpoint");
        if job.starts_with("resolve-") {
            Outcome::Resolve(ResolveResult {
                uri: uri.clone(),
                commit: None,
                source_digest: digest(&uri),
                tokenizer_digest: None,
                files: 4,
                bytes: 18_250_000,
                shape: self.shape().map(Box::new),
            })
        } else if job.starts_with("fetch-") {
            Outcome::Fetch(FetchResult {
                source_digest: digest(&uri),
                files: 4,
                bytes: 18_250_000,
                transferred_bytes: 18_250_000,
                millis: 900,
            })
        } else {
            Outcome::Build(BuildResult {
                manifest_digest: digest(job),
                files: 7,
                bytes: 17_400_000,
                durations_millis: BTreeMap::new(),
                versions: BTreeMap::new(),
                quality: None,
            })
        }
    }

    pub(super) fn ready_pods(&mut self) {
        for view in self.world.serving.values_mut() {
            *view = ServingView {
                scheduled: view.wanted,
                ready: view.wanted,
                updated: view.wanted,
                is_observed: true,
                wanted: view.wanted,
                ..ServingView::default()
            };
        }
    }

    pub(super) fn fail_pods(&mut self, revision: &str, failure: &str) {
        if let Some(view) = self.world.serving.get_mut(revision) {
            view.failure = Some(failure.to_owned());
            view.is_past_deadline = true;
            view.ready = 0;
        }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        self.world.now += SignedDuration::from_secs(seconds);
    }
}

fn label(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.labels.as_ref()?.get(key).cloned()
}
