//! The build axes of backends whose engines are planned from the checkpoint's shape: their values, their points, and
//! what all of them need. Pure.

use std::collections::BTreeMap;

use slipway_backends::{
    check::{Asked, GPUS_PER_NODE, MOST_ENGINES, Refusal},
    gpu,
    memory::Shape,
};
use slipway_crds::{
    identity::{engine_identity, engine_name},
    labels::{GPU_COUNT, GPU_MEMORY},
    v1alpha1::{
        agent_deployment::{Backend, KvCachePrecision, Precision, ResolvedModel, ResolvedShape, SearchSpace},
        engine::EngineBuild,
    },
};

use crate::{
    agent_deployment::{defaults, resolve::Resolved, world::World},
    engine::tensorrt_llm::{self as steps, positive},
    why::{Blocked, Step, Why},
};

/// Sequences in flight where the spec names no limit.
const MAX_BATCH_SIZE: i32 = SearchSpace::MAX_BATCH_SIZE;
/// Tokens of an iteration where the spec names no limit.
const MAX_NUM_TOKENS: i32 = SearchSpace::MAX_NUM_TOKENS;
/// Why a model has no points.
pub(super) const NO_SHAPE: &str = "status.model lacks the model's shape: delete the resolve Job to read it again";

/// A point of the build axes.
pub(in crate::agent_deployment) struct Point {
    pub(super) build: EngineBuild,
    pub(super) display_name: String,
}

/// The GPU models that engines are for, the preferred one first. Where the spec names none, they are for one without a
/// name.
pub(super) fn products(world: &World) -> Vec<&str> {
    let named = world.spec.gpu_products();
    if named.is_empty() { vec![""] } else { named }
}

/// The GPU model of an engine where the spec has several: elsewhere nothing says it of an engine.
pub(super) fn product<'a>(world: &World, build: &'a EngineBuild) -> Option<&'a str> {
    build.gpu_product().filter(|_| !world.spec.search.gpu_products.is_empty())
}

/// Whether every engine can exist on every GPU model, by these checks.
///
/// # Errors
/// The first refusal. It names the GPU model where others have no such problem.
pub(super) fn possible_on_all(world: &World, check: impl Fn(gpu::Gpu) -> Vec<Refusal>) -> Step<()> {
    let mut checked = Vec::new();
    for product in products(world) {
        match gpu::by_label(product) {
            Ok(gpu) => checked.push((product, check(gpu))),
            Err(error) => return unknown(world, product, &error),
        }
    }
    let refused = checked.iter().find_map(|(product, refusals)| Some((product, refusals.split_first()?)));
    let Some((product, (first, others))) = refused else { return Ok(()) };
    let problem = match checked.iter().all(|(_, refusals)| refusals.contains(first)) {
        true => first.problem.to_string(),
        false => gpu::refused_on(product, &first.problem),
    };
    Err(Blocked::Stopped(Why::EngineRefused { field: first.field.clone(), problem, others: others.len() }))
}

/// Refuses a GPU model whose figures are not known.
fn unknown(world: &World, product: &str, error: &gpu::NoWholeGpu) -> Step<()> {
    let (field, or) = match world.spec.search.gpu_products.is_empty() {
        true => ("hardware.nodeSelector[nvidia.com/gpu.product]", "use backend Custom"),
        false => (gpu::PRODUCTS_FIELD, "remove it"),
    };
    let problem = format!("{product:?} {error}, or {or}");
    Err(Blocked::Stopped(Why::EngineRefused { field: field.to_owned(), problem, others: 0 }))
}

/// Whether every engine exists. Stricter checks of a later release refuse only engines that are still to be built:
/// those that were admitted and built continue to serve.
pub(super) fn are_built(world: &World, points: &[Point]) -> bool {
    let is_built = |point: &Point| {
        let name = engine_identity(&point.build).map(|identity| engine_name(&identity));
        name.is_ok_and(|name| world.engines.get(&name).is_some_and(|status| status.artifact.is_some()))
    };
    !points.is_empty() && points.iter().all(is_built)
}

/// What the checks read of a spec, for every backend.
pub(super) fn asked(
    world: &World,
    (model, shape): (&ResolvedModel, &ResolvedShape),
    gpu: gpu::Gpu,
    (version, length): (&str, i32),
) -> Asked {
    let axes = Axes::of(world, shape);
    let label = |name: &str| world.spec.hardware.node_selector.get(name).and_then(|value| value.parse::<u32>().ok());
    let numbers = |values: &[i32]| values.iter().map(|value| positive(*value)).collect();
    let least = |values: &[i32]| values.iter().copied().min().map_or(1, positive);
    Asked {
        version: version.to_owned(),
        architecture: shape.architecture.clone(),
        shape: memory_shape(model, shape),
        gpu,
        gpu_memory_mib: label(GPU_MEMORY),
        gpus_per_node: label(GPU_COUNT).unwrap_or(GPUS_PER_NODE),
        precisions: axes.precision.iter().filter_map(|precision| steps::precision(*precision)).collect(),
        kv_caches: axes.kv_cache.iter().map(|precision| steps::kv_cache(*precision)).collect(),
        tensor: numbers(&axes.tensor),
        pipeline: numbers(&axes.pipeline),
        max_seq_len: positive(length),
        max_batch_size: least(&axes.batch),
        most_batch_size: axes.batch.iter().copied().max().map_or(1, positive),
        max_num_tokens: least(&axes.tokens),
        has_calibration: false,
    }
}

/// The shape that memory and the search's expectations are estimated of.
pub(in crate::agent_deployment) fn memory_shape(model: &ResolvedModel, shape: &ResolvedShape) -> Shape {
    let number = |value: i64| u32::try_from(value).unwrap_or(0);
    let count = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok()).unwrap_or(0);
    // Earlier releases counted weights that a repository carries twice, and recorded no bytes.
    let is_counted = shape.parameter_bytes.is_some() && shape.quantization.is_none();
    Shape {
        layers: number(shape.layers),
        heads: number(shape.heads),
        kv_heads: number(shape.key_value_heads),
        head_size: number(shape.head_dim),
        hidden: number(shape.hidden_size),
        intermediate: number(shape.intermediate_size),
        experts: number(shape.experts),
        experts_per_token: number(shape.experts_per_token),
        vocabulary: number(shape.vocabulary),
        is_tied: shape.tied_embeddings,
        max_positions: number(shape.max_positions),
        dense_layers: number(shape.dense_layers),
        dense_intermediate: number(shape.dense_intermediate_size),
        shared_intermediate: number(shape.shared_intermediate_size),
        latent: number(shape.latent_size),
        parameters: count(model.parameters.filter(|_| is_counted)),
        stored_bytes: count(shape.parameter_bytes),
    }
}

/// Why points are too many for a status, or too large for the GPUs of a pod: the field, and the problem with its
/// remedy.
pub(super) fn too_much(world: &World, points: &[Point]) -> Option<(&'static str, String)> {
    if points.len() > MOST_ENGINES {
        return Some((
            "search",
            format!("{} engines exceed the limit of {MOST_ENGINES}: name fewer values", points.len()),
        ));
    }
    let gpus = steps::gpus(&world.spec.serving.triton_resources);
    let needed = points.iter().map(|point| point.build.gpus()).max().unwrap_or(1);
    gpus.is_none_or(|gpus| gpus < needed).then(|| {
        let problem = format!("{needed} GPUs are needed: set {} to {needed} or more", steps::GPU_RESOURCE);
        ("serving.tritonResources.limits", problem)
    })
}

/// An engine of the resolved model, without what its backend adds.
pub(super) fn bare_build(resolved: &Resolved, backend: Backend, precision: Precision) -> EngineBuild {
    let model = &resolved.model;
    EngineBuild {
        backend,
        source_digest: model.source_digest.clone(),
        model_commit: model.commit.clone(),
        tokenizer_digest: model.tokenizer_digest.clone(),
        builder_image_digest: resolved.builder_image_digest.clone(),
        precision,
        variant: None,
        options: BTreeMap::new(),
        tensorrt_llm: None,
        no_build: None,
    }
}

/// The values of each axis, defaults included.
pub(super) struct Axes<'a> {
    precision: Vec<Precision>,
    kv_cache: Vec<KvCachePrecision>,
    tensor: Vec<i32>,
    pipeline: Vec<i32>,
    batch: Vec<i32>,
    tokens: Vec<i32>,
    products: Vec<&'a str>,
}

impl<'a> Axes<'a> {
    pub(super) fn of(world: &'a World, shape: &ResolvedShape) -> Self {
        let search = &world.spec.search;
        fn or<T: Copy>(values: &[T], default: T) -> Vec<T> {
            if values.is_empty() { vec![default] } else { values.to_vec() }
        }
        Self {
            precision: defaults::precisions(world, Some(shape)),
            kv_cache: or(&search.kv_cache_precision, KvCachePrecision::Auto),
            tensor: or(&search.tensor_parallel, 1),
            pipeline: or(&search.pipeline_parallel, 1),
            batch: or(&search.max_batch_size, MAX_BATCH_SIZE),
            tokens: or(&search.max_num_tokens, MAX_NUM_TOKENS),
            products: products(world),
        }
    }

    /// All combinations, the first values first.
    pub(super) fn points(&self, build: impl Fn(Values<'a>) -> EngineBuild) -> impl Iterator<Item = Point> {
        let first = Values {
            precision: Precision::FP16,
            kv_cache: KvCachePrecision::Auto,
            tensor: 1,
            pipeline: 1,
            batch: MAX_BATCH_SIZE,
            tokens: MAX_NUM_TOKENS,
            product: "",
        };
        let points = crossed(&[first], &self.precision, |point, precision| Values { precision, ..point });
        let points = crossed(&points, &self.kv_cache, |point, kv_cache| Values { kv_cache, ..point });
        let points = crossed(&points, &self.tensor, |point, tensor| Values { tensor, ..point });
        let points = crossed(&points, &self.pipeline, |point, pipeline| Values { pipeline, ..point });
        let points = crossed(&points, &self.batch, |point, batch| Values { batch, ..point });
        let points = crossed(&points, &self.tokens, |point, tokens| Values { tokens, ..point });
        let points = crossed(&points, &self.products, |point, product| Values { product, ..point });
        points.into_iter().map(move |values| Point { build: build(values), display_name: self.name(values) })
    }

    /// Display name of an engine: its precision, and what distinguishes it from the others.
    fn name(&self, of: Values<'_>) -> String {
        let mut name = of.precision.as_str().to_lowercase();
        let names = gpu::distinct_names(&self.products);
        let named =
            |product: &str| self.products.iter().zip(names).find(|(of, _)| **of == product).map(|(_, name)| name);
        let parts = [
            (self.kv_cache.len(), format!("-kv{}", of.kv_cache.as_str().to_lowercase())),
            (self.tensor.len(), format!("-tp{}", of.tensor)),
            (self.pipeline.len(), format!("-pp{}", of.pipeline)),
            (self.batch.len(), format!("-b{}", of.batch)),
            (self.tokens.len(), format!("-t{}", of.tokens)),
            (self.products.len(), format!("-{}", named(of.product).unwrap_or_default())),
        ];
        for (_, part) in parts.iter().filter(|(values, _)| *values > 1) {
            name.push_str(part);
        }
        name
    }
}

/// One value of each axis.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) precision: Precision,
    pub(super) kv_cache: KvCachePrecision,
    pub(super) tensor: i32,
    pub(super) pipeline: i32,
    pub(super) batch: i32,
    pub(super) tokens: i32,
    /// The GPU model.
    pub(super) product: &'a str,
}

/// Every point with every value of a further axis.
fn crossed<'a, T: Copy>(
    points: &[Values<'a>],
    axis: &[T],
    with: impl Fn(Values<'a>, T) -> Values<'a>,
) -> Vec<Values<'a>> {
    let with = &with;
    points.iter().flat_map(|point| axis.iter().map(move |value| with(*point, *value))).collect()
}
