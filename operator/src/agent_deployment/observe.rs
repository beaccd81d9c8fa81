//! Reads everything that a decision on an AgentDeployment needs. Reads IO; the clock is read here, once a look.

mod budgets;
mod data;
mod drift;
mod guardrails;
mod kinds;
mod pools;
mod route;
mod rules;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{future::join, try_join};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, Deployment, DeploymentStatus},
    batch::v1::Job,
    core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service},
    networking::v1::NetworkPolicy,
};
use kube::{Resource, ResourceExt};
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::{AgentDeployment, Engine, Profile, agent_deployment::RolloutStatus},
};
use slipway_operator_core::{
    agent_deployment::{
        commands::Annotated,
        monitoring::{
            counted::Keep, drift::MemoryView, load::ObservedLoad, observed_objectives::ObservedObjectives, self_check,
        },
        rollout::{judged_after, revision::Revision},
        world::{Crash, OwnedObject, RefusedPod, ServingView, Unscheduled, World},
    },
    artifact_store,
    inference_pool::InferencePool,
    jobs::{attempts::job_of, view},
    plan::RemovalKind,
    settings::Settings,
};
use tracing::warn;

use self::kinds::KnownKinds;
use super::unready::{self, Unready};
use crate::{
    evidence::{Asked, AskedPod, Pods, Question, Room, Windows},
    kube_io::{
        jobs::job_views,
        read::{ReadError, Reader},
    },
    promql::Prometheus,
};

/// Where a world is read from.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The API server.
    pub reader: &'a Reader,
    /// The pods.
    pub pods: &'a Pods,
    /// The connection to pods that are not ready.
    pub http: &'a reqwest::Client,
    /// What counted for weeks, where there is one.
    pub prometheus: Option<&'a Prometheus>,
    /// The operator's configuration.
    pub settings: &'a Arc<Settings>,
    /// The time of day.
    pub clock: fn() -> Timestamp,
}

/// An AgentDeployment, and everything that a decision on it needs.
pub struct Observed {
    /// As it was read.
    pub object: AgentDeployment,
    /// What is around it.
    pub world: World,
    /// Of what its pods counted, for as long as the world is kept.
    pub room: Option<Room>,
    /// The version of what is remembered of its pods, as it was read.
    pub memory_version: Option<String>,
}

/// What the pods of an AgentDeployment said.
pub struct Heard<'a> {
    /// When they were asked: what they had not finished then is read the next time.
    now: Timestamp,
    asking: Asking<'a>,
    asked: Asked,
    /// Why pods are not ready that say so themselves, by revision.
    unready: BTreeMap<String, String>,
}

/// Who is asked what.
#[derive(Debug, PartialEq)]
struct Asking<'a> {
    question: Question<'a>,
    pods: Vec<AskedPod>,
    unready: Vec<Unready>,
}

impl<'a> Heard<'a> {
    async fn ask(sources: Sources<'_>, now: Timestamp, asking: Asking<'a>) -> Self {
        let Asking { question, pods, unready } = &asking;
        let unready = unready::read((sources.http, sources.pods), question.namespace, unready);
        let (asked, unready) = join(sources.pods.ask(question, pods), unready).await;
        Self { now, asking, asked, unready }
    }

    /// Whether it answers what they would be asked by now.
    fn fits(&self, asking_at: impl Fn(Timestamp) -> Asking<'a>) -> bool {
        self.asking == asking_at(self.now)
    }
}

/// Asks the pods before anything else is read: who waits for them keeps nothing else in memory. Absent where the agent
/// is gone or going.
///
/// # Errors
/// When the API server does not answer.
pub async fn hear<'a>(sources: Sources<'_>, namespace: &'a str, name: &str) -> Result<Option<Heard<'a>>, ReadError> {
    let Sources { reader, clock, .. } = sources;
    let object = reader.get::<AgentDeployment>(namespace, name).await?;
    let Some(object) = object.filter(|object| object.metadata.deletion_timestamp.is_none()) else { return Ok(None) };
    let mine = format!("{}={name}", labels::AGENT_DEPLOYMENT);
    let pods = reader.list::<Pod>(namespace, &mine).await?;
    let revisions = match pods.iter().any(unready::can_tell) {
        true => readable_revisions(&reader.list::<ControllerRevision>(namespace, &mine).await?),
        false => Vec::new(),
    };
    let memory = drift::memory(&reader.list::<ConfigMap>(namespace, &mine).await?, name);
    let now = clock();
    let asking = Asking {
        question: question(&object, &memory, (namespace, name), now),
        pods: asked_pods(&judged_pods(&object, &pods)),
        unready: unready::asked(&pods, name, &revisions),
    };
    drop((object, memory, pods, revisions));
    Ok(Some(Heard::ask(sources, now, asking).await))
}

/// What pods are asked.
fn question<'a>(
    object: &AgentDeployment,
    memory: &MemoryView,
    (namespace, name): (&'a str, &str),
    now: Timestamp,
) -> Question<'a> {
    let compared = compared_rollout(object);
    let windows = match compared {
        Some(rollout) => Some(Windows::after(judged_after(rollout, now))),
        None if is_check_due(object, now) => Some(Windows::after(0)),
        None => drift::unread(memory, (namespace, name), now),
    };
    Question { namespace, windows, keep: Keep::of(&object.spec), has_canary: compared.is_some() }
}

fn asked_pods(pods: &[Pod]) -> Vec<AskedPod> {
    pods.iter().filter_map(AskedPod::of).collect()
}

/// Observes an AgentDeployment as it is now; absent when it is gone or going. Where its pods have been heard already,
/// nobody is asked again: who asks may wait for somebody who waits for the caller's turn. It is absent where they were
/// asked something else.
///
/// # Errors
/// When the API server does not answer.
pub async fn observe<'a>(
    sources: Sources<'_>,
    (namespace, name): (&'a str, &str),
    heard: Option<Heard<'a>>,
) -> Result<Option<Observed>, ReadError> {
    let Sources { reader, prometheus, settings, clock, .. } = sources;
    let Some(object) = reader.get::<AgentDeployment>(namespace, name).await? else { return Ok(None) };
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let ours = format!("{}={}", labels::APP_MANAGED_BY, labels::MANAGED_BY);
    let mine = format!("{}={name}", labels::AGENT_DEPLOYMENT);
    // Pods are newer than their Jobs, and Deployments newer than their pods: what has ended is seen to have run.
    let jobs = reader.list::<Job>(namespace, &ours).await?;
    let pods = reader.list::<Pod>(namespace, &ours).await?;
    let (engines, revisions, deployments, services, config_maps, claim, profiles, kinds) = try_join!(
        reader.list_readable::<Engine>(namespace, &ours),
        reader.list::<ControllerRevision>(namespace, &mine),
        reader.list::<Deployment>(namespace, &mine),
        reader.list::<Service>(namespace, &mine),
        reader.list::<ConfigMap>(namespace, &mine),
        reader.get::<PersistentVolumeClaim>(namespace, artifact_store::CLAIM),
        reader.list_readable::<Profile>(namespace, &mine),
        KnownKinds::ask(reader),
    )?;
    let (workloads, prior, dataset, calibration) = try_join!(
        data::workloads(reader, namespace, &object),
        data::prior(reader, namespace, &object),
        data::dataset(reader, namespace, &object),
        data::calibration(reader, namespace, &object),
    )?;
    let judged = judged_pods(&object, &pods);
    let revisions = readable_revisions(&revisions);
    let mut serving = deployments.iter().filter_map(|deployment| serving_view(deployment, &pods)).collect();
    let waiting = unready::asked(&pods, name, &revisions);
    let seen = job_views(reader, namespace, (&jobs, &pods), |job| is_waited_for(&object, job)).await?;
    let lasting = engines.into_iter().filter(|engine| engine.metadata.deletion_timestamp.is_none());
    let engines = lasting.map(|engine| (engine.name_any(), engine.status.unwrap_or_default())).collect();
    // What the whole namespace has takes megabytes, and pods are waited for.
    drop((jobs, pods));
    let memory = drift::memory(&config_maps, name);
    let asking_at = |now: Timestamp| Asking {
        question: question(&object, &memory, (namespace, name), now),
        pods: asked_pods(&judged),
        unready: waiting.clone(),
    };
    let memory_version = drift::memory_version(&config_maps, name);
    let heard = match heard {
        Some(heard) if heard.fits(asking_at) => heard,
        Some(_) => return Ok(None),
        None => {
            // Before pods are asked: what they had not finished then is read the next time.
            let now = clock();
            Heard::ask(sources, now, asking_at(now)).await
        }
    };
    let Heard { now, asking: Asking { question, .. }, asked, unready } = heard;
    let Asked { counted, windows: mut asked, room, is_whole } = asked;
    unready::tell(&mut serving, &unready);
    let compared = compared_rollout(&object);
    let is_due = compared.is_none() && question.windows.is_some();
    let stable = rollout_of(&object).and_then(|rollout| rollout.stable.as_ref());
    let of_stable = stable.and_then(|hash| counted.get(hash)).into_iter().flatten().flatten();
    let observed = ObservedObjectives::of_hours(of_stable.map(Arc::as_ref));
    let load = ObservedLoad::of_hours(counted.values().flatten().map(Option::as_deref));
    // Windows are for a canary or for drift: nobody else needs those that are taken here.
    let live = stable.filter(|_| is_due && is_whole).and_then(|hash| asked.remove(hash));
    let live = live.map(|asked| drift::live(asked, &judged)).unwrap_or_default();
    let (route, (pools, own_pools), policies, rules) = try_join!(
        route::observe(reader, kinds, &mine, &object),
        pools::observe(reader, kinds, settings, (namespace, &mine)),
        policies(reader, settings, (namespace, &mine)),
        rules::observe(reader, kinds, (namespace, name), &config_maps),
    )?;
    let budgets = budgets::observe(prometheus, &object, (namespace, name), now).await;
    let guardrails = match compared {
        Some(rollout) => {
            let declared = &object.spec.rollout.guardrails;
            guardrails::observe(prometheus, declared, rollout, (namespace, name), now).await
        }
        None => BTreeMap::new(),
    };
    let Some(owner) = object.controller_owner_ref(&()) else { return Ok(None) };
    let world = World {
        now,
        settings: settings.clone(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        generation: object.metadata.generation.unwrap_or_default(),
        owner,
        spec: object.spec.clone(),
        annotated: Annotated::read(object.annotations()),
        status: object.status.clone().unwrap_or_default(),
        // Known to those who deliver, not to the API server.
        settled: BTreeSet::new(),
        store_bound: claim.map(|claim| claim.status.and_then(|s| s.phase).is_some_and(|phase| phase == "Bound")),
        dataset,
        calibration,
        workloads,
        prior,
        campaigns: campaigns(&profiles),
        latest_campaign: profiles.iter().filter_map(|profile| Some(profile.creation_timestamp()?.0)).max(),
        profiles: profiles
            .into_iter()
            .filter(|profile| profile.metadata.deletion_timestamp.is_none())
            .map(|profile| (profile.name_any(), profile.status.unwrap_or_default()))
            .collect(),
        observed,
        are_all_heard: is_whole,
        load,
        live,
        memory,
        scaled_by: object.scaled_by().map(str::to_owned),
        budgets,
        evidence: if compared.is_some() { asked } else { BTreeMap::new() },
        guardrails,
        route,
        pools,
        rules,
        jobs: seen,
        engines,
        revisions,
        serving,
        objects: owned_objects(&deployments, &services, &config_maps, (&own_pools, &policies)),
    };
    Ok(Some(Observed { object, world, room, memory_version }))
}

/// The NetworkPolicies of its revisions. Nobody is asked where the chart allows none: it would be refused.
async fn policies(
    reader: &Reader,
    settings: &Settings,
    (namespace, selector): (&str, &str),
) -> Result<Vec<NetworkPolicy>, ReadError> {
    match settings.network_policies.agents {
        true => reader.list(namespace, selector).await,
        false => Ok(Vec::new()),
    }
}

/// Whether a Job is one that the AgentDeployment waits for: its own, or one that it shares.
fn is_waited_for(object: &AgentDeployment, job: &Job) -> bool {
    let is_own = job.labels().get(labels::AGENT_DEPLOYMENT) == Some(&object.name_any());
    let attempts = object.status.iter().flat_map(|status| &status.jobs);
    is_own || attempts.into_iter().any(|attempt| job_of(attempt) == job.name_any())
}

fn rollout_of(object: &AgentDeployment) -> Option<&RolloutStatus> {
    object.status.as_ref()?.rollout.as_ref()
}

/// Whether the judge is to check itself on the pods of stable.
fn is_check_due(object: &AgentDeployment, now: Timestamp) -> bool {
    let known = object.status.as_ref().and_then(|status| status.self_check.as_ref());
    let stable = rollout_of(object).and_then(|rollout| rollout.stable.as_ref());
    stable.is_some_and(|stable| self_check::is_due(&object.spec, known, stable, now))
}

/// The rollout whose canary has traffic.
fn compared_rollout(object: &AgentDeployment) -> Option<&RolloutStatus> {
    rollout_of(object).filter(|rollout| rollout.weight.is_some_and(|weight| weight > 0))
}

/// Whether a canary has traffic.
pub fn has_canary(object: &AgentDeployment) -> bool {
    compared_rollout(object).is_some()
}

/// Pods of the revisions that take traffic.
fn judged_pods(object: &AgentDeployment, pods: &[Pod]) -> Vec<Pod> {
    let Some(rollout) = rollout_of(object) else { return Vec::new() };
    let canary = compared_rollout(object).and_then(|rollout| rollout.canary.as_ref());
    let baseline = rollout.compared_baseline().map(|baseline| &baseline.revision);
    let revisions: Vec<&String> = rollout.stable.iter().chain(canary).chain(baseline).collect();
    let is_judged = |pod: &&Pod| {
        pod.labels().get(labels::REVISION).is_some_and(|revision| revisions.contains(&revision))
            && pod.labels().get(labels::AGENT_DEPLOYMENT) == Some(&object.name_any())
            && pod.labels().get(labels::APP_COMPONENT).map(String::as_str) == Some(Component::Serve.as_str())
    };
    pods.iter().filter(is_judged).cloned().collect()
}

/// A record that cannot be read is not a revision; it is left where it is.
fn readable_revisions(objects: &[ControllerRevision]) -> Vec<Revision> {
    objects
        .iter()
        .filter_map(|object| match Revision::read(object) {
            Ok(revision) => Some(revision),
            Err(error) => {
                warn!(error = &error as &dyn std::error::Error, "a revision is passed over");
                None
            }
        })
        .collect()
}

/// What is seen of a revision, but for what its pods say themselves.
fn serving_view(deployment: &Deployment, pods: &[Pod]) -> Option<(String, ServingView)> {
    let revision = deployment.labels().get(labels::REVISION)?.clone();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
    let status = deployment.status.clone().unwrap_or_default();
    let is_past_deadline = status.conditions.iter().flatten().any(|c| {
        c.type_ == "Progressing" && c.status == "False" && c.reason.as_deref() == Some("ProgressDeadlineExceeded")
    });
    let of_agent = deployment.labels().get(labels::AGENT_DEPLOYMENT);
    let own: Vec<&Pod> = pods
        .iter()
        .filter(|pod| pod.labels().get(labels::REVISION) == Some(&revision))
        .filter(|pod| pod.labels().get(labels::AGENT_DEPLOYMENT) == of_agent)
        .collect();
    let lasting = || own.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let has_node = |pod: &&&Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let crash = lasting().filter(|pod| !view::is_disrupted(pod)).filter_map(|pod| view::latest_crash(pod));
    let failure = own.iter().find_map(|pod| pod_failure(pod)).or_else(|| refused_pods(&status));
    let ready = status.ready_replicas.unwrap_or_default();
    let view = ServingView {
        wanted,
        updated: status.updated_replicas.unwrap_or_default(),
        scheduled: i32::try_from(lasting().filter(has_node).count()).unwrap_or(i32::MAX),
        ready,
        settling: (ready - status.available_replicas.unwrap_or_default()).max(0),
        is_observed: status.observed_generation == deployment.metadata.generation,
        is_past_deadline,
        failure,
        crash: crash.map(|(at, text)| Crash { at, text }).max_by_key(|crash| crash.at),
        refused: lasting().find_map(|pod| refused(pod)),
        unscheduled: lasting().filter_map(|pod| unscheduled(pod)).min_by_key(|unscheduled| unscheduled.since),
    };
    Some((revision, view))
}

fn refused(pod: &Pod) -> Option<RefusedPod> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    Some(RefusedPod { pod: pod.name_any(), node, problems: view::refused_gpus(pod)? })
}

fn unscheduled(pod: &Pod) -> Option<Unscheduled> {
    let (since, message) = view::no_room(pod)?;
    Some(Unscheduled { since, message })
}

/// Why the API server refuses the pods of a Deployment: a quota, or an admission policy.
fn refused_pods(status: &DeploymentStatus) -> Option<String> {
    let conditions = status.conditions.iter().flatten();
    let refused = conditions.into_iter().find(|c| c.type_ == "ReplicaFailure" && c.status == "True")?;
    let said = refused.message.as_deref().or(refused.reason.as_deref()).unwrap_or("no reason is given");
    Some(format!("the API server refuses its pods: {said}"))
}

/// Why a serving pod does not come up.
fn pod_failure(pod: &Pod) -> Option<String> {
    let waits = || view::image_problem(pod).or_else(|| view::secret_problem(pod)).or_else(|| view::unschedulable(pod));
    view::crash(pod).or_else(waits)
}

/// Profiles that are not being deleted, the latest first.
fn campaigns(profiles: &[Profile]) -> Vec<OwnedObject> {
    let mut kept: Vec<_> = profiles.iter().filter(|profile| profile.metadata.deletion_timestamp.is_none()).collect();
    kept.sort_by_key(|profile| Reverse(profile.creation_timestamp().map(|created| created.0)));
    let object = |profile: &Profile| {
        let (uid, resource_version) = (profile.uid()?, profile.resource_version()?);
        Some(OwnedObject { kind: RemovalKind::Profile, name: profile.name_any(), uid, resource_version })
    };
    kept.into_iter().filter_map(object).collect()
}

fn owned_objects(
    deployments: &[Deployment],
    services: &[Service],
    config_maps: &[ConfigMap],
    (pools, policies): (&[InferencePool], &[NetworkPolicy]),
) -> BTreeMap<String, Vec<OwnedObject>> {
    let mut objects: BTreeMap<String, Vec<OwnedObject>> = BTreeMap::new();
    let found = deployments.iter().filter_map(|object| of_revision(RemovalKind::Deployment, object));
    let found = found.chain(services.iter().filter_map(|object| of_revision(RemovalKind::Service, object)));
    let found = found.chain(config_maps.iter().filter_map(|object| of_revision(RemovalKind::ConfigMap, object)));
    let found = found.chain(pools.iter().filter_map(|object| of_revision(RemovalKind::InferencePool, object)));
    let found = found.chain(policies.iter().filter_map(|object| of_revision(RemovalKind::NetworkPolicy, object)));
    for (revision, object) in found {
        objects.entry(revision).or_default().push(object);
    }
    objects
}

/// Objects without a revision, such as the Service that clients call, outlive every revision.
fn of_revision<K: ResourceExt>(kind: RemovalKind, object: &K) -> Option<(String, OwnedObject)> {
    let revision = object.labels().get(labels::REVISION)?.clone();
    let owned =
        OwnedObject { kind, name: object.name_any(), uid: object.uid()?, resource_version: object.resource_version()? };
    Some((revision, owned))
}

#[cfg(test)]
mod tests;
