//! A node and its kubelet: a pod gets a node, its volumes, its containers; a worker's says what its task came to.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_crds::{identity::content_hash, labels};
use slipway_operator_core::agent_deployment::world::DatasetView;
use slipway_worker_contract::{
    BuildResult, Campaign, Digest, FailureClass, FetchResult, Latency, LatencyMetric, MeasurementVerdict, Message,
    Outcome, Percentile, ProfileEnd, ProfileResult, ProfileTask, QualityResult, QualityTask, ReferenceScores,
    ResolveResult, Row, SweepResult, Task,
};

use super::{BROKEN, all};
use crate::{
    api::{
        kinds::{CLAIMS, CONFIG_MAPS, ENGINES, PODS},
        store::{Key, Store, Writer, is_going},
    },
    story::NAMESPACE,
};

/// What the scheduler says where the node has no room.
const NO_ROOM: &str = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.";
/// Bytes of a termination message that a pod of few containers keeps.
const MESSAGE_BYTES: usize = 4_096;

pub fn step(store: &mut Store, now: &str) {
    for (key, pod) in all(store, PODS) {
        if is_going(&pod) {
            store.remove(&key, Writer::Cluster);
            continue;
        }
        let mut next = (*pod).clone();
        match pod["status"]["phase"].as_str() {
            Some("Pending") if pod["spec"].get("nodeName").is_none() => place(store, &mut next, now),
            Some("Pending") if has_volumes(store, &key, &pod) && misses_engine(store, &pod) => miss(&mut next, now),
            Some("Pending") if has_volumes(store, &key, &pod) => start(&mut next, now),
            Some("Running") => run(store, &key, &mut next, now),
            _ => continue,
        }
        if next != *pod {
            store.put(key, next, Writer::Cluster);
        }
    }
}

/// Whether a pod is an agent's, and not a Job's.
pub fn serves(pod: &Value) -> bool {
    pod["spec"]["restartPolicy"] != "Never"
}

/// A pod gets the node, or reads that it has no room. Jobs' pods always have some.
fn place(store: &Store, pod: &mut Value, now: &str) {
    let is_placed = |pod: &Value| serves(pod) && pod["spec"].get("nodeName").is_some();
    let placed = store.of_kind(PODS).filter(|(_, pod)| is_placed(pod)).count();
    if !serves(pod) || store.room.is_none_or(|room| placed < room) {
        pod["spec"]["nodeName"] = json!("node");
        pod["status"] = json!({"phase": "Pending", "startTime": now, "conditions": [
            {"type": "PodScheduled", "status": "True"}]});
    } else if pod["status"].get("conditions").is_none() {
        pod["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": NO_ROOM, "lastTransitionTime": now}]});
    }
}

/// Whether all that a pod mounts is there.
fn has_volumes(store: &Store, key: &Key, pod: &Value) -> bool {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.into_iter().all(|volume| {
        let named = |kind, name: &Value| store.get(&Key::new(kind, &key.namespace, name.as_str().unwrap_or_default()));
        let config_map = volume.get("configMap").is_none_or(|map| named(CONFIG_MAPS, &map["name"]).is_some());
        let claim = volume.get("persistentVolumeClaim");
        let is_bound =
            |claim: &Value| named(CLAIMS, &claim["claimName"]).is_some_and(|claim| claim["status"]["phase"] == "Bound");
        config_map && claim.is_none_or(is_bound)
    })
}

/// Whether a pod that serves finds no engine on the volume.
fn misses_engine(store: &Store, pod: &Value) -> bool {
    serves(pod) && store.volume.misses_engine_of(pod)
}

/// The init container that copies the engine ends with that message, and is tried again from time to time.
fn miss(pod: &mut Value, now: &str) {
    if pod["status"].get("initContainerStatuses").is_some() {
        return;
    }
    let ended = |_: &Value| {
        json!({"terminated": {"exitCode": 15, "startedAt": now, "finishedAt": now,
        "message": failed("the store has no such engine")}})
    };
    pod["status"]["initContainerStatuses"] = statuses(pod, "initContainers", ended);
}

fn failed(text: &str) -> String {
    let message = Message::Failed { class: FailureClass::MissingArtifact, text: text.to_owned() };
    String::from_utf8(message.encode(MESSAGE_BYTES).unwrap()).unwrap()
}

/// Whether a Job's pod finds no checkpoint on the volume.
fn misses_checkpoint(store: &Store, key: &Key, pod: &Value, task: &Task) -> bool {
    let engine = pod["metadata"]["labels"][labels::ENGINE].as_str().unwrap_or_default();
    let engine = store.get(&Key::new(ENGINES, &key.namespace, engine));
    matches!(task, Task::Build(_)) && engine.is_some_and(|engine| store.volume.misses_checkpoint_of(&engine))
}

fn digest_of(text: &str) -> Digest {
    content_hash(&text).unwrap().as_str().parse().unwrap()
}

/// The status of a container, in a state.
fn container(container: &Value, state: Value) -> Value {
    let image = container["image"].as_str().unwrap_or_default();
    let repository = image.split(['@']).next().unwrap_or_default().rsplit_once(':').map_or(image, |(name, _)| name);
    json!({"name": container["name"], "image": image, "imageID": format!("{repository}@sha256:{}", digest_of(image)),
        "ready": false, "restartCount": 0, "state": state})
}

fn statuses(pod: &Value, list: &str, state: impl Fn(&Value) -> Value) -> Value {
    pod["spec"][list].as_array().into_iter().flatten().map(|each| container(each, state(each))).collect()
}

fn start(pod: &mut Value, now: &str) {
    let running = |_: &Value| json!({"running": {"startedAt": now}});
    let (init, main) = (statuses(pod, "initContainers", running), statuses(pod, "containers", running));
    let address = content_hash(&pod["metadata"]["uid"]).unwrap();
    let part = |at: usize| u8::from_str_radix(&address.as_str()[at..at + 2], 16).unwrap();
    let status = &mut pod["status"];
    status["phase"] = json!("Running");
    status["podIP"] = json!(format!("10.{}.{}.{}", part(0), part(2), part(4)));
    status["initContainerStatuses"] = init;
    status["containerStatuses"] = main;
}

fn run(store: &mut Store, key: &Key, pod: &mut Value, now: &str) {
    match pod["spec"]["restartPolicy"].as_str() {
        Some("Never") => finish(store, key, pod, now),
        _ if is_broken(store, key, pod) => crash(pod, now),
        _ if !is_ready(pod) => {
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
            pod["status"]["conditions"].as_array_mut().unwrap().push(ready);
        }
        _ => {}
    }
}

pub fn is_ready(pod: &Value) -> bool {
    !ready_since(pod).is_null()
}

pub fn ready_since(pod: &Value) -> Value {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready.map(|ready| ready["lastTransitionTime"].clone()).unwrap_or_default()
}

/// The text of a pod's own ConfigMap under a key.
fn file(store: &Store, key: &Key, pod: &Value, file: &str) -> Option<String> {
    let volumes = pod["spec"]["volumes"].as_array()?.iter();
    let names = volumes.filter_map(|volume| volume["configMap"]["name"].as_str());
    let maps = names.filter_map(|name| store.get(&Key::new(CONFIG_MAPS, &key.namespace, name)));
    maps.filter_map(|map| map["data"][file].as_str().map(str::to_owned)).next()
}

fn is_broken(store: &Store, key: &Key, pod: &Value) -> bool {
    file(store, key, pod, "config.json").is_some_and(|text| text.contains(BROKEN))
}

fn crash(pod: &mut Value, now: &str) {
    if pod["status"]["containerStatuses"][0]["restartCount"] != 0 {
        return;
    }
    let status = &mut pod["status"]["containerStatuses"][0];
    status["restartCount"] = json!(3);
    status["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    status["lastState"] = json!({"terminated": {"exitCode": 1, "finishedAt": now, "message": "the prompt is broken"}});
}

/// The containers of a Job's pod end, the last of them with a message.
fn finish(store: &mut Store, key: &Key, pod: &mut Value, now: &str) {
    let Some(task) = file(store, key, pod, "task.json") else { return };
    let task: Task = serde_json::from_str(&task).unwrap();
    if misses_checkpoint(store, key, pod, &task) {
        let ended = |_: &Value| {
            json!({"terminated": {"exitCode": 15, "startedAt": now, "finishedAt": now,
            "message": failed("the store has no such checkpoint")}})
        };
        let main = statuses(pod, "containers", ended);
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["containerStatuses"] = main;
        return;
    }
    let mut result = outcome(&task, &key.name);
    store.volume.worked(pod, &task, &mut result);
    let message = Message::Succeeded { result };
    let message = String::from_utf8(message.encode(MESSAGE_BYTES).unwrap()).unwrap();
    let ended =
        |message: &str| json!({"terminated": {"exitCode": 0, "startedAt": now, "finishedAt": now, "message": message}});
    let init = statuses(pod, "initContainers", |_| ended(""));
    let main = statuses(pod, "containers", |_| ended(&message));
    let status = &mut pod["status"];
    status["phase"] = json!("Succeeded");
    status["initContainerStatuses"] = init;
    status["containerStatuses"] = main;
}

fn outcome(task: &Task, pod: &str) -> Outcome {
    match task {
        Task::Resolve(task) => Outcome::Resolve(ResolveResult {
            uri: task.uri.clone(),
            commit: None,
            // A mirror has the same content.
            source_digest: digest_of(task.uri.rsplit('/').next().unwrap_or_default()),
            tokenizer_digest: None,
            files: 4,
            bytes: 18_250_000,
            shape: None,
        }),
        Task::Fetch(task) => Outcome::Fetch(FetchResult {
            source_digest: task.source_digest.clone(),
            files: 4,
            bytes: 18_250_000,
            transferred_bytes: 18_250_000,
            millis: 900,
        }),
        Task::Build(_) => Outcome::Build(BuildResult {
            manifest_digest: digest_of(pod.rsplit_once('-').map_or(pod, |(job, _)| job)),
            files: 7,
            bytes: 17_400_000,
            durations_millis: BTreeMap::new(),
            versions: BTreeMap::new(),
            quality: None,
        }),
        Task::Sweep(_) => Outcome::Sweep(SweepResult::default()),
        Task::Profile(task) => Outcome::Profile(measured(task)),
        Task::Quality(task) => Outcome::Quality(scored(task)),
    }
}

/// Name of the ConfigMap with the data set, and its key.
pub const DATASET: [&str; 2] = ["evaluation", "samples.jsonl"];
const SAMPLE: &str = r#"{"id":"1","prompt":"Question: 1+1\n","expected":"2","maxTokens":8,"stopWords":[]}"#;

/// Writes the data set, as a person does.
pub fn write_dataset(store: &mut Store) {
    let [name, file] = DATASET;
    let (key, metadata) = (Key::new(CONFIG_MAPS, NAMESPACE, name), json!({"name": name, "namespace": NAMESPACE}));
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {file: SAMPLE}});
    store.put(key, object, Writer::Cluster);
}

/// No engine answers worse than the reference.
fn scored(task: &QualityTask) -> QualityResult {
    let DatasetView::Samples { digest, .. } = DatasetView::read(SAMPLE) else { unreachable!("the data set is valid") };
    let reference = task.reference.clone().map(|engine| ReferenceScores {
        engine,
        score_ppm: 980_000,
        drop_ppm: 0,
        drop_upper_ppm: 10_000,
        confidence_ppm: task.confidence_ppm,
        worse: 0,
        better: 0,
    });
    QualityResult { metric: task.metric, dataset_digest: digest, samples: 400, score_ppm: 980_000, reference }
}

/// Every point of a campaign meets its objective; engines differ by their names, so that none is close to another.
fn measured(task: &ProfileTask) -> ProfileResult {
    let rows = match &task.campaign {
        Campaign::Explore { arms, levels, .. } => {
            arms.iter().flat_map(|arm| levels.iter().map(|level| row(task, &arm.id, *level))).collect()
        }
        Campaign::Repeat { points, .. } => points.iter().map(|point| row(task, &point.arm.id, point.level)).collect(),
        Campaign::Confirm { arm, level, .. } => vec![row(task, &arm.id, *level)],
    };
    ProfileResult {
        input_hash: task.input_hash.clone(),
        rows,
        omitted_rows: 0,
        gpu_millis: 60_000,
        end: ProfileEnd::Complete,
        reason: "every point is measured".to_owned(),
        not_measured: Vec::new(),
        omitted_not_measured: 0,
    }
}

fn row(task: &ProfileTask, arm: &str, level: u32) -> Row {
    let speed = task.engine.identity.bytes().fold(0u64, |sum, byte| (31 * sum + u64::from(byte)) % 97);
    let latency = |percentile| Latency {
        metric: LatencyMetric::AgentRunLatency,
        percentile,
        micros: 900_000,
        lower_micros: 890_000,
        upper_micros: Some(910_000),
    };
    Row {
        arm: arm.to_owned(),
        level,
        verdict: MeasurementVerdict::Feasible,
        count: 300,
        errors: 0,
        millis: 30_000,
        per_kilosecond: 10_000 + 1_000 * speed,
        per_kilosecond_error: None,
        latencies: [Percentile::P50, Percentile::P95].map(latency).to_vec(),
        output_tokens: None,
        gpu: None,
        gpu_millis: 60_000,
        model_analyzer: None,
        records: None,
        arrivals_per_kilosecond: None,
        reason: String::new(),
    }
}
