//! Jobs whose pods the API server refuses: a quota, a limit range or an admission policy. Pure.
//!
//! A Job says of it nothing but that it has no pod. The words are in events of the Job controller, which are asked for
//! only then.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::ResourceExt;
use slipway_crds::labels;

use super::view::{JobPhase, JobView};

/// Reason of the Job controller's events about pods that it could not create
/// (`FailedCreatePodReason` in Kubernetes' pkg/controller/controller_utils.go).
const FAILED_CREATE: &str = "FailedCreate";

/// Jobs that are at work and have no pod.
pub fn without_pods<'a>(jobs: &'a [Job], pods: &'a [Pod], views: &BTreeMap<String, JobView>) -> Vec<&'a Job> {
    let has_pod = |name: &str| pods.iter().any(|pod| pod.labels().get(labels::JOB).is_some_and(|job| job == name));
    let is_at_work = |name: &str| matches!(views.get(name).map(|view| &view.phase), Some(JobPhase::Running { .. }));
    let lacks_pod = |job: &&Job| is_at_work(&job.name_any()) && !has_pod(&job.name_any());
    jobs.iter().filter(lacks_pod).collect()
}

/// The field selector of the events that say why a Job has no pod.
pub fn events_of(job: &Job) -> String {
    format!("involvedObject.kind=Job,involvedObject.name={},reason={FAILED_CREATE}", job.name_any())
}

/// What the latest of the events about a Job says, if one is about this very Job.
pub fn refusal(job: &Job, events: &[Event]) -> Option<JobPhase> {
    let is_about_it = |event: &&Event| {
        event.reason.as_deref() == Some(FAILED_CREATE)
            && event.involved_object.uid.is_some()
            && event.involved_object.uid == job.metadata.uid
    };
    let latest = events.iter().filter(is_about_it).max_by_key(|event| seen_at(event))?;
    let message = latest.message.as_deref().unwrap_or_default();
    Some(JobPhase::PodsRefused(without_suffix(message, &job.name_any())))
}

fn seen_at(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    series.or(last).or(event.event_time.as_ref().map(|time| time.0))
}

/// The words without the random part of the pod's name, with which they would change at each try of the Job
/// controller's.
fn without_suffix(message: &str, job: &str) -> String {
    let start = format!("\"{job}-");
    let Some((before, rest)) = message.split_once(&start) else { return message.to_owned() };
    let Some((_, after)) = rest.split_once('"') else { return message.to_owned() };
    format!("{before}\"{job}\"{after}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::ObjectReference,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    };
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::jobs::view::job_views;

    const QUOTA: &str = "is forbidden: exceeded quota: compute, requested: limits.memory=2Gi, used: limits.memory=7Gi, limited: \
                         limits.memory=8Gi";

    fn job(uid: &str) -> Job {
        let metadata =
            ObjectMeta { name: Some("fetch-1f-1".to_owned()), uid: Some(uid.to_owned()), ..Default::default() };
        Job { metadata, ..Default::default() }
    }

    fn event(uid: &str, second: i64, message: String) -> Event {
        Event {
            involved_object: ObjectReference { uid: Some(uid.to_owned()), ..Default::default() },
            reason: Some(FAILED_CREATE.to_owned()),
            last_timestamp: Some(Time(Timestamp::from_second(second).unwrap())),
            message: Some(message),
            ..Default::default()
        }
    }

    #[test]
    fn the_latest_refusal_of_a_jobs_pod_is_told_in_the_api_servers_words() {
        let pod = |suffix: &str| format!("Error creating: pods \"fetch-1f-1-{suffix}\" {QUOTA}");
        let events = [
            event("u1", 2, pod("x7v2k")),
            event("u1", 1, "Error creating: an earlier one".to_owned()),
            event("u0", 9, "Error creating: of a Job of the same name before".to_owned()),
        ];
        let expected = format!("Error creating: pods \"fetch-1f-1\" {QUOTA}");
        assert_eq!(refusal(&job("u1"), &events), Some(JobPhase::PodsRefused(expected.clone())));
        let again = [event("u1", 3, pod("zzzzz"))];
        assert_eq!(refusal(&job("u1"), &again), Some(JobPhase::PodsRefused(expected)), "another try changes no words");
    }

    #[test]
    fn without_an_event_about_it_a_job_is_at_work() {
        let of_another = [event("u0", 1, "Error creating: x".to_owned())];
        assert_eq!(refusal(&job("u1"), &of_another), None);
    }

    #[test]
    fn only_a_job_at_work_without_a_pod_is_asked_about() {
        let pod = Pod {
            metadata: ObjectMeta {
                labels: Some(BTreeMap::from([(labels::JOB.to_owned(), "fetch-1f-1".to_owned())])),
                ..Default::default()
            },
            ..Default::default()
        };
        let mut other = job("u2");
        other.metadata.name = Some("build-2e-1".to_owned());
        let jobs = [job("u1"), other.clone()];
        let pods = [pod];
        let views = job_views(&jobs, &pods);
        assert_eq!(without_pods(&jobs, &pods, &views), [&other]);
        let selector = "involvedObject.kind=Job,involvedObject.name=build-2e-1,reason=FailedCreate";
        assert_eq!(events_of(&other), selector);
        let failed = JobPhase::PodsRefused(String::new());
        let ended = BTreeMap::from([("build-2e-1".to_owned(), JobView::in_phase("build-2e-1", failed))]);
        assert_eq!(without_pods(&jobs, &pods, &ended), Vec::<&Job>::new());
    }
}
