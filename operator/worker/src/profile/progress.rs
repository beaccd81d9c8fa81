//! What the operator reads while the Job runs, and the hold at its end.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    routing::{get, post},
};
use slipway_worker_contract::{NotMeasured, Phase, ProfileTask, Progress, Row, paths};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};

/// The Job's progress, shared with the server.
#[derive(Clone)]
pub struct Board {
    progress: Arc<Mutex<Progress>>,
    acknowledged: Arc<Notify>,
}

impl Board {
    /// Starts without rows.
    pub fn new(task: &ProfileTask) -> Self {
        let progress = Progress {
            input_hash: task.input_hash.clone(),
            engine: task.engine.clone(),
            phase: Phase::Loading { arm: None },
            rows: Vec::new(),
            gpu_millis: 0,
            not_measured: Vec::new(),
        };
        Self { progress: Arc::new(Mutex::new(progress)), acknowledged: Arc::new(Notify::new()) }
    }

    /// Says where the Job is.
    pub fn enter(&self, phase: Phase) {
        self.lock().phase = phase;
    }

    /// Adds a finished row.
    pub fn add(&self, row: Row) {
        let mut progress = self.lock();
        progress.gpu_millis += row.gpu_millis;
        progress.rows.push(row);
    }

    /// Says what will have no row.
    pub fn leave_out(&self, not_measured: Vec<NotMeasured>) {
        self.lock().not_measured = not_measured;
    }

    /// Returns the progress as it is now.
    pub fn snapshot(&self) -> Progress {
        self.lock().clone()
    }

    /// Serves the progress until the handle is aborted.
    ///
    /// # Errors
    /// What the system says if the address is taken.
    pub async fn serve(&self, address: SocketAddr) -> io::Result<(SocketAddr, JoinHandle<io::Result<()>>)> {
        let router = Router::new()
            .route(paths::PROGRESS_PATH, get(|State(board): State<Self>| async move { Json(board.snapshot()) }))
            .route(paths::PROGRESS_ACKNOWLEDGE_PATH, post(acknowledge))
            .route("/livez", get(|| async { "ok" }))
            .with_state(self.clone());
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        Ok((bound, tokio::spawn(async move { axum::serve(listener, router).await })))
    }

    /// Waits until the last progress is acknowledged, at most so long.
    pub async fn hold(&self, most: Duration) {
        if tokio::time::timeout(most, self.acknowledged.notified()).await.is_err() {
            tracing::warn!(seconds = most.as_secs(), "nobody acknowledged the result; the message repeats it");
        }
    }

    fn is_over(&self) -> bool {
        match self.lock().phase {
            Phase::Finished { .. } | Phase::Failed { .. } => true,
            Phase::Loading { .. } | Phase::Measuring { .. } => false,
        }
    }

    /// A poisoned lock means that a request's task panicked while it only copied; the data is whole.
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An acknowledgement before the end would acknowledge rows that nobody has read yet.
async fn acknowledge(State(board): State<Board>) -> (StatusCode, &'static str) {
    if !board.is_over() {
        return (StatusCode::CONFLICT, "the Job has not finished: acknowledge what GET /progress reports at its end\n");
    }
    board.acknowledged.notify_one();
    (StatusCode::OK, "acknowledged\n")
}
