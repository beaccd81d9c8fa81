//! A cluster in memory: it keeps what a plan writes, and its worker computes rows from the task that it was given.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::OwnerReference};
use slipway_crds::v1alpha1::{
    agent_deployment::Precision,
    profile::{EngineAxes, ProfilePhase},
};
use slipway_worker_contract::{
    Campaign, Cell, Digest, EngineRef, FailureClass, Latency, LatencyMetric, MeasurementVerdict, Outcome, Percentile,
    Phase, ProfileEnd, ProfileResult, ProfileTask, Progress, Row, Task,
};

use super::super::*;
use crate::{
    jobs::view::{Grant, JobPhase, JobView},
    plan::Child,
    profile::world::{AgentView, Offer},
    reworded,
};

const SPEC: &str = "
agentDeployment: facts
inputHash: 5f0c2a
inputs:
  engines:
  - {name: engine-a, manifestDigest: '%A', displayName: fp32}
  - {name: engine-b, manifestDigest: '%B', displayName: int8}
  configurations:
  - {name: instances-1, settings: {instances: 1}}
  - {name: instances-2, settings: {instances: 2}}
  levels: [1, 4]
  driver: ModelAnalyzer
  prompts:
  - {name: chat, weight: 1, data: {configMap: {name: prompts, key: chat.jsonl}, digest: '%A'}}
  objectives:
  - {name: fast, metric: RequestLatency, percentile: p95, max: 200ms}
  replicas: 2
  optimizeFor: Throughput
  budget: {gpuHours: '8', measurements: 100}
  agent:
    tools:
    - {name: lookup, type: HTTP, http: {url: 'http://facts.team.svc/{name}?field={field}', arguments: [name, field]}}
  placement:
    tritonImage: example.com/triton:1
    tritonResources: {limits: {nvidia.com/gpu: '1'}}
";

const TRACE: &str = "{configMap: {name: runs, key: runs.jsonl}, digest: '%A'}";

/// A Profile in its cluster.
pub struct Cluster {
    pub world: ProfileWorld,
    /// Messages of the events.
    pub notes: Vec<String>,
    /// Tasks in the order in which their Jobs were created.
    pub tasks: Vec<ProfileTask>,
    /// Names of their Jobs.
    pub named: Vec<String>,
    /// Engines whose Jobs fail.
    pub broken: Vec<&'static str>,
    /// Verdicts of confirm runs by configuration; feasible where none is given.
    pub confirms: BTreeMap<&'static str, MeasurementVerdict>,
    /// Throughputs as a disturbed minute shows them, by engine, configuration and the number of the measurement from 0.
    /// They are those of int8 with 4 in flight and of fp32 with 1, because it misses the objective with more.
    pub disturbed: BTreeMap<(&'static str, &'static str, i32), u64>,
    /// Whether rounds end before their latencies are decided.
    pub open_rounds: bool,
}

pub fn cluster() -> Cluster {
    let yaml = SPEC.replace("%A", &"aa".repeat(32)).replace("%B", &"bb".repeat(32));
    let settings = "images: {worker: 'example.com/worker:1', agentRuntime: 'example.com/agent:1', \
                    modelAnalyzer: 'example.com/sdk:1'}";
    let world = ProfileWorld {
        now: Timestamp::from_second(1_767_225_600).expect("a time of this century"),
        settings: Arc::new(serde_norway::from_str(settings).expect("valid settings")),
        name: "facts-5f0c2a".to_owned(),
        namespace: "team".to_owned(),
        generation: 1,
        owner: OwnerReference::default(),
        spec: serde_norway::from_str(&yaml).expect("a valid spec"),
        status: ProfileStatus::default(),
        jobs: BTreeMap::new(),
        progress: BTreeMap::new(),
        earlier: Vec::new(),
        agent: AgentView::default(),
        created: None,
    };
    Cluster {
        world,
        notes: Vec::new(),
        tasks: Vec::new(),
        named: Vec::new(),
        broken: Vec::new(),
        confirms: BTreeMap::new(),
        disturbed: BTreeMap::new(),
        open_rounds: false,
    }
}

impl Cluster {
    /// Engines are built when the search asks for them.
    pub fn asking(mut self) -> Self {
        for (engine, precision) in self.world.spec.inputs.engines.iter_mut().zip([Precision::FP32, Precision::INT8]) {
            engine.manifest_digest = String::new();
            engine.axes = Some(EngineAxes {
                precision,
                kv_cache_precision: None,
                tensor_parallel: None,
                pipeline_parallel: None,
                max_batch_size: None,
                max_num_tokens: None,
                variant: String::new(),
            });
        }
        self
    }

    /// Engines that were asked for, in the order of asking.
    pub fn asked(&self) -> Vec<&str> {
        self.world.status.asked.iter().map(|asked| asked.engine.as_str()).collect()
    }

    /// The AgentDeployment offers an engine.
    pub fn offer(&mut self, engine: &str) {
        let digest = if engine == "engine-a" { "aa" } else { "bb" }.repeat(32);
        self.world.agent.offers.insert(engine.to_owned(), Offer::Artifact(digest));
    }

    /// With recorded runs, so that a choice is confirmed.
    pub fn with_trace(mut self) -> Self {
        self.world.spec.inputs.agent_trace =
            Some(serde_norway::from_str(&TRACE.replace("%A", &"aa".repeat(32))).expect("a valid trace"));
        self
    }

    /// Decides and carries out once; whether anything was changed.
    pub fn step(&mut self) -> bool {
        let plan = decide(&self.world);
        self.assert_decides_by_no_words(&plan);
        self.notes.extend(plan.notes.iter().map(|note| note.message.clone()));
        let mut is_changed = plan.status != self.world.status;
        self.world.status = plan.status;
        let mut task = None;
        for child in plan.children {
            match child {
                Child::ConfigMap(object) => task = Some(read_task(&object)),
                Child::Job(object) => {
                    let name = object.metadata.name.clone().expect("a Job has a name");
                    let task = task.take().expect("the task comes before its Job");
                    is_changed |= self.start(name, task, Grant::of(&object));
                }
                other => panic!("{other:?}"),
            }
        }
        is_changed
    }

    fn start(&mut self, name: String, task: ProfileTask, grant: Option<Grant>) -> bool {
        self.tasks.push(task);
        self.named.push(name.clone());
        let view = JobView { grant, ..JobView::in_phase(name.clone(), JobPhase::Running { started_at: None }) };
        self.world.jobs.insert(name, view).is_none()
    }

    /// Holds a plan against that of an operator that finds other words in the status.
    fn assert_decides_by_no_words(&self, plan: &Plan<ProfileStatus>) {
        let mut world = self.world.clone();
        reworded::profile(&mut world.status);
        reworded::assert_alike(plan, &decide(&world), reworded::profile);
    }

    /// Until nothing changes any more: a Job runs, or the campaign has ended.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not settle: {:?}", self.world.status);
    }

    /// Name of the running Job.
    pub fn running(&self) -> Option<String> {
        let is_running = |view: &&JobView| matches!(view.phase, JobPhase::Running { .. });
        self.world.jobs.values().find(is_running).map(|view| view.name.clone())
    }

    /// What the latest Job measures in the end.
    pub fn rows(&self) -> Vec<Row> {
        self.rows_of(self.tasks.last().expect("a Job was created"))
    }

    fn rows_of(&self, task: &ProfileTask) -> Vec<Row> {
        match &task.campaign {
            Campaign::Explore { arms, levels, max_measurements, .. } => {
                let cells = arms.iter().flat_map(|arm| levels.iter().map(move |level| (arm.id.as_str(), *level)));
                let is_new = |(arm, level): &(&str, u32)| {
                    !task.measured.iter().any(|row| row.arm == *arm && row.level == *level)
                };
                let left = usize::try_from(*max_measurements).expect("small");
                cells
                    .filter(is_new)
                    .take(left)
                    .map(|(arm, level)| self.measured(&task.engine.identity, (arm, level), 0))
                    .collect()
            }
            Campaign::Repeat { points, .. } => {
                let tasks = self.tasks.iter().filter(|of| matches!(of.campaign, Campaign::Repeat { .. }));
                let round = tasks.filter(|of| of.engine == task.engine).count();
                let round = i32::try_from(round).expect("few");
                let is_new =
                    |cell: &&Cell| !task.measured.iter().any(|row| row.arm == cell.arm.id && row.level == cell.level);
                let of = |cell: &Cell| self.measured(&task.engine.identity, (&cell.arm.id, cell.level), round);
                let ended = |row: Row| if self.open_rounds { open(row) } else { row };
                points.iter().filter(is_new).map(of).map(ended).collect()
            }
            Campaign::Confirm { arm, level, .. } => {
                let verdict = self.confirms.get(arm.id.as_str()).copied().unwrap_or(MeasurementVerdict::Feasible);
                vec![Row { verdict, ..row(&arm.id, *level, (500, 900_000)) }]
            }
        }
    }

    /// What a worker measures of a point; the first time has the number 0.
    fn measured(&self, engine: &str, (arm, level): (&str, u32), number: i32) -> Row {
        let row = explored(engine, arm, level);
        let disturbed = self.disturbed.iter().find(|(of, _)| **of == (engine, arm, number));
        let at = if engine == "engine-a" { 1 } else { 4 };
        match disturbed.filter(|_| level == at) {
            Some((_, per_kilosecond)) => Row { per_kilosecond: *per_kilosecond, ..row },
            None => row,
        }
    }

    /// The running Job shows so many of its rows.
    pub fn show(&mut self, count: usize, phase: Phase) {
        let job = self.running().expect("a Job runs");
        let task = self.tasks.last().expect("a Job was created");
        let rows = self.rows().into_iter().take(count).collect();
        let progress = Progress {
            input_hash: task.input_hash.clone(),
            engine: task.engine.clone(),
            phase,
            rows,
            gpu_millis: 0,
            not_measured: Vec::new(),
        };
        self.world.progress.insert(job, progress);
    }

    /// The running Job ends, and its message holds all of its rows but the first `omitted`.
    pub fn end(&mut self, end: ProfileEnd, omitted: usize) {
        let job = self.named.last().cloned().expect("a Job was created");
        self.end_job(&job, end, omitted);
    }

    /// The same of any Job.
    pub fn end_job(&mut self, job: &str, end: ProfileEnd, omitted: usize) {
        let position = self.named.iter().rposition(|name| name == job).expect("the Job was created");
        let task = &self.tasks[position];
        let rows: Vec<Row> = self.rows_of(task).into_iter().skip(omitted).collect();
        let phase = if self.broken.contains(&task.engine.identity.as_str()) {
            let failure = "Triton does not load the model: no such file".to_owned();
            JobPhase::Failed { class: FailureClass::BadModel, failure, finished_at: Some(self.world.now) }
        } else {
            let result = ProfileResult {
                input_hash: task.input_hash.clone(),
                rows,
                omitted_rows: u32::try_from(omitted).expect("small"),
                gpu_millis: 0,
                end,
                reason: "every cell is measured".to_owned(),
                not_measured: Vec::new(),
                omitted_not_measured: 0,
            };
            JobPhase::Succeeded { outcome: Box::new(Outcome::Profile(result)), milliseconds: 60_000 }
        };
        self.world.progress.clear();
        self.world.jobs.get_mut(job).expect("the Job is there").phase = phase;
    }

    /// The campaign to its end.
    pub fn finish(&mut self) -> &ProfileStatus {
        for _ in 0..20 {
            self.settle();
            if self.running().is_none() {
                return &self.world.status;
            }
            self.end(ProfileEnd::Complete, 0);
        }
        panic!("it does not end: {:?}", self.world.status);
    }

    /// The phase and the message.
    pub fn told(&self) -> (Option<ProfilePhase>, &str) {
        (self.world.status.phase, self.world.status.message.as_str())
    }
}

fn read_task(object: &ConfigMap) -> ProfileTask {
    let text = object.data.as_ref().and_then(|data| data.get("task.json")).expect("the task is there");
    match serde_json::from_str(text).expect("a task of the contract") {
        Task::Profile(task) => *task,
        other => panic!("{other:?}"),
    }
}

/// INT8 is twice as fast; 4 in flight bring more throughput; a second instance brings more of both, and
/// enough to be told apart.
fn explored(engine: &str, arm: &str, level: u32) -> Row {
    let speed = if engine == "engine-b" { 2 } else { 1 };
    let instances = if arm == "instances-2" { 2 } else { 1 };
    let per_kilosecond = 4_000 * speed + 1_000 * speed * u64::from(level) + 500 * speed * instances;
    row(arm, level, (per_kilosecond, 100_000 * u64::from(level).isqrt() / speed))
}

/// A round that ended while its latency was only known to lie between 150 and 300 ms.
fn open(mut row: Row) -> Row {
    for latency in &mut row.latencies {
        (latency.micros, latency.lower_micros, latency.upper_micros) = (205_000, 150_000, Some(300_000));
    }
    Row { verdict: MeasurementVerdict::Unbounded, ..row }
}

pub fn row(arm: &str, level: u32, (per_kilosecond, micros): (u64, u64)) -> Row {
    let latency = |percentile, share: u64| Latency {
        metric: LatencyMetric::RequestLatency,
        percentile,
        micros,
        lower_micros: micros - micros * share / 100,
        upper_micros: Some(micros + micros * share / 100),
    };
    Row {
        arm: arm.to_owned(),
        level,
        verdict: if micros + micros / 10 <= 200_000 {
            MeasurementVerdict::Feasible
        } else {
            MeasurementVerdict::Infeasible
        },
        count: 120,
        errors: 0,
        millis: 10_000,
        per_kilosecond,
        per_kilosecond_error: None,
        latencies: vec![latency(Percentile::P50, 0), latency(Percentile::P95, 10)],
        output_tokens: None,
        gpu: None,
        gpu_millis: 12_000,
        model_analyzer: None,
        records: Some(Digest::from_bytes(&[1; 32])),
        arrivals_per_kilosecond: None,
        reason: String::new(),
    }
}

/// The engine as the worker knows it.
pub fn engine_a() -> EngineRef {
    EngineRef { identity: "engine-a".to_owned(), manifest_digest: "aa".repeat(32).parse().expect("64 digits") }
}
