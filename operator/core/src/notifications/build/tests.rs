use insta::assert_snapshot;
use jiff::Timestamp;
use pretty_assertions::assert_eq;
use serde_json::Value;

use super::*;
use crate::notifications::events::{Announcement, Happening, Role, Severity, Subject, Topic};

fn rolled_back() -> Announcement {
    Announcement {
        subject: Subject { namespace: "team".to_owned(), name: "support".to_owned(), uid: "uid-1".to_owned() },
        topic: Topic::Problem,
        happening: Happening::RolledBack,
        fingerprint: "7c1f9a2b3d".to_owned(),
        severity: Severity::Warning,
        message:
            "revision 7c1f9a2b3d was rolled back at 20 % of the traffic: slower than <stable> & blamed on the engine"
                .to_owned(),
        generation: 4,
        plan: Some("7c1f9a2b3d".to_owned()),
        at: "2026-11-21T10:15:30.5Z".parse().expect("a time"),
        receivers: vec!["team".to_owned()],
    }
}

fn of(happening: Happening, topic: Topic) -> Announcement {
    Announcement { happening, topic, ..rolled_back() }
}

fn template(source: &str) -> Template {
    Template::parse(source).expect("a template")
}

fn json(request: &Request) -> Value {
    serde_json::from_str(&request.body).expect("JSON")
}

#[test]
fn a_message_for_slack_cannot_mention_or_link_by_what_it_reports() {
    let announcement = Announcement { message: "<!channel> a & b".to_owned(), ..rolled_back() };
    let own_words = template("<!here> {{ message }}");
    let request =
        slack_message("https://hooks.example.com/x", &own_words, Context::of(&announcement, "")).expect("text");
    assert_eq!(json(&request), serde_json::json!({"text": "<!here> &lt;!channel&gt; a &amp; b"}));
}

#[test]
fn what_the_default_messages_look_like() {
    let context = || Context::of(&rolled_back(), "production");
    let slack = slack_message("https://hooks.example.com/x", &template(SLACK_TEMPLATE), context()).expect("text");
    assert_snapshot!(json(&slack)["text"].as_str().expect("a text"), @"
    :large_orange_circle: *rolled back*: team/support in production
    revision 7c1f9a2b3d was rolled back at 20 % of the traffic: slower than &lt;stable&gt; &amp; blamed on the engine
    ");
    let announcement = rolled_back();
    let place = (PAGER_DUTY_ENQUEUE, "key");
    let page = trigger_or_resolve(place, &template(PAGER_DUTY_TEMPLATE), &announcement, &context()).expect("text");
    assert_eq!(
        json(&page.expect("an incident")),
        serde_json::json!({
            "routing_key": "key",
            "event_action": "trigger",
            "dedup_key": "slipway/production/team/support/problem",
            "client": "Slipway",
            "payload": {
                "summary": "team/support: rolled back: revision 7c1f9a2b3d was rolled back at 20 % of the traffic: slower than \
                            <stable> & blamed on the engine",
                "source": "production/team/support",
                "severity": "warning",
                "timestamp": "2026-11-21T10:15:30Z",
                "component": "support",
                "group": "team",
                "class": "RolledBack",
                "custom_details": {
                    "message": announcement.message,
                    "generation": "4",
                    "plan": "7c1f9a2b3d",
                    "cluster": "production",
                },
            },
        })
    );
}

#[test]
fn an_incident_is_resolved_by_the_key_that_it_was_triggered_with() {
    let event = |happening, topic| {
        let announcement = of(happening, topic);
        let context = Context::of(&announcement, "");
        let request = trigger_or_resolve(("https://x.example", "k"), &template("{{ title }}"), &announcement, &context);
        let event = json(&request.expect("text").expect("an event"));
        (event["event_action"].clone(), event["dedup_key"].clone())
    };
    let tail = || Topic::Objective("tail".to_owned());
    let of_tail = "slipway//team/support/objective/tail";
    assert_eq!(event(Happening::ObjectiveMissed, tail()), ("trigger".into(), of_tail.into()));
    assert_eq!(event(Happening::ObjectiveMet, tail()), ("resolve".into(), of_tail.into()));
    assert_eq!(event(Happening::Recovered, Topic::Problem), ("resolve".into(), "slipway//team/support/problem".into()));
}

#[test]
fn news_open_no_incident_that_nothing_would_close() {
    for happening in Happening::ALL {
        let announcement = of(happening, Topic::Problem);
        let context = Context::of(&announcement, "");
        let request = trigger_or_resolve(("https://x.example", "k"), &template("{{ title }}"), &announcement, &context);
        assert_eq!(request.expect("text").is_some(), happening.role() != Role::Tells, "{happening:?}");
    }
}

#[test]
fn a_summary_and_a_key_are_as_long_as_pager_duty_takes_them() {
    let long = Announcement { message: "ä".repeat(4000), ..rolled_back() };
    let context = Context::of(&long, &"c".repeat(400));
    let request = trigger_or_resolve(("https://x.example", "k"), &template("{{ message }}"), &long, &context);
    let event = json(&request.expect("text").expect("an event"));
    let length = |value: &Value| value.as_str().expect("a text").chars().count();
    assert_eq!((length(&event["payload"]["summary"]), length(&event["dedup_key"])), (1024, 255));
    assert!(event["payload"]["summary"].as_str().expect("a text").ends_with("ä…"));
}

#[test]
fn the_signature_is_that_of_the_reference_of_standard_webhooks() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
    let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn while_secrets_are_exchanged_an_event_carries_the_signatures_of_both() {
    let (old, new) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX");
    let sign = |text: &str| Secret::parse(text).expect("a secret").sign("msg_1", 7, "{}");
    assert_eq!(sign(&format!("{old}\n{new}\n")), format!("{} {}", sign(old), sign(new)));
}

#[test]
fn a_secret_is_never_written_into_a_log() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
    let url = "https://hooks.slack.com/services/T0/B0/hidden";
    let request = slack_message(url, &template("{{ title }}"), Context::of(&rolled_back(), "")).expect("text");
    assert_eq!(format!("{secret:?} {request:?}"), "Secret Request { .. }");
    assert_eq!(Secret::parse("whsec_short").unwrap_err(), SecretError::Malformed(1));
    assert_eq!(Secret::parse(" \n").unwrap_err(), SecretError::Empty);
}

#[test]
fn an_event_keeps_its_id_over_attempts_and_is_signed_anew() {
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
    let announcement = rolled_back();
    let headers = |announcement: &Announcement, seconds| {
        let stamp = Stamp { secret: &secret, now: Timestamp::from_second(seconds).expect("a time") };
        let context = Context::of(announcement, "");
        let request = signed_event(("https://x.example", stamp), &template("{{ title }}"), announcement, &context);
        request.expect("text").headers
    };
    let (first, second) = (headers(&announcement, 100), headers(&announcement, 200));
    assert_eq!(first[0], second[0], "the id");
    assert!(first[1] != second[1] && first[2] != second[2], "time and signature");
    let later = Announcement { at: "2026-11-22T10:15:30Z".parse().expect("a time"), ..rolled_back() };
    assert!(headers(&later, 100)[0] != first[0], "another event has another id");
}

#[test]
fn a_template_that_never_ends_is_refused_before_it_serves() {
    let error = Template::parse("{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}");
    let error = error.expect_err("too long").to_string();
    assert_eq!(error, "failed to write RolloutOpened with the template");
}

#[test]
fn a_template_may_ask_for_everything_that_the_documentation_lists() {
    let source = "{{ cluster }}|{{ namespace }}|{{ name }}|{{ generation }}|{{ happening }}|{{ title }}|{{ severity }}|\
                  {{ emoji }}|{{ message }}|{{ plan }}|{{ objective }}|{{ time }}";
    let announcement = Announcement {
        message: "p95 is 2.1s".to_owned(),
        severity: Severity::Error,
        ..of(Happening::ObjectiveMissed, Topic::Objective("tail".to_owned()))
    };
    let text = template(source).render(&Context::of(&announcement, "production")).expect("a text");
    let expected = "production|team|support|4|ObjectiveMissed|objective missed|error|:red_circle:|p95 is 2.1s|7c1f9a2b3d|tail|\
                    2026-11-21T10:15:30Z";
    assert_eq!(text, expected);
}
