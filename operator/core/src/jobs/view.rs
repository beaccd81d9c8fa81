//! What is seen of a Job and its pod. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodCondition},
};
use kube::ResourceExt;
use slipway_crds::labels;
use slipway_worker_contract::{FailureClass, Message, Outcome};

use super::preflight;

/// Lines of a log that a condition can hold.
const MAX_LOG_CHARACTERS: usize = 400;

/// A Job with what its pod says.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    /// Name of the Job.
    pub name: String,
    /// How far it is.
    pub phase: JobPhase,
    /// Content digests of its containers' images, by the reference that the pod names.
    pub image_digests: BTreeMap<String, String>,
    /// The same images by digest, where they can be pulled so.
    pub pinned_images: BTreeMap<String, String>,
    /// What it fetches from where; absent of other Jobs, and of fetch Jobs of releases that did not say so.
    pub fetch: Option<FetchView>,
    /// What it may spend of a campaign's budget; absent where it runs alone.
    pub grant: Option<Grant>,
    /// The AgentDeployment that it was created for, by its label.
    pub agent_deployment: Option<String>,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
}

/// What a fetch Job brings, as its annotations say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchView {
    /// Digest of the source.
    pub content: String,
    /// Hash of the URI and the Secret by which it takes the source.
    pub place: String,
}

impl FetchView {
    fn of(job: &Job) -> Option<Self> {
        let annotation = |key| job.annotations().get(key).cloned();
        Some(Self { content: annotation(labels::FETCH_CONTENT)?, place: annotation(labels::FETCH_PLACE)? })
    }
}

/// What the engine of a Job may spend of a campaign's budget in all, as the Job's annotations say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Measurements.
    pub measurements: u32,
    /// GPU time in milliseconds.
    pub gpu_millis: u64,
}

impl Grant {
    /// The grant of a Job, if it has one.
    pub fn of(job: &Job) -> Option<Self> {
        let annotation = |key| job.annotations().get(key);
        let measurements = annotation(labels::GRANTED_MEASUREMENTS)?.parse().ok()?;
        let gpu_millis = annotation(labels::GRANTED_GPU_MILLISECONDS)?.parse().ok()?;
        Some(Self { measurements, gpu_millis })
    }

    /// The annotations that say it.
    pub fn annotations(self) -> BTreeMap<String, String> {
        BTreeMap::from([
            (labels::GRANTED_MEASUREMENTS.to_owned(), self.measurements.to_string()),
            (labels::GRANTED_GPU_MILLISECONDS.to_owned(), self.gpu_millis.to_string()),
        ])
    }
}

/// Jobs that are not being deleted, by name, each with its pods.
pub fn job_views(jobs: &[Job], pods: &[Pod]) -> BTreeMap<String, JobView> {
    jobs.iter()
        .filter(|job| job.metadata.deletion_timestamp.is_none())
        .map(|job| {
            let name = job.name_any();
            let own: Vec<Pod> =
                pods.iter().filter(|pod| pod.labels().get(labels::JOB) == Some(&name)).cloned().collect();
            (name, JobView::new(job, &own))
        })
        .collect()
}

/// How far a Job is.
#[derive(Debug, Clone, PartialEq)]
pub enum JobPhase {
    /// The pod has no node.
    Unscheduled {
        /// The scheduler's own words.
        scheduler: String,
        /// Whether it is a claim that nothing binds.
        lacks_claim: bool,
    },
    /// A container waits for its image, in the kubelet's words.
    ImageUnavailable(String),
    /// The pod has a node and waits for what it mounts: the Secrets that it names are not there.
    SecretUnavailable(String),
    /// The API server refuses its pod, in its words: a quota, a limit range or an admission policy.
    PodsRefused(String),
    /// At work, since its pod started.
    Running {
        /// When the pod started; absent before.
        started_at: Option<Timestamp>,
    },
    /// Done.
    Succeeded {
        /// What the worker reported.
        outcome: Box<Outcome>,
        /// From the start of the pod to the end of its last container.
        milliseconds: i64,
    },
    /// Failed.
    Failed {
        /// Whether a repetition can help.
        class: FailureClass,
        /// What happened, with the last line of the log.
        failure: String,
        /// When the Job ended.
        finished_at: Option<Timestamp>,
    },
}

impl JobView {
    /// A Job of which nothing but its phase is known.
    #[cfg(test)]
    pub(crate) fn in_phase(name: impl Into<String>, phase: JobPhase) -> Self {
        Self {
            name: name.into(),
            phase,
            image_digests: BTreeMap::new(),
            pinned_images: BTreeMap::new(),
            fetch: None,
            grant: None,
            agent_deployment: None,
            ended_at: None,
        }
    }

    /// Puts together what Job and pods say. `pods` are the pods of this Job; the youngest counts.
    pub fn new(job: &Job, pods: &[Pod]) -> Self {
        let name = job.metadata.name.clone().unwrap_or_default();
        let pod = pods.iter().max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|t| t.0));
        let phase = match finished(job) {
            Some((Finish::Complete, at)) => succeeded(pod, at),
            Some((Finish::Failed { reason, message }, at)) => failed(pod, &reason, &message, at),
            None => pod.map_or(JobPhase::Running { started_at: None }, pending_or_running),
        };
        Self {
            name,
            phase,
            image_digests: pod.map(image_digests).unwrap_or_default(),
            pinned_images: pod.map(pinned_images).unwrap_or_default(),
            fetch: FetchView::of(job),
            grant: Grant::of(job),
            agent_deployment: job.labels().get(labels::AGENT_DEPLOYMENT).cloned(),
            ended_at: finished(job).and_then(|(_, at)| at),
        }
    }
}

enum Finish {
    Complete,
    Failed { reason: String, message: String },
}

fn finished(job: &Job) -> Option<(Finish, Option<Timestamp>)> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|c| c.status == "True" && (c.type_ == "Complete" || c.type_ == "Failed"))?;
    let at = condition.last_transition_time.as_ref().map(|t| t.0);
    let finish = if condition.type_ == "Complete" {
        Finish::Complete
    } else {
        Finish::Failed {
            reason: condition.reason.clone().unwrap_or_default(),
            message: condition.message.clone().unwrap_or_default(),
        }
    };
    Some((finish, at))
}

fn succeeded(pod: Option<&Pod>, finished_at: Option<Timestamp>) -> JobPhase {
    let unreadable = |failure: String| JobPhase::Failed { class: FailureClass::Infrastructure, failure, finished_at };
    let Some(pod) = pod else {
        return unreadable("the Job succeeded but its pod, which holds the result, is gone".to_owned());
    };
    let Some((_, terminated)) = ended_containers(pod).into_iter().last() else {
        return unreadable("the Job succeeded but its pod reports no ended container".to_owned());
    };
    match Message::parse(terminated.message.as_deref().unwrap_or_default()) {
        Ok(Message::Succeeded { result }) => JobPhase::Succeeded {
            outcome: Box::new(result),
            milliseconds: pod_milliseconds(pod, terminated).unwrap_or_default(),
        },
        Ok(Message::Failed { class, text, .. }) => JobPhase::Failed { class, failure: text, finished_at },
        Err(error) => unreadable(error.to_string()),
    }
}

fn pod_milliseconds(pod: &Pod, last: &ContainerStateTerminated) -> Option<i64> {
    let start = pod.status.as_ref()?.start_time.as_ref()?.0;
    let end = last.finished_at.as_ref()?.0;
    Some(end.as_millisecond() - start.as_millisecond())
}

fn failed(pod: Option<&Pod>, reason: &str, message: &str, finished_at: Option<Timestamp>) -> JobPhase {
    let culprit = pod.and_then(culprit);
    let Some((container, terminated)) = culprit else {
        let failure = if message.is_empty() { reason.to_owned() } else { message.to_owned() };
        return JobPhase::Failed { class: FailureClass::Infrastructure, failure, finished_at };
    };
    let text = terminated.message.as_deref().unwrap_or_default();
    if let Some(deadline) = pod.and_then(passed_deadline) {
        let failure = format!("{container} ran past the deadline of {deadline} s{}", last_line(text));
        return JobPhase::Failed { class: FailureClass::Infrastructure, failure, finished_at };
    }
    if let Ok(Message::Failed { class, text, .. }) = Message::parse(text) {
        return JobPhase::Failed { class, failure: text, finished_at };
    }
    JobPhase::Failed {
        class: class_of_exit(terminated),
        failure: format!("{container} {}{}", how_it_ended(terminated), last_line(text)),
        finished_at,
    }
}

/// The container that failed first: what fails after it was ended with it, such as a native sidecar that stands before
/// it in the pod's list. The kubelet gives whole seconds; within one, words of our worker's say more than an exit code.
fn culprit(pod: &Pod) -> Option<(&str, &ContainerStateTerminated)> {
    let failed = ended_containers(pod).into_iter().filter(|(_, terminated)| terminated.exit_code != 0);
    failed.min_by_key(|(_, terminated)| {
        let ended = terminated.finished_at.as_ref().map_or(Timestamp::MAX, |time| time.0);
        let is_told = Message::parse(terminated.message.as_deref().unwrap_or_default()).is_ok();
        (ended, !is_told)
    })
}

/// Seconds that the pod was allowed to run, if the kubelet stopped it for that.
fn passed_deadline(pod: &Pod) -> Option<i64> {
    let is_past = pod.status.as_ref()?.reason.as_deref() == Some("DeadlineExceeded");
    pod.spec.as_ref()?.active_deadline_seconds.filter(|_| is_past)
}

/// A killed container points to memory or to the node; any other end of a vendor's tool points to what it was given.
fn class_of_exit(terminated: &ContainerStateTerminated) -> FailureClass {
    match terminated.reason.as_deref() {
        Some("OOMKilled") => FailureClass::InsufficientMemory,
        Some("StartError" | "ContainerCannotRun") => FailureClass::ImageMismatch,
        _ if matches!(terminated.exit_code, 137 | 143) => FailureClass::Infrastructure,
        _ => FailureClass::BadModel,
    }
}

fn how_it_ended(terminated: &ContainerStateTerminated) -> String {
    match terminated.reason.as_deref() {
        Some("OOMKilled") => "was killed for using more memory than its limit".to_owned(),
        Some("StartError" | "ContainerCannotRun") => "could not be started".to_owned(),
        _ => format!("exited with code {}", terminated.exit_code),
    }
}

/// The line of a log that tells most: the last that begins with `error:`, else the last with a word in it. Triton's
/// error is followed by the lines of Python's traceback.
fn last_line(log: &str) -> String {
    let is_error = |line: &&str| line.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("error:"));
    let has_word = |line: &&str| line.contains(char::is_alphanumeric);
    let mut lines = log.lines().map(str::trim);
    lines.clone().rfind(is_error).or_else(|| lines.rfind(has_word)).map_or_else(String::new, |line| {
        let shortened: String = line.chars().take(MAX_LOG_CHARACTERS).collect();
        format!(": {shortened}")
    })
}

impl JobPhase {
    /// A pod without a node. Which of its needs is not met is known from the scheduler's words alone, and read here
    /// only.
    pub fn unscheduled(scheduler: String) -> Self {
        let lacks_claim = scheduler.contains("PersistentVolumeClaim");
        Self::Unscheduled { scheduler, lacks_claim }
    }
}

fn pending_or_running(pod: &Pod) -> JobPhase {
    if let Some(message) = unschedulable(pod) {
        return JobPhase::unscheduled(message);
    }
    if let Some(message) = image_problem(pod) {
        return JobPhase::ImageUnavailable(message);
    }
    if let Some(message) = secret_problem(pod) {
        return JobPhase::SecretUnavailable(message);
    }
    JobPhase::Running { started_at: pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map(|t| t.0) }
}

/// The scheduler's message, if the pod has no node.
pub fn unschedulable(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some(condition.message.clone().unwrap_or_else(|| "no node has been found".to_owned()))
}

/// Since when no node has room for the pod, and the scheduler's message. A pod that is held back by a gate is not asked
/// for yet.
pub fn no_room(pod: &Pod) -> Option<(Timestamp, String)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_it = |c: &&PodCondition| {
        c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable")
    };
    let condition = conditions.iter().find(is_it)?;
    let since = condition.last_transition_time.as_ref().or(pod.metadata.creation_timestamp.as_ref())?;
    Some((since.0, condition.message.clone().unwrap_or_else(|| "no node has been found".to_owned())))
}

/// The kubelet's message, if a container waits for its image.
pub fn image_problem(pod: &Pod) -> Option<String> {
    container_statuses(pod).into_iter().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        let is_image = matches!(
            reason,
            "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" | "ImageInspectError"
        );
        is_image.then(|| {
            let message = waiting.message.as_deref().unwrap_or_default();
            format!("{reason} for {} of container {}: {message}", container.image, container.name)
        })
    })
}

/// Begins the names of volumes that hold a user's ConfigMap; those of our own ConfigMaps are there before their pod is.
pub const USERS_CONFIG_MAP_VOLUME: &str = "authorities-";

/// The Secrets and the user's ConfigMaps that a pod waits for. Without one its containers are not created, and only an
/// event of the kubelet says so. The pod itself only shows that not all volumes are mounted.
pub fn secret_problem(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is = |type_: &str, status: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == status);
    if !is("PodScheduled", "True") || !is("PodReadyToStartContainers", "False") {
        return None;
    }
    let volumes = || pod.spec.iter().filter_map(|spec| spec.volumes.as_ref()).flatten();
    let secrets = volumes().filter_map(|volume| volume.secret.as_ref()?.secret_name.as_deref());
    let of_users = volumes().filter(|volume| volume.name.starts_with(USERS_CONFIG_MAP_VOLUME));
    let config_maps = of_users.filter_map(|volume| Some(volume.config_map.as_ref()?.name.as_str()));
    let them = [listed("Secret", secrets.collect()), listed("ConfigMap", config_maps.collect())];
    let them: Vec<String> = them.into_iter().flatten().collect();
    (!them.is_empty()).then(|| format!("its volumes cannot be mounted: create {} in this namespace", them.join(", ")))
}

fn listed(kind: &str, names: Vec<&str>) -> Option<String> {
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("{kind} {one}")),
        [..] => Some(format!("{kind}s {}", names.join(", "))),
    }
}

/// What the first failing container of a serving pod says, if one fails again and again.
pub fn crash(pod: &Pod) -> Option<String> {
    crashes(pod).next().map(|crash| crash.text)
}

/// Why the checks of a serving pod refuse its GPUs, if they do.
pub fn refused_gpus(pod: &Pod) -> Option<String> {
    crashes(pod).find_map(|crash| crash.refused_gpus)
}

/// When a container of a serving pod last ended with an error, and what it says; absent where the kubelet gives no
/// time. Refused GPUs are the node's, and say nothing of what the pod runs.
pub fn latest_crash(pod: &Pod) -> Option<(Timestamp, String)> {
    let own = crashes(pod).filter(|crash| crash.refused_gpus.is_none());
    own.filter_map(|crash| Some((crash.at?, crash.text))).max_by_key(|(at, _)| *at)
}

/// Whether the cluster removes a pod: drained, evicted or preempted. Its containers end for no fault of their own.
pub fn is_disrupted(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
}

/// A container that ended with an error, and has done nothing but run or wait since.
struct Crashed {
    at: Option<Timestamp>,
    text: String,
    /// Why it refuses the pod's GPUs, if it does.
    refused_gpus: Option<String>,
}

fn crashes(pod: &Pod) -> impl Iterator<Item = Crashed> {
    container_statuses(pod).into_iter().filter_map(|container| {
        let terminated = container
            .state
            .as_ref()
            .and_then(|state| state.terminated.as_ref())
            .or_else(|| container.last_state.as_ref().and_then(|state| state.terminated.as_ref()))
            .filter(|terminated| terminated.exit_code != 0)?;
        let message = terminated.message.as_deref().unwrap_or_default();
        let refused_gpus = preflight::refused(message).filter(|_| container.name == preflight::CONTAINER);
        let parsed = Message::parse(message);
        let text = match (&refused_gpus, &parsed) {
            (Some(text), _) | (None, Ok(Message::Failed { text, .. })) => format!("{}: {text}", container.name),
            (None, _) => format!("{} {}{}", container.name, how_it_ended(terminated), last_line(message)),
        };
        Some(Crashed { at: terminated.finished_at.as_ref().map(|time| time.0), text, refused_gpus })
    })
}

fn container_statuses(pod: &Pod) -> Vec<&ContainerStatus> {
    let Some(status) = &pod.status else { return Vec::new() };
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten()).collect()
}

/// Ended containers in the order in which they run.
fn ended_containers(pod: &Pod) -> Vec<(&str, &ContainerStateTerminated)> {
    container_statuses(pod)
        .into_iter()
        .filter_map(|c| Some((c.name.as_str(), c.state.as_ref()?.terminated.as_ref()?)))
        .collect()
}

/// Content digests by container, of those that the kubelet reports.
pub fn digests_by_container(pod: &Pod) -> BTreeMap<String, String> {
    let reported = container_statuses(pod).into_iter().filter(|container| !container.image_id.is_empty());
    let digest = |id: &str| id.rsplit('@').next().unwrap_or(id).to_owned();
    reported.map(|container| (container.name.clone(), digest(&container.image_id))).collect()
}

/// Images by digest, by the reference that the pod names: `repository@sha256:...` of the very repository. A node that
/// knows the content by another repository, or by none, gives a name that other nodes may not be able to pull.
fn pinned_images(pod: &Pod) -> BTreeMap<String, String> {
    let references = references(pod);
    let pinned = |container: &ContainerStatus| {
        let reference = *references.get(container.name.as_str())?;
        let (repository, digest) = container.image_id.rsplit_once('@')?;
        let repository = repository.rsplit_once("://").map_or(repository, |(_, name)| name);
        let own = repository_of(reference);
        let is_own = repository == own
            || repository
                .strip_prefix("docker.io/")
                .is_some_and(|short| short == own || short.strip_prefix("library/") == Some(own));
        (is_own && digest.starts_with("sha256:")).then(|| (reference.to_owned(), format!("{own}@{digest}")))
    };
    container_statuses(pod).into_iter().filter_map(pinned).collect()
}

/// A reference without its tag and digest; a colon before the last slash belongs to the registry's port.
fn repository_of(reference: &str) -> &str {
    let name = reference.split('@').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => name,
    }
}

/// The references of a pod's containers, by their names.
fn references(pod: &Pod) -> BTreeMap<&str, &str> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    containers.filter_map(|c| Some((c.name.as_str(), c.image.as_deref()?))).collect()
}

/// Content digests by image reference. The kubelet reports `repository@sha256:...` where the image came from a registry
/// and the bare digest of its configuration where it was imported.
fn image_digests(pod: &Pod) -> BTreeMap<String, String> {
    let references = references(pod);
    let by_container = digests_by_container(pod).into_iter();
    by_container.filter_map(|(name, digest)| Some(((*references.get(name.as_str())?).to_owned(), digest))).collect()
}

#[cfg(test)]
mod tests;
