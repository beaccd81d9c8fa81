//! The engines of TensorRT-LLM that a spec asks for, and why some cannot be. Pure.

use slipway_crds::v1alpha1::{
    agent_deployment::{
        Backend, EngineDtype, KvCachePrecision, Precision, ResolvedShape, SearchSpace, TensorRtLlmEngine,
    },
    engine::{CalibrationIdentity, EngineBuild, TensorRtLlmBuild},
};
use slipway_tensorrt_llm::{
    check::{self, Asked},
    gpu,
    memory::Shape,
    repository::{TunableError, check_tunable},
};

use super::{World, resolve::Resolved};
use crate::{
    agent_deployment::world::CalibrationView,
    engine::tensorrt_llm::{self as steps, StepsError, positive},
    why::{Step, Why},
};

/// Labels of GPU feature discovery.
pub(super) const PRODUCT_LABEL: &str = "nvidia.com/gpu.product";
const MEMORY_LABEL: &str = "nvidia.com/gpu.memory";
const COUNT_LABEL: &str = "nvidia.com/gpu.count";
/// GPUs of a node that does not say how many it has: NVIDIA's largest boards with one NVLink domain.
const GPUS_PER_NODE: u32 = 8;
/// Sequences in flight where the spec names no limit: beyond it the KV cache is what limits.
const MAX_BATCH_SIZE: i32 = 64;
/// Tokens of an iteration where the spec names no limit: upstream's default.
const MAX_NUM_TOKENS: i32 = 8192;
/// Engines that a status holds.
const MOST_ENGINES: usize = 16;

/// A point of the build axes.
pub(super) struct Point {
    pub(super) build: EngineBuild,
    pub(super) display_name: String,
}

/// Every engine that the spec asks for; stopped where one cannot be, before anything was fetched or built.
pub(super) fn points(world: &World, resolved: &Resolved, engine: &TensorRtLlmEngine) -> Step<Vec<Point>> {
    let refuse = |field: &str, problem: String| {
        Step::Stopped(Why::EngineRefused { field: field.to_owned(), problem, others: 0 })
    };
    let Some(shape) = &resolved.model.shape else {
        let problem = "status.model has no shape of it: delete the resolve Job, so that it is read again".to_owned();
        return refuse("model.uri", problem);
    };
    let calibration = match calibration(world, engine) {
        Ok(calibration) => calibration,
        Err(why) => return Step::Waiting(why),
    };
    let product = world.spec.hardware.node_selector.get(PRODUCT_LABEL).cloned().unwrap_or_default();
    let Some(gpu) = gpu::by_label(&product) else {
        let problem = format!(
            "{product:?} is no whole GPU whose figures are known ({}): name one of them, or use backend Custom",
            gpu::names()
        );
        return refuse("hardware.nodeSelector[nvidia.com/gpu.product]", problem);
    };
    let refusals = check::check(&asked(world, engine, shape, gpu));
    if let [first, others @ ..] = refusals.as_slice() {
        let (field, problem) = (first.field.clone(), first.problem.to_string());
        return Step::Stopped(Why::EngineRefused { field, problem, others: others.len() });
    }
    let base = Base { resolved, engine, shape, product: &product, calibration };
    let points = Axes::of(&world.spec.search).points(&base);
    match unusable(world, &points) {
        None => Step::Done(points),
        Some(Unusable::Field(field, problem)) => refuse(&field, problem),
        Some(Unusable::Steps(error)) => Step::Stopped(Why::EngineUnbuildable { problem: error.to_string() }),
    }
}

/// Why engines that could be cannot be built or served as the spec has it.
enum Unusable {
    /// Path of the field, and what is wrong with the remedy.
    Field(String, String),
    /// The tools cannot make one; the error has the field.
    Steps(StepsError),
}

fn unusable(world: &World, points: &[Point]) -> Option<Unusable> {
    let field = |field: &str, problem: String| Some(Unusable::Field(field.to_owned(), problem));
    if points.len() > MOST_ENGINES {
        return field("search", format!("{} engines are more than {MOST_ENGINES}: name fewer values", points.len()));
    }
    let resources = &world.spec.serving.triton_resources;
    let ranks = points.iter().map(|point| ranks(&point.build)).max().unwrap_or(1);
    if steps::gpus(resources).is_none_or(|gpus| gpus < ranks) {
        let problem = format!("{ranks} GPUs are needed: set {} to {ranks} or more", steps::GPU_RESOURCE);
        return field("serving.tritonResources.limits", problem);
    }
    if let Some((path, error)) = untunable(&world.spec.search) {
        return field(&path, error.to_string());
    }
    if ranks > 1 && world.spec.profiling.is_some() && !world.spec.search.parameters.is_empty() {
        let problem = "an engine that is split over GPUs is measured as it was loaded at the start: remove parameters or \
                       profiling, or ask for engines of one GPU";
        return field("search.parameters", problem.to_owned());
    }
    let build = |point: &Point| {
        let of = point.build.tensorrt_llm.as_ref()?;
        steps::order(&point.build, of, resources).err()
    };
    points.iter().find_map(build).map(Unusable::Steps)
}

/// The first serving parameter that an engine does not read, with its path.
fn untunable(search: &SearchSpace) -> Option<(String, TunableError)> {
    search.parameters.iter().enumerate().find_map(|(at, parameter)| {
        let error = parameter.values.iter().find_map(|value| check_tunable(&parameter.name, value).err())?;
        Some((format!("search.parameters[{at}]"), error))
    })
}

/// GPUs, and processes, of an engine.
pub(super) fn ranks(build: &EngineBuild) -> u32 {
    build.tensorrt_llm.as_ref().map_or(1, |of| positive(of.tensor_parallel) * positive(of.pipeline_parallel))
}

fn calibration(world: &World, engine: &TensorRtLlmEngine) -> Result<Option<CalibrationIdentity>, Why> {
    let Some(wanted) = &engine.calibration else { return Ok(None) };
    let unusable =
        |problem: String| Err(Why::CalibrationUnusable { config_map: wanted.config_map.name.clone(), problem });
    match &world.calibration {
        Some(CalibrationView::Texts { digest }) => Ok(Some(CalibrationIdentity {
            digest: digest.to_string(),
            samples: wanted.samples,
            max_tokens: wanted.max_tokens,
        })),
        Some(CalibrationView::Invalid { problem }) => unusable(problem.clone()),
        Some(CalibrationView::Missing) | None => {
            unusable(format!("it does not exist or has no key {}: create it", wanted.config_map.key))
        }
    }
}

fn asked(world: &World, engine: &TensorRtLlmEngine, shape: &ResolvedShape, gpu: gpu::Gpu) -> Asked {
    let axes = Axes::of(&world.spec.search);
    let label = |name: &str| world.spec.hardware.node_selector.get(name).and_then(|value| value.parse::<u32>().ok());
    let numbers = |values: &[i32]| values.iter().map(|value| positive(*value)).collect();
    let least = |values: &[i32]| values.iter().copied().min().map_or(1, positive);
    Asked {
        version: engine.version.clone(),
        architecture: shape.architecture.clone(),
        shape: memory_shape(shape),
        gpu,
        gpu_memory_mib: label(MEMORY_LABEL),
        gpus_per_node: label(COUNT_LABEL).unwrap_or(GPUS_PER_NODE),
        precisions: axes.precision.iter().filter_map(|precision| steps::precision(*precision)).collect(),
        kv_caches: axes.kv_cache.iter().map(|precision| steps::kv_cache(*precision)).collect(),
        tensor: numbers(&axes.tensor),
        pipeline: numbers(&axes.pipeline),
        max_seq_len: positive(engine.options.max_seq_len),
        max_batch_size: least(&axes.batch),
        max_num_tokens: least(&axes.tokens),
        has_calibration: engine.calibration.is_some(),
    }
}

fn memory_shape(shape: &ResolvedShape) -> Shape {
    let number = |value: i64| u32::try_from(value).unwrap_or(0);
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
    }
}

/// The values of each axis, defaults included.
struct Axes {
    precision: Vec<Precision>,
    kv_cache: Vec<KvCachePrecision>,
    tensor: Vec<i32>,
    pipeline: Vec<i32>,
    batch: Vec<i32>,
    tokens: Vec<i32>,
}

/// What all points share.
struct Base<'a> {
    resolved: &'a Resolved,
    engine: &'a TensorRtLlmEngine,
    shape: &'a ResolvedShape,
    product: &'a str,
    calibration: Option<CalibrationIdentity>,
}

impl Axes {
    fn of(search: &SearchSpace) -> Self {
        fn or<T: Copy>(values: &[T], default: T) -> Vec<T> {
            if values.is_empty() { vec![default] } else { values.to_vec() }
        }
        Self {
            precision: search.precision.clone(),
            kv_cache: or(&search.kv_cache_precision, KvCachePrecision::Auto),
            tensor: or(&search.tensor_parallel, 1),
            pipeline: or(&search.pipeline_parallel, 1),
            batch: or(&search.max_batch_size, MAX_BATCH_SIZE),
            tokens: or(&search.max_num_tokens, MAX_NUM_TOKENS),
        }
    }

    /// All combinations, the first values first.
    fn points(&self, base: &Base<'_>) -> Vec<Point> {
        let first = Values {
            precision: Precision::FP16,
            kv_cache: KvCachePrecision::Auto,
            tensor: 1,
            pipeline: 1,
            batch: MAX_BATCH_SIZE,
            tokens: MAX_NUM_TOKENS,
        };
        let points = crossed(&[first], &self.precision, |point, precision| Values { precision, ..point });
        let points = crossed(&points, &self.kv_cache, |point, kv_cache| Values { kv_cache, ..point });
        let points = crossed(&points, &self.tensor, |point, tensor| Values { tensor, ..point });
        let points = crossed(&points, &self.pipeline, |point, pipeline| Values { pipeline, ..point });
        let points = crossed(&points, &self.batch, |point, batch| Values { batch, ..point });
        let points = crossed(&points, &self.tokens, |point, tokens| Values { tokens, ..point });
        let point = |values: Values| {
            let of = base.of(values);
            let display_name = self.name(values.precision, &of);
            Point { build: base.build(values.precision, of), display_name }
        };
        points.into_iter().map(point).collect()
    }

    /// What people call an engine: its precision, and what tells it from the others.
    fn name(&self, precision: Precision, of: &TensorRtLlmBuild) -> String {
        let mut name = precision.as_str().to_lowercase();
        let parts = [
            (self.kv_cache.len(), format!("-kv{}", of.kv_cache_precision.as_str().to_lowercase())),
            (self.tensor.len(), format!("-tp{}", of.tensor_parallel)),
            (self.pipeline.len(), format!("-pp{}", of.pipeline_parallel)),
            (self.batch.len(), format!("-b{}", of.max_batch_size)),
            (self.tokens.len(), format!("-t{}", of.max_num_tokens)),
        ];
        for (_, part) in parts.iter().filter(|(values, _)| *values > 1) {
            name.push_str(part);
        }
        name
    }
}

/// One value of each axis.
#[derive(Clone, Copy)]
struct Values {
    precision: Precision,
    kv_cache: KvCachePrecision,
    tensor: i32,
    pipeline: i32,
    batch: i32,
    tokens: i32,
}

/// Every point with every value of a further axis.
fn crossed<T: Copy>(points: &[Values], axis: &[T], with: impl Fn(Values, T) -> Values) -> Vec<Values> {
    let with = &with;
    points.iter().flat_map(|point| axis.iter().map(move |value| with(*point, *value))).collect()
}

impl Base<'_> {
    fn of(&self, values: Values) -> TensorRtLlmBuild {
        let Values { precision, kv_cache, tensor, pipeline, batch, tokens } = values;
        let mut options = self.engine.options.clone();
        options.dtype = Some(dtype(precision, options.dtype, self.shape.dtype.as_deref()));
        let needs_calibration = steps::precision(precision)
            .is_some_and(slipway_tensorrt_llm::recipe::Precision::needs_calibration)
            || kv_cache != KvCachePrecision::Auto;
        TensorRtLlmBuild {
            version: self.engine.version.clone(),
            gpu_product: self.product.to_owned(),
            tensor_parallel: tensor,
            pipeline_parallel: pipeline,
            kv_cache_precision: kv_cache,
            max_batch_size: batch,
            max_num_tokens: tokens,
            calibration: self.calibration.clone().filter(|_| needs_calibration),
            options,
        }
    }

    fn build(&self, precision: Precision, of: TensorRtLlmBuild) -> EngineBuild {
        let model = &self.resolved.model;
        EngineBuild {
            backend: Backend::TensorRTLLM,
            source_digest: model.source_digest.clone(),
            model_commit: model.commit.clone(),
            tokenizer_digest: model.tokenizer_digest.clone(),
            builder_image_digest: self.resolved.builder_image_digest.clone(),
            precision,
            variant: None,
            options: std::collections::BTreeMap::new(),
            tensorrt_llm: Some(of),
        }
    }
}

/// Data type of what is not quantized: FP16 and BF16 are their own, else what is asked for, else the checkpoint's.
fn dtype(precision: Precision, asked: Option<EngineDtype>, checkpoint: Option<&str>) -> EngineDtype {
    let of_checkpoint = if checkpoint == Some("bfloat16") { EngineDtype::Bfloat16 } else { EngineDtype::Float16 };
    match precision {
        Precision::FP16 => EngineDtype::Float16,
        Precision::BF16 => EngineDtype::Bfloat16,
        _ => asked.unwrap_or(of_checkpoint),
    }
}
