//! From the model's reference to the plan that the spec asks for, one planner a step. Pure.

use slipway_crds::{
    conditions::Reason,
    v1alpha1::agent_deployment::{Authentication, SelectedConfiguration},
};

use super::{
    engines::built::BuiltEngine,
    parts::{Basis, Planned, Planning},
    prepare::{Prepared, prepare},
    profiling::{self, Choice},
    rollout::{
        approval::Chosen,
        layout::Layout,
        revision::{PlanInputs, PlannedEngine, RevisionPlan, Target},
    },
    world::World,
};
use crate::plan::Note;

/// The plan that the spec asks for.
pub(super) fn chosen(world: &World, inputs: &PlanInputs) -> Planning<Chosen> {
    Planned::of(|parts| {
        let prepared = parts.join(prepare(world))?;
        let choice = parts.join(profiling::decide(world, &prepared, inputs))?;
        let plan = plan(world, &prepared, &choice);
        let hash = plan.hash()?.short().to_owned();
        let selected = selected(&choice);
        let news = news(world, &choice, &selected);
        Ok(Chosen { target: Target { hash, input_hash: inputs.to_string(), plan }, selected, news })
    })
}

/// The plan that serves what was chosen.
fn plan(world: &World, prepared: &Prepared, choice: &Choice) -> RevisionPlan {
    let BuiltEngine { reference, display_name, served_by } = &choice.engine;
    RevisionPlan {
        layout: Layout::CURRENT,
        engine: PlannedEngine {
            name: reference.identity.clone(),
            manifest_digest: reference.manifest_digest.clone(),
            display_name: display_name.clone(),
            served_by: *served_by,
        },
        configuration: choice.configuration.clone(),
        max_in_flight: choice.level,
        triton_image: prepared.resolved.serving_image(),
        worker_image: world.settings.images.worker.clone(),
        agent_runtime_image: world.settings.images.agent_runtime.clone(),
        agent: world.spec.agent.clone(),
        hardware: world.spec.hardware.clone(),
        triton_resources: world.spec.serving.triton_resources.clone(),
        agent_resources: world.spec.serving.agent_resources.clone(),
        worker_resources: Some(world.settings.jobs.worker_resources.clone()),
        authentication: world.spec.serving.authentication.as_ref().map(Authentication::without_rates),
        tracing: world.spec.serving.tracing.clone(),
        preflight: prepared.preflight.clone(),
        recording: world.spec.serving.recording.level,
    }
}

/// The choice as the status has it.
fn selected(choice: &Choice) -> SelectedConfiguration {
    let Choice { engine, configuration, level, why, cost, basis: _ } = choice;
    SelectedConfiguration {
        display_name: engine.display_name.clone(),
        engine: engine.reference.identity.clone(),
        manifest_digest: engine.reference.manifest_digest.to_string(),
        max_in_flight: *level,
        configuration: configuration.clone(),
        cost: cost.clone(),
        why: why.chars().take(512).collect(),
    }
}

/// A choice is announced if it differs, or is that of another campaign.
fn news(world: &World, choice: &Choice, selected: &SelectedConfiguration) -> Option<Note> {
    let is_known = world.status.selected.as_ref().is_some_and(|known| is_same_choice(known, selected));
    let campaign = match &choice.basis {
        Basis::Unmeasured => None,
        Basis::Campaign(name) => Some(name),
    };
    let is_told = is_known && campaign == world.status.profile.as_ref();
    let line = || format!("{}, {} in flight: {}", choice.engine.display_name, choice.level, choice.why);
    (!is_told).then(|| Note::normal(Reason::ConfigurationChosen, line()))
}

/// Whether the choice is the same, whatever its message.
fn is_same_choice(a: &SelectedConfiguration, b: &SelectedConfiguration) -> bool {
    let SelectedConfiguration { display_name, engine, manifest_digest, max_in_flight, configuration, cost: _, why: _ } =
        a;
    (display_name, engine, manifest_digest) == (&b.display_name, &b.engine, &b.manifest_digest)
        && (max_in_flight, configuration) == (&b.max_in_flight, &b.configuration)
}
