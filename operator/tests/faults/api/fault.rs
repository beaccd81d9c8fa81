//! What can go wrong with a request, and with which one it does.

use std::sync::Arc;

use http::Method;
use jiff::Timestamp;
use serde_json::json;
use slipway_crds::labels::APP_COMPONENT;
use tokio::sync::Notify;

use super::{
    kinds::{CORE_EVENTS, EVENTS, LEASES},
    refusal::Refusal,
    request::{Asked, Target},
    store::{Key, Store},
    write::Written,
};

/// A fault of a write.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The operator ends before the server has the request.
    CrashBefore,
    /// The operator ends after the server has carried it out.
    CrashAfter,
    /// The server refuses.
    Refused(Refusal),
    /// Nothing is carried out, and nobody answers.
    TimeoutBefore,
    /// It is carried out, and nobody answers.
    TimeoutAfter,
}

/// Faults by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    CrashBefore,
    CrashAfter,
    Conflict,
    TooManyRequests,
    InternalError,
    Unavailable,
    TimeoutBefore,
    TimeoutAfter,
}

/// All of them.
pub const FAULTS: [Name; 8] = [
    Name::CrashBefore,
    Name::CrashAfter,
    Name::Conflict,
    Name::TooManyRequests,
    Name::InternalError,
    Name::Unavailable,
    Name::TimeoutBefore,
    Name::TimeoutAfter,
];

impl Name {
    fn of(self, asked: &Asked) -> Fault {
        let refused = |code, reason, message: &str| {
            Fault::Refused(Refusal { code, reason, message: message.to_owned(), details: json!({}) })
        };
        match self {
            Self::CrashBefore => Fault::CrashBefore,
            Self::CrashAfter => Fault::CrashAfter,
            Self::TimeoutBefore => Fault::TimeoutBefore,
            Self::TimeoutAfter => Fault::TimeoutAfter,
            Self::Conflict => {
                let name = asked.subject().map(|key| key.name).unwrap_or_default();
                refused(
                    409,
                    "Conflict",
                    &format!("Operation cannot be fulfilled on {name:?}: the object has been modified"),
                )
            }
            Self::TooManyRequests => refused(429, "TooManyRequests", "too many requests, please try again later"),
            Self::InternalError => refused(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
            Self::Unavailable => Fault::Refused(Refusal::unavailable()),
        }
    }
}

/// What a list shows instead of the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lying {
    /// Everything but the last change.
    OneBehind,
    /// Everything but the last twenty changes.
    FarBehind,
}

impl Lying {
    pub fn version(self, store: &Store) -> u64 {
        let behind = match self {
            Self::OneBehind => 1,
            Self::FarBehind => 20,
        };
        store.version().saturating_sub(behind)
    }
}

/// What happens to a watch instead of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// It ends.
    Ends,
    /// It is told that what it has seen is too old.
    IsTooOld,
    /// It ends, and no watch begins for half a minute. What happened meanwhile is forgotten then.
    IsCutOff,
    /// It goes on without the event.
    LosesIt,
}

/// All of them.
pub const BROKEN_WATCHES: [Broken; 4] = [Broken::Ends, Broken::IsTooOld, Broken::IsCutOff, Broken::LosesIt];

/// One fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// At the n-th write, from 0.
    Write(usize, Name),
    /// At the n-th list, from 0.
    List(usize, Lying),
    /// The n-th event of all watches, from 0, is not sent as it should be.
    Event(usize, Broken),
    /// The operator stands still at the n-th request, from 0, which is carried out. Meanwhile another one leads.
    Stop(usize),
}

/// A write that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// POST, PATCH, DELETE.
    pub method: String,
    pub key: Key,
    /// The part of the object.
    pub part: String,
    /// What the object is for, as its labels say.
    pub component: String,
}

impl Site {
    /// What kind of a write it is, whatever the object's name.
    pub fn class(&self) -> String {
        let Self { method, key, part, component } = self;
        let what = if key.kind == EVENTS || key.kind == CORE_EVENTS { &key.name } else { component };
        let words = [method, key.kind.plural, part, what].map(|word: &str| word.to_owned());
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// A request of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub is_write: bool,
    /// Verb, kind and part.
    pub class: String,
}

impl Request {
    fn of(asked: &Asked) -> Self {
        let words = match (&asked.method, &asked.target) {
            (&Method::GET, Target::Collection(kind, _)) => vec!["LIST", kind.plural],
            (method, Target::Collection(kind, _)) => vec![method.as_str(), kind.plural],
            (method, Target::Object(key, part)) => {
                let part = part.as_deref();
                [method.as_str(), key.kind.plural].into_iter().chain(part).collect()
            }
            (method, Target::Groups | Target::Version(_) | Target::Unknown) => vec![method.as_str(), "kinds"],
        };
        Self { is_write: asked.is_write(), class: words.join(" ") }
    }
}

/// The fault that is planned, and what was asked for so far.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub plan: Option<Plan>,
    /// Every write that was asked for.
    pub writes: Vec<Site>,
    /// Lists that were asked for.
    pub lists: usize,
    /// Every request.
    pub requests: Vec<Request>,
    /// Objects that requests deleted without saying which one they mean.
    pub careless: Vec<Site>,
    /// Writes that the server refused as invalid.
    pub invalid: Vec<String>,
    /// Events that watches were to be sent.
    pub events: usize,
    /// Until when no watch begins.
    pub cut_off_until: Option<Timestamp>,
    /// Whether the planned fault has happened.
    pub has_struck: bool,
    /// Reading this object is where a defect of the reader shows.
    pub panics_at: Option<Key>,
    /// The operator is to end.
    pub crash: Arc<Notify>,
    /// The operator stands still at a request.
    pub stopped: Arc<Notify>,
    /// It goes on.
    pub goes_on: Arc<Notify>,
    /// The operator that leads no more, by the name of its connection.
    pub deposed: Option<&'static str>,
    /// What it wrote all the same.
    pub late: Vec<Site>,
}

impl Faults {
    /// What to wait for before this request is answered. Stories leave out the lease of the leader.
    pub fn of_request(&mut self, asked: &Asked) -> Option<Arc<Notify>> {
        if asked.subject().is_some_and(|key| key.kind == LEASES) {
            return None;
        }
        let at = self.requests.len();
        self.requests.push(Request::of(asked));
        if self.plan != Some(Plan::Stop(at)) {
            return None;
        }
        self.has_struck = true;
        self.stopped.notify_one();
        Some(self.goes_on.clone())
    }

    /// Whether reading this object is where a defect shows.
    pub fn is_defect(&self, asked: &Asked) -> bool {
        matches!(&asked.target, Target::Object(key, None) if Some(key) == self.panics_at.as_ref() && !asked.is_write())
    }

    /// A write of somebody, who may lead no more.
    pub fn asked_by(&mut self, name: &str, asked: &Asked) {
        if self.deposed == Some(name) {
            self.late.push(site(asked));
        }
    }

    /// The fault of this write.
    pub fn of_write(&mut self, asked: &Asked) -> Option<Fault> {
        let at = self.writes.len();
        let site = site(asked);
        if site.method == "DELETE" && !names_its_object(asked) {
            self.careless.push(site.clone());
        }
        self.writes.push(site);
        match self.plan {
            Some(Plan::Write(planned, name)) if planned == at => {
                self.has_struck = true;
                Some(name.of(asked))
            }
            _ => None,
        }
    }

    /// What this list shows instead of the present.
    pub fn of_list(&mut self, asked: &Asked) -> Option<Lying> {
        let Target::Collection(..) = asked.target else { return None };
        self.lists += 1;
        match self.plan {
            Some(Plan::List(planned, lying)) if planned + 1 == self.lists => {
                self.has_struck = true;
                Some(lying)
            }
            _ => None,
        }
    }

    /// What happens to a watch instead of its next event.
    pub fn of_event(&mut self) -> Option<Broken> {
        let at = self.events;
        self.events += 1;
        let Some(Plan::Event(planned, broken)) = self.plan else { return None };
        self.has_struck |= planned == at;
        (planned == at).then_some(broken)
    }

    /// What the server thought of a write.
    pub fn committed(&mut self, asked: &Asked, answer: &Written) {
        if let Err(refusal) = answer.as_ref().map(drop).map_err(Clone::clone)
            && matches!(refusal.code, 400 | 405 | 415 | 422)
        {
            self.invalid.push(format!("{:?}: {}", site(asked), refusal.message));
        }
    }
}

fn site(asked: &Asked) -> Site {
    let part = match &asked.target {
        Target::Object(_, part) => part.clone().unwrap_or_default(),
        Target::Collection(..) | Target::Groups | Target::Version(_) | Target::Unknown => String::new(),
    };
    let mut key = asked.subject().expect("a write has an object");
    // The names of events tell nothing.
    if key.kind == EVENTS || key.kind == CORE_EVENTS {
        key.name = asked.json().ok().and_then(|event| Some(event["reason"].as_str()?.to_owned())).unwrap_or_default();
    }
    let labels = asked.json().map(|body| body["metadata"]["labels"][APP_COMPONENT].clone()).unwrap_or_default();
    let component = labels.as_str().unwrap_or_default().to_owned();
    Site { method: asked.method.to_string(), key, part, component }
}

fn names_its_object(asked: &Asked) -> bool {
    asked.json().is_ok_and(|options| options["preconditions"]["uid"].is_string())
}
