//! Where files of an engine lie in a pod.

use slipway_crds::v1alpha1::agent_deployment::ServedBy;
use slipway_worker_contract::paths;

/// Where the tokenizer of an engine of TensorRT-LLM lies in a pod.
pub fn tokenizer_folder() -> String {
    format!("{}/{}", paths::ENGINE_DIR, paths::TOKENIZER)
}

/// Where the files of the checkpoint lie in a pod that say how a conversation is written; nothing where the user's
/// builder made the engine.
pub fn checkpoint_folder(served_by: ServedBy) -> Option<String> {
    match served_by {
        ServedBy::Custom => None,
        ServedBy::TensorRtLlm { .. } => Some(tokenizer_folder()),
        ServedBy::NoBuild(_) => Some(format!("{}/{}", paths::ENGINE_DIR, paths::CHECKPOINT)),
    }
}
