//! Which steps make an engine of a precision. Pure.
//!
//! Conversion serves what needs no calibration by ModelOpt, so that weights are read once: plain types, weight-only
//! quantization and, with Llama's and Qwen's scripts, SmoothQuant and an INT8 KV cache. All else goes through
//! `quantize.py`. A checkpoint that is quantized already is only converted.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::extra::{ExtraError, merge};
use super::family::{self, ModelFamily};
use super::options::{
    BuildOptions, Calibration, ConvertOptions, GemmPlugin, OptionError, QuantFormat, QuantKvCache, QuantizeOptions,
    SmoothQuant, Toggle, WeightOnly,
};
use super::version::Release;
use crate::formats::{Dtype, KvCachePrecision, Parallelism, Precision};

/// What an engine is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRequest {
    /// The version and its image.
    pub release: Release,
    /// The model's family.
    pub family: ModelFamily,
    /// Whether the checkpoint is quantized already.
    pub is_prequantized: bool,
    /// Weights and activations.
    pub precision: Precision,
    /// KV cache.
    pub kv_cache: KvCachePrecision,
    /// Data type of what is not quantized; of quantized engines too.
    pub dtype: Dtype,
    /// How it is split.
    pub parallelism: Parallelism,
    /// Calibration texts, already local.
    pub calibration: Option<Calibration>,
    /// Limits, plugins and extensions; its paths and `fp8_context_fmha` are set by the recipe.
    pub build: BuildOptions,
    /// GPUs of the build Job.
    pub gpus: u32,
    /// Arguments beyond the typed ones.
    pub extra: ExtraArguments,
}

/// Arguments beyond the typed ones, per tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtraArguments {
    /// Of `convert_checkpoint.py`.
    pub convert: Vec<String>,
    /// Of `quantize.py`.
    pub quantize: Vec<String>,
    /// Of `trtllm-build`.
    pub build: Vec<String>,
}

/// Folders in the Job's containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folders {
    /// The image's examples: `/app/examples`, or `/app/tensorrt_llm/examples` in older images.
    pub examples: String,
    /// The fetched checkpoint, read-only.
    pub model: String,
    /// Scratch, with room for the converted checkpoint.
    pub work: String,
    /// Where the engine is written.
    pub engine: String,
}

/// One command of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command {
    /// Which tool it runs.
    pub tool: Tool,
    /// The whole command line, program first. It goes to `exec`, never through a shell.
    pub argv: Vec<String>,
}

/// Upstream's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tool {
    /// `convert_checkpoint.py`.
    Convert,
    /// `quantize.py`.
    Quantize,
    /// `trtllm-build`.
    Build,
}

/// Why there is no recipe.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecipeError {
    /// Options of a tool.
    #[error("engine.tensorRTLLM: {0}")]
    Options(OptionError),
    /// A user's argument.
    #[error("{0}")]
    Extra(ExtraError),
    /// The tools have no way to make it.
    #[error("search.kvCachePrecision: {kv_cache} does not go with precision {precision}: {remedy}")]
    KvCache {
        /// The KV cache's precision.
        kv_cache: &'static str,
        /// The precision.
        precision: &'static str,
        /// What goes.
        remedy: &'static str,
    },
    /// A KV cache of a checkpoint that is only converted.
    #[error("search.kvCachePrecision: of a checkpoint that is quantized already only Auto is made: use Auto")]
    KeptKvCache,
    /// The tools have no word for it.
    #[error("search.precision: TensorRT-LLM's tools make no {0}; use backend TensorRTLLMPyTorch or VLLM")]
    NoFormat(&'static str),
    /// Arguments for a tool that this precision does not use.
    #[error("engine.tensorRTLLM.extraArgs.{tool}: that tool does not make precision {precision}; remove the arguments")]
    UnusedExtra {
        /// `convert` or `quantize`.
        tool: &'static str,
        /// The precision.
        precision: &'static str,
    },
}

/// Makes the two commands of an engine: the checkpoint, then the build.
///
/// # Errors
/// The version or the tools cannot make it, or a user's argument contradicts a typed field.
pub fn commands(request: &EngineRequest, folders: &Folders) -> Result<[Command; 2], RecipeError> {
    Ok([checkpoint(request, folders)?, build(request, folders)?])
}

fn checkpoint(request: &EngineRequest, folders: &Folders) -> Result<Command, RecipeError> {
    let precision = request.precision.name();
    let unused = |tool, extra: &[String]| match extra {
        [] => Ok(()),
        _ => Err(RecipeError::UnusedExtra { tool, precision }),
    };
    if request.is_prequantized && request.kv_cache != KvCachePrecision::Auto {
        return Err(RecipeError::KeptKvCache);
    }
    let (tool, script, arguments, extra, field) = match converted(request, folders) {
        Some(options) => {
            unused("quantize", &request.extra.quantize)?;
            let script = format!(
                "{}/{}/convert_checkpoint.py",
                folders.examples,
                family::folder(request.family, &request.release)
            );
            let arguments = options.arguments().map_err(RecipeError::Options)?;
            (Tool::Convert, script, arguments, &request.extra.convert, "engine.tensorRTLLM.extraArgs.convert")
        }
        None => {
            unused("convert", &request.extra.convert)?;
            let script = format!("{}/quantization/quantize.py", folders.examples);
            let options = quantized(request, folders)?;
            let arguments = options.arguments(request.release.version).map_err(RecipeError::Options)?;
            (Tool::Quantize, script, arguments, &request.extra.quantize, "engine.tensorRTLLM.extraArgs.quantize")
        }
    };
    let arguments = merge(arguments, extra, field).map_err(RecipeError::Extra)?;
    let argv = ["python3".to_owned(), script].into_iter().chain(arguments).collect();
    Ok(Command { tool, argv })
}

/// The conversion, where one is enough.
fn converted(request: &EngineRequest, folders: &Folders) -> Option<ConvertOptions> {
    let plain = || ConvertOptions {
        family: request.family,
        parallelism: request.parallelism,
        ..ConvertOptions::new(&folders.model, checkpoint_folder(folders), dtype(request))
    };
    // The script finds out by itself what the weights are.
    if request.is_prequantized {
        return Some(plain());
    }
    let (weight_only, smooth_quant) = match request.precision {
        Precision::Fp16 | Precision::Bf16 => (None, None),
        Precision::Int8WeightOnly => (Some(WeightOnly::Int8), None),
        Precision::Int4WeightOnly => (Some(WeightOnly::Int4), None),
        Precision::Int8SmoothQuant => (None, Some(SmoothQuant { alpha: 0.5, per_token: true, per_channel: true })),
        Precision::Fp8 | Precision::Int4Awq | Precision::W4A8Awq | Precision::Nvfp4 | Precision::Mxfp4 => return None,
    };
    let int8_kv_cache = match request.kv_cache {
        KvCachePrecision::Auto => false,
        KvCachePrecision::Int8 => true,
        KvCachePrecision::Fp8 => return None,
    };
    let calibrates = int8_kv_cache || smooth_quant.is_some();
    if calibrates && !family::converts_int8(request.family) {
        return None;
    }
    Some(ConvertOptions {
        weight_only,
        smooth_quant,
        int8_kv_cache,
        calibration: request.calibration.clone().filter(|_| calibrates),
        ..plain()
    })
}

fn quantized(request: &EngineRequest, folders: &Folders) -> Result<QuantizeOptions, RecipeError> {
    let format = match request.precision {
        Precision::Fp16 | Precision::Bf16 => QuantFormat::FullPrecision,
        Precision::Fp8 => QuantFormat::Fp8,
        Precision::Int8WeightOnly => QuantFormat::Int8WeightOnly,
        Precision::Int4WeightOnly => QuantFormat::Int4WeightOnly,
        Precision::Int8SmoothQuant => QuantFormat::Int8SmoothQuant,
        Precision::Int4Awq => QuantFormat::Int4Awq,
        Precision::W4A8Awq => QuantFormat::W4A8Awq,
        Precision::Nvfp4 => QuantFormat::Nvfp4,
        Precision::Mxfp4 => return Err(RecipeError::NoFormat(request.precision.name())),
    };
    let kv_cache = match (request.kv_cache, request.precision) {
        (KvCachePrecision::Int8, Precision::Fp8 | Precision::W4A8Awq | Precision::Nvfp4) => {
            let (kv_cache, remedy) = ("INT8", "use FP8 or Auto, as its attention computes in FP8 or 16 bits");
            return Err(RecipeError::KvCache { kv_cache, precision: request.precision.name(), remedy });
        }
        (KvCachePrecision::Auto, _) => None,
        (KvCachePrecision::Int8, _) => Some(QuantKvCache::Int8),
        (KvCachePrecision::Fp8, _) => Some(QuantKvCache::Fp8),
    };
    Ok(QuantizeOptions {
        dtype: dtype(request),
        kv_cache,
        parallelism: request.parallelism,
        calibration: request.calibration.clone(),
        ..QuantizeOptions::new(&folders.model, checkpoint_folder(folders), format)
    })
}

fn dtype(request: &EngineRequest) -> Dtype {
    match request.precision {
        Precision::Fp16 => Dtype::Float16,
        Precision::Bf16 => Dtype::Bfloat16,
        _ => request.dtype,
    }
}

fn build(request: &EngineRequest, folders: &Folders) -> Result<Command, RecipeError> {
    let options = BuildOptions {
        checkpoint_dir: checkpoint_folder(folders),
        output_dir: folders.engine.clone(),
        // Beside the engine it would be part of the artifact, and two builds never share timings.
        output_timing_cache: format!("{}/model.cache", folders.work),
        fp8_context_fmha: fp8_context_fmha(request),
        workers: Some(request.gpus.clamp(1, request.parallelism.ranks().max(1))),
        ..request.build.clone()
    };
    let arguments = options.arguments(request.release.version).map_err(RecipeError::Options)?;
    let field = "engine.tensorRTLLM.extraArgs.build";
    let arguments = merge(arguments, &request.extra.build, field).map_err(RecipeError::Extra)?;
    Ok(Command { tool: Tool::Build, argv: std::iter::once("trtllm-build".to_owned()).chain(arguments).collect() })
}

/// FP8 attention over prompts takes effect with FP8 activations only, and needs paged attention and an FP8 KV cache.
fn fp8_context_fmha(request: &EngineRequest) -> Toggle {
    let has_fp8 = matches!(request.precision, Precision::Fp8 | Precision::W4A8Awq | Precision::Nvfp4);
    let is_paged = request.build.paged_context_fmha == Toggle::Enable;
    let wanted = has_fp8 && is_paged && request.kv_cache == KvCachePrecision::Fp8;
    if wanted { Toggle::Enable } else { Toggle::Disable }
}

fn checkpoint_folder(folders: &Folders) -> String {
    format!("{}/checkpoint", folders.work)
}

/// The plugin for matrix multiplications that is passed where the spec names none.
///
/// Upstream advises against it for FP8, and advises several profiles with it (NVIDIA/TensorRT-LLM,
/// docs/source/performance/performance-tuning-guide/useful-build-time-flags.md, "GEMM Plugin" and "Multiple Profiles").
/// Both would change what engines of one identity are built with, so they wait for a version that no engine has yet:
/// 1.2.1 is the last. `gemmPlugin: Disable` and `multipleProfiles: true` say so today.
#[must_use]
pub fn gemm_plugin(precision: Precision) -> GemmPlugin {
    match precision {
        // TensorRT's own kernels multiply FP4 and FP8; the plugins of the same name are for small batches.
        Precision::Nvfp4 => GemmPlugin::Disable,
        _ => GemmPlugin::Auto,
    }
}
