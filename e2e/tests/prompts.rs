//! What Triton is sent: an engine that answers with the first line of its prompt.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_e2e::agents::{READY_LIMIT, fresh_seed, namespace_with_servers, path};

#[tokio::test]
async fn what_the_agent_is_told_reaches_triton() {
    let namespace = namespace_with_servers("prompts").await.unwrap();
    let text = std::fs::read_to_string(path("manifests/rollout/agent.yaml")).unwrap();
    let mut agent: Value = serde_norway::from_str(&text).unwrap();
    // A word that no run before has had.
    let word = format!("w{}", fresh_seed());
    agent["spec"]["engine"]["custom"]["options"] = json!({"medianMilliseconds": "1", "echo": "1"});
    agent["spec"]["agent"] = json!({
        "systemPrompt": format!("The word is {word}."),
        "promptTemplate": "{systemPrompt} | {tools} | {question}\n",
        "tools": [{"name": "calc", "type": "Calculator", "description": "exact arithmetic"}],
    });
    agent["spec"].as_object_mut().unwrap().remove("rollout");
    let applied = namespace.apply(&agent).await.unwrap();
    namespace.wait_until_served(&applied, READY_LIMIT).await.unwrap();

    let run = namespace.ask("waiter", "Why?").await.unwrap();
    println!("{run}");
    let expected = format!("The word is {word}. | calc: exact arithmetic | Why?");
    assert_eq!((run["status"].as_str(), run["answer"].as_str()), (Some("succeeded"), Some(expected.as_str())));
    namespace.delete().await.unwrap();
}
