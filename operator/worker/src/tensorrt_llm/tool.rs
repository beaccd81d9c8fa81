//! `tool`: runs one of upstream's programs.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

use slipway_backends::tensorrt_llm::{
    failure::{self, Failure},
    help::{self, Missing},
};
use slipway_worker_contract::{BuildTask, Digest, FailureClass, TensorRtLlmBuild, ToolStep, paths};

use crate::{
    failure::Classify,
    hash::{self, HashError},
    supervise::{self, Ending, Server, SuperviseError},
};

/// Lines of a tool's output among which its failure is explained.
const LOG_LINES: usize = 4_000;
/// Where images keep upstream's scripts: the newer first.
pub const EXAMPLES: [&str; 2] = ["/app/examples", "/app/tensorrt_llm/examples"];

/// Says why a step did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The task orders no such step.
    #[error("the task has no step {0:?}: operator and worker must be of the same release")]
    NoStep(String),
    /// No folder of examples holds the script.
    #[error(
        "the image has no {script} below {looked}: check that it is the image of engine.tensorRTLLM.version {version}"
    )]
    NoScript {
        /// The script.
        script: String,
        /// Folders that were looked into.
        looked: String,
        /// The version of the task.
        version: String,
    },
    /// The calibration texts are not those that the engine is named after.
    #[error("the calibration texts changed after the engine was planned: apply the AgentDeployment again")]
    Calibration,
    /// The calibration texts cannot be read.
    #[error("failed to read the calibration texts")]
    ReadCalibration(#[source] HashError),
    /// The tool's help cannot be asked for.
    #[error("failed to run {program} --help: check that the image is that of engine.tensorRTLLM.version")]
    Help {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The tool lacks options.
    #[error("{step}: {}", list(.missing))]
    Missing {
        /// The step.
        step: String,
        /// What its help lacks.
        missing: Vec<Missing>,
    },
    /// The tool did not start.
    #[error("{step} did not start")]
    Start {
        /// The step.
        step: String,
        /// What is wrong.
        #[source]
        source: SuperviseError,
    },
    /// The tool failed.
    #[error("{step} exited with code {code}: {}", .failure.line)]
    Failed {
        /// The step.
        step: String,
        /// Its exit code; 128 and the signal where one ended it.
        code: u8,
        /// What its log says.
        failure: Failure,
    },
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(Missing::to_string).collect::<Vec<_>>().join("; ")
}

impl Classify for ToolError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NoStep(_) | Self::ReadCalibration(_) => FailureClass::Infrastructure,
            Self::NoScript { .. } | Self::Help { .. } | Self::Missing { .. } => FailureClass::ImageMismatch,
            Self::Calibration => FailureClass::BadModel,
            Self::Start { source, .. } => source.class(),
            Self::Failed { failure, .. } => failure.class,
        }
    }
}

/// Where a step finds things.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folders that may hold upstream's examples.
    pub examples: Vec<PathBuf>,
    /// Folder of the calibration texts.
    pub calibration: PathBuf,
}

/// Runs the step of a task that has this name.
///
/// # Errors
/// [`ToolError`]: the image lacks the tool or an option, or the tool failed, with its class and the line that told it.
pub async fn run(task: &BuildTask, name: &str, places: &Places) -> Result<(), ToolError> {
    let no_step = || ToolError::NoStep(name.to_owned());
    let build = task.tensorrt_llm.as_ref().ok_or_else(no_step)?;
    let step = build.step(name).ok_or_else(no_step)?;
    if let Some(expected) = &build.calibration {
        check_calibration(expected, &places.calibration)?;
    }
    let script = script(build, step, &places.examples)?;
    check_help(step, script.as_deref())?;
    let arguments = script.iter().map(|path| path.display().to_string()).chain(step.arguments.iter().cloned());
    let server =
        Server { program: step.program.clone(), arguments: arguments.collect(), log_lines: LOG_LINES, ended: None };
    let started = |source| ToolError::Start { step: name.to_owned(), source };
    ended(name, &supervise::run(&server).await.map_err(started)?)
}

fn ended(step: &str, ending: &Ending) -> Result<(), ToolError> {
    if ending.code == Some(0) {
        return Ok(());
    }
    let code = ending.exit_code();
    let failure = failure::classify(&ending.tail.join("\n"), i32::from(code));
    Err(ToolError::Failed { step: step.to_owned(), code, failure })
}

fn check_calibration(expected: &Digest, folder: &Path) -> Result<(), ToolError> {
    let found = hash::file(&folder.join(paths::CALIBRATION_FILE)).map_err(ToolError::ReadCalibration)?;
    if found == *expected { Ok(()) } else { Err(ToolError::Calibration) }
}

fn script(build: &TensorRtLlmBuild, step: &ToolStep, examples: &[PathBuf]) -> Result<Option<PathBuf>, ToolError> {
    let Some(script) = &step.script else { return Ok(None) };
    let found = examples.iter().map(|folder| folder.join(script)).find(|path| path.is_file());
    found.map(Some).ok_or_else(|| ToolError::NoScript {
        script: script.clone(),
        looked: examples.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", "),
        version: build.version.clone(),
    })
}

/// One `--help` costs seconds; an unknown option behind the loading of weights costs GPU time.
fn check_help(step: &ToolStep, script: Option<&Path>) -> Result<(), ToolError> {
    let program = step.program.clone();
    let output = Command::new(&step.program)
        .args(script)
        .arg("--help")
        .output()
        .map_err(|source| ToolError::Help { program, source })?;
    // A tool that cannot even import its libraries says so on its other output.
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    match help::missing(&text, &step.arguments) {
        missing if missing.is_empty() => Ok(()),
        missing => Err(ToolError::Missing { step: step.name.clone(), missing }),
    }
}
