//! `supervise`: runs tritonserver, or an engine's own server, as the first process of its container.
//!
//! Triton starts without a model and under explicit control, because a sidecar that loads at start and fails restarts
//! for ever. As the first process the supervisor forwards signals and collects every orphan (Triton's Python stubs). At
//! the end it says in the termination message how Triton ended and what it wrote last.

mod ending;
mod exceptions;

use std::{
    collections::VecDeque,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender},
    },
    thread,
    time::Duration,
};

pub use ending::Ending;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use slipway_backends::{no_build::OwnServer, tensorrt_llm::launch, triton::on_loopback};
use slipway_worker_contract::{FailureClass, Message, paths};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::failure::Classify;

/// Lines kept of what Triton writes.
const TAIL_LINES: usize = 40;
/// Lines kept of what vLLM writes: its server's traceback follows that of the engine's process, which says what went
/// wrong.
const VLLM_TAIL_LINES: usize = 400;
/// How long the last lines may take once the server is dead.
const LAST_LINES_WAIT: Duration = Duration::from_secs(2);
/// How long a container stays whose server ended at once, so that it is seen: the kubelet looks every second.
const SEEN_WAIT: Duration = Duration::from_secs(5);
/// Bytes kept of one line.
const LINE_BYTES: usize = 2_000;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Lines kept of what it writes, the latest.
    pub log_lines: usize,
    /// File for the reason of its exit, for the container that waits beside it. Absent if the server itself reports it.
    pub ended: Option<PathBuf>,
}

/// Says why nothing ran.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The program is not in the image.
    #[error("the image has no program {program:?}: it is not a Triton image, or its PATH lacks it")]
    NoProgram {
        /// The program.
        program: String,
    },
    /// The program cannot be started.
    #[error("failed to start {program:?}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Signals cannot be received.
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
}

impl Classify for SuperviseError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoProgram { .. } => FailureClass::ImageMismatch,
            Self::Start { .. } | Self::Signals(_) => FailureClass::Infrastructure,
        }
    }
}

/// Composes Triton's command line: explicit control for the pod alone, and a readiness that does not wait for models.
pub fn triton(program: &str, repository: &str, load: &[String], extra: &[String]) -> Server {
    let mut arguments = vec![
        format!("--model-repository={repository}"),
        "--model-control-mode=explicit".to_owned(),
        "--strict-readiness=false".to_owned(),
    ];
    arguments.extend(on_loopback());
    arguments.extend(load.iter().map(|model| format!("--load-model={model}")));
    arguments.extend(extra.iter().cloned());
    Server { program: program.to_owned(), arguments, log_lines: TAIL_LINES, ended: None }
}

/// Composes the command line of a backend's own server for the engine in a folder. The server loads the model when it
/// starts, and exits if it cannot; its last log lines are left beside the engine.
pub fn own_server(server: &OwnServer, engine: &Path) -> Server {
    let mut command = (server.command)(&engine.to_string_lossy(), paths::CHECKPOINT).into_iter();
    Server {
        program: command.next().unwrap_or_default(),
        arguments: command.collect(),
        log_lines: VLLM_TAIL_LINES,
        ended: Some(engine.join(paths::SERVER_ENDED)),
    }
}

/// Composes the command line for an engine of TensorRT-LLM with one process per rank. Several processes load it
/// when they start. If that fails, the process that answers requests stays, to report the reason.
pub fn tensorrt_llm(program: &str, repository: &str, ranks: u32, extra: &[String]) -> Server {
    let own = ["--strict-readiness=false", "--exit-on-error=false"].map(str::to_owned);
    let server = launch::Server {
        program: program.to_owned(),
        repository: repository.to_owned(),
        ranks,
        models: Vec::new(),
        arguments: Vec::new(),
        leader_arguments: [&own[..], &on_loopback(), extra].concat(),
    };
    let mut command = server.command().into_iter();
    let program = command.next().unwrap_or_default();
    Server { program, arguments: command.collect(), log_lines: TAIL_LINES, ended: None }
}

/// Runs the server until it ends.
///
/// # Errors
/// [`SuperviseError`] if it did not start.
pub async fn run(server: &Server) -> Result<Ending, SuperviseError> {
    let mut signals = forwarded_signals().map_err(SuperviseError::Signals)?;
    let mut deaths = signal(SignalKind::child()).map_err(SuperviseError::Signals)?;
    if let Some(path) = &server.ended {
        // Of the life before, where there was one.
        let _ = fs::remove_file(path);
    }
    let running = Running::start(server)?;
    let mut is_asked_to_end = false;
    loop {
        tokio::select! {
            Some(forwarded) = signals.recv() => {
                is_asked_to_end = true;
                // The server may be gone already; its end is noticed by the other branch.
                let _ = kill_process_group(running.pid, forwarded);
            }
            _ = deaths.recv() => if let Some(ending) = running.collect() {
                let ending = running.end(server, ending);
                if let (Some(path), Some(message), false) = (&server.ended, ending.message(), is_asked_to_end) {
                    leave(path, &message);
                    // The kubelet starts who waits only once it has seen this container run.
                    let _ = tokio::time::timeout(SEEN_WAIT, signals.recv()).await;
                }
                return Ok(ending);
            },
        }
    }
}

/// Leaves the message of an end. Its reader has its own time limit.
fn leave(path: &Path, message: &Message) {
    let text = serde_json::to_vec(message).expect("a message is plain data");
    if let Err(error) = fs::write(path, text) {
        tracing::warn!(path = %path.display(), %error, "the end of the server cannot be told to who waits for it");
    }
}

/// The server's process group and what it writes.
struct Running {
    pid: Pid,
    tail: Tail,
    pumps: Receiver<()>,
}

impl Running {
    fn start(server: &Server) -> Result<Self, SuperviseError> {
        let mut command = Command::new(&server.program);
        command.args(&server.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: the server and its helpers get each signal once, and from us.
        let mut child = command.process_group(0).spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => SuperviseError::NoProgram { program: server.program.clone() },
            _ => SuperviseError::Start { program: server.program.clone(), source },
        })?;
        let tail = Tail::new(server.log_lines);
        let (closed, pumps) = std::sync::mpsc::channel();
        tail.pump(child.stdout.take(), |line| drop(io::stdout().write_all(line)), closed.clone());
        tail.pump(child.stderr.take(), |line| drop(io::stderr().write_all(line)), closed);
        Ok(Self { pid: Pid::from_child(&child), tail, pumps })
    }

    /// Collects all dead children; returns how the server ended if it is among them.
    fn collect(&self) -> Option<rustix::process::WaitStatus> {
        let mut ending = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                ending = Some(status);
            }
        }
        ending
    }

    /// Ends what the server left running, so that its pipes close, and reads the last lines.
    fn end(self, server: &Server, status: rustix::process::WaitStatus) -> Ending {
        // None may be left.
        let _ = kill_process_group(self.pid, Signal::KILL);
        // The channel closes with the last pipe. A helper that left the group may hold one open; it ends with us.
        while self.pumps.recv_timeout(LAST_LINES_WAIT).is_ok() {}
        Ending {
            program: server.program.clone(),
            code: status.exit_status(),
            signal: status.terminating_signal(),
            tail: self.tail.lines(),
        }
    }
}

/// The last lines of both outputs, in the order they came.
#[derive(Clone)]
struct Tail {
    lines: Arc<Mutex<VecDeque<String>>>,
    most: usize,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { lines: Arc::default(), most }
    }

    /// Copies an output line by line on a thread of its own, which drops `closed` at its end.
    fn pump(&self, output: Option<impl Read + Send + 'static>, write: fn(&[u8]), closed: Sender<()>) {
        let tail = self.clone();
        thread::spawn(move || {
            output.into_iter().for_each(|output| tail.copy(output, write));
            drop(closed);
        });
    }

    fn copy(&self, output: impl Read, write: fn(&[u8])) {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            write(&line);
            let text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES)]).trim_end().to_owned();
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() == self.most {
                lines.pop_front();
            }
            lines.push_back(text);
            line.clear();
        }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Receives the signals that a container runtime or a person sends.
fn forwarded_signals() -> io::Result<mpsc::Receiver<Signal>> {
    let kinds = [
        (SignalKind::terminate(), Signal::TERM),
        (SignalKind::interrupt(), Signal::INT),
        (SignalKind::hangup(), Signal::HUP),
        (SignalKind::quit(), Signal::QUIT),
        (SignalKind::user_defined1(), Signal::USR1),
        (SignalKind::user_defined2(), Signal::USR2),
    ];
    let (sender, receiver) = mpsc::channel(kinds.len());
    for (kind, forwarded) in kinds {
        let (mut stream, sender) = (signal(kind)?, sender.clone());
        tokio::spawn(async move { while stream.recv().await.is_some() && sender.send(forwarded).await.is_ok() {} });
    }
    Ok(receiver)
}
