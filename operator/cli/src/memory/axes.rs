//! The values of each axis of a build, and their combinations. Pure.

use slipway_backends::{
    formats::{KvCachePrecision, Parallelism, Precision},
    memory::Layout,
};
use slipway_crds::v1alpha1::agent_deployment::{self as api, SearchSpace};

/// The values of each axis of the build, defaults included.
pub(super) struct Axes {
    pub(super) precision: Vec<Precision>,
    pub(super) kv_cache: Vec<KvCachePrecision>,
    pub(super) tensor: Vec<u32>,
    pub(super) pipeline: Vec<u32>,
    pub(super) batch: Vec<u32>,
    pub(super) tokens: Vec<u32>,
}

impl Axes {
    /// Those of a search space.
    pub(super) fn of(search: &SearchSpace) -> Self {
        let numbers = |values: &[i32], default: i32| {
            let values = if values.is_empty() { &[default][..] } else { values };
            values.iter().map(|value| positive(*value)).collect()
        };
        let by_name =
            |precision: &api::Precision| Precision::ALL.into_iter().find(|of| of.name() == precision.as_str());
        let kv_cache = search.kv_cache_precision.iter().map(|precision| match precision {
            api::KvCachePrecision::Auto => KvCachePrecision::Auto,
            api::KvCachePrecision::FP8 => KvCachePrecision::Fp8,
            api::KvCachePrecision::INT8 => KvCachePrecision::Int8,
        });
        let kv_cache: Vec<_> = kv_cache.collect();
        Self {
            precision: search.precision.iter().filter_map(by_name).collect(),
            kv_cache: if kv_cache.is_empty() { vec![KvCachePrecision::Auto] } else { kv_cache },
            tensor: numbers(&search.tensor_parallel, 1),
            pipeline: numbers(&search.pipeline_parallel, 1),
            batch: numbers(&search.max_batch_size, SearchSpace::MAX_BATCH_SIZE),
            tokens: numbers(&search.max_num_tokens, SearchSpace::MAX_NUM_TOKENS),
        }
    }

    /// How many engines they make.
    pub(super) fn number(&self) -> usize {
        let Self { precision, kv_cache, tensor, pipeline, batch, tokens } = self;
        let sizes = [precision.len(), kv_cache.len(), tensor.len(), pipeline.len(), batch.len(), tokens.len()];
        sizes.into_iter().map(|values| values.max(1)).fold(1, usize::saturating_mul)
    }

    /// Every point with its display name, the first values first.
    pub(super) fn points(&self, max_seq_len: u32, stored: Option<Precision>) -> Vec<(String, Layout)> {
        let mut points = Vec::new();
        for precision in &self.precision {
            let layout = Layout {
                precision: *precision,
                is_as_stored: stored == Some(*precision),
                kv_cache: KvCachePrecision::Auto,
                parallelism: Parallelism::SINGLE,
                max_batch_size: 1,
                max_num_tokens: 1,
                max_seq_len,
            };
            points.push((precision.name().to_lowercase(), layout));
        }
        let points = crossed(
            points,
            &self.kv_cache,
            |of, value| Layout { kv_cache: value, ..of },
            |value| format!("-kv{}", kv_name(value)),
        );
        let tensor = |of: Layout, tensor| Layout { parallelism: Parallelism { tensor, ..of.parallelism }, ..of };
        let points = crossed(points, &self.tensor, tensor, |value| format!("-tp{value}"));
        let pipeline = |of: Layout, pipeline| Layout { parallelism: Parallelism { pipeline, ..of.parallelism }, ..of };
        let points = crossed(points, &self.pipeline, pipeline, |value| format!("-pp{value}"));
        let batch = |of, max_batch_size| Layout { max_batch_size, ..of };
        let points = crossed(points, &self.batch, batch, |value| format!("-b{value}"));
        crossed(
            points,
            &self.tokens,
            |of, max_num_tokens| Layout { max_num_tokens, ..of },
            |value| format!("-t{value}"),
        )
    }
}

const fn kv_name(precision: KvCachePrecision) -> &'static str {
    match precision {
        KvCachePrecision::Auto => "auto",
        KvCachePrecision::Fp8 => "fp8",
        KvCachePrecision::Int8 => "int8",
    }
}

/// Every point with every value of a further axis. A value that several points differ by is part of the name.
fn crossed<T: Copy>(
    points: Vec<(String, Layout)>,
    axis: &[T],
    with: impl Fn(Layout, T) -> Layout,
    named: impl Fn(T) -> String,
) -> Vec<(String, Layout)> {
    let of = |(name, layout): &(String, Layout)| {
        let point = |value: &T| {
            let part = if axis.len() > 1 { named(*value) } else { String::new() };
            (format!("{name}{part}"), with(*layout, *value))
        };
        axis.iter().map(point).collect::<Vec<_>>()
    };
    points.iter().flat_map(of).collect()
}

/// A number of the API, which its bounds keep positive.
pub(super) fn positive(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(1).max(1)
}
