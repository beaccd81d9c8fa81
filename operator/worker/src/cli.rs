//! The command line. Every root has the default of a Job's pod and can be set, so that each verb runs anywhere.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use slipway_backends::no_build::{self, OwnServer};
use slipway_vocabulary::serving::ENGINE_MODEL;
use slipway_worker_contract::{Digest, EngineEntry, EngineRef, NoBuildBackend, ProfileTask, ServeConfig, paths};

use crate::{
    entry::configured,
    http::{self, Fetcher, HttpError, Retry, Token},
    materialize, parallel,
    profile::{
        Setup,
        analyzer::Tools,
        triton::{ServerKind, Triton},
    },
    quality::evaluate::Evaluation,
    report::Report,
    source::Access,
    tensorrt_llm::tool,
};

/// The worker of Slipway's Jobs.
///
/// Exit codes: 0 done, 2 usage, 10 InsufficientMemory, 11 UnsupportedPrecision, 12 BadModel, 13 ImageMismatch,
/// 14 Infrastructure, 15 MissingArtifact.
#[derive(Debug, Parser)]
#[command(name = "slipway-worker", version)]
pub struct Cli {
    /// Reports and task files.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Options of all verbs.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The task file.
    #[arg(long, global = true, default_value = paths::TASK_FILE)]
    pub task: PathBuf,
    /// Where the termination message goes.
    #[arg(long, global = true, default_value = paths::TERMINATION_LOG)]
    pub termination_log: PathBuf,
    /// Maximum bytes of the termination message that this pod keeps: 12,288 over its containers, at most 4,096. The
    /// default suits up to six containers.
    #[arg(long, global = true, env = paths::MESSAGE_BYTES_ENV, default_value_t = 2_048)]
    pub message_bytes: usize,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Resolve a model URI to its commit, digests and shape.
    Resolve(SourceArgs),
    /// Copy a resolved model into the artifact store.
    Fetch(FetchArgs),
    /// Check that a checkpoint is in the artifact store.
    CheckCheckpoint(CheckCheckpointArgs),
    /// Check, hash, publish and score what a builder wrote.
    FinishBuild(FinishBuildArgs),
    /// Score raw outputs and bound the drop against a reference engine.
    Quality(QualityArgs),
    /// Verify an engine and copy it for Triton.
    Materialize(MaterializeArgs),
    /// Copy this binary into a volume that a vendor's container mounts.
    Install(InstallArgs),
    /// Measure an engine's serving configurations with Model Analyzer.
    Profile(ProfileArgs),
    /// Compute a row again from its stored records and print it as JSON.
    Recompute(RecomputeArgs),
    /// Query a served engine with the questions of a data set.
    Evaluate(EvaluateArgs),
    /// Run one of TensorRT-LLM's tools in its own image and explain how it failed.
    Tool(ToolArgs),
    /// Check a TensorRT-LLM engine, or a checkpoint that is served as it is, and put its serving repository beside it.
    Assemble(AssembleArgs),
    /// Run tritonserver without a model, under explicit control, as the first process of its container.
    Supervise(SuperviseArgs),
    /// Remove from the artifact store what nothing needs any more.
    Sweep(SweepArgs),
}

/// How to reach a model's source.
#[derive(Args, Clone, Debug)]
pub struct SourceArgs {
    /// Where the secret of model.secretRef is mounted; its key `token` is sent as bearer token.
    #[arg(long, default_value = paths::SECRET_DIR)]
    pub secret_dir: PathBuf,
    /// Where the claim of a pvc:// URI is mounted.
    #[arg(long, default_value = paths::SOURCE_DIR)]
    pub source_dir: PathBuf,
    /// The hub behind hf:// URIs.
    #[arg(long, env = "HF_ENDPOINT", default_value = "https://huggingface.co")]
    pub hub_endpoint: String,
    /// A PEM file with certificates to trust beside the bundled roots.
    #[arg(long, env = "SSL_CERT_FILE")]
    pub certificates: Option<PathBuf>,
    /// Files transferred or hashed at a time.
    #[arg(long, default_value_t = parallel::default_threads().max(4))]
    pub threads: usize,
}

/// Options of `fetch`.
#[derive(Args, Clone, Debug)]
pub struct FetchArgs {
    /// How to reach the source.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
}

/// Options of `check-checkpoint`.
#[derive(Args, Clone, Debug)]
pub struct CheckCheckpointArgs {
    /// Digest of its source.
    #[arg(long)]
    pub source_digest: Digest,
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
}

/// Options of `sweep`.
#[derive(Args, Clone, Debug)]
pub struct SweepArgs {
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
}

/// Options of `finish-build`.
#[derive(Args, Clone, Debug)]
pub struct FinishBuildArgs {
    /// What the builder wrote.
    #[arg(long, default_value = paths::OUTPUT_DIR)]
    pub output: PathBuf,
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
    /// The data set with its answers, where the task asks for a score.
    #[arg(long, default_value = paths::QUALITY_DATASET_FILE)]
    pub dataset: PathBuf,
    /// Threads to hash and copy with.
    #[arg(long, default_value_t = parallel::default_threads())]
    pub threads: usize,
}

/// Options of `quality`.
#[derive(Args, Clone, Debug)]
pub struct QualityArgs {
    /// What the engine wrote.
    #[arg(long, default_value_t = format!("{}/{}", paths::OUTPUT_DIR, paths::QUALITY_OUTPUTS))]
    pub outputs: String,
    /// The data set with its answers.
    #[arg(long, default_value = paths::QUALITY_DATASET_FILE)]
    pub dataset: PathBuf,
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
}

/// Options of `materialize`.
#[derive(Args, Clone, Debug)]
pub struct MaterializeArgs {
    /// The Engine's identity hash.
    #[arg(long)]
    pub identity: String,
    /// SHA-256 of the artifact's manifest.
    #[arg(long, value_parser = Digest::from_str)]
    pub manifest_digest: Digest,
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
    /// The folder to fill.
    #[arg(long, default_value = paths::ENGINE_DIR)]
    pub target: PathBuf,
    /// The model whose configuration gets the overrides.
    #[arg(long, default_value = "agent")]
    pub model: String,
    /// Overrides of the model's configuration, as JSON: {"instances":2}.
    #[arg(long, default_value = "{}", value_parser = serve_config)]
    pub serve_config: ServeConfig,
    /// Threads to copy and hash with.
    #[arg(long, default_value_t = parallel::default_threads())]
    pub threads: usize,
}

/// Options of `install`.
#[derive(Args, Clone, Debug)]
pub struct InstallArgs {
    /// The folder to copy this binary into.
    #[arg(default_value = paths::BIN_DIR)]
    pub folder: PathBuf,
}

/// Options of `evaluate`.
#[derive(Args, Clone, Debug)]
pub struct EvaluateArgs {
    /// The model to query. It takes tokens, except with backends without a build and with entries other than Engine.
    #[arg(long, default_value = ENGINE_MODEL)]
    pub model: String,
    /// Entry of the repository of an engine of TensorRT-LLM: Engine, Ensemble or BLS.
    #[arg(long, default_value = "Engine", value_parser = engine_entry)]
    pub entry: EngineEntry,
    /// The backend of an engine without a build, such as VLLM or TensorRTLLMPyTorch: its model takes text.
    #[arg(long, value_parser = no_build_backend)]
    pub no_build: Option<NoBuildBackend>,
    /// Folder of its tokenizer.
    #[arg(long, default_value_t = format!("{}/{}", paths::ENGINE_DIR, paths::TOKENIZER))]
    pub tokenizer: String,
    /// The questions.
    #[arg(long, default_value = "/slipway/task/quality.jsonl")]
    pub questions: PathBuf,
    /// Where the answers go.
    #[arg(long, default_value_t = format!("{}/{}", paths::OUTPUT_DIR, paths::QUALITY_OUTPUTS))]
    pub outputs: String,
    /// Number of concurrent questions.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub in_flight: u16,
    /// Triton's HTTP address.
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub triton_http: String,
    /// Triton's gRPC address.
    #[arg(long, default_value = "127.0.0.1:8001")]
    pub triton_grpc: String,
    /// How long Triton may take to become live, in seconds.
    #[arg(long, default_value_t = 600)]
    pub triton_seconds: u64,
}

/// Options of `tool`.
#[derive(Args, Clone, Debug)]
pub struct ToolArgs {
    /// The step of the task: convert, quantize or build.
    #[arg(long)]
    pub step: String,
    /// Folders that may hold upstream's examples, in the order in which they are tried.
    #[arg(long, default_values = tool::EXAMPLES)]
    pub examples: Vec<PathBuf>,
    /// Folder of the calibration texts.
    #[arg(long, default_value = paths::CALIBRATION_DIR)]
    pub calibration: PathBuf,
}

/// Options of `assemble`.
#[derive(Args, Clone, Debug)]
pub struct AssembleArgs {
    /// The image's templates, a folder a model.
    #[arg(long, default_value = "/app/all_models/inflight_batcher_llm")]
    pub models: PathBuf,
    /// The image's model for TensorRT-LLM without a build.
    #[arg(long, default_value = "/app/all_models/llmapi/tensorrt_llm")]
    pub llm_api: PathBuf,
    /// The image's backends of Triton, a folder each.
    #[arg(long, default_value = "/opt/tritonserver/backends")]
    pub backends: PathBuf,
    /// The fetched checkpoint.
    #[arg(long, default_value = paths::CHECKPOINT_DIR)]
    pub checkpoint: PathBuf,
    /// The artifact in the making.
    #[arg(long, default_value = paths::OUTPUT_DIR)]
    pub output: PathBuf,
}

/// Options of `supervise`.
#[derive(Args, Clone, Debug)]
pub struct SuperviseArgs {
    /// The server's program.
    #[arg(long, default_value = "tritonserver")]
    pub server: String,
    /// The model repository.
    #[arg(long, default_value_t = format!("{}/{}", paths::ENGINE_DIR, paths::MODEL_REPOSITORY))]
    pub model_repository: String,
    /// A model to load at start; a serving pod has one, a profiling pod none.
    #[arg(long)]
    pub load_model: Vec<String>,
    /// Serve an engine of TensorRT-LLM with so many processes, each with a GPU.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "load_model")]
    pub tensorrt_llm_ranks: Option<u32>,
    /// Serve the engine in this folder with vLLM's own server in place of Triton.
    #[arg(long, conflicts_with_all = ["load_model", "tensorrt_llm_ranks", "server", "own_server"])]
    pub vllm_engine: Option<PathBuf>,
    /// Serve the engine with the own server of this backend in place of Triton.
    #[arg(long, conflicts_with_all = ["load_model", "tensorrt_llm_ranks", "server"], value_parser = own_server)]
    pub own_server: Option<&'static OwnServer>,
    /// The engine's folder, for its own server.
    #[arg(long, default_value = paths::ENGINE_DIR)]
    pub engine: PathBuf,
    /// More arguments for the server.
    #[arg(last = true)]
    pub extra: Vec<String>,
}

/// Options of `profile`.
#[derive(Args, Clone, Debug)]
pub struct ProfileArgs {
    /// Where the artifact store is mounted.
    #[arg(long, default_value = paths::STORE_DIR)]
    pub store: PathBuf,
    /// The engine's folder, shared with Triton, writable.
    #[arg(long, default_value = paths::ENGINE_DIR)]
    pub target: PathBuf,
    /// A scratch folder.
    #[arg(long, default_value = "/tmp/slipway-profile")]
    pub work: PathBuf,
    /// The program model-analyzer.
    #[arg(long, default_value = "model-analyzer")]
    pub model_analyzer: PathBuf,
    /// The program perf_analyzer.
    #[arg(long, default_value = "perf_analyzer")]
    pub perf_analyzer: PathBuf,
    /// Triton's HTTP address.
    #[arg(long, default_value = "127.0.0.1:8000")]
    pub triton_http: String,
    /// Triton's gRPC address.
    #[arg(long, default_value = "127.0.0.1:8001")]
    pub triton_grpc: String,
    /// Triton's metrics address.
    #[arg(long, default_value = "127.0.0.1:8002")]
    pub triton_metrics: String,
    /// How long Triton may take to become live, and a model to unload, in seconds.
    #[arg(long, default_value_t = 600)]
    pub triton_seconds: u64,
    /// Where progress is served.
    #[arg(long, default_value_t = SocketAddr::from(([0, 0, 0, 0], paths::PROGRESS_PORT)))]
    pub progress: SocketAddr,
    /// Where the agent's tools are answered from the trace.
    #[arg(long, default_value_t = SocketAddr::from(([127, 0, 0, 1], paths::REPLAY_PORT)))]
    pub replay: SocketAddr,
    /// How long the result waits to be acknowledged, in seconds.
    #[arg(long, default_value_t = 600)]
    pub hold_seconds: u64,
}

/// Options of `recompute`.
#[derive(Args, Clone, Debug)]
pub struct RecomputeArgs {
    /// The stored records of one level: profiles/<inputHash>/<manifestDigest>/<sha256>.json.
    #[arg(long)]
    pub records: PathBuf,
}

fn no_build_backend(text: &str) -> Result<NoBuildBackend, serde_json::Error> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
}

fn own_server(text: &str) -> Result<&'static OwnServer, String> {
    let backend = no_build_backend(text).map_err(|error| error.to_string())?;
    no_build::of(backend).own_server().ok_or_else(|| format!("{text} does not have its own server"))
}

fn engine_entry(text: &str) -> Result<EngineEntry, serde_json::Error> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
}

fn serve_config(text: &str) -> Result<ServeConfig, serde_json::Error> {
    serde_json::from_str(text)
}

impl Common {
    /// Returns where the verb reports.
    pub fn report(&self) -> Report {
        Report { termination_log: self.termination_log.clone(), message_bytes: self.message_bytes }
    }
}

impl SourceArgs {
    /// Opens what the options name.
    ///
    /// # Errors
    /// [`HttpError`] if certificates or the token cannot be read.
    pub fn access(&self) -> Result<Access, HttpError> {
        Ok(Access {
            fetcher: Fetcher {
                client: http::client(self.certificates.as_deref())?,
                token: Token::read(&self.secret_dir.join(paths::SECRET_TOKEN_KEY))?,
                retry: Retry::default(),
            },
            hub_endpoint: self.hub_endpoint.clone(),
            claim_root: self.source_dir.clone(),
            threads: self.threads,
        })
    }
}

impl EvaluateArgs {
    /// Returns the server to query and the questions.
    ///
    /// # Errors
    /// [`HttpError::Client`].
    pub fn evaluation(self) -> Result<Evaluation, HttpError> {
        Ok(Evaluation {
            triton: Triton {
                client: http::local_client()?,
                url: format!("http://{}", self.triton_http),
                patience: Duration::from_secs(self.triton_seconds),
                kind: ServerKind::of(self.no_build, Path::new(paths::ENGINE_DIR)),
            },
            endpoint: format!("http://{}", self.triton_grpc),
            tokenizer: self.tokenizer.into(),
            entry: self.entry,
            no_build: self.no_build,
            model: self.model,
            questions: self.questions,
            outputs: self.outputs.into(),
            in_flight: usize::from(self.in_flight),
        })
    }
}

impl ProfileArgs {
    /// Returns what surrounds the task.
    ///
    /// # Errors
    /// [`HttpError::Client`].
    pub fn setup(&self, task: &ProfileTask, worker: PathBuf) -> Result<Setup, HttpError> {
        // Model Analyzer runs in a folder of its own.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let (store, target, work) = (absolute(&self.store), absolute(&self.target), absolute(&self.work));
        Ok(Setup {
            engine: materialize::MaterializeTask {
                engine: task.engine.clone(),
                store,
                target: target.clone(),
                model: configured(&task.model, task.entry).to_owned(),
                serve: ServeConfig::default(),
                threads: parallel::default_threads(),
            },
            tools: Tools {
                model_analyzer: self.model_analyzer.clone(),
                worker,
                http: self.triton_http.clone(),
                grpc: self.triton_grpc.clone(),
                metrics: self.triton_metrics.clone(),
                repository: target.join(paths::MODEL_REPOSITORY),
            },
            perf_analyzer: self.perf_analyzer.clone(),
            triton: Triton {
                client: http::local_client()?,
                url: format!("http://{}", self.triton_http),
                patience: Duration::from_secs(self.triton_seconds),
                kind: ServerKind::of(task.no_build, &target),
            },
            work,
            progress: self.progress,
            replay: self.replay,
            hold: Duration::from_secs(self.hold_seconds),
        })
    }
}

impl MaterializeArgs {
    /// Returns the order that the options describe.
    pub fn order(&self) -> materialize::MaterializeTask {
        materialize::MaterializeTask {
            engine: EngineRef { identity: self.identity.clone(), manifest_digest: self.manifest_digest.clone() },
            store: self.store.clone(),
            target: self.target.clone(),
            model: self.model.clone(),
            serve: self.serve_config.clone(),
            threads: self.threads,
        }
    }
}
