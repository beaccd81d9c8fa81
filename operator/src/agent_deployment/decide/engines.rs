//! Step 3: an engine for each point of the build axes, and the choice among them. Pure.

use slipway_crds::{
    conditions::{ConditionType, Reason},
    identity::{IdentityError, engine_identity, engine_name},
    v1alpha1::{
        EngineStatus,
        agent_deployment::{EngineChoice, Precision, SelectedConfiguration},
        engine::{EngineArtifact, EngineBuild},
    },
};
use slipway_worker_contract::Digest;

use super::{Draft, World, build, resolve::Resolved};
use crate::{
    agent_deployment::revision::{PlannedEngine, RevisionPlan},
    plan::{Child, Note},
    why::{Step, Why},
};

/// Engines that are served before configurations are profiled say so.
const NOT_PROFILED: &str = "the first engine of search.precision that was built; configurations are not profiled yet";

/// One engine under consideration.
struct Candidate<'a> {
    name: String,
    precision: Precision,
    status: Option<&'a EngineStatus>,
}

pub(super) fn decide(
    world: &World,
    resolved: &Resolved,
    draft: &mut Draft,
) -> Result<Step<RevisionPlan>, IdentityError> {
    let mut candidates = Vec::new();
    for &precision in &world.spec.search.precision {
        let build = engine_build(resolved, precision);
        let name = engine_name(&engine_identity(&build)?);
        let status = world.engines.get(&name);
        if status.is_none() {
            draft.children.push(Child::Engine(Box::new(build::engine::engine(world, &name, build))));
        }
        candidates.push(Candidate { name, precision, status });
    }
    draft.status.engines = candidates.iter().map(choice).collect();
    let total = candidates.len();
    let unfinished = candidates.iter().find(|c| artifact(c).is_none() && failure(c).is_none());
    if let Some(unfinished) = unfinished {
        let ready = candidates.iter().filter(|c| artifact(c).is_some()).count();
        let state = format!("{} ({}): {}", unfinished.name, unfinished.precision.as_str(), state(unfinished));
        return Ok(Step::Waiting(Why::EnginesBuilding { ready, total, state }));
    }
    let Some((chosen, artifact)) = candidates.iter().find_map(|c| Some((c, artifact(c)?))) else {
        let failure = candidates.first().and_then(failure).unwrap_or_default().to_owned();
        return Ok(Step::Stopped(Why::NoEngine { total, failure }));
    };
    Ok(plan(world, resolved, chosen, artifact, draft))
}

fn engine_build(resolved: &Resolved, precision: Precision) -> EngineBuild {
    EngineBuild {
        backend: slipway_crds::v1alpha1::agent_deployment::Backend::Custom,
        source_digest: resolved.model.source_digest.clone(),
        model_commit: resolved.model.commit.clone(),
        tokenizer_digest: resolved.model.tokenizer_digest.clone(),
        builder_image_digest: resolved.builder_image_digest.clone(),
        precision,
        options: resolved.custom.options.clone(),
    }
}

fn plan(
    world: &World,
    resolved: &Resolved,
    chosen: &Candidate<'_>,
    artifact: &EngineArtifact,
    draft: &mut Draft,
) -> Step<RevisionPlan> {
    let Ok(manifest_digest) = artifact.manifest_digest.parse::<Digest>() else {
        let problem = format!("{:?} of Engine {} is no digest", artifact.manifest_digest, chosen.name);
        return Step::Stopped(Why::SpecRefused { field: "status.artifact.manifestDigest", problem });
    };
    let display_name = chosen.precision.as_str().to_lowercase();
    let max_in_flight = world.spec.search.concurrency.iter().copied().max().unwrap_or(1);
    let selected = SelectedConfiguration {
        display_name: display_name.clone(),
        engine: chosen.name.clone(),
        manifest_digest: artifact.manifest_digest.clone(),
        max_in_flight,
        why: NOT_PROFILED.to_owned(),
    };
    if draft.status.selected.as_ref() != Some(&selected) {
        draft.notes.push(Note::normal(
            Reason::ConfigurationChosen,
            format!("{display_name} ({}), {max_in_flight} in flight: {NOT_PROFILED}", chosen.name),
        ));
    }
    draft.status.selected = Some(selected);
    Step::Done(RevisionPlan {
        engine: PlannedEngine { name: chosen.name.clone(), manifest_digest, display_name },
        max_in_flight,
        triton_image: resolved.custom.triton_image.clone(),
        worker_image: world.settings.images.worker.clone(),
        agent_runtime_image: world.settings.images.agent_runtime.clone(),
        agent: world.spec.agent.clone(),
        slo: world.spec.slo.clone(),
        hardware: world.spec.hardware.clone(),
        triton_resources: world.spec.serving.triton_resources.clone(),
        agent_resources: world.spec.serving.agent_resources.clone(),
    })
}

fn artifact<'a>(candidate: &Candidate<'a>) -> Option<&'a EngineArtifact> {
    candidate.status?.artifact.as_ref()
}

fn failure<'a>(candidate: &Candidate<'a>) -> Option<&'a str> {
    let conditions = &candidate.status?.conditions;
    let stalled = conditions.iter().find(|c| c.type_ == ConditionType::Stalled.as_str() && c.status == "True")?;
    Some(&stalled.message)
}

fn state<'a>(candidate: &Candidate<'a>) -> &'a str {
    let reconciling = candidate.status.and_then(|status| {
        status.conditions.iter().find(|c| c.type_ == ConditionType::Reconciling.as_str() && c.status == "True")
    });
    reconciling.map_or("about to be built", |condition| condition.message.as_str())
}

fn choice(candidate: &Candidate<'_>) -> EngineChoice {
    let state = match (artifact(candidate), failure(candidate)) {
        (Some(artifact), _) => format!("built: {:.1} MB", artifact.size_bytes as f64 / 1e6),
        (None, Some(failure)) => format!("failed: {failure}"),
        (None, None) => state(candidate).to_owned(),
    };
    EngineChoice {
        name: candidate.name.clone(),
        precision: candidate.precision,
        state: state.chars().take(256).collect(),
    }
}
