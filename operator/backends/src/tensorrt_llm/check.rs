//! What TensorRT-LLM's tools cannot build, or a GPU cannot run, with the field and the remedy. Pure.
//!
//! Which architecture computes which format: NVIDIA/TensorRT-LLM docs/source/features/quantization.md at 09d4c79 and
//! docs/source/reference/support-matrix.md at 03dad62. NVFP4 engines exist for Llama and Mixtral only
//! (docs/source/legacy/reference/precision.md). What the tools make of a family: [`super::family`].
//!
//! Of quantized checkpoints the converter reads AWQ and GPTQ by itself. It keeps what they are, whatever is requested
//! (`update_quant_config_from_hf` of examples/models/core/llama/convert_checkpoint.py at 368f8f2). That folder exists
//! from 0.19 on. qwen/convert_checkpoint.py at 0df9aaf also reads GPTQ of 8 bits.
//!
//! Calibration loads the model in 16 bits beside its quantized copy: "a LLaMA 70B model with BF16 is about 140GB, [...]
//! with FP8 is about 70GB. The peak GPU memory consumption when doing FP8 quantizaton is more than 210GB"
//! (examples/models/core/llama/README.md, "FP8 Post-Training Quantization").

use super::family::{self, ModelFamily};
use super::version::{self, VersionError, find};
use crate::check::{Asked, Checkpoint, Problem, Refusal, heads, layers, memory, positions, sizes, splits};
use crate::formats::{KvCachePrecision, Parallelism, Precision};
use crate::gpu::Gpu;
use crate::memory::parameters;

/// What of a spec decides beyond [`Asked`].
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// How the checkpoint's weights are stored.
    pub checkpoint: Checkpoint,
    /// GPUs of the Job that builds; nothing if the spec does not say.
    pub gpus: Option<u32>,
}

/// Finds every reason against the request, each with its field; empty when all can be tried.
#[must_use]
pub fn check(asked: &Asked, built: &Built) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    refusals.extend(release(asked));
    refusals.extend(architecture(asked));
    refusals.extend(quantized(asked, &built.checkpoint));
    refusals.extend(
        asked
            .precisions
            .iter()
            .enumerate()
            .flat_map(|(index, precision)| formats(asked, &built.checkpoint, index, *precision)),
    );
    refusals.extend(split(asked));
    refusals.extend(asked.kv_caches.iter().enumerate().filter_map(|(index, cache)| kv_format(asked, index, *cache)));
    refusals.extend(asked.tensor.iter().enumerate().filter_map(|(index, tensor)| heads(asked, index, *tensor)));
    refusals.extend(asked.pipeline.iter().enumerate().filter_map(|(index, groups)| layers(asked, index, *groups)));
    refusals.extend(positions(asked, "engine.tensorRTLLM.maxSeqLen"));
    // Sizes of layouts that cannot exist mean nothing.
    if refusals.is_empty() {
        refusals.extend(
            asked
                .precisions
                .iter()
                .enumerate()
                .filter_map(|(index, precision)| fits(asked, &built.checkpoint, index, *precision)),
        );
        refusals.extend(calibration_memory(asked, built));
    }
    refusals
}

fn release(asked: &Asked) -> Option<Refusal> {
    let error: VersionError = find(&asked.version).err()?;
    Some(Refusal::new(version::FIELD, Problem::Version(error)))
}

fn architecture(asked: &Asked) -> Option<Refusal> {
    family::of(&asked.architecture).is_none().then(|| {
        let architecture = asked.architecture.clone();
        Refusal::new("model.uri", Problem::Architecture { architecture, known: family::architectures() })
    })
}

/// Whether the converter reads a quantized checkpoint: its method must be known, and the folder of the script that was
/// read.
fn is_converted(asked: &Asked, checkpoint: &Checkpoint) -> bool {
    let is_read = match (checkpoint.method(), checkpoint.precision()) {
        (Some("awq"), Some(_)) | (Some("gptq"), Some(Precision::Int4WeightOnly)) => true,
        (Some("gptq"), Some(Precision::Int8WeightOnly)) => family::of(&asked.architecture) == Some(ModelFamily::Qwen2),
        _ => false,
    };
    let converts = family::of(&asked.architecture).is_some_and(family::converts_int8);
    is_read && converts && find(&asked.version).is_ok_and(|found| found.version.is_at_least(0, 19))
}

fn quantized(asked: &Asked, checkpoint: &Checkpoint) -> Option<Refusal> {
    let found = match checkpoint {
        Checkpoint::Plain => return None,
        Checkpoint::Quantized(precision) | Checkpoint::By { precision, .. } => precision.name(),
        Checkpoint::Unknown(method) => method,
    };
    (!is_converted(asked, checkpoint))
        .then(|| Refusal::new("model.uri", Problem::NotConverted { found: found.to_owned() }))
}

/// Splits that no script of the family makes.
fn split(asked: &Asked) -> Vec<Refusal> {
    let Some(family) = family::of(&asked.architecture) else { return Vec::new() };
    let architecture = || asked.architecture.clone();
    let place = |values: &[u32]| values.iter().position(|number| *number > 1);
    let pipeline = place(&asked.pipeline).filter(|_| !family::has_pipelines(family)).map(|index| {
        let problem = Problem::NoPipeline { architecture: architecture() };
        Refusal::new(format!("search.pipelineParallel[{index}]"), problem)
    });
    let tensor = place(&asked.tensor).filter(|_| !family::splits_layers(family)).map(|index| {
        let problem = Problem::NoSplit { architecture: architecture() };
        Refusal::new(format!("search.tensorParallel[{index}]"), problem)
    });
    pipeline.into_iter().chain(tensor).collect()
}

/// Streaming multiprocessor versions on which engines of a precision run.
fn architectures(precision: Precision) -> &'static [u32] {
    match precision {
        Precision::Fp16 => &[75, 80, 86, 89, 90, 100, 103, 120],
        Precision::Bf16 => &[80, 86, 89, 90, 100, 103, 120],
        Precision::Fp8 => &[89, 90, 100, 103, 120],
        Precision::Int8WeightOnly | Precision::Int4WeightOnly | Precision::Int8SmoothQuant | Precision::Int4Awq => {
            &[80, 86, 89, 90]
        }
        Precision::W4A8Awq => &[89, 90],
        Precision::Nvfp4 => &[100, 103, 120],
        // gpt-oss is served by the PyTorch flow alone.
        Precision::Mxfp4 => &[],
    }
}

fn formats(asked: &Asked, checkpoint: &Checkpoint, index: usize, precision: Precision) -> Vec<Refusal> {
    let field = format!("search.precision[{index}]");
    let mut refusals = Vec::new();
    if let Some(found) = checkpoint.precision().filter(|found| *found != precision && is_converted(asked, checkpoint)) {
        refusals.push(Refusal::new(&field, Problem::KeepsQuantization { found: found.name() }));
    }
    if !runs(precision, asked.gpu) {
        let others = Precision::ALL.into_iter().filter(|other| runs(*other, asked.gpu));
        let problem = Problem::Precision {
            precision: precision.name(),
            gpu: asked.gpu.name,
            sm: asked.gpu.sm,
            others: others.map(Precision::name).collect::<Vec<_>>().join(", "),
        };
        refusals.push(Refusal::new(&field, problem));
    }
    let is_mistral = asked.architecture == "MistralForCausalLM";
    if precision == Precision::Nvfp4 && is_mistral {
        refusals.push(Refusal::new(&field, Problem::Nvfp4Model { architecture: asked.architecture.clone() }));
    }
    if precision == Precision::Nvfp4 && find(&asked.version).is_ok_and(|found| !found.version.is_at_least(0, 17)) {
        refusals.push(Refusal::new(&field, Problem::Nvfp4Version { version: asked.version.clone() }));
    }
    refusals.extend(of_family(asked, checkpoint, precision).map(|problem| Refusal::new(&field, problem)));
    if precision.needs_calibration() && !asked.has_calibration && *checkpoint == Checkpoint::Plain {
        refusals
            .push(Refusal::new("engine.tensorRTLLM.calibration", Problem::Calibration { precision: precision.name() }));
    }
    refusals
}

/// A precision that the family's tools do not make; Mistral's NVFP4 has its own words.
fn of_family(asked: &Asked, checkpoint: &Checkpoint, precision: Precision) -> Option<Problem> {
    let family = family::of(&asked.architecture).filter(|_| *checkpoint == Checkpoint::Plain)?;
    let made = family::precisions(family, &asked.architecture);
    (!made.contains(&precision)).then(|| Problem::Family {
        architecture: asked.architecture.clone(),
        precision: precision.name(),
        others: made.iter().map(|precision| precision.name()).collect::<Vec<_>>().join(", "),
    })
}

fn runs(precision: Precision, gpu: Gpu) -> bool {
    architectures(precision).contains(&gpu.sm)
}

fn kv_format(asked: &Asked, index: usize, cache: KvCachePrecision) -> Option<Refusal> {
    let is_calibrated = cache == KvCachePrecision::Auto || asked.has_calibration;
    if !is_calibrated {
        let problem = Problem::Calibration { precision: "a quantized KV cache" };
        return Some(Refusal::new("engine.tensorRTLLM.calibration", problem));
    }
    let (name, runs) = match cache {
        KvCachePrecision::Auto => return None,
        KvCachePrecision::Fp8 => ("FP8", asked.gpu.sm >= 89),
        KvCachePrecision::Int8 => ("INT8", (80..=90).contains(&asked.gpu.sm)),
    };
    (!runs).then(|| {
        let problem = Problem::KvCache { name, gpu: asked.gpu.name, sm: asked.gpu.sm };
        Refusal::new(format!("search.kvCachePrecision[{index}]"), problem)
    })
}

/// Refuses a precision that fits with none of the splits and KV caches asked for.
fn fits(asked: &Asked, checkpoint: &Checkpoint, index: usize, precision: Precision) -> Option<Refusal> {
    let splits = asked
        .tensor
        .iter()
        .flat_map(|tensor| asked.pipeline.iter().map(|pipeline| Parallelism { tensor: *tensor, pipeline: *pipeline }));
    let all = splits.flat_map(|split| {
        asked.kv_caches.iter().map(move |cache| sizes(asked, checkpoint, (precision, *cache), split))
    });
    let smallest = all.min_by(|a, b| a.least().total_cmp(&b.least()))?;
    (smallest.least() > memory(asked)).then(|| {
        let problem = Problem::Memory {
            precision: precision.name(),
            sizes: smallest,
            needed: smallest.least(),
            room: "a GPU has",
            available: memory(asked),
            remedy: remedy(asked, checkpoint, precision),
        };
        Refusal::new(format!("search.precision[{index}]"), problem)
    })
}

/// The first precision whose calibration does not fit onto the build's GPUs.
fn calibration_memory(asked: &Asked, built: &Built) -> Option<Refusal> {
    let gpus = built.gpus.filter(|_| built.checkpoint == Checkpoint::Plain)?;
    let available = f64::from(gpus) * memory(asked);
    let elements = match asked.shape.parameters {
        0 => parameters(&asked.shape),
        counted => counted as f64,
    };
    let needed = |precision: Precision| elements * (16.0 + precision.weight_bits()) / 8.0;
    let calibrated = asked.precisions.iter().enumerate().filter(|(_, precision)| precision.needs_calibration());
    let (index, precision) = calibrated.into_iter().find(|(_, precision)| needed(**precision) > available)?;
    // Activations come on top, and nodes have one, two, four or eight GPUs: upstream says four of 80 GB for 210 GB.
    let enough = ((needed(*precision) / memory(asked)).ceil() as u32).next_power_of_two();
    let remedy = if enough <= asked.gpus_per_node {
        format!("set nvidia.com/gpu in serving.tritonResources to {enough} or more")
    } else {
        "choose GPUs with more memory, or a checkpoint that is quantized already".to_owned()
    };
    let problem =
        Problem::CalibrationMemory { precision: precision.name(), needed: needed(*precision), gpus, available, remedy };
    Some(Refusal::new(format!("search.precision[{index}]"), problem))
}

/// What would fit: more GPUs first, as they change no answer, then a smaller precision.
fn remedy(asked: &Asked, checkpoint: &Checkpoint, precision: Precision) -> String {
    let fits = |precision, tensor| {
        let split = Parallelism { tensor, pipeline: 1 };
        sizes(asked, checkpoint, (precision, KvCachePrecision::Auto), split).least() <= memory(asked)
    };
    let mut tensor = (1..=asked.gpus_per_node).filter(|tensor| splits(&asked.shape, *tensor));
    if let Some(tensor) = tensor.find(|tensor| fits(precision, *tensor)) {
        return format!("search.tensorParallel {tensor} fits");
    }
    let runs = Precision::ALL.into_iter().filter(|other| runs(*other, asked.gpu));
    let most = (1..=asked.gpus_per_node).rev().find(|tensor| splits(&asked.shape, *tensor)).unwrap_or(1);
    match runs.into_iter().find(|other| fits(*other, most)) {
        Some(other) => format!("search.precision {} with search.tensorParallel {most} fits", other.name()),
        None => format!("no precision of a {} fits on {most} GPUs: choose GPUs with more memory", asked.gpu.name),
    }
}

#[cfg(test)]
mod tests;
