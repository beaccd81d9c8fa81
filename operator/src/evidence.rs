//! Asks the serving pods what they counted: each only for what it has counted since. Reads IO.
//!
//! A pod that does not answer delays no other agent. Pods that answered last time are asked in a lane of their own,
//! those of a canary in another one. New pods and silent ones have theirs. Each lane reads a few answers at once: one
//! that stalls delays none of another lane. Namespaces share a lane: slow pods of one leave places to the others. No
//! look waits for a place among the silent, but for that of a canary.

mod pod;
mod room;

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream};
use slipway_operator_core::agent_deployment::{
    monitoring::counted::{CountedHour, Keep, MOST_BUCKETS},
    world::PodEvidence,
};
use slipway_vocabulary::evidence::{Evidence, Implausible};
use thiserror::Error;
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout, timeout_at},
};
use tracing::{debug, warn};

use self::room::{Pools, kibibytes};
pub use self::{
    pod::{ADMIN_PORT, AskedPod, host},
    room::Room,
};
use crate::{
    bounded_body::{self, BodyError},
    turns::{Shared, Turn},
};

/// How long a pod may take to begin its answer, and again to end it.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a look waits for its pods' turns.
const LOOK: Duration = Duration::from_secs(4);
/// The same of pods that are asked for the first time: after a start of the operator all are. What else is to be done
/// waits meanwhile.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// How long a look with a canary waits for room.
const ROOM: Duration = Duration::from_secs(20);
/// How long a pod that did not answer is left alone.
const AGAIN: Duration = Duration::from_secs(5);
/// Pods of one look that are asked at once.
const CONCURRENCY: usize = 8;
/// Bytes of an answer: twice what a busy pod reports of an hour.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Pods that are not ready and are asked at once why; in all, and of a namespace.
const UNREADY: [usize; 2] = [32, 8];
/// How long a pod is remembered that nobody asks about.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Time between two looks at which pods are still asked about.
const TIDIED: Duration = Duration::from_secs(60);
/// Buckets of all pods together that are remembered: 32 MiB of them.
const ALL_BUCKETS: usize = 4 * 1024 * 1024;
/// The part that is left to pods of agents with a canary.
const BUCKETS_OF_CANARIES: usize = ALL_BUCKETS / 4;

/// Why nothing is known of what a pod counted.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// No answer, or none of success.
    #[error("failed to ask for the evidence")]
    Ask(#[source] reqwest::Error),
    /// The answer breaks off, or is longer than any evidence.
    #[error("failed to receive the evidence")]
    Receive(#[source] BodyError),
    /// The answer is not evidence.
    #[error("failed to read the evidence")]
    Read(#[source] serde_json::Error),
    /// No pod can have counted this.
    #[error("refused the evidence")]
    Refuse(#[source] Implausible),
    /// Nothing came in time, now or a moment ago.
    #[error("the pod did not answer in time")]
    Silent,
    /// Others were asked meanwhile. It says nothing of the pod.
    #[error("the pod was not asked: it is asked again in a few seconds")]
    NotAsked,
}

impl EvidenceError {
    /// What is wrong with an answer that was read.
    fn refused(&self) -> Option<Implausible> {
        match self {
            Self::Refuse(why) => Some(why.clone()),
            Self::Ask(_) | Self::Receive(_) | Self::Read(_) | Self::Silent | Self::NotAsked => None,
        }
    }
}

/// What a look asks its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question<'a> {
    /// Namespace of the pods.
    pub namespace: &'a str,
    /// Which windows are needed as they were counted; absent if none is.
    pub windows: Option<Windows>,
    /// What is needed of the last hour.
    pub keep: Keep,
    /// Whether a canary is judged by it.
    pub has_canary: bool,
}

/// Windows that are needed as they were counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Windows {
    after: u64,
    of_pods: BTreeMap<String, u64>,
}

impl Windows {
    /// Those after a window, of every pod.
    pub fn after(window: u64) -> Self {
        Self { after: window, of_pods: BTreeMap::new() }
    }

    /// Of the pods that are named those after the window that is named; of others all that they have.
    pub fn unread(read: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut of_pods = BTreeMap::new();
        for (pod, window) in read {
            let known = of_pods.entry(pod).or_insert(window);
            *known = window.max(*known);
        }
        Self { after: 0, of_pods }
    }

    fn of(&self, pod: &str) -> u64 {
        self.of_pods.get(pod).copied().unwrap_or(self.after)
    }
}

/// What the pods of a look said, by revision.
#[derive(Debug, Default)]
pub struct Asked {
    /// Room for the windows, to be kept as long as they are. Without room there are none.
    pub room: Option<Room>,
    /// The last hour of each pod; absent of a ready pod that does not answer.
    pub counted: BTreeMap<String, Vec<Option<Arc<CountedHour>>>>,
    /// The windows that were asked for, by name of the pod.
    pub windows: BTreeMap<String, Vec<PodEvidence>>,
    /// Whether there was a turn for every pod.
    pub is_whole: bool,
}

/// An answer that has begun.
struct Rest {
    /// Bytes that it has, or has at most.
    bytes: usize,
    read: BoxFuture<'static, Result<Evidence, EvidenceError>>,
}

/// Asks one pod, by its URL, until its answer begins.
type Ask = Box<dyn Fn(String) -> BoxFuture<'static, Result<Rest, EvidenceError>> + Send + Sync>;

/// The pods that serve, and what they have said.
pub struct Pods {
    ask: Ask,
    lanes: Lanes,
    rooms: Pools,
    memory: Pools,
    unready: Shared,
    known: Mutex<Known>,
}

/// Where pods wait to be asked.
struct Lanes {
    answering: Lane,
    of_canaries: Lane,
    new: Lane,
    new_of_canaries: Lane,
    silent: Lane,
    silent_of_canaries: Lane,
}

/// Pods that are asked at once, and those of them whose answers are read at once: whole hours of many would not fit
/// into memory. Nobody closes them.
struct Lane {
    turns: Shared,
    answers: Shared,
    /// How long a look waits here; absent where it does not.
    patience: Option<Duration>,
}

impl Lane {
    /// So many in all, and so many of a namespace.
    fn new(turns: [usize; 2], answers: [usize; 2], patience: Option<Duration>) -> Self {
        Self { turns: Shared::new(turns), answers: Shared::new(answers), patience }
    }
}

impl Lanes {
    fn of(&self, pod: &KnownPod, has_canary: bool) -> &Lane {
        match (&pod.silent, &pod.asked, has_canary) {
            (Some(_), _, true) => &self.silent_of_canaries,
            (Some(_), _, false) => &self.silent,
            (None, None, true) => &self.new_of_canaries,
            (None, None, false) => &self.new,
            (None, Some(_), true) => &self.of_canaries,
            (None, Some(_), false) => &self.answering,
        }
    }
}

/// One look at pods.
struct Look<'a> {
    question: &'a Question<'a>,
    rooms: &'a Shared,
    /// Taken once an answer begins: silent pods need none.
    room: OnceCell<Option<Turn>>,
    began: Instant,
}

impl Look<'_> {
    /// Until when a pod waits for its turn. A canary that waits for room is judged by all of its pods all the same. A
    /// pod that was silent, and begins to answer, is read.
    fn deadline(&self, lane: &Lane) -> Instant {
        let Some(patience) = lane.patience else { return Instant::now() + LOOK };
        let from = if self.question.has_canary { Instant::now() } else { self.began };
        from + patience
    }

    /// Makes room for windows, where they are needed. A canary waits for it, but not for ever: it is judged by them.
    /// Others do without, and need them no less at the next look.
    async fn make_room(&self) {
        let Question { namespace, windows: Some(_), has_canary, .. } = self.question else { return };
        self.room
            .get_or_init(|| async {
                match *has_canary {
                    true => timeout(ROOM, self.rooms.take(namespace)).await.ok().flatten(),
                    false => self.rooms.take_now(namespace),
                }
            })
            .await;
    }

    /// Whether windows are kept.
    fn keeps_windows(&self) -> bool {
        self.question.windows.is_some() && self.room.get().is_some_and(Option::is_some)
    }
}

struct Known {
    pods: HashMap<(String, String), KnownPod>,
    /// Buckets of all of them.
    buckets: usize,
    tidied: Instant,
}

#[derive(Default, Clone)]
struct KnownPod {
    hour: Option<Arc<CountedHour>>,
    /// Since when it has not answered; absent if it has.
    silent: Option<Instant>,
    asked: Option<Instant>,
}

impl KnownPod {
    fn size(&self) -> usize {
        self.hour.as_ref().map_or(0, |hour| hour.size())
    }
}

impl Pods {
    /// Asks by this connection.
    pub fn new(http: reqwest::Client) -> Self {
        Self::asking(move |url| Box::pin(ask(http.clone(), url)))
    }

    fn asking(ask: impl Fn(String) -> BoxFuture<'static, Result<Rest, EvidenceError>> + Send + Sync + 'static) -> Self {
        let known = Mutex::new(Known { pods: HashMap::new(), buckets: 0, tidied: Instant::now() });
        let lanes = Lanes {
            answering: Lane::new([32, 16], [3, 2], Some(LOOK)),
            of_canaries: Lane::new([16, 8], [3, 2], Some(LOOK)),
            new: Lane::new([64, 32], [2, 1], Some(FIRST_LOOK)),
            new_of_canaries: Lane::new([16, 8], [3, 2], Some(FIRST_LOOK)),
            silent: Lane::new([8, 4], [2, 1], None),
            silent_of_canaries: Lane::new([8, 4], [2, 1], Some(LOOK)),
        };
        let (rooms, memory) = (Pools::of_looks(), Pools::of_memory());
        Self { ask: Box::new(ask), lanes, rooms, memory, unready: Shared::new(UNREADY), known }
    }

    /// A turn to ask a pod why it is not ready, if it comes in time.
    pub async fn turn_of_unready(&self, namespace: &str) -> Option<Turn> {
        timeout(FIRST_LOOK, self.unready.take(namespace)).await.ok().flatten()
    }

    /// What pods have counted. Those that are not ready and do not answer have nothing to say yet.
    pub async fn ask(&self, question: &Question<'_>, pods: &[AskedPod]) -> Asked {
        self.tidy();
        let rooms = self.rooms.of(question.has_canary);
        let look = Look { question, rooms, room: OnceCell::new(), began: Instant::now() };
        let asking = &look;
        let mut answers: Vec<(AskedPod, Result<Answer, EvidenceError>)> = stream::iter(pods.to_vec())
            .map(|pod| async move {
                let answer = self.ask_pod(asking, &pod).await;
                (pod.clone(), answer.inspect_err(|error| log_failure(&pod.pod, error)))
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        answers.retain(|(pod, answer)| pod.is_ready || matches!(answer, Ok(_) | Err(EvidenceError::NotAsked)));
        answers.sort_by(|(a, _), (b, _)| a.pod.cmp(&b.pod));
        // Nobody can tell a pod that did not answer from one whose windows were not kept.
        let has_windows = question.windows.is_some() && look.room.get().is_none_or(Option::is_some);
        let mut asked = Asked { is_whole: true, ..Asked::default() };
        let mut memory = Vec::new();
        for (AskedPod { revision, pod, node, is_leaving, is_ready, .. }, answer) in answers {
            let had_turn = !matches!(answer, Err(EvidenceError::NotAsked));
            let refused = answer.as_ref().err().and_then(EvidenceError::refused);
            let (hour, kept) = answer.ok().map(|Answer { hour, kept }| (hour, kept)).unzip();
            let evidence = kept.flatten().map(|Received { evidence, memory: taken }| {
                memory.push(taken);
                evidence
            });
            // Whatever has broken is known of a pod that has fallen silent, too.
            let remembered = hour.clone().or_else(|| self.remembered(question.namespace, &pod));
            let broken = remembered.map(|hour| hour.broken().to_vec()).unwrap_or_default();
            asked.is_whole &= had_turn;
            if had_turn || is_ready {
                asked.counted.entry(revision.clone()).or_default().push(hour);
            }
            // A canary is judged, and told that its pods were not asked.
            if has_windows || (question.windows.is_some() && question.has_canary) {
                let was_asked = had_turn && has_windows;
                let evidence = PodEvidence { pod, evidence, refused, was_asked, broken, is_leaving, node };
                asked.windows.entry(revision).or_default().push(evidence);
            }
        }
        asked.room = look.room.into_inner().flatten().map(|turn| Room::new(turn, memory));
        asked
    }

    async fn ask_pod(&self, look: &Look<'_>, pod: &AskedPod) -> Result<Answer, EvidenceError> {
        let key = (look.question.namespace.to_owned(), pod.pod.clone());
        let known = self.known().pods.get(&key).cloned().unwrap_or_default();
        if known.silent.is_some_and(|since| since.elapsed() < AGAIN) {
            return Err(EvidenceError::Silent);
        }
        let lane = self.lanes.of(&known, look.question.has_canary);
        let answer = self.ask_since(look, lane, pod, known.hour.clone()).await;
        // Who was not asked stays what it was. Figures do not wait for pods that were silent before.
        if matches!(answer, Err(EvidenceError::NotAsked)) {
            let is_silent = known.silent.is_some() && !look.question.has_canary;
            return if is_silent { Err(EvidenceError::Silent) } else { answer };
        }
        let is_silent = matches!(answer, Err(EvidenceError::Silent));
        // Whatever it has counted before is still so.
        let hour = answer.as_ref().ok().map(|answer| answer.hour.clone()).or(known.hour);
        self.remember(key, (hour, is_silent.then(Instant::now)), look.question.has_canary);
        answer
    }

    async fn ask_since(
        &self,
        look: &Look<'_>,
        lane: &Lane,
        pod: &AskedPod,
        hour: Option<Arc<CountedHour>>,
    ) -> Result<Answer, EvidenceError> {
        let question = look.question;
        let known = hour.filter(|hour| hour.keeps(&question.keep)).map(Arc::unwrap_or_clone);
        let mut hour = known.unwrap_or_else(|| CountedHour::new(question.keep.clone()));
        let windows = question.windows.as_ref().map(|windows| windows.of(&pod.pod));
        let after = windows.map_or(hour.asks_after(), |windows| windows.min(hour.asks_after()));
        let mut received = self.receive(look, lane, pod.url(after)).await?;
        if !hour.add(&received.evidence, after) {
            drop(received);
            received = self.receive(look, lane, pod.url(0)).await?;
            hour = CountedHour::new(question.keep.clone());
            // A new hour continues with whatever comes.
            let _ = hour.add(&received.evidence, 0);
        }
        Ok(Answer { hour: Arc::new(hour), kept: look.keeps_windows().then_some(received) })
    }

    /// An answer that begins gives its turn back, and waits for room to be read. A pod whose answer finds no memory was
    /// not asked.
    async fn receive(&self, look: &Look<'_>, lane: &Lane, url: String) -> Result<Received, EvidenceError> {
        let namespace = look.question.namespace;
        let asked = match lane.patience {
            Some(_) => turn(&lane.turns, namespace, look.deadline(lane)).await?,
            None => lane.turns.take_now(namespace).ok_or(EvidenceError::NotAsked)?,
        };
        let Rest { bytes, read } = (self.ask)(url).await?;
        drop(asked);
        look.make_room().await;
        let _reading = turn(&lane.answers, namespace, look.deadline(lane)).await?;
        // What the look itself holds comes back only when it is over.
        let memory = self.memory.of(look.question.has_canary).take_many(namespace, kibibytes(bytes));
        let memory = timeout_at(look.began + LOOK, memory).await.ok().flatten().ok_or(EvidenceError::NotAsked)?;
        Ok(Received { evidence: read.await?, memory })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds the lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remembered(&self, namespace: &str, pod: &str) -> Option<Arc<CountedHour>> {
        self.known().pods.get(&(namespace.to_owned(), pod.to_owned()))?.hour.clone()
    }

    /// What there is no room for is asked for again.
    fn remember(
        &self,
        key: (String, String),
        (hour, silent): (Option<Arc<CountedHour>>, Option<Instant>),
        has_canary: bool,
    ) {
        let most = if has_canary { ALL_BUCKETS } else { ALL_BUCKETS - BUCKETS_OF_CANARIES };
        let mut known = self.known();
        let others = known.buckets - known.pods.get(&key).map_or(0, KnownPod::size);
        let has_room = |hour: &Arc<CountedHour>| hour.size() <= MOST_BUCKETS && others + hour.size() <= most;
        let pod = KnownPod { hour: hour.filter(has_room), silent, asked: Some(Instant::now()) };
        known.buckets = others + pod.size();
        known.pods.insert(key, pod);
    }

    fn tidy(&self) {
        let mut known = self.known();
        if known.tidied.elapsed() >= TIDIED {
            known.tidied = Instant::now();
            known.pods.retain(|_, pod| pod.asked.is_some_and(|asked| asked.elapsed() < REMEMBERED));
            known.buckets = known.pods.values().map(KnownPod::size).sum();
        }
    }
}

/// What a pod said.
struct Answer {
    hour: Arc<CountedHour>,
    /// Where windows are needed.
    kept: Option<Received>,
}

/// Evidence, with the memory that it is given.
struct Received {
    evidence: Evidence,
    memory: Turn,
}

/// A turn that comes in time.
async fn turn(turns: &Shared, namespace: &str, deadline: Instant) -> Result<Turn, EvidenceError> {
    if deadline <= Instant::now() {
        return Err(EvidenceError::NotAsked);
    }
    timeout_at(deadline, turns.take(namespace)).await.ok().flatten().ok_or(EvidenceError::NotAsked)
}

async fn ask(http: reqwest::Client, url: String) -> Result<Rest, EvidenceError> {
    let answer = timeout(PATIENCE, http.get(url).send()).await.map_err(|_| EvidenceError::Silent)?;
    let answer = answer.and_then(reqwest::Response::error_for_status).map_err(EvidenceError::Ask)?;
    // What is sent beyond the length that is announced is no part of the answer. Sidecars announce it.
    let announced = answer.content_length().and_then(|length| usize::try_from(length).ok());
    let bytes = announced.map_or(MAX_BYTES, |length| length.min(MAX_BYTES));
    Ok(Rest { bytes, read: Box::pin(read(answer, bytes)) })
}

async fn read(answer: reqwest::Response, bytes: usize) -> Result<Evidence, EvidenceError> {
    let body = timeout(PATIENCE, bounded_body::read(answer, bytes)).await.map_err(|_| EvidenceError::Silent)?;
    let evidence: Evidence =
        serde_json::from_slice(&body.map_err(EvidenceError::Receive)?).map_err(EvidenceError::Read)?;
    evidence.check().map_err(EvidenceError::Refuse)?;
    Ok(evidence)
}

/// A pod that starts or ends has nothing to say; one that says nonsense is worth a look.
fn log_failure(pod: &str, error: &EvidenceError) {
    match error {
        EvidenceError::Ask(_)
        | EvidenceError::Receive(BodyError::Read(_))
        | EvidenceError::Silent
        | EvidenceError::NotAsked => {
            debug!(pod, error = error as &dyn Error, "a pod shows no evidence");
        }
        EvidenceError::Receive(BodyError::TooLong { .. }) | EvidenceError::Read(_) | EvidenceError::Refuse(_) => {
            warn!(
                pod,
                error = error as &dyn Error,
                "a pod reports implausible evidence: it counts as one that does not answer"
            );
        }
    }
}

#[cfg(test)]
mod tests;
