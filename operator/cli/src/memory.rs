//! What the engines of a spec take of a GPU's memory, by the shape of the model. Pure.
//!
//! The operator plans by the same figures once it has read the model. Here they come from a config.json alone, so the
//! weights are those of the shape and not those that a checkpoint's headers count.

use serde::Serialize;
use slipway_backends::{
    check::{self, Asked, Checkpoint, GPUS_PER_NODE, MOST_ENGINES, Refusal},
    config_json::ConfigFigures,
    gpu,
    memory::{Estimate, GIB, Layout, estimate},
    no_build::{self, Features, Grammar, Lora, Room, Speculation, Structured, Unbuilt, check_no_build},
    tensorrt_llm,
};
use slipway_crds::{
    labels::{GPU_COUNT, GPU_MEMORY, GPU_PRODUCT, GPU_RESOURCE},
    v1alpha1::{
        AgentDeploymentSpec,
        agent_deployment::{
            self as api, Backend, NoBuildBlock, StructuredOutputsBackend, TensorRtLlmBlock, TensorRtLlmEngine,
            VersionedBackend, VllmFeatures,
        },
    },
};

use self::axes::{Axes, positive};
use crate::table::{counted, indented, table};

mod axes;
mod products;

/// Sequences beyond which nobody counts.
const MOST_SEQUENCES: u64 = 1_000_000;

/// Memory of the engines of a spec.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryPlan {
    /// Short name of the GPU. Absent where its label names none whose figures are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<&'static str>,
    /// Memory of one GPU.
    pub gpu_bytes: u64,
    /// Tokens of the longest sequence, prompt and answer together.
    pub sequence_tokens: u32,
    /// Engine by engine; empty where something is refused that sizes rest on.
    pub engines: Vec<EngineMemory>,
    /// Why the operator would refuse the spec once it has read the model.
    pub refusals: Vec<Refused>,
    /// The same on each further GPU model of `search.gpuProducts`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<MemoryPlan>,
}

impl MemoryPlan {
    /// Whether the operator would take it on every GPU model.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.refusals.is_empty() && self.further.iter().all(Self::is_possible)
    }
}

/// Memory of one engine on its fullest GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineMemory {
    /// Its display name, as the status will have it.
    pub engine: String,
    /// GPUs that it is split over.
    pub gpus: u32,
    /// Weights.
    pub weights_bytes: u64,
    /// Activations.
    pub activations_bytes: u64,
    /// CUDA, communicator, libraries.
    pub runtime_bytes: u64,
    /// KV cache of one sequence of full length.
    pub kv_cache_of_one_sequence_bytes: u64,
    /// The least with which one sequence is served.
    pub needed_bytes: u64,
    /// What it may take.
    pub available_bytes: u64,
    /// Sequences of full length that the KV cache holds at once.
    pub sequences: u64,
    /// Sequences that it runs together, at most.
    pub max_batch_size: u32,
}

/// Why the operator would refuse a spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Path of the field.
    pub field: String,
    /// What is wrong, with the remedy.
    pub problem: String,
}

impl Refused {
    /// A refusal of a field of the spec. Problems of versions begin with the field already.
    fn of(field: &str, problem: String) -> Self {
        let problem = problem.strip_prefix(field).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&problem);
        Self { field: format!("spec.{field}"), problem: problem.to_owned() }
    }
}

/// Whether memory can be planned for a spec: what a builder of the user's writes is unknown, and what a server
/// elsewhere has.
#[must_use]
pub fn is_planned(spec: &AgentDeploymentSpec) -> bool {
    spec.checkpoint().is_some_and(|checkpoint| checkpoint.engine.backend != Backend::Custom)
}

/// Plans the memory of every engine of a spec. None with a builder of the user's, and with a server elsewhere.
#[must_use]
pub fn memory(spec: &AgentDeploymentSpec, figures: &ConfigFigures) -> Option<MemoryPlan> {
    let spec = &completed(spec, figures);
    let products = products_of(spec);
    let names = gpu::distinct_names(&products);
    let plans = products.iter().zip(&names).filter_map(|(product, name)| {
        let suffix = if products.len() > 1 { format!("-{name}") } else { String::new() };
        memory_on(spec, figures, (product, &suffix))
    });
    products::joined(plans.collect(), &products)
}

/// The same on one GPU model, whose name ends those of its engines where there are several.
fn memory_on(
    spec: &AgentDeploymentSpec,
    figures: &ConfigFigures,
    (product, suffix): (&str, &str),
) -> Option<MemoryPlan> {
    let served = Served::of(spec, figures)?;
    let nothing = |refusals| MemoryPlan {
        gpu: None,
        gpu_bytes: 0,
        sequence_tokens: served.max_seq_len,
        engines: Vec::new(),
        refusals,
        further: Vec::new(),
    };
    let gpu = match gpu(spec, product) {
        Ok(gpu) => gpu,
        Err(refused) => return Some(nothing(vec![refused])),
    };
    let checkpoint = figures.checkpoint();
    let asked = asked(spec, figures, (gpu, &served));
    let refusals = served.refusals(spec, &asked, &checkpoint);
    // Sizes of layouts that cannot exist mean nothing; those that do not fit are shown.
    let is_laid_out = refusals.iter().all(|refusal| is_of_size(&refusal.problem));
    let mut engines = if is_laid_out { engines(spec, &asked, (&served, &checkpoint)) } else { Vec::new() };
    engines.iter_mut().for_each(|engine| engine.engine.push_str(suffix));
    let told = refusals.iter().map(|refusal| Refused::of(&refusal.field, refusal.problem.to_string()));
    // Of the tools' versions the check has said it.
    let unreleased = unreleased(spec).filter(|_| matches!(served.by, By::NoBuild(_)));
    let refusals = unreleased.into_iter().chain(told).chain(too_much(spec)).collect();
    let gpu_bytes = bytes(check::memory(&asked));
    Some(MemoryPlan { gpu: Some(gpu.name), gpu_bytes, engines, refusals, ..nothing(Vec::new()) })
}

/// What the operator would refuse of a spec whatever its model is: a GPU that is not known, a version that has no
/// image, and GPUs that a pod lacks. Nothing of engines of the user's builder, and of a server elsewhere.
#[must_use]
pub fn refused_of_any_model(spec: &AgentDeploymentSpec) -> Vec<Refused> {
    if !is_planned(spec) {
        return Vec::new();
    }
    let spec = &with_versions(spec);
    let unknown = products_of(spec).into_iter().filter_map(|product| gpu(spec, product).err());
    unknown.chain(unreleased(spec)).chain(too_much(spec)).collect()
}

/// The GPU models of a spec; one without a name where it names none.
fn products_of(spec: &AgentDeploymentSpec) -> Vec<&str> {
    let named = spec.gpu_products();
    if named.is_empty() { vec![""] } else { named }
}

/// The figures of the GPU that a label names.
fn gpu(spec: &AgentDeploymentSpec, product: &str) -> Result<gpu::Gpu, Refused> {
    gpu::by_label(product).map_err(|error| match spec.search.gpu_products.is_empty() {
        true => {
            let field = format!("hardware.nodeSelector[{GPU_PRODUCT}]");
            Refused::of(&field, format!("{product:?} {error}, or use backend Custom"))
        }
        false => Refused::of(gpu::PRODUCTS_FIELD, format!("{product:?} {error}, or remove it")),
    })
}

/// Why the version of a backend has no image.
fn unreleased(spec: &AgentDeploymentSpec) -> Option<Refused> {
    let engine = spec.engine.as_ref()?;
    if let Some(block) = NoBuildBlock::of(engine) {
        let error = no_build::image(block.backend, block.version, block.image).err()?;
        return Some(Refused::of(&no_build::of(block.backend).field("version"), error.to_string()));
    }
    let TensorRtLlmBlock { version, .. } = TensorRtLlmBlock::of(engine)?;
    let error = tensorrt_llm::version::find(version).err()?;
    Some(Refused::of(tensorrt_llm::version::FIELD, error.to_string()))
}

/// The spec with the versions that an operator of this release takes where nothing is pinned.
fn with_versions(spec: &AgentDeploymentSpec) -> AgentDeploymentSpec {
    let mut spec = spec.clone();
    let version = |of| match of {
        VersionedBackend::NoBuild(backend) => no_build::default_version(backend),
        VersionedBackend::TensorRtLlm => tensorrt_llm::version::default().to_string(),
    };
    spec.engine = spec.engine.map(|engine| engine.completed(version));
    spec
}

/// The same, with the precision that it takes of a checkpoint where none is named.
fn completed(spec: &AgentDeploymentSpec, figures: &ConfigFigures) -> AgentDeploymentSpec {
    let mut spec = with_versions(spec);
    if spec.search.precision.is_empty() {
        // What the oldest of several GPU models computes in, all of them do.
        let sm =
            products_of(&spec).into_iter().filter_map(|product| gpu::by_label(product).ok()).map(|gpu| gpu.sm).min();
        let own = figures.checkpoint().own_precision(figures.dtype.as_deref(), sm);
        spec.search.precision.extend(api::Precision::named(own.name()));
    }
    spec
}

/// Whether a refusal says that something does not fit.
const fn is_of_size(problem: &check::Problem) -> bool {
    matches!(
        problem,
        check::Problem::Memory { .. } | check::Problem::CalibrationMemory { .. } | check::Problem::LoadMemory { .. }
    )
}

/// How engines are served, as far as memory depends on it.
struct Served<'a> {
    by: By<'a>,
    version: &'a str,
    max_seq_len: u32,
}

/// The backends' words for features of the API.
fn features(of: &VllmFeatures) -> Features {
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

fn unbuilt(block: &NoBuildBlock<'_>, spec: &AgentDeploymentSpec, checkpoint: &Checkpoint) -> Unbuilt {
    Unbuilt {
        backend: block.backend,
        checkpoint: checkpoint.clone(),
        chunked_prefill: block.options.chunked_prefill,
        memory_share: block.memory.ratio(),
        features: block.features.map(features).unwrap_or_default(),
        extra: block.options.extra_args.clone(),
        host_memory: spec.serving.triton_resources.memory_limit(),
    }
}

enum By<'a> {
    Tools(&'a TensorRtLlmEngine),
    NoBuild(NoBuildBlock<'a>),
}

impl<'a> Served<'a> {
    fn of(spec: &'a AgentDeploymentSpec, figures: &ConfigFigures) -> Option<Self> {
        let length = |asked: Option<i32>| asked.map_or_else(|| figures.max_positions.unwrap_or(0), positive);
        let engine = spec.engine.as_ref()?;
        if let Some(block) = NoBuildBlock::of(engine) {
            let max_seq_len = length(block.max_seq_len);
            return Some(Self { version: block.version, max_seq_len, by: By::NoBuild(block) });
        }
        let TensorRtLlmBlock { version, block } = TensorRtLlmBlock::of(engine)?;
        Some(Self { version, max_seq_len: length(block.max_seq_len), by: By::Tools(block) })
    }

    fn refusals(&self, spec: &AgentDeploymentSpec, asked: &Asked, checkpoint: &Checkpoint) -> Vec<Refusal> {
        match &self.by {
            By::Tools(_) => {
                let gpus = gpus_of_a_pod(spec);
                tensorrt_llm::check::check(asked, &tensorrt_llm::check::Built { checkpoint: checkpoint.clone(), gpus })
            }
            By::NoBuild(block) => check_no_build(asked, &unbuilt(block, spec, checkpoint)),
        }
    }

    fn room(&self, sizes: &Estimate, memory: f64) -> Room {
        match &self.by {
            By::Tools(_) => Room { needed: sizes.least(), available: memory, words: "a GPU has" },
            By::NoBuild(block) => (no_build::of(block.backend).room)(sizes, block.memory.ratio(), memory),
        }
    }

    fn has_calibration(&self) -> bool {
        matches!(&self.by, By::Tools(engine) if engine.calibration.is_some())
    }
}

/// What the checks read of a spec.
fn asked(spec: &AgentDeploymentSpec, figures: &ConfigFigures, (gpu, served): (gpu::Gpu, &Served<'_>)) -> Asked {
    let axes = Axes::of(&spec.search);
    let label = |name: &str| spec.hardware.node_selector.get(name).and_then(|value| value.parse::<u32>().ok());
    let least = |values: &[u32]| values.iter().copied().min().unwrap_or(1);
    Asked {
        version: served.version.to_owned(),
        architecture: figures.architecture.clone(),
        shape: figures.shape(),
        gpu,
        gpu_memory_mib: label(GPU_MEMORY),
        gpus_per_node: label(GPU_COUNT).unwrap_or(GPUS_PER_NODE),
        max_seq_len: served.max_seq_len,
        max_batch_size: least(&axes.batch),
        most_batch_size: axes.batch.iter().copied().max().unwrap_or(1),
        max_num_tokens: least(&axes.tokens),
        has_calibration: served.has_calibration(),
        precisions: axes.precision,
        kv_caches: axes.kv_cache,
        tensor: axes.tensor,
        pipeline: axes.pipeline,
    }
}

fn engines(
    spec: &AgentDeploymentSpec,
    asked: &Asked,
    (served, checkpoint): (&Served<'_>, &Checkpoint),
) -> Vec<EngineMemory> {
    let points = Axes::of(&spec.search).points(asked.max_seq_len, checkpoint.precision());
    let unbuilt = match &served.by {
        By::Tools(_) => None,
        By::NoBuild(block) => Some(unbuilt(block, spec, checkpoint)),
    };
    let sizes = |layout: &Layout| match &unbuilt {
        None => estimate(&asked.shape, layout),
        Some(unbuilt) => unbuilt.estimate(served.version, &asked.shape, layout),
    };
    let memory = |(engine, layout): (String, Layout)| engine_memory(engine, (&layout, sizes(&layout)), (asked, served));
    points.into_iter().map(memory).collect()
}

fn engine_memory(
    engine: String,
    (layout, sizes): (&Layout, Estimate),
    (asked, served): (&Asked, &Served<'_>),
) -> EngineMemory {
    let memory = check::memory(asked);
    let Room { needed, available, .. } = served.room(&sizes, memory);
    EngineMemory {
        engine,
        gpus: layout.parallelism.ranks(),
        weights_bytes: bytes(sizes.weights),
        activations_bytes: bytes(sizes.activations),
        runtime_bytes: bytes(sizes.runtime),
        kv_cache_of_one_sequence_bytes: bytes(sizes.kv_of_one_sequence),
        needed_bytes: bytes(needed),
        available_bytes: bytes(available),
        sequences: sequences(served, &sizes, memory),
        max_batch_size: layout.max_batch_size,
    }
}

/// The most sequences of full length for which there is room.
fn sequences(served: &Served<'_>, sizes: &Estimate, memory: f64) -> u64 {
    let fits = |number: u64| {
        let of_all = Estimate { kv_of_one_sequence: sizes.kv_of_one_sequence * number as f64, ..*sizes };
        let Room { needed, available, .. } = served.room(&of_all, memory);
        needed <= available
    };
    let (mut fitting, mut beyond) = (0, MOST_SEQUENCES);
    while beyond - fitting > 1 {
        let middle = fitting.midpoint(beyond);
        if fits(middle) { fitting = middle } else { beyond = middle }
    }
    fitting
}

/// More engines than a status holds, or more GPUs than a pod has.
fn too_much(spec: &AgentDeploymentSpec) -> Option<Refused> {
    let axes = Axes::of(&spec.search);
    let engines = axes.number().saturating_mul(products_of(spec).len());
    if engines > MOST_ENGINES {
        let problem = format!("{engines} engines exceed the limit of {MOST_ENGINES}: name fewer values");
        return Some(Refused::of("search", problem));
    }
    let most = |values: &[u32]| values.iter().copied().max().unwrap_or(1);
    let needed = most(&axes.tensor).saturating_mul(most(&axes.pipeline));
    gpus_of_a_pod(spec).is_none_or(|gpus| gpus < needed).then(|| {
        let problem = format!("{needed} GPUs are needed: set {GPU_RESOURCE} to {needed} or more");
        Refused::of("serving.tritonResources.limits", problem)
    })
}

fn gpus_of_a_pod(spec: &AgentDeploymentSpec) -> Option<u32> {
    let resources = &spec.serving.triton_resources;
    resources.limits.get(GPU_RESOURCE).or_else(|| resources.requests.get(GPU_RESOURCE))?.parse().ok()
}

/// Whole bytes of a figure that is not negative.
fn bytes(figure: f64) -> u64 {
    figure.max(0.0).round() as u64
}

/// A plan as a table, then what the operator would refuse.
#[must_use]
pub fn text(plan: &MemoryPlan) -> String {
    let MemoryPlan { gpu, gpu_bytes, sequence_tokens, engines, refusals, further } = plan;
    let mut text = String::new();
    if let Some(gpu) = gpu.filter(|_| !engines.is_empty()) {
        let all = gib(*gpu_bytes);
        text.push_str(&format!("memory of each GPU in GiB ({gpu}: {all}), by the shape of the model:\n"));
        let header = ["ENGINE", "WEIGHTS", "ACTIVATIONS", "KV CACHE", "NEEDED", "OF", "SEQUENCES"];
        let rows: Vec<_> = engines.iter().map(row).collect();
        text.push_str(&indented(&table(&header, &rows)));
        let runtime = engines.first().map_or(0, |of| of.runtime_bytes);
        text.push_str(&format!(
            "  KV CACHE is that of one sequence of {sequence_tokens} tokens; NEEDED includes {} of the runtime\n",
            gib(runtime)
        ));
        let is_short = |of: &&EngineMemory| (1..of.max_batch_size.into()).contains(&of.sequences);
        if let Some(first) = engines.iter().find(is_short) {
            text.push_str(&format!(
                "  {} holds {} of full length, and maxBatchSize is {}: others wait\n",
                first.engine,
                counted(first.sequences, "sequence"),
                first.max_batch_size
            ));
        }
    }
    for Refused { field, problem } in refusals {
        text.push_str(&refused_line(field, problem));
    }
    further.iter().for_each(|plan| text.push_str(&self::text(plan)));
    text
}

/// The line of one refusal.
pub(crate) fn refused_line(field: &str, problem: &str) -> String {
    format!("the operator would refuse it: {field}: {problem}\n")
}

fn row(of: &EngineMemory) -> Vec<String> {
    let figures = [
        of.weights_bytes,
        of.activations_bytes,
        of.kv_cache_of_one_sequence_bytes,
        of.needed_bytes,
        of.available_bytes,
    ];
    let gpus = if of.gpus > 1 { format!(" on {} GPUs", of.gpus) } else { String::new() };
    let sequences =
        if of.needed_bytes > of.available_bytes { "does not fit".to_owned() } else { of.sequences.to_string() };
    let figures = figures.into_iter().map(gib);
    [format!("{}{gpus}", of.engine)].into_iter().chain(figures).chain([sequences]).collect()
}

fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / GIB)
}
