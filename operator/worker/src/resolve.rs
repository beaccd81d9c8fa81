//! `resolve`: the commit, digests and shape of a model URI.

use slipway_worker_contract::{FailureClass, ModelShape, ResolveResult, ResolveTask, ShapeNeed};

use crate::{
    failure::Classify,
    source::{
        Access, SourceError, Survey, archive, folder,
        listing::{SourceFile, source_digest, tokenizer_digest},
        remote,
        shape::{self, Parameters, ShapeError},
        uri::ModelUri,
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
    let Survey { uri, commit, files, config, headers } = survey;
    let shape = match (read_shape(config, &headers, &files), task.shape) {
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

fn read_shape<'a>(
    config: Option<Vec<u8>>,
    headers: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>,
    files: &[SourceFile],
) -> Result<ModelShape, ShapeError> {
    const ELSEWHERE: &str = "hf_quant_config.json";
    const WEIGHTS: [&str; 5] = [".safetensors", ".bin", ".pt", ".pth", ".onnx"];
    let mut parameters = Parameters::default();
    for (path, header) in headers {
        parameters.add_header(path, header)?;
    }
    let is_weight = |file: &&SourceFile| WEIGHTS.iter().any(|end| file.path.ends_with(end));
    let weight_bytes = files.iter().filter(is_weight).map(|f| f.size).sum();
    let mut shape = shape::read(&config.ok_or(ShapeError::NoConfig)?, &parameters, weight_bytes)?;
    // Older checkpoints of NVIDIA's Model Optimizer say only there how they are quantized, and it is not read.
    let elsewhere = || files.iter().any(|file| file.path == ELSEWHERE).then(|| ELSEWHERE.to_owned());
    shape.quantization = shape.quantization.or_else(elsewhere);
    Ok(shape)
}
