//! `slipway-preflight [TASK]`: checks the GPUs of this container, writes a report, and ends with 0 or 1.
//! `slipway-preflight watch`: counts what they do, and tells it on loopback.
//!
//! The task is a `PreflightTask` in JSON, by default `{}`: one GPU, nearly all of whose memory is free.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Write},
    panic,
    path::Path,
    process::ExitCode,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use slipway_preflight::{check, message, nvidia::Nvidia, serve, weights};
use slipway_vocabulary::preflight::{GpuRefusal, PreflightReport, PreflightTask};
use thiserror::Error;

/// Where the kubelet looks for a container's last words.
const TERMINATION_LOG: &str = "/dev/termination-log";
/// Time for all checks. A GPU that has fallen off its bus may never answer.
const LIMIT: Duration = Duration::from_secs(30);
/// The word in place of a task, for the program beside a server.
const WATCH: &str = "watch";
/// Name of its copy there.
const PROGRAM: &str = "slipway-preflight";

#[derive(Debug, Error)]
enum PreflightError {
    #[error(
        "this program was built static, and such a program loads no library: build it for its image, as docs/gpu.md says"
    )]
    Static,
    #[error("the argument is not a task in JSON, such as {{\"gpus\": 1}}")]
    ReadTask {
        #[source]
        source: serde_json::Error,
    },
    #[error("failed to measure the engine's weights")]
    MeasureWeights {
        #[source]
        source: weights::WeightsError,
    },
    #[error("failed to copy this program to {folder}")]
    Copy {
        folder: String,
        #[source]
        source: io::Error,
    },
    #[error("nothing is known of the GPUs: {0}")]
    Watch(GpuRefusal),
    #[error("failed to answer on loopback, port {}", slipway_vocabulary::telemetry::PORT)]
    Serve {
        #[source]
        source: io::Error,
    },
    #[error("failed to write the report")]
    WriteReport {
        #[source]
        source: serde_json::Error,
    },
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}{}", causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, PreflightError> {
    if cfg!(target_feature = "crt-static") {
        return Err(PreflightError::Static);
    }
    let written = env::args().nth(1).unwrap_or_else(|| "{}".to_owned());
    if written == WATCH {
        return watch();
    }
    let task: PreflightTask = serde_json::from_str(&written).map_err(|source| PreflightError::ReadTask { source })?;
    if let Some(folder) = &task.copy_to {
        let copied = env::current_exe().and_then(|own| fs::copy(own, Path::new(folder).join(PROGRAM)));
        copied.map_err(|source| PreflightError::Copy { folder: folder.clone(), source })?;
    }
    let weights_mib = match &task.engine {
        Some(folder) => {
            Some(weights::mib(Path::new(folder)).map_err(|source| PreflightError::MeasureWeights { source })?)
        }
        None => None,
    };
    let report = report(&task, weights_mib);
    let text = message::encode(&report, task.message_bytes).map_err(|source| PreflightError::WriteReport { source })?;
    say(&text);
    Ok(match report.refused() {
        None => ExitCode::SUCCESS,
        Some(words) => {
            eprintln!("error: {words}");
            ExitCode::FAILURE
        }
    })
}

/// Beside a server: a failure goes to the log, and the server goes on.
fn watch() -> Result<ExitCode, PreflightError> {
    let nvidia = Nvidia::open().map_err(PreflightError::Watch)?;
    let gpus = nvidia.at_server().map_err(PreflightError::Watch)?;
    serve::run(&gpus).map_err(|source| PreflightError::Serve { source })?;
    Ok(ExitCode::SUCCESS)
}

/// The checks in a thread of their own, so that a driver that never answers is reported too.
fn report(task: &PreflightTask, weights_mib: Option<u64>) -> PreflightReport {
    let started = Instant::now();
    let refused = |refusal| PreflightReport::of(vec![refusal]);
    let (done, wait) = mpsc::sync_channel(1);
    let asked = task.clone();
    // What panics is reported; its words on the standard error would be the kubelet's message.
    panic::set_hook(Box::new(|_| {}));
    thread::spawn(move || {
        let report = Nvidia::open().map_or_else(refused, |gpus| check(&gpus, &asked, weights_mib));
        // Nobody waits any more once the time is over.
        let _ = done.send(report);
    });
    let report =
        wait.recv_timeout(LIMIT).unwrap_or_else(|_| refused(GpuRefusal::TimedOut { seconds: LIMIT.as_secs() }));
    PreflightReport { millis: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX), ..report }
}

/// Writes the report where the kubelet and people look. Outside of a pod there is no termination log.
fn say(text: &str) {
    println!("{text}");
    let log = OpenOptions::new().write(true).open(TERMINATION_LOG);
    let written = log.and_then(|mut log| log.write_all(text.as_bytes()));
    if let Err(error) = written
        && error.kind() != io::ErrorKind::NotFound
    {
        eprintln!("warning: {TERMINATION_LOG} cannot be written: {error}");
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.map(|cause| format!(": {cause}")).collect()
}
