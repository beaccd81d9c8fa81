//! The configuration of the agent runtime, when it serves and when it is measured.

use slipway_backends::no_build::OWN_SERVER_PORT;
use slipway_crds::{
    v1alpha1::agent_deployment::{
        Agent, CircuitBreaker as ApiBreaker, HttpMethod as ApiMethod, HttpTool as ApiHttpTool, IssuerKeys,
        JsonWebTokens, McpServer as ApiMcpServer, Sampling as ApiSampling, ServedBy, Tool as ApiTool, ToolType,
        Tracing as ApiTracing, Upstream as ApiUpstream, WrittenObjective,
    },
    values::{Penalty, Temperature, TopP},
};
use slipway_runtime_config::{
    ChatTemplate, CircuitBreaker, HttpMethod, HttpTool, Jwt, JwtKeys, LatencyObjective, McpServer, Parameter,
    ResultPick, RuntimeConfig, Sampling, TextDialect, Tool, ToolCallDialect, ToolKind, Tracing, Upstream,
};
use slipway_vocabulary::serving::{Dialect, Server};

use crate::folders::{checkpoint_folder, tokenizer_folder};

/// Folder in which the header Secrets of tools are mounted, one folder a tool.
pub const HEADERS_FOLDER: &str = "/etc/slipway/headers";
/// Folder in which the ConfigMaps with tools' certificate authorities are mounted, one folder a tool.
pub const AUTHORITIES_FOLDER: &str = "/etc/slipway/authorities";
/// Folder and file of the public keys of the issuer of clients' tokens.
pub const ISSUER_KEYS: (&str, &str) = ("/etc/slipway/issuer-keys", "jwks.json");
/// Folder of the authorities that sign the certificate of the issuer's server.
pub const ISSUER_AUTHORITIES_FOLDER: &str = "/etc/slipway/issuer-authorities";
/// Folder in which the Secret with headers for the receiver of traces is mounted.
pub const TRACING_HEADERS_FOLDER: &str = "/etc/slipway/tracing-headers";
/// Folder in which the ConfigMap with its certificate authorities is mounted.
pub const TRACING_AUTHORITIES_FOLDER: &str = "/etc/slipway/tracing-authorities";
/// Folder in which the Secret with headers for an upstream is mounted.
pub const UPSTREAM_HEADERS_FOLDER: &str = "/etc/slipway/upstream-headers";
/// Folder in which the ConfigMap with its certificate authorities is mounted.
pub const UPSTREAM_AUTHORITIES_FOLDER: &str = "/etc/slipway/upstream-authorities";
/// Where Triton listens for gRPC, as the agent runtime sees it.
pub(crate) const TRITON_ENDPOINT: &str = "http://127.0.0.1:8001";
/// Folder with the sockets of the bridges to servers of the pod's own, one folder a server.
const BRIDGES_FOLDER: &str = "/slipway/mcp";
/// How such a server is asked for at its socket.
const BRIDGE_URL: &str = "http://localhost/mcp";
/// Time that runs in flight have beyond the longest run before they are cut.
const DRAIN_MARGIN_MILLISECONDS: u64 = 5_000;
/// The longest time that a sidecar takes for it.
const LONGEST_DRAIN_MILLISECONDS: u64 = 3_600_000;

/// The part of a revision's plan that configures its sidecar.
#[derive(Debug, Clone, Copy)]
pub struct ServedAgent<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// Whom it asks.
    pub asked: Asked<'a>,
    /// Runs in flight.
    pub max_in_flight: i32,
}

/// Whom a sidecar asks for text.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    /// What serves an engine in the same pod.
    Beside(ServedBy),
    /// A server elsewhere.
    Upstream(&'a ApiUpstream),
}

/// The configuration file's content: what the plan says, and the objectives as they are now.
pub fn runtime_config(
    agent_deployment: &str,
    revision: &str,
    plan: ServedAgent<'_>,
    objectives: &[WrittenObjective],
) -> RuntimeConfig {
    let mut config = agent_config(agent_deployment, revision, plan.agent, http_tool);
    config.mcp_servers = mcp_servers(plan.agent);
    match plan.asked {
        Asked::Beside(served_by) => set_engine(&mut config, served_by),
        Asked::Upstream(upstream) => set_upstream(&mut config, upstream),
    }
    // The longest run that there may be has the longest grace that there is.
    let grace = config.run_timeout_milliseconds.saturating_add(DRAIN_MARGIN_MILLISECONDS);
    config.drain_grace_milliseconds = grace.min(LONGEST_DRAIN_MILLISECONDS);
    config.max_in_flight = unsigned(plan.max_in_flight);
    config.objectives = objectives.iter().map(LatencyObjective::from).collect();
    config
}

/// Sets whom a sidecar asks, and how. It turns prompts into tokens itself where the engine takes nothing else.
pub fn set_engine(config: &mut RuntimeConfig, served_by: ServedBy) {
    let engine = &mut config.engine;
    served_by.model().clone_into(&mut engine.model_name);
    (engine.tokenizer, engine.dialect) = match served_by.dialect() {
        Dialect::Tokens => (Some(tokenizer_folder()), TextDialect::default()),
        Dialect::Text(dialect) => (None, dialect),
    };
    if served_by.server() == Server::Own {
        engine.endpoint = format!("http://127.0.0.1:{OWN_SERVER_PORT}");
    }
}

/// The same of a server elsewhere. Runs are the limit of its requests, so none waits for another.
pub(crate) fn set_upstream(config: &mut RuntimeConfig, api: &ApiUpstream) {
    let ApiUpstream { url, model, api, headers_from, authorities_from, allowed_networks, max_in_flight, retries } = api;
    let engine = &mut config.engine;
    engine.endpoint.clone_from(url);
    engine.model_name.clone_from(model);
    engine.dialect = api.dialect();
    engine.upstream = Some(Upstream {
        headers_from: headers_from.as_ref().map(|_| UPSTREAM_HEADERS_FOLDER.to_owned()),
        authorities_from: authorities_from.as_ref().map(|_| UPSTREAM_AUTHORITIES_FOLDER.to_owned()),
        allowed_networks: allowed_networks.clone(),
        max_in_flight: Some(unsigned(*max_in_flight)),
        retries: unsigned(*retries),
    });
}

/// The sidecar's configuration for the tokens of an issuer.
pub fn json_web_tokens(jwt: &JsonWebTokens) -> Jwt {
    let JsonWebTokens { issuer, audiences, keys, tenant_claim } = jwt;
    let IssuerKeys { url, authorities_from, allowed_networks, secret: _, config_map: _ } = keys;
    let keys = match url {
        Some(url) => JwtKeys::Url {
            url: url.clone(),
            authorities_from: authorities_from.as_ref().map(|_| ISSUER_AUTHORITIES_FOLDER.to_owned()),
            allowed_networks: allowed_networks.clone(),
        },
        None => JwtKeys::File(format!("{}/{}", ISSUER_KEYS.0, ISSUER_KEYS.1)),
    };
    Jwt { issuer: issuer.clone(), audiences: audiences.clone(), keys, tenant_claim: tenant_claim.clone() }
}

/// The sidecar's configuration for a receiver of traces, of agents in any namespace.
pub fn tracing(api: &ApiTracing) -> Tracing {
    let ApiTracing { endpoint, sampled, headers_from, authorities_from, allowed_networks } = api;
    let mut tracing = Tracing::new(endpoint);
    tracing.allowed_networks.clone_from(allowed_networks);
    tracing.sampled_per_million = sampled.parts_per_million();
    tracing.headers_from = headers_from.as_ref().map(|_| TRACING_HEADERS_FOLDER.to_owned());
    tracing.authorities_from = authorities_from.as_ref().map(|_| TRACING_AUTHORITIES_FOLDER.to_owned());
    tracing
}

/// What of the configuration follows from the agent itself, for users as for recorded runs; these have HTTP tools of
/// their own.
pub fn agent_config(
    agent_deployment: &str,
    revision: &str,
    agent: &Agent,
    http_tool: fn(&ApiTool, &ApiHttpTool) -> HttpTool,
) -> RuntimeConfig {
    let mut config = RuntimeConfig::new(agent_deployment, revision, TRITON_ENDPOINT);
    config.system_prompt.clone_from(&agent.system_prompt);
    if let Some(template) = &agent.prompt_template {
        config.prompt_template.clone_from(template);
    }
    config.sampling = agent.sampling.as_ref().map(sampling).unwrap_or_default();
    config.tools = agent.tools.iter().filter_map(|api| tool(api, http_tool)).collect();
    config.max_steps = unsigned(agent.max_steps);
    config.max_tokens_per_step = unsigned(agent.max_output_tokens);
    config.run_timeout_milliseconds = agent.run_timeout.microseconds().div_ceil(1_000);
    config
}

/// The checkpoint whose chat template writes an agent's prompts; nothing where a prompt template or the ReAct
/// transcript does, or no checkpoint comes with the engine. An agent that names neither has what its pods' layout says.
pub fn chat_template(agent: &Agent, served_by: ServedBy, is_default: bool) -> Option<ChatTemplate> {
    let is_asked_for = match (&agent.prompt_template, agent.tool_call_dialect) {
        (Some(_), _) | (None, Some(ToolCallDialect::ReAct)) => false,
        (None, Some(_)) => true,
        (None, None) => is_default,
    };
    let folder = checkpoint_folder(served_by).filter(|_| is_asked_for)?;
    Some(ChatTemplate { folder, dialect: agent.tool_call_dialect })
}

fn sampling(sampling: &ApiSampling) -> Sampling {
    let ApiSampling { temperature, top_p, top_k, presence_penalty, frequency_penalty, seed } = sampling;
    Sampling {
        temperature_thousandths: temperature.as_ref().map(Temperature::thousandths),
        top_p_thousandths: top_p.as_ref().map(TopP::thousandths),
        top_k: top_k.map(unsigned),
        presence_penalty_thousandths: presence_penalty.as_ref().map(Penalty::thousandths),
        frequency_penalty_thousandths: frequency_penalty.as_ref().map(Penalty::thousandths),
        seed: seed.map(unsigned),
    }
}

/// Integers of the API are signed; its bounds keep them above zero.
fn unsigned(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// The tool as the sidecar knows it. An HTTP tool without its block is refused by the API; without one there is nothing
/// to call.
fn tool(tool: &ApiTool, http_tool: fn(&ApiTool, &ApiHttpTool) -> HttpTool) -> Option<Tool> {
    let input_schema = tool.input_schema.clone();
    let kind = match tool.kind {
        ToolType::HTTP => ToolKind::Http(http_tool(tool, tool.http.as_ref()?)),
        ToolType::Calculator => ToolKind::Calculator,
        // It stands for the tools of a server.
        ToolType::MCP => return None,
    };
    Some(Tool { name: tool.name.clone(), description: tool.description.clone(), input_schema, kind })
}

/// The names of a tool's arguments: those of its schema, or in the order in which a model without one writes them.
pub fn parameters(tool: &ApiTool, http: &ApiHttpTool) -> Vec<Parameter> {
    let properties = tool.input_schema.as_ref().and_then(|schema| schema.get("properties")?.as_object());
    let names: Vec<&String> = match properties {
        Some(properties) => properties.keys().collect(),
        None => http.arguments.iter().collect(),
    };
    names.into_iter().map(|name| Parameter { name: name.clone() }).collect()
}

pub(crate) fn http_tool(tool: &ApiTool, http: &ApiHttpTool) -> HttpTool {
    let mut result = HttpTool::new(&http.url);
    result.method = match http.method {
        ApiMethod::GET => HttpMethod::Get,
        ApiMethod::POST => HttpMethod::Post,
    };
    result.parameters = parameters(tool, http);
    result.headers_from = http.headers_from.as_ref().map(|_| format!("{HEADERS_FOLDER}/{}", tool.name));
    result.authorities_from = http.authorities_from.as_ref().map(|_| format!("{AUTHORITIES_FOLDER}/{}", tool.name));
    result.allowed_networks.clone_from(&http.allowed_networks);
    result.max_in_flight = tool.max_in_flight.map(unsigned);
    result.circuit_breaker = tool.circuit_breaker.as_ref().map(circuit_breaker);
    result.timeout_milliseconds = tool.timeout.microseconds().div_ceil(1_000);
    result.retries = unsigned(http.retries);
    result.idempotent = http.idempotent;
    result.result = http.result_pointer.clone().map_or(ResultPick::Text, ResultPick::JsonPointer);
    result
}

fn circuit_breaker(breaker: &ApiBreaker) -> CircuitBreaker {
    let ApiBreaker { failures, pause } = breaker;
    CircuitBreaker { failures: unsigned(*failures), pause_milliseconds: pause.microseconds().div_ceil(1_000) }
}

pub(crate) fn mcp_servers(agent: &Agent) -> Vec<McpServer> {
    let tools = agent.tools.iter().enumerate();
    tools.filter_map(|(place, tool)| Some(mcp_server(place, tool, tool.mcp.as_ref()?))).collect()
}

/// Folder of the bridge to a server of the pod's own, by the place of its entry among the tools.
pub fn bridge_folder(place: usize) -> String {
    format!("{BRIDGES_FOLDER}/{place}")
}

/// The socket that it listens at.
pub fn bridge_socket(place: usize) -> String {
    format!("{}/socket", bridge_folder(place))
}

fn mcp_server(place: usize, tool: &ApiTool, api: &ApiMcpServer) -> McpServer {
    let ApiMcpServer {
        url,
        stdio,
        prefix,
        tools,
        headers_from,
        authorities_from,
        allowed_networks,
        trust_annotations,
        retries,
    } = api;
    let mut server = McpServer::new(&tool.name, url.as_deref().unwrap_or(BRIDGE_URL));
    server.socket = stdio.as_ref().map(|_| bridge_socket(place));
    if let Some(prefix) = prefix {
        server.prefix.clone_from(prefix);
    }
    server.tools.clone_from(tools);
    server.headers_from = headers_from.as_ref().map(|_| format!("{HEADERS_FOLDER}/{}", tool.name));
    server.authorities_from = authorities_from.as_ref().map(|_| format!("{AUTHORITIES_FOLDER}/{}", tool.name));
    server.allowed_networks.clone_from(allowed_networks);
    server.max_in_flight = tool.max_in_flight.map(unsigned);
    server.circuit_breaker = tool.circuit_breaker.as_ref().map(circuit_breaker);
    server.timeout_milliseconds = tool.timeout.microseconds().div_ceil(1_000);
    server.trust_annotations = *trust_annotations;
    server.retries = unsigned(*retries);
    server
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// The API refuses such a tool. One that is older than the rule is not taken for a Calculator.
    #[test]
    fn a_tool_without_the_block_of_its_type_is_no_other_tool() {
        let kinds = ["HTTP", "MCP", "Calculator"].map(|kind| {
            let api = serde_json::from_value(json!({"name": "orders", "type": kind})).expect("a tool of the API");
            tool(&api, http_tool).map(|tool| tool.kind)
        });
        assert_eq!(kinds, [None, None, Some(ToolKind::Calculator)]);
    }

    #[test]
    fn the_longest_run_is_served() {
        let agent: Agent = serde_json::from_value(json!({"runTimeout": "1h"})).expect("an agent of the API");
        let upstream = serde_json::from_value(json!({"url": "https://llm.example", "model": "a"}));
        let upstream: ApiUpstream = upstream.expect("an upstream of the API");
        let plan = ServedAgent { agent: &agent, asked: Asked::Upstream(&upstream), max_in_flight: 8 };
        assert_eq!(runtime_config("support", "support-1", plan, &[]).validate(), Ok(()));
    }

    #[test]
    fn every_way_to_choose_tokens_reaches_the_sidecar() {
        let of_the_spec = serde_json::from_value(json!({
            "temperature": "0.6", "topP": "0.95", "topK": 20, "presencePenalty": "0.5", "frequencyPenalty": "-0.25",
            "seed": 7,
        }));
        let expected = Sampling {
            temperature_thousandths: Some(600),
            top_p_thousandths: Some(950),
            top_k: Some(20),
            presence_penalty_thousandths: Some(500),
            frequency_penalty_thousandths: Some(-250),
            seed: Some(7),
        };
        assert_eq!(sampling(&of_the_spec.expect("a sampling of the API")), expected);
    }
}
