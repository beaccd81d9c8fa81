//! How the model of an engine is spoken to.

use std::{path::Path, sync::Arc};

use slipway_agent_runtime::backend::{
    Entry,
    tokens::{Tokenizer, TokenizerError},
};
use slipway_worker_contract::NoBuildBackend;

/// The entry of a model in Triton: the tensors of a backend without a build, else tokens where there is a tokenizer, else text. None
/// where Triton does not serve it.
///
/// # Errors
/// The tokenizer cannot be used.
pub fn entry(tokenizer: Option<&Path>, no_build: Option<NoBuildBackend>) -> Result<Option<Entry>, TokenizerError> {
    Ok(Some(match (no_build, tokenizer) {
        (Some(NoBuildBackend::VLLMOpenAI), _) => return Ok(None),
        (Some(NoBuildBackend::VLLM), _) => Entry::Vllm,
        (Some(NoBuildBackend::TensorRTLLMPyTorch), _) => Entry::LlmApi,
        (None, Some(folder)) => Entry::Tokens(Arc::new(Tokenizer::read(folder)?)),
        (None, None) => Entry::Text,
    }))
}
