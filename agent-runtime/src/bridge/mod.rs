//! Serves a program that speaks MCP on its standard input and output as a server of MCP over HTTP. IO.
//!
//! It runs in the container of the program, whose image knows nothing of it, and listens for the sidecar of the same
//! pod. Both ways to speak pass: messages are handed on as they are, but for their ids. When the program ends, so does
//! the bridge; the kubelet starts both again.
//!
//! The transports: <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports>.

mod peer;
mod serve;

use std::{io, net::SocketAddr, process::ExitStatus, sync::Arc, time::Duration};

use tokio::{net::TcpListener, process::Command};
use tokio_util::sync::CancellationToken;

use peer::Peer;

/// How long the program may take to end once its input has ended.
const END_TIME: Duration = Duration::from_secs(5);

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
    /// The port is taken.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
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

/// Serves at an address until `stop`.
///
/// # Errors
/// [`BridgeError`]. The end of the program is one.
pub async fn run(address: SocketAddr, command: &[String], stop: CancellationToken) -> Result<(), BridgeError> {
    let listener = TcpListener::bind(address).await.map_err(|source| BridgeError::Listen { address, source })?;
    serve(listener, command, stop).await
}

/// The same with a port that listens already.
///
/// # Errors
/// [`BridgeError`].
pub async fn serve(listener: TcpListener, command: &[String], stop: CancellationToken) -> Result<(), BridgeError> {
    let Some((program, arguments)) = command.split_first() else { return Err(BridgeError::NoProgram) };
    let failed = |source| BridgeError::Run { program: program.clone(), source };
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
    let written = tokio::spawn(peer::write(stdin, lines));
    let read = tokio::spawn(peer::read(stdout, Arc::clone(&peer)));
    tracing::info!(program, "the MCP server is started");
    let outcome = tokio::select! {
        status = child.wait() => Err(status.map_or_else(failed, |status| BridgeError::Ended { program: program.clone(), status })),
        served = axum::serve(listener, serve::router(peer)).into_future() => served.map_err(failed),
        () = stop.cancelled() => Ok(()),
    };
    // Who writes it holds its input.
    written.abort();
    if outcome.is_ok() && tokio::time::timeout(END_TIME, child.wait()).await.is_err() {
        tracing::warn!(program, "the MCP server does not end with its input: it is killed");
        child.kill().await.map_err(failed)?;
    }
    read.abort();
    outcome
}
