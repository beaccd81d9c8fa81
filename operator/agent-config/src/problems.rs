//! What of a spec no agent runtime could be configured with, in the words of the spec.

use slipway_crds::v1alpha1::{
    AgentDeploymentSpec,
    agent_deployment::{Agent, Tool, ToolType},
};
use slipway_runtime_config::{
    Authentication, Fault, LatencyObjective, Problem as RuntimeProblem, Rates, RuntimeConfig, TextDialect,
};

use crate::config::{agent_config, http_tool, json_web_tokens, mcp_servers, set_upstream, tracing};

/// A part of the spec that the configuration of a sidecar comes from, in the order in which they are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Agent,
    Serving,
    Objectives,
    Upstream,
}

impl Part {
    const ALL: [Self; 4] = [Self::Agent, Self::Serving, Self::Objectives, Self::Upstream];

    const fn field(self) -> &'static str {
        match self {
            Self::Agent => "spec.agent",
            Self::Serving => "spec.serving",
            Self::Objectives => "spec.slo",
            Self::Upstream => "spec.model.upstream",
        }
    }

    /// The part that a path of the sidecar's configuration belongs to.
    fn of(path: &str) -> Self {
        match path.split(['.', '[']).next().unwrap_or_default() {
            "tracing" | "authentication" => Self::Serving,
            "objectives" => Self::Objectives,
            "triton" => Self::Upstream,
            _ => Self::Agent,
        }
    }
}

/// A value of the spec that no sidecar can work with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    part: Part,
    path: String,
    fault: String,
}

impl Problem {
    /// Path of the field, such as `spec.agent.tools[1].http.url`.
    #[must_use]
    pub fn field(&self) -> String {
        format!("{}.{}", self.part.field(), self.path)
    }

    /// What is wrong, and what to write instead.
    #[must_use]
    pub fn fault(&self) -> &str {
        &self.fault
    }
}

/// What of a spec no sidecar could be configured with: its agent, its serving, its objectives and its upstream.
#[must_use]
pub fn problems(agent_deployment: &str, spec: &AgentDeploymentSpec) -> Vec<Problem> {
    let config = configuration(agent_deployment, spec);
    let found = config.validate_as_written().err();
    let problems = found.iter().flat_map(|problems| problems.iter()).map(|problem| in_words_of_the_spec(problem, spec));
    let upstream = spec.upstream().and_then(|upstream| with_added_path(&upstream.url));
    let mut all: Vec<Problem> = problems.chain(upstream).collect();
    all.sort_by_key(|problem| problem.part);
    all
}

/// The same as one line for the first part of the spec that has any: a field, and what is wrong in it.
#[must_use]
pub fn refusal(agent_deployment: &str, spec: &AgentDeploymentSpec) -> Option<(&'static str, String)> {
    let problems = problems(agent_deployment, spec);
    let of_part = |part: Part| {
        let lines = problems.iter().filter(|problem| problem.part == part);
        let lines: Vec<String> = lines.map(|Problem { path, fault, .. }| format!("{path}: {fault}")).collect();
        (!lines.is_empty()).then(|| (part.field(), lines.join("; ")))
    };
    Part::ALL.into_iter().find_map(of_part)
}

/// All of a spec that a person writes for the sidecar.
fn configuration(agent_deployment: &str, spec: &AgentDeploymentSpec) -> RuntimeConfig {
    let mut config = agent_config(agent_deployment, "revision", &spec.agent, http_tool);
    config.mcp_servers = mcp_servers(&spec.agent);
    match spec.upstream() {
        Some(upstream) => set_upstream(&mut config, upstream),
        // What the engine takes does not concern the agent: a rule of the API compares the two.
        None => config.engine.dialect = TextDialect::OpenAi,
    }
    config.tracing = spec.serving.tracing.as_ref().map(tracing);
    let jwt = spec.serving.authentication.as_ref().and_then(|clients| clients.jwt.as_ref());
    config.authentication =
        jwt.map(|jwt| Authentication { tokens: None, jwt: Some(json_web_tokens(jwt)), rates: Rates::default() });
    config.objectives = spec.slo.objectives.iter().map(LatencyObjective::from).collect();
    config
}

/// Paths of requests, which the agent runtime adds to an upstream's URL. The API server refuses `/v1` alone.
const ADDED_PATHS: [&str; 5] =
    ["/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/responses", "/v1/models"];

/// An upstream's URL that ends with what is added to it.
fn with_added_path(url: &str) -> Option<Problem> {
    let (_, rest) = url.split_once("://")?;
    let path = rest.find('/').map_or("", |begin| &rest[begin..]).trim_end_matches('/');
    let added = ADDED_PATHS.iter().find(|added| path.ends_with(*added))?;
    let fault = format!("leave out {added}: the agent runtime adds the paths that it asks");
    Some(Problem { part: Part::Upstream, path: "url".to_owned(), fault })
}

/// A problem of the sidecar's, with fields and units as the API has them.
fn in_words_of_the_spec(problem: &RuntimeProblem, spec: &AgentDeploymentSpec) -> Problem {
    let part = Part::of(&problem.field);
    let Placed { path, tool } = match part {
        Part::Agent => placed(&problem.field, &spec.agent),
        Part::Serving | Part::Objectives | Part::Upstream => Placed { path: problem.field.clone(), tool: None },
    };
    let has_schema = tool.is_some_and(|tool| tool.input_schema.is_some());
    let fault = match &problem.fault {
        Fault::UnknownPlaceholder { placeholder } if has_schema => {
            format!("placeholder {{{placeholder}}} is not a property; add it to inputSchema.properties and .required")
        }
        Fault::UnknownPlaceholder { placeholder } => {
            format!("placeholder {{{placeholder}}} is not an argument; add it to arguments")
        }
        Fault::Range { value, allowed } => {
            let unit = unit(&problem.field);
            let [value, least, most] = [*value, *allowed.start(), *allowed.end()].map(|value| in_unit(value, unit));
            format!("is {value}; must be between {least} and {most}")
        }
        Fault::Other(words) => words.clone(),
    };
    let (path, fault) = match part {
        Part::Upstream => {
            (of_upstream(&path), fault.replace("triton.endpoint", "url").replace("triton.dialect", "api"))
        }
        Part::Agent => (field_of_the_spec(&path, has_schema), fault.replace("triton.dialect", "model.upstream.api")),
        Part::Serving | Part::Objectives => (field_of_the_spec(&path, false), fault),
    };
    Problem { part, path, fault }
}

fn of_upstream(path: &str) -> String {
    let path = path.strip_prefix("triton.").unwrap_or(path);
    path.strip_prefix("upstream.").unwrap_or(path).replace("endpoint", "url")
}

/// A path whose list is the spec's, and the tool that it is about.
struct Placed<'a> {
    path: String,
    tool: Option<&'a Tool>,
}

/// The API has servers among its tools, and so counts both together.
fn placed<'a>(path: &str, agent: &'a Agent) -> Placed<'a> {
    let place = |list: &str, is_server: bool| {
        let (index, rest) = path.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
        let mut places = (0..).zip(&agent.tools).filter(|(_, tool)| (tool.kind == ToolType::MCP) == is_server);
        let (place, tool): (usize, _) = places.nth(index.parse().ok()?)?;
        let block = if is_server { ".mcp" } else { "" };
        Some(Placed { path: format!("tools[{place}]{block}{rest}"), tool: Some(tool) })
    };
    let elsewhere = || Placed { path: path.to_owned(), tool: None };
    place("tools", false).or_else(|| place("mcpServers", true)).unwrap_or_else(elsewhere)
}

/// Fields that the API has one level higher, in other units or by other names.
const FIELDS_OF_THE_SPEC: [(&str, &str); 10] = [
    (".http.timeoutMilliseconds", ".timeout"),
    (".http.maxInFlight", ".maxInFlight"),
    (".http.circuitBreaker", ".circuitBreaker"),
    (".mcp.timeoutMilliseconds", ".timeout"),
    (".mcp.maxInFlight", ".maxInFlight"),
    (".mcp.circuitBreaker", ".circuitBreaker"),
    (".pauseMilliseconds", ".pause"),
    ("runTimeoutMilliseconds", "runTimeout"),
    ("maxTokensPerStep", "maxOutputTokens"),
    (".maxMicroseconds", ".max"),
];

/// The path of a field in the API: a tool's kind is not a level of it, and the parameters are called arguments. Where a
/// schema names them, they are its properties.
fn field_of_the_spec(path: &str, has_schema: bool) -> String {
    if let Some((tool, _)) = path.split_once(".kind.http.parameters").filter(|_| has_schema) {
        return format!("{tool}.inputSchema.properties");
    }
    let path = path.strip_suffix(".name").filter(|path| path.contains(".parameters[")).unwrap_or(path);
    let of_the_spec = |part: &str| {
        part.strip_prefix("parameters").map_or_else(|| part.to_owned(), |index| format!("arguments{index}"))
    };
    let spec_of_sampling = |part: &str| part.strip_suffix("Thousandths").unwrap_or(part).to_owned();
    let parts = path.split('.').filter(|part| *part != "kind");
    let path = parts.map(of_the_spec).map(|part| spec_of_sampling(&part)).collect::<Vec<_>>().join(".");
    FIELDS_OF_THE_SPEC.iter().fold(path, |path, (ours, theirs)| path.replace(ours, theirs))
}

/// Microseconds of a field's unit; none of a field that is not a time.
fn unit(path: &str) -> Option<u64> {
    let units = [("Milliseconds", 1_000), ("Microseconds", 1)];
    units.into_iter().find_map(|(suffix, microseconds)| path.ends_with(suffix).then_some(microseconds))
}

/// Units of time, as the API writes them, in microseconds.
const UNITS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// A number as the spec has it: a time in the longest unit that divides it.
fn in_unit(value: u64, unit: Option<u64>) -> String {
    let Some(unit) = unit else { return value.to_string() };
    let microseconds = value.saturating_mul(unit);
    let divides = |(_, length): &&(&str, u64)| microseconds.is_multiple_of(*length);
    match UNITS.iter().find(divides).filter(|_| microseconds > 0) {
        Some((name, length)) => format!("{}{name}", microseconds / length),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests;
