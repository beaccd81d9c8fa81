//! Waits for an AgentDeployment, and tells what happens. Reads and writes IO, and reads the clock.

use std::{io, time::Duration};

use kube::ResourceExt;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::{
    answers::Answer,
    cluster::{Cluster, ClusterError},
    output::{Format, OutputError, one_of_several},
    progress::{Look, Narrator, Progress, progress},
    view::wait::WaitView,
};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the wait did not end well.
#[derive(Debug, Error)]
pub enum WaitError {
    /// The cluster gave no answer.
    #[error("failed to read the state")]
    Cluster(#[source] ClusterError),
    /// Work has stopped.
    #[error("{name} is stalled: {why}; see `kubectl describe agd {name}`")]
    Stalled {
        /// Name of the AgentDeployment.
        name: String,
        /// Reason and message.
        why: String,
    },
    /// A person has to decide.
    #[error("{name} waits for you: {why}; see `kubectl slipway rollout {name}`")]
    Suspended {
        /// Name of the AgentDeployment.
        name: String,
        /// Reason and message.
        why: String,
    },
    /// Time is over.
    #[error("timed out after {seconds} s waiting for {name}; last state: {at}")]
    TimedOut {
        /// Name of the AgentDeployment.
        name: String,
        /// How long.
        seconds: u64,
        /// Its last state.
        at: String,
    },
    /// A document cannot be made.
    #[error("failed to show the progress")]
    Output(#[source] OutputError),
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

/// Tells what happens until the AgentDeployment is Ready and nothing is under way: in lines, or in a document for each
/// change.
///
/// # Errors
/// When it stalls, waits for a person, does not get there within `limit`, or the cluster gives no answer.
pub async fn wait(cluster: &Cluster, name: &str, limit: Duration, answer: Answer<'_>) -> Result<(), WaitError> {
    let started = Instant::now();
    let mut narrator = Narrator::default();
    loop {
        let object = cluster.get(name).await.map_err(WaitError::Cluster)?;
        let events = cluster.events(&object).await.map_err(WaitError::Cluster)?;
        let profile = cluster.profile(&object).await.map_err(WaitError::Cluster)?;
        let elapsed = started.elapsed();
        let look = Look { object: &object, events: &events, profile: profile.as_ref() };
        let written = written(&mut narrator, (elapsed, look), answer.format).map_err(WaitError::Output)?;
        answer.out.write_all(written.as_bytes()).and_then(|()| answer.out.flush()).map_err(WaitError::Write)?;
        match progress(&object) {
            Progress::Ready => return Ok(()),
            Progress::Stalled(why) => return Err(WaitError::Stalled { name: name.to_owned(), why }),
            Progress::Suspended(why) => return Err(WaitError::Suspended { name: name.to_owned(), why }),
            Progress::InProgress(at) if elapsed >= limit => {
                return Err(WaitError::TimedOut { name: name.to_owned(), seconds: limit.as_secs(), at });
            }
            Progress::InProgress(_) => sleep(LOOK_EVERY).await,
        }
    }
}

/// What a look adds: a document, or lines for people.
fn written(
    narrator: &mut Narrator,
    (elapsed, look): (Duration, Look<'_>),
    format: Option<Format>,
) -> Result<String, OutputError> {
    let Some(format) = format else { return Ok(lines(narrator, elapsed, look)) };
    let Some(news) = narrator.news(look) else { return Ok(String::new()) };
    one_of_several(format, &WaitView::of(look.object, elapsed, &news))
}

fn lines(narrator: &mut Narrator, elapsed: Duration, look: Look<'_>) -> String {
    let mut lines = narrator.tell(elapsed, look);
    if progress(look.object) == Progress::Ready {
        lines.push(format!("{:>5} s  {} is ready", elapsed.as_secs(), look.object.name_any()));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}
