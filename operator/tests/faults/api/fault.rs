//! What can go wrong with a request, and with which one it does.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;

use super::{
    kinds::{CORE_EVENTS, EVENTS},
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
            Self::Unavailable => {
                refused(503, "ServiceUnavailable", "the server is currently unable to handle the request")
            }
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

/// One fault of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plan {
    /// At the n-th write, from 0.
    Write(usize, Name),
    /// At the n-th list, from 0.
    List(usize, Lying),
}

/// A write that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// POST, PATCH, DELETE.
    pub method: String,
    pub key: Key,
    /// The part of the object.
    pub part: String,
}

/// The fault that is planned, and what was asked for so far.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub plan: Option<Plan>,
    /// Every write that was asked for.
    pub writes: Vec<Site>,
    /// Lists that were asked for.
    pub lists: usize,
    /// Objects that requests deleted without saying which one they mean.
    pub careless: Vec<Site>,
    /// Writes that the server refused as invalid.
    pub invalid: Vec<String>,
    /// Whether the planned fault has happened.
    pub has_struck: bool,
    /// The operator is to end.
    pub crash: Arc<Notify>,
}

impl Faults {
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
    Site { method: asked.method.to_string(), key, part }
}

fn names_its_object(asked: &Asked) -> bool {
    asked.json().is_ok_and(|options| options["preconditions"]["uid"].is_string())
}
