//! The objects of an AgentDeployment, with the clock, the names of Jobs and the digests held still.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde_json::Value;
use slipway_crds::v1alpha1::{
    AgentDeployment, AgentDeploymentStatus, EngineStatus,
    agent_deployment::{
        Authentication, Baseline, CustomEngine, EngineConfiguration, EngineEntry, NoBuildBlock, ServedBy,
        TensorRtLlmBlock, backend_and_server,
    },
    engine::EngineBuild,
    shared::ServingConfiguration,
};
use slipway_operator_core::{
    agent_deployment::{
        commands::Annotated,
        defaults,
        engines::{self, build::quality_job::QualityInputs},
        monitoring::{
            self,
            drift::{Memory, MemoryView},
            judged_runs::BudgetsView,
            load::ObservedLoad,
            observed_objectives::ObservedObjectives,
        },
        preflight::planned_preflight,
        resolve,
        rollout::{
            build::{
                controller_revision, serving,
                traffic::{self, Split},
            },
            layout::Layout,
            revision::{PlannedEngine, RevisionPlan, Served, ServedArtifact, ServedUpstream, baseline_of, input_hash},
        },
        world::{PoolsView, RouteView, RulesView, World},
    },
    artifact_store,
    engine::{
        build::build_job,
        world::{EngineWorld, Use},
    },
    plan::Child,
    settings::Settings,
};
use slipway_vocabulary::evidence::Metric;
use slipway_worker_contract::{Digest, EngineRef};

use super::campaign;

const SETTINGS: &str = "
images:
  worker: registry.example/worker:1
  agentRuntime: registry.example/agent-runtime:1
  preflight: registry.example/preflight:1
store: {storageClassName: shared, size: 50Gi}
alerts: {ruleLabels: {release: kube-prometheus-stack}, runbookUrl: 'https://runbooks.example/slipway/'}
";

/// Name of the revision on trial.
const CANARY: &str = "0123456789";

/// The objects as the API server receives them.
pub struct Objects {
    /// What they were made from.
    pub agent_deployment: AgentDeployment,
    /// Name of the revision that serves.
    pub revision: String,
    /// The objects, in the order in which they are made.
    pub all: Vec<Value>,
}

/// A digest of one digit.
pub fn digest(digit: &str) -> Digest {
    digit.repeat(64).parse().expect("64 digits")
}

fn world(object: &AgentDeployment) -> World {
    let mut object = object.clone();
    object.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
    World {
        now: Timestamp::UNIX_EPOCH,
        settings: settings(),
        name: object.name_any(),
        namespace: object.namespace().expect("the fixture has a namespace"),
        generation: 1,
        owner: object.controller_owner_ref(&()).expect("the fixture has a name"),
        spec: object.spec,
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
        evidence: BTreeMap::new(),
        budgets: BudgetsView::NotAsked,
        guardrails: BTreeMap::new(),
        route: RouteView::Absent,
        pools: PoolsView::default(),
        rules: RulesView::default(),
        jobs: BTreeMap::new(),
        engines: BTreeMap::new(),
        revisions: Vec::new(),
        serving: BTreeMap::new(),
        objects: BTreeMap::new(),
    }
}

/// The operator's configuration.
pub fn settings() -> Arc<Settings> {
    Arc::new(serde_norway::from_str(SETTINGS).expect("valid settings"))
}

/// The object as JSON, with its kind first; the builders leave it to the API's path.
pub fn value<K: Resource<DynamicType = ()> + serde::Serialize>(object: &K) -> Value {
    let mut value = serde_json::to_value(object).expect("an object is JSON");
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    value
}

/// A child as JSON.
pub fn child(child: &Child) -> Value {
    match child {
        Child::ConfigMap(object) => value(object.as_ref()),
        Child::PersistentVolumeClaim(object) => value(object.as_ref()),
        Child::Service(object) => value(object.as_ref()),
        Child::Deployment(object) => value(object.as_ref()),
        Child::HttpRoute(object) => value(object.as_ref()),
        Child::InferencePool(object) => value(object.as_ref()),
        Child::NetworkPolicy(object) => value(object.as_ref()),
        Child::PrometheusRule(object) => value(object.as_ref()),
        Child::Job(object) => value(object.as_ref()),
        Child::Engine(object) => value(object.as_ref()),
        Child::Profile(object) => value(object.as_ref()),
        Child::ControllerRevision(object) => value(object.as_ref()),
    }
}

impl Objects {
    /// Everything that is written for an AgentDeployment on its way to serving, with a plan of this layout.
    pub fn of(agent_deployment: &AgentDeployment, layout: Layout) -> Self {
        let world = world(agent_deployment);
        let mut all = match world.spec.upstream() {
            Some(_) => Vec::new(),
            None => until_measured(&world),
        };
        let plan = plan(&world, layout);
        let revision = plan.hash().expect("a plan has a hash").short().to_owned();
        let inputs = input_hash(&defaults::completed(&world)).expect("a spec has a hash");
        all.push(value(&controller_revision::controller_revision(&world, &revision, inputs.as_str(), (1, &plan))));
        all.extend(serving::revision_children(&world, &revision, &plan, world.replicas()).iter().map(child));
        let canary = world.spec.rollout.traffic.gateway_api.as_ref().map(|_| (CANARY, 20));
        let name = baseline_of(CANARY);
        let baseline = canary.filter(|_| world.spec.rollout.baseline == Baseline::MirrorBaseline);
        let baseline = baseline.map(|(_, weight)| (name.as_str(), weight));
        let mirrored = baseline.map(|(name, _)| serving::revision_children(&world, name, &plan, 1));
        all.extend(mirrored.iter().flatten().map(child));
        let split = Split { stable: Some(&revision), canary, baseline };
        all.extend(traffic::traffic(&world, split).iter().map(child));
        all.extend(rules(&world));
        Self { agent_deployment: agent_deployment.clone(), revision, all }
    }

    /// Who reaches the pods, where the platform team asks for policies.
    pub fn network_policies(&self) -> Vec<Value> {
        let mut settings = Settings::clone(&settings());
        settings.network_policies.agents = true;
        settings.network_policies.operator_namespace = Some("slipway-system".to_owned());
        settings.network_policies.metrics_namespaces = vec!["monitoring".to_owned()];
        settings.network_policies.agent_ports = vec![8080, 443];
        let world = World { settings: Arc::new(settings), ..world(&self.agent_deployment) };
        let children = serving::revision_children(&world, &self.revision, &plan(&world, Layout::CURRENT), 1);
        children.iter().map(child).filter(|object| object["kind"] == "NetworkPolicy").collect()
    }

    /// What is remembered of what serves once it has had traffic.
    pub fn drift_memory(&self) -> Value {
        let world = world(&self.agent_deployment);
        let identity = BTreeMap::from([("engine".to_owned(), format!("sha256:{}", digest("c")))]);
        let mut memory = Memory::begin(&self.revision, identity, 600);
        let counts = serde_json::json!({"count": 3, "errors": 1, "buckets": [[550, 1], [551, 1]]});
        let counts = serde_json::from_value(counts).expect("valid counts");
        memory.baseline.counted.set(Metric::AgentRunLatency, "miss/p9/f1".to_owned(), counts);
        memory.mark([("support-1@2026-01-01T00:00:00Z".to_owned(), 119)], 120);
        memory.counted_to = 1_200;
        value(&monitoring::drift::config_map::config_map(&world, &memory))
    }

    /// Objects of one kind.
    pub fn kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.all.iter().filter(move |object| object["kind"] == kind)
    }
}

/// What comes before a plan: the checkpoint, an engine, its quality and a campaign.
fn until_measured(world: &World) -> Vec<Value> {
    let custom = builder(world);
    let mut all = vec![value(&artifact_store::claim(&world.namespace, &world.settings.store))];
    let checkpoint = world.spec.checkpoint().expect("an engine comes from a checkpoint");
    let mut images = vec![custom.builder_image.clone(), custom.triton_image.clone()];
    images.dedup();
    let what = (checkpoint, images.as_slice());
    let (task, job) = resolve::build::resolve_job::resolve_job(world, "resolve-0123456789-1", what);
    all.extend([value(&task), value(&job)]);
    let from = (checkpoint, checkpoint.uri, "0123456789");
    let (task, job) = resolve::build::fetch_job::fetch_job(world, "fetch-0123456789-1", from, digest("a"));
    all.extend([value(&task), value(&job)]);
    let engine = engines::build::engine::engine(world, "engine-0123456789", engine_build(world), &custom.builder_image);
    all.push(value(&engine));
    let (task, job) = build_job(&engine_world(&engine), "build-0123456789-1").expect("the source has a digest");
    all.extend([value(&task), value(&job)]);
    all.extend(quality(world, &custom));
    all.extend(campaign::objects(world));
    all
}

/// The task and the Job that score an engine, if there is an objective for it.
fn quality(world: &World, custom: &CustomEngine) -> Vec<Value> {
    let Some(objective) = &world.spec.slo.quality else { return Vec::new() };
    let task = serde_json::json!({ "metric": "ExactMatch", "confidencePpm": 950_000 });
    let inputs = QualityInputs {
        task: serde_json::from_value(task).expect("a valid task"),
        prompts: "{\"id\":\"1\",\"prompt\":\"Question: 1+1?\",\"maxTokens\":8,\"stopWords\":[]}\n",
        dataset: &objective.dataset.config_map,
        custom,
        served_by: served_by(world),
        gpu_product: None,
    };
    let engine = EngineRef { identity: "engine-0123456789".to_owned(), manifest_digest: digest("c") };
    let (task, job) = engines::build::quality_job::quality_job(world, "quality-0123456789-1", &engine, inputs);
    vec![value(&task), value(&job)]
}

/// The alerting rules as either kind of cluster holds them.
fn rules(world: &World) -> Vec<Value> {
    let is_wanted = world.spec.alerts.burn_rate;
    let held = [false, true].into_iter().filter(|_| is_wanted).filter_map(|knows_prometheus_rules| {
        let rules = RulesView { knows_prometheus_rules, ..RulesView::default() };
        monitoring::build::alerts::child(&World { rules, ..world.clone() })
    });
    held.map(|rules| child(&rules)).collect()
}

/// What builds and serves: the fixture's, or the image of a vendor.
fn builder(world: &World) -> CustomEngine {
    let vendor =
        serde_json::json!({ "builderImage": "registry.example/vendor:1", "tritonImage": "registry.example/vendor:1" });
    let vendor = || serde_json::from_value(vendor).expect("a valid builder");
    engine(world).custom.clone().unwrap_or_else(vendor)
}

/// The engine of the fixture.
pub fn engine(world: &World) -> &EngineConfiguration {
    world.spec.engine.as_ref().expect("the fixture has an engine")
}

/// Processes of the fixture's engine, where the backend knows of any.
pub fn ranks(world: &World) -> Option<u32> {
    engine(world).tensorrt_llm.as_ref().map(|_| 2)
}

/// What serves the fixture's engine.
fn served_by(world: &World) -> ServedBy {
    match engine(world).served_by() {
        ServedBy::TensorRtLlm { .. } => ServedBy::of(ranks(world), entry(world), None),
        other => other,
    }
}

/// What is asked of the fixture's engine.
pub fn entry(world: &World) -> EngineEntry {
    engine(world).tensorrt_llm.as_ref().map(|engine| engine.options.entry).unwrap_or_default()
}

/// One engine of TensorRT-LLM's, split over two GPUs.
fn tensorrt_llm(world: &World) -> Option<Value> {
    let TensorRtLlmBlock { version, block } = TensorRtLlmBlock::of(engine(world))?;
    let mut options = serde_json::json!(block.options);
    options["maxSeqLen"] = serde_json::json!(block.max_seq_len);
    Some(serde_json::json!({
        "version": version, "gpuProduct": "NVIDIA-H100-80GB-HBM3", "tensorParallel": 2, "pipelineParallel": 1,
        "kvCachePrecision": "FP8", "maxBatchSize": 16, "maxNumTokens": 8192,
        "calibration": {"digest": digest("d"), "samples": 512, "maxTokens": 512},
        "options": options,
    }))
}

/// One engine without a build, split over two GPUs.
fn no_build(world: &World) -> Option<Value> {
    let NoBuildBlock { backend, version, image: _, memory, max_seq_len, features, options } =
        NoBuildBlock::of(engine(world))?;
    let mut options = serde_json::json!(options);
    options["maxSeqLen"] = serde_json::json!(max_seq_len);
    let (_, server) = backend_and_server(backend);
    Some(serde_json::json!({
        "version": version, "server": server, "features": features.cloned().unwrap_or_default(), "gpuProduct": "NVIDIA-H100-80GB-HBM3", "tensorParallel": 2, "pipelineParallel": 1,
        "kvCachePrecision": "FP8", "maxBatchSize": 64, "maxNumTokens": 8192, "memory": memory, "options": options,
    }))
}

/// Read from JSON, as the API server keeps it: what is optional is absent.
fn engine_build(world: &World) -> EngineBuild {
    let mut build = serde_json::json!({
        "backend": engine(world).backend,
        "sourceDigest": digest("a"),
        "builderImageDigest": format!("sha256:{}", digest("b")),
        "precision": defaults::completed(world).search.precision[0],
        "options": engine(world).custom.as_ref().map(|custom| custom.options.clone()).unwrap_or_default(),
    });
    if let Some(block) = tensorrt_llm(world) {
        build["tensorRTLLM"] = block;
    }
    if let Some(block) = no_build(world) {
        build["noBuild"] = block;
    }
    serde_json::from_value(build).expect("a valid build")
}

fn engine_world(engine: &slipway_crds::v1alpha1::Engine) -> EngineWorld {
    let mut engine = engine.clone();
    engine.metadata.uid = Some("66666666-7777-8888-9999-000000000000".to_owned());
    EngineWorld {
        now: Timestamp::UNIX_EPOCH,
        settings: settings(),
        name: engine.name_any(),
        namespace: engine.namespace().expect("an engine has a namespace"),
        generation: 1,
        owner: engine.controller_owner_ref(&()).expect("an engine has a name"),
        spec: engine.spec,
        status: EngineStatus::default(),
        jobs: BTreeMap::new(),
        resource_version: "1".to_owned(),
        used: Use::Used,
        missed_at: None,
        fetched_at: None,
    }
}

/// A plan as the operator made it when this layout was new.
fn plan(world: &World, layout: Layout) -> RevisionPlan {
    let settings = settings();
    let worker_resources = match layout {
        Layout::V1 => None,
        Layout::V2 | Layout::V3 | Layout::V4 | Layout::V5 | Layout::V6 => Some(settings.jobs.worker_resources.clone()),
    };
    let served = match world.spec.upstream() {
        Some(upstream) => Served::Upstream(ServedUpstream { upstream: upstream.clone() }),
        None => Served::Artifact(artifact(world)),
    };
    RevisionPlan {
        layout,
        served,
        max_in_flight: world.spec.upstream().map_or(8, |upstream| upstream.max_in_flight),
        agent_runtime_image: settings.images.agent_runtime.clone(),
        agent: world.spec.agent.clone(),
        hardware: world.spec.hardware.clone(),
        agent_resources: world.spec.serving.agent_resources.clone(),
        worker_resources,
        authentication: world.spec.serving.authentication.as_ref().map(Authentication::without_rates),
        tracing: world.spec.serving.tracing.clone(),
        recording: world.spec.serving.recording.level,
    }
}

fn artifact(world: &World) -> ServedArtifact {
    let settings = settings();
    ServedArtifact {
        engine: PlannedEngine {
            name: "engine-0123456789".to_owned(),
            manifest_digest: digest("c"),
            display_name: "fp32".to_owned(),
            served_by: served_by(world),
        },
        configuration: ServingConfiguration::default(),
        triton_image: "registry.example/triton:1".to_owned(),
        worker_image: settings.images.worker.clone(),
        triton_resources: world.spec.serving.triton_resources.clone(),
        preflight: planned_preflight(&settings, &world.spec.serving).expect("there are no checks, or an image"),
    }
}
