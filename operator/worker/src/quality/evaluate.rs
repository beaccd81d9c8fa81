//! `evaluate`: queries a served engine with the questions of a data set, for backends whose builder cannot. It uses the
//! sidecar's client, so scores hold for serving.

use std::{fs, io, path::PathBuf, sync::Arc};

use futures::StreamExt;
use slipway_agent_runtime::backend::{Asked, Backend, BackendError, ConnectError, Generation, connect};
use slipway_worker_contract::{EngineEntry, FailureClass, NoBuildBackend, QualityPrompt};
use tokio::task::{JoinError, JoinSet};

use super::{OutputLine, QualityError, lines};
use crate::{
    entry::{Spoken, models},
    failure::{self, Classify},
    profile::triton::{ServerKind, Triton, TritonError},
};

/// The server to query, and the questions.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The server's repository.
    pub triton: Triton,
    /// Its address, as in `http://127.0.0.1:8001`.
    pub endpoint: String,
    /// The model to query.
    pub model: String,
    /// Folder of its tokenizer, where it takes tokens.
    pub tokenizer: PathBuf,
    /// Entry of the repository of an engine of TensorRT-LLM.
    pub entry: EngineEntry,
    /// The backend of an engine without a build, whose model takes text.
    pub no_build: Option<NoBuildBackend>,
    /// The questions, one [`QualityPrompt`] a line.
    pub questions: PathBuf,
    /// Where the answers go.
    pub outputs: PathBuf,
    /// Number of concurrent questions.
    pub in_flight: usize,
}

/// Says why there are no answers.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// The questions cannot be read.
    #[error("the questions cannot be read")]
    Questions(#[source] QualityError),
    /// The engine has no client.
    #[error("the engine cannot be asked")]
    Connect(#[source] ConnectError),
    /// Triton does not serve the engine.
    #[error("the engine cannot be asked")]
    Triton(#[source] TritonError),
    /// Its model is another one than its entry needs.
    #[error("the engine cannot be asked")]
    Misfit(#[source] BackendError),
    /// The engine did not answer.
    #[error("the engine did not answer question {id:?}")]
    Engine {
        /// The question.
        id: String,
        /// Why.
        #[source]
        source: BackendError,
    },
    /// The server failed, and the question with it.
    #[error("the server failed while it answered question {id:?} ({answer})")]
    ServerFailed {
        /// The question.
        id: String,
        /// What came in place of its answer.
        answer: String,
        /// How the server failed.
        #[source]
        source: TritonError,
    },
    /// A question's task was lost.
    #[error("a question was interrupted")]
    Interrupted(#[source] JoinError),
    /// The answers cannot be kept.
    #[error("failed to write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Classify for EvaluateError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Questions(source) => source.class(),
            Self::Triton(source) | Self::ServerFailed { source, .. } => source.class(),
            Self::Connect(ConnectError::Tokenizer(_)) => FailureClass::BadModel,
            Self::Engine { source, .. } | Self::Misfit(source) => class_of(source),
            Self::Connect(ConnectError::Triton(_) | ConnectError::OpenAi(_))
            | Self::Interrupted(_)
            | Self::Write { .. } => FailureClass::Infrastructure,
        }
    }
}

fn class_of(error: &BackendError) -> FailureClass {
    match error {
        BackendError::Engine { .. }
        | BackendError::Protocol { .. }
        | BackendError::Tokens(_)
        | BackendError::Misfit { .. } => FailureClass::BadModel,
        BackendError::Unreachable { .. }
        | BackendError::NotReady { .. }
        | BackendError::Headers(_)
        | BackendError::Authorities(_)
        | BackendError::Denied { .. }
        | BackendError::Busy
        | BackendError::EndedEarly => FailureClass::Infrastructure,
    }
}

/// Loads the model, asks every question and writes the answers.
///
/// # Errors
/// [`EvaluateError`]: one question without an answer fails the whole, because a score of the rest would not compare.
pub async fn run(order: &Evaluation) -> Result<(), EvaluateError> {
    let path = &order.questions;
    let read = fs::read(path).map_err(|source| QualityError::Read { path: path.clone(), source });
    let prompts = read.and_then(|bytes| lines(path, &bytes)).map_err(EvaluateError::Questions)?;
    let engine = engine(order)?;
    serve(order).await.map_err(EvaluateError::Triton)?;
    probe(&engine).await?;
    let answers = match ask_all(&engine, prompts, order.in_flight).await {
        Err(EvaluateError::Engine { id, source }) => return Err(blamed(order, id, source).await),
        asked => asked?,
    };
    tracing::info!(answers = answers.len(), "evaluated");
    write(order, &answers)
}

/// What failed: the engine, or the server that serves it. A dead server does not make the model bad.
async fn blamed(order: &Evaluation, id: String, source: BackendError) -> EvaluateError {
    let answer = failure::chain(&source);
    match order.triton.survived(&models(&order.model, order.entry), &answer).await {
        Ok(()) => EvaluateError::Engine { id, source },
        Err(server) => EvaluateError::ServerFailed { id, answer, source: server },
    }
}

/// The server to query: Triton, or what serves in its place.
fn engine(order: &Evaluation) -> Result<Arc<dyn Backend>, EvaluateError> {
    let spoken = Spoken { tokenizer: Some(&order.tokenizer), entry: order.entry, no_build: order.no_build };
    let endpoint = match order.triton.kind {
        ServerKind::Triton => &order.endpoint,
        ServerKind::Own { .. } => &order.triton.url,
    };
    let (dialect, tokenizer) = (spoken.dialect(), order.tokenizer.as_path());
    connect(Asked { dialect, tokenizer, endpoint, model: &order.model, upstream: None }).map_err(EvaluateError::Connect)
}

/// Processes that belong together have loaded the engine at their start.
async fn serve(order: &Evaluation) -> Result<(), TritonError> {
    order.triton.wait_live().await?;
    order.triton.ensure_all(&models(&order.model, order.entry)).await
}

/// Finds a model that its entry cannot be used for. What else the engine says here, it says at the questions too.
async fn probe(engine: &Arc<dyn Backend>) -> Result<(), EvaluateError> {
    match engine.ready().await {
        Err(source @ BackendError::Misfit { .. }) => Err(EvaluateError::Misfit(source)),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn ask_all(
    engine: &Arc<dyn Backend>,
    prompts: Vec<QualityPrompt>,
    in_flight: usize,
) -> Result<Vec<OutputLine>, EvaluateError> {
    let mut waiting = prompts.into_iter();
    let mut asked = JoinSet::new();
    let mut answers = Vec::new();
    loop {
        while asked.len() < in_flight
            && let Some(prompt) = waiting.next()
        {
            asked.spawn(ask(Arc::clone(engine), prompt));
        }
        match asked.join_next().await {
            None => return Ok(answers),
            Some(done) => answers.push(done.map_err(EvaluateError::Interrupted)??),
        }
    }
}

async fn ask(engine: Arc<dyn Backend>, prompt: QualityPrompt) -> Result<OutputLine, EvaluateError> {
    let QualityPrompt { id, prompt, max_tokens, stop_words } = prompt;
    let mut pieces =
        engine.generate(Generation { id: id.clone(), prompt, max_tokens, stop_words, ..Generation::default() });
    let mut output = String::new();
    while let Some(piece) = pieces.next().await {
        output += &piece.map_err(|source| EvaluateError::Engine { id: id.clone(), source })?.text;
    }
    Ok(OutputLine { id, output })
}

fn write(order: &Evaluation, answers: &[OutputLine]) -> Result<(), EvaluateError> {
    let path = &order.outputs;
    let line = |answer| serde_json::to_string(answer).expect("an answer holds only texts") + "\n";
    let text: String = answers.iter().map(line).collect();
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    made.map_err(|source| EvaluateError::Write { path: path.clone(), source })
}
