//! From an engine's identity to the command lines of TensorRT-LLM's tools. Pure.

use slipway_backends::{
    formats::{self, Dtype, Parallelism},
    tensorrt_llm::{
        options::{BuildOptions, Calibration, GemmPlugin, Toggle},
        recipe::{self, Command, EngineRequest, ExtraArguments, Folders, RecipeError, Tool},
        version::{self, VersionError},
    },
};
use slipway_crds::{
    labels,
    v1alpha1::{
        EngineSpec,
        agent_deployment::{
            EngineDtype, EngineGemmPlugin, KvCachePrecision, Precision, TensorRtLlmOptions, TensorRtLlmSettings,
        },
        engine::{EngineBuild, TensorRtLlmBuild},
        shared::ContainerResources,
    },
};
use slipway_worker_contract::{self as contract, Digest, InvalidDigest, ToolStep, paths};
use thiserror::Error;

/// The resource of NVIDIA's device plugin.
pub const GPU_RESOURCE: &str = labels::GPU_RESOURCE;
/// Stands for the image's folder of examples, which the worker finds.
const EXAMPLES: &str = "examples:";

/// Why an engine has no command lines.
#[derive(Debug, Error)]
pub enum StepsError {
    /// The version.
    #[error("{0}")]
    Version(VersionError),
    /// The precision is none of TensorRT-LLM's.
    #[error("search.precision: TensorRTLLM does not build {0}")]
    Precision(&'static str),
    /// The tools cannot make it, or an argument contradicts a field.
    #[error("{0}")]
    Recipe(RecipeError),
    /// A digest in the identity.
    #[error("build.tensorRTLLM.calibration.digest: {0}")]
    Digest(InvalidDigest),
}

/// GPUs of a container, from its limits or requests.
pub fn gpus(resources: &ContainerResources) -> Option<u32> {
    let quantity = resources.limits.get(GPU_RESOURCE).or_else(|| resources.requests.get(GPU_RESOURCE))?;
    quantity.parse().ok()
}

/// The crate's word for a precision of the API.
pub fn precision(precision: Precision) -> Option<formats::Precision> {
    Some(match precision {
        Precision::FP32 | Precision::INT8 => return None,
        Precision::FP16 => formats::Precision::Fp16,
        Precision::BF16 => formats::Precision::Bf16,
        Precision::FP8 => formats::Precision::Fp8,
        Precision::INT8WeightOnly => formats::Precision::Int8WeightOnly,
        Precision::INT4WeightOnly => formats::Precision::Int4WeightOnly,
        Precision::INT8SmoothQuant => formats::Precision::Int8SmoothQuant,
        Precision::INT4AWQ => formats::Precision::Int4Awq,
        Precision::W4A8AWQ => formats::Precision::W4A8Awq,
        Precision::NVFP4 => formats::Precision::Nvfp4,
        Precision::MXFP4 => formats::Precision::Mxfp4,
    })
}

/// The crate's word for a KV cache's precision.
pub fn kv_cache(precision: KvCachePrecision) -> formats::KvCachePrecision {
    match precision {
        KvCachePrecision::Auto => formats::KvCachePrecision::Auto,
        KvCachePrecision::FP8 => formats::KvCachePrecision::Fp8,
        KvCachePrecision::INT8 => formats::KvCachePrecision::Int8,
    }
}

/// The order to the worker.
///
/// # Errors
/// [`StepsError`]: the version or the tools cannot make the engine.
pub fn order(
    build: &EngineBuild,
    of: &TensorRtLlmBuild,
    resources: &ContainerResources,
) -> Result<contract::TensorRtLlmBuild, StepsError> {
    let request = request(build.precision, of, gpus(resources).unwrap_or(1))?;
    let commands = recipe::commands(&request, &folders()).map_err(StepsError::Recipe)?;
    let digest = of.calibration.as_ref().map(|calibration| calibration.digest.parse::<Digest>()).transpose();
    Ok(contract::TensorRtLlmBuild {
        version: request.release.version.to_string(),
        tensor_parallel: request.parallelism.tensor,
        pipeline_parallel: request.parallelism.pipeline,
        steps: commands.into_iter().map(step).collect(),
        calibration: digest.map_err(StepsError::Digest)?,
        max_batch_size: positive(of.max_batch_size),
        kv_cache_reuse: of.options.settings.kv_cache_reuse,
        chunked_context: of.options.settings.chunked_context,
        entry: of.options.settings.entry,
    })
}

/// The order of an Engine; none with another backend.
///
/// # Errors
/// As [`order`].
pub fn order_of(spec: &EngineSpec) -> Result<Option<contract::TensorRtLlmBuild>, StepsError> {
    let Some(of) = &spec.build.tensorrt_llm else { return Ok(None) };
    order(&spec.build, of, &spec.placement.resources).map(Some)
}

fn request(asked: Precision, of: &TensorRtLlmBuild, gpus: u32) -> Result<EngineRequest, StepsError> {
    let precision = precision(asked).ok_or(StepsError::Precision(asked.as_str()))?;
    let settings = &of.options.settings;
    let calibration = of.calibration.as_ref().map(|calibration| Calibration {
        dataset: paths::CALIBRATION_DIR.to_owned(),
        samples: positive(calibration.samples),
        max_tokens: positive(calibration.max_tokens),
    });
    Ok(EngineRequest {
        release: version::find(&of.version).map_err(StepsError::Version)?,
        family: of.family,
        is_prequantized: of.prequantized,
        precision,
        kv_cache: kv_cache(of.kv_cache_precision),
        dtype: match settings.dtype {
            Some(EngineDtype::Bfloat16) => Dtype::Bfloat16,
            Some(EngineDtype::Float16) | None => Dtype::Float16,
        },
        parallelism: Parallelism { tensor: positive(of.tensor_parallel), pipeline: positive(of.pipeline_parallel) },
        calibration,
        build: build_options(precision, of),
        gpus,
        extra: ExtraArguments {
            convert: settings.extra_args.convert.clone(),
            quantize: settings.extra_args.quantize.clone(),
            build: settings.extra_args.build.clone(),
        },
    })
}

fn build_options(precision: formats::Precision, of: &TensorRtLlmBuild) -> BuildOptions {
    let TensorRtLlmOptions { max_seq_len, settings } = &of.options;
    let TensorRtLlmSettings {
        entry: _,
        dtype: _,
        max_input_len,
        tokens_per_block,
        paged_context_fmha,
        kv_cache_reuse: _,
        chunked_context: _,
        gemm_plugin,
        multiple_profiles,
        reduce_fusion,
        fused_mlp,
        extra_args: _,
    } = settings;
    let folders = folders();
    BuildOptions {
        gemm_plugin: gemm_plugin.map_or_else(|| recipe::gemm_plugin(precision), gemm),
        tokens_per_block: positive(*tokens_per_block),
        paged_context_fmha: toggle(*paged_context_fmha),
        max_batch_size: Some(positive(of.max_batch_size)),
        max_input_len: max_input_len.map(positive),
        max_seq_len: Some(positive(*max_seq_len)),
        max_num_tokens: Some(positive(of.max_num_tokens)),
        multiple_profiles: multiple_profiles.map(toggle),
        reduce_fusion: reduce_fusion.map(toggle),
        use_fused_mlp: fused_mlp.map(toggle),
        ..BuildOptions::new(folders.work, folders.engine)
    }
}

fn gemm(plugin: EngineGemmPlugin) -> GemmPlugin {
    match plugin {
        EngineGemmPlugin::Auto => GemmPlugin::Auto,
        EngineGemmPlugin::Float16 => GemmPlugin::Float16,
        EngineGemmPlugin::Bfloat16 => GemmPlugin::Bfloat16,
        EngineGemmPlugin::FP8 => GemmPlugin::Fp8,
        EngineGemmPlugin::Disable => GemmPlugin::Disable,
    }
}

fn toggle(is_on: bool) -> Toggle {
    if is_on { Toggle::Enable } else { Toggle::Disable }
}

fn folders() -> Folders {
    Folders {
        examples: EXAMPLES.to_owned(),
        model: paths::CHECKPOINT_DIR.to_owned(),
        work: paths::WORK_DIR.to_owned(),
        engine: format!("{}/{}", paths::OUTPUT_DIR, paths::TENSORRT_LLM_ENGINE),
    }
}

fn step(command: Command) -> ToolStep {
    let name = match command.tool {
        Tool::Convert => "convert",
        Tool::Quantize => "quantize",
        Tool::Build => "build",
    };
    let mut argv = command.argv.into_iter();
    let program = argv.next().unwrap_or_default();
    let mut rest = argv.peekable();
    let script =
        rest.peek().and_then(|first| first.strip_prefix(EXAMPLES)).map(|path| path.trim_start_matches('/').to_owned());
    let arguments = rest.skip(usize::from(script.is_some())).collect();
    ToolStep { name: name.to_owned(), program, script, arguments }
}

/// Numbers of the API are signed and bounded below by 1.
pub fn positive(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(1).max(1)
}
