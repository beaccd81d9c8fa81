//! Step 3: an engine for each point of the build axes, and the quality gate. Pure.

mod asked;
mod axes;
pub mod build;
pub(super) mod built;
mod candidate;
pub(super) mod no_build;
pub mod quality;
mod tensorrt_llm;

use std::collections::{BTreeMap, BTreeSet};

use slipway_crds::{
    conditions::ConditionType,
    identity::{IdentityError, engine_identity, engine_name},
    v1alpha1::{
        agent_deployment::{Backend, EngineChoice, EngineVariant, NoBuildBlock, Precision, TensorRtLlmBlock},
        engine::EngineBuild,
        profile::ProfiledEngine,
    },
};
use slipway_worker_contract::{Digest, EngineRef};

pub(in crate::agent_deployment) use self::axes::memory_shape;
use self::{
    axes::Point,
    built::BuiltEngine,
    candidate::{Candidate, artifact, failure},
};
use super::{
    defaults,
    parts::{Found, Halt, Parts, Planned, Planning},
    resolve::Resolved,
    world::World,
};
use crate::{
    plan::Child,
    why::{Blocked, Step, Why},
};

/// The engines of a spec.
pub(super) struct Engines {
    /// Those that may serve, in the order of preference.
    pub(super) accepted: Vec<BuiltEngine>,
    /// All that a campaign may ask for, in the order of preference; empty where all are built beforehand.
    pub(super) askable: Vec<ProfiledEngine>,
}

/// The engines that may serve, in the order of preference.
pub(super) fn decide(world: &World, resolved: &Resolved) -> Planning<Engines> {
    Planned::of(|parts| {
        let points = points(world, resolved)?;
        let mut candidates = candidates(world, points)?;
        let askable = asked::askable(world, &candidates);
        let unasked = asked::take_unasked(world, &mut candidates);
        parts.add(Parts::of_children(to_build(world, resolved, &candidates)));
        let all = candidates.iter().map(|candidate| choice(world, candidate));
        let choices: Vec<_> = all.chain(unasked.iter().map(asked::unasked)).collect();
        parts.add(Parts::of_found(Found { engines: Some(choices.clone()), ..Found::default() }));
        let built = built(world, &candidates)?;
        let accepted = parts.join(quality::decide(world, resolved, &built, choices.clone()))?;
        if accepted.is_empty() {
            let failure = "the quality gate refuses all of them".to_owned();
            return Err(Halt::stopped(Why::NoEngine { total: candidates.len(), failure }));
        }
        if !askable.is_empty() {
            let judged = parts.found.engines.clone().unwrap_or(choices);
            let offered = asked::offered(judged, &candidates, &accepted);
            parts.add(Parts::of_found(Found { engines: Some(offered), ..Found::default() }));
        }
        Ok(Engines { accepted, askable })
    })
}

/// The engines that were built, once every one was or has failed.
fn built(world: &World, candidates: &[Candidate<'_>]) -> Step<Vec<BuiltEngine>> {
    let total = candidates.len();
    let unfinished = candidates.iter().find(|c| artifact(c).is_none() && failure(c).is_none());
    if let Some(unfinished) = unfinished {
        let ready = candidates.iter().filter(|c| artifact(c).is_some()).count();
        let state = format!("{} ({}): {}", unfinished.name, unfinished.display_name, state(unfinished));
        return Err(Blocked::Waiting(Why::EnginesBuilding { ready, total, state }));
    }
    let mut built = Vec::new();
    for candidate in candidates {
        let Some(artifact) = artifact(candidate) else { continue };
        let Ok(manifest_digest) = artifact.manifest_digest.parse::<Digest>() else {
            let problem = format!("{:?} of Engine {} is not a digest", artifact.manifest_digest, candidate.name);
            return Err(Blocked::Stopped(Why::SpecRefused { field: "status.artifact.manifestDigest", problem }));
        };
        let reference = EngineRef { identity: candidate.name.clone(), manifest_digest };
        let display_name = candidate.display_name.clone();
        let axes = asked::axes(candidate);
        let gpu_product = axes::product(world, &candidate.build).map(str::to_owned);
        built.push(BuiltEngine { reference, display_name, served_by: candidate.served_by, gpu_product, axes });
    }
    if built.is_empty() {
        let failure = candidates.first().and_then(failure).unwrap_or_default().to_owned();
        return Err(Blocked::Stopped(Why::NoEngine { total, failure }));
    }
    Ok(built)
}

/// The points of the build axes, in the order of preference.
pub(super) fn points(world: &World, resolved: &Resolved) -> Step<Vec<Point>> {
    let engine = &resolved.engine;
    if let Some(block) = NoBuildBlock::of(engine) {
        return no_build::points(world, resolved, &block);
    }
    match TensorRtLlmBlock::of(engine) {
        Some(block) => tensorrt_llm::points(world, resolved, block),
        None => Ok(custom_points(world, resolved)),
    }
}

/// Every variant in every precision, the most exact precision of the first variant first.
fn custom_points(world: &World, resolved: &Resolved) -> Vec<Point> {
    let whole = EngineVariant { name: String::new(), folder: None, options: BTreeMap::new() };
    let declared = &resolved.custom.variants;
    let variants = if declared.is_empty() { std::slice::from_ref(&whole) } else { declared.as_slice() };
    let precisions = defaults::precisions(world, None);
    let of_variant = |variant: &EngineVariant| {
        let precisions = precisions.iter();
        let separator = if variant.name.is_empty() { "" } else { "-" };
        let point = |precision: &Precision| Point {
            build: engine_build(resolved, *precision, variant),
            display_name: format!("{}{separator}{}", precision.as_str().to_lowercase(), variant.name),
        };
        precisions.map(point).collect::<Vec<_>>()
    };
    variants.iter().flat_map(of_variant).collect()
}

fn candidates(world: &World, points: Vec<Point>) -> Result<Vec<Candidate<'_>>, IdentityError> {
    let mut candidates = Vec::new();
    for Point { build, display_name } in points {
        let name = engine_name(&engine_identity(&build)?);
        let (precision, served_by, status) = (build.precision, build.served_by(), world.engines.get(&name));
        candidates.push(Candidate { name, display_name, precision, served_by, build, status });
    }
    // Two variants with the same build are one engine.
    let mut seen = BTreeSet::new();
    candidates.retain(|candidate| seen.insert(candidate.name.clone()));
    Ok(candidates)
}

/// The Engines that do not exist yet.
fn to_build(world: &World, resolved: &Resolved, candidates: &[Candidate<'_>]) -> Vec<Child> {
    let missing = candidates.iter().filter(|candidate| candidate.status.is_none());
    let engine = |candidate: &Candidate<'_>| {
        let image = &resolved.custom.builder_image;
        Child::Engine(Box::new(build::engine::engine(world, &candidate.name, candidate.build.clone(), image)))
    };
    missing.map(engine).collect()
}

fn engine_build(resolved: &Resolved, precision: Precision, variant: &EngineVariant) -> EngineBuild {
    let mut options = resolved.custom.options.clone();
    options.extend(variant.options.clone());
    EngineBuild {
        backend: Backend::Custom,
        source_digest: resolved.model.source_digest.clone(),
        model_commit: resolved.model.commit.clone(),
        tokenizer_digest: resolved.model.tokenizer_digest.clone(),
        builder_image_digest: resolved.builder_image_digest.clone(),
        precision,
        variant: variant.folder.clone(),
        options,
        tensorrt_llm: None,
        no_build: None,
    }
}

fn state<'a>(candidate: &Candidate<'a>) -> &'a str {
    let reconciling = candidate.status.and_then(|status| {
        status.conditions.iter().find(|c| c.type_ == ConditionType::Reconciling.as_str() && c.status == "True")
    });
    reconciling.map_or("about to be built", |condition| condition.message.as_str())
}

fn choice(world: &World, candidate: &Candidate<'_>) -> EngineChoice {
    let state = match (artifact(candidate), failure(candidate)) {
        (Some(artifact), _) => format!("built: {:.1} MB", artifact.size_bytes as f64 / 1e6),
        (None, Some(failure)) => format!("failed: {failure}"),
        (None, None) => state(candidate).to_owned(),
    };
    let known = world.status.engines.iter().find(|known| known.name == candidate.name);
    EngineChoice {
        name: candidate.name.clone(),
        display_name: candidate.display_name.clone(),
        precision: candidate.precision,
        state: state.chars().take(256).collect(),
        quality: known.and_then(|known| known.quality.clone()),
        offer: known.and_then(|known| asked::standing(candidate, known)),
    }
}
