//! The template that all Jobs share. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule},
        core::v1::{
            Capabilities, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar,
            PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, PodTemplateSpec, SeccompProfile,
            SecretVolumeSource, SecurityContext, Toleration, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, OwnerReference},
    },
};
use slipway_crds::labels::{self, Component};
use slipway_worker_contract::{message_budget, paths};

use crate::settings::Settings;

/// User and group that every pod of ours runs as; any other than root will do.
pub const RUN_AS: i64 = 65532;

/// Name of the volume with the worker's binary.
const BIN_VOLUME: &str = "slipway-bin";
/// Name of the volume with the task file.
pub const TASK_VOLUME: &str = "task";
/// Folder of the task file in a container.
pub const TASK_FOLDER: &str = "/slipway/task";
/// Name of the volume with the artifact store.
pub const STORE_VOLUME: &str = "store";
/// Name of the volume for memory that processes share.
pub const SHARED_MEMORY_VOLUME: &str = "shared-memory";
/// Where it is mounted: the runtime's own is 64 MiB, too small for Triton's Python models and for NCCL.
pub const SHARED_MEMORY: &str = "/dev/shm";
/// The most that it may take. Without a bound of its own it may fill half of the node's memory.
const SHARED_MEMORY_LIMIT: &str = "16Gi";

/// What tells one Job from another.
#[derive(Debug, Clone)]
pub struct JobParts {
    /// Name of the Job.
    pub name: String,
    /// Namespace of the Job.
    pub namespace: String,
    /// The part that it plays.
    pub component: Component,
    /// Labels beyond the common ones.
    pub labels: BTreeMap<String, String>,
    /// Who owns it.
    pub owner: Option<OwnerReference>,
    /// Steps before the last container.
    pub init_containers: Vec<Container>,
    /// The last container, which reports.
    pub container: Container,
    /// Volumes beyond the worker's binary.
    pub volumes: Vec<Volume>,
    /// Labels that the node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Tolerated taints.
    pub tolerations: Vec<Toleration>,
    /// Seconds that its pod may run.
    pub deadline_seconds: i64,
}

/// Builds a Job.
///
/// The deadline stands in the pod's template: a Job's own deadline would run while its pod waits for a GPU. One failed
/// pod fails the Job, since attempts are counted by us; a disrupted pod does not count.
pub fn job(settings: &Settings, parts: JobParts) -> Job {
    let JobParts {
        name,
        namespace,
        component,
        labels: extra_labels,
        owner,
        mut init_containers,
        mut container,
        volumes,
        node_selector,
        tolerations,
        deadline_seconds,
    } = parts;
    let budget = message_budget(init_containers.len() + 1).to_string();
    container.env.get_or_insert_default().push(EnvVar {
        name: paths::MESSAGE_BYTES_ENV.to_owned(),
        value: Some(budget),
        ..Default::default()
    });
    for each in init_containers.iter_mut().chain(std::iter::once(&mut container)) {
        complete_container(settings, each);
        // What only runs our binary has no resources of the user's.
        each.resources.get_or_insert_with(|| settings.jobs.worker_resources.to_requirements());
    }
    let mut labels = common_labels(component);
    labels.extend(extra_labels);
    labels.insert(labels::JOB.to_owned(), name.clone());
    let pod_spec = PodSpec {
        init_containers: Some(init_containers).filter(|containers| !containers.is_empty()),
        containers: vec![container],
        volumes: Some(volumes).filter(|volumes| !volumes.is_empty()),
        node_selector: Some(node_selector).filter(|selector| !selector.is_empty()),
        tolerations: Some(tolerations).filter(|tolerations| !tolerations.is_empty()),
        active_deadline_seconds: Some(deadline_seconds),
        ..pod_defaults()
    };
    Job {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            labels: Some(labels.clone()),
            owner_references: owner.map(|owner| vec![owner]),
            ..Default::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            pod_failure_policy: Some(ignore_disruptions()),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                spec: Some(pod_spec),
            },
            ..Default::default()
        }),
        status: None,
    }
}

/// Labels of every object of ours.
pub fn common_labels(component: Component) -> BTreeMap<String, String> {
    BTreeMap::from([
        (labels::APP_NAME.to_owned(), "slipway".to_owned()),
        (labels::APP_MANAGED_BY.to_owned(), labels::MANAGED_BY.to_owned()),
        (labels::APP_COMPONENT.to_owned(), component.as_str().to_owned()),
    ])
}

/// What every pod of ours has: no API token, no root, the default seccomp profile.
pub fn pod_defaults() -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        restart_policy: Some("Never".to_owned()),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(RUN_AS),
            run_as_group: Some(RUN_AS),
            fs_group: Some(RUN_AS),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What every container of ours has: no capability, no way to gain one, and its last words as its message.
pub fn complete_container(settings: &Settings, container: &mut Container) {
    container.image_pull_policy = Some(settings.images.pull_policy.as_str().to_owned());
    container.termination_message_policy = Some("FallbackToLogsOnError".to_owned());
    container.security_context = Some(SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Default::default() }),
        ..Default::default()
    });
}

fn ignore_disruptions() -> PodFailurePolicy {
    PodFailurePolicy {
        rules: vec![PodFailurePolicyRule {
            action: "Ignore".to_owned(),
            on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
            }]),
            ..Default::default()
        }],
    }
}

/// A container of the worker that runs one verb.
pub fn worker_container(settings: &Settings, name: &str, arguments: &[&str]) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(settings.images.worker.clone()),
        args: Some(arguments.iter().map(|&argument| argument.to_owned()).collect()),
        ..Default::default()
    }
}

/// An init container that puts the worker's binary where the containers of other images can run it.
pub fn install_worker(settings: &Settings) -> Container {
    Container {
        volume_mounts: Some(vec![mount(BIN_VOLUME, paths::BIN_DIR)]),
        ..worker_container(settings, "install-worker", &["install", paths::BIN_DIR])
    }
}

/// A container of another image that runs the worker's binary.
pub fn worker_in(image: &str, name: &str, arguments: &[&str]) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        command: Some(vec![format!("{}/{}", paths::BIN_DIR, paths::WORKER_BINARY)]),
        args: Some(arguments.iter().map(|&argument| argument.to_owned()).collect()),
        volume_mounts: Some(vec![read_only(mount(BIN_VOLUME, paths::BIN_DIR))]),
        ..Default::default()
    }
}

/// The volume for the worker's binary.
pub fn bin_volume() -> Volume {
    empty_dir(BIN_VOLUME)
}

/// An empty volume that lives as long as the pod.
pub fn empty_dir(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Default::default() }
}

/// Memory that the processes of a container share, as pods of the first layout have it.
pub fn shared_memory_volume() -> Volume {
    Volume {
        name: SHARED_MEMORY_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: Some("Memory".to_owned()), ..Default::default() }),
        ..Default::default()
    }
}

/// The same, with a bound. The kubelet makes it smaller where the pod or the node has less.
pub fn bounded_shared_memory_volume() -> Volume {
    let size_limit = Some(Quantity(SHARED_MEMORY_LIMIT.to_owned()));
    Volume {
        name: SHARED_MEMORY_VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit }),
        ..Default::default()
    }
}

/// A volume with a file for each key of a Secret.
pub fn secret_volume(name: &str, secret: &str) -> Volume {
    let secret = SecretVolumeSource { secret_name: Some(secret.to_owned()), ..Default::default() };
    Volume { name: name.to_owned(), secret: Some(secret), ..Default::default() }
}

/// A volume with a file for each key of a ConfigMap.
pub fn config_map_volume(name: &str, config_map: &str) -> Volume {
    let config_map = ConfigMapVolumeSource { name: config_map.to_owned(), ..Default::default() };
    Volume { name: name.to_owned(), config_map: Some(config_map), ..Default::default() }
}

/// A volume of a claim.
pub fn claim_volume(name: &str, claim: &str, read_only: bool) -> Volume {
    Volume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.to_owned(),
            read_only: read_only.then_some(true),
        }),
        ..Default::default()
    }
}

/// A mount.
pub fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..Default::default() }
}

/// The same mount, read-only.
pub fn read_only(mount: VolumeMount) -> VolumeMount {
    VolumeMount { read_only: Some(true), ..mount }
}
