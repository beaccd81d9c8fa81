//! Waits for an AgentDeployment, and tells what happens. Reads IO and the clock.

use std::{
    io::{self, Write},
    time::Duration,
};

use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::{Cluster, ClusterError},
    progress::{Look, Narrator, Progress, progress},
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
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

/// Tells what happens until the AgentDeployment is Ready and nothing is under way.
///
/// # Errors
/// When it stalls, waits for a person, does not get there within `limit`, or the cluster gives no answer.
pub async fn wait(
    cluster: &Cluster,
    name: &str,
    limit: Duration,
    out: &mut (dyn Write + Send),
) -> Result<(), WaitError> {
    let started = Instant::now();
    let mut narrator = Narrator::default();
    loop {
        let object = cluster.get(name).await.map_err(WaitError::Cluster)?;
        let events = cluster.events(&object).await.map_err(WaitError::Cluster)?;
        let profile = cluster.profile(&object).await.map_err(WaitError::Cluster)?;
        let elapsed = started.elapsed();
        let look = Look { object: &object, events: &events, profile: profile.as_ref() };
        for line in narrator.tell(elapsed, look) {
            writeln!(out, "{line}").map_err(WaitError::Write)?;
        }
        match progress(&object) {
            Progress::Ready => {
                let line = format!("{:>5} s  {name} is ready", elapsed.as_secs());
                return writeln!(out, "{line}").map_err(WaitError::Write);
            }
            Progress::Stalled(why) => return Err(WaitError::Stalled { name: name.to_owned(), why }),
            Progress::Suspended(why) => return Err(WaitError::Suspended { name: name.to_owned(), why }),
            Progress::InProgress(at) if elapsed >= limit => {
                return Err(WaitError::TimedOut { name: name.to_owned(), seconds: limit.as_secs(), at });
            }
            Progress::InProgress(_) => sleep(LOOK_EVERY).await,
        }
    }
}
