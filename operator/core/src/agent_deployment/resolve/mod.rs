//! Step 1: resolves the model's reference and the images. Pure.

pub mod build;
pub mod fetch;
mod fetch_source;

use serde::Serialize;
use slipway_backends::{no_build, tensorrt_llm::version};
use slipway_crds::{
    conditions::Reason,
    identity::{ContentHash, content_hash},
    v1alpha1::{
        agent_deployment::{
            Build, Checkpoint, CustomEngine, EngineConfiguration, NoBuildBlock, ResolvedImage, ResolvedModel,
            ResolvedShape, TensorRtLlmBlock,
        },
        shared::LocalObjectReference,
    },
};
use slipway_worker_contract::{ModelShape, Outcome, ResolveResult};

use super::{
    defaults,
    job_step::JobStep,
    parts::{Found, Halt, Parts, Planned, Planning},
    world::World,
};
use crate::{
    jobs::{attempts::AttemptStep, kind::JobKind, view::JobView},
    plan::{Child, Note},
    why::{Blocked, Step, Why},
};

/// The resolved references of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// How engines are built and served, with its defaults.
    pub(super) engine: EngineConfiguration,
    pub(super) model: ResolvedModel,
    pub(super) builder_image_digest: String,
    /// The user's builder; with another backend its image builds and serves, without options.
    pub(super) custom: CustomEngine,
    /// The image that serves by digest, where that is known and it can be pulled so.
    pub(super) pinned_image: Option<String>,
}

impl Resolved {
    /// The image that serves. By digest where that is known: a tag that moves would change pods without a canary.
    pub(super) fn serving_image(&self) -> String {
        self.pinned_image.clone().unwrap_or_else(|| self.custom.triton_image.clone())
    }

    /// The image that campaigns measure with: the one that serves. Where it builds as well it is named as in the spec,
    /// as in campaigns of earlier operators, whose results stay.
    pub(super) fn measured_image(&self) -> String {
        let CustomEngine { builder_image, triton_image, .. } = &self.custom;
        if builder_image == triton_image { triton_image.clone() } else { self.serving_image() }
    }
}

/// What builds and serves an engine that has its defaults.
///
/// # Errors
/// The backend's block is missing, or its version is in no image.
pub(super) fn builder(engine: &EngineConfiguration) -> Step<CustomEngine> {
    let backend = engine.backend;
    let missing = || {
        let problem = format!("is required when engine.backend is {}", backend.as_str());
        Blocked::Stopped(Why::SpecRefused { field: backend.block(), problem })
    };
    match backend.build() {
        Build::Custom => engine.custom.clone().ok_or_else(missing),
        Build::Tools => vendor_image(&TensorRtLlmBlock::of(engine).ok_or_else(missing)?).map(vendor),
        Build::Nothing => image(&NoBuildBlock::of(engine).ok_or_else(missing)?).map(vendor),
    }
}

/// One image does both: engines run only on what they were built or checked with.
fn vendor(image: String) -> CustomEngine {
    let (options, variants) = Default::default();
    CustomEngine { builder_image: image.clone(), triton_image: image, options, variants }
}

/// The image that serves a checkpoint as it is: the one named, else the vendor's of that version.
fn image(block: &NoBuildBlock<'_>) -> Step<String> {
    let image = no_build::image(block.backend, block.version, block.image);
    image.map_err(|error| Blocked::Stopped(Why::EngineUnbuildable { problem: error.to_string() }))
}

/// The image of a version: the one named, else NVIDIA's.
fn vendor_image(TensorRtLlmBlock { version, block }: &TensorRtLlmBlock<'_>) -> Step<String> {
    let release = version::find(version);
    let release = release.map_err(|error| Blocked::Stopped(Why::EngineUnbuildable { problem: error.to_string() }))?;
    Ok(block.image.clone().unwrap_or_else(|| release.image()))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResolveInput<'a> {
    agent_deployment: &'a str,
    uri: &'a str,
    secret: Option<&'a LocalObjectReference>,
    builder_image: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    triton_image: Option<&'a str>,
}

/// What is to be resolved.
struct Asked<'a> {
    uri: &'a str,
    engine: EngineConfiguration,
    custom: CustomEngine,
    input_hash: ContentHash,
    /// Images whose digests are asked for: the builder's first.
    images: Vec<String>,
}

impl<'a> Asked<'a> {
    /// Earlier operators asked for the builder's image alone. What such a Job has resolved, or is resolving, stays
    /// while the serving image does: an upgrade starts no Job, and names that image as before.
    fn new(world: &World, checkpoint: Checkpoint<'a>, engine: EngineConfiguration) -> Result<Self, Halt> {
        let custom = builder(&engine)?;
        let CustomEngine { builder_image, triton_image, .. } = &custom;
        let hash = |triton_image| {
            content_hash(&ResolveInput {
                agent_deployment: &world.name,
                uri: checkpoint.uri,
                secret: checkpoint.secret_ref,
                builder_image,
                triton_image,
            })
        };
        let of_builder = hash(None)?;
        let is_earlier = resolve_step(of_builder.short()).recorded(world) > 0 && serves_as_named(world, triton_image);
        let other = Some(triton_image).filter(|image| *image != builder_image && !is_earlier);
        let input_hash = if other.is_some() { hash(other.map(String::as_str))? } else { of_builder };
        let images = [builder_image].into_iter().chain(other).cloned().collect();
        Ok(Self { uri: checkpoint.uri, engine, custom, input_hash, images })
    }
}

/// Whether nothing serves yet, or with this image as it is named.
fn serves_as_named(world: &World, triton_image: &str) -> bool {
    let stable = world.stable().and_then(|stable| world.revision(stable));
    let artifact = stable.and_then(|revision| revision.plan.served.artifact());
    artifact.is_none_or(|artifact| artifact.triton_image == triton_image)
}

fn resolve_step(input_hash: &str) -> JobStep<'_> {
    JobStep { kind: JobKind::Resolve, input_hash, is_single: true }
}

pub(super) fn decide(world: &World, checkpoint: Checkpoint<'_>) -> Planning<Resolved> {
    Planned::of(|parts| {
        let asked = Asked::new(world, checkpoint, defaults::engine(world, checkpoint.engine))?;
        let step = resolve_step(asked.input_hash.short());
        if let Some(resolved) = recorded(world, &step, &asked) {
            return Ok(resolved);
        }
        match parts.join(step.next(world)) {
            AttemptStep::Record(attempt) => Err(Halt::waiting(Why::JobStarting { job: step.job(attempt) })),
            AttemptStep::Create(attempt) => {
                let name = step.job_name(attempt);
                let (task, job) = build::resolve_job::resolve_job(world, &name, (checkpoint, &asked.images));
                parts.add(Parts::of_children([Child::ConfigMap(Box::new(task)), Child::Job(Box::new(job))]));
                Err(Halt::waiting(Why::JobStarting { job: step.job(attempt) }))
            }
            AttemptStep::Wait(why) => Err(Halt::waiting(why)),
            AttemptStep::GivenUp(why) => Err(Halt::stopped(why)),
            AttemptStep::Succeeded { outcome, .. } => match *outcome {
                Outcome::Resolve(result) => Ok(parts.join(record(world, &step, result, &asked))?),
                Outcome::Fetch(_)
                | Outcome::Build(_)
                | Outcome::Quality(_)
                | Outcome::Materialize(_)
                | Outcome::Sweep(_)
                | Outcome::Profile(_) => Err(Halt::stopped(foreign_result(&step, world))),
            },
        }
    })
}

/// What the status holds, if it is about the spec as it stands.
fn recorded(world: &World, step: &JobStep<'_>, asked: &Asked<'_>) -> Option<Resolved> {
    let known = |reference: &String| world.status.images.iter().find(|image| image.reference == *reference).cloned();
    let images = asked.images.iter().map(known).collect::<Option<Vec<ResolvedImage>>>()?;
    let model = world.status.model.clone().filter(|_| step.recorded(world) > 0)?;
    (model.uri == asked.uri).then(|| resolved(asked, model, &images))?
}

fn resolved(asked: &Asked<'_>, model: ResolvedModel, images: &[ResolvedImage]) -> Option<Resolved> {
    let Asked { engine, custom, .. } = asked;
    let of = |reference: &str| images.iter().find(|image| image.reference == reference);
    Some(Resolved {
        engine: engine.clone(),
        model,
        builder_image_digest: of(&custom.builder_image)?.digest.clone(),
        custom: custom.clone(),
        pinned_image: of(&custom.triton_image).and_then(|image| image.pinned.clone()),
    })
}

/// An image, as the kubelet reported it of a Job's pod.
fn seen_image(view: Option<&JobView>, reference: &str) -> Option<ResolvedImage> {
    let named = build::resolve_job::digest_in_reference(reference);
    let digest = named.or_else(|| view?.image_digests.get(reference).cloned())?;
    let pinned = view.and_then(|view| view.pinned_images.get(reference).cloned());
    Some(ResolvedImage { reference: reference.to_owned(), digest, pinned })
}

fn record(world: &World, step: &JobStep<'_>, result: ResolveResult, asked: &Asked<'_>) -> Planned<Step<Resolved>> {
    let Asked { uri, engine, .. } = asked;
    let job = step.job(step.recorded(world));
    let mut images = Vec::new();
    for reference in &asked.images {
        let Some(image) = seen_image(step.latest(world), reference) else {
            let failure = format!("the kubelet reported no digest for {reference}");
            let why = Why::JobFailed { job, class: "Infrastructure", failure, attempts: None };
            return Parts::default().with(Err(Blocked::Stopped(why)));
        };
        images.push(image);
    }
    let ResolveResult { uri: pinned_uri, commit, source_digest, tokenizer_digest, files, bytes, shape } = result;
    let model = ResolvedModel {
        uri: (*uri).to_owned(),
        pinned_uri,
        commit,
        source_digest: source_digest.to_string(),
        tokenizer_digest: tokenizer_digest.map(|digest| digest.to_string()),
        size_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        parameters: shape.as_ref().map(|shape| i64::try_from(shape.parameters).unwrap_or(i64::MAX)),
        shape: shape.as_deref().filter(|_| engine.backend.build() != Build::Custom).map(resolved_shape),
        fetched: false,
    };
    let note = Parts::of_notes([Note::normal(Reason::ModelResolved, story(&model, files))]);
    let resolved = resolved(asked, model.clone(), &images);
    let found = Found { model: Some(model), images: Some(images), ..Found::default() };
    let missing = || Blocked::Stopped(foreign_result(step, world));
    note.and(Parts::of_found(found)).with(resolved.ok_or_else(missing))
}

fn resolved_shape(shape: &ModelShape) -> ResolvedShape {
    ResolvedShape {
        architecture: shape.architecture.chars().take(128).collect(),
        layers: shape.layers.into(),
        heads: shape.heads.into(),
        key_value_heads: shape.key_value_heads.into(),
        head_dim: shape.head_dim.into(),
        hidden_size: shape.hidden_size.into(),
        // Four times the width is what models without the field have.
        intermediate_size: shape.intermediate_size.unwrap_or(shape.hidden_size.saturating_mul(4)).into(),
        experts: shape.experts.unwrap_or(1).into(),
        experts_per_token: shape.experts_per_token.unwrap_or(1).into(),
        dense_layers: shape.dense_layers.into(),
        dense_intermediate_size: shape.dense_intermediate_size.into(),
        shared_intermediate_size: shape.shared_intermediate_size.into(),
        latent_size: shape.latent_size.into(),
        vocabulary: shape.vocabulary.into(),
        tied_embeddings: shape.tied_embeddings,
        max_positions: shape.max_positions.unwrap_or(0).into(),
        dtype: shape.dtype.as_ref().map(|dtype| dtype.chars().take(32).collect()),
        quantization: shape.quantization.as_ref().map(|word| word.chars().take(64).collect()),
        quantization_method: shape.quantization_method.as_ref().map(|method| method.chars().take(64).collect()),
        parameter_bytes: i64::try_from(shape.parameter_bytes).ok().filter(|bytes| *bytes > 0),
    }
}

fn story(model: &ResolvedModel, files: u32) -> String {
    let ResolvedModel { uri, commit, source_digest, size_bytes, parameters, .. } = model;
    let at = commit.as_ref().map(|commit| format!(" at commit {commit}")).unwrap_or_default();
    let parameters = match parameters {
        Some(count) if *count > 0 => format!("{} M parameters, ", count.div_euclid(100_000) as f64 / 10.0),
        _ => String::new(),
    };
    let megabytes = *size_bytes as f64 / 1e6;
    format!(
        "{uri}{at}: {files} files, {parameters}{megabytes:.1} MB, digest {}",
        &source_digest[..12.min(source_digest.len())]
    )
}

/// A Job whose result is of another kind: operator and worker are not of one version.
pub(super) fn foreign_result(step: &JobStep<'_>, world: &World) -> Why {
    Why::JobFailed {
        job: step.job(step.recorded(world)),
        class: "ImageMismatch",
        failure: format!(
            "it reported the result of another task: check that {} is the worker of this release",
            world.settings.images.worker
        ),
        attempts: None,
    }
}
