use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

mod traces;

fn lookup() -> HttpTool {
    HttpTool {
        url: "http://facts.agents.svc/v1/{entity}/{property}".into(),
        method: HttpMethod::Get,
        parameters: ["entity", "property"].map(|name| Parameter { name: name.into() }).into(),
        argument_separator: ".".into(),
        headers_from: Some("/etc/slipway/tools/lookup".into()),
        timeout_milliseconds: 2_000,
        retries: 2,
        idempotent: true,
        max_response_bytes: 4_096,
        result: ResultPick::JsonPointer("/value".into()),
        ..HttpTool::new("")
    }
}

fn demo() -> RuntimeConfig {
    let http = ToolKind::Http(lookup());
    RuntimeConfig {
        system_prompt: "Look facts up.".into(),
        tools: vec![
            Tool {
                name: "lookup".into(),
                description: "A property of an entity.".into(),
                input_schema: None,
                kind: http,
            },
            Tool { name: "calc".into(), description: String::new(), input_schema: None, kind: ToolKind::Calculator },
        ],
        objectives: vec![LatencyObjective {
            name: "answer-tail".into(),
            metric: LatencyMetric::AgentRunLatency,
            percentile: Percentile::P99_9,
            max_microseconds: 4_000_000,
        }],
        ..RuntimeConfig::new("support-agent", "support-agent-1", "http://127.0.0.1:8001")
    }
}

fn problems(change: impl FnOnce(&mut RuntimeConfig)) -> Vec<String> {
    let mut config = demo();
    change(&mut config);
    let problems = config.validate().expect_err("the change must be refused");
    problems.iter().map(Problem::to_string).collect()
}

fn http_problems(change: impl FnOnce(&mut HttpTool)) -> Vec<String> {
    problems(|config| {
        let mut http = lookup();
        change(&mut http);
        config.tools[0].kind = ToolKind::Http(http);
    })
}

#[test]
fn what_is_written_is_what_is_read() {
    let config = demo();
    assert_eq!(RuntimeConfig::from_json(config.to_json().as_bytes()).unwrap(), config);
}

#[test]
fn the_format_of_the_file_stays() {
    let json = r#"{
      "agentName": "support-agent", "revision": "support-agent-1",
      "triton": {"endpoint": "http://127.0.0.1:8001", "modelName": "agent"},
      "systemPrompt": "Look facts up.", "promptTemplate": "System: {systemPrompt}\n{messages}",
      "tools": [
        {"name": "lookup", "description": "A property of an entity.", "kind": {"http": {
          "url": "http://facts.agents.svc/v1/{entity}/{property}", "method": "GET",
          "parameters": [{"name": "entity"}, {"name": "property"}], "argumentSeparator": ".",
          "headersFrom": "/etc/slipway/tools/lookup", "timeoutMilliseconds": 2000, "retries": 2, "idempotent": true,
          "maxResponseBytes": 4096, "result": {"jsonPointer": "/value"}}}},
        {"name": "calc", "description": "", "kind": "calculator"}],
      "maxSteps": 8, "maxTokensPerStep": 256, "runTimeoutMilliseconds": 30000, "maxInFlight": 16,
      "drainGraceMilliseconds": 40000, "warmUp": {"longestPromptCharacters": 256},
      "objectives": [{"name": "answer-tail", "metric": "AgentRunLatency", "percentile": "p99.9", "maxMicroseconds": 4000000}]
    }"#;
    assert_eq!(RuntimeConfig::from_json(json.as_bytes()).unwrap(), demo());
    let written: serde_json::Value = serde_json::from_str(&demo().to_json()).unwrap();
    assert_eq!(written, serde_json::from_str::<serde_json::Value>(json).unwrap());
}

#[test]
fn three_fields_are_enough() {
    let json = br#"{"agentName": "a", "revision": "a-1", "triton": {"endpoint": "http://127.0.0.1:8001"}}"#;
    let expected = RuntimeConfig::new("a", "a-1", "http://127.0.0.1:8001");
    assert_eq!(RuntimeConfig::from_json(json).unwrap(), expected);
}

#[rstest]
#[case::misspelt(r#"{"agentName": "a", "maxStep": 3}"#, "unknown field `maxStep`")]
#[case::missing(r#"{"agentName": "a", "revision": "r"}"#, "missing field `triton`")]
#[case::no_unit(r#"{"runTimeoutMilliseconds": "30s"}"#, "invalid type: string \"30s\"")]
#[case::percentile(
    r#"{"objectives": [{"name": "a", "metric": "AgentRunLatency", "percentile": "p42"}]}"#,
    "unknown variant `p42`, expected one of `p50`, `p90`, `p95`, `p99`, `p99.9`"
)]
#[case::tool_kind(
    r#"{"tools": [{"name": "a", "kind": "shell"}]}"#,
    "unknown variant `shell`, expected `calculator` or `http`"
)]
fn files_of_another_shape_name_the_field(#[case] json: &str, #[case] expected: &str) {
    let error = RuntimeConfig::from_json(json.as_bytes()).unwrap_err();
    let source = std::error::Error::source(&error).expect("the cause is kept").to_string();
    assert!(source.contains(expected), "{source}");
}

#[test]
fn all_problems_come_at_once() {
    let found = problems(|config| {
        config.agent_name = "Support Agent".into();
        config.max_steps = 0;
        config.engine.endpoint = "127.0.0.1:8001".into();
        config.engine.tokenizer = Some("tokenizer".into());
        config.engine.dialect = TextDialect::Vllm;
    });
    assert_eq!(
        found,
        [
            "agentName: \"Support Agent\" is not a name; use 1 to 63 of a-z, 0-9, '-' and '.', letters or digits at both ends",
            "triton.endpoint: \"127.0.0.1:8001\" is not the address of a gRPC port; write it as http://127.0.0.1:8001",
            "triton.tokenizer: \"tokenizer\" is not an absolute path; name the directory that holds tokenizer.json",
            "triton.dialect: takes text, but triton.tokenizer is for an entry that takes tokens; remove one of them",
            "maxSteps: is 0; must be between 1 and 64",
        ]
    );
}

#[test]
fn templates_are_checked_where_they_stand() {
    assert_eq!(
        problems(|config| config.prompt_template = "System: {systemPrompt}".into()),
        [
            "promptTemplate: the user's question is missing; add {messages} (whole conversation) or {question} (last message)"
        ]
    );
    assert_eq!(
        http_problems(|http| http.url = "http://{entity}/{property}".into()),
        ["tools[0].kind.http.url: the host must be written out, without user information or placeholders; \
          use headersFrom for credentials"]
    );
}

#[test]
fn placeholders_and_parameters_must_agree() {
    assert_eq!(
        http_problems(|http| http.url = "http://facts/{entity}/{field}".into()),
        [
            "tools[0].kind.http.url: placeholder {field} is not a parameter; add it to parameters",
            "tools[0].kind.http.parameters[1].name: \"property\" has no place in the URL of a GET; \
             add {property} to url, or use POST to send it in the body",
        ]
    );
}

#[test]
fn only_idempotent_tools_are_retried() {
    assert_eq!(
        http_problems(|http| http.idempotent = false),
        ["tools[0].kind.http.retries: repeats a call that is not idempotent; set idempotent if that is harmless, \
          or retries to 0"]
    );
}

#[test]
fn names_must_be_distinct() {
    assert_eq!(
        problems(|config| config.tools[1].name = "lookup".into()),
        ["tools[1].name: \"lookup\" is used twice; give each entry its own"]
    );
    assert_eq!(
        problems(|config| {
            let again = LatencyObjective { name: "again".into(), ..config.objectives[0].clone() };
            config.objectives.push(again);
        }),
        ["objectives[1]: a second objective for AgentRunLatency p99.9; keep one"]
    );
}

#[test]
fn tool_names_must_be_writable_by_the_model() {
    assert_eq!(
        problems(|config| config.tools[1].name = "calc[2]".into()),
        [
            "tools[1].name: \"calc[2]\" cannot be written by the model; use 1 to 63 letters, digits, '_' and '-', a letter first"
        ]
    );
}

#[rstest]
#[case::separator(|http: &mut HttpTool| http.argument_separator = String::new(), "argumentSeparator: is empty")]
#[case::headers(|http: &mut HttpTool| http.headers_from = Some("headers".into()), "headersFrom: \"headers\" is not an absolute path")]
#[case::authorities(|http: &mut HttpTool| (http.url, http.authorities_from) = (http.url.replace("http:", "https:"), Some("ca".into())),
    "authoritiesFrom: \"ca\" is not an absolute path")]
#[case::authorities_of_nothing(|http: &mut HttpTool| http.authorities_from = Some("/ca".into()),
    "authoritiesFrom: has no effect without TLS; begin the URL with https://, or leave it out")]
#[case::timeout(|http: &mut HttpTool| http.timeout_milliseconds = 0, "timeoutMilliseconds: is 0; must be between 1 and 3600000")]
#[case::retries(|http: &mut HttpTool| http.retries = 6, "retries: is 6; must be between 0 and 5")]
#[case::size(|http: &mut HttpTool| http.max_response_bytes = 2_000_000, "maxResponseBytes: is 2000000; must be between 1 and 1048576")]
#[case::networks(|http: &mut HttpTool| http.allowed_networks = vec!["10.0.0.0".into()],
    "allowedNetworks: \"10.0.0.0\" is not a network; write it as 10.0.0.0/8, fd00::/8 or Public")]
#[case::in_flight(|http: &mut HttpTool| http.max_in_flight = Some(0), "maxInFlight: is 0; must be between 1 and 1024")]
#[case::failures(|http: &mut HttpTool| http.circuit_breaker = Some(CircuitBreaker { failures: 0, pause_milliseconds: 1 }),
    "circuitBreaker.failures: is 0; must be between 1 and 1000")]
#[case::pause(|http: &mut HttpTool| http.circuit_breaker = Some(CircuitBreaker { failures: 1, pause_milliseconds: 0 }),
    "circuitBreaker.pauseMilliseconds: is 0; must be between 1 and 3600000")]
#[case::pointer(|http: &mut HttpTool| http.result = ResultPick::JsonPointer("value".into()), "result.jsonPointer: \"value\" is not a JSON Pointer")]
fn http_tools_are_checked(#[case] change: fn(&mut HttpTool), #[case] expected: &str) {
    let found = http_problems(change).join("; ");
    assert!(found.starts_with(&format!("tools[0].kind.http.{expected}")), "{found}");
}

#[test]
fn keys_that_a_person_places_are_not_at_the_pod_or_a_clouds_metadata() {
    for (host, allowed, is_good) in [
        ("127.0.0.1", &[][..], false),
        ("169.254.169.254", &[], false),
        ("169.254.20.10", &["169.254.20.0/24"], true),
        ("10.1.2.3", &["Public"], false),
        ("kubernetes.default.svc", &[], true),
    ] {
        let allowed_networks = allowed.iter().map(|network| (*network).to_owned()).collect();
        let mut authentication = authentication();
        let jwt = authentication.jwt.as_mut().unwrap();
        jwt.keys = JwtKeys::Url { url: format!("https://{host}/jwks"), authorities_from: None, allowed_networks };
        let config = RuntimeConfig { authentication: Some(authentication), ..demo() };
        assert_eq!((config.validate().is_ok(), config.validate_as_written().is_ok()), (true, is_good), "{host}");
    }
}

#[test]
fn keys_of_tokens_are_asked_of_the_host_that_is_written_alone() {
    let found = |url: &str| {
        problems(|config| {
            let mut authentication = authentication();
            let keys = JwtKeys::Url { url: url.into(), authorities_from: None, allowed_networks: Vec::new() };
            authentication.jwt.as_mut().unwrap().keys = keys;
            config.authentication = Some(authentication);
        })
    };
    let another = "authentication.jwt.keys.url: the host \"2852039166\" is another address than it seems; write a name, or \
                   an address as 10.1.2.3 or [fd00::1]";
    assert_eq!(found("https://2852039166/jwks"), [another]);
    for url in
        ["https://0xA9FEA9FE/jwks", "https://x@169.254.169.254/", "https://169.254.169.254/#a", "https://{host}/"]
    {
        assert_eq!(found(url).len(), 1, "{url}");
    }
    assert_eq!(
        found("https://issuer/{tenant}/jwks"),
        ["authentication.jwt.keys.url: has a placeholder; write the address of the keys in full"]
    );
}

fn authentication() -> Authentication {
    let keys = JwtKeys::Url {
        url: "https://issuer.example/jwks".into(),
        authorities_from: Some("/authorities".into()),
        allowed_networks: Vec::new(),
    };
    let own = Rate { runs_at_once: Some(4), ..Rate::default() };
    Authentication {
        tokens: Some("/tokens/tokens".into()),
        jwt: Some(Jwt {
            issuer: "https://issuer.example".into(),
            audiences: vec!["support".into()],
            keys,
            tenant_claim: "sub".into(),
        }),
        rates: Rates {
            default: Rate { requests_per_minute: Some(60), tokens_per_minute: Some(100_000), runs_at_once: None },
            tenants: vec![TenantRate { name: "acme".into(), rate: own }],
        },
    }
}

#[test]
fn the_format_of_an_authentication_stays() {
    let json = r#"{
      "tokens": "/tokens/tokens",
      "jwt": {"issuer": "https://issuer.example", "audiences": ["support"], "tenantClaim": "sub",
              "keys": {"url": {"url": "https://issuer.example/jwks", "authoritiesFrom": "/authorities"}}},
      "rates": {"default": {"requestsPerMinute": 60, "tokensPerMinute": 100000},
                "tenants": [{"name": "acme", "rate": {"runsAtOnce": 4}}]}
    }"#;
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_value(authentication()).unwrap(), json);
    assert_eq!(serde_json::from_value::<Authentication>(json).unwrap(), authentication());
    let file: JwtKeys = serde_json::from_str(r#"{"file": "/keys/jwks.json"}"#).unwrap();
    assert_eq!(file, JwtKeys::File("/keys/jwks.json".into()));
    let mut config = demo();
    config.authentication = Some(authentication());
    assert_eq!(RuntimeConfig::from_json(config.to_json().as_bytes()).unwrap(), config);
}

#[test]
fn a_tenant_has_its_own_limits_and_the_default_for_the_rest() {
    let rates = authentication().rates;
    let expected = Rate { requests_per_minute: Some(60), tokens_per_minute: Some(100_000), runs_at_once: Some(4) };
    assert_eq!((rates.of("acme"), rates.of("other")), (expected, rates.default));
}

#[test]
fn an_authentication_that_cannot_work_is_refused_with_the_remedy() {
    let found = |change: fn(&mut Authentication)| {
        problems(|config| {
            let mut authentication = authentication();
            change(&mut authentication);
            config.authentication = Some(authentication);
        })
    };
    let of_jwt = |change: fn(&mut Jwt)| {
        problems(|config| {
            let mut authentication = authentication();
            change(authentication.jwt.as_mut().unwrap());
            config.authentication = Some(authentication);
        })
    };
    let nobody = found(|authentication| (authentication.tokens, authentication.jwt) = (None, None));
    assert_eq!(nobody, ["authentication: lets nobody in; add tokens or jwt, or leave it out"]);
    assert_eq!(
        found(|authentication| authentication.tokens = Some("tokens".into())),
        ["authentication.tokens: \"tokens\" is not an absolute path; name the mounted file of tokens"]
    );
    assert_eq!(
        of_jwt(|jwt| {
            jwt.keys = JwtKeys::Url {
                url: "http://issuer.example/jwks".into(),
                authorities_from: Some("ca".into()),
                allowed_networks: vec!["10.0.0.7/8".into()],
            };
            (jwt.issuer, jwt.audiences, jwt.tenant_claim) = (String::new(), Vec::new(), String::new());
        }),
        [
            "authentication.jwt.issuer: is empty; write the claim iss of the tokens",
            "authentication.jwt.audiences: has 0 entries; name 1 to 16, of which the claim aud has one",
            "authentication.jwt.tenantClaim: is empty; name the claim with the tenant, such as sub",
            "authentication.jwt.keys.url: \"http://issuer.example/jwks\" does not begin with https://; who answers for \
             the issuer could sign any token",
            "authentication.jwt.keys.authoritiesFrom: \"ca\" is not an absolute path; name the mounted directory of \
             certificates",
            "authentication.jwt.keys.allowedNetworks: \"10.0.0.7/8\" is an address in a network; write 10.0.0.0/8",
        ]
    );
    assert_eq!(
        of_jwt(|jwt| (jwt.audiences, jwt.keys) = (vec![String::new()], JwtKeys::File("keys".into()))),
        [
            "authentication.jwt.audiences: has an empty entry; remove it",
            "authentication.jwt.keys.file: \"keys\" is not an absolute path; name the mounted file of keys",
        ]
    );
    assert_eq!(
        found(|authentication| {
            let tenant = TenantRate { name: String::new(), rate: Rate::default() };
            authentication.rates.default.requests_per_minute = Some(0);
            authentication.rates.tenants.extend([tenant.clone(), tenant]);
            authentication.rates.tenants[0].rate.runs_at_once = Some(5_000);
        }),
        [
            "authentication.rates.default.requestsPerMinute: is 0; must be between 1 and 1000000",
            "authentication.rates.tenants[2].name: \"\" is used twice; give each entry its own",
            "authentication.rates.tenants[0].rate.runsAtOnce: is 5000; must be between 1 and 4096",
            "authentication.rates.tenants[1].name: is empty; name the tenant",
            "authentication.rates.tenants[2].name: is empty; name the tenant",
        ]
    );
}

#[test]
fn the_format_of_a_tools_limits_stays() {
    let http = HttpTool {
        allowed_networks: vec!["Public".into(), "10.0.0.0/8".into()],
        max_in_flight: Some(8),
        circuit_breaker: Some(CircuitBreaker { failures: 5, pause_milliseconds: 30_000 }),
        ..HttpTool::new("http://facts")
    };
    let json = r#"{"url": "http://facts", "allowedNetworks": ["Public", "10.0.0.0/8"], "maxInFlight": 8,
                   "circuitBreaker": {"failures": 5, "pauseMilliseconds": 30000}}"#;
    assert_eq!(serde_json::from_str::<HttpTool>(json).unwrap(), http);
    let mut config = demo();
    config.tools[0].kind = ToolKind::Http(http);
    assert_eq!(RuntimeConfig::from_json(config.to_json().as_bytes()).unwrap(), config);
}

fn shop() -> McpServer {
    McpServer {
        tools: vec!["search".into()],
        trust_annotations: true,
        retries: 1,
        ..McpServer::new("shop", "https://shop.example/mcp")
    }
}

#[test]
fn the_format_of_a_server_stays() {
    let json = r#"{"name": "shop", "url": "https://shop.example/mcp", "prefix": "shop_", "tools": ["search"],
                   "timeoutMilliseconds": 10000, "trustAnnotations": true, "retries": 1}"#;
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(serde_json::to_value(shop()).unwrap(), json);
    let mut config = demo();
    config.mcp_servers = vec![shop()];
    assert_eq!(RuntimeConfig::from_json(config.to_json().as_bytes()).unwrap(), config);
}

#[rstest]
#[case::url(|server: &mut McpServer| server.url = "https://shop/{id}".into(), "url: has a placeholder")]
#[case::scheme(|server: &mut McpServer| server.url = "shop".into(), "url: must begin with http:// or https://")]
#[case::prefix(|server: &mut McpServer| server.prefix = "a b".into(), "prefix: \"a b\" cannot be written by the model")]
#[case::name(|server: &mut McpServer| server.name = String::new(), "name: \"\" cannot be written by the model")]
#[case::tools(|server: &mut McpServer| server.tools = vec![String::new()], "tools: has an empty entry; remove it")]
#[case::headers(|server: &mut McpServer| server.headers_from = Some("x".into()), "headersFrom: \"x\" is not an absolute path")]
#[case::networks(|server: &mut McpServer| server.allowed_networks = vec!["x".into()], "allowedNetworks: \"x\" is not a network")]
#[case::in_flight(|server: &mut McpServer| server.max_in_flight = Some(0), "maxInFlight: is 0")]
#[case::timeout(|server: &mut McpServer| server.timeout_milliseconds = 0, "timeoutMilliseconds: is 0")]
#[case::socket(|server: &mut McpServer| server.socket = Some("socket".into()),
    "socket: \"socket\" is not an absolute path of at most 107 bytes; name the server's socket")]
#[case::networks_of_a_socket(|server: &mut McpServer| {
    server.socket = Some("/mcp/socket".into());
    server.allowed_networks = vec!["10.0.0.0/8".into()];
}, "socket: leads to no network; leave authoritiesFrom and allowedNetworks out")]
#[case::retries(|server: &mut McpServer| server.trust_annotations = false,
    "retries: has no effect while the server's annotations are not trusted; set trustAnnotations, or retries to 0")]
fn servers_are_checked(#[case] change: fn(&mut McpServer), #[case] expected: &str) {
    let found = problems(|config| {
        config.mcp_servers = vec![shop()];
        change(&mut config.mcp_servers[0]);
    });
    let found = found.join("; ");
    assert!(found.starts_with(&format!("mcpServers[0].{expected}")), "{found}");
}

#[test]
fn an_address_that_tools_must_not_call_is_refused_where_a_person_wrote_it() {
    let written = |url: &str, allowed: &[&str]| {
        let mut config = demo();
        let allowed_networks = allowed.iter().map(|network| (*network).to_owned()).collect();
        config.tools[0].kind = ToolKind::Http(HttpTool { allowed_networks, ..HttpTool::new(url) });
        assert_eq!(config.validate(), Ok(()), "a file of the operator's may have it");
        config.validate_as_written().map_err(|problems| problems.to_string())
    };
    let refused = |what: &str| Err(format!("tools[0].kind.http.url: {what}"));
    assert_eq!(
        written("http://169.254.169.254/latest/meta-data", &[]),
        refused(
            "169.254.169.254 is the address of a cloud's metadata; name another host, or add its network to allowedNetworks"
        )
    );
    assert_eq!(
        written("http://[::1]:8001/v2/repository/index", &[]),
        refused("::1 is a loopback address; name another host, or add its network to allowedNetworks")
    );
    assert_eq!(
        written("http://10.0.0.7/", &["Public"]),
        refused("10.0.0.7 is in none of allowedNetworks; add its network, or name another host")
    );
    assert_eq!(
        written("http://a.localhost/", &[]),
        refused(
            "a.localhost is the pod itself: 127.0.0.1 is a loopback address; name another host, or add its network to \
             allowedNetworks"
        )
    );
    assert_eq!(written("http://localhost.:9000/", &["127.0.0.0/8"]), Ok(()));
    assert_eq!(written("http://127.0.0.1:9000/", &["127.0.0.1/32"]), Ok(()));
    assert_eq!(written("http://10.0.0.7/", &[]), Ok(()));
    assert_eq!(written("http://facts.agents.svc/", &[]), Ok(()));
}
