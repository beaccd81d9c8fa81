//! SIGTERM: unready at once, runs in flight finish, what is left after the grace is cut, what was counted last is read.

use std::time::Duration;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_agent_runtime::{
    api::admission::Readiness,
    app::{Listeners, ServeError},
};
use slipway_runtime_config::RuntimeConfig;
use slipway_vocabulary::evidence::{Evidence, Metric};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Reply, Sidecar, or_hang, sidecar_with};

/// A sidecar that serves on loopback ports, and the handle that tells it to stop.
struct Serving {
    api: String,
    admin: String,
    terminate: CancellationToken,
    ended: JoinHandle<Result<(), ServeError>>,
    client: reqwest::Client,
}

async fn serving(sidecar: Sidecar) -> Serving {
    let listen = async || TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let listeners = Listeners { api: listen().await, admin: listen().await, texts: None };
    let origin = |listener: &TcpListener| format!("http://{}", listener.local_addr().expect("it is bound"));
    let (api, admin) = (origin(&listeners.api), origin(&listeners.admin));
    let terminate = CancellationToken::new();
    let ended = tokio::spawn(sidecar.app.serve(listeners, terminate.clone()));
    Serving { api, admin, terminate, ended, client: reqwest::Client::new() }
}

impl Serving {
    fn ask(&self) -> JoinHandle<(u16, Value)> {
        let request = self.client.post(format!("{}/v1/runs", self.api)).json(&json!({ "input": "?" }));
        tokio::spawn(async move {
            let response = request.send().await.expect("the sidecar answers");
            (response.status().as_u16(), response.json().await.expect("the body is JSON"))
        })
    }

    async fn readyz(&self) -> (u16, String) {
        let response = self.client.get(format!("{}/readyz", self.admin)).send().await.expect("the sidecar answers");
        (response.status().as_u16(), response.text().await.expect("the body arrives"))
    }
}

impl Serving {
    /// Runs that have ended by what the evidence says.
    async fn ended_runs(&self) -> u64 {
        let asked = self.client.get(format!("{}/slipway/v1/evidence", self.admin)).send();
        let evidence: Evidence = asked.await.expect("it answers").json().await.expect("the evidence reads back");
        let rows = evidence.windows.iter().flat_map(|window| &window.metrics);
        rows.filter(|row| row.metric == Metric::RunSuccess).map(|row| row.count).sum()
    }
}

#[tokio::test]
async fn what_was_counted_last_is_there_until_it_is_read() {
    let sidecar = sidecar_with([Reply::Says("Answer: 21\n\n")], |_| {});
    let (time, admission) = (sidecar.time.clone(), sidecar.app.admission().clone());
    let serving = serving(sidecar).await;
    assert_eq!(or_hang(serving.ask()).await.expect("the run ends").0, 200);
    assert_eq!(serving.ended_runs().await, 0, "the window is still open");
    serving.terminate.cancel();
    or_hang(admission.until(|readiness| *readiness == Readiness::Draining)).await;
    assert_eq!(serving.ended_runs().await, 0, "whoever asks too early may ask again");
    time.advance(Duration::from_secs(10));
    assert_eq!(serving.ended_runs().await, 1);
    assert!(or_hang(serving.ended).await.expect("no panic").is_ok());
}

#[tokio::test]
async fn the_last_window_is_kept_no_longer_than_the_grace() {
    let change = |config: &mut RuntimeConfig| config.drain_grace_milliseconds = 1;
    let serving = serving(sidecar_with([Reply::Says("Answer: 21\n\n")], change)).await;
    assert_eq!(or_hang(serving.ask()).await.expect("the run ends").0, 200);
    serving.ended_runs().await;
    serving.terminate.cancel();
    assert!(or_hang(serving.ended).await.expect("no panic").is_ok());
}

#[tokio::test]
async fn runs_in_flight_finish_and_nothing_new_comes_in() {
    let sidecar = sidecar_with([Reply::WaitsAndSays("Answer: 21\n\n")], |_| {});
    let (engine, admission) = (sidecar.engine.clone(), sidecar.app.admission().clone());
    let serving = serving(sidecar).await;
    let run = serving.ask();
    or_hang(engine.until(|engine| engine.generations.len() == 1)).await;
    serving.terminate.cancel();
    or_hang(admission.until(|readiness| *readiness == Readiness::Draining)).await;
    assert_eq!(serving.readyz().await, (503, "draining: 1 run(s) in flight\n".into()));
    let (status, body) = serving.ask().await.expect("the request ends");
    assert_eq!((status, &body["error"]["code"]), (503, &json!("shutting_down")));
    engine.release();
    let (status, body) = or_hang(run).await.expect("the run ends");
    assert_eq!((status, &body["answer"]), (200, &json!("21")));
    assert!(or_hang(serving.ended).await.expect("no panic").is_ok());
}

#[tokio::test]
async fn a_run_beyond_the_grace_is_cut_and_told_so() {
    let hangs = [Reply::SaysAndHangs("Answer: on and")];
    let sidecar = sidecar_with(hangs, |config| config.drain_grace_milliseconds = 1);
    let engine = sidecar.engine.clone();
    let serving = serving(sidecar).await;
    let run = serving.ask();
    or_hang(engine.until(|engine| engine.generations.len() == 1)).await;
    serving.terminate.cancel();
    let (status, body) = or_hang(run).await.expect("the run ends");
    assert_eq!(status, 503);
    assert_eq!(
        body["error"]["message"],
        json!("the pod was shut down before the run finished; send the request again")
    );
    assert_eq!(body["steps"][0]["text"], json!("Answer: on and"));
    or_hang(engine.until(|engine| engine.cancelled == 1)).await;
    assert!(or_hang(serving.ended).await.expect("no panic").is_ok());
}
