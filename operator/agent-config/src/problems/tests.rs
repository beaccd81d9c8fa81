use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;

fn spec(parts: Value) -> AgentDeploymentSpec {
    let mut spec = json!({"model": {"uri": "hf://a/b"}, "agent": {"systemPrompt": "Answer."}});
    for (name, part) in parts.as_object().cloned().unwrap_or_default() {
        spec[name] = part;
    }
    serde_json::from_value(spec).expect("a spec of the API")
}

fn told(parts: Value) -> Vec<(String, String)> {
    let problems = problems("support", &spec(parts));
    problems.iter().map(|problem| (problem.field(), problem.fault().to_owned())).collect()
}

fn expected(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(field, fault)| ((*field).to_owned(), (*fault).to_owned())).collect()
}

#[test]
fn a_placeholder_is_missing_where_the_spec_names_arguments() {
    let by_names = json!({"name": "a", "type": "HTTP", "http": {"url": "http://shop/{idd}", "arguments": ["id"]}});
    let schema = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    let by_schema = json!({"name": "b", "type": "HTTP", "inputSchema": schema, "http": {"url": "http://shop/{idd}"}});
    let calculator = json!({"name": "c", "type": "Calculator"});
    let no_place = "\"id\" has no place in the URL of a GET; add {id} to url, or use POST to send it in the body";
    assert_eq!(
        told(json!({"agent": {"tools": [calculator, by_names, by_schema]}})),
        expected(&[
            ("spec.agent.tools[1].http.url", "placeholder {idd} is not an argument; add it to arguments"),
            ("spec.agent.tools[1].http.arguments[0]", no_place),
            (
                "spec.agent.tools[2].http.url",
                "placeholder {idd} is not a property; add it to inputSchema.properties and .required"
            ),
            ("spec.agent.tools[2].inputSchema.properties", no_place),
        ])
    );
}

#[test]
fn times_are_told_in_the_words_of_the_spec() {
    let tool = |timeout: &str, breaker: Value| json!({"name": "a", "type": "HTTP", "http": {"url": "http://shop/"}, "timeout": timeout, "circuitBreaker": breaker});
    let agent = json!({"runTimeout": "100d", "tools": [tool("0s", json!({"pause": "90m"}))]});
    let objective = json!({"name": "run", "metric": "AgentRunLatency", "percentile": "p95", "max": "0s"});
    let slo = json!({"objectives": [objective]});
    assert_eq!(
        told(json!({"agent": agent, "slo": slo})),
        expected(&[
            ("spec.agent.tools[0].circuitBreaker.pause", "is 90m; must be between 1ms and 1h"),
            ("spec.agent.tools[0].timeout", "is 0s; must be between 1ms and 1h"),
            ("spec.agent.runTimeout", "is 100d; must be between 1ms and 1h"),
            ("spec.slo.objectives[0].max", "is 0s; must be between 1us and 1h"),
        ])
    );
}

#[test]
fn tools_that_models_could_not_tell_apart_are_refused() {
    let server = |name: &str, prefix: &str| json!({"name": name, "type": "MCP", "mcp": {"url": "http://shop/mcp", "prefix": prefix, "tools": ["find"]}});
    let tool = json!({"name": "shop_find", "type": "Calculator"});
    assert_eq!(
        told(json!({"agent": {"tools": [server("a", "shop_"), tool, server("b", "b_")]}})),
        expected(&[(
            "spec.agent.tools[0].mcp.tools",
            "the tool \"find\" would be called \"shop_find\", as another tool is; change the prefix"
        )])
    );
}

#[test]
fn the_pod_itself_and_ports_that_are_none_are_refused_wherever_a_url_stands() {
    let pod = "localhost is the pod itself: 127.0.0.1 is a loopback address; name another host, or add its network to \
               allowedNetworks";
    let port = "the port \"70000\" is not one; write a number from 1 to 65535";
    let tool = json!({"name": "a", "type": "HTTP", "http": {"url": "http://localhost:9/"}});
    let server = json!({"name": "b", "type": "MCP", "mcp": {"url": "http://shop:70000/mcp"}});
    let stdio = json!({"name": "c", "type": "MCP", "mcp": {"stdio": {"image": "a:1", "command": ["a"]}}});
    let upstream = json!({"upstream": {"url": "http://llm.example:70000/v1/chat/completions", "model": "a"}});
    let tracing = json!({"tracing": {"endpoint": "http://localhost:4318"}});
    let parts = json!({"agent": {"tools": [tool, server, stdio]}, "serving": tracing, "model": upstream});
    assert_eq!(
        told(parts.clone()),
        expected(&[
            ("spec.agent.tools[1].mcp.url", port),
            ("spec.agent.tools[0].http.url", pod),
            ("spec.serving.tracing.endpoint", pod),
            ("spec.model.upstream.url", port),
            (
                "spec.model.upstream.url",
                "leave out /v1/chat/completions: the agent runtime adds the paths that it asks"
            ),
        ])
    );
    let first = refusal("support", &spec(parts));
    assert_eq!(first, Some(("spec.agent", format!("tools[1].mcp.url: {port}; tools[0].http.url: {pod}"))));
}

#[test]
fn a_usual_spec_has_no_problem() {
    assert_eq!((told(json!({})), refusal("support", &spec(json!({})))), (Vec::new(), None));
}
