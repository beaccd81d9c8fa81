//! What a pod serves on its loopback, through kubectl's own port-forward. Reads and writes IO.
//!
//! Who may create `pods/portforward` in the namespace may read it: the API server decides.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

use crate::cluster::Place;

/// How long a pod has for its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of an answer: a pod remembers less.
const MOST_BYTES: u64 = 64 << 20;

/// Forwards ports of pods.
#[derive(Debug, Clone)]
pub struct Forwarder {
    /// kubectl.
    pub program: PathBuf,
    /// Which cluster, and where in it.
    pub place: Place,
}

/// Why a pod gave no answer.
#[derive(Debug, Error)]
pub enum ForwardError {
    /// kubectl does not start.
    #[error("failed to start {program} port-forward: put kubectl on your PATH")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It forwards nothing.
    #[error("kubectl port-forward ended: {said}")]
    Ended {
        /// What it said.
        said: String,
    },
    /// The connection broke.
    #[error("failed to read from the forwarded port")]
    Read(#[source] io::Error),
    /// It took too long.
    #[error("no answer came within {} s", PATIENCE.as_secs())]
    TimedOut,
    /// Something else answered.
    #[error("the forwarded port answered {head:?}")]
    Answer {
        /// How the answer begins.
        head: String,
    },
}

impl Forwarder {
    /// kubectl, for a place.
    pub fn of(place: Place) -> Self {
        Self { program: PathBuf::from("kubectl"), place }
    }

    /// Reads a path of a port of a pod.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub async fn get(&self, pod: &str, port: u16, path: &str) -> Result<Vec<u8>, ForwardError> {
        let mut child = self.command(pod, port).spawn().map_err(|source| {
            let program = self.program.display().to_string();
            ForwardError::Start { program, source }
        })?;
        let answered = async {
            let local = local_port(&mut child).await?;
            exchange(local, path).await.map_err(ForwardError::Read)
        };
        let answer = timeout(PATIENCE, answered).await.map_err(|_| ForwardError::TimedOut)?;
        // It also ends when it is dropped.
        let _ = child.kill().await;
        body(&answer?)
    }

    fn command(&self, pod: &str, port: u16) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.place.flags());
        command.args(["port-forward", "--address", "127.0.0.1", &format!("pod/{pod}"), &format!(":{port}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// The port that kubectl chose, as it says in its first line: `Forwarding from 127.0.0.1:40123 -> 9467`.
async fn local_port(child: &mut Child) -> Result<u16, ForwardError> {
    let mut line = String::new();
    if let Some(out) = child.stdout.as_mut() {
        BufReader::new(out).read_line(&mut line).await.map_err(ForwardError::Read)?;
    }
    let port = line.strip_prefix("Forwarding from 127.0.0.1:").and_then(|rest| rest.split(' ').next()?.parse().ok());
    if let Some(port) = port {
        return Ok(port);
    }
    let mut said = line;
    if let Some(errors) = child.stderr.as_mut() {
        errors.read_to_string(&mut said).await.map_err(ForwardError::Read)?;
    }
    Err(ForwardError::Ended { said: said.split_whitespace().collect::<Vec<_>>().join(" ") })
}

/// One request. Without a later version of HTTP the answer ends with the connection.
async fn exchange(port: u16, path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: pod\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The body of an answer that says that all is well.
fn body(answer: &[u8]) -> Result<Vec<u8>, ForwardError> {
    const END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(END.len()).position(|bytes| bytes == END);
    let head = String::from_utf8_lossy(&answer[..end.unwrap_or(answer.len()).min(200)]).into_owned();
    match end {
        Some(end) if head.split(' ').nth(1) == Some("200") => Ok(answer[end + END.len()..].to_vec()),
        Some(_) | None => Err(ForwardError::Answer { head }),
    }
}
