//! The operator's processes, as the node has them. Reads and writes IO.

use std::time::Duration;

use crate::{
    cluster,
    namespace::{Outcome, ScenarioError},
};

/// The operator's program, as the kernel keeps its name: the first 15 characters.
const PROGRAM: &str = "slipway-operato";
/// Variable of its environment that names its pod.
const POD: &str = "POD_NAME=";
/// Longest time in which a container that has ended is started again, and a little more.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A process of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Name of its pod.
    pub pod: String,
    id: String,
}

/// The processes that run.
///
/// # Errors
/// When the node cannot be entered.
pub fn running() -> Outcome<Vec<Process>> {
    let (_, ids) = on_node(&["pgrep", "--exact", PROGRAM])?;
    let process = |id: &str| {
        // One that ends meanwhile has no environment, and is none any more.
        let (is_there, environment) = on_node(&["cat", &format!("/proc/{id}/environ")])?;
        let pod = environment.split('\0').find_map(|variable| variable.strip_prefix(POD));
        Ok(pod.filter(|_| is_there).map(|pod| Process { pod: pod.to_owned(), id: id.to_owned() }))
    };
    ids.lines().filter_map(|id| process(id).transpose()).collect()
}

/// Sends SIGKILL to the operator, once it runs. Gives the pods whose processes ended.
///
/// # Errors
/// When none runs in time.
pub async fn kill() -> Outcome<Vec<String>> {
    let deadline = tokio::time::Instant::now() + START_LIMIT;
    loop {
        let mut killed = Vec::new();
        for process in running()? {
            let (is_killed, _) = on_node(&["kill", "-KILL", &process.id])?;
            killed.extend(is_killed.then_some(process.pod));
        }
        if !killed.is_empty() {
            return Ok(killed);
        }
        if tokio::time::Instant::now() > deadline {
            return Err(none("a process of the operator to kill"));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A process that stands still; it goes on when this is dropped.
pub struct Still(Process);

impl Still {
    /// Stops the process of a pod, wherever it is.
    ///
    /// # Errors
    /// When the pod has none.
    pub fn of(pod: &str) -> Outcome<Self> {
        let process = running()?.into_iter().find(|process| process.pod == pod);
        let process = process.ok_or_else(|| none(&format!("a process of {pod} to stop")))?;
        let still = Self(process);
        let (is_stopped, _) = on_node(&["kill", "-STOP", &still.0.id])?;
        if is_stopped { Ok(still) } else { Err(none(&format!("a process of {pod} to stop"))) }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        // One that was ended meanwhile has no need to go on.
        drop(on_node(&["kill", "-CONT", &self.0.id]));
    }
}

/// Whether a command succeeded, and what it printed.
fn on_node(command: &[&str]) -> Outcome<(bool, String)> {
    let output = cluster::on_node(command)
        .map_err(|error| ScenarioError::Refused { what: command.join(" "), failure: error.to_string() })?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

fn none(what: &str) -> ScenarioError {
    ScenarioError::TimedOut { what: what.to_owned(), seconds: START_LIMIT.as_secs(), last: "none runs".to_owned() }
}
