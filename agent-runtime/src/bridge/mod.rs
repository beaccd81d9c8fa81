//! Serves a program that speaks MCP on its standard input and output as a server of MCP over HTTP. IO.
//!
//! It runs in the container of the program, whose image knows nothing of it. It listens on a socket in a folder that
//! this container and the sidecar alone have. Both ways to speak pass: messages are handed on as they are, but for
//! their ids. When the program ends, reads no more or says no more, the bridge ends; the kubelet starts both again.
//!
//! The transports: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>.

mod lines;
mod peer;
mod serve;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::Arc,
    time::Duration,
};

use tokio::{net::UnixListener, process::Command, task::JoinError, time::timeout};
use tokio_util::sync::CancellationToken;

use peer::Peer;

/// How long the program may take to end once its input has ended.
const END_TIME: Duration = Duration::from_secs(5);
/// How long a program may take to end after it has closed a pipe. One that ends closes both first.
const EXIT_TIME: Duration = Duration::from_secs(1);

/// Why the bridge ended.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    /// No program was named.
    #[error("no program is named; write it and its arguments behind --")]
    NoProgram,
    /// The program cannot be started.
    #[error("failed to start {program:?}; name a program of the image")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("failed to listen on {}", socket.display())]
    Listen {
        /// Its path.
        socket: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program ended by itself.
    #[error("{program:?} has ended ({status})")]
    Ended {
        /// The program.
        program: String,
        /// How.
        status: ExitStatus,
    },
    /// The program runs on, and can be asked no more.
    #[error("{program:?} has closed its standard {stream}, and runs on")]
    Closed {
        /// The program.
        program: String,
        /// Which of its streams.
        stream: &'static str,
        /// What the system said, unless it was closed in order.
        #[source]
        source: Option<io::Error>,
    },
    /// It cannot be waited for, or nothing can be served.
    #[error("failed to run {program:?}")]
    Run {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Serves at a socket until `stop`.
///
/// # Errors
/// [`BridgeError`]. The end of the program is one.
pub async fn run(socket: &Path, command: &[String], stop: CancellationToken) -> Result<(), BridgeError> {
    let listener = listen(socket).map_err(|source| BridgeError::Listen { socket: socket.to_owned(), source })?;
    serve(listener, command, stop).await
}

/// A bridge that ran before has left its socket.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(socket)
}

/// The same with a socket that listens already.
///
/// # Errors
/// [`BridgeError`].
pub async fn serve(listener: UnixListener, command: &[String], stop: CancellationToken) -> Result<(), BridgeError> {
    let Some((program, arguments)) = command.split_first() else { return Err(BridgeError::NoProgram) };
    let failed = |source| BridgeError::Run { program: program.clone(), source };
    let ended = |status| BridgeError::Ended { program: program.clone(), status };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| BridgeError::Start { program: program.clone(), source })?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(failed(io::Error::other("it has no standard input and output")));
    };
    let (peer, lines) = Peer::new();
    let peer = Arc::new(peer);
    let mut written = tokio::spawn(peer::write(stdin, lines));
    let mut read = tokio::spawn(peer::read(stdout, Arc::clone(&peer)));
    tracing::info!(program, "the MCP server is started");
    let closed = |stream, of_pipe| BridgeError::Closed { program: program.clone(), stream, source: cause(of_pipe) };
    let mut outcome = tokio::select! {
        biased;
        status = child.wait() => Err(status.map_or_else(failed, ended)),
        end = &mut read => Err(closed("output", end)),
        end = &mut written => Err(closed("input", end)),
        served = axum::serve(listener, serve::router(peer)).into_future() => served.map_err(failed),
        () = stop.cancelled() => Ok(()),
    };
    if let Err(BridgeError::Closed { .. }) = &outcome
        && let Ok(status) = timeout(EXIT_TIME, child.wait()).await
    {
        outcome = Err(status.map_or_else(failed, ended));
    }
    // Who writes it holds its input.
    written.abort();
    if timeout(END_TIME, child.wait()).await.is_err() {
        tracing::warn!(program, "the MCP server does not end with its input: it is killed");
        child.kill().await.map_err(failed)?;
    }
    read.abort();
    outcome
}

/// Why a pipe is closed, unless in order.
fn cause(end: Result<io::Result<()>, JoinError>) -> Option<io::Error> {
    end.map_err(io::Error::other).and_then(|end| end).err()
}
