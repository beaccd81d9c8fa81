//! What of a spec no agent runtime could be configured with, in the words of the spec.

use slipway_crds::v1alpha1::agent_deployment::{Agent, Serving, ToolType, Upstream as ApiUpstream};
use slipway_runtime_config::{Authentication, Fault, Problem, Rates, RuntimeConfig, TextDialect};

use crate::config::{TRITON_ENDPOINT, agent_config, http_tool, json_web_tokens, mcp_servers, set_upstream, tracing};

/// What of an upstream, or of an agent that asks it, no sidecar could be configured with. Each is a field of the spec,
/// and what is wrong in it: the agent first.
pub fn problems_of_upstream(
    agent_deployment: &str,
    agent: &Agent,
    upstream: &ApiUpstream,
) -> Vec<(&'static str, String)> {
    let mut config = agent_config(agent_deployment, "revision", agent, http_tool);
    set_upstream(&mut config, upstream);
    let problems = config.validate_as_written().err();
    let problems: Vec<&Problem> = problems.iter().flat_map(|problems| problems.iter()).collect();
    let of_upstream = |Problem { field, .. }: &Problem| field.strip_prefix("triton.").map(str::to_owned);
    let line = |problem: &Problem| match of_upstream(problem) {
        Some(field) => {
            let field = field.strip_prefix("upstream.").unwrap_or(&field).replace("endpoint", "url");
            let fault = problem.fault.to_string().replace("triton.endpoint", "url").replace("triton.dialect", "api");
            format!("{field}: {fault}")
        }
        None => in_words_of_the_spec(problem, agent).replace("triton.dialect", "model.upstream.api"),
    };
    let told = [("spec.agent", false), ("spec.model.upstream", true)].map(|(field, is_of_upstream)| {
        let of_field = problems.iter().filter(|problem| of_upstream(problem).is_some() == is_of_upstream);
        let malformed = malformed_url(&upstream.url).filter(|_| is_of_upstream);
        let lines = of_field.map(|problem| line(problem)).chain(malformed.map(|problem| format!("url: {problem}")));
        (field, lines.collect::<Vec<_>>().join("; "))
    });
    told.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
}

/// Paths of requests, which the agent runtime adds to an upstream's URL. The API server refuses `/v1` alone.
const ADDED_PATHS: [&str; 5] =
    ["/v1/chat/completions", "/chat/completions", "/v1/completions", "/v1/responses", "/v1/models"];

/// What of an upstream's URL no request could be made with.
fn malformed_url(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // Colons within brackets are of an IPv6 address.
    let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    if let Some(port) = port.filter(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Some(format!("port {port:?} is not one: write a number from 1 to 65535"));
    }
    let path = format!("/{}", path.trim_end_matches('/'));
    let added = ADDED_PATHS.iter().find(|added| path.ends_with(*added))?;
    Some(format!("leave out {added}: the agent runtime adds the paths that it asks"))
}

/// What of an agent no sidecar could be configured with, in the words of its spec; absent if nothing is.
pub fn problem(agent_deployment: &str, agent: &Agent) -> Option<String> {
    let mut config = agent_config(agent_deployment, "revision", agent, http_tool);
    config.mcp_servers = mcp_servers(agent);
    // What the engine takes does not concern the agent: a rule of the API compares the two.
    config.engine.dialect = TextDialect::OpenAi;
    let problems = config.validate_as_written().err()?;
    let lines: Vec<String> = problems.iter().map(|problem| in_words_of_the_spec(problem, agent)).collect();
    Some(lines.join("; "))
}

/// What of the serving no sidecar could be configured with, in the words of its spec; absent if nothing is.
pub fn problem_of_serving(agent_deployment: &str, serving: &Serving) -> Option<String> {
    let mut config = RuntimeConfig::new(agent_deployment, "revision", TRITON_ENDPOINT);
    config.tracing = serving.tracing.as_ref().map(tracing);
    let jwt = serving.authentication.as_ref().and_then(|clients| clients.jwt.as_ref());
    config.authentication =
        jwt.map(|jwt| Authentication { tokens: None, jwt: Some(json_web_tokens(jwt)), rates: Rates::default() });
    let problems = config.validate_as_written().err()?;
    Some(problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))
}

/// A problem of the sidecar's, with fields as the API has them.
fn in_words_of_the_spec(Problem { field, fault }: &Problem, agent: &Agent) -> String {
    let fault = match fault {
        Fault::UnknownPlaceholder { placeholder } => {
            format!("placeholder {{{placeholder}}} is not an argument; add it to arguments")
        }
        Fault::Other(words) => words.clone(),
    };
    format!("{}: {fault}", field_of_the_spec(&at_its_place(field, agent)))
}

/// The API has servers among its tools, and so counts both together.
fn at_its_place(path: &str, agent: &Agent) -> String {
    let place = |list: &str, is_server: bool| {
        let (index, rest) = path.strip_prefix(list)?.strip_prefix('[')?.split_once(']')?;
        let mut places = (0..).zip(&agent.tools).filter(|(_, tool)| (tool.kind == ToolType::MCP) == is_server);
        let (place, _): (usize, _) = places.nth(index.parse().ok()?)?;
        let block = if is_server { ".mcp" } else { "" };
        Some(format!("tools[{place}]{block}{rest}"))
    };
    place("tools", false).or_else(|| place("mcpServers", true)).unwrap_or_else(|| path.to_owned())
}

/// Fields of a tool that the API has one level higher, or in other units.
const FIELDS_OF_TOOLS: [(&str, &str); 7] = [
    (".http.timeoutMilliseconds", ".timeout"),
    (".http.maxInFlight", ".maxInFlight"),
    (".http.circuitBreaker", ".circuitBreaker"),
    (".mcp.timeoutMilliseconds", ".timeout"),
    (".mcp.maxInFlight", ".maxInFlight"),
    (".mcp.circuitBreaker", ".circuitBreaker"),
    (".pauseMilliseconds", ".pause"),
];

/// The path of a field in the API: a tool's kind is not a level of it, and the parameters are called arguments.
fn field_of_the_spec(path: &str) -> String {
    let of_the_spec = |part: &str| {
        part.strip_prefix("parameters").map_or_else(|| part.to_owned(), |index| format!("arguments{index}"))
    };
    let spec_of_sampling = |part: &str| part.strip_suffix("Thousandths").unwrap_or(part).to_owned();
    let parts = path.split('.').filter(|part| *part != "kind");
    let path = parts.map(of_the_spec).map(|part| spec_of_sampling(&part)).collect::<Vec<_>>().join(".");
    FIELDS_OF_TOOLS.iter().fold(path, |path, (ours, theirs)| path.replace(ours, theirs))
}
