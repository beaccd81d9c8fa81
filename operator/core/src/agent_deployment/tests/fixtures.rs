//! What a cluster is made of: the operator's configuration, references to owners, digests.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use slipway_crds::identity::ContentHash;
use slipway_worker_contract::Digest;

use crate::settings::Settings;

pub(super) fn settings(version: &str) -> Arc<Settings> {
    let yaml = format!(
        "images: {{worker: 'example.com/worker:{version}', agentRuntime: 'example.com/agent-runtime:{version}'}}\n\
         notifications: {{receivers: [{{name: team, slack: {{urlFile: url}}}}, {{name: on-call, slack: {{urlFile: url}}}}]}}"
    );
    Arc::new(serde_norway::from_str(&yaml).expect("valid settings"))
}

pub(super) fn owner(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "slipway.dev/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub(super) fn digest(of: &str) -> Digest {
    let hash: ContentHash = slipway_crds::identity::content_hash(&of).expect("a text has a hash");
    hash.as_str().parse().expect("64 digits")
}
