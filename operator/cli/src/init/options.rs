//! The flags of `init`, and what is wrong with them. Pure.

use clap::Args;
use slipway_backends::{check::Checkpoint, formats, gpu, no_build, tensorrt_llm::version};
use slipway_crds::v1alpha1::agent_deployment::{Backend, Precision};
use slipway_vocabulary::gpu::{NoWholeGpu, by_label};
use thiserror::Error;

use super::{
    backend::InitBackend,
    objective::{Objective, ObjectiveError, named},
};

/// Characters of an AgentDeployment's name.
const MOST_OF_A_NAME: usize = 40;

/// Writes a first manifest.
#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Name of the AgentDeployment; the default is made of the model's.
    pub name: Option<String>,
    /// The checkpoint: hf://organization/name@revision, pvc://claim/path, or https://host/folder/.
    #[arg(long, value_name = "URI")]
    pub model: String,
    /// GPU model of the nodes, as the label nvidia.com/gpu.product has it, or a short name such as h100.
    #[arg(long, value_name = "PRODUCT")]
    pub gpu: Option<String>,
    /// GPUs of each pod; each layer is split over all of them.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub gpus: u32,
    /// What serves the model.
    #[arg(long, value_enum, default_value = "VLLM", ignore_case = true)]
    pub backend: InitBackend,
    /// Version of the backend; the default is what the operator takes and keeps.
    #[arg(long)]
    pub version: Option<String>,
    /// Numeric formats to choose from, most exact first, such as BF16,FP8; the default is the checkpoint's own.
    #[arg(long, value_delimiter = ',')]
    pub precision: Vec<String>,
    /// Tokens of the longest sequence, prompt and answer together; the default is the model's positions.
    #[arg(long, value_name = "TOKENS")]
    pub max_seq_len: Option<u32>,
    /// An objective: p95=2s for runs, METRIC:p95=2s, errorRate=1% or throughput=1.5 (runs a second). May be repeated.
    #[arg(long = "slo", value_name = "OBJECTIVE")]
    pub objectives: Vec<String>,
    /// ConfigMap with recorded runs, by which configurations are measured before one serves.
    #[arg(long, value_name = "CONFIGMAP[/KEY]")]
    pub trace: Option<String>,
    /// ConfigMap with texts that calibrate quantized engines of TensorRT-LLM.
    #[arg(long, value_name = "CONFIGMAP[/KEY]")]
    pub calibration: Option<String>,
    /// Secret whose key `token` grants access to the model.
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// Pods that serve.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub replicas: u32,
    /// Image of your own builder, with backend Custom.
    #[arg(long, value_name = "IMAGE")]
    pub builder_image: Option<String>,
    /// Image with tritonserver that serves what your builder wrote, with backend Custom.
    #[arg(long, value_name = "IMAGE")]
    pub triton_image: Option<String>,
}

/// Why flags make no manifest. Each names the flag and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InitError {
    /// The model is not a reference.
    #[error(
        "--model {0:?} is not a reference to a checkpoint: write hf://organization/name@revision, pvc://claim/path or \
         https://host/folder/"
    )]
    Model(String),
    /// The name is not valid.
    #[error(
        "NAME {0:?} names Services: write at most 40 lowercase letters, digits and dashes, beginning with a letter"
    )]
    Name(String),
    /// No name can be made of the model's.
    #[error("no name can be made of {0}: write one behind `init`")]
    Nameless(String),
    /// Backends other than Custom plan by the GPU.
    #[error(
        "--gpu is missing: backend {0} plans engines for one GPU model; `kubectl get nodes -L nvidia.com/gpu.product` shows yours"
    )]
    NoGpu(&'static str),
    /// No such GPU is known.
    #[error("--gpu {asked:?} {why}")]
    Gpu {
        /// As it was written.
        asked: String,
        /// What the name means instead.
        why: String,
    },
    /// A number is out of range.
    #[error("--{flag} {number} is out of range: write {least} to {most}")]
    Range {
        /// The flag.
        flag: &'static str,
        /// As it was written.
        number: u32,
        /// The least that is taken.
        least: u32,
        /// The most that is taken.
        most: u32,
    },
    /// The version has no image, or is out of range.
    #[error("--version {asked}: {why}")]
    Version {
        /// As it was written.
        asked: String,
        /// What would do.
        why: String,
    },
    /// A precision is none of the backend's.
    #[error("--precision {asked:?} is not one of backend {backend}: write one or more of {known}")]
    Precision {
        /// As it was written.
        asked: String,
        /// The backend.
        backend: &'static str,
        /// What it has.
        known: String,
    },
    /// A precision is named twice, or there are too many.
    #[error("--precision takes up to four different formats: {0} are too many or not different")]
    Precisions(String),
    /// TensorRT-LLM quantizes by texts.
    #[error("--precision {0} needs texts to calibrate with: name a ConfigMap with --calibration, or use BF16")]
    NoCalibration(&'static str),
    /// Nothing is calibrated.
    #[error("--calibration has no effect with backend {0}: remove it, or use backend TensorRTLLM")]
    Calibration(&'static str),
    /// An objective cannot be read.
    #[error("--slo {asked:?}: {why}")]
    Objective {
        /// As it was written.
        asked: String,
        /// How one is written.
        why: ObjectiveError,
    },
    /// Two bound the same.
    #[error("--slo {0:?} bounds what another one bounds: keep one of them")]
    ObjectiveTwice(String),
    /// Throughput is only measured.
    #[error("--slo {0:?} requires measurements: name recorded runs with --trace")]
    Unmeasured(String),
    /// No reference to a key.
    #[error("--{flag} {asked:?} is not a ConfigMap: write CONFIGMAP or CONFIGMAP/KEY")]
    ConfigMap {
        /// The flag.
        flag: &'static str,
        /// As it was written.
        asked: String,
    },
    /// The name of the Secret is not valid.
    #[error("--secret {0:?} is not the name of a Secret: write lowercase letters, digits, dashes and dots")]
    Secret(String),
    /// An image that is required.
    #[error("--{0} is missing: backend Custom builds and serves with images of your own")]
    NoImage(&'static str),
    /// An image that is not used.
    #[error("--{0} has no effect with another backend than Custom: remove it, or use --backend Custom")]
    Image(&'static str),
}

/// A key of a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The ConfigMap.
    pub config_map: String,
    /// The key.
    pub key: String,
}

/// What a manifest is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the AgentDeployment.
    pub name: String,
    /// Its namespace, if one was named.
    pub namespace: Option<String>,
    /// The checkpoint.
    pub model: String,
    /// Secret that grants access to it.
    pub secret: Option<String>,
    /// How engines come to be.
    pub engine: Engine,
    /// Numeric formats to choose from; empty means the checkpoint's own.
    pub precisions: Vec<Precision>,
    /// A numeric format that the GPU computes in.
    pub example: Precision,
    /// Label of the GPU model, and how many a pod has. None without GPUs.
    pub gpu: Option<(String, u32)>,
    /// Latencies, error rate and throughput.
    pub objectives: Vec<Objective>,
    /// Recorded runs.
    pub trace: Option<Key>,
    /// Pods that serve.
    pub replicas: u32,
}

/// How engines come to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// By the user's builder.
    Custom {
        /// Its image.
        builder_image: String,
        /// The image that serves.
        triton_image: String,
    },
    /// By a backend's own means.
    Known {
        /// The backend.
        backend: InitBackend,
        /// Its version, if one was named.
        version: Option<String>,
        /// Tokens of the longest sequence, if they were named.
        max_seq_len: Option<u32>,
        /// Texts to calibrate with.
        calibration: Option<Key>,
    },
}

impl Options {
    /// Reads the flags.
    ///
    /// # Errors
    /// [`InitError`] names the first flag that does not fit, and the remedy.
    pub fn of(args: &InitArgs, namespace: Option<&str>) -> Result<Self, InitError> {
        let model = model(&args.model)?;
        let gpu = gpu_of(args)?;
        let precisions = precisions(args)?;
        let trace = args.trace.as_deref().map(|asked| key(asked, "trace", "trace.jsonl")).transpose()?;
        if let Some(secret) = args.secret.as_ref().filter(|secret| !is_subdomain(secret)) {
            return Err(InitError::Secret(secret.clone()));
        }
        let gpus = in_range("gpus", args.gpus, (1, 8))?;
        Ok(Self {
            name: name(args.name.as_deref(), &args.model)?,
            namespace: namespace.map(str::to_owned),
            model,
            secret: args.secret.clone(),
            engine: engine(args, &precisions)?,
            precisions,
            example: example(args, gpu.as_ref().map(|(_, gpu)| gpu.sm)),
            gpu: gpu.map(|(label, _)| (label, gpus)),
            objectives: objectives(args, trace.is_some())?,
            trace,
            replicas: in_range("replicas", args.replicas, (0, 1000))?,
        })
    }
}

fn in_range(flag: &'static str, number: u32, (least, most): (u32, u32)) -> Result<u32, InitError> {
    let is_in_range = (least..=most).contains(&number);
    if is_in_range { Ok(number) } else { Err(InitError::Range { flag, number, least, most }) }
}

fn model(uri: &str) -> Result<String, InitError> {
    let rest = ["hf://", "pvc://", "http://", "https://"].iter().find_map(|scheme| uri.strip_prefix(scheme));
    let is_one = rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace)) && uri.len() <= 1024;
    if is_one { Ok(uri.to_owned()) } else { Err(InitError::Model(uri.to_owned())) }
}

/// The name that was written, or one that is made of the last part of the model's.
fn name(asked: Option<&str>, model: &str) -> Result<String, InitError> {
    if let Some(asked) = asked {
        let begins = asked.starts_with(|c: char| c.is_ascii_lowercase());
        let is_name = begins && is_label(asked) && asked.len() <= MOST_OF_A_NAME;
        return if is_name { Ok(asked.to_owned()) } else { Err(InitError::Name(asked.to_owned())) };
    }
    let path = model.split_once("://").map_or(model, |(_, path)| path);
    let path = path.split('@').next().unwrap_or(path).trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let dashed: String = last.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let begun = dashed.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let cut: String = begun.chars().take(MOST_OF_A_NAME).collect();
    let name = cut.trim_end_matches('-');
    if name.is_empty() { Err(InitError::Nameless(model.to_owned())) } else { Ok(name.to_owned()) }
}

fn is_label(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(is_sign) && text.ends_with(is_sign) && text.chars().all(|c| is_sign(c) || c == '-')
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// The label of the GPU model with its figures; none where backend Custom runs without.
fn gpu_of(args: &InitArgs) -> Result<Option<(String, gpu::Gpu)>, InitError> {
    let Some(asked) = &args.gpu else {
        let backend = args.backend.backend();
        return if backend == Backend::Custom { Ok(None) } else { Err(InitError::NoGpu(backend.as_str())) };
    };
    let unknown = |why: NoWholeGpu| InitError::Gpu { asked: asked.clone(), why: why.to_string() };
    // Short names are written in either case.
    let found = by_label(asked).or_else(|error| by_label(&asked.to_lowercase()).map_err(|_| error)).map_err(unknown)?;
    let figures = gpu::by_label(found.name).map_err(unknown)?;
    let is_short = found.name.eq_ignore_ascii_case(asked);
    let label = found.label().filter(|_| is_short).unwrap_or_else(|| asked.clone());
    Ok(Some((label, figures)))
}

fn example(args: &InitArgs, sm: Option<u32>) -> Precision {
    let own = Checkpoint::Plain.own_precision(None, sm);
    let of_tools = named(own.name()).filter(|_| args.backend != InitBackend::Custom);
    of_tools.unwrap_or(Precision::FP32)
}

fn precisions(args: &InitArgs) -> Result<Vec<Precision>, InitError> {
    let all = args.precision.iter().map(|asked| precision(asked, args.backend)).collect::<Result<Vec<_>, _>>()?;
    let mut different = all.clone();
    different.sort();
    different.dedup();
    if different.len() < all.len() || all.len() > 4 {
        return Err(InitError::Precisions(args.precision.join(",")));
    }
    Ok(all)
}

fn precision(asked: &str, backend: InitBackend) -> Result<Precision, InitError> {
    let of_tools = || formats::Precision::ALL.map(formats::Precision::name);
    let known: Vec<&str> = match backend {
        InitBackend::Custom => {
            [Precision::FP32, Precision::INT8].iter().map(|of| of.as_str()).chain(of_tools()).collect()
        }
        _ => of_tools().to_vec(),
    };
    let found = known.iter().find(|name| name.eq_ignore_ascii_case(asked)).and_then(|name| named(name));
    found.ok_or_else(|| InitError::Precision {
        asked: asked.to_owned(),
        backend: backend.backend().as_str(),
        known: known.join(", "),
    })
}

fn engine(args: &InitArgs, precisions: &[Precision]) -> Result<Engine, InitError> {
    let calibration = args.calibration.as_deref().map(|asked| key(asked, "calibration", "train.jsonl")).transpose()?;
    let backend = args.backend.backend();
    if calibration.is_some() && args.backend != InitBackend::TensorRtLlm {
        return Err(InitError::Calibration(backend.as_str()));
    }
    if args.backend == InitBackend::Custom {
        let image =
            |flag, image: &Option<String>| image.clone().filter(|of| !of.is_empty()).ok_or(InitError::NoImage(flag));
        let builder_image = image("builder-image", &args.builder_image)?;
        return Ok(Engine::Custom { builder_image, triton_image: image("triton-image", &args.triton_image)? });
    }
    let images = [("builder-image", &args.builder_image), ("triton-image", &args.triton_image)];
    if let Some((flag, _)) = images.into_iter().find(|(_, image)| image.is_some()) {
        return Err(InitError::Image(flag));
    }
    let needs_texts = |of: &&Precision| {
        let known = formats::Precision::ALL.into_iter().find(|known| known.name() == of.as_str());
        known.is_some_and(formats::Precision::needs_calibration)
    };
    if let Some(quantized) = precisions.iter().find(needs_texts)
        && args.backend == InitBackend::TensorRtLlm
        && calibration.is_none()
    {
        return Err(InitError::NoCalibration(quantized.as_str()));
    }
    let in_range = |tokens| in_range("max-seq-len", tokens, (1, 10_000_000));
    let max_seq_len = args.max_seq_len.map(in_range).transpose()?;
    Ok(Engine::Known { backend: args.backend, version: version_of(args)?, max_seq_len, calibration })
}

fn version_of(args: &InitArgs) -> Result<Option<String>, InitError> {
    let Some(asked) = &args.version else { return Ok(None) };
    let problem = match args.backend.no_build() {
        Some(backend) => no_build::image(backend, asked, None).err().map(|error| error.to_string()),
        None => version::find(asked).err().map(|error| error.to_string()),
    };
    // The error begins with the field.
    problem.map_or(Ok(Some(asked.clone())), |problem| {
        let why = problem.split_once(": ").map_or(problem.as_str(), |(_, why)| why).to_owned();
        Err(InitError::Version { asked: asked.clone(), why })
    })
}

fn objectives(args: &InitArgs, is_measured: bool) -> Result<Vec<Objective>, InitError> {
    let mut all: Vec<Objective> = Vec::new();
    for asked in &args.objectives {
        let found: Objective = asked.parse().map_err(|why| InitError::Objective { asked: asked.clone(), why })?;
        if matches!(found, Objective::Throughput(_)) && !is_measured {
            return Err(InitError::Unmeasured(asked.clone()));
        }
        if all.iter().any(|other| is_same(other, &found)) {
            return Err(InitError::ObjectiveTwice(asked.clone()));
        }
        all.push(found);
    }
    Ok(all)
}

/// Whether two objectives bound the same.
fn is_same(one: &Objective, other: &Objective) -> bool {
    match (one, other) {
        (
            Objective::Latency { metric, percentile, .. },
            Objective::Latency { metric: other_metric, percentile: other_percentile, .. },
        ) => (metric, percentile) == (other_metric, other_percentile),
        (Objective::ErrorRate(_), Objective::ErrorRate(_)) | (Objective::Throughput(_), Objective::Throughput(_)) => {
            true
        }
        (Objective::Latency { .. } | Objective::ErrorRate(_) | Objective::Throughput(_), _) => false,
    }
}

fn key(asked: &str, flag: &'static str, default: &str) -> Result<Key, InitError> {
    let (config_map, key) = asked.split_once('/').unwrap_or((asked, default));
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_key = !key.is_empty() && key.len() <= 253 && key.chars().all(is_sign);
    if is_subdomain(config_map) && is_key {
        Ok(Key { config_map: config_map.to_owned(), key: key.to_owned() })
    } else {
        Err(InitError::ConfigMap { flag, asked: asked.to_owned() })
    }
}
