//! Runs that are made up, as a campaign makes them.

use std::collections::BTreeMap;

use axum::{Router, extract::Query, http::StatusCode, routing::get as on_get};
use pretty_assertions::assert_eq;
use serde_json::json;
use slipway_agent_runtime::agent::rehearsal::{ARGUMENT, TOOL, question};
use slipway_runtime_config::{HttpTool, Parameter, Tool, ToolKind};

use crate::fixture::{Reply, post, serve, sidecar_with};

/// The tool of made-up runs, which says what it was called with.
async fn tool() -> Tool {
    let answer = async |Query(query): Query<BTreeMap<String, String>>| query[ARGUMENT].clone();
    let origin = serve(Router::new().route("/tools/synthetic", on_get(answer))).await;
    let mut http = HttpTool::new(&format!("{origin}/tools/{TOOL}?{ARGUMENT}={{{ARGUMENT}}}"));
    http.parameters = vec![Parameter { name: ARGUMENT.to_owned() }];
    Tool { name: TOOL.to_owned(), description: String::new(), input_schema: None, kind: ToolKind::Http(http) }
}

#[tokio::test]
async fn a_made_up_run_makes_its_calls_and_answers_whatever_the_engine_writes() {
    let tool = tool().await;
    let replies = [Reply::Says("Nobody can read this."), Reply::Says("\n\nNor"), Reply::Says("this")];
    let sidecar = sidecar_with(replies, |config| {
        config.tools = vec![tool];
        config.rehearsal = true;
        config.max_steps = 3;
    });
    let input = question("time year people", 17, &[30, 20, 10]);
    let answer = post(&sidecar.app.api(), "/v1/runs", json!({ "input": input })).await;
    let run = answer.json();
    assert_eq!((answer.status, &run["status"], &run["answer"]), (StatusCode::OK, &json!("succeeded"), &json!("done")));
    let written = run["steps"].as_array().expect("a run has steps").iter().map(|step| step["outputTokens"].clone());
    assert_eq!(written.collect::<Vec<_>>(), [21, 5, 4].map(|tokens| json!(tokens)), "what the engine wrote is counted");
    assert_eq!(run["usage"]["toolErrors"], json!(0));
    sidecar.engine.look(|engine| {
        let asked = engine.generations.iter().map(|of| (of.max_tokens, of.ignores_end, of.stop_words.len()));
        assert_eq!(asked.collect::<Vec<_>>(), [(30, true, 0), (20, true, 0), (10, true, 0)]);
    });
    let last = sidecar.engine.prompts().remove(2);
    assert!(last.contains("Action: synthetic[17-1]\n\nObservation: 17-1\n"), "{last}");
    assert!(last.ends_with("Action: synthetic[17-2]\n\nObservation: 17-2\n"), "{last}");
}
