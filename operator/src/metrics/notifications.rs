//! Notifications by receiver and outcome.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// The outcome of a notification, or of one attempt to deliver it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotificationOutcome {
    /// The receiver has it.
    Delivered,
    /// An attempt failed and will be repeated.
    FailedAttempt,
    /// The receiver does not want it.
    Refused,
    /// All attempts failed.
    GivenUp,
    /// The receiver's queue was full.
    Dropped,
    /// It waits already.
    Duplicate,
    /// A later one made it void before it was sent.
    TakenBack,
}

impl NotificationOutcome {
    const ALL: [Self; 7] = [
        Self::Delivered,
        Self::FailedAttempt,
        Self::Refused,
        Self::GivenUp,
        Self::Dropped,
        Self::Duplicate,
        Self::TakenBack,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::FailedAttempt => "failed_attempt",
            Self::Refused => "refused",
            Self::GivenUp => "given_up",
            Self::Dropped => "dropped",
            Self::Duplicate => "duplicate",
            Self::TakenBack => "taken_back",
        }
    }
}

impl EncodeLabelValue for NotificationOutcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

/// Receivers are those of the operator's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NotificationLabels {
    receiver: String,
    outcome: NotificationOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReceiverLabels {
    receiver: String,
}

/// The counters of all receivers.
#[derive(Debug, Clone, Default)]
pub(super) struct Notifications {
    outcomes: Family<NotificationLabels, Counter>,
    waiting: Family<ReceiverLabels, Gauge>,
}

impl Notifications {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("notifications", "Notifications by receiver and outcome", self.outcomes.clone());
        registry.register("notifications_waiting", "Notifications that wait for a receiver", self.waiting.clone());
    }

    /// Shows a receiver before anything is sent: of a counter that begins at 1, `rate` never sees the first.
    pub(super) fn begin(&self, receiver: &str) {
        for outcome in NotificationOutcome::ALL {
            drop(self.outcomes.get_or_create(&NotificationLabels { receiver: receiver.to_owned(), outcome }));
        }
        self.wait(receiver, 0);
    }

    pub(super) fn count(&self, receiver: &str, outcome: NotificationOutcome) {
        self.outcomes.get_or_create(&NotificationLabels { receiver: receiver.to_owned(), outcome }).inc();
    }

    pub(super) fn wait(&self, receiver: &str, count: usize) {
        let labels = ReceiverLabels { receiver: receiver.to_owned() };
        self.waiting.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_receiver_is_shown_before_anything_is_sent() {
        let (notifications, mut registry) = (Notifications::default(), Registry::default());
        notifications.register(&mut registry);
        notifications.begin("team");
        notifications.count("team", NotificationOutcome::Delivered);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let mut shown: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        shown.sort_unstable();
        let of = |outcome: &str, count: u8| {
            format!("notifications_total{{receiver=\"team\",outcome=\"{outcome}\"}} {count}")
        };
        let expected = [
            of("delivered", 1),
            of("dropped", 0),
            of("duplicate", 0),
            of("failed_attempt", 0),
            of("given_up", 0),
            of("refused", 0),
            of("taken_back", 0),
            "notifications_waiting{receiver=\"team\"} 0".to_owned(),
        ];
        assert_eq!(shown, expected);
    }
}
