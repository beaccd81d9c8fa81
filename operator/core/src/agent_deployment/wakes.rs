//! Which AgentDeployments an event of a shared object concerns: those that have it in their status. Pure.
//!
//! A decision records an object in the status before it creates it, so an object that no status names concerns nobody.

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use slipway_crds::{labels, v1alpha1::AgentDeploymentStatus};

use crate::jobs::attempts::job_of;

/// Whether a Job is the AgentDeployment's own, one that it shares, or one that fetches what it waits for.
pub fn is_concerned_by_job(name: &str, status: Option<&AgentDeploymentStatus>, job: &Job) -> bool {
    let of = job.labels().get(labels::AGENT_DEPLOYMENT);
    of.is_some_and(|of| of == name) || status.is_some_and(|status| has_attempt(status, job) || waits_for(status, job))
}

/// Whether an Engine is under consideration, or selected.
pub fn is_concerned_by_engine(status: Option<&AgentDeploymentStatus>, engine: &str) -> bool {
    status.is_some_and(|status| {
        let is_selected =
            status.selected.as_ref().is_some_and(|selected| selected.engine().is_some_and(|of| of == engine));
        is_selected || status.engines.iter().any(|choice| choice.name == engine)
    })
}

fn has_attempt(status: &AgentDeploymentStatus, job: &Job) -> bool {
    status.jobs.iter().any(|attempt| job_of(attempt) == job.name_any())
}

fn waits_for(status: &AgentDeploymentStatus, job: &Job) -> bool {
    let content = job.annotations().get(labels::FETCH_CONTENT);
    let model = status.model.as_ref().filter(|model| !model.fetched);
    content.is_some_and(|content| model.is_some_and(|model| model.source_digest == *content))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use pretty_assertions::assert_eq;

    use super::*;

    /// AgentDeployments of a namespace, by name.
    fn agents() -> BTreeMap<&'static str, AgentDeploymentStatus> {
        let read = |yaml: &str| serde_norway::from_str(yaml).expect("a valid status");
        let model = "pinnedUri: '', uri: '', sizeBytes: 1";
        BTreeMap::from([
            ("new", AgentDeploymentStatus::default()),
            (
                "fetching",
                read(&format!(
                    "model: {{{model}, sourceDigest: d1}}\njobs: [{{kind: fetch, inputHash: 1f, attempt: 2}}]"
                )),
            ),
            ("waiting", read(&format!("model: {{{model}, sourceDigest: d1}}"))),
            ("fetched", read(&format!("model: {{{model}, sourceDigest: d1, fetched: true}}"))),
            ("of-other-model", read(&format!("model: {{{model}, sourceDigest: d2}}"))),
            ("choosing", read("engines: [{name: engine-1, precision: FP32, state: ''}]")),
            (
                "serving",
                read("selected: {displayName: a, engine: engine-1, manifestDigest: '', maxInFlight: 1, why: ''}"),
            ),
        ])
    }

    fn job(name: &str, label: Option<(&str, &str)>, content: Option<&str>) -> Job {
        let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        Job {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: label.map(|(key, value)| one(key, value)),
                annotations: content.map(|content| one(labels::FETCH_CONTENT, content)),
                ..Default::default()
            },
            ..Default::default()
        }
    }

    fn woken_by(job: &Job) -> Vec<&'static str> {
        let agents = agents().into_iter();
        agents.filter(|(name, status)| is_concerned_by_job(name, Some(status), job)).map(|(name, _)| name).collect()
    }

    #[test]
    fn a_job_wakes_its_owner_and_those_who_share_it() {
        let resolve = job("resolve-1f-1", Some((labels::AGENT_DEPLOYMENT, "new")), None);
        assert_eq!(woken_by(&resolve), ["new"]);
        let build = job("build-1f-1", Some((labels::ENGINE, "engine-1")), None);
        assert_eq!(
            woken_by(&build),
            Vec::<&str>::new(),
            "its Engine's status follows, and that is an event of its own"
        );
        let fetch = job("fetch-2e-1", Some((labels::AGENT_DEPLOYMENT, "gone")), Some("d1"));
        assert_eq!(woken_by(&fetch), ["fetching", "waiting"]);
        let of_older_release = job("fetch-1f-2", Some((labels::AGENT_DEPLOYMENT, "gone")), None);
        assert_eq!(woken_by(&of_older_release), ["fetching"]);
    }

    #[test]
    fn an_engine_wakes_those_who_consider_or_serve_it() {
        let woken = |engine: &str| {
            let agents = agents().into_iter();
            let concerned = agents.filter(|(_, status)| is_concerned_by_engine(Some(status), engine));
            concerned.map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(woken("engine-1"), ["choosing", "serving"]);
        assert_eq!(woken("engine-2"), Vec::<&str>::new());
    }

    #[test]
    fn without_a_status_only_the_label_tells() {
        let resolve = job("resolve-1f-1", Some((labels::AGENT_DEPLOYMENT, "new")), None);
        assert!(is_concerned_by_job("new", None, &resolve));
        assert!(!is_concerned_by_job("other", None, &resolve));
        assert!(!is_concerned_by_engine(None, "engine-1"));
    }
}
