//! What waits for one receiver. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Answer, Policy, retry::back_off};
use crate::notifications::events::{Announcement, Happening, Role, Subject, Topic};

/// Threads whose last happening is remembered, at most.
const MAX_REMEMBERED: usize = 1024;

type Thread = (Subject, Topic);

/// Result of offering an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It waits to be sent.
    Queued,
    /// The receiver was sent the same within the quiet time.
    Duplicate,
}

/// What an offer did to the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The result.
    pub offered: Offered,
    /// The oldest announcement, which had to make room.
    pub dropped: Option<Arc<Announcement>>,
    /// Whether an unsent recovery was withdrawn, because the problem is back.
    pub took_back: bool,
}

/// Something to send now.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What to tell.
    pub announcement: Arc<Announcement>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
}

/// What to do next.
#[derive(Debug, Clone)]
pub enum Next {
    /// Send this, and report the outcome.
    Send(Delivery),
    /// Nothing is due before this time has passed.
    Wait(Duration),
    /// Nothing waits.
    Idle,
}

/// What follows from an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It is delivered and forgotten.
    Delivered,
    /// It will be tried again.
    Again {
        /// After this time.
        after: Duration,
    },
    /// It is forgotten, undelivered.
    GivenUp,
}

#[derive(Debug)]
struct Item {
    announcement: Arc<Announcement>,
    /// When it was to be sent first.
    since: Instant,
    due: Instant,
    attempts: u32,
    /// What the receiver was sent of this thread before.
    before: Option<Notified>,
}

impl Item {
    fn thread(&self) -> Thread {
        thread(&self.announcement)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Notified {
    happening: Happening,
    fingerprint: String,
    at: Instant,
}

impl Notified {
    fn is_same_as(&self, announcement: &Announcement) -> bool {
        self.happening == announcement.happening && self.fingerprint == announcement.fingerprint
    }
}

/// Announcements for one receiver: at most one is on its way, and those of one thread keep their order.
#[derive(Debug)]
pub struct Outbox {
    policy: Policy,
    items: VecDeque<Item>,
    /// Position in `items` of what is on its way.
    in_flight: Option<usize>,
    notified: BTreeMap<Thread, Notified>,
    /// Before this time the receiver is left alone.
    not_before: Option<Instant>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(policy: Policy) -> Self {
        Self { policy, items: VecDeque::new(), in_flight: None, notified: BTreeMap::new(), not_before: None }
    }

    /// Announcements that wait or are on their way.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether this very announcement waits or is on its way.
    pub fn holds(&self, announcement: &Arc<Announcement>) -> bool {
        self.items.iter().any(|item| Arc::ptr_eq(&item.announcement, announcement))
    }

    /// Whether nothing waits and nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Accepts an announcement, unless the receiver was just sent the same.
    pub fn offer(&mut self, announcement: Arc<Announcement>, now: Instant) -> Offer {
        self.forget(now);
        let thread = thread(&announcement);
        let took_back = announcement.happening.role() == Role::Opens && self.take_back_recovery(&thread);
        let before = self.notified.get(&thread).cloned();
        let is_quiet = |notified: &Notified| took_back || notified.at + self.policy.quiet > now;
        if before.as_ref().is_some_and(|notified| notified.is_same_as(&announcement) && is_quiet(notified)) {
            return Offer { offered: Offered::Duplicate, dropped: None, took_back };
        }
        let quiet_until = before.as_ref().map(|notified| notified.at + self.policy.quiet);
        let due = match announcement.happening.role() {
            Role::Closes => quiet_until.unwrap_or(now).max(now),
            Role::Opens | Role::Tells => now,
        };
        let notified =
            Notified { happening: announcement.happening, fingerprint: announcement.fingerprint.clone(), at: due };
        self.notified.insert(thread, notified);
        self.items.push_back(Item { announcement, since: due, due, attempts: 0, before });
        let dropped = (self.items.len() > self.policy.capacity).then(|| self.drop_oldest()).flatten();
        Offer { offered: Offered::Queued, dropped, took_back }
    }

    /// Says what to do now. An item to be sent is on its way until [`Outbox::settle`] gets its outcome.
    pub fn next(&mut self, now: Instant) -> Next {
        let mut threads = BTreeSet::new();
        let mut first: Option<(Instant, usize)> = None;
        for (index, item) in self.items.iter().enumerate() {
            // What came later in a thread waits for what came before.
            if threads.insert(item.thread()) && first.is_none_or(|(due, _)| item.due < due) {
                first = Some((item.due, index));
            }
        }
        let Some((due, index)) = first else { return Next::Idle };
        let due = self.not_before.map_or(due, |not_before| due.max(not_before));
        if due > now {
            return Next::Wait(due - now);
        }
        self.in_flight = Some(index);
        let item = &mut self.items[index];
        item.attempts += 1;
        Next::Send(Delivery { announcement: item.announcement.clone(), attempt: item.attempts })
    }

    /// Takes the outcome of the attempt that is on its way.
    pub fn settle(&mut self, answer: &Answer, now: Instant, dice: f64) -> Settled {
        let Some(index) = self.in_flight.take() else { return Settled::GivenUp };
        self.not_before = Some(now + self.policy.spacing);
        let item = &mut self.items[index];
        let settled = match answer {
            Answer::Delivered => Settled::Delivered,
            Answer::Refused { .. } => Settled::GivenUp,
            Answer::Later { retry_after, .. } => {
                let after = back_off(&self.policy, item.attempts, dice).max(retry_after.unwrap_or(Duration::ZERO));
                if let Some(asked) = retry_after {
                    // It speaks for all that the receiver is sent.
                    let pause = (*asked).max(self.policy.spacing).min(self.policy.give_up_after);
                    self.not_before = Some(now + pause);
                }
                let is_too_late = now + after > item.since + self.policy.give_up_after;
                if is_too_late { Settled::GivenUp } else { Settled::Again { after } }
            }
        };
        match settled {
            Settled::Again { after } => item.due = now + after,
            Settled::Delivered => drop(self.items.remove(index)),
            Settled::GivenUp => self.forget_undelivered(index),
        }
        settled
    }

    /// Nothing waits any longer for its time: the process is about to end, and each is worth one attempt now.
    pub fn hurry(&mut self, now: Instant) {
        self.not_before = None;
        self.policy.spacing = Duration::ZERO;
        self.policy.give_up_after = Duration::ZERO;
        for item in &mut self.items {
            item.since = item.since.min(now);
            item.due = item.due.min(now);
        }
    }

    /// A recovery that was never on its way is taken back.
    fn take_back_recovery(&mut self, thread: &Thread) -> bool {
        let is_unsent_recovery = |(index, item): &(usize, &Item)| {
            item.thread() == *thread
                && item.attempts == 0
                && self.in_flight != Some(*index)
                && item.announcement.happening.role() == Role::Closes
        };
        let Some((index, _)) = self.items.iter().enumerate().find(is_unsent_recovery) else { return false };
        self.forget_undelivered(index);
        true
    }

    fn drop_oldest(&mut self) -> Option<Arc<Announcement>> {
        let oldest = (0..self.items.len()).find(|index| self.in_flight != Some(*index))?;
        let announcement = self.items[oldest].announcement.clone();
        self.forget_undelivered(oldest);
        Some(announcement)
    }

    /// Removes an unsent item. The receiver then knows what it was sent before, unless more follows.
    fn forget_undelivered(&mut self, index: usize) {
        let Some(item) = self.items.remove(index) else { return };
        self.in_flight = self.in_flight.map(|at| if at > index { at - 1 } else { at });
        let thread = item.thread();
        if let Some(later) = self.items.iter_mut().skip(index).find(|later| later.thread() == thread) {
            later.before = item.before;
            return;
        }
        match item.before {
            Some(before) => drop(self.notified.insert(thread, before)),
            None => drop(self.notified.remove(&thread)),
        }
    }

    /// Forgets what was sent longer ago than the quiet time, except open problems, and the oldest when there is too
    /// much.
    fn forget(&mut self, now: Instant) {
        let quiet = self.policy.quiet;
        self.notified.retain(|_, notified| notified.happening.role() == Role::Opens || notified.at + quiet > now);
        while self.notified.len() >= MAX_REMEMBERED {
            let oldest = self.notified.iter().min_by_key(|(_, notified)| notified.at).map(|(thread, _)| thread.clone());
            let Some(oldest) = oldest else { return };
            self.notified.remove(&oldest);
        }
    }
}

fn thread(announcement: &Announcement) -> Thread {
    (announcement.subject.clone(), announcement.topic.clone())
}
