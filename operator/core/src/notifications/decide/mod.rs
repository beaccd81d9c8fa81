//! When an announcement is sent, when again, and when not at all. Pure: time and randomness are arguments.

mod outbox;
mod retry;

use std::time::Duration;

pub use outbox::{Delivery, Next, Offer, Offered, Outbox, Settled};
pub use retry::{Answer, answer};

/// Times and sizes of delivery to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Longest that an attempt may take, from the first byte to the last.
    pub attempt_deadline: Duration,
    /// Shortest time between two attempts. Slack allows one message a second
    /// (<https://docs.slack.dev/apis/web-api/rate-limits/>).
    pub spacing: Duration,
    /// Waiting time after the first failure; each further one doubles it.
    pub first_back_off: Duration,
    /// Longest waiting time after a failure, unless the receiver asks for more.
    pub longest_back_off: Duration,
    /// How long after it was due an announcement is still worth another attempt.
    pub give_up_after: Duration,
    /// Within this time the same event is sent once. A recovery is sent only once it has lasted that long since its
    /// problem was sent, so that flapping sends no stream of notifications.
    pub quiet: Duration,
    /// Announcements that wait for one receiver, at most.
    pub capacity: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempt_deadline: Duration::from_secs(10),
            spacing: Duration::from_secs(1),
            first_back_off: Duration::from_secs(2),
            longest_back_off: Duration::from_mins(5),
            give_up_after: Duration::from_hours(1),
            quiet: Duration::from_mins(10),
            capacity: 256,
        }
    }
}

#[cfg(test)]
mod tests;
