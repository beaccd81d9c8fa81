//! Commands that show something of a cluster: reads it, and writes text, or a document for programs. Reads and writes
//! IO.

use std::io::{self, Write};

use k8s_openapi::jiff::Timestamp;
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_vocabulary::{evidence::Evidence, failure::chain};
use thiserror::Error;

use crate::{
    arms::arms,
    cluster::{Cluster, ClusterError},
    conversation::{Run, conversation},
    explain::{self, UnknownCandidate, explain},
    measured::Measurements,
    outlook::{is_judged, outlook},
    output::{Format, OutputError, Shown, document, one_of_several},
    overview::overview,
    rollout,
    store::store as store_text,
    terminal,
    tree::{
        Seen, Tree,
        text::{Focus, Moments, Screen, text},
    },
    view::{rollout::RolloutView, status::StatusView, store::StoreView},
};

/// Why nothing can be shown.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// The cluster gave no answer.
    #[error("failed to show the AgentDeployment")]
    Read(#[source] ClusterError),
    /// Nothing is known of the store.
    #[error("failed to show the artifact store")]
    ReadStore(#[source] ClusterError),
    /// There is no such candidate to explain.
    #[error("failed to explain {name}")]
    Explain {
        /// Name of the AgentDeployment.
        name: String,
        /// Which are known.
        #[source]
        source: UnknownCandidate,
    },
    /// The document cannot be made.
    #[error("failed to show the AgentDeployment")]
    Output(#[source] OutputError),
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

/// Where an answer goes, and in which form.
pub struct Answer<'a> {
    /// A document in place of text.
    pub format: Option<Format>,
    /// Whether it follows other documents.
    pub is_one_of_several: bool,
    /// Where it is written.
    pub out: &'a mut (dyn Write + Send),
}

impl Answer<'_> {
    /// Writes what is shown, or its text.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn write<T: Shown>(&mut self, shown: &T, text: impl FnOnce(&T) -> String) -> Result<(), AnswerError> {
        let written = match self.format {
            Some(format) if self.is_one_of_several => one_of_several(format, shown).map_err(AnswerError::Output)?,
            Some(format) => document(format, shown).map_err(AnswerError::Output)?,
            None => text(shown),
        };
        self.out.write_all(written.as_bytes()).map_err(AnswerError::Write)
    }
}

/// Shows the tree of an AgentDeployment.
///
/// # Errors
/// When there is none of that name, or the API server refuses.
pub async fn tree(cluster: &Cluster, name: &str, mut answer: Answer<'_>) -> Result<(), AnswerError> {
    let object = cluster.get(name).await.map_err(AnswerError::Read)?;
    let pods = cluster.pods(name).await.map_err(AnswerError::Read)?;
    let events = cluster.events(&object).await.map_err(AnswerError::Read)?;
    let tree = Tree::of(Seen { object: &object, pods: &pods, events: &events });
    let width = terminal::size().map_or(terminal::DEFAULT_WIDTH, |size| size.columns);
    let (moments, focus) = (Moments::Ages(Timestamp::now()), Focus::Agent);
    let screen = Screen { width, ink: terminal::ink(), moments, focus };
    answer.write(&tree, |tree| text(tree, &screen))
}

/// Shows stage, conditions, engines, candidates, choice and objectives.
///
/// # Errors
/// When there is none of that name, or the API server refuses.
pub async fn status(cluster: &Cluster, name: &str, mut answer: Answer<'_>) -> Result<(), AnswerError> {
    let object = cluster.get(name).await.map_err(AnswerError::Read)?;
    let profile = cluster.profile(&object).await.map_err(AnswerError::Read)?;
    let evidence = cluster.evidence(name).await.map(|evidence| Measurements::of(&evidence));
    let counted = evidence.as_ref().map_err(|error| chain(error));
    let view = StatusView::of(&object, profile.as_ref(), counted.clone());
    answer.write(&view, |_| {
        let nothing = Measurements::default();
        let mut text = overview(&object, profile.as_ref(), counted.as_ref().copied().unwrap_or(&nothing));
        if let Err(why) = counted {
            text.push_str(&format!("  (the pods' measurements cannot be read: {why})\n"));
        }
        text
    })
}

/// Shows the rollout, what the pods of both revisions counted, and how long a verdict takes.
///
/// # Errors
/// When there is none of that name, or the API server refuses.
pub async fn rollout(cluster: &Cluster, name: &str, mut answer: Answer<'_>) -> Result<(), AnswerError> {
    let object = cluster.get(name).await.map_err(AnswerError::Read)?;
    let evidence = if is_judged(&object) { cluster.evidence(name).await } else { Ok(Vec::new()) };
    let counted = evidence.as_deref().map_err(|error| chain(error));
    let view = RolloutView::of(&object, counted.clone());
    answer.write(&view, |_| rollout_text(&object, counted))
}

fn rollout_text(object: &AgentDeployment, counted: Result<&[Evidence], String>) -> String {
    let mut text = rollout::rollout(object);
    if text.is_empty() {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        text = format!("{name}: no rollout is in progress, and no plan was rolled back\n");
    }
    if !is_judged(object) {
        return text;
    }
    text.push_str(&rollout::self_check(object));
    match counted {
        Ok(evidence) => text.push_str(&format!("{}{}", arms(object, evidence), outlook(object, evidence))),
        Err(why) => {
            text.push_str(&format!("(what the pods counted, and how long a verdict takes, is not known: {why})\n"))
        }
    }
    text
}

/// Shows what the artifact store holds, and what needs that.
///
/// # Errors
/// When nothing is known of the store, or the API server refuses.
pub async fn store(cluster: &Cluster, mut answer: Answer<'_>) -> Result<(), AnswerError> {
    let record = cluster.store().await.map_err(AnswerError::ReadStore)?;
    answer.write(&StoreView::of(&record), store_text)
}

/// Explains the choice, and why no other candidate serves.
///
/// # Errors
/// When there is no such AgentDeployment or candidate, or the API server refuses.
pub async fn explanation(
    cluster: &Cluster,
    (name, candidate): (&str, Option<&str>),
    mut answer: Answer<'_>,
) -> Result<(), AnswerError> {
    let object = cluster.get(name).await.map_err(AnswerError::Read)?;
    let profile = cluster.profile(&object).await.map_err(AnswerError::Read)?;
    let explained = explain(&object, profile.as_ref(), candidate);
    let explained = explained.map_err(|source| AnswerError::Explain { name: name.to_owned(), source })?;
    answer.write(&explained, explain::text)
}

/// Shows a run of an agent.
///
/// # Errors
/// When nothing can be written.
pub fn run(question: &str, run: &Run, mut answer: Answer<'_>) -> Result<(), AnswerError> {
    answer.write(run, |run| conversation(question, run))
}
