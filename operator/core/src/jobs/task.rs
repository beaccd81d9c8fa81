//! The ConfigMap with a Job's task, and the volume by which the Job reads it. Pure.
//!
//! It is named by its content. It is immutable, so that a running Job reads what it was created with. A Job that
//! somebody deleted is created again with its task as of then: with rows measured meanwhile, or an option of a newer
//! operator. Under the name of the Job alone, that task would be refused for ever.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Volume},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use slipway_crds::{identity::content_hash, labels::Component};
use slipway_worker_contract::Task;

use super::template::{TASK_VOLUME, common_labels, config_map_volume};

/// File with the task, in the folder of the task's volume.
pub const TASK_FILE: &str = "task.json";

/// What tells one task's ConfigMap from another.
#[derive(Debug, Clone)]
pub struct TaskParts<'a> {
    /// Name of the Job.
    pub job: &'a str,
    /// Namespace of both.
    pub namespace: &'a str,
    /// The part that the Job plays.
    pub component: Component,
    /// Who owns the ConfigMap. Not the Job: the Job starts once its volumes are there.
    pub owner: &'a OwnerReference,
    /// Files beside the task.
    pub files: BTreeMap<String, String>,
}

/// The ConfigMap of a task, named `<Job>-<hash of its files>`.
pub fn config_map(task: &Task, parts: TaskParts<'_>) -> ConfigMap {
    let TaskParts { job, namespace, component, owner, files: mut data } = parts;
    data.insert(TASK_FILE.to_owned(), task.to_json());
    let hash = content_hash(&data).expect("texts by name are canonical JSON");
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{job}-{}", hash.short())),
            namespace: Some(namespace.to_owned()),
            labels: Some(common_labels(component)),
            owner_references: Some(vec![owner.clone()]),
            ..Default::default()
        },
        data: Some(data),
        immutable: Some(true),
        ..Default::default()
    }
}

/// The volume by which a Job reads its task.
pub fn volume(config_map: &ConfigMap) -> Volume {
    let name = config_map.metadata.name.clone().unwrap_or_default();
    config_map_volume(TASK_VOLUME, &name)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use slipway_worker_contract::{ResolveTask, ShapeNeed};

    use super::*;

    fn of(uri: &str, files: &[(&str, &str)]) -> ConfigMap {
        let task = Task::Resolve(ResolveTask { uri: uri.to_owned(), shape: ShapeNeed::Optional });
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let owner = OwnerReference { name: "support".to_owned(), uid: "u1".to_owned(), ..Default::default() };
        let parts =
            TaskParts { job: "resolve-1", namespace: "team", component: Component::Resolve, owner: &owner, files };
        config_map(&task, parts)
    }

    #[test]
    fn a_task_that_has_changed_is_another_immutable_config_map() {
        let name = |object: ConfigMap| object.metadata.name.unwrap();
        let before = of("hf://a/b", &[]);
        assert_eq!(before.immutable, Some(true));
        assert_eq!(before, of("hf://a/b", &[]));
        let names = [name(before), name(of("hf://a/c", &[])), name(of("hf://a/b", &[("quality.jsonl", "{}")]))];
        assert!(names.iter().all(|name| name.starts_with("resolve-1-")), "{names:?}");
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{names:?}");
    }

    #[test]
    fn a_job_reads_the_config_map_of_its_own_task() {
        let object = of("hf://a/b", &[]);
        let read = volume(&object).config_map.map(|source| source.name);
        assert_eq!(read, object.metadata.name);
    }
}
