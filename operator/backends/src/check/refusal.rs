//! Refusals: a field, what is wrong with it, and what to do.

use super::{Error, Estimate, GIB, VersionError};

/// Why a spec cannot work.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}{problem}", prefix(.field, .problem))]
pub struct Refusal {
    /// Path of the field in the `AgentDeployment`'s spec.
    pub field: String,
    /// What is wrong, with the remedy.
    pub problem: Problem,
}

impl Refusal {
    pub(crate) fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self { field: field.into(), problem }
    }
}

/// A version's own error names the field already.
fn prefix(field: &str, problem: &Problem) -> String {
    if matches!(problem, Problem::Version(_)) { String::new() } else { format!("{field}: ") }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Problem {
    /// The version.
    #[error("{0}")]
    Version(VersionError),
    /// No convert script.
    #[error(
        "checkpoints of {architecture} cannot be converted, only those of {known}; use backend TensorRTLLMPyTorch or VLLM, which convert nothing, or Custom"
    )]
    Architecture {
        /// The checkpoint's.
        architecture: String,
        /// What is converted.
        known: String,
    },
    /// The GPU lacks the format.
    #[error("{precision} engines do not run on {gpu} (SM{sm}); it runs {others}")]
    Precision {
        /// The precision.
        precision: &'static str,
        /// The GPU.
        gpu: &'static str,
        /// Its architecture.
        sm: u32,
        /// What it runs.
        others: String,
    },
    /// The checkpoint has another format, and nothing converts it.
    #[error(
        "the checkpoint is quantized as {found}, and {backend} does not requantize it; use {found} alone, or a \
         checkpoint that is not quantized"
    )]
    Quantized {
        /// The checkpoint's format.
        found: &'static str,
        /// The backend.
        backend: &'static str,
    },
    /// The checkpoint has a format without a name here.
    #[error(
        "the checkpoint is quantized by {method:?}, whose memory and GPU requirements are unknown; use a checkpoint in \
         FP8, AWQ, GPTQ, compressed-tensors or ModelOpt's formats, or backend Custom"
    )]
    Method {
        /// As config.json has it.
        method: String,
    },
    /// The checkpoint's files are of a method that the backend does not read.
    #[error("the checkpoint is quantized by {method}, whose files {backend} does not read; use {remedy}")]
    Files {
        /// As config.json has it.
        method: String,
        /// The backend.
        backend: &'static str,
        /// What reads them, or which checkpoint would do.
        remedy: &'static str,
    },
    /// The tools would leave the checkpoint's own quantization in an engine of another name.
    #[error(
        "the checkpoint is quantized as {found}, and TensorRT-LLM's converter keeps that whatever is asked for; use {found} alone, \
         or a checkpoint that is not quantized"
    )]
    KeepsQuantization {
        /// The checkpoint's format.
        found: &'static str,
    },
    /// The tools do not convert such a checkpoint.
    #[error(
        "the checkpoint is quantized as {found}, and TensorRT-LLM converts only AWQ and GPTQ, from 0.19.0 on; use one of \
         these, one that is not quantized, or backend TensorRTLLMPyTorch or VLLM"
    )]
    NotConverted {
        /// As resolve found it.
        found: String,
    },
    /// A family without the format.
    #[error("TensorRT-LLM's tools make no {precision} of {architecture}, only {others}; use one of these")]
    Family {
        /// The checkpoint's.
        architecture: String,
        /// The precision.
        precision: &'static str,
        /// What they make.
        others: String,
    },
    /// A family whose layers stay on one stage.
    #[error("{architecture} is not converted for pipelines; use 1, and search.tensorParallel for more GPUs")]
    NoPipeline {
        /// The checkpoint's.
        architecture: String,
    },
    /// A family whose layers stay on one GPU.
    #[error("{architecture} is not converted for several GPUs a layer; use 1")]
    NoSplit {
        /// The checkpoint's.
        architecture: String,
    },
    /// Calibration does not fit.
    #[error(
        "{precision} is made of the whole model on the build's GPUs: about {:.0} GiB for its weights and their quantized \
         copy, beside activations, and {gpus} GPUs have {:.0}; {remedy}",
        gib(*.needed), gib(*.available)
    )]
    CalibrationMemory {
        /// The precision.
        precision: &'static str,
        /// Bytes needed, over all GPUs.
        needed: f64,
        /// GPUs of the build.
        gpus: u32,
        /// Their bytes.
        available: f64,
        /// What would do.
        remedy: String,
    },
    /// Weights that do not fit before they are quantized.
    #[error(
        "{precision} is made while the model loads, whose weights in 16 bits take {:.1} GiB of each GPU before, which has \
         {:.1}; use more GPUs, or a checkpoint in {precision}",
        gib(*.needed), gib(*.available)
    )]
    LoadMemory {
        /// The precision.
        precision: &'static str,
        /// Bytes of the smallest layout asked for.
        needed: f64,
        /// Bytes of a GPU.
        available: f64,
    },
    /// An option that its version ignores.
    #[error(
        "vLLM {version} reads long prompts in pieces whatever it is told: remove chunkedPrefill, or use a version from {since} on"
    )]
    AlwaysChunked {
        /// The version.
        version: String,
        /// The first that can be told.
        since: &'static str,
    },
    /// A feature that its version does not know.
    #[error("vLLM {version} does not know it: use a version from {since} on, or remove it")]
    FeatureVersion {
        /// The version.
        version: String,
        /// The first that knows it.
        since: &'static str,
    },
    /// Matches that are shorter than they must be.
    #[error(
        "{least} tokens that must match exceed the {most} that are looked for; use at most maxMatch, or raise maxMatch"
    )]
    Matches {
        /// Fewest tokens that must match.
        least: u32,
        /// Most that are looked for.
        most: u32,
    },
    /// JSON with fixed spaces by a library that leaves them to the model.
    #[error("only XGrammar and Guidance fix the spaces of JSON; use one of them, or remove compact")]
    Compact,
    /// More of the host's memory than the container may use.
    #[error(
        "{cache} GiB of KV cache leave nothing of the {:.1} GiB in serving.tritonResources.limits.memory; raise that limit, or use \
         less: vLLM takes memory beside it",
        gib(*.limit)
    )]
    HostMemory {
        /// GiB of KV cache.
        cache: u32,
        /// Bytes that the container may use.
        limit: f64,
    },
    /// Fewer tokens than sequences.
    #[error(
        "{tokens} tokens of an iteration are fewer than the {sequences} sequences of search.maxBatchSize, each of which adds one, and \
         {product} refuses that; use {sequences} or more, or smaller batches"
    )]
    FewTokens {
        /// Tokens of an iteration, the fewest asked for.
        tokens: u32,
        /// Sequences in flight, the most asked for.
        sequences: u32,
        /// Who refuses it.
        product: &'static str,
    },
    /// The checkpoint is not quantized, and nothing quantizes it.
    #[error(
        "{backend} does not quantize, and the checkpoint is not in {precision}; use {others}, or a checkpoint in {precision}"
    )]
    Unquantized {
        /// The precision.
        precision: &'static str,
        /// The backend.
        backend: &'static str,
        /// What it serves the checkpoint in.
        others: String,
    },
    /// A KV cache that the backend lacks.
    #[error("{backend} has no KV cache in INT8; use Auto or FP8")]
    Int8KvCache {
        /// The backend.
        backend: &'static str,
    },
    /// A prompt that must be read at once and cannot.
    #[error(
        "without chunkedPrefill one iteration reads a whole prompt: {tokens} tokens are fewer than maxSeqLen {length}; \
         use {length} or more, or chunkedPrefill"
    )]
    Iteration {
        /// Tokens of an iteration.
        tokens: u32,
        /// Tokens of a sequence.
        length: u32,
    },
    /// The GPU lacks the KV cache's format.
    #[error(
        "a KV cache of {name} does not run on {gpu} (SM{sm}); FP8 needs SM89 or later, INT8 SM80 to SM90; use Auto"
    )]
    KvCache {
        /// The format.
        name: &'static str,
        /// The GPU.
        gpu: &'static str,
        /// Its architecture.
        sm: u32,
    },
    /// NVFP4 for an architecture without it.
    #[error("NVFP4 engines exist for Llama and Mixtral, not for {architecture}; use FP8")]
    Nvfp4Model {
        /// The checkpoint's.
        architecture: String,
    },
    /// NVFP4 before its time.
    #[error("NVFP4 needs engine.tensorRTLLM.version 0.17.0 or later, not {version}")]
    Nvfp4Version {
        /// The version.
        version: String,
    },
    /// Nothing to calibrate with.
    #[error(
        "{precision} needs calibration texts: name a data set (upstream downloads its default, and Jobs have no egress)"
    )]
    Calibration {
        /// The precision.
        precision: &'static str,
    },
    /// Heads that do not divide.
    #[error(
        "{heads} attention heads, {kv_heads} KV heads and an MLP of {intermediate} do not split over {tensor} GPUs; \
         possible: {possible}"
    )]
    Heads {
        /// Attention heads.
        heads: u32,
        /// Key-value heads.
        kv_heads: u32,
        /// Width of the MLP.
        intermediate: u32,
        /// GPUs a layer.
        tensor: u32,
        /// Numbers that divide.
        possible: String,
    },
    /// More GPUs than a node has.
    #[error("{tensor} GPUs are more than the {gpus} of a node; use search.pipelineParallel or fewer")]
    Node {
        /// GPUs a layer.
        tensor: u32,
        /// GPUs of a node.
        gpus: u32,
    },
    /// Layers that do not divide.
    #[error("{layers} layers do not split into {groups} equal groups; use a divisor of {layers}")]
    Layers {
        /// Layers.
        layers: u32,
        /// Groups.
        groups: u32,
    },
    /// More groups than layers.
    #[error("{layers} layers do not fill {groups} groups; use 1 to {layers}")]
    TooManyGroups {
        /// Layers.
        layers: u32,
        /// Groups.
        groups: u32,
    },
    /// Longer than the model's positions.
    #[error("{asked} tokens are not within the model's 1 to {most} positions; use {most} or less")]
    Positions {
        /// Tokens asked for.
        asked: u32,
        /// Positions of the model.
        most: u32,
    },
    /// The checkpoint does not say how long a sequence may be.
    #[error(
        "config.json does not say how many positions the model has, so {asked} tokens cannot be checked: add \
         max_position_embeddings to it, or to --shape"
    )]
    NoPositions {
        /// Tokens asked for.
        asked: u32,
    },
    /// Does not fit.
    #[error(
        "{precision} needs {:.1} GiB on each GPU for weights ({:.1}), activations ({:.1}), runtime ({:.1}) and one \
         sequence ({:.1}), and {room} {:.1}; {remedy}",
        gib(*.needed), gib(.sizes.weights), gib(.sizes.activations), gib(.sizes.runtime),
        gib(.sizes.kv_of_one_sequence), gib(*.available)
    )]
    Memory {
        /// The precision.
        precision: &'static str,
        /// Of the smallest layout asked for.
        sizes: Estimate,
        /// The least bytes with which one sequence can be served.
        needed: f64,
        /// Whose bytes are available: `a GPU has`.
        room: &'static str,
        /// Bytes of a GPU, or of the share that an engine may take.
        available: f64,
        /// What would fit.
        remedy: String,
    },
}

fn gib(bytes: f64) -> f64 {
    bytes / GIB
}
