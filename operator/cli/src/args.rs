//! The command line, and what each command does.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args as ClapArgs, Parser, Subcommand};
use slipway_crds::values::DurationText;
use slipway_vocabulary::failure::chain;
use thiserror::Error;

use crate::{
    arms::arms,
    check::{self, File, Unfit},
    cluster::{Cluster, ClusterError, Place},
    conversation::{Run, conversation},
    decision::{Decision, NothingToDecide, word},
    explain::{UnknownCandidate, explain},
    measured::Measurements,
    outlook::{is_judged, outlook},
    overview::overview,
    report::{Material, report},
    rollout,
    store::store,
    wait::{WaitError, follow_rollout, wait},
};

/// Shows and controls the AgentDeployments of a cluster.
#[derive(Debug, Parser)]
#[command(name = "kubectl-slipway", bin_name = "kubectl slipway", version)]
pub struct Args {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, ClapArgs)]
struct PlaceArgs {
    /// Kubeconfig file; the default is kubectl's.
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, global = true)]
    context: Option<String>,
    /// Namespace; the default is the context's.
    #[arg(short, long, global = true)]
    namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    OfCluster(ClusterCommand),
    /// Checks manifests as the API server would, without a cluster, and says what they will take. Exit code 1: refused.
    Check {
        /// Files of YAML or JSON; - is standard input.
        #[arg(short = 'f', long = "filename", required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// What needs a cluster.
#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Shows stage, conditions, engines with their quality, candidates, the choice, and objectives with their values.
    Status {
        /// Name of the AgentDeployment.
        name: String,
        /// Waits like `wait`, but without a time limit, and shows the status once it is ready.
        #[arg(long)]
        watch: bool,
    },
    /// Reports progress until an AgentDeployment is ready. Exit code 3: stalled; 4: timeout; 6: it waits for a person.
    Wait {
        /// Name of the AgentDeployment.
        name: String,
        /// Time limit, such as 90s, 10m or 2h.
        #[arg(long, default_value = "30m", value_name = "DURATION")]
        timeout: DurationText,
    },
    /// Writes a report of an AgentDeployment's campaign, and of its rollout, as one self-contained HTML file.
    Report {
        /// Name of the AgentDeployment.
        name: String,
        /// Output file; the default is standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Explains why the chosen configuration serves, and for each other one why it does not.
    Explain {
        /// Name of the AgentDeployment.
        name: String,
        /// An engine, or one of its configurations, to explain alone, as `status` names them: int8, int8/instances-2.
        /// The default is all of them.
        #[arg(value_name = "ENGINE[/CONFIGURATION]")]
        candidate: Option<String>,
    },
    /// Shows the traffic of stable and canary, the judge's verdict and its evidence, and how long a verdict takes.
    Rollout {
        /// Name of the AgentDeployment.
        name: String,
        /// Shows it whenever it changes, until the canary is promoted or rolled back.
        #[arg(long)]
        watch: bool,
    },
    /// Approves the choice that waits for approval (spec.rollout.approve).
    Approve {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Promotes the canary without waiting for a verdict (spec.rollout.promote).
    Promote {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Rolls the canary back, or declines the choice that waits for approval (spec.rollout.abort).
    Abort {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Tries the plan of the spec once more after it was rolled back (spec.rollout.retry).
    Retry {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Keeps a rollout at its step; harm still rolls it back (spec.rollout.paused).
    Pause {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Resumes a paused rollout (spec.rollout.paused).
    Resume {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Shows what the artifact store of the namespace holds, what needs it, and how the last sweep ended.
    Store,
    /// Asks an agent a question, and shows its tool calls and the answer. Exit code 1: no answer; 5: every tool call
    /// failed.
    Ask {
        /// Name of the AgentDeployment.
        name: String,
        /// The question.
        question: String,
    },
}

/// Why a command ended without its result.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The cluster cannot be reached.
    #[error("failed to connect")]
    Connect(#[source] ClusterError),
    /// The AgentDeployment cannot be read.
    #[error("failed to show the AgentDeployment")]
    Show(#[source] ClusterError),
    /// No decision is pending.
    #[error("{name}")]
    Undecidable {
        /// Name of the AgentDeployment.
        name: String,
        /// What is missing.
        #[source]
        source: NothingToDecide,
    },
    /// The decision cannot be written.
    #[error("failed to write the decision")]
    Decide(#[source] ClusterError),
    /// The wait failed.
    #[error("failed to wait")]
    Wait(#[source] WaitError),
    /// The request to the agent failed.
    #[error("failed to ask the agent")]
    Ask(#[source] ClusterError),
    /// The agent gave no answer.
    #[error("the agent gave no answer")]
    NoAnswer,
    /// The agent answered, but every tool call failed.
    #[error("every tool call failed: the answer uses no tool result")]
    NoToolWorked,
    /// There is nothing to report.
    #[error("{0} has no campaign to report: it has no spec.profiling, or its engines are still being built")]
    NoProfile(String),
    /// There is no such candidate to explain.
    #[error("failed to explain {name}")]
    Explain {
        /// Name of the AgentDeployment.
        name: String,
        /// Which are known.
        #[source]
        source: UnknownCandidate,
    },
    /// The report cannot be written.
    #[error("failed to write {path}")]
    Report {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// A manifest cannot be read.
    #[error("failed to read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// Manifests are not fit to be applied.
    #[error("failed to check")]
    Check(#[source] Unfit),
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

impl CommandError {
    /// Gives 3 if the AgentDeployment is stalled, 4 on a timeout, and 5 if an answer came although every tool call
    /// failed. It gives 6 if the AgentDeployment waits for a person, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Wait(WaitError::Stalled { .. }) => 3,
            Self::Wait(WaitError::TimedOut { .. }) => 4,
            Self::NoToolWorked => 5,
            Self::Wait(WaitError::Suspended { .. }) => 6,
            Self::Wait(WaitError::Cluster(_) | WaitError::Write(_))
            | Self::Connect(_)
            | Self::Show(_)
            | Self::Undecidable { .. }
            | Self::Decide(_)
            | Self::Ask(_)
            | Self::NoAnswer
            | Self::NoProfile(_)
            | Self::Explain { .. }
            | Self::Report { .. }
            | Self::Read { .. }
            | Self::Check(_)
            | Self::Write(_) => 1,
        }
    }
}

impl Args {
    /// Runs the command.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or the command fails.
    pub async fn run(self) -> Result<(), CommandError> {
        match self.command {
            Command::Check { files } => check_files(&files, &mut io::stdout()),
            Command::OfCluster(command) => {
                let PlaceArgs { kubeconfig, context, namespace } = self.place;
                let place = Place { kubeconfig, context, namespace };
                command.run(Cluster::connect(place).await.map_err(CommandError::Connect)?).await
            }
        }
    }
}

impl ClusterCommand {
    async fn run(self, cluster: Cluster) -> Result<(), CommandError> {
        let mut out = io::stdout();
        match self {
            Self::Status { name, watch: true } => {
                wait(&cluster, &name, Duration::MAX, &mut out).await.map_err(CommandError::Wait)?;
                show(&cluster, &name, &mut out).await
            }
            Self::Status { name, watch: false } => show(&cluster, &name, &mut out).await,
            Self::Wait { name, timeout } => {
                let limit = Duration::from_micros(timeout.microseconds());
                wait(&cluster, &name, limit, &mut out).await.map_err(CommandError::Wait)
            }
            Self::Report { name, output } => write_report(&cluster, &name, (output, &mut out)).await,
            Self::Explain { name, candidate } => {
                let object = cluster.get(&name).await.map_err(CommandError::Show)?;
                let profile = cluster.profile(&object).await.map_err(CommandError::Show)?;
                let text = explain(&object, profile.as_ref(), candidate.as_deref());
                let text = text.map_err(|source| CommandError::Explain { name, source })?;
                write!(out, "{text}").map_err(CommandError::Write)
            }
            Self::Rollout { name, watch: true } => {
                follow_rollout(&cluster, &name, &mut out).await.map_err(CommandError::Wait)
            }
            Self::Rollout { name, watch: false } => show_rollout(&cluster, &name, &mut out).await,
            Self::Approve { name } => decide(&cluster, &name, (Decision::Approve, &mut out)).await,
            Self::Promote { name } => decide(&cluster, &name, (Decision::Promote, &mut out)).await,
            Self::Abort { name } => decide(&cluster, &name, (Decision::Abort, &mut out)).await,
            Self::Retry { name } => decide(&cluster, &name, (Decision::Retry, &mut out)).await,
            Self::Pause { name } => decide(&cluster, &name, (Decision::Pause, &mut out)).await,
            Self::Resume { name } => decide(&cluster, &name, (Decision::Resume, &mut out)).await,
            Self::Store => {
                let record = cluster.store().await.map_err(CommandError::Show)?;
                write!(out, "{}", store(&record)).map_err(CommandError::Write)
            }
            Self::Ask { name, question } => {
                let run = cluster.ask(&name, &question).await.map_err(CommandError::Ask)?;
                write!(out, "{}", conversation(&question, &run)).map_err(CommandError::Write)?;
                judged(&run)
            }
        }
    }
}

/// Checks files, and prints an answer for each object in them.
fn check_files(paths: &[PathBuf], out: &mut (dyn Write + Send)) -> Result<(), CommandError> {
    let files = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let checked = check::check(&files).map_err(CommandError::Check)?;
    write!(out, "{}", checked.text).map_err(CommandError::Write)?;
    checked.verdict(&files).map_err(CommandError::Check)
}

fn read(path: &Path) -> Result<File, CommandError> {
    let is_standard_input = path.as_os_str() == "-";
    let name = if is_standard_input { "standard input".to_owned() } else { path.display().to_string() };
    let text = if is_standard_input { io::read_to_string(io::stdin()) } else { fs::read_to_string(path) };
    let text = text.map_err(|source| CommandError::Read { path: path.to_owned(), source })?;
    Ok(File { name, text })
}

/// Writes a decision into the spec, and prints it with a hint for GitOps.
async fn decide(
    cluster: &Cluster,
    name: &str,
    (decision, out): (Decision, &mut (dyn Write + Send)),
) -> Result<(), CommandError> {
    let object = cluster.get(name).await.map_err(CommandError::Show)?;
    let undecidable = |source| CommandError::Undecidable { name: name.to_owned(), source };
    let word = word(&object, decision).map_err(undecidable)?;
    cluster.patch(&object, &word.patch()).await.map_err(CommandError::Decide)?;
    writeln!(out, "{name}: spec.rollout.{} is {}", word.field, word.value).map_err(CommandError::Write)?;
    writeln!(out, "GitOps will revert this unless the manifest sets it too").map_err(CommandError::Write)
}

/// Checks whether a run gave an answer that uses its tools.
fn judged(run: &Run) -> Result<(), CommandError> {
    if !run.has_succeeded() {
        Err(CommandError::NoAnswer)
    } else if run.rests_on_no_tool() {
        Err(CommandError::NoToolWorked)
    } else {
        Ok(())
    }
}

async fn show(cluster: &Cluster, name: &str, out: &mut (dyn Write + Send)) -> Result<(), CommandError> {
    let object = cluster.get(name).await.map_err(CommandError::Show)?;
    let profile = cluster.profile(&object).await.map_err(CommandError::Show)?;
    let (measurements, unreachable) = match cluster.evidence(name).await {
        Ok(evidence) => (Measurements::of(&evidence), None),
        Err(error) => (Measurements::default(), Some(error)),
    };
    write!(out, "{}", overview(&object, profile.as_ref(), &measurements)).map_err(CommandError::Write)?;
    if let Some(error) = unreachable {
        writeln!(out, "  (the pods' measurements cannot be read: {})", chain(&error)).map_err(CommandError::Write)?;
    }
    Ok(())
}

async fn show_rollout(cluster: &Cluster, name: &str, out: &mut (dyn Write + Send)) -> Result<(), CommandError> {
    let object = cluster.get(name).await.map_err(CommandError::Show)?;
    let text = rollout::rollout(&object);
    if text.is_empty() {
        writeln!(out, "{name}: no rollout is in progress, and no plan was rolled back").map_err(CommandError::Write)?;
    } else {
        write!(out, "{text}").map_err(CommandError::Write)?;
    }
    if !is_judged(&object) {
        return Ok(());
    }
    write!(out, "{}", rollout::self_check(&object)).map_err(CommandError::Write)?;
    match cluster.evidence(name).await {
        Ok(evidence) => write!(out, "{}{}", arms(&object, &evidence), outlook(&object, &evidence)),
        Err(error) => {
            writeln!(out, "(what the pods counted, and how long a verdict takes, is not known: {})", chain(&error))
        }
    }
    .map_err(CommandError::Write)
}

async fn write_report(
    cluster: &Cluster,
    name: &str,
    (output, out): (Option<PathBuf>, &mut (dyn Write + Send)),
) -> Result<(), CommandError> {
    let object = cluster.get(name).await.map_err(CommandError::Show)?;
    let profile = cluster.profile(&object).await.map_err(CommandError::Show)?;
    let profile = profile.ok_or_else(|| CommandError::NoProfile(name.to_owned()))?;
    let engines = cluster.engines(&object).await.map_err(CommandError::Show)?;
    // A report is worth having without them too.
    let evidence = cluster.evidence(name).await.unwrap_or_default();
    let html = report(Material { object: &object, profile: &profile, engines: &engines, evidence: &evidence });
    match output {
        None => write!(out, "{html}").map_err(CommandError::Write),
        Some(path) => match fs::write(&path, html) {
            Ok(()) => writeln!(out, "the report is in {}", path.display()).map_err(CommandError::Write),
            Err(source) => Err(CommandError::Report { path, source }),
        },
    }
}
