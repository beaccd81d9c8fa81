//! What makes a configuration usable: each problem names its field and the remedy. Pure.

mod authentication;
mod mcp;
mod traces;
mod upstream;

use core::net::Ipv4Addr;
use std::{collections::BTreeSet, error::Error, fmt, ops::RangeInclusive};

use crate::{
    AllowedNetworks, ChatTemplate, CircuitBreaker, Host, HttpMethod, HttpTool, LatencyObjective, PromptTemplate,
    ResultPick, RuntimeConfig, Sampling, Schema, TextDialect, Tool, ToolCallDialect, ToolKind, UrlTemplate,
};

/// Names travel in headers, URLs and labels, so they are Kubernetes names.
const MAX_NAME_LENGTH: usize = 63;
const MAX_TOOLS: usize = 64;
const MAX_OBJECTIVES: usize = 32;
/// Calls of one tool; each holds a connection and up to its longest answer.
const MAX_CALLS_IN_FLIGHT: u64 = 1_024;
/// One hour: longer runs need sessions, not a longer request.
const MAX_TIMEOUT_MILLISECONDS: u64 = 3_600_000;
/// Observations go into the prompt, so a body beyond this could never be used.
const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;

/// One value that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `tools[1].kind.http.url`.
    pub field: String,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.fault)
    }
}

/// What is wrong with a value, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A placeholder of a URL is not a parameter of the tool.
    UnknownPlaceholder {
        /// Its name.
        placeholder: String,
    },
    /// A number is out of its range.
    Range {
        /// The number.
        value: u64,
        /// What it may be.
        allowed: RangeInclusive<u64>,
    },
    /// Anything else, in words that name no other field.
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPlaceholder { placeholder } => {
                write!(f, "placeholder {{{placeholder}}} is not a parameter; add it to parameters")
            }
            Self::Range { value, allowed } => {
                write!(f, "is {value}; must be between {} and {}", allowed.start(), allowed.end())
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}

impl From<String> for Fault {
    fn from(words: String) -> Self {
        Self::Other(words)
    }
}

/// Every problem of a configuration; never empty when it is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "an empty list of problems is never made")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The problems, in the order of the fields.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("; "))
    }
}

impl Error for Problems {}

/// Collects problems under a path.
struct Check {
    problems: Vec<Problem>,
}

impl Check {
    fn fail(&mut self, field: impl Into<String>, fault: impl Into<Fault>) {
        self.problems.push(Problem { field: field.into(), fault: fault.into() });
    }

    fn that(&mut self, holds: bool, field: &str, message: impl FnOnce() -> String) {
        if !holds {
            self.fail(field, message());
        }
    }

    fn range(&mut self, field: &str, value: u64, allowed: RangeInclusive<u64>) {
        if !allowed.contains(&value) {
            self.fail(field, Fault::Range { value, allowed });
        }
    }

    fn distinct<'a>(&mut self, field: &str, key: &str, values: impl Iterator<Item = &'a str>) {
        let mut seen = BTreeSet::new();
        for (i, value) in values.enumerate() {
            self.that(seen.insert(value), &format!("{field}[{i}].{key}"), || {
                format!("{value:?} is used twice; give each entry its own")
            });
        }
    }
}

pub(crate) fn validate(config: &RuntimeConfig) -> Result<(), Problems> {
    // Destructured without `..`: a new field must be given a check or a reason to have none.
    let RuntimeConfig {
        agent_name,
        revision,
        engine,
        system_prompt: _, // any text is a system prompt
        prompt_template,
        chat_template,
        sampling,
        tools,
        mcp_servers,
        max_steps,
        max_tokens_per_step,
        run_timeout_milliseconds,
        max_in_flight,
        drain_grace_milliseconds,
        warm_up,
        objectives,
        rehearsal: _, // replaces texts, whatever the rest is
        authentication,
        tracing,
        gpus_endpoint,
        recording: _, // every level is one
    } = config;
    let mut check = Check { problems: Vec::new() };
    kubernetes_name(&mut check, "agentName", agent_name);
    kubernetes_name(&mut check, "revision", revision);
    upstream::validate(&mut check, config);
    if let Some(gpus) = gpus_endpoint {
        let remedy = "an HTTP port; write it as http://127.0.0.1:9465";
        upstream::validate_port(&mut check, "gpusEndpoint", gpus, remedy);
    }
    check.that(!engine.model_name.is_empty(), "triton.modelName", || "is empty; name the model's folder".into());
    if let Some(folder) = &engine.tokenizer {
        check.that(folder.starts_with('/'), "triton.tokenizer", || {
            format!("{folder:?} is not an absolute path; name the directory that holds tokenizer.json")
        });
        check.that(engine.dialect == TextDialect::Text, "triton.dialect", || {
            "takes text, but triton.tokenizer is for an entry that takes tokens; remove one of them".into()
        });
    }
    if let Err(error) = PromptTemplate::parse(prompt_template) {
        check.fail("promptTemplate", error.to_string());
    }
    if let Some(ChatTemplate { folder, dialect }) = chat_template {
        check.that(folder.starts_with('/'), "chatTemplate.folder", || {
            format!("{folder:?} is not an absolute path; name the directory that holds tokenizer_config.json")
        });
        check.that(*dialect != Some(ToolCallDialect::ReAct), "chatTemplate.dialect", || {
            "is ReAct, which has no chat template; leave chatTemplate out".into()
        });
    }
    validate_sampling(&mut check, *sampling);
    validate_tools(&mut check, tools);
    mcp::validate(&mut check, mcp_servers);
    check.range("maxSteps", (*max_steps).into(), 1..=64);
    check.range("maxTokensPerStep", (*max_tokens_per_step).into(), 1..=32_768);
    check.range("runTimeoutMilliseconds", *run_timeout_milliseconds, 1..=MAX_TIMEOUT_MILLISECONDS);
    check.range("maxInFlight", (*max_in_flight).into(), 1..=4_096);
    check.range("drainGraceMilliseconds", *drain_grace_milliseconds, 0..=MAX_TIMEOUT_MILLISECONDS);
    check.range("warmUp.longestPromptCharacters", warm_up.longest_prompt_characters.into(), 1..=1_000_000);
    validate_objectives(&mut check, objectives);
    if let Some(authentication) = authentication {
        authentication::validate(&mut check, authentication);
    }
    tracing.iter().for_each(|tracing| traces::validate(&mut check, tracing));
    if check.problems.is_empty() { Ok(()) } else { Err(Problems(check.problems)) }
}

fn kubernetes_name(check: &mut Check, field: &str, value: &str) {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = value.len() <= MAX_NAME_LENGTH
        && value.starts_with(plain)
        && value.ends_with(plain)
        && value.chars().all(|c| plain(c) || matches!(c, '-' | '.'));
    check.that(good, field, || {
        format!("{value:?} is not a name; use 1 to {MAX_NAME_LENGTH} of a-z, 0-9, '-' and '.', letters or digits at both ends")
    });
}

fn validate_tools(check: &mut Check, tools: &[Tool]) {
    check.that(tools.len() <= MAX_TOOLS, "tools", || format!("has {} entries; at most {MAX_TOOLS}", tools.len()));
    check.distinct("tools", "name", tools.iter().map(|tool| tool.name.as_str()));
    for (i, Tool { name, description, input_schema, kind }) in tools.iter().enumerate() {
        check.that(is_identifier(name), &format!("tools[{i}].name"), || not_an_identifier(name));
        check.that(!description.contains('\n'), &format!("tools[{i}].description"), || {
            "has a line break; the prompt lists one tool a line".into()
        });
        if let Some(schema) = input_schema {
            validate_schema(check, &format!("tools[{i}].inputSchema"), schema, kind);
        }
        match kind {
            ToolKind::Calculator => {}
            ToolKind::Http(http) => validate_http(check, &format!("tools[{i}].kind.http"), http),
        }
    }
}

/// What a schema names must be what a call sends.
fn validate_schema(check: &mut Check, field: &str, schema: &serde_json::Value, kind: &ToolKind) {
    let schema = match Schema::of_tool(schema) {
        Ok(schema) => schema,
        Err(error) => return check.fail(field, error.to_string()),
    };
    match kind {
        ToolKind::Calculator => {
            check.fail(field, "the calculator takes one expression; leave inputSchema out".to_owned())
        }
        ToolKind::Http(http) => {
            let known: BTreeSet<_> = http.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            for name in schema.properties().filter(|name| !known.contains(name)) {
                check.fail(field, format!("the property {name:?} is not an argument; add it to arguments"));
            }
            let described: BTreeSet<_> = schema.properties().collect();
            let in_url = UrlTemplate::parse(&http.url).ok();
            let in_url: BTreeSet<_> = in_url.iter().flat_map(UrlTemplate::placeholders).collect();
            for name in in_url.into_iter().filter(|name| described.contains(name) && !schema.requires(name)) {
                check.fail(field, format!("the property {name:?} has its place in url; add it to required"));
            }
            for name in known.iter().filter(|name| !described.contains(**name)) {
                check.fail(field, format!("the argument {name:?} has no property; describe it in properties"));
            }
        }
    }
}

fn validate_sampling(check: &mut Check, sampling: Sampling) {
    let Sampling {
        temperature_thousandths,
        top_p_thousandths,
        top_k,
        presence_penalty_thousandths,
        frequency_penalty_thousandths,
        seed: _, // any number is a seed
    } = sampling;
    let mut range = |name: &str, value: Option<i64>, allowed: RangeInclusive<i64>| {
        check.that(value.is_none_or(|value| allowed.contains(&value)), &format!("sampling.{name}"), || {
            format!("is {}; must be between {} and {}", value.unwrap_or_default(), allowed.start(), allowed.end())
        });
    };
    range("temperatureThousandths", temperature_thousandths.map(i64::from), 0..=2_000);
    range("topPThousandths", top_p_thousandths.map(i64::from), 1..=1_000);
    range("topK", top_k.map(i64::from), 1..=1_000_000);
    range("presencePenaltyThousandths", presence_penalty_thousandths.map(i64::from), -2_000..=2_000);
    range("frequencyPenaltyThousandths", frequency_penalty_thousandths.map(i64::from), -2_000..=2_000);
}

fn validate_http(check: &mut Check, field: &str, tool: &HttpTool) {
    let HttpTool {
        url,
        method,
        parameters,
        argument_separator,
        headers_from,
        authorities_from,
        allowed_networks,
        max_in_flight,
        circuit_breaker,
        timeout_milliseconds,
        retries,
        idempotent,
        max_response_bytes,
        result,
    } = tool;
    check.distinct(&format!("{field}.parameters"), "name", parameters.iter().map(|p| p.name.as_str()));
    for (i, parameter) in parameters.iter().enumerate() {
        let name = &parameter.name;
        check.that(is_identifier(name), &format!("{field}.parameters[{i}].name"), || not_an_identifier(name));
    }
    let names: Vec<_> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    validate_url(check, field, url, &names, *method);
    check.that(names.len() < 2 || !argument_separator.is_empty(), &format!("{field}.argumentSeparator"), || {
        "is empty, so several arguments cannot be told apart; the usual one is \".\"".into()
    });
    validate_mounts(check, field, url, headers_from.as_deref(), authorities_from.as_deref());
    if let Err(error) = AllowedNetworks::parse(allowed_networks) {
        check.fail(format!("{field}.allowedNetworks"), error.to_string());
    }
    validate_limits(check, field, *max_in_flight, *circuit_breaker);
    check.range(&format!("{field}.timeoutMilliseconds"), *timeout_milliseconds, 1..=MAX_TIMEOUT_MILLISECONDS);
    check.range(&format!("{field}.retries"), (*retries).into(), 0..=5);
    check.that(*retries == 0 || *idempotent, &format!("{field}.retries"), || {
        "repeats a call that is not idempotent; set idempotent if that is harmless, or retries to 0".into()
    });
    check.range(&format!("{field}.maxResponseBytes"), *max_response_bytes, 1..=MAX_RESPONSE_BYTES);
    if let ResultPick::JsonPointer(pointer) = result {
        check.that(pointer.is_empty() || pointer.starts_with('/'), &format!("{field}.result.jsonPointer"), || {
            format!("{pointer:?} is not a JSON Pointer; it begins with '/', as in /value")
        });
    }
}

fn validate_mounts(
    check: &mut Check,
    field: &str,
    url: &str,
    headers_from: Option<&str>,
    authorities_from: Option<&str>,
) {
    if let Some(path) = headers_from {
        check.that(path.starts_with('/'), &format!("{field}.headersFrom"), || {
            format!("{path:?} is not an absolute path; name the directory the Secret is mounted at")
        });
    }
    if let Some(path) = authorities_from {
        check.that(path.starts_with('/'), &format!("{field}.authoritiesFrom"), || {
            format!("{path:?} is not an absolute path; name the directory the certificates are mounted at")
        });
        check.that(url.starts_with("https://"), &format!("{field}.authoritiesFrom"), || {
            "has no effect without TLS; begin the URL with https://, or leave it out".into()
        });
    }
}

fn validate_limits(check: &mut Check, field: &str, max_in_flight: Option<u32>, breaker: Option<CircuitBreaker>) {
    if let Some(max_in_flight) = max_in_flight {
        check.range(&format!("{field}.maxInFlight"), max_in_flight.into(), 1..=MAX_CALLS_IN_FLIGHT);
    }
    if let Some(CircuitBreaker { failures, pause_milliseconds }) = breaker {
        check.range(&format!("{field}.circuitBreaker.failures"), failures.into(), 1..=1_000);
        let pause = format!("{field}.circuitBreaker.pauseMilliseconds");
        check.range(&pause, pause_milliseconds, 1..=MAX_TIMEOUT_MILLISECONDS);
    }
}

/// What a person writes is checked further: no service is at the pod itself, or at a cloud's metadata. Files that the
/// operator writes may have such addresses, for stand-ins beside a sidecar.
pub(crate) fn validate_as_written(config: &RuntimeConfig) -> Result<(), Problems> {
    let mut check = Check { problems: validate(config).err().map(|Problems(problems)| problems).unwrap_or_default() };
    for (i, Tool { kind, .. }) in config.tools.iter().enumerate() {
        if let ToolKind::Http(HttpTool { url, allowed_networks, .. }) = kind {
            check_address(&mut check, &format!("tools[{i}].kind.http.url"), url, allowed_networks);
        }
    }
    mcp::validate_as_written(&mut check, (&config.tools, &config.mcp_servers));
    config.authentication.iter().for_each(|clients| authentication::validate_as_written(&mut check, clients));
    config.tracing.iter().for_each(|tracing| traces::validate_as_written(&mut check, tracing));
    if check.problems.is_empty() { Ok(()) } else { Err(Problems(check.problems)) }
}

/// A URL or a list that cannot be read has its own problem already.
fn check_address(check: &mut Check, field: &str, url: &str, allowed_networks: &[String]) {
    let (Ok(url), Ok(allowed)) = (UrlTemplate::parse(url), AllowedNetworks::parse(allowed_networks)) else { return };
    match url.host() {
        // Such names always mean the pod itself (RFC 6761, section 6.3).
        Host::Name(name) if is_localhost(name) => {
            if let Err(error) = allowed.check(Ipv4Addr::LOCALHOST.into()) {
                check.fail(field, format!("{name} is the pod itself: {error}"));
            }
        }
        Host::Name(_) => {}
        Host::Address(address) => {
            if let Err(error) = allowed.check(*address) {
                check.fail(field, error.to_string());
            }
        }
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn validate_url(check: &mut Check, field: &str, url: &str, names: &[&str], method: HttpMethod) {
    let template = match UrlTemplate::parse(url) {
        Ok(template) => template,
        Err(error) => return check.fail(format!("{field}.url"), error.to_string()),
    };
    let used: BTreeSet<_> = template.placeholders().collect();
    for placeholder in used.iter().filter(|used| !names.contains(used)) {
        let placeholder = (*placeholder).to_owned();
        check.fail(format!("{field}.url"), Fault::UnknownPlaceholder { placeholder });
    }
    for (i, name) in names.iter().enumerate() {
        check.that(method == HttpMethod::Post || used.contains(name), &format!("{field}.parameters[{i}].name"), || {
            format!(
                "{name:?} has no place in the URL of a GET; add {{{name}}} to url, or use POST to send it in the body"
            )
        });
    }
}

fn validate_objectives(check: &mut Check, objectives: &[LatencyObjective]) {
    check.that(objectives.len() <= MAX_OBJECTIVES, "objectives", || {
        format!("has {} entries; at most {MAX_OBJECTIVES}", objectives.len())
    });
    check.distinct("objectives", "name", objectives.iter().map(|objective| objective.name.as_str()));
    let mut seen = BTreeSet::new();
    for (i, LatencyObjective { name, metric, percentile, max_microseconds }) in objectives.iter().enumerate() {
        kubernetes_name(check, &format!("objectives[{i}].name"), name);
        check.that(seen.insert((metric, percentile)), &format!("objectives[{i}]"), || {
            format!("a second objective for {} {}; keep one", metric.as_str(), percentile.as_str())
        });
        check.range(
            &format!("objectives[{i}].maxMicroseconds"),
            *max_microseconds,
            1..=MAX_TIMEOUT_MILLISECONDS * 1_000,
        );
    }
}

fn is_identifier(name: &str) -> bool {
    name.len() <= MAX_NAME_LENGTH
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn not_an_identifier(name: &str) -> String {
    format!(
        "{name:?} cannot be written by the model; use 1 to {MAX_NAME_LENGTH} letters, digits, '_' and '-', a letter first"
    )
}
