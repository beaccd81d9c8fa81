//! A strict API server in memory: the kinds that the operator uses, by the rules of Kubernetes' own server.
//!
//! It serves one `kube::Client`. `conformance/` compares it with a real one, request by request.

pub mod admission;
mod body;
pub mod claims;
pub mod delete;
pub mod fault;
pub mod fields;
pub mod kinds;
pub mod managers;
pub mod pods;
pub mod quantity;
pub mod quota;
pub mod read;
pub mod refusal;
pub mod request;
pub mod schema;
pub mod select;
pub mod store;
pub mod watch;
pub mod write;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll},
};

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{Client, client::Body as Asking};
use serde_json::Value;
use slipway_operator::kube_io::deadline::DeadlineExceeded;
use tokio::sync::Notify;
use tower::{BoxError, Service};

use crate::bugs::Bug;

use self::{
    fault::{Fault, Faults, Lying},
    kinds::LEASES,
    read::Listed,
    refusal::Refusal,
    request::{Asked, Target},
    store::{Store, Writer},
    write::{Write, Written},
};

/// The server; clones are the same one.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    /// Wakes watches after a change.
    changed: Arc<Notify>,
    /// Whose connection this is.
    pub asked_by: &'static str,
}

/// What the server has, and what happens to requests.
pub struct State {
    pub store: Store,
    pub faults: Faults,
    /// A defect of the operator's.
    pub bug: Option<Bug>,
    clock: fn() -> Timestamp,
}

impl ApiServer {
    pub fn new(clock: fn() -> Timestamp) -> Self {
        let state = State { store: Store::default(), faults: Faults::default(), bug: None, clock };
        Self { state: Arc::new(Mutex::new(state)), changed: Arc::default(), asked_by: "one" }
    }

    /// The same server, as somebody else is connected to it.
    pub fn seen_by(&self, name: &'static str) -> Self {
        Self { asked_by: name, ..self.clone() }
    }

    /// Tells watches that something has happened in the cluster.
    pub fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    /// What it has. Nothing waits while somebody looks.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn serve(self, asked: Asked) -> Result<Response<Body>, BoxError> {
        if asked.is_watch() {
            return Ok(watch::answer(self, asked));
        }
        let is_defect = self.state().faults.is_defect(&asked);
        // Nobody holds the server's state meanwhile.
        assert!(!is_defect, "a defect that {:?} meets", asked.target);
        let (stands_still, outcome) = {
            let mut state = self.state();
            (state.faults.of_request(&asked), state.outcome(&asked, self.asked_by))
        };
        self.changed.notify_waiters();
        if let Some(goes_on) = stands_still {
            goes_on.notified().await;
        }
        match outcome {
            Outcome::Answered(answer) => Ok(response(answer)),
            Outcome::Silent(silence) => Err(silence.into()),
            // Nobody hears the answer any more.
            Outcome::Crashed(crash) => {
                crash.notify_one();
                std::future::pending().await
            }
        }
    }
}

/// How a request ends.
enum Outcome {
    Answered(Written),
    Silent(DeadlineExceeded),
    Crashed(Arc<Notify>),
}

impl State {
    /// The time of day, as the server has it.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Answers a request, with the fault that is planned for it, of an operator with the defect that is planted.
    fn outcome(&mut self, asked: &Asked, asked_by: &str) -> Outcome {
        let Some(bug) = self.bug.filter(|_| asked.is_write()) else { return self.outcome_of(asked, asked_by) };
        match bug.distort(asked, &mut self.store) {
            Ok(asked) => self.outcome_of(&asked, asked_by),
            Err(answer) => Outcome::Answered(answer),
        }
    }

    fn outcome_of(&mut self, asked: &Asked, asked_by: &str) -> Outcome {
        // The lease of the leader is renewed in time, and not as part of any story.
        if asked.subject().is_some_and(|key| key.kind == LEASES) {
            return Outcome::Answered(self.answer(asked, Writer::Client, None));
        }
        if asked.is_write() {
            self.faults.asked_by(asked_by, asked);
        } else {
            let lying = self.faults.of_list(asked);
            return Outcome::Answered(self.answer(asked, Writer::Client, lying));
        }
        let silence = || DeadlineExceeded {
            method: asked.method.to_string(),
            path: asked.subject().map(|key| key.name).unwrap_or_default(),
            seconds: 30,
        };
        match self.faults.of_write(asked) {
            None => {
                let answer = self.answer(asked, Writer::Client, None);
                self.faults.committed(asked, &answer);
                Outcome::Answered(answer)
            }
            Some(Fault::Refused(refusal)) => Outcome::Answered(Err(refusal)),
            Some(Fault::TimeoutBefore) => Outcome::Silent(silence()),
            Some(Fault::TimeoutAfter) => {
                let answer = self.answer(asked, Writer::Client, None);
                self.faults.committed(asked, &answer);
                Outcome::Silent(silence())
            }
            Some(Fault::CrashBefore) => Outcome::Crashed(self.faults.crash.clone()),
            Some(Fault::CrashAfter) => {
                let answer = self.answer(asked, Writer::Client, None);
                self.faults.committed(asked, &answer);
                Outcome::Crashed(self.faults.crash.clone())
            }
        }
    }

    /// Answers a request. A lying one is answered as of earlier.
    pub fn answer(&mut self, asked: &Asked, writer: Writer, lying: Option<Lying>) -> Written {
        let now = self.now();
        // What is only tried leaves nothing behind.
        let mut tried = asked.parameter("dryRun").map(|_| self.store.clone());
        let mut write = Write { store: tried.as_mut().unwrap_or(&mut self.store), now, writer };
        match (&asked.method, &asked.target) {
            (&Method::GET, Target::Groups) => Ok((200, read::groups())),
            (&Method::GET, Target::Version(name)) => Ok((200, read::version(name)?)),
            (&Method::GET, Target::Object(key, _)) => Ok((200, read::get(write.store, asked, key)?)),
            (&Method::GET, Target::Collection(kind, namespace)) => {
                let version = lying.map_or(write.store.version(), |lying| lying.version(write.store));
                let objects = if lying.is_some() { write.store.as_of(version) } else { write.store.all().clone() };
                let listed = Listed { objects, version };
                Ok((200, read::list(&listed, asked, *kind, namespace.as_deref())?))
            }
            (&Method::POST, Target::Collection(kind, Some(namespace))) => write.create(asked, *kind, namespace),
            (&Method::PUT, Target::Object(key, part)) => write.update(asked, key, part.as_deref()),
            (&Method::PATCH, Target::Object(key, part)) => write.patch(asked, key, part.as_deref()),
            (&Method::DELETE, Target::Object(key, None)) => write.delete(asked, key),
            (_, Target::Unknown | Target::Version(_) | Target::Groups) => Err(Refusal::unknown_path()),
            (_, Target::Collection(..) | Target::Object(..)) => Err(Refusal {
                code: 405,
                reason: "MethodNotAllowed",
                ..Refusal::bad_request("the server does not allow this method on the requested resource")
            }),
        }
    }
}

fn response(answer: Written) -> Response<Body> {
    let (code, body, retry_after) = match answer {
        Ok((code, body)) => (code, body, false),
        Err(refusal) => (refusal.code, refusal.body(), refusal.code == 429),
    };
    json_response(code, &body, retry_after)
}

fn json_response(code: u16, body: &Value, retry_after: bool) -> Response<Body> {
    let mut builder = Response::builder().status(code).header("content-type", "application/json");
    if retry_after {
        builder = builder.header("retry-after", "1");
    }
    builder.body(Body::from(body.to_string())).unwrap()
}

impl Service<Request<Asking>> for ApiServer {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Asking>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(BoxError::from)?.to_bytes();
            server.serve(Asked::of(&parts, body)).await
        })
    }
}
