//! Whom a change wakes. What an Engine's neighbours were is forgotten where a pod misses its artifact.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::{
    Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::reflector::ObjectRef,
};
use slipway_crds::{
    labels::{self, Component},
    store::NAME,
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_operator_core::{
    agent_deployment::wakes::{self, Interest},
    engine::lost,
};

use crate::kube_io::{cache::Cache, neighbours::Neighbours};

type Guarded<K> = DeserializeGuard<K>;

/// Of an object its place and nothing more: controllers find it in a cache.
pub type Named<K> = PartialObjectMeta<K>;

/// Who is woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wake {
    Agent(ObjectRef<Named<AgentDeployment>>),
    Engine(ObjectRef<Named<Engine>>),
    Profile(ObjectRef<Named<Profile>>),
    Store(ObjectRef<Named<PersistentVolumeClaim>>),
}

pub(super) fn of_agent(agent: &Guarded<AgentDeployment>) -> Wake {
    Wake::Agent(named(agent))
}

/// Namespace and name of an object.
pub(super) fn place<K: ResourceExt>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn named<K: Resource<DynamicType = ()>>(object: &Guarded<K>) -> ObjectRef<Named<K>> {
    let (namespace, name) = place(object);
    ObjectRef::new(&name).within(&namespace)
}

/// An Engine, its users, and the store that its artifact is in.
pub(super) fn of_engine(agents: &Cache<Guarded<AgentDeployment>>, engine: &Guarded<Engine>) -> Vec<Wake> {
    let users = concerned(agents, engine, &[Interest::Engine(engine.name_any())]);
    users.into_iter().chain([Wake::Engine(named(engine))]).chain(store_beside(engine)).collect()
}

/// A campaign, and its agent.
pub(super) fn of_profile(profile: &Guarded<Profile>) -> Vec<Wake> {
    let agent = labelled_agent(profile).filter(|_| is_ours(profile));
    agent.into_iter().chain([Wake::Profile(named(profile))]).collect()
}

/// A claim, and the agents of its namespace that wait for it.
pub(super) fn of_claim(agents: &Cache<Guarded<AgentDeployment>>, claim: &Guarded<PersistentVolumeClaim>) -> Vec<Wake> {
    concerned(agents, claim, &[Interest::Store]).into_iter().chain([Wake::Store(named(claim))]).collect()
}

/// Those that made a Job or wait for it.
pub(super) fn of_job(agents: &Cache<Guarded<AgentDeployment>>, job: &Job) -> Vec<Wake> {
    let sharing = concerned(agents, job, &wakes::of_job(job));
    let component = job.labels().get(labels::APP_COMPONENT).map(String::as_str);
    let store = store_beside(job).filter(|_| component == Some(Component::Sweep.as_str()));
    let labelled = [labelled_agent(job), labelled_engine(job), labelled_profile(job)];
    sharing.into_iter().chain(labelled.into_iter().flatten()).chain(store).collect()
}

/// Those that a pod works for or serves, and the Engine whose artifact it misses in the store. That Engine is to see
/// it.
pub(super) fn of_pod(neighbours: &Neighbours, glanced: &Neighbours, pod: &Pod) -> Vec<Wake> {
    let missed = || {
        let (missed, namespace) = (lost::missed(pod)?, pod.namespace()?);
        neighbours.forget(&namespace);
        glanced.forget(&namespace);
        Some(Wake::Engine(ObjectRef::new(&missed.engine).within(&namespace)))
    };
    let engine = labelled_engine(pod).or_else(missed);
    labelled_agent(pod).into_iter().chain(engine).chain(labelled_profile(pod)).collect()
}

/// The agent that an object belongs to.
pub(super) fn of_child<K: ResourceExt>(object: &K) -> Vec<Wake> {
    labelled_agent(object).into_iter().collect()
}

fn is_ours<K: ResourceExt>(object: &K) -> bool {
    object.labels().get(labels::APP_MANAGED_BY).is_some_and(|manager| manager == labels::MANAGED_BY)
}

fn labelled_agent<K: ResourceExt>(object: &K) -> Option<Wake> {
    let name = object.labels().get(labels::AGENT_DEPLOYMENT)?;
    Some(Wake::Agent(ObjectRef::new(name).within(&object.namespace()?)))
}

fn labelled_engine<K: ResourceExt>(object: &K) -> Option<Wake> {
    let name = object.labels().get(labels::ENGINE)?;
    Some(Wake::Engine(ObjectRef::new(name).within(&object.namespace()?)))
}

fn labelled_profile<K: ResourceExt>(object: &K) -> Option<Wake> {
    let name = object.labels().get(labels::PROFILE)?;
    Some(Wake::Profile(ObjectRef::new(name).within(&object.namespace()?)))
}

/// The claim of the store in the namespace of an object.
fn store_beside<K: ResourceExt>(object: &K) -> Option<Wake> {
    Some(Wake::Store(ObjectRef::new(NAME).within(&object.namespace()?)))
}

/// The AgentDeployments of a namespace that an object concerns: of what they share, nothing carries the names of all.
fn concerned<K: ResourceExt>(agents: &Cache<Guarded<AgentDeployment>>, object: &K, by: &[Interest]) -> Vec<Wake> {
    let namespace = object.namespace().unwrap_or_default();
    let by: Vec<String> = by.iter().map(ToString::to_string).collect();
    let woken = |name: String| Wake::Agent(ObjectRef::new(&name).within(&namespace));
    agents.concerned(&namespace, &by).into_iter().map(woken).collect()
}
