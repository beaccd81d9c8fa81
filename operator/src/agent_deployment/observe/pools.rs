//! The InferencePools of an AgentDeployment's revisions, where they can be written. Reads IO.

use slipway_operator_core::{agent_deployment::world::PoolsView, inference_pool::InferencePool, settings::Settings};

use super::KnownKinds;
use crate::kube_io::read::{ReadError, Reader};

/// Whether pools can be written, and those that are there. Without the chart's word nobody is asked: it would be
/// refused.
///
/// # Errors
/// When the API server does not answer.
pub async fn observe(
    reader: &Reader,
    kinds: KnownKinds,
    settings: &Settings,
    (namespace, selector): (&str, &str),
) -> Result<(PoolsView, Vec<InferencePool>), ReadError> {
    match (settings.gateway.inference_pools, kinds.inference_pools) {
        (false, _) => Ok((PoolsView::NotAllowed, Vec::new())),
        (true, false) => Ok((PoolsView::UnknownKind, Vec::new())),
        (true, true) => Ok((PoolsView::Writable, reader.list(namespace, selector).await?)),
    }
}
