//! What makes an engine's address usable, beside the sidecar or elsewhere. Pure.

use crate::{
    AllowedNetworks, Engine, PromptTemplate, RuntimeConfig, TextDialect, Upstream, UrlTemplate, network::PUBLIC,
};

use super::{Check, check_address, validate_limits, validate_mounts};

const ENDPOINT: &str = "triton.endpoint";
const FIELD: &str = "triton.upstream";
/// What is added to the address.
const PATH: &str = "/v1";

pub(super) fn validate(check: &mut Check, config: &RuntimeConfig) {
    let Engine { endpoint, dialect, upstream, .. } = &config.engine;
    match upstream {
        None => validate_port(check, ENDPOINT, endpoint, "a gRPC port; write it as http://127.0.0.1:8001"),
        Some(upstream) => validate_elsewhere(check, endpoint, upstream),
    }
    let (is_upstream, is_of_any_make) = match dialect {
        TextDialect::Completions | TextDialect::Chat => (true, true),
        TextDialect::OpenAi | TextDialect::SgLang | TextDialect::TrtLlm => (true, false),
        TextDialect::Text | TextDialect::Ensemble | TextDialect::Vllm | TextDialect::LlmApi => (false, false),
    };
    check.that(is_upstream || upstream.is_none(), FIELD, || {
        "is for servers of the OpenAI API; set triton.dialect to OpenAi, SgLang, TrtLlm, Completions or Chat".into()
    });
    check.that(!is_of_any_make || upstream.is_some(), FIELD, || {
        "is missing; add it, as this dialect is for servers elsewhere: {} will do where no key is needed".into()
    });
    check.that(!is_of_any_make || config.sampling.top_k.is_none(), "sampling.topK", || {
        "is no field of the OpenAI API; leave it out, or set triton.dialect to OpenAi, SgLang or TrtLlm for their \
         servers"
            .into()
    });
    let writes_messages = *dialect == TextDialect::Chat;
    check.that(!writes_messages || config.chat_template.is_none(), "chatTemplate", || {
        "has no effect on a chat, whose messages the server writes by its own template; leave it out".into()
    });
    check.that(!writes_messages || config.prompt_template == PromptTemplate::DEFAULT, "promptTemplate", || {
        "has no effect on a chat, which is sent as messages; leave it out, or set triton.dialect to Completions".into()
    });
}

/// An address in the pod: a scheme, a host and a port, and nothing else.
pub(super) fn validate_port(check: &mut Check, field: &str, endpoint: &str, remedy: &str) {
    let authority = endpoint.strip_prefix("http://").unwrap_or_default().trim_end_matches('/');
    let port = authority.rsplit_once(':').map(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    check.that(port == Some(true) && !authority.contains(['/', '?', '@']), field, || {
        format!("{endpoint:?} is not the address of {remedy}")
    });
}

fn validate_elsewhere(check: &mut Check, endpoint: &str, upstream: &Upstream) {
    let Upstream { headers_from, authorities_from, allowed_networks, max_in_flight, retries } = upstream;
    match UrlTemplate::parse(endpoint) {
        Err(error) => check.fail(ENDPOINT, error.to_string()),
        Ok(url) => check.that(url.placeholders().next().is_none() && !endpoint.contains('?'), ENDPOINT, || {
            "has a placeholder or a query; write the address alone, such as https://llm.example".into()
        }),
    }
    check.that(!endpoint.trim_end_matches('/').ends_with(PATH), ENDPOINT, || {
        format!("ends with {PATH}, which is added to it; leave that out")
    });
    // A name is checked once it has led somewhere. An address leads there at once, and nobody looks again.
    check_address(check, ENDPOINT, endpoint, allowed_networks);
    validate_mounts(check, FIELD, endpoint, headers_from.as_deref(), authorities_from.as_deref());
    let holds_internet = |network: &String| network == PUBLIC || network.ends_with("/0");
    let is_near = !allowed_networks.is_empty() && !allowed_networks.iter().any(holds_internet);
    let is_kept = headers_from.is_none() || endpoint.starts_with("https://") || is_near;
    check.that(is_kept, &format!("{FIELD}.headersFrom"), || {
        "sends a key that everybody on the way can read; begin triton.endpoint with https://, or name the networks \
         that it may cross in allowedNetworks"
            .into()
    });
    if let Err(error) = AllowedNetworks::parse(allowed_networks) {
        check.fail(format!("{FIELD}.allowedNetworks"), error.to_string());
    }
    validate_limits(check, FIELD, *max_in_flight, None);
    check.range(&format!("{FIELD}.retries"), (*retries).into(), 0..=5);
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;
    use crate::{ChatTemplate, ReadConfigError, Sampling};

    fn hosted() -> RuntimeConfig {
        let mut config = RuntimeConfig::new("support", "support-1", "https://llm.example");
        config.engine.dialect = TextDialect::Chat;
        config.engine.upstream = Some(Upstream {
            headers_from: Some("/etc/slipway/upstream".into()),
            authorities_from: Some("/etc/slipway/authorities".into()),
            max_in_flight: Some(8),
            retries: 2,
            ..Upstream::default()
        });
        config
    }

    fn upstream(config: &mut RuntimeConfig) -> &mut Upstream {
        config.engine.upstream.get_or_insert_default()
    }

    #[test]
    fn the_format_of_an_upstream_stays() {
        let config = hosted();
        assert_eq!(config.validate(), Ok(()));
        let expected = r#"  "triton": {
    "endpoint": "https://llm.example",
    "modelName": "agent",
    "dialect": "Chat",
    "upstream": {
      "headersFrom": "/etc/slipway/upstream",
      "authoritiesFrom": "/etc/slipway/authorities",
      "maxInFlight": 8,
      "retries": 2
    }
  },
"#;
        assert!(config.to_json().contains(expected), "{}", config.to_json());
    }

    #[rstest]
    #[case::scheme(|config: &mut RuntimeConfig| config.engine.endpoint = "llm.example".into(),
        "triton.endpoint: must begin with http:// or https://")]
    #[case::query(|config: &mut RuntimeConfig| config.engine.endpoint += "/?key=x",
        "triton.endpoint: has a placeholder or a query")]
    #[case::credentials(|config: &mut RuntimeConfig| config.engine.endpoint = "https://a:b@llm.example".into(),
        "triton.endpoint: the host must be written out, without user information")]
    #[case::path(|config: &mut RuntimeConfig| config.engine.endpoint += "/v1/",
        "triton.endpoint: ends with /v1, which is added to it; leave that out")]
    #[case::headers(|config: &mut RuntimeConfig| upstream(config).headers_from = Some("key".into()),
        "triton.upstream.headersFrom: \"key\" is not an absolute path")]
    #[case::clear(|config: &mut RuntimeConfig| config.engine.endpoint = "http://llm.example".into(),
        "triton.upstream.authoritiesFrom: has no effect without TLS")]
    #[case::key_in_the_clear(|config: &mut RuntimeConfig| {
        config.engine.endpoint = "http://llm.example".into();
        upstream(config).authorities_from = None;
    }, "triton.upstream.headersFrom: sends a key that everybody on the way can read")]
    #[case::key_across_the_internet(|config: &mut RuntimeConfig| {
        config.engine.endpoint = "http://llm.example".into();
        upstream(config).authorities_from = None;
        upstream(config).allowed_networks = vec!["Public".into()];
    }, "triton.upstream.headersFrom: sends a key that everybody on the way can read")]
    #[case::key_across_every_network(|config: &mut RuntimeConfig| {
        config.engine.endpoint = "http://llm.example".into();
        upstream(config).authorities_from = None;
        upstream(config).allowed_networks = vec!["0.0.0.0/0".into()];
    }, "triton.upstream.headersFrom: sends a key that everybody on the way can read")]
    #[case::port(|config: &mut RuntimeConfig| config.engine.endpoint = "https://llm.example:99999".into(),
        "triton.endpoint: the port \"99999\" is not one; write a number from 1 to 65535")]
    #[case::networks(|config: &mut RuntimeConfig| upstream(config).allowed_networks = vec!["x".into()],
        "triton.upstream.allowedNetworks: \"x\" is not a network")]
    #[case::in_flight(|config: &mut RuntimeConfig| upstream(config).max_in_flight = Some(0),
        "triton.upstream.maxInFlight: is 0; must be between 1 and 1024")]
    #[case::retries(|config: &mut RuntimeConfig| upstream(config).retries = 6,
        "triton.upstream.retries: is 6; must be between 0 and 5")]
    #[case::triton(|config: &mut RuntimeConfig| config.engine.dialect = TextDialect::Vllm,
        "triton.upstream: is for servers of the OpenAI API; set triton.dialect to OpenAi, SgLang, TrtLlm, Completions or Chat")]
    #[case::top_k(|config: &mut RuntimeConfig| config.sampling = Sampling { top_k: Some(5), ..Sampling::default() },
        "sampling.topK: is no field of the OpenAI API; leave it out")]
    #[case::chat_template(
        |config: &mut RuntimeConfig| config.chat_template = Some(ChatTemplate { folder: "/c".into(), dialect: None }),
        "chatTemplate: has no effect on a chat")]
    #[case::prompt_template(|config: &mut RuntimeConfig| config.prompt_template = "{messages}".into(),
        "promptTemplate: has no effect on a chat")]
    fn an_upstream_that_cannot_work_is_refused_with_the_remedy(
        #[case] change: fn(&mut RuntimeConfig),
        #[case] expected: &str,
    ) {
        let mut config = hosted();
        change(&mut config);
        let found = config.validate().expect_err("something is wrong").to_string();
        assert!(found.starts_with(expected), "{found}");
    }

    #[test]
    fn a_server_of_any_make_is_elsewhere() {
        let mut config = RuntimeConfig::new("support", "support-1", "http://127.0.0.1:8000");
        config.engine.dialect = TextDialect::Completions;
        let found = config.validate().expect_err("how it is reached is missing").to_string();
        assert!(found.starts_with("triton.upstream: is missing; add it"), "{found}");
    }

    #[test]
    fn a_key_may_cross_named_networks_in_the_clear() {
        let mut config = hosted();
        config.engine.endpoint = "http://llm.shop.svc".into();
        upstream(&mut config).authorities_from = None;
        upstream(&mut config).allowed_networks = vec!["10.0.0.0/8".into()];
        assert_eq!(config.validate(), Ok(()));
    }

    #[rstest]
    #[case::metadata("169.254.169.254", "169.254.169.254 is the address of a cloud's metadata")]
    #[case::loopback("[::1]:8000", "::1 is a loopback address")]
    #[case::name_of_loopback("LocalHost:8000", "LocalHost is the pod itself: 127.0.0.1 is a loopback address")]
    fn an_upstream_is_at_no_special_address_unless_its_network_is_named(#[case] host: &str, #[case] expected: &str) {
        let mut config = hosted();
        config.engine.endpoint = format!("https://{host}");
        let found = RuntimeConfig::from_json(config.to_json().as_bytes()).expect_err("it is special");
        let found = match found {
            ReadConfigError::Invalid(problems) => problems.to_string(),
            ReadConfigError::Parse(error) => error.to_string(),
        };
        assert!(found.starts_with(&format!("triton.endpoint: {expected}")), "{found}");
        upstream(&mut config).allowed_networks =
            vec!["169.254.169.254/32".into(), "::1/128".into(), "127.0.0.0/8".into()];
        assert_eq!(RuntimeConfig::from_json(config.to_json().as_bytes()).ok(), Some(config));
    }
}
