//! Which pods are asked, and where. Pure.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use slipway_crds::labels;
use slipway_operator_core::jobs::view;
use slipway_vocabulary::evidence::PATH;

/// Port of the agent runtime's administration.
pub const ADMIN_PORT: u16 = 9464;
/// A pod that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedPod {
    pub(super) revision: String,
    pub(super) pod: String,
    pub(super) node: Option<String>,
    pub(super) address: String,
    pub(super) is_ready: bool,
    pub(super) is_leaving: bool,
}

impl AskedPod {
    /// None for a pod that has no address yet, and for one that has ended.
    pub fn of(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref().filter(|status| !has_ended(status.phase.as_deref()))?;
        Some(Self {
            revision: pod.labels().get(labels::REVISION)?.clone(),
            pod: pod.name_any(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            address: status.pod_ip.clone()?,
            is_ready: status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True"),
            is_leaving: pod.metadata.deletion_timestamp.is_some() || view::is_disrupted(pod),
        })
    }

    /// Where it tells what it has counted after a window.
    pub(super) fn url(&self, after: u64) -> String {
        format!("http://{}:{ADMIN_PORT}{PATH}?after={after}", host(&self.address))
    }
}

/// An address as a URL has it: one of IPv6 stands in brackets.
pub fn host(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

fn has_ended(phase: Option<&str>) -> bool {
    matches!(phase, Some("Failed" | "Succeeded"))
}
