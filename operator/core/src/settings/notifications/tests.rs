use pretty_assertions::assert_eq;
use rstest::rstest;

use crate::settings::Settings;

fn settings(notifications: &str) -> Settings {
    let yaml = format!("images: {{worker: w, agentRuntime: r}}\nnotifications:\n{notifications}");
    serde_norway::from_str(&yaml).expect("the shape of a configuration")
}

/// The first problem of a list of receivers.
fn problem_of(receivers: &str) -> String {
    let settings = settings(&format!("  receivers: [{receivers}]\n"));
    settings.check().map_err(|error| error.to_string()).err().unwrap_or_default()
}

const GOOD: &str = "
  cluster: production
  receivers:
  - {name: team, slack: {urlFile: slack-url}}
  - {name: on-call, events: [RolledBack, Recovered], pagerDuty: {routingKeyFile: routing-key}}
  - name: audit
    webhook:
      url: https://audit.example.com/slipway
      secretFile: secret
      template: '{{ title }}{% if plan %} ({{ plan }}){% endif %}: {{ message }}'
";

#[test]
fn every_type_of_receiver_can_be_configured() {
    let settings = settings(GOOD);
    settings.check().expect("a good configuration");
    let known: Vec<bool> =
        ["team", "on-call", "audit", "nobody"].map(|name| settings.notifications.knows(name, "support")).into();
    assert_eq!(known, [true, true, true, false]);
}

/// A release's values stay when its chart is upgraded.
#[test]
fn events_of_a_receiver_are_read_under_their_earlier_name() {
    assert_eq!(settings(&GOOD.replace("events:", "happenings:")), settings(GOOD));
}

/// Otherwise anyone who may write an AgentDeployment could page anybody.
#[test]
fn a_receiver_may_be_for_some_namespaces_alone() {
    let settings =
        settings("  receivers: [{name: on-call, allowedNamespaces: [support, sales], slack: {urlFile: url}}]");
    settings.check().expect("a good configuration");
    let known = ["support", "sales", "play"].map(|namespace| settings.notifications.knows("on-call", namespace));
    assert_eq!(known, [true, true, false]);
}

#[rstest]
#[case(
    "{name: a, slack: {urlFile: f}}, {name: a, slack: {urlFile: g}}",
    "[1].name",
    "is a, as that of another receiver: rename one"
)]
#[case(
    "{name: a, allowedNamespaces: [], slack: {urlFile: f}}",
    "[0].allowedNamespaces",
    "is empty: name the namespaces that may use the receiver, or leave it out"
)]
#[case(
    "{name: a, allowedNamespaces: [Team A], slack: {urlFile: f}}",
    "[0].allowedNamespaces",
    "has \"Team A\", which cannot be the name of a namespace: correct it"
)]
#[case(
    "{name: On Call, slack: {urlFile: f}}",
    "[0].name",
    "is not a DNS label: write lowercase letters, digits and hyphens, 63 at most"
)]
#[case("{name: a}", "[0]", "has no type: add one of slack, pagerDuty and webhook")]
#[case(
    "{name: a, slack: {urlFile: f}, pagerDuty: {routingKeyFile: k}}",
    "[0]",
    "has more than one type: keep one of slack, pagerDuty and webhook"
)]
#[case("{name: a, events: [], slack: {urlFile: f}}", "[0].events", "is empty: name events to send, or leave it out")]
#[case(
    "{name: a, events: [RolloutOpened], pagerDuty: {routingKeyFile: k}}",
    "[0].events",
    "sends RolloutOpened to PagerDuty, but no later event resolves it: leave it out"
)]
#[case(
    "{name: a, pagerDuty: {routingKeyFile: k, url: events.pagerduty.com}}",
    "[0].pagerDuty.url",
    "\"events.pagerduty.com\" is not an address: write one such as https://hooks.example.com/slipway"
)]
#[case(
    "{name: a, webhook: {url: 'ftp://example.com', secretFile: s}}",
    "[0].webhook.url",
    "\"ftp://example.com\" is not an address: write one such as https://hooks.example.com/slipway"
)]
#[case(
    "{name: a, webhook: {url: 'https://example.com', urlFile: u, secretFile: s}}",
    "[0].webhook",
    "has url and urlFile: keep one of them"
)]
#[case(
    "{name: a, webhook: {secretFile: s}}",
    "[0].webhook",
    "has no address: add url, or urlFile where the address is a credential"
)]
#[case(
    "{name: a, slack: {urlFile: f, template: '{{ message'}}",
    "[0].slack.template",
    "failed to parse the template: syntax error: unexpected end of input, expected end of variable block (in template:1). See \
     docs/notifications.md for what it may name"
)]
#[case(
    "{name: a, slack: {urlFile: f, template: '{{ mesage }}'}}",
    "[0].slack.template",
    "failed to write RolloutOpened with the template: undefined value (in template:1). See docs/notifications.md for what it \
     may name"
)]
fn a_receiver_that_cannot_be_used_is_named(#[case] receivers: &str, #[case] field: &str, #[case] problem: &str) {
    assert_eq!(problem_of(receivers), format!("notifications.receivers{field} of the configuration: {problem}"));
}

#[test]
fn more_receivers_than_can_be_served_are_refused() {
    let receivers: Vec<String> = (0..33).map(|index| format!("{{name: r{index}, slack: {{urlFile: f}}}}")).collect();
    let expected = "notifications.receivers of the configuration: names 33 receivers: leave at most 32";
    assert_eq!(problem_of(&receivers.join(", ")), expected);
}

#[test]
fn a_cluster_has_a_short_name() {
    let settings = settings(&format!("  cluster: {}\n", "c".repeat(64)));
    let error = settings.check().expect_err("too long").to_string();
    assert_eq!(error, "notifications.cluster of the configuration: has more than 63 characters: shorten it");
}

#[test]
fn an_event_that_does_not_exist_is_named_with_those_that_do() {
    let yaml = "images: {worker: w, agentRuntime: r}\nnotifications: {receivers: [{name: a, events: [Broken]}]}";
    let error = serde_norway::from_str::<Settings>(yaml).expect_err("no such event").to_string();
    assert!(error.contains("unknown variant `Broken`, expected one of `RolloutOpened`"), "{error}");
}
