//! `profile`: measures one engine's serving configurations. See PROFILE.md for how, and why so.

pub mod agent_run;
pub mod analyzer;
pub mod arrivals;
mod campaign;
pub mod check;
pub mod chunks;
pub mod data;
pub mod drivers;
pub mod gpu_samples;
pub mod input;
pub mod judge;
pub mod progress;
pub mod recompute;
pub mod records;
pub mod replay;
pub mod search;
pub mod shim;
pub mod synthetic;
pub mod triton;
pub mod watch;
pub mod workload;

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use analyzer::{AnalyzerError, Tools};
use campaign::{Campaign, Load, Point};
use check::{CheckedTask, TaskProblem};
use progress::Board;
use records::RecordsError;
use replay::TraceError;
use search::{Ended, Given, Plan};
use slipway_worker_contract::{FailureClass, Phase, ProfileResult, ProfileTask, RowTooLarge};
use tokio::sync::watch as channel;
use triton::{Triton, TritonError};
use workload::WorkloadError;

use crate::{
    failure::{self, Classify},
    materialize::{self, MaterializeError},
};

/// Everything around the task.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The engine and where it lies; its serving configuration is replaced by each arm's.
    pub engine: materialize::MaterializeTask,
    /// Model Analyzer and Triton's addresses.
    pub tools: Tools,
    /// The real perf_analyzer.
    pub perf_analyzer: PathBuf,
    /// Triton's repository API.
    pub triton: Triton,
    /// Where runs leave their files; a folder per level is made and removed.
    pub work: PathBuf,
    /// Where progress is served.
    pub progress: SocketAddr,
    /// Where the sidecar's tools are answered from the trace.
    pub replay: SocketAddr,
    /// How long the result waits to be acknowledged.
    pub hold: Duration,
}

/// Says why a campaign ended without its rows.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The task cannot be measured.
    #[error("the profile's task cannot be measured")]
    Task(#[source] TaskProblem),
    /// The traffic cannot be made.
    #[error("the profile's workload cannot be sent")]
    Workload(#[source] WorkloadError),
    /// A tool is missing.
    #[error("the image has no program {program}: use an image with Model Analyzer and perf_analyzer")]
    NoProgram {
        /// The program.
        program: String,
    },
    /// The trace cannot be replayed.
    #[error("the profile's trace cannot be replayed")]
    Trace(#[source] TraceError),
    /// The agent does not run on a ready model.
    #[error("the agent cannot be measured: {words}")]
    Agent {
        /// The last run's words.
        words: String,
    },
    /// The port is taken.
    #[error("failed to serve on {address}")]
    Serve {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The engine cannot be copied for Triton.
    #[error("failed to configure arm {arm:?}")]
    Configure {
        /// The arm.
        arm: String,
        /// What is wrong.
        #[source]
        source: MaterializeError,
    },
    /// Triton does not do what it is asked.
    #[error("what serves the engine cannot be used")]
    Triton(#[source] TritonError),
    /// The server failed, and the measurement with it.
    #[error("the server failed while arm {arm:?} was measured at level {level} ({words})")]
    ServerFailed {
        /// The arm.
        arm: String,
        /// Requests in flight.
        level: u32,
        /// What was said of the measurement.
        words: String,
        /// How the server failed.
        #[source]
        source: TritonError,
    },
    /// Model Analyzer cannot be used.
    #[error("failed to measure arm {arm:?} at level {level}")]
    Analyzer {
        /// The arm.
        arm: String,
        /// Requests in flight.
        level: u32,
        /// What is wrong.
        #[source]
        source: AnalyzerError,
    },
    /// No arm could be measured at any level.
    #[error("no configuration could be measured; the first: {reason}")]
    AllFailed {
        /// Whether another attempt can help.
        class: FailureClass,
        /// The first row's words.
        reason: String,
    },
    /// Records cannot be kept.
    #[error("failed to keep records at {}", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Records that were just kept cannot be read.
    #[error("the kept records cannot be read")]
    Records(#[source] RecordsError),
    /// A row is larger than it may be.
    #[error("a row cannot be reported")]
    Row(#[source] RowTooLarge),
    /// A task of ours ended without a result.
    #[error("the campaign was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl Classify for ProfileError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Task(_) | Self::Workload(_) | Self::Trace(_) => FailureClass::BadModel,
            Self::NoProgram { .. } => FailureClass::ImageMismatch,
            Self::Configure { source, .. } => source.class(),
            Self::Triton(source) | Self::ServerFailed { source, .. } => source.class(),
            Self::Analyzer { source, .. } => source.class(),
            Self::AllFailed { class, .. } => *class,
            Self::Agent { .. }
            | Self::Serve { .. }
            | Self::Keep { .. }
            | Self::Records(_)
            | Self::Row(_)
            | Self::Interrupted(_) => FailureClass::Infrastructure,
        }
    }
}

/// Measures, serves progress, and holds the result until it is acknowledged.
///
/// # Errors
/// [`ProfileError`]; rows that were finished by then were served and are held too.
pub async fn run(
    task: &ProfileTask,
    setup: &Setup,
    stop: channel::Receiver<bool>,
) -> Result<ProfileResult, ProfileError> {
    let board = Board::new(task);
    let (_, server) =
        board.serve(setup.progress).await.map_err(|source| ProfileError::Serve { address: setup.progress, source })?;
    let ended = measure(task, setup, &board, &stop).await;
    board.enter(match &ended {
        Ok(Ended { end, reason }) => Phase::Finished { end: *end, reason: reason.clone() },
        Err(error) => Phase::Failed { class: error.class(), text: failure::chain(error) },
    });
    if !*stop.borrow() {
        let mut stopped = stop.clone();
        tokio::select! {
            () = board.hold(setup.hold) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    }
    server.abort();
    let progress = board.snapshot();
    ended.map(|Ended { end, reason }| ProfileResult {
        input_hash: progress.input_hash,
        rows: progress.rows,
        omitted_rows: 0,
        gpu_millis: progress.gpu_millis,
        end,
        reason,
        not_measured: progress.not_measured,
        omitted_not_measured: 0,
    })
}

async fn measure(
    task: &ProfileTask,
    setup: &Setup,
    board: &Board,
    stop: &channel::Receiver<bool>,
) -> Result<Ended, ProfileError> {
    let checked = CheckedTask::new(task).map_err(ProfileError::Task)?;
    let load = match checked {
        CheckedTask::Explore { driver, .. } | CheckedTask::Repeat { driver, .. } => {
            Load::of(driver, task, setup).await?
        }
        CheckedTask::Confirm { agent, .. } => Load::agent(agent, setup).await?,
    };
    setup.triton.wait_live().await.map_err(ProfileError::Triton)?;
    match checked {
        CheckedTask::Explore { arms, levels, max_measurements, max_gpu_millis, driver: _ } => {
            let search = search::choose(task, Plan::new(arms, levels, max_measurements, task.measured.len()));
            Campaign { task, setup, board, stop, load, arms, max_gpu_millis }.explore(search.as_ref()).await
        }
        CheckedTask::Repeat { points, max_gpu_millis, driver: _ } => {
            let given = Given::new(points);
            let arms = given.arms();
            Campaign { task, setup, board, stop, load, arms: &arms, max_gpu_millis }.explore(&given).await
        }
        CheckedTask::Confirm { arm, level, arrivals_per_kilosecond, run_millis, agent: _ } => {
            let point = Point { arm, level, arrivals_per_kilosecond, length: Duration::from_millis(run_millis) };
            let (arms, max_gpu_millis) = (std::slice::from_ref(arm), u64::MAX);
            Campaign { task, setup, board, stop, load, arms, max_gpu_millis }.confirm(&point).await
        }
    }
}
