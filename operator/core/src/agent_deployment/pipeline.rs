//! From the model's reference to the plan that the spec asks for, one planner a step. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::{
        agent_deployment::{Authentication, Hardware, SelectedArtifact, SelectedConfiguration, Upstream},
        shared::ServingConfiguration,
    },
};

use super::{
    engines::built::BuiltEngine,
    parts::{Basis, Found, Parts, Planned, Planning},
    prepare::{Prepared, accepted_by_sidecars, prepare},
    profiling::{self, Choice},
    rollout::{
        approval::Chosen,
        layout::Layout,
        prediction,
        revision::{PlanInputs, PlannedEngine, RevisionPlan, Served, ServedArtifact, ServedUpstream, Target},
    },
    world::World,
};
use crate::plan::Note;

/// What is said of a choice that nobody had to make.
const SERVED_ELSEWHERE: &str = "spec.model.upstream names it; nothing is built or measured";

/// The plan that the spec asks for.
pub(super) fn chosen(world: &World, inputs: &PlanInputs) -> Planning<Chosen> {
    match world.spec.upstream() {
        Some(upstream) => elsewhere(world, upstream, inputs),
        // Also says what is wrong with a spec of neither kind.
        None => measured(world, inputs),
    }
}

/// The plan that serves the best engine of a checkpoint.
fn measured(world: &World, inputs: &PlanInputs) -> Planning<Chosen> {
    Planned::of(|parts| {
        let prepared = parts.join(prepare(world))?;
        let choice = parts.join(profiling::decide(world, &prepared, inputs))?;
        let hardware = world.spec.hardware.on(choice.engine.gpu_product.as_deref());
        let plan = plan(world, artifact(world, &prepared, &choice), (hardware, choice.level));
        let hash = plan.hash()?.short().to_owned();
        let selected = selected(&choice);
        let news = news(world, &selected, &choice.basis);
        Ok(Chosen { target: Target { hash, input_hash: inputs.to_string(), plan }, selected, news })
    })
}

/// The plan whose pods ask a server elsewhere. Nothing is resolved, built or measured.
fn elsewhere(world: &World, upstream: &Upstream, inputs: &PlanInputs) -> Planning<Chosen> {
    Planned::of(|parts| {
        accepted_by_sidecars(world)?;
        parts.add(Parts::of_found(nothing_considered()));
        let served = Served::Upstream(ServedUpstream { upstream: upstream.clone() });
        let plan = plan(world, served, (world.spec.hardware.clone(), upstream.max_in_flight));
        let hash = plan.hash()?.short().to_owned();
        let selected = SelectedConfiguration {
            display_name: upstream.display_name(),
            artifact: None,
            max_in_flight: upstream.max_in_flight,
            configuration: ServingConfiguration::default(),
            cost: None,
            why: SERVED_ELSEWHERE.to_owned(),
        };
        let news = news(world, &selected, &Basis::Unmeasured);
        Ok(Chosen { target: Target { hash, input_hash: inputs.to_string(), plan }, selected, news })
    })
}

/// Engines of an earlier spec are not under consideration any more.
fn nothing_considered() -> Found {
    let (engines, images, basis) = (Some(Vec::new()), Some(Vec::new()), Some(Basis::Unmeasured));
    Found { engines, images, basis, ..Found::default() }
}

/// What is under consideration where a spec goes back to a kept plan.
pub(super) fn considered(world: &World, plan: &RevisionPlan) -> Found {
    match &plan.served {
        Served::Upstream(_) => nothing_considered(),
        Served::Artifact(_) if world.status.profile.is_none() && world.spec.profiling.is_some() => {
            let campaign = prediction::campaign(world, plan);
            Found { basis: campaign.map(|name| Basis::Campaign(name.clone())), ..Found::default() }
        }
        Served::Artifact(_) => Found::default(),
    }
}

/// What serves what was chosen.
fn artifact(world: &World, prepared: &Prepared, choice: &Choice) -> Served {
    let BuiltEngine { reference, display_name, served_by, gpu_product: _, axes: _ } = &choice.engine;
    Served::Artifact(ServedArtifact {
        engine: PlannedEngine {
            name: reference.identity.clone(),
            manifest_digest: reference.manifest_digest.clone(),
            display_name: display_name.clone(),
            served_by: *served_by,
        },
        configuration: choice.configuration.clone(),
        triton_image: prepared.resolved.serving_image(),
        worker_image: world.settings.images.worker.clone(),
        triton_resources: world.spec.serving.triton_resources.clone(),
        preflight: prepared.preflight.clone(),
    })
}

/// The plan of what serves: on which nodes, and with so many runs in flight on one replica.
fn plan(world: &World, served: Served, (hardware, max_in_flight): (Hardware, i32)) -> RevisionPlan {
    RevisionPlan {
        layout: Layout::CURRENT,
        served,
        max_in_flight,
        agent_runtime_image: world.settings.images.agent_runtime.clone(),
        agent: world.spec.agent.clone(),
        hardware,
        agent_resources: world.spec.serving.agent_resources.clone(),
        worker_resources: Some(world.settings.jobs.worker_resources.clone()),
        authentication: world.spec.serving.authentication.as_ref().map(Authentication::without_rates),
        tracing: world.spec.serving.tracing.clone(),
        recording: world.spec.serving.recording.level,
    }
}

/// The choice as the status has it.
fn selected(choice: &Choice) -> SelectedConfiguration {
    let Choice { engine, configuration, level, why, cost, basis: _ } = choice;
    SelectedConfiguration {
        display_name: engine.display_name.clone(),
        artifact: Some(SelectedArtifact {
            engine: engine.reference.identity.clone(),
            manifest_digest: engine.reference.manifest_digest.to_string(),
        }),
        max_in_flight: *level,
        configuration: configuration.clone(),
        cost: cost.clone(),
        why: why.chars().take(512).collect(),
    }
}

/// A choice is announced if it differs, or is that of another campaign.
fn news(world: &World, selected: &SelectedConfiguration, basis: &Basis) -> Option<Note> {
    let is_known = world.status.selected.as_ref().is_some_and(|known| is_same_choice(known, selected));
    let campaign = match basis {
        Basis::Unmeasured => None,
        Basis::Campaign(name) => Some(name),
    };
    let is_told = is_known && campaign == world.status.profile.as_ref();
    let SelectedConfiguration { display_name, max_in_flight, why, .. } = selected;
    let line = || format!("{display_name}, {max_in_flight} in flight: {why}");
    (!is_told).then(|| Note::normal(Reason::ConfigurationChosen, line()))
}

/// Whether the choice is the same, whatever its message.
fn is_same_choice(a: &SelectedConfiguration, b: &SelectedConfiguration) -> bool {
    let SelectedConfiguration { display_name, artifact, max_in_flight, configuration, cost: _, why: _ } = a;
    (display_name, artifact) == (&b.display_name, &b.artifact)
        && (max_in_flight, configuration) == (&b.max_in_flight, &b.configuration)
}
