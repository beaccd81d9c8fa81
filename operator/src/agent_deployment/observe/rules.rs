//! The alerting rules as they were written last. Reads IO.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt, core::PartialObjectMeta};
use slipway_crds::labels;
use slipway_operator_core::{
    agent_deployment::{
        monitoring::build::alerts::object_name,
        world::{OwnedObject, RulesView},
    },
    plan::RemovalKind,
    prometheus::PrometheusRule,
};

use super::KnownKinds;
use crate::kube_io::read::{ReadError, Reader};

/// Observes the objects that hold the rules of an AgentDeployment, whose ConfigMaps are at hand.
///
/// # Errors
/// When the API server does not answer.
pub async fn observe(
    reader: &Reader,
    kinds: KnownKinds,
    (namespace, agent_deployment): (&str, &str),
    config_maps: &[ConfigMap],
) -> Result<RulesView, ReadError> {
    let name = object_name(agent_deployment);
    let file = config_maps.iter().filter(|object| object.name_any() == name);
    let mut objects: Vec<_> = file.filter_map(|object| owned(RemovalKind::ConfigMap, object)).collect();
    if kinds.prometheus_rules {
        let found = reader.get_metadata::<PrometheusRule>(namespace, &name).await?;
        // It was found by its name: only one that is ours may be removed.
        let is_ours = |object: &PartialObjectMeta<PrometheusRule>| {
            object.labels().get(labels::AGENT_DEPLOYMENT).is_some_and(|label| label == agent_deployment)
                && object.labels().get(labels::APP_MANAGED_BY).is_some_and(|label| label == labels::MANAGED_BY)
        };
        let own = found.iter().filter(|object| is_ours(object));
        objects.extend(own.filter_map(|object| owned(RemovalKind::PrometheusRule, object)));
    }
    Ok(RulesView { knows_prometheus_rules: kinds.prometheus_rules, objects })
}

fn owned<K: ResourceExt>(kind: RemovalKind, object: &K) -> Option<OwnedObject> {
    if object.meta().deletion_timestamp.is_some() {
        return None;
    }
    Some(OwnedObject {
        kind,
        name: object.name_any(),
        uid: object.uid()?,
        resource_version: object.resource_version()?,
    })
}
