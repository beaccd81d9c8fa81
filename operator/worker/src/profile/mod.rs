//! `profile`: measures one engine's serving configurations. See PROFILE.md for how, and why so.

pub mod analyzer;
pub mod check;
pub mod chunks;
pub mod judge;
pub mod progress;
pub mod records;
pub mod search;
pub mod shim;
pub mod triton;
pub mod watch;
pub mod workload;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use analyzer::{AnalyzerError, Measured, Tools};
use check::{CheckedTask, TaskProblem};
use progress::Board;
use records::{Records, RecordsError};
use search::{Ladder, Next, Search};
use slipway_worker_contract::{
    Arm, Digest, FailureClass, Phase, ProfileResult, ProfileTask, Row, RowTooLarge, Verdict, paths,
};
use tokio::sync::watch as channel;
use triton::{Triton, TritonError};
use workload::{Traffic, WorkloadError};

use crate::{
    failure::{self, Classify},
    hash,
    materialize::{self, MaterializeError},
};

/// How often the count of a running level is read.
const TICK: Duration = Duration::from_secs(1);

/// Everything around the task.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The engine and where it lies; its serving configuration is replaced by each arm's.
    pub engine: materialize::Order,
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
    /// The port is taken.
    #[error("failed to serve progress on {address}")]
    Serve {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The engine cannot be put before Triton.
    #[error("failed to configure arm {arm:?}")]
    Configure {
        /// The arm.
        arm: String,
        /// What is wrong.
        #[source]
        source: MaterializeError,
    },
    /// Triton does not do what it is asked.
    #[error("Triton cannot be used")]
    Triton(#[source] TritonError),
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
            Self::Task(_) | Self::Workload(_) => FailureClass::BadModel,
            Self::NoProgram { .. } => FailureClass::ImageMismatch,
            Self::Configure { source, .. } => source.class(),
            Self::Triton(source) => source.class(),
            Self::Analyzer { source, .. } => source.class(),
            Self::AllFailed { class, .. } => *class,
            Self::Serve { .. } | Self::Keep { .. } | Self::Records(_) | Self::Row(_) | Self::Interrupted(_) => {
                FailureClass::Infrastructure
            }
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
        Ok(reason) => Phase::Finished { reason: reason.clone() },
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
    ended.map(|reason| ProfileResult {
        input_hash: progress.input_hash,
        rows: progress.rows,
        omitted_rows: 0,
        gpu_millis: progress.gpu_millis,
        reason,
    })
}

async fn measure(
    task: &ProfileTask,
    setup: &Setup,
    board: &Board,
    stop: &channel::Receiver<bool>,
) -> Result<String, ProfileError> {
    let checked = CheckedTask::new(task).map_err(ProfileError::Task)?;
    Traffic::read(&task.workloads).map_err(ProfileError::Workload)?;
    for program in [&setup.tools.model_analyzer, &setup.perf_analyzer] {
        if !is_program(program) {
            return Err(ProfileError::NoProgram { program: program.display().to_string() });
        }
    }
    setup.triton.wait_live().await.map_err(ProfileError::Triton)?;
    let search = Ladder::new(checked.arms, checked.levels, checked.max_measurements, task.measured.len());
    let campaign = Explorer { task, setup, board, stop, arms: checked.arms, max_gpu_millis: checked.max_gpu_millis };
    campaign.run(&search).await
}

/// A campaign under way.
struct Explorer<'a> {
    task: &'a ProfileTask,
    setup: &'a Setup,
    board: &'a Board,
    stop: &'a channel::Receiver<bool>,
    arms: &'a [Arm],
    max_gpu_millis: u64,
}

impl Explorer<'_> {
    async fn run(&self, search: &dyn Search) -> Result<String, ProfileError> {
        let mut loaded: Option<usize> = None;
        let mut class = FailureClass::BadModel;
        let reason = loop {
            let rows: Vec<Row> = self.task.measured.iter().chain(&self.board.snapshot().rows).cloned().collect();
            let (position, level) = match search.next(&rows) {
                Next::Done(reason) => break reason,
                Next::Measure { .. } if *self.stop.borrow() => break "the Job was asked to end".to_owned(),
                Next::Measure { .. } if self.budget_is_used() => {
                    break format!("the GPU time of {} s is used", self.max_gpu_millis / 1000);
                }
                Next::Measure { arm, level } => (arm, level),
            };
            let (arm, started) = (&self.arms[position], Instant::now());
            if loaded != Some(position) {
                loaded = None;
                match self.load(arm).await {
                    Ok(()) => loaded = Some(position),
                    Err(ProfileError::Triton(error @ TritonError::Load { .. })) => {
                        class = error.class();
                        self.add(self.failed(arm, level, &started, failure::chain(&error)))?;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            match self.analyze(arm, level).await {
                Ok(measured) => self.add(self.row(arm, level, &started, measured)?)?,
                Err(AnalyzerError::Cancelled) => break "the Job was asked to end".to_owned(),
                Err(error) if error.is_of_this_level() => {
                    class = error.class();
                    self.add(self.failed(arm, level, &started, failure::chain(&error)))?;
                }
                Err(source) => return Err(ProfileError::Analyzer { arm: arm.id.clone(), level, source }),
            }
        };
        self.conclude(reason, class)
    }

    /// A campaign of which nothing came is a failed Job.
    fn conclude(&self, reason: String, class: FailureClass) -> Result<String, ProfileError> {
        let rows = self.board.snapshot().rows;
        let failed = |row: &Row| row.verdict == Verdict::Failed;
        match rows.first() {
            Some(first) if self.task.measured.is_empty() && rows.iter().all(failed) => {
                Err(ProfileError::AllFailed { class, reason: first.reason.clone() })
            }
            Some(_) | None => Ok(reason),
        }
    }

    fn budget_is_used(&self) -> bool {
        let progress = self.board.snapshot();
        let last = progress.rows.last().map_or(0, |row| row.gpu_millis);
        progress.gpu_millis + last > self.max_gpu_millis
    }

    async fn load(&self, arm: &Arm) -> Result<(), ProfileError> {
        self.board.enter(Phase::Loading { arm: Some(arm.id.clone()) });
        tracing::info!(arm = arm.id, "loading");
        self.setup.triton.unload(&self.task.model).await.map_err(ProfileError::Triton)?;
        let order = materialize::Order { serve: arm.config.clone(), ..self.setup.engine.clone() };
        let work = tokio::task::spawn_blocking(move || materialize::run(&order));
        let materialized = work.await.map_err(ProfileError::Interrupted)?;
        materialized.map_err(|source| ProfileError::Configure { arm: arm.id.clone(), source })?;
        self.setup.triton.load(&self.task.model).await.map_err(ProfileError::Triton)
    }

    async fn analyze(&self, arm: &Arm, level: u32) -> Result<Measured, AnalyzerError> {
        let folder = self.setup.work.join(format!("{}-{level}", arm.id));
        // Left by an earlier container of this pod.
        let _ = fs::remove_dir_all(&folder);
        let order = shim::Order {
            perf_analyzer: self.setup.perf_analyzer.clone(),
            folder: folder.clone(),
            workloads: self.task.workloads.clone(),
            measure: self.task.measure.clone(),
            objectives: self.task.objectives.clone(),
            seed: seed(&self.task.input_hash, &arm.id, level),
        };
        tracing::info!(arm = arm.id, level, "measuring");
        let run = analyzer::run(&self.setup.tools, &self.task.model, level, &order, self.stop.clone());
        tokio::pin!(run);
        let mut ticks = tokio::time::interval(TICK);
        let measured = loop {
            tokio::select! {
                measured = &mut run => break measured?,
                _ = ticks.tick() => {
                    let count = shim::kept(&folder);
                    self.board.enter(Phase::Measuring { arm: arm.id.clone(), level, count });
                }
            }
        };
        let _ = fs::remove_dir_all(&folder);
        Ok(measured)
    }

    fn row(&self, arm: &Arm, level: u32, started: &Instant, measured: Measured) -> Result<Row, ProfileError> {
        let Measured { outcome, row: model_analyzer, gpu } = measured;
        let (chunks, ended) = match outcome {
            shim::Outcome::Measured { chunks, reason } => (chunks, reason),
            shim::Outcome::Failed { reason } => return Ok(self.failed(arm, level, started, reason)),
        };
        let records = Records { format_version: 1, arm: arm.id.clone(), level, chunks };
        let (digest, records) = self.keep(&records)?;
        let circumstances = judge::Circumstances { gpu_millis: self.gpu_millis(started), ended };
        let row = judge::row(&records, &self.task.objectives, circumstances);
        Ok(Row { gpu, model_analyzer: Some(model_analyzer), records: Some(digest), ..row })
    }

    /// Stores records under their digest and returns what the store then holds: the row is computed from that.
    fn keep(&self, records: &Records) -> Result<(Digest, Records), ProfileError> {
        let bytes = records.to_bytes();
        let digest = hash::bytes(&bytes);
        let folder = self.setup.engine.store.join(paths::records(&self.task.input_hash, &self.task.engine));
        let path = folder.join(format!("{digest}.json"));
        let keep = || {
            fs::create_dir_all(&folder)?;
            fs::write(&path, &bytes)?;
            fs::read(&path)
        };
        let kept = keep().map_err(|source| ProfileError::Keep { path: path.clone(), source })?;
        Ok((digest, Records::parse(&kept).map_err(ProfileError::Records)?))
    }

    fn failed(&self, arm: &Arm, level: u32, started: &Instant, reason: String) -> Row {
        tracing::warn!(arm = arm.id, level, reason, "failed");
        let records = Records { format_version: 1, arm: arm.id.clone(), level, chunks: Vec::new() };
        let circumstances = judge::Circumstances { gpu_millis: self.gpu_millis(started), ended: reason };
        Row { verdict: Verdict::Failed, ..judge::row(&records, &[], circumstances) }
    }

    fn add(&self, row: Row) -> Result<(), ProfileError> {
        let row = row.fitted().map_err(ProfileError::Row)?;
        tracing::info!(arm = row.arm, level = row.level, verdict = ?row.verdict, count = row.count, "measured");
        self.board.add(row);
        Ok(())
    }

    /// Without a GPU the pod's wall time counts.
    fn gpu_millis(&self, started: &Instant) -> u64 {
        started.elapsed().as_millis() as u64 * u64::from(self.task.gpus.max(1))
    }
}

/// Seeds request bodies by what they are for: a repeated measurement sends the same.
fn seed(input_hash: &str, arm: &str, level: u32) -> u64 {
    let digest = hash::bytes(format!("{input_hash}/{arm}/{level}").as_bytes());
    u64::from_str_radix(&digest.as_str()[..16], 16).unwrap_or_default()
}

fn is_program(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
