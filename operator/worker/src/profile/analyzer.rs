//! Model Analyzer in remote mode, for one arm at one level.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use slipway_worker_contract::{FailureClass, Gpu, ModelAnalyzerRow};
use tokio::{process::Command, sync::watch};

use super::{
    gpu_samples::{self, Means},
    shim::{GROUP_FILE, LevelTask, ORDER_ENV, OUTCOME_FILE, Outcome},
};
use crate::failure::Classify;

/// Beyond the level's own time: start of Model Analyzer, warm-up, one slow chunk, reports.
const MARGIN: Duration = Duration::from_secs(600);

/// Where the tools and the server are.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The program `model-analyzer`.
    pub model_analyzer: PathBuf,
    /// This binary, which stands in for perf_analyzer.
    pub worker: PathBuf,
    /// Triton's addresses without scheme: HTTP, gRPC, metrics.
    pub http: String,
    /// As in `127.0.0.1:8001`.
    pub grpc: String,
    /// As in `127.0.0.1:8002`.
    pub metrics: String,
    /// The model repository, writable.
    pub repository: PathBuf,
}

/// Result of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The shim's outcome.
    pub outcome: Outcome,
    /// Model Analyzer's own row.
    pub row: ModelAnalyzerRow,
    /// The GPU, where there is one.
    pub gpu: Option<Gpu>,
}

/// Says why a level has no measurement.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzerError {
    /// It is not in the image.
    #[error("the image has no program {}: it needs Model Analyzer", path.display())]
    NoProgram {
        /// The program.
        path: PathBuf,
    },
    /// A file of the run cannot be used.
    #[error("failed to use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It does not start.
    #[error("failed to start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("Model Analyzer did not end within {seconds} s and was killed")]
    TooLong {
        /// Waited.
        seconds: u64,
    },
    /// The Job is being ended.
    #[error("the measurement was cancelled")]
    Cancelled,
    /// The shim failed; its words.
    #[error("{reason}")]
    Shim {
        /// In words.
        reason: String,
    },
    /// It ended with an error of its own.
    #[error("Model Analyzer ended with {status}: {log}")]
    Failed {
        /// Its exit status.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// It succeeded but wrote no row.
    #[error("Model Analyzer ended with exit status 0 and without a row for concurrency {level}: {log}")]
    NoRow {
        /// The level.
        level: u32,
        /// The end of its log.
        log: String,
    },
}

impl AnalyzerError {
    /// Says whether the campaign can go on with another level.
    pub fn is_of_this_level(&self) -> bool {
        match self {
            Self::TooLong { .. } | Self::Shim { .. } | Self::Failed { .. } | Self::NoRow { .. } => true,
            Self::NoProgram { .. } | Self::File { .. } | Self::Start { .. } | Self::Cancelled => false,
        }
    }
}

impl Classify for AnalyzerError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoProgram { .. } => FailureClass::ImageMismatch,
            Self::File { .. }
            | Self::Start { .. }
            | Self::TooLong { .. }
            | Self::Cancelled
            | Self::Shim { .. }
            | Self::Failed { .. }
            | Self::NoRow { .. } => FailureClass::Infrastructure,
        }
    }
}

/// Writes Model Analyzer's configuration; JSON is YAML too.
///
/// Keys: <https://github.com/triton-inference-server/model_analyzer/blob/main/docs/config.md>.
pub fn configuration(tools: &Tools, model: &str, level: u32, timeout: Duration) -> Value {
    json!({
        "model_repository": tools.repository,
        "checkpoint_directory": "checkpoints",
        "export_path": "export",
        "triton_launch_mode": "remote",
        "triton_http_endpoint": tools.http,
        "triton_grpc_endpoint": tools.grpc,
        "triton_metrics_url": format!("http://{}/metrics", tools.metrics),
        "reload_model_disable": true,
        "run_config_search_disable": true,
        "perf_analyzer_path": tools.worker,
        // Model Analyzer watches the shim, which waits; the limit would only hit by accident.
        "perf_analyzer_cpu_util": 1_000_000,
        "perf_analyzer_timeout": timeout.as_secs(),
        "gpus": [],
        "dcgm_disable": true,
        // The detailed reports need wkhtmltopdf; without the summary reports there would be no CSV.
        "skip_detailed_reports": true,
        "profile_models": {
            model: {
                "parameters": {"batch_sizes": [1], "concurrency": [level]},
                "perf_analyzer_flags": {"streaming": "true"},
            },
        },
    })
}

/// Measures one level in `folder`, which must not exist.
///
/// # Errors
/// [`AnalyzerError`]; finished chunks stay in the folder.
pub async fn run(
    tools: &Tools,
    model: &str,
    level: u32,
    order: &LevelTask,
    mut stop: watch::Receiver<bool>,
) -> Result<Measured, AnalyzerError> {
    let folder = order.folder.clone();
    let timeout = Duration::from_millis(order.measure.max_level_millis) + MARGIN;
    let log = folder.join("model-analyzer.log");
    let mut command = prepare(tools, model, level, order, timeout)?;
    let mut child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => AnalyzerError::NoProgram { path: tools.model_analyzer.clone() },
        _ => AnalyzerError::Start { path: tools.model_analyzer.clone(), source },
    })?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let ended = tokio::select! {
        status = child.wait() => Ok(status),
        () = tokio::time::sleep(timeout + MARGIN) => Err(AnalyzerError::TooLong { seconds: (timeout + MARGIN).as_secs() }),
        _ = stop.wait_for(|stop| *stop) => Err(AnalyzerError::Cancelled),
    };
    // Also after a good end: Model Analyzer kills the shim alone when it loses patience, and leaves perf_analyzer.
    for group in [group, read_group(&folder)].into_iter().flatten() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = ended?.map_err(|source| AnalyzerError::File { path: log.clone(), source })?;
    let outcome = read_outcome(&folder)?;
    let words = || log_end(&log);
    match (outcome, status.success()) {
        (Some(Outcome::Failed { reason }), _) => Err(AnalyzerError::Shim { reason }),
        (_, false) => Err(AnalyzerError::Failed { status: status.to_string(), log: words() }),
        (None, true) => Err(AnalyzerError::NoRow { level, log: words() }),
        (Some(outcome), true) => match read_row(&folder, level)? {
            Some(row) => Ok(Measured { gpu: read_gpu(&folder, &outcome), outcome, row }),
            None => Err(AnalyzerError::NoRow { level, log: words() }),
        },
    }
}

fn prepare(
    tools: &Tools,
    model: &str,
    level: u32,
    order: &LevelTask,
    timeout: Duration,
) -> Result<Command, AnalyzerError> {
    let folder = &order.folder;
    let path = |name: &str| folder.join(name);
    let file = |path: PathBuf| move |source| AnalyzerError::File { path, source };
    fs::create_dir_all(folder).map_err(file(folder.clone()))?;
    let order_text = serde_json::to_vec(order).expect("an order is plain data");
    fs::write(path("order.json"), order_text).map_err(file(path("order.json")))?;
    let configuration = configuration(tools, model, level, timeout).to_string();
    fs::write(path("config.yaml"), configuration).map_err(file(path("config.yaml")))?;
    let log = File::create(path("model-analyzer.log")).map_err(file(path("model-analyzer.log")))?;
    let errors = log.try_clone().map_err(file(path("model-analyzer.log")))?;
    let mut command = Command::new(&tools.model_analyzer);
    command.args(["profile", "-f", "config.yaml"]).current_dir(folder).env(ORDER_ENV, path("order.json"));
    command.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0).kill_on_drop(true);
    Ok(command)
}

fn read_group(folder: &Path) -> Option<Pid> {
    let text = fs::read_to_string(folder.join(GROUP_FILE)).ok()?;
    text.trim().parse().ok().and_then(Pid::from_raw)
}

fn read_outcome(folder: &Path) -> Result<Option<Outcome>, AnalyzerError> {
    let path = folder.join(OUTCOME_FILE);
    match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(AnalyzerError::File { path, source }),
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| AnalyzerError::File { path, source: source.into() }),
    }
}

/// Reads the row of a level from `metrics-model-inference.csv`, by the columns' names.
fn read_row(folder: &Path, level: u32) -> Result<Option<ModelAnalyzerRow>, AnalyzerError> {
    let path = folder.join("export/results/metrics-model-inference.csv");
    match fs::read_to_string(&path) {
        Ok(text) => Ok(parse_row(&text, level)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(AnalyzerError::File { path, source }),
    }
}

fn parse_row(text: &str, level: u32) -> Option<ModelAnalyzerRow> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let headers = reader.headers().ok()?.clone();
    let column = |name: &str| headers.iter().position(|header| header == name);
    let (concurrency, throughput, p99) =
        (column("Concurrency")?, column("Throughput (infer/sec)")?, column("p99 Latency (ms)")?);
    let number = |record: &csv::StringRecord, index: usize| record.get(index)?.trim().parse::<f64>().ok();
    reader.records().flatten().find_map(|record| {
        let matches = number(&record, concurrency)? == f64::from(level);
        matches.then_some(())?;
        Some(ModelAnalyzerRow {
            per_kilosecond: (number(&record, throughput)? * 1e3).round() as u64,
            p99_micros: (number(&record, p99)? * 1e3).round() as u64,
        })
    })
}

/// Reads the GPU's figures from the CSV of every chunk: the largest memory, and the mean of the rest by time.
fn read_gpu(folder: &Path, outcome: &Outcome) -> Option<Gpu> {
    let Outcome::Measured { chunks, .. } = outcome else { return None };
    let mut all = OverChunks::default();
    for (number, chunk) in chunks.iter().enumerate() {
        if let Ok(text) = fs::read_to_string(folder.join(format!("chunk-{number}.csv"))) {
            all.add(&text, chunk.window_nanos as f64);
        }
    }
    all.gpu()
}

/// What the GPUs did in some chunks.
#[derive(Debug, Default)]
struct OverChunks {
    memory: Option<f64>,
    utilization: Weighted,
    power: Weighted,
}

/// A mean in which longer chunks count for more.
#[derive(Debug, Default)]
struct Weighted {
    total: f64,
    weight: f64,
}

impl Weighted {
    fn add(&mut self, values: &[f64], weight: f64) {
        self.total += weight * values.iter().sum::<f64>() / values.len() as f64;
        self.weight += weight;
    }

    fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.total / self.weight)
    }
}

impl OverChunks {
    /// Adds a chunk of some length by its CSV (`uuid:value;` per device), with 0 where Triton could not read a figure.
    fn add(&mut self, text: &str, length: f64) {
        let known = |name: &str| {
            let values: Vec<f64> = gpu_column(text, name)?.into_iter().filter_map(gpu_samples::known).collect();
            (!values.is_empty()).then_some(values)
        };
        let (memory, power) = (known("Max GPU Memory Usage"), known("Avg GPU Power Usage"));
        let is_read = memory.is_some() || power.is_some();
        let is_sample = |values: &Vec<f64>| is_read || values.iter().any(|value| *value > 0.0);
        if let Some(utilization) = gpu_column(text, "Avg GPU Utilization").filter(is_sample) {
            self.utilization.add(&utilization, length);
        }
        if let Some(power) = power {
            self.power.add(&power, length);
        }
        self.memory = memory.into_iter().flatten().chain(self.memory).reduce(f64::max);
    }

    fn gpu(&self) -> Option<Gpu> {
        gpu_samples::of_means(Means {
            memory_bytes: self.memory,
            utilization: self.utilization.mean(),
            power: self.power.mean(),
        })
    }
}

/// The values of a column, one for each device, if it has any.
fn gpu_column(text: &str, name: &str) -> Option<Vec<f64>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let headers = reader.headers().ok()?.clone();
    let record = reader.records().next()?.ok()?;
    let cell = record.get(headers.iter().position(|header| header == name)?)?;
    let values: Vec<f64> = cell.split(';').filter_map(|part| part.rsplit_once(':')?.1.parse().ok()).collect();
    (!values.is_empty()).then_some(values)
}

/// The last telling lines of Model Analyzer's log.
fn log_end(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text
        .lines()
        .map(|line| line.trim_start_matches("[Model Analyzer]").trim())
        .filter(|line| !line.is_empty() && !line.contains("has no data"))
        .collect();
    lines[lines.len().saturating_sub(6)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "Model,Batch,Concurrency,Model Config Path,Instance Group,Max Batch Size,Satisfies Constraints,\
                        Throughput (infer/sec),p99 Latency (ms)\nagent,1,4,agent_config_default,1:CPU,0,Yes,140.8,48.0\n\n";

    #[test]
    fn the_row_of_a_level_is_found_by_its_columns_names() {
        let expected = ModelAnalyzerRow { per_kilosecond: 140_800, p99_micros: 48_000 };
        assert_eq!(parse_row(ROWS, 4), Some(expected));
        assert_eq!(parse_row(ROWS, 8), None);
        assert_eq!(parse_row(&ROWS.replace("p99 Latency (ms)", "p90 Latency (ms)"), 4), None);
    }

    /// What chunks of so many seconds say.
    fn over(chunks: &[(&str, f64)]) -> Option<Gpu> {
        let mut all = OverChunks::default();
        chunks.iter().for_each(|(text, length)| all.add(text, *length));
        all.gpu()
    }

    #[test]
    fn gpu_columns_are_read_per_device_and_absent_on_a_cpu() {
        let text = "Concurrency,Avg GPU Utilization,Avg GPU Power Usage,Max GPU Memory Usage,Total GPU Memory\n\
                    4,GPU-a:0.91;GPU-b:0.71;,GPU-a:350.5;GPU-b:250.5;,GPU-a:15032385536;GPU-b:1048576;,\n";
        let expected = Gpu { memory_mib: Some(14_336), utilization_percent: Some(81), power_watts: Some(301) };
        assert_eq!(over(&[(text, 1.0)]), Some(expected));
        assert_eq!(over(&[("Concurrency,Avg GPU Utilization,Max GPU Memory Usage\n4,,\n", 1.0)]), None);
    }

    #[test]
    fn a_gpu_is_judged_by_all_chunks_and_a_column_that_is_missing_is_no_zero() {
        let idle = "Avg GPU Utilization,Max GPU Memory Usage\nGPU-a:0.1;,GPU-a:2097152;\n";
        let busy = "Avg GPU Utilization,Max GPU Memory Usage\nGPU-a:0.9;,GPU-a:1048576;\n";
        let expected = Gpu { memory_mib: Some(2), utilization_percent: Some(70), power_watts: None };
        assert_eq!(over(&[(idle, 1.0), (busy, 3.0)]), Some(expected));
    }

    #[test]
    fn what_triton_could_not_read_is_not_zero() {
        let of = |utilization: &str, power: &str, memory: &str| {
            let text = "Avg GPU Utilization,Avg GPU Power Usage,Max GPU Memory Usage\nGPU-a:U;,GPU-a:P;,GPU-a:M;\n";
            text.replace(":U", &format!(":{utilization}"))
                .replace(":P", &format!(":{power}"))
                .replace(":M", &format!(":{memory}"))
        };
        let (nothing, slice, whole) = (of("0", "0", "0"), of("0", "0", "2097152"), of("0.4", "300", "2097152"));
        assert_eq!(over(&[(&nothing, 1.0)]), None);
        assert_eq!(over(&[(&slice, 1.0)]), Some(Gpu { memory_mib: Some(2), ..Gpu::default() }));
        let expected = Gpu { memory_mib: Some(2), utilization_percent: Some(40), power_watts: Some(300) };
        assert_eq!(over(&[(&whole, 1.0), (&nothing, 1.0)]), Some(expected));
    }
}
