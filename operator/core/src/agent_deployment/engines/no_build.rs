//! The engines without a build that a spec asks for, and why some are impossible. Pure.

use slipway_backends::no_build::{Checkpoint, Unbuilt, check_no_build};
use slipway_crds::v1alpha1::{
    agent_deployment::{EngineDtype, NoBuildBlock, NoBuildOptions, Precision, backend_and_server},
    engine::{EngineBuild, NoBuild},
};

use super::axes::{self, Axes, Point, Values};
use crate::{
    agent_deployment::{defaults, resolve::Resolved, world::World},
    engine::no_build::{self as order, OrderError},
    why::{Blocked, Step, Why},
};

/// Every engine that the spec asks for. Stops at an impossible one before anything is fetched.
pub(super) fn points(world: &World, resolved: &Resolved, block: &NoBuildBlock<'_>) -> Step<Vec<Point>> {
    let refuse = |field: &str, problem: String| {
        Err(Blocked::Stopped(Why::EngineRefused { field: field.to_owned(), problem, others: 0 }))
    };
    let Some(shape) = &resolved.model.shape else { return refuse("model.uri", axes::NO_SHAPE.to_owned()) };
    let checkpoint = Checkpoint::of_word(shape.quantization.as_deref(), shape.quantization_method.as_deref());
    let max_seq_len = defaults::max_seq_len(block.max_seq_len, shape);
    let base = Base { resolved, block, max_seq_len, is_plain: checkpoint == Checkpoint::Plain };
    let points: Vec<_> = Axes::of(world, shape).points(|values| base.build(values)).collect();
    if !axes::are_built(world, &points) {
        let unbuilt = Unbuilt {
            backend: block.backend,
            checkpoint: checkpoint.clone(),
            chunked_prefill: block.options.chunked_prefill,
            memory_share: block.memory.ratio(),
            features: block.features.map(order::features).unwrap_or_default(),
            extra: block.options.extra_args.clone(),
            host_memory: world.spec.serving.triton_resources.memory_limit(),
        };
        axes::possible_on_all(world, |gpu| {
            let asked = axes::asked(world, (&resolved.model, shape), gpu, (block.version, max_seq_len));
            check_no_build(&asked, &unbuilt)
        })?;
    }
    if let Some((field, problem)) = axes::too_much(world, &points) {
        return refuse(field, problem);
    }
    match points.iter().find_map(|point| unservable(&point.build)) {
        Some(error) => Err(Blocked::Stopped(Why::EngineUnbuildable { problem: error.to_string() })),
        None => Ok(points),
    }
}

/// Why an engine cannot be given what the spec sets.
fn unservable(build: &EngineBuild) -> Option<OrderError> {
    let of = build.no_build.as_ref()?;
    order::order(build, of).err()
}

/// What all points share.
struct Base<'a> {
    resolved: &'a Resolved,
    block: &'a NoBuildBlock<'a>,
    max_seq_len: i32,
    /// Whether the checkpoint is not quantized.
    is_plain: bool,
}

impl Base<'_> {
    fn build(&self, values: Values<'_>) -> EngineBuild {
        let (backend, _) = backend_and_server(self.block.backend);
        EngineBuild { no_build: Some(self.of(values)), ..axes::bare_build(self.resolved, backend, values.precision) }
    }

    fn of(&self, values: Values<'_>) -> NoBuild {
        let Values { precision, kv_cache, tensor, pipeline, batch, tokens, product } = values;
        let (_, server) = backend_and_server(self.block.backend);
        let own = match precision {
            Precision::FP16 => Some(EngineDtype::Float16),
            Precision::BF16 => Some(EngineDtype::Bfloat16),
            _ => None,
        };
        let mut settings = self.block.options.clone();
        settings.dtype = own.or(settings.dtype);
        NoBuild {
            version: self.block.version.to_owned(),
            server,
            gpu_product: product.to_owned(),
            tensor_parallel: tensor,
            pipeline_parallel: pipeline,
            kv_cache_precision: kv_cache,
            max_batch_size: batch,
            max_num_tokens: tokens,
            memory: self.block.memory.clone(),
            quantized_at_load: self.is_plain && own.is_none(),
            features: self.block.features.cloned().unwrap_or_default(),
            options: NoBuildOptions { max_seq_len: self.max_seq_len, settings },
        }
    }
}
