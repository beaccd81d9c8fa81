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
    answers::{self, Answer, AnswerError},
    cluster::{Cluster, ClusterError, Place},
    conversation::Run,
    decision::{Decision, NothingToDecide, Word, word},
    forward::Forwarder,
    init::InitArgs,
    live::{Follow, FollowError, Until, follow},
    offline::{self, CheckArgs, OfflineError},
    output::Format,
    recorder::{self, Outputs, RecordArgs, RecordError, Sources, unix_micros},
    report::{Material, report},
    tree::text::Focus,
    wait::{WaitError, wait},
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

#[derive(Debug, Clone, ClapArgs)]
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
    Check(CheckArgs),
    /// Writes a first manifest with comments, which `check` accepts.
    Init(Box<InitArgs>),
}

/// A document in place of text.
#[derive(Debug, Clone, Copy, ClapArgs)]
struct OutputArgs {
    /// Writes a document for programs.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

/// What a rollout is asked for.
#[derive(Debug, Clone, ClapArgs)]
struct RolloutArgs {
    /// Name of the AgentDeployment.
    name: String,
    #[command(flatten)]
    how: RolloutOptions,
}

/// How a rollout is shown.
#[derive(Debug, Clone, ClapArgs)]
struct RolloutOptions {
    /// Shows it as a tree that is kept up to date, until the canary is promoted or rolled back.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a decision is about.
#[derive(Debug, Clone, ClapArgs)]
struct DecisionArgs {
    /// Name of the AgentDeployment.
    name: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// The verb of kubectl's own `rollout`.
#[derive(Debug, Clone, Subcommand)]
enum RolloutVerb {
    /// The same as `rollout NAME`.
    Show(RolloutArgs),
}

/// What needs a cluster.
#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Shows an AgentDeployment as a tree: its revisions with their shares of the traffic, their pods, and the latest
    /// events.
    Get {
        /// Name of the AgentDeployment.
        name: String,
        /// Keeps the tree up to date, until Ctrl-C or until the AgentDeployment is deleted.
        #[arg(short, long)]
        watch: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Shows stage, conditions, engines with their quality, candidates, the choice, and objectives with their values.
    Status {
        /// Name of the AgentDeployment.
        name: String,
        /// Waits like `wait`, but without a time limit, and shows the status once it is ready.
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Reports progress until an AgentDeployment is ready. Exit code 3: stalled; 4: timeout; 6: it waits for a person.
    Wait {
        /// Name of the AgentDeployment.
        name: String,
        /// Time limit, such as 90s, 10m or 2h.
        #[arg(long, default_value = "30m", value_name = "DURATION")]
        timeout: DurationText,
        #[command(flatten)]
        output: OutputArgs,
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
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Shows the traffic of stable and canary, the judge's verdict and its evidence, and how long a verdict takes.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Rollout {
        #[command(subcommand)]
        verb: Option<RolloutVerb>,
        /// Name of the AgentDeployment.
        #[arg(required = true)]
        name: Option<String>,
        #[command(flatten)]
        how: RolloutOptions,
    },
    /// Approves the choice that waits, or else the campaign after drift (annotations slipway.dev/approve,
    /// approve-reprofiling).
    Approve(DecisionArgs),
    /// Promotes the canary without waiting for a verdict (annotation slipway.dev/promote).
    Promote(DecisionArgs),
    /// Rolls the canary back, or declines the choice that waits for approval (annotation slipway.dev/abort).
    Abort(DecisionArgs),
    /// Tries the plan of the spec once more after it was rolled back (annotation slipway.dev/retry).
    Retry(DecisionArgs),
    /// Keeps a rollout at its step; harm still rolls it back (annotation slipway.dev/pause).
    Pause(DecisionArgs),
    /// Resumes a paused rollout (annotation slipway.dev/pause, spec.rollout.paused).
    Resume(DecisionArgs),
    /// Records the traffic of a live agent as the file of a workload: lengths in tokens, times of arrival, and
    /// latencies of tools.
    Record(RecordArgs),
    /// Shows what the artifact store of the namespace holds, what needs it, and how the last sweep ended.
    Store {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Asks an agent a question, and shows its tool calls and the answer. Exit code 1: no answer; 5: every tool call
    /// failed.
    Ask {
        /// Name of the AgentDeployment.
        name: String,
        /// The question.
        question: String,
        #[command(flatten)]
        output: OutputArgs,
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
    /// There is nothing to show.
    #[error(transparent)]
    Answer(AnswerError),
    /// Following ended before its time.
    #[error("failed to follow the AgentDeployment")]
    Follow(#[source] FollowError),
    /// Nothing can be recorded.
    #[error(transparent)]
    Record(RecordError),
    /// The report cannot be written.
    #[error("failed to write {path}")]
    Report {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        #[source]
        source: io::Error,
    },
    /// A command without a cluster failed.
    #[error(transparent)]
    Offline(OfflineError),
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
            Self::Wait(WaitError::Cluster(_) | WaitError::Output(_) | WaitError::Write(_))
            | Self::Connect(_)
            | Self::Show(_)
            | Self::Undecidable { .. }
            | Self::Decide(_)
            | Self::Ask(_)
            | Self::NoAnswer
            | Self::NoProfile(_)
            | Self::Answer(_)
            | Self::Follow(_)
            | Self::Record(_)
            | Self::Report { .. }
            | Self::Offline(_)
            | Self::Write(_) => 1,
        }
    }
}

impl Args {
    /// Runs the command in the cluster that its flags name.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or the command fails.
    pub async fn run(self) -> Result<(), CommandError> {
        let PlaceArgs { kubeconfig, context, namespace } = self.place.clone();
        let cluster = Cluster::connect(Place { kubeconfig, context, namespace });
        self.run_in(cluster, &mut io::stdout()).await
    }

    /// Runs the command in a cluster, which is connected to only where the command needs one.
    ///
    /// # Errors
    /// When the cluster cannot be reached, or the command fails.
    pub async fn run_in(
        self,
        cluster: impl Future<Output = Result<Cluster, ClusterError>> + Send,
        out: &mut (dyn Write + Send),
    ) -> Result<(), CommandError> {
        match self.command {
            Command::Check(args) => offline::check(&args, out).map_err(CommandError::Offline),
            Command::Init(args) => {
                offline::init(&args, self.place.namespace.as_deref(), out).map_err(CommandError::Offline)
            }
            Command::OfCluster(command) => command.run(cluster.await.map_err(CommandError::Connect)?, out).await,
        }
    }
}

impl ClusterCommand {
    async fn run(self, cluster: Cluster, out: &mut (dyn Write + Send)) -> Result<(), CommandError> {
        match self {
            Self::Get { name, watch: true, output } => {
                let how = Follow { focus: Focus::Agent, format: output.output, until: Until::Deleted };
                follow(&cluster, &name, how, out).await.map_err(CommandError::Follow)
            }
            Self::Get { name, watch: false, output } => {
                answers::tree(&cluster, &name, output.to(out)).await.map_err(CommandError::Answer)
            }
            Self::Status { name, watch, output } => {
                if watch {
                    wait(&cluster, &name, Duration::MAX, output.to(out)).await.map_err(CommandError::Wait)?;
                }
                let answer = Answer { is_one_of_several: watch, ..output.to(out) };
                answers::status(&cluster, &name, answer).await.map_err(CommandError::Answer)
            }
            Self::Wait { name, timeout, output } => {
                let limit = Duration::from_micros(timeout.microseconds());
                wait(&cluster, &name, limit, output.to(out)).await.map_err(CommandError::Wait)
            }
            Self::Report { name, output } => write_report(&cluster, &name, (output, out)).await,
            Self::Explain { name, candidate, output } => {
                let asked = (name.as_str(), candidate.as_deref());
                answers::explanation(&cluster, asked, output.to(out)).await.map_err(CommandError::Answer)
            }
            Self::Rollout { verb: Some(RolloutVerb::Show(RolloutArgs { name, how })), .. } => {
                show_rollout(&cluster, &name, how, out).await
            }
            // The command line requires the name, or a verb.
            Self::Rollout { verb: None, name, how } => {
                show_rollout(&cluster, &name.unwrap_or_default(), how, out).await
            }
            Self::Approve(args) => decide(&cluster, Decision::Approve, args, out).await,
            Self::Promote(args) => decide(&cluster, Decision::Promote, args, out).await,
            Self::Abort(args) => decide(&cluster, Decision::Abort, args, out).await,
            Self::Retry(args) => decide(&cluster, Decision::Retry, args, out).await,
            Self::Pause(args) => decide(&cluster, Decision::Pause, args, out).await,
            Self::Resume(args) => decide(&cluster, Decision::Resume, args, out).await,
            Self::Record(args) => {
                let forwarder = Forwarder::of(cluster.place().clone());
                let sources = Sources { cluster: &cluster, forwarder: &forwarder, clock: unix_micros };
                let outputs = Outputs { out, aside: &mut io::stderr() };
                recorder::run(sources, &args, outputs).await.map_err(CommandError::Record)
            }
            Self::Store { output } => answers::store(&cluster, output.to(out)).await.map_err(CommandError::Answer),
            Self::Ask { name, question, output } => {
                let run = cluster.ask(&name, &question).await.map_err(CommandError::Ask)?;
                answers::run(&question, &run, output.to(out)).map_err(CommandError::Answer)?;
                judged(&run)
            }
        }
    }
}

impl OutputArgs {
    /// Where an answer goes, in the form that is asked for.
    fn to(self, out: &mut (dyn Write + Send)) -> Answer<'_> {
        Answer { format: self.output, is_one_of_several: false, out }
    }
}

async fn show_rollout(
    cluster: &Cluster,
    name: &str,
    RolloutOptions { watch, output }: RolloutOptions,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    if watch {
        let how = Follow { focus: Focus::Rollout, format: output.output, until: Until::RolloutIsOver };
        return follow(cluster, name, how, out).await.map_err(CommandError::Follow);
    }
    answers::rollout(cluster, name, output.to(out)).await.map_err(CommandError::Answer)
}

/// Writes a decision, and prints what was written.
async fn decide(
    cluster: &Cluster,
    decision: Decision,
    DecisionArgs { name, output }: DecisionArgs,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let object = cluster.get(&name).await.map_err(CommandError::Show)?;
    let word = word(&object, decision).map_err(|source| CommandError::Undecidable { name, source })?;
    cluster.patch(&object, &word.patch()).await.map_err(CommandError::Decide)?;
    output.to(out).write(&word, Word::text).map_err(CommandError::Answer)
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
