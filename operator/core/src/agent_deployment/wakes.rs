//! What AgentDeployments share with others of their namespace: whose events concern them. Pure.
//!
//! A decision records an object in the status before it creates it, so an object that no status names concerns nobody.

use std::fmt;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use slipway_crds::{labels, v1alpha1::AgentDeploymentStatus};

use crate::jobs::attempts::job_of;

/// Something that several AgentDeployments of a namespace may wait for or use. Its text has one line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Interest {
    /// A Job, by name.
    Job(String),
    /// What a Job fetches, by the digest of its source.
    Content(String),
    /// An Engine, by name.
    Engine(String),
    /// The claim of the store.
    Store,
}

impl fmt::Display for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(name) => write!(f, "job/{name}"),
            Self::Content(digest) => write!(f, "content/{digest}"),
            Self::Engine(name) => write!(f, "engine/{name}"),
            Self::Store => f.write_str("store"),
        }
    }
}

/// What an AgentDeployment with this status is concerned by. It is its Jobs, those that it shares, and Engines that are
/// considered or selected. Until it is fetched, it is the model, and before anything serves, the store.
pub fn interests(status: &AgentDeploymentStatus) -> Vec<Interest> {
    let jobs = status.jobs.iter().map(|attempt| Interest::Job(job_of(attempt)));
    let model = status.model.iter().filter(|model| !model.fetched);
    let content = model.map(|model| Interest::Content(model.source_digest.clone()));
    let selected = status.selected.iter().filter_map(|selected| selected.engine());
    let engines = selected.chain(status.engines.iter().map(|choice| &choice.name));
    let engines = engines.map(|name| Interest::Engine(name.clone()));
    let store = status.rollout.is_none().then_some(Interest::Store);
    let mut all: Vec<Interest> = jobs.chain(content).chain(engines).chain(store).collect();
    all.sort();
    all.dedup();
    all
}

/// Who is concerned by a Job beside the AgentDeployment that it is labelled with.
pub fn of_job(job: &Job) -> Vec<Interest> {
    let content = job.annotations().get(labels::FETCH_CONTENT).cloned();
    [Interest::Job(job.name_any())].into_iter().chain(content.map(Interest::Content)).collect()
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

    fn concerned(by: &[Interest]) -> Vec<&'static str> {
        let agents = agents().into_iter();
        let is_concerned =
            |status: &AgentDeploymentStatus| interests(status).iter().any(|interest| by.contains(interest));
        agents.filter(|(_, status)| is_concerned(status)).map(|(name, _)| name).collect()
    }

    fn woken_by(job: &Job) -> Vec<&'static str> {
        concerned(&of_job(job))
    }

    #[test]
    fn a_job_wakes_those_who_share_it() {
        let resolve = job("resolve-1f-1", Some((labels::AGENT_DEPLOYMENT, "new")), None);
        assert_eq!(woken_by(&resolve), Vec::<&str>::new(), "it is labelled with its owner");
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
        let woken = |engine: &str| concerned(&[Interest::Engine(engine.to_owned())]);
        assert_eq!(woken("engine-1"), ["choosing", "serving"]);
        assert_eq!(woken("engine-2"), Vec::<&str>::new());
    }

    #[test]
    fn the_store_wakes_those_of_which_nothing_serves() {
        let mut serves = AgentDeploymentStatus::default();
        assert_eq!(interests(&serves), [Interest::Store]);
        serves.rollout = Some(serde_norway::from_str("{stable: 7c1f9a2b3d}").expect("a rollout"));
        assert_eq!(interests(&serves), []);
    }

    #[test]
    fn an_interest_is_found_by_its_text() {
        let of = |text: &str| text.to_owned();
        let all = [Interest::Job(of("a")), Interest::Content(of("b")), Interest::Engine(of("c")), Interest::Store];
        assert_eq!(all.map(|interest| interest.to_string()), ["job/a", "content/b", "engine/c", "store"]);
    }
}
