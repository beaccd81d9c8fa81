//! What in the store is needed, and by whom. Pure.
//!
//! AgentDeployments, the revisions that they keep, campaigns, Engines, Jobs and pods need folders of the store. All of
//! the namespace are looked at together: what is shared belongs to nobody.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{
    apps::v1::Deployment,
    batch::v1::Job,
    core::v1::{Pod, PodSpec},
};
use kube::ResourceExt;
use slipway_crds::{
    labels::{self, Component},
    v1alpha1::{AgentDeployment, Engine, Profile},
};
use slipway_worker_contract::{Digest, EngineRef, paths};

use crate::{
    agent_deployment::{engine_users::Users, rollout::revision::Revision},
    engine::lost,
    jobs::{
        attempts::job_of,
        view::{JobPhase, JobView},
    },
};

/// Everything of a namespace that may need something of the store.
#[derive(Debug, Clone, Default)]
pub struct Namespace {
    /// AgentDeployments, revisions and campaigns.
    pub users: Users,
    /// Engines.
    pub engines: Vec<Engine>,
    /// Deployments of ours.
    pub deployments: Vec<Deployment>,
    /// Jobs of ours.
    pub jobs: Vec<Job>,
    /// How far they are, by name.
    pub views: BTreeMap<String, JobView>,
    /// Pods of ours.
    pub pods: Vec<Pod>,
}

/// What is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// Folders, each with the objects that need it.
    pub held: BTreeMap<String, Vec<String>>,
    /// Folders that nothing needs but what goes by itself: an Engine that nobody names, a Job that ended.
    pub loose: BTreeMap<String, String>,
    /// Folders of which everything stays, each with an object that may be about to write there.
    pub written: BTreeMap<String, String>,
    /// Bytes of folders, as far as somebody says.
    pub bytes: BTreeMap<String, i64>,
    /// Jobs that something still reads, or that are at work.
    pub jobs: BTreeSet<String>,
}

impl References {
    /// What a namespace needs.
    pub fn of(namespace: &Namespace) -> Self {
        let Namespace { users, engines, deployments, jobs, views, pods } = namespace;
        let mut found = Self::default();
        users.agent_deployments.iter().for_each(|object| found.agent_deployment(object));
        users.revisions.iter().for_each(|revision| found.revision(revision));
        users.profiles.iter().for_each(|profile| found.profile(profile));
        let named = named_engines(users);
        engines.iter().for_each(|engine| found.engine(engine, named.get(&engine.name_any())));
        let is_there = |name: &String| engines.iter().any(|engine| engine.name_any() == *name);
        for (engine, holders) in named.iter().filter(|(engine, _)| !is_there(engine)) {
            // Whoever names it asks for it again.
            holders.first().into_iter().for_each(|holder| found.write(engine, holder));
        }
        deployments.iter().for_each(|deployment| found.deployment(deployment));
        jobs.iter().for_each(|job| found.job(job, views.get(&job.name_any())));
        pods.iter().for_each(|pod| found.pod(pod));
        let Self { held, loose, .. } = &mut found;
        loose.retain(|folder, _| !held.contains_key(folder));
        found
    }

    fn hold(&mut self, folder: String, holder: &str) {
        let holders = self.held.entry(folder).or_default();
        if !holders.iter().any(|known| known == holder) {
            holders.push(holder.to_owned());
        }
    }

    fn write(&mut self, engine: &str, writer: &str) {
        self.written.insert(paths::engine_artifacts(engine), writer.to_owned());
    }

    /// Who holds a folder though nothing needs it: what goes by itself, or may be about to write there.
    pub fn loose_holder(&self, folder: &str) -> Option<&String> {
        let family = folder.rsplit_once('/').map_or(folder, |(family, _)| family);
        self.loose.get(folder).or_else(|| self.written.get(family))
    }

    fn agent_deployment(&mut self, object: &AgentDeployment) {
        let holder = format!("AgentDeployment {}", object.name_any());
        let Some(status) = &object.status else { return };
        // What another server has by now needs no checkpoint. Engines that are kept name theirs themselves.
        let model = status.model.as_ref().filter(|_| object.spec.upstream().is_none());
        if let Some((model, folder)) = model.and_then(|m| Some((m, checkpoint(&m.source_digest)?))) {
            self.bytes.insert(folder.clone(), model.size_bytes);
            self.hold(folder, &holder);
        }
        let selected = status.selected.as_ref().and_then(|selected| selected.artifact.as_ref());
        let selected = selected.and_then(|selected| artifact(&selected.engine, &selected.manifest_digest));
        selected.into_iter().for_each(|folder| self.hold(folder, &holder));
        self.jobs.extend(status.jobs.iter().map(job_of));
    }

    fn revision(&mut self, revision: &Revision) {
        let Some(artifact) = revision.plan.served.artifact() else { return };
        let engine = &artifact.engine;
        let reference = EngineRef { identity: engine.name.clone(), manifest_digest: engine.manifest_digest.clone() };
        self.hold(paths::engine(&reference), &format!("ControllerRevision {}", revision.name));
    }

    fn profile(&mut self, profile: &Profile) {
        let holder = format!("Profile {}", profile.name_any());
        let built = profile.spec.inputs.engines.iter();
        let built = built.filter_map(|engine| artifact(&engine.name, &engine.manifest_digest));
        // Engines that a campaign asks for have their artifact in its status.
        let asked = profile.status.iter().flat_map(|status| &status.asked);
        let asked = asked.filter_map(|asked| artifact(&asked.engine, asked.manifest_digest.as_ref()?));
        built.chain(asked).for_each(|folder| self.hold(folder, &holder));
        self.hold(paths::campaign_records(&profile.spec.input_hash), &holder);
    }

    fn engine(&mut self, engine: &Engine, named_by: Option<&BTreeSet<String>>) {
        let name = engine.name_any();
        let status = engine.status.clone().unwrap_or_default();
        let built = status.artifact.as_ref();
        let built = built.and_then(|found| Some((artifact(&name, &found.manifest_digest)?, found.size_bytes)));
        if let Some((folder, bytes)) = &built {
            self.bytes.insert(folder.clone(), *bytes);
        } else {
            self.write(&name, &format!("Engine {name}"));
        }
        self.jobs.extend(status.attempts.last().map(|attempt| attempt.job.clone()));
        let source = checkpoint(&engine.spec.build.source_digest);
        for folder in built.map(|(folder, _)| folder).into_iter().chain(source) {
            match named_by {
                Some(holders) => holders.iter().for_each(|holder| self.hold(folder.clone(), holder)),
                None if status.unused_since.is_none() => self.hold(folder, &format!("Engine {name}")),
                None => {
                    self.loose.insert(folder, format!("Engine {name}"));
                }
            }
        }
    }

    /// The template of a Deployment outlives the record of its revision.
    fn deployment(&mut self, deployment: &Deployment) {
        let template = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        self.starts(template, &format!("Deployment {}", deployment.name_any()));
    }

    fn job(&mut self, job: &Job, view: Option<&JobView>) {
        let name = job.name_any();
        let holder = format!("Job {name}");
        let phase = view.map(|view| &view.phase);
        let is_ended = matches!(phase, Some(JobPhase::Succeeded { .. } | JobPhase::Failed { .. }));
        if let Some(folder) = job.annotations().get(labels::FETCH_CONTENT).and_then(|content| checkpoint(content)) {
            match phase {
                // Those who need its content take it for a proof that the store has it.
                Some(JobPhase::Succeeded { .. }) => drop(self.loose.insert(folder, holder.clone())),
                Some(JobPhase::Failed { .. }) => {}
                Some(
                    JobPhase::Unscheduled { .. }
                    | JobPhase::ImageUnavailable(_)
                    | JobPhase::SecretUnavailable(_)
                    | JobPhase::PodsRefused(_)
                    | JobPhase::Running { .. },
                )
                | None => self.hold(folder, &holder),
            }
        }
        let template = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        let is_quality = job.labels().get(labels::APP_COMPONENT).is_some_and(|of| of == Component::Quality.as_str());
        if is_quality && matches!(phase, Some(JobPhase::Succeeded { .. })) {
            // Whoever asks for these scores takes it for a proof that they lie beside their artifact.
            self.loose.extend(copied(template).map(|folder| (folder, holder.clone())));
        }
        if is_ended && !job.labels().contains_key(labels::PROFILE) {
            return;
        }
        self.jobs.insert(name);
        if !is_ended {
            let engine = job.labels().get(labels::ENGINE);
            engine.into_iter().for_each(|engine| self.write(engine, &holder));
            self.starts(template, &holder);
        }
    }

    fn pod(&mut self, pod: &Pod) {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if !matches!(phase, Some("Succeeded" | "Failed")) {
            self.starts(pod.spec.as_ref(), &format!("Pod {}", pod.name_any()));
        }
    }

    /// What pods copy when they start. A holder that was found before says more than the pod: pods come and go.
    fn starts(&mut self, pod: Option<&PodSpec>, holder: &str) {
        for folder in copied(pod) {
            if !self.held.contains_key(&folder) {
                self.hold(folder, holder);
            }
        }
    }
}

/// Artifacts that the containers of a pod copy from the store.
fn copied(pod: Option<&PodSpec>) -> impl Iterator<Item = String> {
    let containers = pod.into_iter().flat_map(|pod| pod.init_containers.iter().flatten().chain(&pod.containers));
    containers.filter_map(lost::materialized).filter_map(|(engine, digest)| artifact(&engine, &digest))
}

/// Engines, each with the objects that name it.
fn named_engines(users: &Users) -> BTreeMap<String, BTreeSet<String>> {
    let Users { agent_deployments, revisions, profiles } = users;
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut name = |engine: &String, holder: &String| {
        named.entry(engine.clone()).or_default().insert(holder.clone());
    };
    for object in agent_deployments {
        let holder = format!("AgentDeployment {}", object.name_any());
        let status = object.status.iter();
        let considered = status.clone().flat_map(|status| &status.engines).map(|choice| &choice.name);
        let selected = status.filter_map(|status| status.selected.as_ref()?.engine());
        considered.chain(selected).for_each(|engine| name(engine, &holder));
    }
    for revision in revisions {
        let artifact = revision.plan.served.artifact();
        artifact.iter().for_each(|of| name(&of.engine.name, &format!("ControllerRevision {}", revision.name)));
    }
    for profile in profiles {
        let holder = format!("Profile {}", profile.name_any());
        profile.spec.inputs.engines.iter().for_each(|engine| name(&engine.name, &holder));
    }
    named
}

fn artifact(engine: &str, manifest_digest: &str) -> Option<String> {
    let manifest_digest: Digest = manifest_digest.parse().ok()?;
    Some(paths::engine(&EngineRef { identity: engine.to_owned(), manifest_digest }))
}

fn checkpoint(source_digest: &str) -> Option<String> {
    Some(paths::checkpoint(&source_digest.parse().ok()?))
}
