//! The agent whose runs are replayed: the served one, its tools answered by the worker. Pure.

use k8s_openapi::api::core::v1::Container;
use slipway_agent_config::{agent_config, parameters, set_engine};
use slipway_crds::v1alpha1::{
    agent_deployment::{HttpTool as ApiHttpTool, Tool as ApiTool},
    profile::ProfileInputs,
};
use slipway_runtime_config::{
    ChatTemplate, HttpMethod, HttpTool, Parameter, REHEARSED_ARGUMENT, REHEARSED_TOOL, RuntimeConfig, Tool, ToolKind,
};
use slipway_worker_contract::paths;

use super::layout::AGENT_API_ADDRESS;
use crate::{
    jobs::{
        resources::bounded_sidecar,
        template::{mount, read_only},
        triton::ENGINE_VOLUME,
    },
    profile::{rows::unsigned, scope::JobScope, world::ProfileWorld},
};

/// Port 9464 is the worker's in this pod, and 9465 the replayed tools'.
const ADMIN_ADDRESS: &str = "127.0.0.1:9466";
/// What a sidecar takes at most of a tool's result, and of a run's requests: made-up runs have what they say.
const MOST_RESULT_BYTES: u64 = 1024 * 1024;
const MOST_STEPS: u32 = 64;
/// The volume with the configuration.
pub(super) const VOLUME: &str = "agent";

/// The configuration of the agent runtime beside the engine under test.
pub fn config(agent_deployment: &str, profile: &str, inputs: &ProfileInputs, scope: &JobScope<'_>) -> RuntimeConfig {
    let mut config = agent_config(agent_deployment, profile, &inputs.agent, replayed);
    set_engine(&mut config, scope.engine().served_by());
    config.chat_template = chat_template(inputs, scope);
    if inputs.is_made_up() {
        rehearse(&mut config);
    }
    config.max_in_flight = unsigned(match scope {
        JobScope::Explore { .. } | JobScope::Repeat { .. } => inputs.levels.iter().copied().max().unwrap_or(1),
        JobScope::Confirm { level, .. } => *level,
    });
    config
}

/// The checkpoint whose chat template writes the prompts. Inputs of campaigns say nothing of layouts, so here only an
/// agent has one that names its dialect.
pub(super) fn chat_template(inputs: &ProfileInputs, scope: &JobScope<'_>) -> Option<ChatTemplate> {
    let template = slipway_agent_config::chat_template(&inputs.agent, scope.engine().served_by(), false);
    template.filter(|_| !inputs.is_made_up())
}

/// Runs that are made up are written as transcripts. They call a tool of their own in place of the agent's, as often
/// and as long as they are to.
fn rehearse(config: &mut RuntimeConfig) {
    let [tool, argument] = [REHEARSED_TOOL, REHEARSED_ARGUMENT];
    let path = format!("{}/{tool}?{argument}={{{argument}}}", paths::REPLAY_PATH);
    let mut http = HttpTool::new(&format!("http://127.0.0.1:{}{path}", paths::REPLAY_PORT));
    http.parameters = vec![Parameter { name: argument.to_owned() }];
    http.timeout_milliseconds = config.run_timeout_milliseconds;
    http.max_response_bytes = MOST_RESULT_BYTES;
    let (name, description) = (tool.to_owned(), "Looks something up.".to_owned());
    config.rehearsal = true;
    config.tools = vec![Tool { name, description, input_schema: None, kind: ToolKind::Http(http) }];
    config.max_steps = MOST_STEPS;
}

/// No probe: it is ready only once the worker has loaded a model.
pub(super) fn runtime(world: &ProfileWorld, scope: &JobScope<'_>) -> Container {
    let config = read_only(mount(VOLUME, "/etc/slipway/agent"));
    let takes_tokens = scope.engine().served_by().takes_tokens();
    let reads_checkpoint = takes_tokens || chat_template(&world.spec.inputs, scope).is_some();
    let tokenizer = reads_checkpoint.then(|| read_only(mount(ENGINE_VOLUME, paths::ENGINE_DIR)));
    let arguments = ["--api-address", AGENT_API_ADDRESS, "--admin-address", ADMIN_ADDRESS];
    Container {
        name: "agent-runtime".to_owned(),
        image: Some(world.settings.images.agent_runtime.clone()),
        args: Some(arguments.map(str::to_owned).to_vec()),
        restart_policy: Some("Always".to_owned()),
        resources: Some(bounded_sidecar(&world.spec.inputs.placement.agent_resources)),
        volume_mounts: Some(std::iter::once(config).chain(tokenizer).collect()),
        ..Default::default()
    }
}

/// The worker answers with the text that the model saw, so nothing is picked out of it; no secret is sent.
fn replayed(tool: &ApiTool, http: &ApiHttpTool) -> HttpTool {
    // Only texts fit into an address; what a schema describes is sent as JSON.
    let in_url = if tool.input_schema.is_some() { &[][..] } else { &http.arguments };
    let query: Vec<String> = in_url.iter().map(|name| format!("{name}={{{name}}}")).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let url = format!("http://127.0.0.1:{}{}/{}{query}", paths::REPLAY_PORT, paths::REPLAY_PATH, tool.name);
    let mut result = HttpTool::new(&url);
    result.parameters = parameters(tool, http);
    result.method = if tool.input_schema.is_some() { HttpMethod::Post } else { HttpMethod::Get };
    result.timeout_milliseconds = tool.timeout.microseconds().div_ceil(1_000);
    result
}
