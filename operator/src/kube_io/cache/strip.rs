//! What caches leave out of objects: what nobody reads at a glance. Pure.

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, Deployment, DeploymentSpec},
        batch::v1::Job,
        core::v1::{ConfigMap, Container, PersistentVolumeClaim, Pod, PodSpec, Service},
        networking::v1::NetworkPolicy,
    },
    apimachinery::pkg::apis::meta::v1::{FieldsV1, ObjectMeta},
};
use kube::{
    Resource,
    core::{DeserializeGuard, PartialObjectMeta, error_boundary::InvalidObject},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, Engine, Profile};
use slipway_operator_core::{
    agent_deployment::{monitoring::drift::config_map::KEY, wakes},
    inference_pool::InferencePool,
    prometheus::PrometheusRule,
};

/// A kind of which a part is kept, as text.
pub trait Stripped: Sized {
    /// Leaves out what is not kept.
    fn strip(&mut self);

    /// Gives the object as text.
    fn packed(&self) -> Vec<u8>;

    /// Reads the text again.
    fn unpacked(text: &[u8]) -> Option<Self>;

    /// Gives what the object is concerned by, of what others share with it: it is found by that without being read.
    fn concerns(&self) -> Vec<String>;
}

macro_rules! stripped {
    ($kind:ty, |$object:ident| $body:block) => {
        impl Stripped for $kind {
            fn strip(&mut self) {
                let $object = self;
                $body
            }

            fn packed(&self) -> Vec<u8> {
                // Objects of the API have texts as keys: there is JSON of each.
                serde_json::to_vec(self).unwrap_or_default()
            }

            fn unpacked(text: &[u8]) -> Option<Self> {
                serde_json::from_slice(text).ok()
            }

            fn concerns(&self) -> Vec<String> {
                Vec::new()
            }
        }
    };
}

macro_rules! stripped_guard {
    ($kind:ty, |$object:ident| $body:block) => {
        stripped_guard!($kind, |$object| $body, |_| Vec::new());
    };
    ($kind:ty, |$object:ident| $body:block, $concerns:expr) => {
        impl Stripped for DeserializeGuard<$kind> {
            fn strip(&mut self) {
                let $object = self;
                $body
            }

            fn packed(&self) -> Vec<u8> {
                pack_guarded(self)
            }

            fn unpacked(text: &[u8]) -> Option<Self> {
                unpack_guarded(text)
            }

            fn concerns(&self) -> Vec<String> {
                let of: fn(&$kind) -> Vec<String> = $concerns;
                self.0.as_ref().map(of).unwrap_or_default()
            }
        }
    };
}

/// What is kept of an object that cannot be read. Its text begins with another character than an object's.
#[derive(Serialize, Deserialize)]
struct Unreadable(String, ObjectMeta);

fn pack_guarded<K: Serialize>(object: &DeserializeGuard<K>) -> Vec<u8> {
    let text = match &object.0 {
        Ok(object) => serde_json::to_vec(object),
        Err(invalid) => serde_json::to_vec(&Unreadable(invalid.error.clone(), invalid.metadata.clone())),
    };
    text.unwrap_or_default()
}

fn unpack_guarded<K: DeserializeOwned>(text: &[u8]) -> Option<DeserializeGuard<K>> {
    if text.starts_with(b"[") {
        let Unreadable(error, metadata) = serde_json::from_slice(text).ok()?;
        return Some(DeserializeGuard(Err(InvalidObject { error, metadata })));
    }
    serde_json::from_slice(text).ok().map(|object| DeserializeGuard(Ok(object)))
}

/// What `kubectl apply` writes beside an object: the object once more.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn without_managers<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    without_copy(object);
}

fn without_copy<K: Resource>(object: &mut K) {
    object.meta_mut().annotations.iter_mut().for_each(|annotations| {
        annotations.remove(LAST_APPLIED);
    });
}

stripped_guard!(
    AgentDeployment,
    |object| {
        without_copy(object);
        let entries = object.meta_mut().managed_fields.iter_mut().flatten();
        entries.for_each(|entry| entry.fields_v1 = Some(FieldsV1(replicas(entry.fields_v1.take()))));
    },
    |agent| {
        let interests = agent.status.as_ref().map(wakes::interests).unwrap_or_default();
        interests.iter().map(ToString::to_string).collect()
    }
);
stripped_guard!(Engine, |object| { without_managers(object) });
stripped_guard!(Profile, |object| { without_managers(object) });
stripped_guard!(PersistentVolumeClaim, |object| { without_managers(object) });
stripped!(PartialObjectMeta<PrometheusRule>, |object| { without_managers(object) });
// Who owns what of a route is read.
stripped!(HttpRoute, |_object| {});
stripped!(InferencePool, |object| { without_managers(object) });
stripped!(NetworkPolicy, |object| {
    without_managers(object);
    object.spec = None;
});
stripped!(Service, |object| {
    without_managers(object);
    (object.spec, object.status) = (None, None);
});
stripped!(ConfigMap, |object| {
    without_managers(object);
    object.binary_data = None;
    // What is remembered to tell drift.
    object.data.iter_mut().for_each(|data| data.retain(|key, _| key == KEY));
});
stripped!(Job, |object| {
    without_managers(object);
    object.spec = None;
});
stripped!(Deployment, |object| {
    without_managers(object);
    let replicas = object.spec.take().and_then(|spec| spec.replicas);
    object.spec = Some(DeploymentSpec { replicas, ..DeploymentSpec::default() });
});
stripped!(Pod, |object| {
    without_managers(object);
    object.metadata.annotations = None;
    let conditions = object.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    // Only then volumes are looked at.
    let waits = conditions.into_iter().any(|c| c.type_ == "PodReadyToStartContainers" && c.status == "False");
    object.spec = object.spec.take().map(|spec| pod_spec(spec, waits));
});

stripped!(ControllerRevision, |object| { without_managers(object) });

/// Of the fields that a manager owns: whether the replicas are among them.
fn replicas(fields: Option<FieldsV1>) -> Value {
    let owned = fields.and_then(|fields| fields.0.pointer("/f:spec/f:serving/f:replicas").cloned());
    owned.map_or(Value::Null, |owned| json!({"f:spec": {"f:serving": {"f:replicas": owned}}}))
}

/// Node, deadline, volumes that a pod waits for, and of containers name, image and what they materialize.
fn pod_spec(spec: PodSpec, waits: bool) -> PodSpec {
    let PodSpec { node_name, active_deadline_seconds, volumes, containers, init_containers, .. } = spec;
    let volumes = volumes.filter(|_| waits).map(|mut volumes| {
        volumes.retain(|volume| volume.secret.is_some() || volume.config_map.is_some());
        volumes
    });
    let named = |all: Vec<Container>| all.into_iter().map(container).collect();
    PodSpec {
        node_name,
        active_deadline_seconds,
        volumes,
        containers: named(containers),
        init_containers: init_containers.map(named),
        ..PodSpec::default()
    }
}

fn container(container: Container) -> Container {
    let Container { name, image, args, .. } = container;
    let args = args.filter(|args| args.first().is_some_and(|verb| verb == "materialize"));
    Container { name, image, args, ..Container::default() }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde::de::DeserializeOwned;

    use super::*;

    fn object<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).expect("an object")
    }

    fn kept<K: Stripped>(object: &K) -> K {
        K::unpacked(&object.packed()).expect("a text of ours")
    }

    #[test]
    fn objects_are_read_again_as_they_were_kept() {
        let metadata = json!({"name": "a", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let data = json!({"engine": {"name": "e"}, "text": "a \"b\""});
        let revision: ControllerRevision = object(json!({"metadata": metadata, "revision": 3, "data": data}));
        assert_eq!(kept(&revision), revision);
        let rule: PartialObjectMeta<PrometheusRule> = object(json!({"metadata": metadata}));
        assert_eq!(kept(&rule).metadata, rule.metadata);
        let claim = json!({"metadata": metadata, "status": {"phase": "Bound"}});
        let claim: DeserializeGuard<PersistentVolumeClaim> = object(claim);
        assert_eq!(kept(&claim).0.ok(), claim.0.ok());
    }

    #[test]
    fn an_object_that_cannot_be_read_is_kept_with_the_reason() {
        let engine: DeserializeGuard<Engine> = object(json!({"metadata": {"name": "of-tomorrow"}, "spec": 7}));
        let (before, after) = (engine.0.as_ref().unwrap_err(), kept(&engine).0.unwrap_err());
        assert_eq!((&after.error, &after.metadata), (&before.error, &before.metadata));
    }

    #[test]
    fn of_a_pod_is_kept_what_is_read_of_its_containers() {
        let container = json!({"name": "a", "image": "i:1", "args": ["run"], "env": [{"name": "A", "value": "b"}]});
        let copies = json!({"name": "m", "image": "w:1", "args": ["materialize", "--identity=e"], "command": ["c"]});
        let mut pod: Pod = object(json!({
            "metadata": {"name": "p", "annotations": {"a": "b"}, "managedFields": [{"manager": "m"}]},
            "spec": {"nodeName": "n", "containers": [container], "initContainers": [copies],
                "volumes": [{"name": "s", "secret": {"secretName": "x"}}, {"name": "e", "emptyDir": {}}]},
            "status": {"phase": "Running"},
        }));
        pod.strip();
        let expected: Pod = object(json!({
            "metadata": {"name": "p"},
            "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "i:1"}],
                "initContainers": [{"name": "m", "image": "w:1", "args": ["materialize", "--identity=e"]}]},
            "status": {"phase": "Running"},
        }));
        assert_eq!(pod, expected);
    }

    #[test]
    fn of_a_pod_that_waits_for_volumes_is_kept_what_they_need() {
        let condition = json!({"type": "PodReadyToStartContainers", "status": "False"});
        let pod = |volumes: Value| -> Pod {
            object(json!({"spec": {"containers": [], "volumes": volumes}, "status": {"conditions": [condition]}}))
        };
        let secret = json!({"name": "s", "secret": {"secretName": "x"}});
        let mut kept = pod(json!([secret, {"name": "e", "emptyDir": {}}]));
        kept.strip();
        assert_eq!(kept, pod(json!([secret])));
    }

    #[test]
    fn an_object_is_not_kept_twice() {
        let annotations = json!({"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
        let mut service: Service = object(json!({"metadata": {"annotations": annotations}}));
        service.strip();
        assert_eq!(service, object(json!({"metadata": {"annotations": {"a": "b"}}})));
    }

    #[test]
    fn who_set_the_replicas_is_kept() {
        let by = |manager: &str, subresource: Option<&str>, fields: Value| json!({"manager": manager, "operation": "Update", "subresource": subresource, "fieldsV1": fields});
        let scaled = json!({"f:spec": {"f:serving": {"f:replicas": {}, "f:resources": {}}}});
        let entries = [by("team", None, json!({"f:spec": {"f:model": {}}})), by("hpa", Some("scale"), scaled)];
        let spec =
            json!({"model": {"uri": "hf://a/b"}, "engine": {"backend": "Custom"}, "agent": {"systemPrompt": "x"}});
        let mut agent: DeserializeGuard<AgentDeployment> = object(json!({
            "apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment",
            "metadata": {"name": "support", "managedFields": entries}, "spec": spec,
        }));
        agent.strip();
        let agent = agent.0.expect("an AgentDeployment");
        assert_eq!(agent.scaled_by(), Some("hpa"));
        let fields: Vec<_> = agent.metadata.managed_fields.into_iter().flatten().map(|e| e.fields_v1).collect();
        let kept = json!({"f:spec": {"f:serving": {"f:replicas": {}}}});
        assert_eq!(fields, [Some(FieldsV1(Value::Null)), Some(FieldsV1(kept))]);
    }

    #[test]
    fn of_a_config_map_is_kept_what_tells_drift() {
        let mut map: ConfigMap = object(json!({"data": {"memory.json": "{}", "config.json": "{}"}}));
        map.strip();
        assert_eq!(map, object(json!({"data": {"memory.json": "{}"}})));
    }
}
