//! The engines of TensorRT-LLM that a spec asks for, and why some are impossible. Pure.

use slipway_backends::{
    check::{Asked, Checkpoint},
    formats, gpu,
    tensorrt_llm::{
        check, family,
        repository::{TunableError, check_tunable},
    },
};
use slipway_crds::v1alpha1::{
    agent_deployment::{
        Backend, EngineDtype, KvCachePrecision, Precision, ResolvedModel, ResolvedShape, SearchSpace, TensorRtLlmBlock,
        TensorRtLlmEngine, TensorRtLlmOptions,
    },
    engine::{CalibrationIdentity, EngineBuild, TensorRtLlmBuild},
};

use super::axes::{self, Axes, Point, Values};
use crate::{
    agent_deployment::{
        defaults,
        resolve::Resolved,
        world::{CalibrationView, World},
    },
    engine::tensorrt_llm::{self as steps, StepsError},
    why::{Blocked, Step, Why},
};

/// Every engine that the spec asks for. Stops at an impossible one before anything is fetched or built.
pub(super) fn points(world: &World, resolved: &Resolved, engine: TensorRtLlmBlock<'_>) -> Step<Vec<Point>> {
    let refuse = |field: &str, problem: String| {
        Err(Blocked::Stopped(Why::EngineRefused { field: field.to_owned(), problem, others: 0 }))
    };
    let Some(shape) = &resolved.model.shape else { return refuse("model.uri", axes::NO_SHAPE.to_owned()) };
    let calibration = calibration(world, engine.block)?;
    let checkpoint = Checkpoint::of_word(shape.quantization.as_deref(), shape.quantization_method.as_deref());
    let base = Base { resolved, engine, shape, checkpoint: &checkpoint, calibration };
    let points: Vec<_> = Axes::of(world, shape).points(|values| base.build(values)).collect();
    if !axes::are_built(world, &points) {
        let built =
            check::Built { checkpoint: checkpoint.clone(), gpus: steps::gpus(&world.spec.serving.triton_resources) };
        axes::possible_on_all(world, |gpu| check::check(&asked(world, engine, (&resolved.model, shape), gpu), &built))?;
    }
    match unusable(world, &points) {
        None => Ok(points),
        Some(Unusable::Field(field, problem)) => refuse(&field, problem),
        Some(Unusable::Steps(error)) => Err(Blocked::Stopped(Why::EngineUnbuildable { problem: error.to_string() })),
    }
}

/// Why otherwise valid engines cannot be built or served as the spec asks.
enum Unusable {
    /// Path of the field, and the problem with its remedy.
    Field(String, String),
    /// The tools cannot make one; the error has the field.
    Steps(StepsError),
}

fn unusable(world: &World, points: &[Point]) -> Option<Unusable> {
    let field = |field: &str, problem: String| Some(Unusable::Field(field.to_owned(), problem));
    if let Some((path, problem)) = axes::too_much(world, points) {
        return field(path, problem);
    }
    let resources = &world.spec.serving.triton_resources;
    let ranks = points.iter().map(|point| point.build.gpus()).max().unwrap_or(1);
    if let Some((path, error)) = untunable(&world.spec.search) {
        return field(&path, error.to_string());
    }
    if ranks > 1 && world.spec.profiling.is_some() && !world.spec.search.parameters.is_empty() {
        let problem = "an engine split over several GPUs is loaded once, so its parameters cannot vary: remove \
                       parameters or profiling, or use engines of one GPU";
        return field("search.parameters", problem.to_owned());
    }
    if ranks > 1 && world.spec.profiling.is_some() && !world.spec.search.queue_delay_microseconds.is_empty() {
        let problem = "an engine split over several GPUs is loaded once, so its queue delay cannot vary: remove \
                       queueDelayMicroseconds or profiling, or use engines of one GPU";
        return field("search.queueDelayMicroseconds", problem.to_owned());
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

fn calibration(world: &World, engine: &TensorRtLlmEngine) -> Step<Option<CalibrationIdentity>> {
    let Some(wanted) = &engine.calibration else { return Ok(None) };
    let config_map = wanted.config_map.name.clone();
    let unusable = |problem: String| Err(Blocked::Waiting(Why::CalibrationUnusable { config_map, problem }));
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

fn asked(
    world: &World,
    TensorRtLlmBlock { version, block }: TensorRtLlmBlock<'_>,
    (model, shape): (&ResolvedModel, &ResolvedShape),
    gpu: gpu::Gpu,
) -> Asked {
    let max_seq_len = defaults::max_seq_len(block.max_seq_len, shape);
    Asked {
        has_calibration: block.calibration.is_some(),
        ..axes::asked(world, (model, shape), gpu, (version, max_seq_len))
    }
}

/// What all points share.
struct Base<'a> {
    resolved: &'a Resolved,
    engine: TensorRtLlmBlock<'a>,
    shape: &'a ResolvedShape,
    checkpoint: &'a Checkpoint,
    calibration: Option<CalibrationIdentity>,
}

impl Base<'_> {
    fn of(&self, values: Values<'_>) -> TensorRtLlmBuild {
        let Values { precision, kv_cache, tensor, pipeline, batch, tokens, product } = values;
        let TensorRtLlmBlock { version, block } = self.engine;
        let mut settings = block.options.clone();
        settings.dtype = Some(dtype(precision, settings.dtype, self.shape.dtype.as_deref()));
        let wanted = steps::precision(precision);
        // A model that an earlier release resolved names no method: its engines keep their identities.
        let is_prequantized = self.checkpoint.method().is_some() && wanted == self.checkpoint.precision();
        let needs_calibration =
            wanted.is_some_and(formats::Precision::needs_calibration) || kv_cache != KvCachePrecision::Auto;
        TensorRtLlmBuild {
            version: version.to_owned(),
            gpu_product: product.to_owned(),
            tensor_parallel: tensor,
            pipeline_parallel: pipeline,
            kv_cache_precision: kv_cache,
            max_batch_size: batch,
            max_num_tokens: tokens,
            family: family::of(&self.shape.architecture).unwrap_or_default(),
            prequantized: is_prequantized,
            calibration: self.calibration.clone().filter(|_| needs_calibration && !is_prequantized),
            options: TensorRtLlmOptions { max_seq_len: defaults::max_seq_len(block.max_seq_len, self.shape), settings },
        }
    }

    fn build(&self, values: Values<'_>) -> EngineBuild {
        EngineBuild {
            tensorrt_llm: Some(self.of(values)),
            ..axes::bare_build(self.resolved, Backend::TensorRTLLM, values.precision)
        }
    }
}

/// Data type of unquantized weights: FP16 and BF16 are their own, else the requested one, else the checkpoint's.
fn dtype(precision: Precision, asked: Option<EngineDtype>, checkpoint: Option<&str>) -> EngineDtype {
    let of_checkpoint = if checkpoint == Some("bfloat16") { EngineDtype::Bfloat16 } else { EngineDtype::Float16 };
    match precision {
        Precision::FP16 => EngineDtype::Float16,
        Precision::BF16 => EngineDtype::Bfloat16,
        _ => asked.unwrap_or(of_checkpoint),
    }
}
