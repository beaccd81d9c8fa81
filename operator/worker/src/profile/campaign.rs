//! A campaign under way: loads arms, measures levels, keeps records, reports rows.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use slipway_worker_contract::{
    AgentRunSettings, Arm, Digest, Driver, FailureClass, Gpu, LatencyMetric, MeasurementVerdict, Phase, ProfileTask,
    Row, Runs, ServeConfig, paths,
};
use tokio::sync::watch as channel;

use super::{
    ProfileError, Setup,
    agent_run::{Agent, Driven},
    analyzer::{self, AnalyzerError, Measured},
    arrivals::Arrivals,
    check::TaskProblem,
    drivers, gpu_samples,
    judge::{self, Rules},
    progress::Board,
    records::{Circumstances, Records},
    replay::Trace,
    search::{Ended, Next, Search, ToBeat},
    shim, synthetic,
    triton::TritonError,
    watch::Watch,
    workload::Traffic,
};
use crate::{
    entry,
    failure::{self, Classify},
    hash, materialize, whole_file,
};

/// Why an arm with a configuration of its own is not measured on processes that loaded the engine at their start.
const LOADED_FOR_GOOD: &str = "an engine that is split over GPUs is loaded once, with the configuration that it was built with: remove search.parameters";
/// How often the count of a running level is read.
const TICK: Duration = Duration::from_secs(1);

/// What generates the load.
pub(super) enum Load {
    ModelAnalyzer,
    Agent(Agent),
}

impl Load {
    /// The load of a driver.
    pub(super) async fn of(driver: &Driver, task: &ProfileTask, setup: &Setup) -> Result<Self, ProfileError> {
        match driver {
            Driver::ModelAnalyzer => Self::model_analyzer(task, setup),
            Driver::AgentRun(settings) => Self::agent(settings, setup).await,
        }
    }

    fn model_analyzer(task: &ProfileTask, setup: &Setup) -> Result<Self, ProfileError> {
        Traffic::read(&task.workloads).map_err(ProfileError::Workload)?;
        for program in [&setup.tools.model_analyzer, &setup.perf_analyzer] {
            if !is_program(program) {
                return Err(ProfileError::NoProgram { program: program.display().to_string() });
            }
        }
        Ok(Self::ModelAnalyzer)
    }

    /// The tools are answered from the trace until this process ends.
    pub(super) async fn agent(settings: &AgentRunSettings, setup: &Setup) -> Result<Self, ProfileError> {
        let trace = match &settings.trace {
            Runs::Recorded(file) => Trace::read(file),
            Runs::Lengths { lengths, seed } => synthetic::read(lengths, *seed).and_then(Trace::of),
            Runs::Synthetic(of) => Trace::of(synthetic::runs(of)),
        };
        let trace = trace.map_err(ProfileError::Trace)?;
        let arrivals = match (&settings.trace, settings.recorded_replicas) {
            (Runs::Synthetic(of), _) => Arrivals::Random { burst: of.burst },
            (Runs::Recorded(_) | Runs::Lengths { .. }, Some(replicas)) => trace.arrivals.clone().among(replicas),
            (Runs::Recorded(_) | Runs::Lengths { .. }, None) => Arrivals::POISSON,
        };
        let inputs = Arc::new(trace.inputs.clone());
        let address = setup.replay;
        trace.serve(address).await.map_err(|source| ProfileError::Serve { address, source })?;
        Ok(Self::Agent(Agent {
            client: setup.triton.client.clone(),
            endpoint: settings.endpoint.trim_end_matches('/').to_owned(),
            inputs,
            arrivals,
            timeout: Duration::from_millis(settings.timeout_millis),
        }))
    }
}

/// The point of a confirm run.
pub(super) struct Point<'a> {
    pub(super) arm: &'a Arm,
    pub(super) level: u32,
    pub(super) arrivals_per_kilosecond: u64,
    pub(super) length: Duration,
}

/// A level of an arm that is about to be measured.
struct Cell<'a> {
    arm: &'a Arm,
    level: u32,
    started: &'a Instant,
    /// Whether the arm must be loaded first.
    loading: bool,
    to_beat: Option<ToBeat>,
}

/// Why a level has no row of its own.
enum LevelError {
    /// The row says so, and the campaign goes on.
    Row(FailureClass, String),
    /// The server failed: nothing was measured.
    ServerFailed(ProfileError),
    /// The Job was asked to end.
    Cancelled,
    /// The campaign cannot go on.
    Fatal(ProfileError),
}

impl LevelError {
    /// How a campaign of one level ends with it.
    fn of_the_only_level(self) -> Result<Ended, ProfileError> {
        match self {
            Self::Row(class, reason) => Err(ProfileError::AllFailed { class, reason }),
            Self::Fatal(error) | Self::ServerFailed(error) => Err(error),
            Self::Cancelled => Ok(Ended::interrupted()),
        }
    }
}

/// A campaign under way.
pub(super) struct Campaign<'a> {
    pub(super) task: &'a ProfileTask,
    pub(super) setup: &'a Setup,
    pub(super) board: &'a Board,
    pub(super) stop: &'a channel::Receiver<bool>,
    pub(super) load: Load,
    pub(super) arms: &'a [Arm],
    pub(super) max_gpu_millis: u64,
}

impl Campaign<'_> {
    pub(super) async fn explore(&self, search: &dyn Search) -> Result<Ended, ProfileError> {
        let mut loaded: Option<usize> = None;
        let mut class = FailureClass::BadModel;
        // Since when a level is measured at which the server failed.
        let mut disturbed: Option<Instant> = None;
        let ended = loop {
            let rows = self.rows();
            let (position, level) = match search.next(&rows) {
                Next::Done(ended) => break ended,
                Next::Measure { .. } if *self.stop.borrow() => break Ended::interrupted(),
                Next::Measure { arm, level } => match self.gpu_time_used() {
                    Some(ended) => break ended,
                    None => (arm, level),
                },
            };
            let (arm, started) = (&self.arms[position], disturbed.unwrap_or_else(Instant::now));
            let loading = loaded != Some(position);
            loaded = None;
            let cell = Cell { arm, level, started: &started, loading, to_beat: search.to_beat(&rows) };
            let (its_class, reason) = match self.level(&cell).await {
                Ok(row) => {
                    (loaded, disturbed) = (Some(position), None);
                    self.add(row)?;
                    continue;
                }
                Err(LevelError::Row(its_class, reason)) => (its_class, reason),
                // Once may be an accident. What the server does not survive twice fails the level, not the campaign.
                Err(LevelError::ServerFailed(error)) if disturbed.is_none() => {
                    tracing::warn!(arm = arm.id, level, error = failure::chain(&error), "measured once more");
                    disturbed = Some(started);
                    continue;
                }
                Err(LevelError::ServerFailed(error)) => (error.class(), failure::chain(&error)),
                Err(LevelError::Cancelled) => break Ended::interrupted(),
                Err(LevelError::Fatal(error)) => return Err(error),
            };
            (class, disturbed) = (its_class, None);
            self.add(self.failed(arm, level, &started, reason))?;
        };
        self.board.leave_out(search.not_measured(&self.rows(), ended.end));
        self.conclude(ended, class)
    }

    /// The rows of earlier Jobs and of this one.
    fn rows(&self) -> Vec<Row> {
        self.task.measured.iter().chain(&self.board.snapshot().rows).cloned().collect()
    }

    /// Measures one level; after a failure the arm is loaded again, because its state is unknown.
    async fn level(&self, cell: &Cell<'_>) -> Result<Row, LevelError> {
        let Cell { arm, level, started, loading, to_beat } = cell;
        let (level, loading) = (*level, *loading);
        if loading {
            self.unless_stopped(self.load(arm)).await?;
        }
        match &self.load {
            Load::ModelAnalyzer => {
                let measured = match self.analyze(arm, level, to_beat).await {
                    Ok(measured) => measured,
                    Err(AnalyzerError::Cancelled) => return Err(LevelError::Cancelled),
                    Err(error) if error.is_of_this_level() => {
                        let words = failure::chain(&error);
                        self.unless_stopped(self.survived(arm, level, &words)).await?;
                        return Err(LevelError::Row(error.class(), words));
                    }
                    Err(source) => {
                        return Err(LevelError::Fatal(ProfileError::Analyzer { arm: arm.id.clone(), level, source }));
                    }
                };
                self.row(arm, level, started, measured).map_err(LevelError::Fatal)
            }
            Load::Agent(agent) => self.unless_stopped(self.agents(agent, cell)).await,
        }
    }

    /// Measures one level of agent runs.
    async fn agents(&self, agent: &Agent, cell: &Cell<'_>) -> Result<Row, LevelError> {
        let Cell { arm, level, started, loading, to_beat } = cell;
        let measure = &self.task.measure;
        let warm_up = if *loading { measure.warm_up } else { 0 };
        self.warm_up(agent, *level, warm_up).await.map_err(LevelError::Fatal)?;
        self.board.enter(Phase::Measuring { arm: arm.id.clone(), level: *level, count: 0 });
        let seed = seed(&self.task.input_hash, &arm.id, *level);
        let watch = Watch::new(&drivers::measurable(self.task), LatencyMetric::AgentRunLatency, *level)
            .against(to_beat.as_ref())
            .for_the_sake_of(self.task.optimize_for)
            .repeated(drivers::is_repeat(self.task));
        let work = agent.closed_loop(*level, measure, watch, seed);
        let (driven, gpu) = self.sampled(work).await;
        self.survived_runs(arm, *level, &driven).await?;
        self.agent_row((arm, *level), started, (driven, gpu)).map_err(LevelError::Fatal)
    }

    /// Looks whether a level failed because the server did: that says nothing of the configuration, unless memory was
    /// what it lacked.
    async fn survived(&self, arm: &Arm, level: u32, words: &str) -> Result<(), LevelError> {
        let models = entry::models(&self.task.model, self.task.entry);
        let Err(source) = self.setup.triton.survived(&models, words).await else { return Ok(()) };
        let class = source.class();
        let error = ProfileError::ServerFailed { arm: arm.id.clone(), level, words: words.to_owned(), source };
        Err(match class.retries() {
            true => LevelError::ServerFailed(error),
            false => LevelError::Row(class, failure::chain(&error)),
        })
    }

    async fn survived_runs(&self, arm: &Arm, level: u32, driven: &Driven) -> Result<(), LevelError> {
        if driven.errors == 0 { Ok(()) } else { self.survived(arm, level, &driven.reason).await }
    }

    /// Drops work once the Job is asked to end: a model that is slow to load or unload must not hold it.
    async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T, LevelError>>) -> Result<T, LevelError> {
        let mut stop = self.stop.clone();
        tokio::select! {
            done = work => done,
            _ = stop.wait_for(|stop| *stop) => Err(LevelError::Cancelled),
        }
    }

    /// Runs the chosen point open-loop at its rate, full length.
    pub(super) async fn confirm(&self, point: &Point<'_>) -> Result<Ended, ProfileError> {
        let Load::Agent(agent) = &self.load else { return Err(ProfileError::Task(TaskProblem::ConfirmDriver)) };
        let (arm, started) = (point.arm, Instant::now());
        if let Err(error) = self.unless_stopped(self.load(arm)).await {
            return error.of_the_only_level();
        }
        self.warm_up(agent, point.level, self.task.measure.warm_up).await?;
        self.board.enter(Phase::Measuring { arm: arm.id.clone(), level: point.level, count: 0 });
        // All arms have the same part of recorded traffic: a quieter one would make any of them look better.
        let seed = match agent.arrivals {
            Arrivals::Recorded(_) => seed(&self.task.input_hash, "recorded", 0),
            Arrivals::Random { .. } => seed(&self.task.input_hash, &arm.id, point.level),
        };
        let mut stop = self.stop.clone();
        let work = agent.open_loop(point.level, point.arrivals_per_kilosecond, point.length, seed);
        let (driven, gpu) = tokio::select! {
            driven = self.sampled(work) => driven,
            _ = stop.wait_for(|stop| *stop) => return Ok(Ended::interrupted()),
        };
        if let Err(error) = self.unless_stopped(self.survived_runs(arm, point.level, &driven)).await {
            return error.of_the_only_level();
        }
        let row = self.agent_row((arm, point.level), &started, (driven, gpu))?;
        let reason = format!("the point was run at {} arrivals in 1,000 s", point.arrivals_per_kilosecond);
        self.add(row)?;
        Ok(Ended::complete(reason))
    }

    async fn warm_up(&self, agent: &Agent, level: u32, runs: u32) -> Result<(), ProfileError> {
        agent.warm_up(level, runs).await.map_err(|words| ProfileError::Agent { words })
    }

    /// Samples the GPUs while runs of a level are made, where a limit needs that. perf_analyzer does so itself.
    async fn sampled<T>(&self, work: impl Future<Output = T>) -> (T, Option<Gpu>) {
        if self.task.gpu_limits.is_empty() {
            return (work.await, None);
        }
        let url = format!("http://{}/metrics", self.setup.tools.metrics);
        let (done, samples) = gpu_samples::during(&self.setup.triton.client, &url, work).await;
        (done, samples.figures())
    }

    fn agent_row(
        &self,
        (arm, level): (&Arm, u32),
        started: &Instant,
        (driven, gpu): (Driven, Option<Gpu>),
    ) -> Result<Row, ProfileError> {
        let Driven { chunks, errors, arrivals_per_kilosecond, reason } = driven;
        let known = self.circumstances(started, reason);
        let circumstances = Circumstances { errors, arrivals_per_kilosecond, gpu, ..known };
        let metric = LatencyMetric::AgentRunLatency;
        self.judged(&Records { format_version: 1, metric, arm: arm.id.clone(), level, circumstances, chunks })
    }

    /// A campaign of which nothing came is a failed Job.
    fn conclude(&self, ended: Ended, class: FailureClass) -> Result<Ended, ProfileError> {
        let rows = self.board.snapshot().rows;
        let failed = |row: &Row| row.verdict == MeasurementVerdict::Failed;
        match rows.first() {
            Some(first) if self.task.measured.is_empty() && rows.iter().all(failed) => {
                Err(ProfileError::AllFailed { class, reason: first.reason.clone() })
            }
            Some(_) | None => Ok(ended),
        }
    }

    /// The end, if the GPU time left is less than the last row took, or than any row takes.
    fn gpu_time_used(&self) -> Option<Ended> {
        let progress = self.board.snapshot();
        let left = self.max_gpu_millis.saturating_sub(progress.gpu_millis);
        let next = match progress.rows.last() {
            Some(row) => row.gpu_millis,
            None => self.task.measure.min_chunk_millis * u64::from(self.task.gpus.max(1)),
        };
        if next <= left {
            return None;
        }
        let (total, left, next) = (self.max_gpu_millis / 1000, left / 1000, next.div_ceil(1000));
        Some(Ended::budget_used(match progress.rows.is_empty() {
            true => format!(
                "the budget is too small for one measurement: {total} s of GPU time are left and one takes at least \
                 {next} s; raise profiling.budget.gpuHours"
            ),
            false => {
                format!("{left} s of the GPU time of {total} s are left, and the last measurement took {next} s")
            }
        }))
    }

    /// Loads an arm as it would be served. A refusal by Triton fails the arm, and any other error the campaign.
    async fn load(&self, arm: &Arm) -> Result<(), LevelError> {
        self.board.enter(Phase::Loading { arm: Some(arm.id.clone()) });
        tracing::info!(arm = arm.id, "loading");
        let refused = |error: TritonError| match error {
            TritonError::Load { .. } | TritonError::Ended { .. } => {
                LevelError::Row(error.class(), failure::chain(&error))
            }
            TritonError::NotLive { .. }
            | TritonError::Unload { .. }
            | TritonError::Connection(_)
            | TritonError::Died { .. }
            | TritonError::Restarted { .. }
            | TritonError::LostProcess => LevelError::Fatal(ProfileError::Triton(error)),
        };
        let (triton, models) = (&self.setup.triton, entry::models(&self.task.model, self.task.entry));
        // A server that died starts again by itself.
        triton.wait_live().await.map_err(refused)?;
        if self.task.loaded_at_start {
            return if arm.config == ServeConfig::default() {
                triton.ensure_all(&models).await.map_err(refused)
            } else {
                Err(LevelError::Row(FailureClass::BadModel, LOADED_FOR_GOOD.to_owned()))
            };
        }
        triton.unload_all(&models).await.map_err(refused)?;
        let order = materialize::MaterializeTask { serve: arm.config.clone(), ..self.setup.engine.clone() };
        let work = tokio::task::spawn_blocking(move || materialize::run(&order)).await;
        let materialized = work.map_err(|source| LevelError::Fatal(ProfileError::Interrupted(source)))?;
        let configure = |source| ProfileError::Configure { arm: arm.id.clone(), source };
        materialized.map_err(|source| LevelError::Fatal(configure(source)))?;
        triton.load_all(&models).await.map_err(refused)
    }

    async fn analyze(&self, arm: &Arm, level: u32, to_beat: &Option<ToBeat>) -> Result<Measured, AnalyzerError> {
        let folder = self.setup.work.join(format!("{}-{level}", arm.id));
        // Left by an earlier container of this pod.
        let _ = fs::remove_dir_all(&folder);
        let order = shim::LevelTask {
            perf_analyzer: self.setup.perf_analyzer.clone(),
            folder: folder.clone(),
            workloads: self.task.workloads.clone(),
            tokenizer: self.task.tokenizer.as_ref().map(Into::into),
            entry: self.task.entry,
            no_build: self.task.no_build,
            measure: self.task.measure.clone(),
            objectives: drivers::measurable(self.task),
            optimize_for: self.task.optimize_for,
            is_repeat: drivers::is_repeat(self.task),
            to_beat: to_beat.clone(),
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
        // perf_analyzer ends a run at its first error: a level with records has none.
        let model_analyzer = Some(model_analyzer);
        let circumstances = Circumstances { gpu, model_analyzer, ..self.circumstances(started, ended) };
        let metric = LatencyMetric::RequestLatency;
        self.judged(&Records { format_version: 1, metric, arm: arm.id.clone(), level, circumstances, chunks })
    }

    fn judged(&self, records: &Records) -> Result<Row, ProfileError> {
        let (digest, kept) = self.keep(records)?;
        judge::reported(&kept, Some(digest), &Rules::of(self.task)).map_err(ProfileError::Row)
    }

    /// Stores records under their digest and returns what the store then holds: the row is computed from that.
    fn keep(&self, records: &Records) -> Result<(Digest, Records), ProfileError> {
        let bytes = records.to_bytes();
        let digest = hash::bytes(&bytes);
        let folder = self.setup.engine.store.join(paths::records(&self.task.input_hash, &self.task.engine));
        let path = folder.join(format!("{digest}.json"));
        let kept = whole_file::write(&path, &bytes).and_then(|()| fs::read(&path));
        let kept = kept.map_err(|source| ProfileError::Keep { path, source })?;
        Ok((digest, Records::parse(&kept).map_err(ProfileError::Records)?))
    }

    fn failed(&self, arm: &Arm, level: u32, started: &Instant, reason: String) -> Row {
        tracing::warn!(arm = arm.id, level, reason, "failed");
        let circumstances = self.circumstances(started, reason);
        let (metric, arm, chunks) = (LatencyMetric::RequestLatency, arm.id.clone(), Vec::new());
        let records = Records { format_version: 1, metric, arm, level, circumstances, chunks };
        Row { verdict: MeasurementVerdict::Failed, ..judge::row(&records, &Rules::default()) }
    }

    fn add(&self, row: Row) -> Result<(), ProfileError> {
        let row = row.fitted().map_err(ProfileError::Row)?;
        tracing::info!(arm = row.arm, level = row.level, verdict = ?row.verdict, count = row.count, "measured");
        self.board.add(row);
        Ok(())
    }

    /// Without a GPU the pod's wall time counts.
    fn circumstances(&self, started: &Instant, ended: String) -> Circumstances {
        let gpu_millis = started.elapsed().as_millis() as u64 * u64::from(self.task.gpus.max(1));
        Circumstances { gpu_millis, ended, ..Circumstances::default() }
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
