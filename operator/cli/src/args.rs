//! The command line, and what each command does.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use clap::{Args as ClapArgs, Parser, Subcommand};
use slipway_crds::values::DurationText;
use thiserror::Error;

use crate::{
    cluster::{Cluster, ClusterError, Place},
    conversation::{Run, conversation},
    decision::{Decision, NothingToDecide, word},
    failure::chain,
    measured::Measurements,
    overview::overview,
    report::{Material, report},
    rollout,
    wait::{WaitError, follow_rollout, wait},
};

/// Looks after the AgentDeployments of a cluster.
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
    /// The kubeconfig; without it kubectl's own rules hold.
    #[arg(long, global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, global = true)]
    context: Option<String>,
    /// The namespace; without it the context's.
    #[arg(short, long, global = true)]
    namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows stage, conditions, engines with their quality, the choice, and the objectives against what was measured.
    Status {
        /// Name of the AgentDeployment.
        name: String,
        /// Tells what happens until it is ready, and shows it then.
        #[arg(long)]
        watch: bool,
    },
    /// Tells what happens until an AgentDeployment is ready; exits with 3 if it stalls, with 4 when the time is over, with 6 if it waits
    /// for a person.
    Wait {
        /// Name of the AgentDeployment.
        name: String,
        /// How long, with a unit.
        #[arg(long, default_value = "30m")]
        timeout: DurationText,
    },
    /// Writes a report of the campaign behind an AgentDeployment: one HTML file that needs nothing else.
    Report {
        /// Name of the AgentDeployment.
        name: String,
        /// The file; without it the report goes to standard output.
        #[arg(short, long)]
        output: Option<PathBuf>,
    },
    /// Shows who has the traffic, what the judge says of a new revision and by which evidence.
    Rollout {
        /// Name of the AgentDeployment.
        name: String,
        /// Shows it again whenever it changes, until the new revision has taken over or was rolled back.
        #[arg(long)]
        watch: bool,
    },
    /// Lets the choice that waits for approval go on (spec.rollout.approve).
    Approve {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Lets the revision on trial take over without further judgement (spec.rollout.promote).
    Promote {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Gives up the revision on trial, or else the choice that waits for approval (spec.rollout.abort).
    Abort {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Tries the plan that was rolled back last once more (spec.rollout.retry).
    Retry {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Keeps a rollout at its step; harm still rolls it back (spec.rollout.paused).
    Pause {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Lets a paused rollout go on (spec.rollout.paused).
    Resume {
        /// Name of the AgentDeployment.
        name: String,
    },
    /// Asks an agent, and shows the calls of its tools and the answer; exits with 1 if there is none, with 5 if every call failed.
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
    /// There is no way to the cluster.
    #[error("failed to connect")]
    Connect(#[source] ClusterError),
    /// The AgentDeployment cannot be read.
    #[error("failed to show the AgentDeployment")]
    Show(#[source] ClusterError),
    /// There is nothing to decide about it.
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
    /// The wait did not end well.
    #[error("failed to wait")]
    Wait(#[source] WaitError),
    /// The agent cannot be asked.
    #[error("failed to ask the agent")]
    Ask(#[source] ClusterError),
    /// The agent gave no answer.
    #[error("the agent gave no answer")]
    NoAnswer,
    /// The agent answered without what its tools should have told it.
    #[error("every call of a tool failed: the answer rests on none")]
    NoToolWorked,
    /// There is nothing to report.
    #[error("{0} has no campaign to report: it has no spec.profiling, or its engines are still being built")]
    NoProfile(String),
    /// The report cannot be kept.
    #[error("failed to write {path}")]
    Report {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// Nothing can be said.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

impl CommandError {
    /// 3 if the AgentDeployment is stalled, 4 if time was over, 5 if an answer came though every call of a tool failed, 6 if the
    /// AgentDeployment waits for a person, else 1.
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
            | Self::Report { .. }
            | Self::Write(_) => 1,
        }
    }
}

impl Args {
    /// Does what was asked for.
    ///
    /// # Errors
    /// When there is no way to the cluster, or the command ends without its result.
    pub async fn run(self) -> Result<(), CommandError> {
        let PlaceArgs { kubeconfig, context, namespace } = self.place;
        let place = Place { kubeconfig, context, namespace };
        let cluster = Cluster::connect(place).await.map_err(CommandError::Connect)?;
        let mut out = io::stdout();
        match self.command {
            Command::Status { name, watch: true } => {
                wait(&cluster, &name, Duration::MAX, &mut out).await.map_err(CommandError::Wait)?;
                show(&cluster, &name, &mut out).await
            }
            Command::Status { name, watch: false } => show(&cluster, &name, &mut out).await,
            Command::Wait { name, timeout } => {
                let limit = Duration::from_micros(timeout.microseconds());
                wait(&cluster, &name, limit, &mut out).await.map_err(CommandError::Wait)
            }
            Command::Report { name, output } => write_report(&cluster, &name, (output, &mut out)).await,
            Command::Rollout { name, watch: true } => {
                follow_rollout(&cluster, &name, &mut out).await.map_err(CommandError::Wait)
            }
            Command::Rollout { name, watch: false } => {
                let object = cluster.get(&name).await.map_err(CommandError::Show)?;
                let text = rollout::rollout(&object);
                let text = if text.is_empty() {
                    format!("{name}: no rollout is under way, none was rolled back\n")
                } else {
                    text
                };
                write!(out, "{text}").map_err(CommandError::Write)
            }
            Command::Approve { name } => decide(&cluster, &name, (Decision::Approve, &mut out)).await,
            Command::Promote { name } => decide(&cluster, &name, (Decision::Promote, &mut out)).await,
            Command::Abort { name } => decide(&cluster, &name, (Decision::Abort, &mut out)).await,
            Command::Retry { name } => decide(&cluster, &name, (Decision::Retry, &mut out)).await,
            Command::Pause { name } => decide(&cluster, &name, (Decision::Pause, &mut out)).await,
            Command::Resume { name } => decide(&cluster, &name, (Decision::Resume, &mut out)).await,
            Command::Ask { name, question } => {
                let run = cluster.ask(&name, &question).await.map_err(CommandError::Ask)?;
                write!(out, "{}", conversation(&question, &run)).map_err(CommandError::Write)?;
                judged(&run)
            }
        }
    }
}

/// Writes a decision into the spec, and says what was written: a manifest in Git has to say it too, or it is undone.
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
    writeln!(out, "a tool that applies the manifest from Git takes it away unless the manifest says it too")
        .map_err(CommandError::Write)
}

/// Whether a run gave what it was asked for.
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
    let (measurements, unreachable) = match cluster.measurements(name).await {
        Ok(measurements) => (measurements, None),
        Err(error) => (Measurements::default(), Some(error)),
    };
    write!(out, "{}", overview(&object, profile.as_ref(), &measurements)).map_err(CommandError::Write)?;
    if let Some(error) = unreachable {
        writeln!(out, "  (the pods' measurements cannot be read: {})", chain(&error)).map_err(CommandError::Write)?;
    }
    Ok(())
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
    let html = report(Material { object: &object, profile: &profile, engines: &engines });
    match output {
        None => write!(out, "{html}").map_err(CommandError::Write),
        Some(path) => match fs::write(&path, html) {
            Ok(()) => writeln!(out, "the report is in {}", path.display()).map_err(CommandError::Write),
            Err(source) => Err(CommandError::Report { path, source }),
        },
    }
}
