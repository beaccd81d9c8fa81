//! Jobs with what their pods and, where they have none, their events say. Reads IO.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::ResourceExt;
use slipway_operator_core::jobs::{
    refused,
    view::{self, JobView},
};

use super::read::{ReadError, Reader};

/// What is seen of Jobs. The events of those that `is_own` are asked for where they have no pod.
///
/// # Errors
/// When the API server does not answer.
pub async fn job_views(
    reader: &Reader,
    namespace: &str,
    (jobs, pods): (&[Job], &[Pod]),
    is_own: impl Fn(&Job) -> bool,
) -> Result<BTreeMap<String, JobView>, ReadError> {
    let mut views = view::job_views(jobs, pods);
    for job in refused::without_pods(jobs, pods, &views).into_iter().filter(|job| is_own(job)) {
        let events = reader.list_by_field::<Event>(namespace, &refused::events_of(job)).await?;
        let refusal = refused::refusal(job, &events);
        if let (Some(phase), Some(view)) = (refusal, views.get_mut(&job.name_any())) {
            view.phase = phase;
        }
    }
    Ok(views)
}
