//! Runs one verb, writes its termination message and ends with its exit code.

use std::{
    env, fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap::Parser;
use slipway_backends::no_build::of;
use slipway_vocabulary::serving::NoBuildBackend;
use slipway_worker::{
    cli::{AssembleArgs, Cli, Common, FinishBuildArgs, SourceArgs, SuperviseArgs, ToolArgs, Verb},
    failure::{self, Classify},
    fetch,
    finish_build::{self, Folders},
    install, materialize, no_build,
    profile::{
        self,
        recompute::{self, RecomputeError},
        shim,
    },
    quality::{self, QualityError, evaluate},
    resolve,
    source::Access,
    supervise::{self, Ending, Server},
    sweep,
    tensorrt_llm::{
        assemble::{self, Parts},
        tool::{self, Places},
    },
};
use slipway_worker_contract::{BuildTask, FailureClass, Message, Outcome, ProfileTask, Task, TaskError};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};
use tracing_subscriber::EnvFilter;

/// Says why a verb has no task.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error("failed to read the task file {path}")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("failed to read the records {path}")]
    Records {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("failed to compute a row from {path}")]
    Recompute {
        path: String,
        #[source]
        source: RecomputeError,
    },
    #[error("failed to print the row")]
    Print {
        #[source]
        source: io::Error,
    },
    #[error("failed to find this binary")]
    Binary {
        #[source]
        source: io::Error,
    },
    #[error("failed to follow the task file {path}")]
    Follow {
        path: String,
        #[source]
        source: TaskError,
    },
}

impl Classify for OrderError {
    fn class(&self) -> FailureClass {
        // A task file that is missing or foreign is a mistake of the release, not of the user's model; another attempt
        // may run on a node that has the volume.
        FailureClass::Infrastructure
    }
}

/// Reads the task file of a verb: `task!(common, Fetch)` is the `FetchTask` or the message to end with.
macro_rules! task {
    ($common:expr, $kind:ident) => {
        match read_task(&$common.task) {
            Ok(Task::$kind(task)) => Ok(task),
            Ok(other) => Err(failure::message(&OrderError::Follow {
                path: $common.task.display().to_string(),
                source: other.unexpected(stringify!($kind)),
            })),
            Err(error) => Err(failure::message(&error)),
        }
    };
}

#[tokio::main]
async fn main() -> ExitCode {
    if let Some(order) = env::var_os(shim::ORDER_ENV) {
        let arguments: Vec<String> = env::args().skip(1).collect();
        return ExitCode::from(shim::run(Path::new(&order), &arguments));
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
    let Cli { common, verb } = Cli::parse();
    let message = match run(&common, verb).await {
        Ok(Done::Silently) => return ExitCode::SUCCESS,
        Ok(Done::Supervised(ending)) => return end(&common, &ending),
        Ok(Done::With(result)) => Message::Succeeded { result },
        Err(failed) => *failed,
    };
    if let Message::Failed { class, text } = &message {
        tracing::error!(class = class.as_str(), "{text}");
    }
    ExitCode::from(common.report().finish(&message))
}

/// How a verb that did not fail ended.
enum Done {
    /// With a result for the operator.
    With(Outcome),
    /// With files only.
    Silently,
    /// With the end of another program, whose exit code is passed on.
    Supervised(Ending),
}

async fn run(common: &Common, verb: Verb) -> Result<Done, Box<Message>> {
    match verb {
        Verb::Resolve(args) => {
            let task = task!(common, Resolve)?;
            let result = resolve::run(&task, &access(&args)?).await;
            result.map(|r| Done::With(Outcome::Resolve(r))).map_err(|e| failure::message(&e))
        }
        Verb::Fetch(args) => {
            let task = task!(common, Fetch)?;
            let result = fetch::run(&task, &access(&args.source)?, &args.store).await;
            result.map(|r| Done::With(Outcome::Fetch(r))).map_err(|e| failure::message(&e))
        }
        Verb::CheckCheckpoint(args) => {
            fetch::check(&args.source_digest, &args.store).map_err(|e| failure::message(&e))?;
            Ok(Done::Silently)
        }
        Verb::FinishBuild(args) => {
            let task = task!(common, Build)?;
            let FinishBuildArgs { output, store, dataset, threads } = args;
            let folders = Folders { output, store, dataset, threads };
            let result = finish_build::run(&task, &folders);
            result.map(|r| Done::With(Outcome::Build(r))).map_err(|e| failure::message(&e))
        }
        Verb::Quality(args) => {
            let task = task!(common, Quality)?;
            let engine = task.engine.clone().ok_or_else(|| failure::message(&QualityError::NoEngine))?;
            let files = quality::Files { dataset: args.dataset, outputs: args.outputs.into(), store: args.store };
            let result = quality::run(&task, &engine, &files);
            result.map(|r| Done::With(Outcome::Quality(r))).map_err(|e| failure::message(&e))
        }
        Verb::Materialize(args) => {
            let result = materialize::run(&args.order());
            result.map(|r| Done::With(Outcome::Materialize(r))).map_err(|e| failure::message(&e))
        }
        Verb::Install(args) => {
            let installed = install::run(&args.folder).map_err(|e| failure::message(&e))?;
            tracing::info!(path = %installed.display(), "installed");
            Ok(Done::Silently)
        }
        Verb::Profile(args) => {
            let task = task!(common, Profile)?;
            let worker = env::current_exe().map_err(|source| failure::message(&OrderError::Binary { source }))?;
            let setup = args.setup(&task, worker).map_err(|e| failure::message(&e))?;
            let result = profile::run(&task, &setup, termination()).await;
            result.map(|r| Done::With(Outcome::Profile(r))).map_err(|e| failure::message(&e))
        }
        Verb::Recompute(args) => {
            let task = task!(common, Profile)?;
            recompute_row(&task, &args.records).map_err(|e| failure::message(&e))?;
            Ok(Done::Silently)
        }
        Verb::Evaluate(args) => {
            let evaluation = args.evaluation().map_err(|e| failure::message(&e))?;
            evaluate::run(&evaluation).await.map_err(|e| failure::message(&e))?;
            Ok(Done::Silently)
        }
        Verb::Tool(args) => {
            let task = task!(common, Build)?;
            run_tool(&task, args).await
        }
        Verb::Assemble(args) => {
            let task = task!(common, Build)?;
            run_assemble(&task, args)?;
            Ok(Done::Silently)
        }
        Verb::Sweep(args) => {
            let task = task!(common, Sweep)?;
            let result = sweep::run(&task, &args.store);
            result.map(|r| Done::With(Outcome::Sweep(r))).map_err(|e| failure::message(&e))
        }
        Verb::Supervise(args) => {
            supervise::run(&server(args)).await.map(Done::Supervised).map_err(|e| failure::message(&e))
        }
    }
}

fn run_assemble(task: &BuildTask, args: AssembleArgs) -> Result<(), Box<Message>> {
    let AssembleArgs { models, llm_api, backends, checkpoint, output } = args;
    match &task.no_build {
        Some(order) => {
            let programs = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
            let parts = no_build::Parts { backends, llm_api, programs, checkpoint, output };
            no_build::run(task, order, &parts).map_err(|e| failure::message(&e))
        }
        None => {
            let parts = Parts { models, checkpoint, output };
            assemble::run(task, &parts).map_err(|e| failure::message(&e))
        }
    }
}

async fn run_tool(task: &BuildTask, args: ToolArgs) -> Result<Done, Box<Message>> {
    let ToolArgs { step, examples, calibration } = args;
    let places = Places { examples, calibration };
    tool::run(task, &step, &places).await.map_err(|e| failure::message(&e))?;
    Ok(Done::Silently)
}

fn server(args: SuperviseArgs) -> Server {
    let SuperviseArgs {
        server: program,
        model_repository,
        load_model,
        tensorrt_llm_ranks,
        vllm_engine,
        own_server,
        engine,
        extra,
    } = args;
    let of_vllm = vllm_engine.zip(of(NoBuildBackend::VLLMOpenAI).own_server());
    match (of_vllm.or(own_server.map(|server| (engine, server))), tensorrt_llm_ranks) {
        (Some((engine, server)), _) => supervise::own_server(server, &engine),
        (None, Some(ranks)) => supervise::tensorrt_llm(&program, &model_repository, ranks, &extra),
        (None, None) => supervise::triton(&program, &model_repository, &load_model, &extra),
    }
}

fn recompute_row(task: &ProfileTask, records: &Path) -> Result<(), OrderError> {
    let path = || records.display().to_string();
    let bytes = fs::read(records).map_err(|source| OrderError::Records { path: path(), source })?;
    let row = recompute::run(task, &bytes).map_err(|source| OrderError::Recompute { path: path(), source })?;
    let text = serde_json::to_string(&row).expect("a row is plain data");
    writeln!(io::stdout(), "{text}").map_err(|source| OrderError::Print { source })
}

/// Becomes true when the container is asked to end.
fn termination() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            terminate.recv().await;
            // Nobody listens any more once the campaign is over.
            let _ = sender.send(true);
        }
    });
    receiver
}

fn end(common: &Common, ending: &Ending) -> ExitCode {
    if let Some(message) = ending.message() {
        common.report().finish(&message);
    }
    ExitCode::from(ending.exit_code())
}

fn access(args: &SourceArgs) -> Result<Access, Box<Message>> {
    args.access().map_err(|e| failure::message(&e))
}

fn read_task(path: &Path) -> Result<Task, OrderError> {
    let name = || path.display().to_string();
    let bytes = fs::read(path).map_err(|source| OrderError::Read { path: name(), source })?;
    Task::parse(&bytes).map_err(|source| OrderError::Follow { path: name(), source })
}
