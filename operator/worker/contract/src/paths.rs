//! Where things lie in a Job's pod and in the artifact store.
//!
//! Paths of the store are relative to the root of the volume. The operator can name them as a `subPath`, and the worker
//! joins them to the mount path.

use crate::{Digest, EngineRef};

/// The task file, from a ConfigMap.
pub const TASK_FILE: &str = "/slipway/task/task.json";
/// The data set with the expected answers, one [`crate::QualitySample`] a line; never mounted into a vendor container.
pub const QUALITY_DATASET_FILE: &str = "/slipway/dataset/dataset.jsonl";
/// The secret's keys as files: `token` for Hugging Face and bearer tokens.
pub const SECRET_DIR: &str = "/slipway/secret";
/// The key of a secret that holds the token.
pub const SECRET_TOKEN_KEY: &str = "token";
/// The volume behind `pvc://claim/path`, read-only.
pub const SOURCE_DIR: &str = "/slipway/source";
/// The artifact store's volume.
pub const STORE_DIR: &str = "/slipway/store";
/// A checkpoint of the store, as a builder sees it (read-only).
pub const CHECKPOINT_DIR: &str = "/slipway/checkpoint";
/// Where a builder writes.
pub const OUTPUT_DIR: &str = "/slipway/output";
/// What a builder leaves below [`OUTPUT_DIR`] to say which versions it used; optional, see [`crate::BuilderReport`].
pub const BUILDER_REPORT: &str = "builder.json";
/// What `evaluate` leaves below [`OUTPUT_DIR`].
pub const QUALITY_OUTPUTS: &str = "quality/outputs.jsonl";
/// Texts that a quantization is calibrated with, as `train.jsonl`, from a ConfigMap.
pub const CALIBRATION_DIR: &str = "/slipway/calibration";
/// The calibration texts below [`CALIBRATION_DIR`]: the name by which upstream's loader finds a training split.
pub const CALIBRATION_FILE: &str = "train.jsonl";
/// Scratch of a vendor's tools.
pub const WORK_DIR: &str = "/slipway/work";
/// A TensorRT-LLM engine below [`OUTPUT_DIR`] and in an artifact.
pub const TENSORRT_LLM_ENGINE: &str = "engine";
/// The tokenizer beside it.
pub const TOKENIZER: &str = "tokenizer";
/// The checkpoint in an artifact of an engine without a build.
pub const CHECKPOINT: &str = "checkpoint";
/// What says how the server of an engine ended, below [`ENGINE_DIR`]: a [`crate::Message`], for the container beside
/// it.
pub const SERVER_ENDED: &str = "server-ended.json";
/// The model repository below [`OUTPUT_DIR`] and in an artifact.
pub const MODEL_REPOSITORY: &str = "model_repository";
/// Where `materialize` puts an engine in a serving or profiling pod.
pub const ENGINE_DIR: &str = "/slipway/engine";
/// Where `install` puts the worker in a vendor image's pod.
pub const BIN_DIR: &str = "/slipway/bin";
/// The worker's file name below [`BIN_DIR`].
pub const WORKER_BINARY: &str = "slipway-worker";
/// The termination log of every container.
pub const TERMINATION_LOG: &str = "/dev/termination-log";
/// The environment variable with the most bytes that a termination message may have; see [`crate::message_budget`].
pub const MESSAGE_BYTES_ENV: &str = "SLIPWAY_MESSAGE_BYTES";
/// The port of a Profile Job's progress.
pub const PROGRESS_PORT: u16 = 9464;
/// `GET` returns a [`crate::Progress`].
pub const PROGRESS_PATH: &str = "/progress";
/// `POST`, once the final result is recorded, lets the Job end at once.
pub const PROGRESS_ACKNOWLEDGE_PATH: &str = "/progress/acknowledge";
/// The loopback port on which a Profile Job's worker answers tool calls from a trace: the operator points the sidecar's
/// HTTP tools at `http://127.0.0.1:<port>/tools/<name>?<parameter>={parameter}&...`, result as text.
pub const REPLAY_PORT: u16 = 9465;
/// The path of the replayed tools.
pub const REPLAY_PATH: &str = "/tools";
/// The manifest's file name in an artifact; written last, its presence is the commit.
pub const MANIFEST_FILE: &str = "manifest.json";
/// The marker's file name in a committed checkpoint, beside `files/`; the same format as a manifest.
pub const CHECKPOINT_MARKER: &str = "checkpoint.json";

/// Engines in the store, a folder an identity.
pub const ENGINES: &str = "engines";
/// Checkpoints in the store, a folder a source.
pub const CHECKPOINTS: &str = "checkpoints";
/// Scores in the store, as engines are.
pub const SCORES: &str = "quality";
/// Records in the store, a folder a campaign.
pub const RECORDS: &str = "profiles";

/// Returns the folder with every artifact of an Engine.
pub fn engine_artifacts(identity: &str) -> String {
    format!("{ENGINES}/{identity}")
}

/// Returns the folder with all records of a campaign.
pub fn campaign_records(campaign: &str) -> String {
    format!("{RECORDS}/{campaign}")
}

/// Returns the folder of a checkpoint in the store.
pub fn checkpoint(source_digest: &Digest) -> String {
    format!("{CHECKPOINTS}/{source_digest}")
}

/// Returns the folder with a checkpoint's files: the `subPath` of a builder's [`CHECKPOINT_DIR`].
pub fn checkpoint_files(source_digest: &Digest) -> String {
    format!("{CHECKPOINTS}/{source_digest}/files")
}

/// Returns the folder of an engine artifact in the store.
pub fn engine(engine: &EngineRef) -> String {
    format!("{ENGINES}/{}/{}", engine.identity, engine.manifest_digest)
}

/// Returns the file with an artifact's score per sample under one data set.
pub fn scores(engine: &EngineRef, dataset_digest: &Digest) -> String {
    format!("{SCORES}/{}/{}/{dataset_digest}.json", engine.identity, engine.manifest_digest)
}

/// Returns the folder of a campaign's raw records for one engine.
pub fn records(campaign: &str, engine: &EngineRef) -> String {
    format!("{RECORDS}/{campaign}/{}", engine.manifest_digest)
}
