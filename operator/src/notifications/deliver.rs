//! Delivers announcements, beside all reconciliations. Has the clock, the dice and the connections.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::future::join_all;
use jiff::Timestamp;
use reqwest::{Client, header::RETRY_AFTER};
use slipway_operator_core::{
    notifications::{
        build::{Request, TemplateError},
        decide::{Answer, Delivery, Next, Offered, Outbox, Policy, Settled, answer},
        events::Announcement,
    },
    settings::Notifications,
};
use slipway_vocabulary::failure::chain;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::receiver::{Receiver, RequestError};
use crate::{
    metrics::{Metrics, NotificationOutcome},
    outgoing::{self, OutgoingError},
    panics,
};

/// Bytes of a refusal's body that are logged: Slack and PagerDuty say there what they did not like.
const MAX_WORDS: usize = 200;

/// Why nobody can be told anything.
#[derive(Debug, Error)]
pub enum NotifierError {
    /// A template cannot be used.
    #[error("failed to read a template")]
    Template(#[source] TemplateError),
    /// There is no client.
    #[error("failed to make the HTTP client for receivers")]
    Client(#[source] OutgoingError),
}

/// What delivery takes from outside.
#[derive(Debug, Clone, Copy)]
pub struct Outside {
    /// The time of day, for signatures and `Retry-After`.
    pub clock: fn() -> Timestamp,
    /// A number from 0 to 1, for back-off.
    pub dice: fn() -> f64,
}

impl Outside {
    /// The real ones.
    pub fn real() -> Self {
        Self { clock: Timestamp::now, dice: rand::random::<f64> }
    }
}

/// Everyone who can be told, each with an outbox.
#[derive(Clone)]
pub struct Notifier(Arc<Inner>);

struct Inner {
    queues: Vec<ReceiverQueue>,
    http: Client,
    policy: Policy,
    outside: Outside,
    metrics: Metrics,
    /// What was offered and still is in a status, by UID of the object and id.
    offered: Mutex<BTreeMap<String, BTreeMap<String, Arc<Announcement>>>>,
}

/// One receiver and what waits for it.
struct ReceiverQueue {
    receiver: Receiver,
    outbox: Mutex<Outbox>,
    wake: Notify,
}

impl ReceiverQueue {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Notifier {
    /// Makes ready to tell the receivers of a configuration. Reads the file with certificates, if there is one.
    ///
    /// # Errors
    /// When the client cannot be made, or a template cannot be used.
    pub fn new(
        settings: &Notifications,
        metrics: Metrics,
        policy: Policy,
        outside: Outside,
    ) -> Result<Self, NotifierError> {
        let receivers = Receiver::all(settings).map_err(NotifierError::Template)?;
        let queue =
            |receiver| ReceiverQueue { receiver, outbox: Mutex::new(Outbox::new(policy.clone())), wake: Notify::new() };
        let ca_file = settings.ca_file.as_ref().map(|file| settings.path(file));
        let http = outgoing::client("notifications.caFile", ca_file.as_deref()).map_err(NotifierError::Client)?;
        let queues: Vec<ReceiverQueue> = receivers.into_iter().map(queue).collect();
        queues.iter().for_each(|queue| metrics.show_receiver(queue.receiver.name()));
        Ok(Self(Arc::new(Inner { queues, http, policy, outside, metrics, offered: Mutex::default() })))
    }

    /// Puts announcements into the outboxes of those who want them. Never waits.
    pub fn offer(&self, announcements: Vec<Announcement>) {
        for announcement in announcements.into_iter().map(Arc::new) {
            self.0.put_where_wanted(&announcement);
        }
    }

    /// The same of all that the status of an object has: what this process has offered before is not offered again.
    /// What the status has no more is forgotten. Never waits.
    pub fn offer_once(&self, uid: &str, announcements: Vec<Announcement>) {
        let mut offered = self.0.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = offered.remove(uid).unwrap_or_default();
        let mut kept = BTreeMap::new();
        for announcement in announcements {
            let id = announcement.id();
            let announcement = known.remove(&id).unwrap_or_else(|| {
                let announcement = Arc::new(announcement);
                self.0.put_where_wanted(&announcement);
                announcement
            });
            kept.insert(id, announcement);
        }
        if !kept.is_empty() {
            offered.insert(uid.to_owned(), kept);
        }
    }

    /// What this process has offered of an object and nobody waits for any more, by id: delivered, refused, given up,
    /// or wanted by nobody.
    pub fn settled(&self, uid: &str) -> BTreeSet<String> {
        let offered = self.0.offered.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |announcement| self.0.queues.iter().any(|queue| queue.outbox().holds(announcement));
        let of_object = offered.get(uid).into_iter().flatten();
        of_object.filter(|(_, announcement)| !waits(announcement)).map(|(id, _)| id.clone()).collect()
    }

    /// Forgets an object that is gone; what waits for receivers is delivered all the same.
    pub fn forget(&self, uid: &str) {
        self.0.offered.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Delivers until `shutdown`, then tries once more whatever still waits. Sends only while `may_send` says so.
    pub async fn run(self, may_send: impl Fn() -> bool + Sync, shutdown: CancellationToken) {
        join_all(self.0.queues.iter().map(|queue| self.0.serve(queue, &may_send, &shutdown))).await;
        // Without receivers there is nothing to do but to be there.
        shutdown.cancelled().await;
    }
}

impl Inner {
    fn put_where_wanted(&self, announcement: &Arc<Announcement>) {
        for queue in self.queues.iter().filter(|queue| queue.receiver.wants(announcement)) {
            self.put(queue, announcement.clone());
        }
    }

    fn put(&self, queue: &ReceiverQueue, announcement: Arc<Announcement>) {
        let receiver = queue.receiver.name();
        let (offer, waiting) = {
            let mut outbox = queue.outbox();
            (outbox.offer(announcement, Instant::now()), outbox.len())
        };
        if offer.took_back {
            self.metrics.notified(receiver, NotificationOutcome::TakenBack);
        }
        match offer.offered {
            Offered::Duplicate => self.metrics.notified(receiver, NotificationOutcome::Duplicate),
            Offered::Queued => queue.wake.notify_one(),
        }
        if let Some(dropped) = offer.dropped {
            self.metrics.notified(receiver, NotificationOutcome::Dropped);
            warn!(
                receiver,
                subject = name_of(&dropped),
                happening = dropped.happening.as_str(),
                "the queue of a receiver is full: the oldest notification is dropped"
            );
        }
        self.metrics.waiting(receiver, waiting);
    }

    async fn serve(&self, queue: &ReceiverQueue, may_send: &(impl Fn() -> bool + Sync), shutdown: &CancellationToken) {
        while !shutdown.is_cancelled() {
            let next = if may_send() { queue.outbox().next(Instant::now()) } else { Next::Wait(self.policy.spacing) };
            let pause = match next {
                Next::Send(delivery) => {
                    self.send(queue, &delivery).await;
                    continue;
                }
                Next::Wait(time) => time,
                Next::Idle => Duration::MAX,
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = queue.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        while may_send() {
            let next = {
                let mut outbox = queue.outbox();
                outbox.hurry(Instant::now());
                outbox.next(Instant::now())
            };
            let Next::Send(delivery) = next else { return };
            self.send(queue, &delivery).await;
        }
    }

    /// One attempt, and what follows from it.
    async fn send(&self, queue: &ReceiverQueue, delivery: &Delivery) {
        let answer = match tokio::time::timeout(self.policy.attempt_deadline, self.attempt(queue, delivery)).await {
            Ok(answer) => answer,
            Err(_) => {
                let reason = format!("no answer within {} s", self.policy.attempt_deadline.as_secs_f64());
                Answer::Later { reason, retry_after: None }
            }
        };
        let (settled, waiting) = {
            let mut outbox = queue.outbox();
            (outbox.settle(&answer, Instant::now(), (self.outside.dice)()), outbox.len())
        };
        self.metrics.waiting(queue.receiver.name(), waiting);
        self.report(queue, delivery, (&answer, &settled));
    }

    /// What makes a request panic would do so again.
    async fn attempt(&self, queue: &ReceiverQueue, delivery: &Delivery) -> Answer {
        let attempted = panics::caught(self.ask(queue, delivery)).await;
        attempted.unwrap_or_else(|panicked| Answer::Refused { reason: panicked.to_string() })
    }

    async fn ask(&self, queue: &ReceiverQueue, delivery: &Delivery) -> Answer {
        let now = (self.outside.clock)();
        match queue.receiver.request(&delivery.announcement, now) {
            Ok(Some(request)) => self.post(request, now).await,
            Ok(None) => Answer::Delivered,
            // A Secret that is being exchanged is there again in a moment.
            Err(error @ RequestError::Credential(_)) => Answer::Later { reason: chain(&error), retry_after: None },
            Err(error @ RequestError::Template(_)) => Answer::Refused { reason: chain(&error) },
        }
    }

    async fn post(&self, request: Request, now: Timestamp) -> Answer {
        let Request { url, headers, body } = request;
        let post = self.http.post(url).header("content-type", "application/json").body(body);
        let post = headers.into_iter().fold(post, |post, (name, value)| post.header(name, value));
        let response = match post.send().await {
            Ok(response) => response,
            // The address may be a credential.
            Err(error) => return Answer::Later { reason: chain(&error.without_url()), retry_after: None },
        };
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match answer(response.status().as_u16(), retry_after.as_deref(), now) {
            Answer::Delivered => Answer::Delivered,
            Answer::Later { reason, retry_after } => Answer::Later { reason, retry_after },
            Answer::Refused { reason } => Answer::Refused { reason: format!("{reason}{}", words(response).await) },
        }
    }

    fn report(&self, queue: &ReceiverQueue, delivery: &Delivery, (answer, settled): (&Answer, &Settled)) {
        let receiver = queue.receiver.name();
        let Delivery { announcement, attempt } = delivery;
        let (subject, happening) = (name_of(announcement), announcement.happening.as_str());
        let reason = match answer {
            Answer::Delivered => "",
            Answer::Later { reason, .. } | Answer::Refused { reason } => reason,
        };
        match (settled, answer) {
            (Settled::Delivered, _) => {
                self.metrics.notified(receiver, NotificationOutcome::Delivered);
                info!(receiver, subject, happening, attempt, "notified");
            }
            (Settled::Again { after }, _) => {
                self.metrics.notified(receiver, NotificationOutcome::FailedAttempt);
                debug!(
                    receiver,
                    subject,
                    happening,
                    attempt,
                    reason,
                    after_seconds = after.as_secs_f64(),
                    "a notification will be retried"
                );
            }
            (Settled::GivenUp, Answer::Refused { .. }) => {
                self.metrics.notified(receiver, NotificationOutcome::Refused);
                warn!(receiver, subject, happening, attempt, reason, "a receiver refused a notification");
            }
            (Settled::GivenUp, Answer::Delivered | Answer::Later { .. }) => {
                self.metrics.notified(receiver, NotificationOutcome::GivenUp);
                warn!(receiver, subject, happening, attempt, reason, "a notification was abandoned");
            }
        }
    }
}

fn name_of(announcement: &Announcement) -> String {
    format!("{}/{}", announcement.subject.namespace, announcement.subject.name)
}

/// The beginning of a body.
async fn words(mut response: reqwest::Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_WORDS {
        let Ok(Some(chunk)) = response.chunk().await else { break };
        bytes.extend_from_slice(&chunk);
    }
    let text: String = String::from_utf8_lossy(&bytes).chars().filter(|c| !c.is_control()).take(MAX_WORDS).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}
