//! An AgentDeployment as it changes: watches it, its pods and its events, and shows the tree whenever it has changed.
//! Reads and writes IO and the clock.

use std::{
    io::{self, Write},
    pin::pin,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    jiff::Timestamp,
};
use kube::{Resource, runtime::watcher};
use slipway_crds::v1alpha1::AgentDeployment;
use slipway_vocabulary::failure::chain;
use thiserror::Error;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    cluster::{Cluster, ClusterError, refused},
    frame::{CLEARED, Size, drawn},
    output::{Format, OutputError, one_of_several},
    rollout, terminal,
    tree::{
        Seen, Tree,
        lines::{Ink, wrapped},
        text::{Focus, Moments, Screen, text},
    },
    watched::Watched,
};

/// Time between two looks at what watches have told, on a terminal.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// The same for a file or a pipe, so that what changes together makes one block.
const APPEND_EVERY: Duration = Duration::from_secs(1);

/// Why following ended before its time.
#[derive(Debug, Error)]
pub enum FollowError {
    /// The cluster gave no answer.
    #[error("failed to watch")]
    Cluster(#[source] ClusterError),
    /// The signals of the terminal cannot be received.
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
    /// A document cannot be made.
    #[error("failed to show the tree")]
    Output(#[source] OutputError),
    /// The output cannot be written.
    #[error("failed to write")]
    Write(#[source] io::Error),
}

/// What is followed, and how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Follow {
    /// What is shown beside the tree.
    pub focus: Focus,
    /// Documents in place of text.
    pub format: Option<Format>,
    /// When it ends by itself.
    pub until: Until,
}

/// When following ends by itself. It also ends with Ctrl-C, and when the AgentDeployment is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Only then.
    Deleted,
    /// When no revision is on trial, and nothing is under way.
    RolloutIsOver,
}

/// What watches have told.
#[derive(Default)]
struct State {
    objects: Watched<AgentDeployment>,
    pods: Watched<Pod>,
    events: Watched<Event>,
    /// Why a watch does not answer at the moment.
    trouble: Option<String>,
}

impl State {
    fn is_complete(&self) -> bool {
        self.objects.is_complete() && self.pods.is_complete() && self.events.is_complete()
    }
}

/// Shows an AgentDeployment again whenever it has changed: in place on a terminal, else as blocks that follow each
/// other.
///
/// # Errors
/// When there is no such AgentDeployment, the API server refuses a watch, or nothing can be written.
pub async fn follow(
    cluster: &Cluster,
    name: &str,
    how: Follow,
    out: &mut (dyn Write + Send),
) -> Result<(), FollowError> {
    let first = cluster.get(name).await.map_err(FollowError::Cluster)?;
    let mut objects = pin!(cluster.watch_agent(name));
    let mut pods = pin!(cluster.watch_pods(name));
    let mut events = pin!(cluster.watch_events(&first));
    let mut interrupted = signal(SignalKind::interrupt()).map_err(FollowError::Signals)?;
    let mut resized = signal(SignalKind::window_change()).map_err(FollowError::Signals)?;
    let mut display = Display::new(how);
    let mut tick = interval(display.every());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut state = State::default();
    loop {
        tokio::select! {
            Some(told) = objects.next() => { state.trouble = take(&mut state.objects, told)?; continue }
            Some(told) = pods.next() => { state.trouble = take(&mut state.pods, told)?; continue }
            Some(told) = events.next() => { state.trouble = take(&mut state.events, told)?; continue }
            _ = interrupted.recv() => return Ok(()),
            _ = resized.recv() => display.forget(),
            _ = tick.tick() => {}
        }
        if !state.is_complete() {
            continue;
        }
        let Some(object) = state.objects.get(name).filter(|now| now.metadata.uid == first.metadata.uid) else {
            return match how.format {
                None => writeln!(out, "{name} was deleted").map_err(FollowError::Write),
                // A program sees the end of the documents.
                Some(_) => Ok(()),
            };
        };
        let (pods, events) = (state.pods.all(), state.events.all());
        let tree = Tree::of(Seen { object, pods: &pods, events: &events });
        display.show(&tree, state.trouble.as_deref(), out)?;
        if how.until == Until::RolloutIsOver && rollout::is_over(object) {
            return Ok(());
        }
    }
}

/// Takes what a watch tells, and gives what is wrong with it where it tells that. A refusal that will not change ends
/// everything.
fn take<K: Resource + Clone>(
    watched: &mut Watched<K>,
    told: watcher::Result<watcher::Event<K>>,
) -> Result<Option<String>, FollowError> {
    match told {
        Ok(event) => {
            watched.take(event);
            Ok(None)
        }
        Err(watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) if is_final(&error) => {
            Err(FollowError::Cluster(refused("list and watch what belongs to it".to_owned())(error)))
        }
        Err(error) => Ok(Some(chain(&error))),
    }
}

/// Whether asking again is of no use: the user may not, or there is no such kind.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if [401, 403, 404].contains(&status.code))
}

/// What was shown, and how.
struct Display {
    how: Follow,
    ink: Ink,
    is_in_place: bool,
    shown: String,
}

impl Display {
    fn new(how: Follow) -> Self {
        let is_in_place = how.format.is_none() && terminal::size().is_some();
        Self { how, ink: terminal::ink(), is_in_place, shown: String::new() }
    }

    /// What was drawn is no longer where it was.
    fn forget(&mut self) {
        if self.is_in_place {
            self.shown.clear();
        }
    }

    fn every(&self) -> Duration {
        if self.is_in_place { DRAW_EVERY } else { APPEND_EVERY }
    }

    /// Writes what has changed since it was last written.
    fn show(&mut self, tree: &Tree, trouble: Option<&str>, out: &mut (dyn Write + Send)) -> Result<(), FollowError> {
        let size = if self.is_in_place { terminal::size() } else { None };
        let written = match (self.how.format, size) {
            (Some(format), _) => one_of_several(format, tree).map_err(FollowError::Output)?,
            (None, Some(size)) => self.frame(tree, trouble, size),
            (None, None) => self.block(tree),
        };
        if written == self.shown {
            return Ok(());
        }
        let before = match (size, self.shown.is_empty(), self.how.format) {
            (Some(_), true, _) => CLEARED.to_owned(),
            (Some(_), false, _) | (None, _, Some(_)) => String::new(),
            (None, _, None) => format!("At {}:\n", Timestamp::now().strftime("%H:%M:%S UTC")),
        };
        write!(out, "{before}{written}").and_then(|()| out.flush()).map_err(FollowError::Write)?;
        self.shown = written;
        Ok(())
    }

    fn frame(&self, tree: &Tree, trouble: Option<&str>, size: Size) -> String {
        let moments = Moments::Ages(Timestamp::now());
        let screen = Screen { width: size.columns, ink: self.ink, moments, focus: self.how.focus };
        let trouble = trouble.map_or(String::new(), |trouble| {
            let words = format!("no answer, trying again: {trouble}");
            format!("\n{}\n", wrapped(&words, size.columns).join("\n"))
        });
        drawn(&format!("{}{trouble}", text(tree, &screen)), size)
    }

    fn block(&self, tree: &Tree) -> String {
        let focus = self.how.focus;
        let screen = Screen { width: terminal::DEFAULT_WIDTH, ink: Ink::None, moments: Moments::Times, focus };
        format!("{}\n", text(tree, &screen))
    }
}
