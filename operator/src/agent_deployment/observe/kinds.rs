//! Which kinds of others the API server serves. Asked of its discovery, because asking for an object of a kind that it
//! does not serve leaves a warning in the log each time. Reads IO.

use gateway_api::httproutes::HttpRoute;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroup;
use kube::Resource;
use slipway_operator_core::{inference_pool::InferencePool, prometheus::PrometheusRule};

use crate::kube_io::read::{ReadError, Reader};

/// What the API server serves of the kinds that a cluster may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownKinds {
    /// HTTPRoute of the Gateway API.
    pub routes: bool,
    /// InferencePool of the Gateway API Inference Extension.
    pub inference_pools: bool,
    /// PrometheusRule of the Prometheus operator.
    pub prometheus_rules: bool,
}

impl KnownKinds {
    /// Asks the API server.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn ask(reader: &Reader) -> Result<Self, ReadError> {
        let groups = reader.groups().await?;
        let routes = groups.iter().any(|group| group.name == HttpRoute::group(&()));
        let inference_pools = serves_version::<InferencePool>(&groups);
        // The group of PrometheusRules has other kinds too, which may be all that is installed.
        let prometheus_rules = serves_version::<PrometheusRule>(&groups) && {
            let kinds = reader.kinds(&PrometheusRule::api_version(&())).await?;
            kinds.iter().any(|kind| *kind == PrometheusRule::kind(&()))
        };
        Ok(Self { routes, inference_pools, prometheus_rules })
    }
}

/// Whether the version of a kind's group is served: asking for the kinds of another one is such a warning too.
fn serves_version<K: Resource<DynamicType = ()>>(groups: &[APIGroup]) -> bool {
    groups.iter().flat_map(|group| &group.versions).any(|version| version.group_version == K::api_version(&()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn groups(name: &str, version: &str) -> Vec<APIGroup> {
        let group_version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        let group = json!({"name": name, "versions": [group_version]});
        vec![serde_json::from_value(group).expect("a group of the API")]
    }

    #[test]
    fn a_group_is_known_by_its_version() {
        assert!(serves_version::<PrometheusRule>(&groups("monitoring.coreos.com", "v1")));
        assert!(!serves_version::<PrometheusRule>(&groups("monitoring.coreos.com", "v1alpha1")));
        assert!(!serves_version::<PrometheusRule>(&groups("apps", "v1")));
    }
}
