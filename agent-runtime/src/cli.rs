//! The binary's arguments and verbs. The only place that reads the environment.

use std::{
    io,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use slipway_runtime_config::{DEFAULT_CONFIG_PATH, Engine};
use slipway_vocabulary::serving::Dialect;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::run_names::Seal,
    app::{App, Listeners, Parts, ServeError, SetUpError},
    backend::{Asked, Backend, ConnectError, connect},
    bridge::{self, BridgeError},
    clock::{Clock, Timestamp},
    config_file::{self, ConfigFileError},
    install,
};

/// The name of this binary.
const BINARY: &str = "slipway-agent-runtime";

/// Cores for which one thread serves, and the most threads. One thread does thousands of runs in a second, and threads
/// that wake each other take more time than the work that they hand over.
const CORES_OF_A_THREAD: usize = 8;
const MOST_THREADS: usize = 4;

/// Serves an agent beside Triton.
#[derive(Debug, Parser)]
#[command(name = BINARY, version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// The agent's configuration, as the operator writes it.
    #[arg(long, default_value = DEFAULT_CONFIG_PATH)]
    config: PathBuf,
    /// Where clients are served.
    #[arg(long, default_value = "0.0.0.0:8080")]
    api_address: SocketAddr,
    /// Where the kubelet, the operator and Prometheus are served.
    #[arg(long, default_value = "0.0.0.0:9464")]
    admin_address: SocketAddr,
    /// Where recorded texts are served, if they are remembered: on loopback, so that only a forwarded port reaches it.
    #[arg(long, default_value = "127.0.0.1:9467", value_parser = loopback)]
    texts_address: SocketAddr,
    /// The pod's name, as it stands in the evidence.
    #[arg(long, env = "POD_NAME", default_value = "local")]
    pod_name: String,
    /// What is logged: a level, or directives such as `info,slipway_agent_runtime=debug`.
    #[arg(long, env = "SLIPWAY_LOG", default_value = "info")]
    log: String,
    /// Threads that serve. Left out: one for every eight cores of the container, and at most four.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
}

/// What an image without a shell needs for probes and hooks.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Asks a URL of this machine and succeeds on a 2xx answer.
    Probe {
        /// The URL, such as http://127.0.0.1:9464/readyz.
        #[arg(long)]
        url: String,
        /// How long the answer may take.
        #[arg(long, default_value = "2s", value_parser = parse_duration)]
        timeout: Duration,
    },
    /// Waits: a preStop hook.
    Sleep {
        /// How long, such as 5s.
        #[arg(value_parser = parse_duration)]
        duration: Duration,
    },
    /// Copies this binary into a folder, for containers of other images.
    Install {
        /// The folder.
        folder: PathBuf,
    },
    /// Serves a program that speaks MCP on its standard input and output, over HTTP at `/mcp`.
    McpBridge {
        /// The socket that it is served at.
        #[arg(long)]
        socket: PathBuf,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// Why the process ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(ConfigFileError),
    /// The log directives cannot be used.
    #[error("failed to set up logging with --log {directives:?}")]
    Logging {
        /// What was given.
        directives: String,
        /// What is wrong.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// What the configuration says of the engine cannot be used.
    #[error("failed to set up the engine's client (triton)")]
    Engine(#[source] ConnectError),
    /// The sidecar cannot be set up.
    #[error("failed to set up the agent")]
    SetUp(#[source] SetUpError),
    /// A port is taken.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The signals cannot be listened for.
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
    /// The binary cannot be copied.
    #[error("failed to copy this binary into {}", folder.display())]
    Install {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The bridge to an MCP server ended.
    #[error("the bridge to the MCP server ended")]
    Bridge(#[source] BridgeError),
    /// Serving ended by itself.
    #[error("failed to serve")]
    Serve(#[source] ServeError),
    /// A probed URL did not answer.
    #[error("failed to ask {url}")]
    Probe {
        /// The URL.
        url: String,
        /// What went wrong.
        #[source]
        source: reqwest::Error,
    },
    /// A probed URL answered with another status than 2xx.
    #[error("{url} answered {status}: {body}")]
    ProbeStatus {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// The answer.
        body: String,
    },
}

impl Cli {
    /// The threads that serve, where there are so many cores.
    pub fn threads(&self, cores: usize) -> usize {
        let usual = cores.div_ceil(CORES_OF_A_THREAD).clamp(1, MOST_THREADS);
        self.serve.threads.map_or(usual, NonZeroUsize::get)
    }

    /// Does what the arguments say.
    ///
    /// # Errors
    /// See [`CliError`].
    pub async fn run(self) -> Result<(), CliError> {
        let Self { verb, serve } = self;
        match verb {
            Some(Verb::Probe { url, timeout }) => probe(url, timeout).await,
            Some(Verb::Sleep { duration }) => {
                tokio::time::sleep(duration).await;
                Ok(())
            }
            Some(Verb::Install { folder }) => match install::copy(Path::new(install::SELF), &folder, BINARY) {
                Ok(_) => Ok(()),
                Err(source) => Err(CliError::Install { folder, source }),
            },
            Some(Verb::McpBridge { socket, command }) => {
                start_logging("info")?;
                bridge::run(&socket, &command, on_signal()?).await.map_err(CliError::Bridge)
            }
            None => run(serve).await,
        }
    }
}

async fn run(args: ServeArgs) -> Result<(), CliError> {
    let ServeArgs { config: path, api_address, admin_address, texts_address, pod_name, log, threads: _ } = args;
    start_logging(&log)?;
    let json = config_file::read(&path).await.map_err(CliError::Config)?;
    let config = config_file::parse(&path, &json).map_err(CliError::Config)?;
    let backend = backend(&config.engine).map_err(CliError::Engine)?;
    let origin = Timestamp::from_micros(u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(0));
    tracing::info!(agent = config.agent_name, revision = config.revision, pod = pod_name, "starting");
    let parts = Parts { config, pod: pod_name, backend, clock: Clock::system(origin), seal: Seal::random() };
    let app = App::new(parts).map_err(CliError::SetUp)?.with_objectives_from(path);
    let terminate = on_signal()?;
    let texts = if app.texts().is_some() { Some(listen(texts_address).await?) } else { None };
    let listeners = Listeners { api: listen(api_address).await?, admin: listen(admin_address).await?, texts };
    app.serve(listeners, terminate).await.map_err(CliError::Serve)
}

fn backend(engine: &Engine) -> Result<Arc<dyn Backend>, ConnectError> {
    let Engine { endpoint, model_name, tokenizer, dialect, upstream } = engine;
    let (dialect, tokenizer) = match tokenizer {
        Some(folder) => (Dialect::Tokens, Path::new(folder)),
        None => (Dialect::Text(*dialect), Path::new("")),
    };
    connect(Asked { dialect, tokenizer, endpoint, model: model_name, upstream: upstream.as_ref() })
}

fn start_logging(directives: &str) -> Result<(), CliError> {
    let filter = tracing_subscriber::EnvFilter::builder()
        .parse(directives)
        .map_err(|source| CliError::Logging { directives: directives.into(), source })?;
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).init();
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<TcpListener, CliError> {
    TcpListener::bind(address).await.map_err(|source| CliError::Listen { address, source })
}

/// A token that is cancelled by SIGTERM or SIGINT.
fn on_signal() -> Result<CancellationToken, CliError> {
    let mut term = signal(SignalKind::terminate()).map_err(CliError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(CliError::Signals)?;
    let token = CancellationToken::new();
    let signaled = token.clone();
    // Lives as long as the process: it ends with the signal that ends the process.
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => tracing::info!("SIGTERM"),
            _ = interrupt.recv() => tracing::info!("SIGINT"),
        }
        signaled.cancel();
    });
    Ok(token)
}

async fn probe(url: String, timeout: Duration) -> Result<(), CliError> {
    let failed = |source| CliError::Probe { url: url.clone(), source };
    let client = reqwest::Client::builder().no_proxy().timeout(timeout).tls_certs_only([]).build().map_err(failed)?;
    let response = client.get(&url).send().await.map_err(failed)?;
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let body = response.text().await.map_err(failed)?;
    Err(CliError::ProbeStatus { url, status: status.as_u16(), body: body.trim().into() })
}

/// Reads an address that no other pod reaches.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "write an address and a port, such as 127.0.0.1:9467")?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("texts must not leave the pod: write a loopback address, such as 127.0.0.1:9467".into()),
    }
}

/// Reads `250ms`, `5s` or `2m`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: Option<u64> = digits.parse().ok();
    match (number, &text[digits.len()..]) {
        (Some(number), "ms") => Ok(Duration::from_millis(number)),
        (Some(number), "s") => Ok(Duration::from_secs(number)),
        (Some(number), "m") => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err("write a whole number with its unit, such as 250ms, 5s or 2m".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_thread_serves_for_eight_cores_unless_told_otherwise() {
        let threads = |arguments: &[&str], cores| {
            let arguments = [BINARY].iter().chain(arguments);
            Cli::try_parse_from(arguments).map(|cli| cli.threads(cores)).map_err(|error| error.kind())
        };
        assert_eq!([0, 1, 8, 9, 16, 17, 128].map(|cores| threads(&[], cores)), [1, 1, 1, 2, 2, 3, 4].map(Ok));
        assert_eq!(threads(&["--threads", "6"], 2), Ok(6));
        assert_eq!(threads(&["--threads", "0"], 2), Err(clap::error::ErrorKind::ValueValidation));
    }

    #[test]
    fn texts_are_served_on_loopback_alone() {
        assert_eq!(loopback("127.0.0.1:0").map(|address| address.port()), Ok(0));
        let refused = "texts must not leave the pod: write a loopback address, such as 127.0.0.1:9467";
        assert_eq!(loopback("0.0.0.0:9467"), Err(refused.into()));
        assert_eq!(loopback("9467"), Err("write an address and a port, such as 127.0.0.1:9467".into()));
    }

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "5", "s", "5h", "-5s", "1.5s"] {
            let expected = Err("write a whole number with its unit, such as 250ms, 5s or 2m".into());
            assert_eq!(parse_duration(bad), expected, "{bad}");
        }
    }
}
