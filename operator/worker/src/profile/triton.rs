//! The server in a Job: Triton with its repository API, or an engine's own server.
//!
//! <https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md>

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use slipway_backends::{no_build, triton::lost_a_process};
use slipway_vocabulary::serving::Server;
use slipway_worker_contract::{FailureClass, Message, NoBuildBackend, paths};

use crate::failure::Classify;

/// How often a state is polled.
const POLL: Duration = Duration::from_millis(200);
/// How long a server that just failed a request may take to say that it lives.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// A Triton with explicit model control, or an engine's own server in its place.
#[derive(Clone, Debug)]
pub struct Triton {
    /// The connections.
    pub client: Client,
    /// As in `http://127.0.0.1:8000`.
    pub url: String,
    /// How long a server may take to live and a model to unload.
    pub patience: Duration,
    /// What it is.
    pub kind: ServerKind,
}

/// What serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Triton, whose repository API loads models.
    Triton,
    /// The engine's own server, which loads its model before it lives.
    Own {
        /// The engine's display name.
        product: &'static str,
        /// Where its supervisor says how it ended.
        ended: PathBuf,
    },
}

impl ServerKind {
    /// What serves an engine of this backend that lies in this folder.
    pub fn of(no_build: Option<NoBuildBackend>, engine: &Path) -> Self {
        match no_build.map(|backend| (backend.server(), no_build::of(backend).product)) {
            Some((Server::Own, product)) => Self::Own { product, ended: engine.join(paths::SERVER_ENDED) },
            None | Some((Server::Triton, _)) => Self::Triton,
        }
    }

    /// Its name, and the path that answers once it lives.
    fn health(&self) -> (String, &'static str) {
        match self {
            Self::Triton => ("Triton".to_owned(), "v2/health/live"),
            Self::Own { product, .. } => (format!("{product}'s server"), "health"),
        }
    }

    /// How it ended, if it did.
    fn ended(&self) -> Result<(), TritonError> {
        let Self::Own { ended, .. } = self else { return Ok(()) };
        let Ok(text) = fs::read(ended) else { return Ok(()) };
        match serde_json::from_slice(&text) {
            Ok(Message::Failed { class, text }) => Err(TritonError::Ended { class, text }),
            // Half of a message: the rest is being written.
            Ok(Message::Succeeded { .. }) | Err(_) => Ok(()),
        }
    }
}

/// Says what Triton does not do.
#[derive(Debug, thiserror::Error)]
pub enum TritonError {
    /// Nobody answers.
    #[error("{server} at {url} was not live after {seconds} s: see its container's log")]
    NotLive {
        /// What serves.
        server: String,
        /// The address.
        url: String,
        /// Waited.
        seconds: u64,
    },
    /// It ended while it was waited for.
    #[error("{text}")]
    Ended {
        /// Whether another attempt can help.
        class: FailureClass,
        /// How.
        text: String,
    },
    /// The model cannot be loaded; Triton's words.
    #[error("Triton cannot load {model:?}: {reason}")]
    Load {
        /// The model.
        model: String,
        /// Triton's words.
        reason: String,
    },
    /// The model stays.
    #[error("Triton did not unload {model:?} within {seconds} s")]
    Unload {
        /// The model.
        model: String,
        /// Waited.
        seconds: u64,
    },
    /// The connection failed.
    #[error("the connection to Triton failed")]
    Connection(#[source] reqwest::Error),
    /// It served, and answers no longer.
    #[error("{server} at {url} died: see its container's log")]
    Died {
        /// What served.
        server: String,
        /// The address.
        url: String,
    },
    /// It served a model, and lives without it.
    #[error("Triton no longer serves {model:?}, as after a restart: see its container's log")]
    Restarted {
        /// The model.
        model: String,
    },
    /// It lives, and a process of its Python backend does not.
    #[error("Triton lost a process of its Python backend: see its container's log")]
    LostProcess,
}

impl Classify for TritonError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Load { reason, .. } if is_memory(reason) => FailureClass::InsufficientMemory,
            Self::Load { reason, .. } if lost_a_process(reason) => FailureClass::Infrastructure,
            Self::Load { .. } => FailureClass::BadModel,
            Self::Ended { class, .. } => *class,
            Self::NotLive { .. }
            | Self::Unload { .. }
            | Self::Connection(_)
            | Self::Died { .. }
            | Self::Restarted { .. }
            | Self::LostProcess => FailureClass::Infrastructure,
        }
    }
}

/// A server that had loaded its model did not refuse it, whatever its last lines say.
fn while_it_served(error: TritonError) -> TritonError {
    match error {
        TritonError::Ended { class: FailureClass::BadModel, text } => {
            TritonError::Ended { class: FailureClass::Infrastructure, text }
        }
        error => error,
    }
}

fn is_memory(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["out of memory", "bad_alloc", "bad allocation", "cannot allocate", "memoryerror"]
        .iter()
        .any(|m| reason.contains(m))
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

#[derive(Deserialize)]
struct IndexEntry {
    name: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    reason: String,
}

impl Triton {
    /// Waits until the server lives; Triton has no model then, an engine's own server has its only one.
    ///
    /// # Errors
    /// [`TritonError::NotLive`], or [`TritonError::Ended`].
    pub async fn wait_live(&self) -> Result<(), TritonError> {
        let started = Instant::now();
        let (server, path) = self.kind.health();
        let url = format!("{}/{path}", self.url);
        while !self.client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            self.kind.ended()?;
            if started.elapsed() > self.patience {
                let (url, seconds) = (self.url.clone(), self.patience.as_secs());
                return Err(TritonError::NotLive { server, url, seconds });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Looks whether a request failed because the server did. `words` are what was said of the request.
    ///
    /// # Errors
    /// [`TritonError::Ended`], [`TritonError::Died`], [`TritonError::Restarted`] or [`TritonError::LostProcess`]. None
    /// of them is a bad model, since the server had loaded it.
    pub async fn survived(&self, models: &[String], words: &str) -> Result<(), TritonError> {
        self.kind.ended().map_err(while_it_served)?;
        let (server, health) = self.kind.health();
        if !self.says_yes(health).await {
            return Err(TritonError::Died { server, url: self.url.clone() });
        }
        if let ServerKind::Own { .. } = self.kind {
            return Ok(());
        }
        for model in models {
            if !self.says_yes(&format!("v2/models/{model}/ready")).await {
                return Err(TritonError::Restarted { model: model.clone() });
            }
        }
        if lost_a_process(words) { Err(TritonError::LostProcess) } else { Ok(()) }
    }

    async fn says_yes(&self, path: &str) -> bool {
        let question = self.client.get(format!("{}/{path}", self.url)).timeout(HEALTH_TIMEOUT);
        question.send().await.is_ok_and(|answer| answer.status().is_success())
    }

    /// Unloads a model and waits until its memory is free; nothing happens if it is not loaded.
    ///
    /// # Errors
    /// [`TritonError::Unload`] or [`TritonError::Connection`].
    pub async fn unload(&self, model: &str) -> Result<(), TritonError> {
        self.post(&format!("v2/repository/models/{model}/unload")).await?;
        let started = Instant::now();
        while self.is_present(model).await? {
            if started.elapsed() > self.patience {
                return Err(TritonError::Unload { model: model.to_owned(), seconds: self.patience.as_secs() });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Unloads models, the last one first: it calls those before it.
    ///
    /// # Errors
    /// As [`Self::unload`].
    pub async fn unload_all(&self, models: &[String]) -> Result<(), TritonError> {
        for model in models.iter().rev() {
            self.unload(model).await?;
        }
        Ok(())
    }

    /// Loads models in their order.
    ///
    /// # Errors
    /// [`TritonError::Load`] of the first that cannot be loaded.
    pub async fn load_all(&self, models: &[String]) -> Result<(), TritonError> {
        for model in models {
            self.load(model).await?;
        }
        Ok(())
    }

    /// Loads those models that are not loaded, in their order.
    ///
    /// # Errors
    /// As [`Self::ensure`].
    pub async fn ensure_all(&self, models: &[String]) -> Result<(), TritonError> {
        for model in models {
            self.ensure(model).await?;
        }
        Ok(())
    }

    /// Loads a model from the repository and makes sure that it is ready.
    ///
    /// # Errors
    /// [`TritonError::Load`] with Triton's words.
    pub async fn load(&self, model: &str) -> Result<(), TritonError> {
        let (status, body) = self.post(&format!("v2/repository/models/{model}/load")).await?;
        if !status.is_success() {
            let reason = serde_json::from_str(&body).map_or(body, |Refusal { error }| error);
            return Err(TritonError::Load { model: model.to_owned(), reason: one_line(&reason) });
        }
        let url = format!("{}/v2/models/{model}/ready", self.url);
        let ready = self.client.get(&url).send().await.map_err(TritonError::Connection)?.status();
        if ready.is_success() {
            return Ok(());
        }
        let reason = format!("it reports the model as loaded, but the model's readiness check answers {ready}");
        Err(TritonError::Load { model: model.to_owned(), reason })
    }

    /// Loads a model that others call, unless it is loaded. Processes of a split engine loaded it when they started,
    /// or report why not.
    ///
    /// # Errors
    /// [`TritonError::Load`] with Triton's words.
    pub async fn ensure(&self, model: &str) -> Result<(), TritonError> {
        if let ServerKind::Own { .. } = self.kind {
            return self.wait_live().await;
        }
        let index = self.index().await?;
        match index.iter().find(|entry| entry.name == model) {
            Some(entry) if entry.state == "READY" => Ok(()),
            Some(IndexEntry { state, reason, .. })
                if state == "UNAVAILABLE" && !matches!(reason.as_str(), "" | "unloaded") =>
            {
                Err(TritonError::Load { model: model.to_owned(), reason: one_line(reason) })
            }
            Some(_) | None => self.load(model).await,
        }
    }

    async fn is_present(&self, model: &str) -> Result<bool, TritonError> {
        let index = self.index().await?;
        Ok(index.iter().any(|entry| entry.name == model && !matches!(entry.state.as_str(), "" | "UNAVAILABLE")))
    }

    async fn index(&self) -> Result<Vec<IndexEntry>, TritonError> {
        let (_, body) = self.post("v2/repository/index").await?;
        Ok(serde_json::from_str(&body).unwrap_or_default())
    }

    async fn post(&self, path: &str) -> Result<(StatusCode, String), TritonError> {
        let request = self.client.post(format!("{}/{path}", self.url)).body("{}");
        let answer = request.send().await.map_err(TritonError::Connection)?;
        let status = answer.status();
        Ok((status, answer.text().await.map_err(TritonError::Connection)?))
    }
}

/// Python's tracebacks come with line breaks and end in a semicolon; a condition is one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches([' ', ';']).to_owned()
}
