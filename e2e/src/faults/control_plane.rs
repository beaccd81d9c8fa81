//! An API server that is away, or that forgets. Reads and writes IO; reads the clock.

use std::time::Duration;

use crate::{
    cluster,
    load::client::unix_millis,
    namespace::{Outcome, ScenarioError},
};

/// Flag of an API server that asks etcd for the past of every watch, and so knows no more of it than etcd.
const WITHOUT_WATCH_CACHE: &str = "--watch-cache=false";

/// How an API server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// Connections are refused.
    Refusing,
    /// Connections are accepted, and nobody is answered.
    Silent,
}

impl Away {
    fn begins(self) -> &'static str {
        match self {
            Self::Refusing => "kill",
            Self::Silent => "hang",
        }
    }

    fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Refusing => &["start"],
            Self::Silent => &["continue"],
        }
    }
}

/// An outage that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// When it began, in milliseconds of the Unix epoch.
    pub from_unix_millis: i64,
    /// When the API server was asked to answer again.
    pub to_unix_millis: i64,
    /// What kubectl said in the middle of it; absent if it was answered.
    pub refusal: Option<String>,
}

/// Has the API server be away for so long, and waits until it answers again.
///
/// # Errors
/// When the cluster's scripts refuse, in their own words.
pub async fn be_away(away: Away, lasting: Duration) -> Outcome<Outage> {
    let begun = tokio::time::Instant::now();
    let from_unix_millis = now();
    let undone = Undone::of(&[away.begins()], away.ends())?;
    let refusal = refusal()?;
    // The outage itself, which nothing ends but the clock.
    tokio::time::sleep_until(begun + lasting).await;
    let to_unix_millis = now();
    undone.end()?;
    Ok(Outage { from_unix_millis, to_unix_millis, refusal })
}

/// Whose watches are answered by etcd, as long as this is kept.
pub struct Forgetful(Undone);

impl Forgetful {
    /// Exchanges the API server, at once.
    ///
    /// # Errors
    /// When the cluster's scripts refuse, in their own words.
    pub fn begin() -> Outcome<Self> {
        let undone = Undone::of(&["kill"], &["kill", "start"])?;
        run(&["start", WITHOUT_WATCH_CACHE])?;
        Ok(Self(undone))
    }

    /// Has etcd forget the past: watches that are resumed from there are answered with 410. Gives the first revision
    /// that it still knows.
    ///
    /// # Errors
    /// When etcd refuses.
    pub fn forget(&self) -> Outcome<String> {
        Ok(run(&["compact"])?.trim().to_owned())
    }

    /// Exchanges the API server for one as before.
    ///
    /// # Errors
    /// When the cluster's scripts refuse, in their own words.
    pub fn end(self) -> Outcome<()> {
        self.0.end()
    }
}

/// A change of the control plane that is undone in any case: the next scenario needs an API server.
struct Undone {
    /// Commands, one after the other.
    by: &'static [&'static str],
    is_over: bool,
}

impl Undone {
    fn of(change: &[&str], by: &'static [&'static str]) -> Outcome<Self> {
        let undone = Self { by, is_over: false };
        run(change)?;
        Ok(undone)
    }

    fn end(mut self) -> Outcome<()> {
        self.is_over = true;
        self.undo()
    }

    fn undo(&self) -> Outcome<()> {
        self.by.iter().try_for_each(|command| run(&[command]).map(drop))
    }
}

impl Drop for Undone {
    fn drop(&mut self) {
        if !self.is_over {
            // The scenario has failed already, and says why.
            drop(self.undo());
        }
    }
}

/// What kubectl says when the API server does not answer within five seconds.
fn refusal() -> Outcome<Option<String>> {
    let asked = ["get", "--raw", "/readyz", "--request-timeout=5s"];
    let output = cluster::kubectl(&asked).map_err(|error| refused("kubectl", error.to_string()))?;
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn run(command: &[&str]) -> Outcome<String> {
    let what = format!("control-plane.sh {}", command.join(" "));
    let output = cluster::control_plane(command).map_err(|error| refused(&what, error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(refused(&what, text(&output.stderr))) }
}

fn refused(what: &str, failure: String) -> ScenarioError {
    ScenarioError::Refused { what: what.to_owned(), failure }
}

fn now() -> i64 {
    i64::try_from(unix_millis()).unwrap_or(i64::MAX)
}
