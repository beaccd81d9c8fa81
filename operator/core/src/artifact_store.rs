//! The claim of the artifact store: one a namespace, shared by everything in it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use slipway_crds::labels::Component;

use crate::{jobs::template::common_labels, settings::Store};

/// Name of the claim in every namespace.
pub const CLAIM: &str = slipway_crds::store::NAME;

/// The claim. Nobody owns it: engines outlive the AgentDeployments that asked for them.
pub fn claim(namespace: &str, store: &Store) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(CLAIM.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(common_labels(Component::Store)),
            ..Default::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![store.access_mode.as_str().to_owned()]),
            storage_class_name: store.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), Quantity(store.size.clone()))])),
                limits: None,
            }),
            ..Default::default()
        }),
        status: None,
    }
}
