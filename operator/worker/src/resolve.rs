//! `resolve`: the commit, digests and shape of a model URI.

use std::collections::BTreeMap;

use slipway_worker_contract::{FailureClass, ModelShape, ModelUri, ResolveResult, ResolveTask, ShapeNeed};

use crate::{
    failure::Classify,
    source::{
        Access, SourceError, Survey, archive, folder,
        listing::{SourceFile, is_of_adapter, source_digest, tokenizer_digest},
        remote,
        shape::{self, Parameters, ShapeError},
    },
};

/// Says why a URI cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The source cannot be read.
    #[error("failed to resolve {uri}")]
    Source {
        /// The URI of the task.
        uri: String,
        /// What is wrong.
        #[source]
        source: SourceError,
    },
    /// The source has no readable shape and the backend needs one.
    #[error("{uri} is not a model that an engine can be planned for")]
    Shape {
        /// The URI of the task.
        uri: String,
        /// What is missing.
        #[source]
        source: ShapeError,
    },
}

impl Classify for ResolveError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Source { source, .. } => source.class(),
            Self::Shape { .. } => FailureClass::BadModel,
        }
    }
}

/// Resolves the task's URI.
///
/// # Errors
/// [`ResolveError`] names the URI and what is wrong with it.
pub async fn run(task: &ResolveTask, access: &Access) -> Result<ResolveResult, ResolveError> {
    let failed = |source| ResolveError::Source { uri: task.uri.clone(), source };
    let uri: ModelUri = task.uri.parse().map_err(|e| failed(SourceError::Uri(e)))?;
    let survey = survey(uri, access).await.map_err(failed)?;
    summarize(task, survey)
}

async fn survey(uri: ModelUri, access: &Access) -> Result<Survey, SourceError> {
    match &uri {
        ModelUri::Hub { repository, revision } => {
            remote::survey(&remote::list_hub(repository, revision, access).await?, access).await
        }
        ModelUri::Folder { url } => remote::survey(&remote::list_folder(url, access).await?, access).await,
        ModelUri::Archive { url, compression } => archive::survey(url, *compression, access).await,
        ModelUri::Claim { path, .. } => {
            let (located, threads) = (folder::locate(&uri, path, access)?, access.threads);
            let work = tokio::task::spawn_blocking(move || folder::survey(&uri, &located, threads));
            work.await.map_err(SourceError::Interrupted)?
        }
    }
}

fn summarize(task: &ResolveTask, survey: Survey) -> Result<ResolveResult, ResolveError> {
    // Destructured so that what is surveyed is also reported or deliberately dropped.
    let Survey { uri, commit, files, config, quant_config, headers } = survey;
    let shape = match (read_shape(config, quant_config, &headers, &files), task.shape) {
        (Ok(shape), ShapeNeed::Required | ShapeNeed::Optional) => Some(Box::new(shape)),
        (Err(_), ShapeNeed::Optional) => None,
        (Err(source), ShapeNeed::Required) => return Err(ResolveError::Shape { uri: task.uri.clone(), source }),
    };
    Ok(ResolveResult {
        uri,
        commit,
        source_digest: source_digest(&files),
        tokenizer_digest: tokenizer_digest(&files),
        files: files.len() as u32,
        bytes: files.iter().map(|f| f.size).sum(),
        shape,
    })
}

fn read_shape(
    config: Option<Vec<u8>>,
    quant_config: Option<Vec<u8>>,
    headers: &BTreeMap<String, Vec<u8>>,
    files: &[SourceFile],
) -> Result<ModelShape, ShapeError> {
    const WEIGHTS: [&str; 5] = [".safetensors", ".bin", ".pt", ".pth", ".onnx"];
    let mut parameters = Parameters::default();
    let headers: BTreeMap<_, _> = headers.iter().filter(|(path, _)| !is_of_adapter(path)).collect();
    for (path, header) in headers.iter().filter(|(path, _)| is_loaded(path, &headers)) {
        parameters.add_header(path, header)?;
    }
    let is_weight =
        |file: &&SourceFile| WEIGHTS.iter().any(|end| file.path.ends_with(end)) && !is_of_adapter(&file.path);
    let weight_bytes = files.iter().filter(is_weight).map(|f| f.size).sum();
    shape::read(&config.ok_or(ShapeError::NoConfig)?, quant_config.as_deref(), &parameters, weight_bytes)
}

/// Whether a server loads a file of weights. Some repositories carry the same weights twice: Mistral's beside those of
/// transformers as `consolidated.safetensors`, and gpt-oss's in the folder `original` (vllm-project/vllm,
/// vllm/model_executor/model_loader/weight_utils.py, `filter_duplicate_safetensors_files`).
fn is_loaded(path: &str, headers: &BTreeMap<&String, &Vec<u8>>) -> bool {
    let is_root = |path: &str| !path.contains('/');
    let is_second = |path: &str| path.starts_with("consolidated");
    let is_first_choice = |path: &str| is_root(path) && !is_second(path);
    let has_first_choice = headers.keys().any(|path| is_first_choice(path));
    !has_first_choice || is_first_choice(path)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn weights_that_a_repository_has_twice_count_once() {
        let config = br#"{"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":9}"#;
        let header = br#"{"w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}"#;
        let parameters = |paths: &[&str]| {
            let headers = paths.iter().map(|path| ((*path).to_owned(), header.to_vec())).collect();
            let shape = read_shape(Some(config.to_vec()), None, &headers, &[]).unwrap();
            (shape.parameters, shape.parameter_bytes)
        };
        // mistralai/Mistral-7B-Instruct-v0.3 and openai/gpt-oss-20b.
        let mistral =
            ["consolidated.safetensors", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        assert_eq!(parameters(&mistral), (8, 16));
        assert_eq!(parameters(&["model.safetensors", "original/model.safetensors"]), (4, 8));
        assert_eq!(parameters(&["consolidated.safetensors"]), (4, 8));
        assert_eq!(parameters(&["unet/model.safetensors", "adapters/sql/adapter_model.safetensors"]), (4, 8));
        assert_eq!(parameters(&["unet/model.safetensors", "text_encoder/model.safetensors"]), (8, 16));
    }
}
