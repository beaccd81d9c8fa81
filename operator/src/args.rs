//! The command line of the operator, and its start. The environment is read here and nowhere else.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use jiff::Timestamp;
use kube::runtime::events::Reporter;
use slipway_operator_core::notifications::decide::Policy;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    controllers,
    evidence::Pods,
    kube_io::{
        applied::Applied,
        client::{ClientError, connect},
        events::EventRecorder,
        neighbours::Neighbours,
        read::Reader,
    },
    leader::{Candidate, Election, LeaderError, Leadership, fence::fenced},
    metrics::{FailureCounts, Metrics},
    notifications::deliver::{Notifier, NotifierError, Outside},
    promql::{ConnectError, Prometheus},
    reconcile::Context,
    server::{ServerState, serve},
    settings_file::{self, SettingsError},
    turns::Turns,
};

/// The Slipway operator.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// The configuration file.
    #[arg(long, default_value = "/etc/slipway/config.yaml")]
    config: PathBuf,
    /// Address of the port for health and metrics.
    #[arg(long, default_value = "0.0.0.0:8081")]
    listen: SocketAddr,
    /// Namespace of the leader's lease.
    #[arg(long, env = "POD_NAMESPACE", default_value = "slipway-system")]
    lease_namespace: String,
    /// Name of this process among the replicas.
    #[arg(long, env = "POD_NAME", default_value = "slipway-operator")]
    identity: String,
}

/// Why the operator ended.
#[derive(Debug, Error)]
pub enum RunError {
    /// The configuration cannot be used.
    #[error("failed to read the configuration")]
    Settings(#[source] SettingsError),
    /// There is no connection to a cluster.
    #[error("failed to connect to the cluster")]
    Connect(#[source] ClientError),
    /// There is no client for the pods' own ports.
    #[error("failed to make the HTTP client")]
    Http(#[source] reqwest::Error),
    /// Prometheus cannot be asked.
    #[error("failed to prepare questions to Prometheus")]
    Prometheus(#[source] ConnectError),
    /// Nobody can be told what happens.
    #[error("failed to prepare notifications")]
    Notifications(#[source] NotifierError),
    /// The process cannot be told to end.
    #[error("failed to listen for signals")]
    Signals(#[source] std::io::Error),
    /// The port cannot be opened.
    #[error("failed to serve health and metrics")]
    Serve(#[source] std::io::Error),
    /// Another process leads.
    #[error("ended so that another process can lead")]
    Leader(#[source] LeaderError),
    /// A task ended on its own.
    #[error("the task {0} ended on its own")]
    TaskEnded(&'static str),
}

/// How long notifications that still wait may take at the end.
const LAST_NOTIFICATIONS: Duration = Duration::from_secs(5);

/// Name of the leader's lease.
const LEASE: &str = "slipway-operator";

impl Args {
    /// Runs the operator until it is told to end, or loses its lease.
    ///
    /// # Errors
    /// When it cannot start, or must end on its own.
    pub async fn run(self) -> Result<(), RunError> {
        let Self { config, listen, lease_namespace, identity } = self;
        let settings = Arc::new(settings_file::read(&config).map_err(RunError::Settings)?);
        let client = connect().await.map_err(RunError::Connect)?;
        let http = pods_client().map_err(RunError::Http)?;
        let prometheus = Prometheus::connect(&settings.prometheus).map_err(RunError::Prometheus)?;
        let shutdown = CancellationToken::new();
        let signals = end_on_signals(shutdown.clone())?;
        let metrics = Metrics::new();
        let notifier = Notifier::new(&settings.notifications, metrics.clone(), Policy::default(), Outside::real())
            .map_err(RunError::Notifications)?;
        let is_ready = Arc::new(AtomicBool::new(false));
        let server_stop = CancellationToken::new();
        let state = ServerState { metrics: metrics.clone(), is_ready: is_ready.clone() };
        let server = tokio::spawn(serve(listen, state, server_stop.clone()));
        let leadership = Leadership::default();
        let candidate = Candidate { namespace: lease_namespace, lease: LEASE.to_owned(), identity: identity.clone() };
        let mut election = Election::new(client.clone(), candidate, leadership.clone());
        is_ready.store(true, Ordering::Release);
        let result = if election.win(&shutdown).await {
            metrics.set_leading();
            let reporter = Reporter { controller: "slipway".to_owned(), instance: Some(identity) };
            let writer = fenced(client.clone(), leadership.clone());
            let context = Context {
                recorder: EventRecorder::new(writer.clone(), reporter),
                reader: Reader::new(client),
                client: writer,
                pods: Pods::new(http.clone()),
                http,
                prometheus,
                settings,
                leadership,
                notifier,
                metrics,
                neighbours: Neighbours::default(),
                glanced_neighbours: Neighbours::default(),
                applied: Applied::default(),
                turns: Turns::default(),
                caches: OnceLock::new(),
                failures: FailureCounts::default(),
                clock: Timestamp::now,
            };
            lead(Arc::new(context), &mut election, &shutdown).await
        } else {
            Ok(())
        };
        signals.abort();
        server_stop.cancel();
        if let Ok(Err(error)) = server.await {
            return result.and(Err(RunError::Serve(error)));
        }
        result
    }
}

/// The client for the ports of our own pods: plain HTTP, to nowhere else. The operator's image has no certificates, and
/// without this it would look for them.
fn pods_client() -> Result<reqwest::Client, reqwest::Error> {
    let none = reqwest::redirect::Policy::none();
    // A connection that is kept has a buffer of up to 0.4 MiB once it has read an hour. A pod is asked every ten
    // seconds at most, so a new one costs little.
    reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().redirect(none).tls_certs_only([]).build()
}

/// Runs the controllers as long as the lease is held, and gives it back last.
async fn lead(context: Arc<Context>, election: &mut Election, shutdown: &CancellationToken) -> Result<(), RunError> {
    let stop = CancellationToken::new();
    let mut controllers = tokio::spawn(controllers::run(context.clone(), stop.clone()));
    // Outlives the controllers, for their last notifications.
    let told = CancellationToken::new();
    let leadership = context.leadership.clone();
    let may_send = move || leadership.check().is_ok();
    let mut notifications = tokio::spawn(context.notifier.clone().run(may_send, told.clone()));
    let result = tokio::select! {
        held = election.hold(shutdown) => held.map_err(RunError::Leader),
        ended = &mut controllers => Err(RunError::TaskEnded(ended.unwrap_or("controllers"))),
        _ = &mut notifications => Err(RunError::TaskEnded("notifications")),
    };
    // Not the leader any more: nothing may be finished, least of all half a plan.
    result?;
    info!("ending: reconciliations in flight are finished, then the lease is given back");
    stop.cancel();
    // A task that has panicked has been reported by the runtime.
    drop(controllers.await);
    told.cancel();
    if tokio::time::timeout(LAST_NOTIFICATIONS, notifications).await.is_err() {
        warn!("receivers do not answer: notifications that wait for them are lost");
    }
    election.release().await;
    Ok(())
}

fn end_on_signals(shutdown: CancellationToken) -> Result<tokio::task::JoinHandle<()>, RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    }))
}
