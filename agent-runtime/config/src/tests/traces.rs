//! Where traces are sent.

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::{demo, problems};
use crate::{RuntimeConfig, Tracing};

fn tracing() -> Tracing {
    Tracing {
        endpoint: "http://collector.observability.svc:4318".into(),
        namespace: Some("team".into()),
        sampled_per_million: 100_000,
        headers_from: Some("/etc/slipway/tracing/headers".into()),
        authorities_from: None,
        allowed_networks: Vec::new(),
    }
}

#[test]
fn the_format_of_tracing_stays() {
    let json = serde_json::json!({
        "endpoint": "http://collector.observability.svc:4318", "namespace": "team", "sampledPerMillion": 100_000,
        "headersFrom": "/etc/slipway/tracing/headers",
    });
    assert_eq!(serde_json::to_value(tracing()).unwrap(), json);
    assert_eq!(serde_json::from_value::<Tracing>(json).unwrap(), tracing());
    let all = serde_json::json!({ "endpoint": "https://collector" });
    assert_eq!(serde_json::from_value::<Tracing>(all).unwrap(), Tracing::new("https://collector"));
    let mut config = demo();
    assert!(!config.to_json().contains("tracing"), "what is absent is not written");
    config.tracing = Some(tracing());
    assert_eq!(RuntimeConfig::from_json(config.to_json().as_bytes()).unwrap(), config);
}

#[rstest]
#[case::no_scheme(|tracing: &mut Tracing| tracing.endpoint = "collector:4318".into(),
    "tracing.endpoint: must begin with http:// or https://")]
#[case::a_query(|tracing: &mut Tracing| tracing.endpoint.push_str("/?key=1"),
    "tracing.endpoint: has a placeholder or a query; write the address alone, such as http://collector:4318")]
#[case::the_whole_path(|tracing: &mut Tracing| tracing.endpoint.push_str("/v1/traces/"),
    "tracing.endpoint: ends with /v1/traces, which is added to it; leave that out")]
#[case::more_than_all(|tracing: &mut Tracing| tracing.sampled_per_million = 1_000_001,
    "tracing.sampledPerMillion: is 1000001; must be between 0 and 1000000")]
#[case::a_relative_folder(|tracing: &mut Tracing| tracing.headers_from = Some("headers".into()),
    "tracing.headersFrom: \"headers\" is not an absolute path; name the directory the Secret is mounted at")]
#[case::authorities_without_tls(|tracing: &mut Tracing| tracing.authorities_from = Some("/authorities".into()),
    "tracing.authoritiesFrom: has no effect without TLS; begin the URL with https://, or leave it out")]
#[case::no_network(|tracing: &mut Tracing| tracing.allowed_networks = vec!["10.0.0.0".into()],
    "tracing.allowedNetworks: \"10.0.0.0\" is not a network; write it as 10.0.0.0/8, fd00::/8 or Public")]
fn tracing_that_cannot_work_is_refused_with_the_remedy(#[case] change: fn(&mut Tracing), #[case] expected: &str) {
    let found = problems(|config| {
        let mut tracing = tracing();
        change(&mut tracing);
        config.tracing = Some(tracing);
    });
    assert_eq!(found, [expected]);
}

#[test]
fn a_receiver_that_a_person_names_is_not_the_pod_or_a_clouds_metadata() {
    for (host, is_good) in [("127.0.0.1", false), ("169.254.169.254", false), ("10.1.2.3", true), ("collector", true)] {
        let config = RuntimeConfig { tracing: Some(Tracing::new(&format!("http://{host}:4318"))), ..demo() };
        assert_eq!((config.validate().is_ok(), config.validate_as_written().is_ok()), (true, is_good), "{host}");
    }
}
