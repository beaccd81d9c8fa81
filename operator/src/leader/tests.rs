//! An API server that stops answering, on a clock of the test's own.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

/// A server with one lease.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    is_silent: AtomicBool,
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        if self.is_silent.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.method != Method::GET {
            *lease = Some(serde_json::from_slice(&body)?);
        }
        let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "no lease"});
        let (status, answer) =
            lease.as_ref().map_or((StatusCode::NOT_FOUND, &missing), |lease| (StatusCode::OK, lease));
        Ok(Response::builder().status(status).body(Body::from(serde_json::to_vec(answer)?))?)
    }

    fn client(self: &Arc<Self>) -> Client {
        let server = Arc::clone(self);
        Client::new(service_fn(move |request| Arc::clone(&server).answer(request)), "slipway-system")
    }

    fn is_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }
}

/// A server, and an election that is won.
async fn led() -> (Arc<Server>, Election, Leadership) {
    let (server, leadership) = (Arc::new(Server::default()), Leadership::default());
    let candidate =
        Candidate { namespace: "slipway-system".into(), lease: "slipway-operator".into(), identity: "one".into() };
    let mut election = Election::new(server.client(), candidate, leadership.clone());
    assert!(election.win(&CancellationToken::new()).await);
    (server, election, leadership)
}

#[tokio::test(start_paused = true)]
async fn a_leader_ends_where_the_api_server_stops_answering() {
    let (server, mut election, leadership) = led().await;
    let since = Instant::now();
    server.is_silent(true);
    let lost = election.hold(&CancellationToken::new()).await.map_err(|error| error.to_string());
    let words = "lost the lease slipway-operator: one holds it or it could not be renewed within 10 s";
    assert_eq!(lost, Err(words.to_owned()));
    // Another process may lead before that: what keeps this one from writing is the age of its claim.
    assert!(since.elapsed() <= RENEW_DEADLINE + RETRY_PERIOD + ROUND_DEADLINE, "{:?}", since.elapsed());
    assert!(leadership.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_leader_outlasts_one_request_that_hangs() {
    let (server, mut election, leadership) = led().await;
    server.is_silent(true);
    let shutdown = CancellationToken::new();
    let goes_on = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        server.is_silent(false);
        tokio::time::sleep(Duration::from_secs(60)).await;
        shutdown.cancel();
    };
    let (held, ()) = tokio::join!(election.hold(&shutdown), goes_on);
    assert!(held.is_ok() && leadership.check().is_ok(), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_stands_for_election_at_a_silent_server_ends_when_it_is_told_to() {
    let (server, mut election, _) = led().await;
    server.is_silent(true);
    let shutdown = CancellationToken::new();
    let told = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        shutdown.cancel();
        Instant::now()
    };
    let (is_won, at) = tokio::join!(election.win(&shutdown), told);
    assert_eq!((is_won, at.elapsed()), (false, Duration::ZERO));
    let since = Instant::now();
    election.release().await;
    assert_eq!(since.elapsed(), ROUND_DEADLINE, "the lease expires by itself");
}
