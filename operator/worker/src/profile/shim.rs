//! The stand-in for perf_analyzer under Model Analyzer: chunks, and a decision between them. See PROFILE.md.

use std::{
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use slipway_agent_runtime::backend::{BackendError, Entry, tokens::TokenizerError};
use slipway_worker_contract::{
    EngineEntry, LatencyMetric, LatencyObjective, MeasureSettings, NoBuildBackend, OptimizeFor, Workload,
};

use super::{
    chunks::{self, SoFar},
    input::input_data,
    records::{self, Chunk, RecordsError},
    search::ToBeat,
    watch::{Decision, Watch},
    workload::{Traffic, WorkloadError},
};
use crate::entry::Spoken;

/// The environment variable that makes the worker a shim; names the order.
pub const ORDER_ENV: &str = "SLIPWAY_SHIM";
/// Holds the shim's process group while it runs, below the task's folder.
pub const GROUP_FILE: &str = "group";
/// Holds how many requests are kept so far, below the task's folder.
const KEPT_FILE: &str = "kept";
/// Holds the [`Outcome`], below the task's folder.
pub const OUTCOME_FILE: &str = "outcome.json";

/// What the worker wants of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LevelTask {
    /// The real perf_analyzer.
    pub perf_analyzer: PathBuf,
    /// Where chunks and the outcome go; empty at the start.
    pub folder: PathBuf,
    /// The traffic.
    pub workloads: Vec<Workload>,
    /// Folder of the tokenizer, where the model takes tokens.
    #[serde(default)]
    pub tokenizer: Option<PathBuf>,
    /// What of the repository of an engine of TensorRT-LLM is asked.
    #[serde(default)]
    pub entry: EngineEntry,
    /// The backend of an engine without a build, whose tensors the model has.
    #[serde(default)]
    pub no_build: Option<NoBuildBackend>,
    /// How long a level runs.
    pub measure: MeasureSettings,
    /// What ends it early.
    pub objectives: Vec<LatencyObjective>,
    /// What the campaign is after.
    pub optimize_for: OptimizeFor,
    /// Whether it was measured before.
    #[serde(default)]
    pub is_repeat: bool,
    /// What else ends it early.
    #[serde(default)]
    pub to_beat: Option<ToBeat>,
    /// Seeds the request bodies.
    pub seed: u64,
}

/// How a level ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
pub enum Outcome {
    /// With chunks to pool.
    Measured {
        /// What is kept of each chunk.
        chunks: Vec<Chunk>,
        /// Why there is no further chunk.
        reason: String,
    },
    /// Without a measurement.
    Failed {
        /// In words.
        reason: String,
    },
}

/// Says why a level was not measured.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// The task cannot be read.
    #[error("failed to read the task {}", path.display())]
    Order {
        /// The order's file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: io::Error,
    },
    /// Model Analyzer's command line lacks something.
    #[error("Model Analyzer started perf_analyzer without {0}")]
    Argument(&'static str),
    /// The traffic cannot be made.
    #[error("failed to make requests")]
    Workload(#[source] WorkloadError),
    /// The model takes tokens, and its tokenizer cannot be used.
    #[error("failed to read the engine's tokenizer")]
    Tokenizer(#[source] TokenizerError),
    /// perf_analyzer sends tensors.
    #[error("perf_analyzer sends tensors to Triton, which does not serve this engine")]
    NoTriton,
    /// A prompt has no tokens.
    #[error("failed to write requests")]
    Input(#[source] BackendError),
    /// A file of the level cannot be written or read.
    #[error("failed to use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The real perf_analyzer does not start.
    #[error("failed to start perf_analyzer at {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It ended with an error.
    #[error("perf_analyzer ended with {status}: {output}")]
    Failed {
        /// Its exit status.
        status: String,
        /// The telling end of its output.
        output: String,
    },
    /// Its export is unusable.
    #[error("the records of {part} cannot be used")]
    Records {
        /// The part of the level that they belong to.
        part: Part,
        /// What is wrong.
        #[source]
        source: RecordsError,
    },
}

/// A part of a level: one call of the real perf_analyzer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its requests are not kept.
    WarmUp,
    /// Counted from 0.
    Chunk(u32),
}

impl Part {
    /// Name of its files without an extension.
    fn file_stem(self) -> String {
        match self {
            Self::WarmUp => "warm-up".to_owned(),
            Self::Chunk(number) => format!("chunk-{number}"),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WarmUp => f.write_str("the warm-up"),
            Self::Chunk(number) => write!(f, "chunk {number}"),
        }
    }
}

/// What the shim needs of Model Analyzer's command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Requests in flight.
    pub level: u32,
    /// Where Model Analyzer expects the CSV.
    pub csv: PathBuf,
    /// The arguments that are passed on.
    pub passed: Vec<String>,
}

/// Returns how many requests of a running level are kept so far.
pub fn kept(folder: &Path) -> u32 {
    fs::read_to_string(folder.join(KEPT_FILE)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reads Model Analyzer's command line: everything is passed on but what decides a run's length, input and output.
///
/// # Errors
/// [`ShimError::Argument`] if the level or the CSV's path is missing.
pub fn parse_call(arguments: &[String]) -> Result<Call, ShimError> {
    const OURS: [&str; 13] = [
        "-f",
        "--latency-report-file",
        "--input-data",
        "--measurement-mode",
        "--measurement-interval",
        "-p",
        "--measurement-request-count",
        "--stability-percentage",
        "-s",
        "--max-trials",
        "-r",
        "--request-count",
        "--percentile",
    ];
    let (mut level, mut csv, mut passed) = (None, None, Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned();
        match argument.as_str() {
            "-f" | "--latency-report-file" => csv = value().map(PathBuf::from),
            "--concurrency-range" => {
                let range = value().unwrap_or_default();
                level = range.split(':').next().and_then(|n| n.parse().ok());
                passed.extend([argument.clone(), range]);
            }
            ours if OURS.contains(&ours) => drop(value()),
            _ => passed.push(argument.clone()),
        }
    }
    Ok(Call {
        level: level.ok_or(ShimError::Argument("--concurrency-range"))?,
        csv: csv.ok_or(ShimError::Argument("-f"))?,
        passed,
    })
}

/// Stands in for perf_analyzer: returns the exit code for Model Analyzer.
///
/// Whatever happens is written as [`Outcome`] for the worker; Model Analyzer only needs to know whether there is a CSV.
pub fn run(order: &Path, arguments: &[String]) -> u8 {
    let (outcome, code) = match read_order(order) {
        Err(error) => return complain(&error),
        Ok(order) => match measure(&order, arguments) {
            Ok(outcome) => (write_outcome(&order, &outcome), 0),
            Err(error) => {
                let code = complain(&error);
                let reason = crate::failure::chain(&error);
                (write_outcome(&order, &Outcome::Failed { reason }), code)
            }
        },
    };
    outcome.map_or_else(|error| complain(&error), |()| code)
}

fn complain(error: &ShimError) -> u8 {
    eprintln!("{}", crate::failure::chain(error));
    1
}

fn read_order(path: &Path) -> Result<LevelTask, ShimError> {
    let read = || serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from);
    read().map_err(|source| ShimError::Order { path: path.to_owned(), source })
}

fn write_outcome(order: &LevelTask, outcome: &Outcome) -> Result<(), ShimError> {
    let text = serde_json::to_vec(outcome).expect("an outcome is plain data");
    write(&order.folder.join(OUTCOME_FILE), &text)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ShimError> {
    fs::write(path, bytes).map_err(|source| ShimError::File { path: path.to_owned(), source })
}

fn measure(order: &LevelTask, arguments: &[String]) -> Result<Outcome, ShimError> {
    let call = parse_call(arguments)?;
    // Model Analyzer gave this process a session of its own, so its id is the group's.
    write(&order.folder.join(GROUP_FILE), std::process::id().to_string().as_bytes())?;
    let traffic = Traffic::read(&order.workloads).map_err(ShimError::Workload)?;
    let spoken = Spoken { tokenizer: order.tokenizer.as_deref(), entry: order.entry, no_build: order.no_build };
    let entry = spoken.entry().map_err(ShimError::Tokenizer)?.ok_or(ShimError::NoTriton)?;
    let level = Level { order, call: &call, traffic, entry };
    let mut watch = Watch::new(&order.objectives, LatencyMetric::RequestLatency, call.level)
        .against(order.to_beat.as_ref())
        .for_the_sake_of(order.optimize_for)
        .repeated(order.is_repeat);
    let warm_up = level.run(Part::WarmUp, u64::from(order.measure.warm_up), order.seed)?;
    let started = Instant::now();
    let mut so_far = SoFar { chunks: 0, kept: 0, elapsed_millis: 0, rate: warm_up.rate() };
    let mut done: Vec<Chunk> = Vec::new();
    let reason = loop {
        let Some(size) = chunks::next(&order.measure, &so_far) else {
            break format!("the level has used up its {} requests or its time", so_far.kept);
        };
        let seed = order.seed.wrapping_add(u64::from(so_far.chunks) + 1);
        let chunk = level.run(Part::Chunk(so_far.chunks), size, seed)?;
        watch.begin_part();
        watch.observe(&chunk.requests);
        so_far = SoFar {
            chunks: so_far.chunks + 1,
            kept: so_far.kept + chunk.requests.len() as u64,
            elapsed_millis: millis(started.elapsed()),
            rate: chunk.rate(),
        };
        write(&order.folder.join(KEPT_FILE), so_far.kept.to_string().as_bytes())?;
        done.push(chunk);
        match watch.decide(Duration::from_millis(so_far.elapsed_millis)) {
            Decision::GoOn => {}
            Decision::Stop(reason) => break reason,
        }
    };
    let csv = order.folder.join(format!("{}.csv", Part::Chunk(so_far.chunks - 1).file_stem()));
    fs::copy(&csv, &call.csv).map_err(|source| ShimError::File { path: csv, source })?;
    Ok(Outcome::Measured { chunks: done, reason })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// One call of Model Analyzer.
struct Level<'a> {
    order: &'a LevelTask,
    call: &'a Call,
    traffic: Traffic,
    entry: Entry,
}

impl Level<'_> {
    /// Runs perf_analyzer once so that `keep` requests remain without ramp and drain.
    fn run(&self, part: Part, keep: u64, seed: u64) -> Result<Chunk, ShimError> {
        let count = keep.max(1) + 2 * u64::from(self.call.level);
        let path = |extension: &str| self.order.folder.join(format!("{}.{extension}", part.file_stem()));
        let (input, csv, export, log) = (path("input.json"), path("csv"), path("json"), path("log"));
        let data = input_data(&self.traffic.draw(count, seed), &self.entry).map_err(ShimError::Input)?;
        write(&input, data.to_string().as_bytes())?;
        let mut command = Command::new(&self.order.perf_analyzer);
        command.args(&self.call.passed).arg("-f").arg(&csv).arg("--input-data").arg(&input);
        command.args(["--request-count", &count.to_string(), "--profile-export-file"]).arg(&export);
        self.finish(command, &log)?;
        let export = fs::read(&export).map_err(|source| ShimError::File { path: export, source })?;
        kept_of(part, &export, self.call.level)
    }

    fn finish(&self, mut command: Command, log: &Path) -> Result<(), ShimError> {
        let file = |source| ShimError::File { path: log.to_owned(), source };
        let output = File::create(log).map_err(file)?;
        let errors = output.try_clone().map_err(file)?;
        let status = command.stdin(Stdio::null()).stdout(output).stderr(errors).status();
        let status = status.map_err(|source| ShimError::Start { path: self.order.perf_analyzer.clone(), source })?;
        if status.success() {
            return Ok(());
        }
        let text = fs::read_to_string(log).map_err(file)?;
        Err(ShimError::Failed { status: status.to_string(), output: telling(&text) })
    }
}

/// What is kept of a part's export.
fn kept_of(part: Part, export: &[u8], level: u32) -> Result<Chunk, ShimError> {
    let kept = records::parse(export).and_then(|all| records::steady(&all, level));
    kept.map_err(|source| ShimError::Records { part, source })
}

/// The lines of perf_analyzer's output that say why, else its last ones.
fn telling(output: &str) -> String {
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let says = |line: &&&str| {
        let line = line.to_lowercase();
        line.contains("error") || line.contains("failed") || line.contains("thread [")
    };
    let errors: Vec<&str> = lines.iter().filter(says).take(3).copied().collect();
    if errors.is_empty() { lines[lines.len().saturating_sub(3)..].join(" | ") } else { errors.join(" | ") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_decides_a_runs_length_is_ours_and_the_rest_is_passed_on() {
        let call = parse_call(&words(
            "-m agent -b 1 -u 127.0.0.1:8001 -i grpc -f agent-results.csv --verbose-csv --concurrency-range 4 \
             --input-data /d.json --measurement-mode count_windows --streaming --collect-metrics --metrics-interval 1000",
        ));
        let expected = Call {
            level: 4,
            csv: "agent-results.csv".into(),
            passed: words(
                "-m agent -b 1 -u 127.0.0.1:8001 -i grpc --verbose-csv --concurrency-range 4 --streaming \
                 --collect-metrics --metrics-interval 1000",
            ),
        };
        assert_eq!(call.unwrap(), expected);
    }

    #[test]
    fn a_command_line_without_level_or_csv_is_refused() {
        let text = |arguments| parse_call(&words(arguments)).unwrap_err().to_string();
        assert_eq!(text("-m a -f x.csv"), "Model Analyzer started perf_analyzer without --concurrency-range");
        assert_eq!(text("-m a --concurrency-range 2"), "Model Analyzer started perf_analyzer without -f");
    }

    #[test]
    fn unusable_records_are_those_of_the_part_whatever_its_number() {
        let message = |part| kept_of(part, b"", 1).unwrap_err().to_string();
        assert_eq!(message(Part::Chunk(10)), "the records of chunk 10 cannot be used");
        assert_eq!(message(Part::WarmUp), "the records of the warm-up cannot be used");
        assert_eq!(Part::Chunk(10).file_stem(), "chunk-10");
    }

    #[test]
    fn the_telling_lines_of_a_failed_run_are_kept() {
        let output = "*** Settings ***\nRequest concurrency: 4\nFailed to maintain requested inference load.\n\
                      Thread [0] had error: pinned input\n";
        assert_eq!(
            telling(output),
            "Failed to maintain requested inference load. | Thread [0] had error: pinned input"
        );
        assert_eq!(telling("a\nb\n\nc\nd\n"), "b | c | d");
    }
}
