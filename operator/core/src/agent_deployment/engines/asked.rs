//! Engines that are built only when the search of a campaign asks for them. Pure.
//!
//! The campaign's Profile names the engines that it asks for in its status. They are built and judged like all others,
//! and `status.engines` then offers them to the campaign: by the digest of what may be measured, or not at all.

use std::collections::BTreeSet;

use slipway_crds::v1alpha1::{
    agent_deployment::{EngineBuilds, EngineChoice, EngineOffer},
    engine::EngineBuild,
    profile::{EngineAxes, ProfiledEngine},
};

use super::{
    axes::product,
    built::BuiltEngine,
    candidate::{Candidate, artifact, failure},
};
use crate::agent_deployment::world::World;

/// State of an engine that nothing asks for.
const UNASKED: &str = "not built: no measurement asks for it yet";

/// The same of one that another agent or an earlier campaign had built.
const UNASKED_BUILT: &str = "built, but no measurement asks for it yet";

fn is_asking(world: &World) -> bool {
    world.spec.profiling.as_ref().is_some_and(|profiling| profiling.engines == EngineBuilds::WhenAsked)
}

/// All engines as a campaign that asks for them names them; none where all are built beforehand.
pub(super) fn askable(world: &World, candidates: &[Candidate<'_>]) -> Vec<ProfiledEngine> {
    if !is_asking(world) {
        return Vec::new();
    }
    let engine = |candidate: &Candidate<'_>| ProfiledEngine {
        name: candidate.name.clone(),
        manifest_digest: String::new(),
        axes: Some(axes(candidate)),
        display_name: candidate.display_name.clone(),
        tensorrt_llm_ranks: candidate.served_by.ranks().map(|ranks| i32::try_from(ranks).unwrap_or(i32::MAX)),
        tensorrt_llm_entry: candidate.served_by.entry(),
        no_build: candidate.served_by.no_build(),
        gpu_product: product(world, &candidate.build).map(str::to_owned),
        expected: Vec::new(),
    };
    candidates.iter().map(engine).collect()
}

/// The point of the build axes that a candidate is.
pub(super) fn axes(candidate: &Candidate<'_>) -> EngineAxes {
    let EngineBuild { precision, tensorrt_llm, no_build, .. } = &candidate.build;
    // Variants may differ in their options alone: their names tell them apart.
    let named = candidate.display_name.strip_prefix(&precision.as_str().to_lowercase()).unwrap_or_default();
    let is_custom = tensorrt_llm.is_none() && no_build.is_none();
    let variant = if is_custom { named.trim_start_matches('-').to_owned() } else { String::new() };
    let bare = EngineAxes {
        precision: *precision,
        kv_cache_precision: None,
        tensor_parallel: None,
        pipeline_parallel: None,
        max_batch_size: None,
        max_num_tokens: None,
        variant,
    };
    match (tensorrt_llm, no_build) {
        (Some(of), _) => EngineAxes {
            kv_cache_precision: Some(of.kv_cache_precision),
            tensor_parallel: Some(of.tensor_parallel),
            pipeline_parallel: Some(of.pipeline_parallel),
            max_batch_size: Some(of.max_batch_size),
            max_num_tokens: Some(of.max_num_tokens),
            ..bare
        },
        (None, Some(of)) => EngineAxes {
            kv_cache_precision: Some(of.kv_cache_precision),
            tensor_parallel: Some(of.tensor_parallel),
            pipeline_parallel: Some(of.pipeline_parallel),
            max_batch_size: Some(of.max_batch_size),
            max_num_tokens: Some(of.max_num_tokens),
            ..bare
        },
        (None, None) => bare,
    }
}

/// Takes out the engines that nothing asks for. What stays are those that the campaigns of this plan ask for, and the
/// first that has not failed.
pub(super) fn take_unasked<'a>(world: &World, candidates: &mut Vec<Candidate<'a>>) -> Vec<Candidate<'a>> {
    if !is_asking(world) {
        return Vec::new();
    }
    let again = world.status.reprofiling.as_ref().and_then(|r| r.run.as_ref()).and_then(|run| run.profile.as_ref());
    let campaigns = world.status.profile.iter().chain(again).filter_map(|name| world.profiles.get(name));
    let asked: BTreeSet<&str> = campaigns.flat_map(|status| &status.asked).map(|asked| asked.engine.as_str()).collect();
    let first = candidates.iter().position(|candidate| failure(candidate).is_none() || artifact(candidate).is_some());
    let first = first.unwrap_or(candidates.len());
    let (kept, unasked) = std::mem::take(candidates)
        .into_iter()
        .enumerate()
        .partition::<Vec<_>, _>(|(position, candidate)| *position <= first || asked.contains(candidate.name.as_str()));
    *candidates = kept.into_iter().map(|(_, candidate)| candidate).collect();
    unasked.into_iter().map(|(_, candidate)| candidate).collect()
}

/// What is said of an engine that nothing asks for.
pub(super) fn unasked(candidate: &Candidate<'_>) -> EngineChoice {
    EngineChoice {
        name: candidate.name.clone(),
        display_name: candidate.display_name.clone(),
        precision: candidate.precision,
        state: if artifact(candidate).is_some() { UNASKED_BUILT } else { UNASKED }.to_owned(),
        quality: None,
        offer: None,
    }
}

/// An offer that stands while others are still judged.
pub(super) fn standing(candidate: &Candidate<'_>, known: &EngineChoice) -> Option<EngineOffer> {
    let digest = artifact(candidate).map(|artifact| &artifact.manifest_digest);
    // One that is built again is offered anew.
    let is_decided = digest.is_some() || failure(candidate).is_some();
    known.offer.clone().filter(|offer| is_decided && offer.manifest_digest.as_ref() == digest)
}

/// Offers every engine that has been built and judged, or has failed.
pub(super) fn offered(
    choices: Vec<EngineChoice>,
    candidates: &[Candidate<'_>],
    accepted: &[BuiltEngine],
) -> Vec<EngineChoice> {
    let offer = |choice: EngineChoice| {
        let is_decided = candidates.iter().any(|candidate| candidate.name == choice.name);
        let of = accepted.iter().find(|engine| engine.reference.identity == choice.name);
        let manifest_digest = of.map(|engine| engine.reference.manifest_digest.to_string());
        EngineChoice { offer: is_decided.then_some(EngineOffer { manifest_digest }), ..choice }
    };
    choices.into_iter().map(offer).collect()
}
