//! Notifications against stand-ins for their receivers: what is sent, and what follows from answers of all kinds.
//! Nothing waits for a time: a test goes on when the stand-in has been asked, or a counter says so.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

mod stand_in;
mod vendors;

use std::{fs, path::Path, time::Duration};

use jiff::Timestamp;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_operator::{
    metrics::Metrics,
    notifications::deliver::{Notifier, NotifierError, Outside},
    settings_file,
};
use slipway_operator_core::{
    notifications::{
        build::Secret,
        decide::Policy,
        events::{Announcement, Happening, Severity, Subject, Topic},
    },
    settings::Settings,
};
use tempfile::TempDir;
use tokio::{io::AsyncReadExt, net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use stand_in::{Manner, StandIn};
use vendors::{EventAction, PagerDutyEvent, SlackMessage, WebhookData, WebhookEvent};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const ROUTING_KEY: &str = "e93facc04764012d7bfb002500d5d1a6";
/// For what must come: a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of the stand-in for the operator's clock.
const NOON: i64 = 1_795_262_400;

/// Times of a patient operator, a thousand times as fast.
fn policy() -> Policy {
    Policy {
        attempt_deadline: Duration::from_millis(200),
        spacing: Duration::from_millis(1),
        first_back_off: Duration::from_millis(2),
        longest_back_off: Duration::from_millis(20),
        give_up_after: Duration::from_secs(60),
        quiet: Duration::from_secs(600),
        capacity: 4,
    }
}

/// An operator's notifications, for one receiver.
struct Operator {
    notifier: Notifier,
    metrics: Metrics,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
    _folder: TempDir,
}

fn notifier(folder: &Path, receiver: &str, policy: Policy) -> Result<(Notifier, Metrics), NotifierError> {
    let yaml = format!(
        "images: {{worker: w, agentRuntime: r}}\nnotifications:\n  cluster: production\n  folder: {}\n  receivers: \
         [{{name: team, {receiver}}}]\n",
        folder.display()
    );
    let file = folder.join("config.yaml");
    fs::write(&file, yaml).unwrap();
    let settings = settings_file::read(&file).unwrap();
    let metrics = Metrics::new();
    let outside = Outside { clock: || Timestamp::from_second(NOON).unwrap(), dice: || 0.5 };
    Ok((Notifier::new(&settings.notifications, metrics.clone(), policy, outside)?, metrics))
}

impl Operator {
    fn start(receiver: &str, url: &str, policy: Policy) -> Self {
        let folder = credentials(url);
        let (notifier, metrics) = notifier(folder.path(), receiver, policy).unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(notifier.clone().run(|| true, shutdown.clone()));
        Self { notifier, metrics, shutdown, task, _folder: folder }
    }

    fn tell(&self, announcement: Announcement) {
        self.notifier.offer(vec![announcement]);
    }

    fn count(&self, outcome: &str) -> u64 {
        counted(&self.metrics, outcome)
    }

    /// Goes on when so many have come to this end.
    async fn until(&self, outcome: &str, count: u64) {
        let reached = async {
            while self.count(outcome) < count {
                tokio::task::yield_now().await;
            }
        };
        let is_reached = tokio::time::timeout(PATIENCE, reached).await.is_ok();
        assert!(is_reached, "{count} {outcome} never came:\n{}", self.metrics.encode());
    }

    async fn end(self) -> Metrics {
        self.shutdown.cancel();
        self.task.await.unwrap();
        self.metrics
    }
}

fn counted(metrics: &Metrics, outcome: &str) -> u64 {
    let name = format!("slipway_operator_notifications_total{{receiver=\"team\",outcome=\"{outcome}\"}} ");
    let text = metrics.encode();
    text.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |value| value.parse().unwrap())
}

/// A mounted Secret.
fn credentials(url: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("url", url), ("routing-key", ROUTING_KEY), ("secret", SECRET)] {
        fs::write(folder.path().join(name), format!("{text}\n")).unwrap();
    }
    folder
}

const SLACK: &str = "slack: {urlFile: url}";
const WEBHOOK: &str = "webhook: {urlFile: url, secretFile: secret}";

fn announcement(topic: Topic, happening: Happening) -> Announcement {
    Announcement {
        subject: Subject { namespace: "team-a".to_owned(), name: "support".to_owned(), uid: "uid-1".to_owned() },
        topic,
        happening,
        fingerprint: "fingerprint".to_owned(),
        severity: Severity::Error,
        message: "tail: AgentRunLatency p95 is 2.1s over 12m, the objective is ≤ 2s".to_owned(),
        generation: 3,
        plan: Some("7c1f9a2b3d".to_owned()),
        at: "2026-11-21T10:15:30Z".parse().unwrap(),
        receivers: vec!["team".to_owned()],
    }
}

fn missed() -> Announcement {
    announcement(Topic::Objective("tail".to_owned()), Happening::ObjectiveMissed)
}

/// Another one of another thread.
fn numbered(number: usize) -> Announcement {
    announcement(Topic::Objective(format!("objective-{number}")), Happening::ObjectiveMissed)
}

#[tokio::test]
async fn slack_is_sent_a_text() {
    let mut slack = StandIn::start(&[Manner::Status(200)]).await;
    let operator = Operator::start(SLACK, &slack.url, policy());
    operator.tell(missed());
    let received = slack.next().await;
    assert_eq!(received.header("content-type"), "application/json");
    let text = ":red_circle: *objective missed*: team-a/support in production\n\
                tail: AgentRunLatency p95 is 2.1s over 12m, the objective is ≤ 2s";
    assert_eq!(serde_json::from_str::<SlackMessage>(&received.body).unwrap(), SlackMessage { text: text.to_owned() });
    operator.until("delivered", 1).await;
}

#[tokio::test]
async fn pager_duty_is_sent_a_trigger_and_then_a_resolve_with_its_key() {
    let mut pager_duty = StandIn::start(&[Manner::Status(202)]).await;
    let receiver = format!("pagerDuty: {{routingKeyFile: routing-key, url: '{}'}}", pager_duty.url);
    let operator = Operator::start(&receiver, "unused", Policy { quiet: Duration::ZERO, ..policy() });
    operator.tell(missed());
    let trigger: PagerDutyEvent = serde_json::from_str(&pager_duty.next().await.body).unwrap();
    let payload = trigger.payload.unwrap();
    assert_eq!((trigger.routing_key.as_str(), trigger.event_action), (ROUTING_KEY, EventAction::Trigger));
    assert_eq!((payload.source.as_str(), payload.severity), ("production/team-a/support", vendors::Severity::Error));
    assert_eq!(
        (payload.class.as_str(), payload.component.as_str(), payload.group.as_str()),
        ("ObjectiveMissed", "support", "team-a")
    );
    assert!(payload.summary.starts_with("team-a/support: objective missed: tail"), "{}", payload.summary);
    assert_eq!(payload.timestamp, "2026-11-21T10:15:30Z".parse().unwrap());
    assert_eq!(payload.custom_details.get("objective").unwrap(), "tail");
    assert_eq!(trigger.client.as_deref(), Some("Slipway"));
    operator.tell(announcement(Topic::Objective("tail".to_owned()), Happening::ObjectiveMet));
    let resolve: PagerDutyEvent = serde_json::from_str(&pager_duty.next().await.body).unwrap();
    assert_eq!((resolve.event_action, &resolve.dedup_key), (EventAction::Resolve, &trigger.dedup_key));
    assert!(resolve.payload.is_none() && resolve.client.is_none());
    operator.tell(announcement(Topic::Rollout("p".to_owned()), Happening::RolloutOpened));
    assert_eq!(counted(&operator.end().await, "delivered"), 2, "news page nobody");
    assert_eq!(pager_duty.rest(), 0);
}

#[tokio::test]
async fn a_webhook_is_sent_a_signed_event() {
    let mut server = StandIn::start(&[Manner::Status(204)]).await;
    let operator = Operator::start(WEBHOOK, &server.url, policy());
    operator.tell(missed());
    let received = server.next().await;
    let id = received.header("webhook-id");
    assert_eq!(
        (received.header("webhook-timestamp"), id.len(), id.contains('.')),
        (NOON.to_string().as_str(), 36, false)
    );
    let expected = Secret::parse(SECRET).unwrap().sign(id, NOON, &received.body);
    assert_eq!(received.header("webhook-signature"), expected, "over the bytes that were sent");
    assert_eq!(received.header("user-agent"), format!("slipway-operator/{}", env!("CARGO_PKG_VERSION")));
    let event: WebhookEvent = serde_json::from_str(&received.body).unwrap();
    assert_eq!((event.r#type.as_str(), event.timestamp), ("ObjectiveMissed", "2026-11-21T10:15:30Z".parse().unwrap()));
    let message = "tail: AgentRunLatency p95 is 2.1s over 12m, the objective is ≤ 2s".to_owned();
    let expected = WebhookData {
        status: "firing".to_owned(),
        key: "team-a/support/objective/tail".to_owned(),
        severity: vendors::Severity::Error,
        cluster: Some("production".to_owned()),
        namespace: "team-a".to_owned(),
        name: "support".to_owned(),
        uid: "uid-1".to_owned(),
        generation: 3,
        plan: Some("7c1f9a2b3d".to_owned()),
        objective: Some("tail".to_owned()),
        title: "objective missed".to_owned(),
        text: format!("team-a/support: objective missed: {message}"),
        message,
    };
    assert_eq!(event.data, expected);
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again_with_the_same_id() {
    let mut server = StandIn::start(&[Manner::Status(503), Manner::Status(500), Manner::Status(200)]).await;
    let operator = Operator::start(WEBHOOK, &server.url, policy());
    operator.tell(missed());
    let attempts = [server.next().await, server.next().await, server.next().await];
    assert!(attempts.iter().all(|attempt| attempt.header("webhook-id") == attempts[0].header("webhook-id")));
    operator.until("delivered", 1).await;
    assert_eq!((operator.count("failed_attempt"), server.rest()), (2, 0));
}

#[tokio::test]
async fn a_receiver_that_asks_for_more_time_than_there_is_is_not_asked_again() {
    let mut server = StandIn::start(&[Manner::Busy(3_000), Manner::Status(200)]).await;
    let operator = Operator::start(SLACK, &server.url, policy());
    operator.tell(missed());
    operator.until("given_up", 1).await;
    operator.tell(numbered(1));
    // It waits for the rest of that time; only the end of the process does not.
    let metrics = operator.end().await;
    assert_eq!((counted(&metrics, "delivered"), counted(&metrics, "failed_attempt"), server.rest()), (1, 0, 2));
}

#[tokio::test]
async fn a_payload_that_is_refused_is_not_sent_again() {
    let mut server = StandIn::start(&[Manner::Status(400), Manner::Status(200)]).await;
    let operator = Operator::start(SLACK, &server.url, policy());
    operator.tell(missed());
    operator.until("refused", 1).await;
    operator.tell(numbered(1));
    operator.until("delivered", 1).await;
    assert_eq!((server.rest(), operator.count("failed_attempt")), (2, 0));
}

#[tokio::test]
async fn a_server_that_hangs_holds_nobody_up_and_is_given_up() {
    let mut server = StandIn::start(&[Manner::Hang]).await;
    let (attempt_deadline, give_up_after) = (Duration::from_millis(20), Duration::from_millis(300));
    let operator = Operator::start(SLACK, &server.url, Policy { attempt_deadline, give_up_after, ..policy() });
    for number in 0..50 {
        // Returns at once: there is nothing to wait for in it.
        operator.tell(numbered(number));
    }
    server.next().await;
    operator.until("given_up", 4).await;
    assert_eq!((operator.count("dropped"), operator.count("delivered")), (46, 0), "four wait, the oldest make room");
}

#[tokio::test]
async fn a_hanging_receiver_does_not_keep_another_one_waiting() {
    let (mut hanging, mut other) =
        (StandIn::start(&[Manner::Hang]).await, StandIn::start(&[Manner::Status(200)]).await);
    let folder = credentials(&hanging.url);
    fs::write(folder.path().join("other"), &other.url).unwrap();
    let receivers = "slack: {urlFile: url}}, {name: second, slack: {urlFile: other}";
    let times = Policy { attempt_deadline: Duration::from_hours(1), ..policy() };
    let (notifier, _) = notifier(folder.path(), receivers, times).unwrap();
    let task = tokio::spawn(notifier.clone().run(|| true, CancellationToken::new()));
    let receivers = vec!["team".to_owned(), "second".to_owned()];
    notifier.offer(vec![Announcement { receivers, ..missed() }]);
    hanging.next().await;
    other.next().await;
    task.abort();
}

#[tokio::test]
async fn the_same_happening_is_sent_once() {
    let mut server = StandIn::start(&[Manner::Status(200)]).await;
    let operator = Operator::start(SLACK, &server.url, policy());
    for _ in 0..3 {
        operator.tell(missed());
    }
    operator.until("delivered", 1).await;
    assert_eq!((operator.count("duplicate"), server.rest()), (2, 1));
}

/// The status has it until it is settled, and it is offered at every look.
#[tokio::test]
async fn what_the_status_still_has_is_offered_once_and_settled_when_it_is_delivered() {
    let stand_in = StandIn::start(&[Manner::Status(200)]).await;
    let operator = Operator::start(WEBHOOK, &stand_in.url, policy());
    let id = missed().id();
    assert_eq!(operator.notifier.settled("uid-1"), [].into());
    operator.notifier.offer_once("uid-1", vec![missed()]);
    operator.notifier.offer_once("uid-1", vec![missed()]);
    operator.until("delivered", 1).await;
    operator.notifier.offer_once("uid-1", vec![missed()]);
    assert_eq!(operator.notifier.settled("uid-1"), [id].into());
    operator.notifier.offer_once("uid-1", Vec::new());
    assert_eq!(operator.notifier.settled("uid-1"), [].into(), "the status has it no more");
    let metrics = operator.end().await;
    assert_eq!((counted(&metrics, "delivered"), counted(&metrics, "duplicate")), (1, 0));
}

#[tokio::test]
async fn what_hangs_is_not_settled_and_what_nobody_wants_is() {
    let stand_in = StandIn::start(&[Manner::Hang]).await;
    let patient = Policy { attempt_deadline: PATIENCE, ..policy() };
    let operator = Operator::start(WEBHOOK, &stand_in.url, patient);
    let unwanted = Announcement { receivers: vec!["another".to_owned()], ..numbered(2) };
    operator.notifier.offer_once("uid-1", vec![missed(), unwanted.clone()]);
    assert_eq!(operator.notifier.settled("uid-1"), [unwanted.id()].into());
    operator.notifier.forget("uid-1");
    assert_eq!(operator.notifier.settled("uid-1"), [].into());
}

#[tokio::test]
async fn only_what_is_asked_for_is_sent_and_only_to_those_who_are_named() {
    let mut server = StandIn::start(&[Manner::Status(200)]).await;
    let operator = Operator::start("events: [RolledBack], slack: {urlFile: url}", &server.url, policy());
    operator.tell(missed());
    operator.tell(Announcement {
        receivers: vec!["others".to_owned()],
        ..announcement(Topic::Problem, Happening::RolledBack)
    });
    operator.tell(announcement(Topic::Problem, Happening::RolledBack));
    operator.until("delivered", 1).await;
    assert!(server.next().await.body.contains("rolled back"));
    operator.end().await;
    assert_eq!(server.rest(), 0);
}

#[tokio::test]
async fn an_operator_that_does_not_lead_sends_nothing() {
    let mut server = StandIn::start(&[Manner::Status(200)]).await;
    let folder = credentials(&server.url);
    let (notifier, metrics) = notifier(folder.path(), SLACK, policy()).unwrap();
    notifier.offer(vec![missed()]);
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(notifier.run(|| false, shutdown.clone()));
    shutdown.cancel();
    task.await.unwrap();
    assert_eq!((server.rest(), counted(&metrics, "delivered")), (0, 0));
}

#[tokio::test]
async fn a_rotated_credential_is_used_without_a_restart() {
    let (mut before, mut after) =
        (StandIn::start(&[Manner::Status(200)]).await, StandIn::start(&[Manner::Status(200)]).await);
    let operator = Operator::start(SLACK, &before.url, policy());
    operator.tell(numbered(1));
    before.next().await;
    operator.until("delivered", 1).await;
    fs::write(operator._folder.path().join("url"), &after.url).unwrap();
    operator.tell(numbered(2));
    after.next().await;
    assert_eq!(before.rest(), 0);
}

#[tokio::test]
async fn a_credential_that_is_missing_for_a_moment_delays_and_loses_nothing() {
    let mut server = StandIn::start(&[Manner::Status(200)]).await;
    let operator = Operator::start(SLACK, &server.url, policy());
    let file = operator._folder.path().join("url");
    fs::remove_file(&file).unwrap();
    operator.tell(missed());
    operator.until("failed_attempt", 1).await;
    fs::write(&file, &server.url).unwrap();
    server.next().await;
}

#[tokio::test]
async fn an_https_receiver_is_greeted_with_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    let operator = Operator::start(SLACK, &url, policy());
    operator.tell(missed());
    let (mut connection, _) = listener.accept().await.unwrap();
    // A handshake record (22) of TLS 1.x: RFC 8446, section 5.1.
    assert_eq!((connection.read_u8().await.unwrap(), connection.read_u8().await.unwrap()), (22, 3));
}

#[rstest]
#[case(
    "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    "failed to use the certificates of notifications.caFile"
)]
#[case("0123", "notifications.caFile holds no certificate: put PEM certificates into it, or leave it out")]
fn certificates_that_are_none_are_named(#[case] text: &str, #[case] message: &str) {
    let folder = credentials("https://hooks.example.com");
    fs::write(folder.path().join("ca.pem"), text).unwrap();
    let yaml = format!(
        "images: {{worker: w, agentRuntime: r}}\nnotifications: {{folder: {}, caFile: ca.pem}}\n",
        folder.path().display()
    );
    let settings: Settings = serde_norway::from_str(&yaml).unwrap();
    let error = Notifier::new(&settings.notifications, Metrics::new(), policy(), Outside::real()).err().unwrap();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, message);
}
