//! From an engine's identity to what its backend is told. Pure.

use slipway_backends::{
    formats::{Dtype, Parallelism},
    no_build::{ArgumentError, Features, Grammar, Lora, Request, Speculation, Structured, arguments},
};
use slipway_crds::v1alpha1::{
    EngineSpec,
    agent_deployment::{Backend, EngineDtype, NoBuildOptions, StructuredOutputsBackend, VllmFeatures},
    engine::{EngineBuild, NoBuild},
};
use slipway_worker_contract::{self as contract, Digest, InvalidDigest, paths};
use thiserror::Error;

use super::tensorrt_llm::{kv_cache, positive, precision};

/// Why an engine cannot be told what to do.
#[derive(Debug, Error)]
pub enum OrderError {
    /// The backend does not serve the precision.
    #[error("search.precision: {backend} does not serve {precision}")]
    Precision {
        /// The backend.
        backend: &'static str,
        /// The precision.
        precision: &'static str,
    },
    /// The build is of another backend.
    #[error("build.backend: {0:?} requires a build")]
    Backend(Backend),
    /// An argument contradicts a field.
    #[error("{0}")]
    Argument(ArgumentError),
    /// The digest in the identity.
    #[error("build.sourceDigest: {0}")]
    SourceDigest(InvalidDigest),
}

/// The order to the worker.
///
/// # Errors
/// [`OrderError`]: what cannot be served, or an argument against a field.
pub fn order(build: &EngineBuild, of: &NoBuild) -> Result<contract::NoBuild, OrderError> {
    let served_by = build.served_by();
    let backend = served_by.no_build().ok_or(OrderError::Backend(build.backend))?;
    let unserved = OrderError::Precision { backend: build.backend.as_str(), precision: build.precision.as_str() };
    let NoBuildOptions { max_seq_len, settings } = &of.options;
    let request = Request {
        backend,
        version: of.version.clone(),
        model: served_by.model().to_owned(),
        checkpoint: format!("{}/{}", paths::ENGINE_DIR, paths::CHECKPOINT),
        precision: precision(build.precision).ok_or(unserved)?,
        is_quantized_at_load: of.quantized_at_load,
        dtype: settings.dtype.map(|dtype| match dtype {
            EngineDtype::Float16 => Dtype::Float16,
            EngineDtype::Bfloat16 => Dtype::Bfloat16,
        }),
        kv_cache: kv_cache(of.kv_cache_precision),
        parallelism: Parallelism { tensor: positive(of.tensor_parallel), pipeline: positive(of.pipeline_parallel) },
        max_seq_len: positive(*max_seq_len),
        max_batch_size: positive(of.max_batch_size),
        max_num_tokens: positive(of.max_num_tokens),
        memory_ppm: of.memory.parts_per_million(),
        prefix_caching: settings.prefix_caching,
        chunked_prefill: settings.chunked_prefill,
        features: features(&of.features),
        extra: settings.extra_args.clone(),
    };
    Ok(contract::NoBuild {
        backend,
        version: of.version.clone(),
        checkpoint: build.source_digest.parse::<Digest>().map_err(OrderError::SourceDigest)?,
        arguments: arguments(&request).map_err(OrderError::Argument)?,
        adapter: of
            .features
            .lora
            .as_ref()
            .map(|lora| contract::Adapter { folder: lora.folder.clone(), rank: positive(lora.rank) }),
    })
}

/// The crate's words for features of the API.
pub fn features(of: &VllmFeatures) -> Features {
    Features {
        speculation: of.ngram_speculation.as_ref().map(|of| Speculation {
            tokens: positive(of.tokens),
            min_match: positive(of.min_match),
            max_match: positive(of.max_match),
        }),
        offload_gib: of.kv_offload.as_ref().map(|of| positive(of.host_memory_gib)),
        structured: of.structured_outputs.as_ref().map(|of| Structured {
            grammar: match of.backend {
                StructuredOutputsBackend::XGrammar => Grammar::XGrammar,
                StructuredOutputsBackend::Guidance => Grammar::Guidance,
                StructuredOutputsBackend::Outlines => Grammar::Outlines,
            },
            is_compact: of.compact,
        }),
        lora: of.lora.as_ref().map(|of| Lora { folder: of.folder.clone(), rank: positive(of.rank) }),
    }
}

/// The order of an Engine; none with another backend.
///
/// # Errors
/// As [`order`].
pub fn order_of(spec: &EngineSpec) -> Result<Option<contract::NoBuild>, OrderError> {
    spec.build.no_build.as_ref().map(|of| order(&spec.build, of)).transpose()
}
