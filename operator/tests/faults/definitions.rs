//! An operator that was upgraded before the definitions of its kinds: it goes on, and the object says what they lack.

use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::{
    api::{kinds::AGENT_DEPLOYMENTS, schema::Schema, store::Key},
    stories::prompt,
    story::{AGENT, Act, NAMESPACE, Played, Scene, stages},
};

/// What is seen of the agent.
#[derive(Debug, PartialEq)]
struct Seen {
    stages: Vec<String>,
    /// Whether a field of the status is there.
    has_field: bool,
    /// What it says of its definition: status, reason and message.
    says: Option<[String; 3]>,
}

/// A field of the status that an agent with pods always has.
const FIELD: &str = "wantedPods";

fn seen(played: &Played) -> Seen {
    let status = &played.end.objects[&Key::new(AGENT_DEPLOYMENTS, NAMESPACE, AGENT)]["status"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let outdated = conditions.find(|condition| condition["type"] == "DefinitionOutdated");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let says = outdated.map(|of| ["status", "reason", "message"].map(|member| text(&of[member])));
    Seen { stages: stages(&played.end), has_field: !status[FIELD].is_null(), says }
}

#[tokio::test]
async fn an_agent_says_what_its_definition_lacks_and_how_to_get_it_until_it_is_there() {
    let serving = || vec!["Serving".to_owned()];
    let message = "the CRD of AgentDeployment lacks status.wantedPods, so the API server drops it: upgrade the chart \
                   slipway-crds to the operator's release";
    let says = || Some(["True", "FieldNotKept", message].map(str::to_owned));
    Schema::lacks("AgentDeployment", Some(FIELD));
    let first = Scene::first(None).play(&Act::Create).await;
    assert_eq!(seen(&first), Seen { stages: serving(), has_field: false, says: says() });
    let edited = first.after.play(&prompt("Think.")).await;
    assert_eq!(seen(&edited), Seen { stages: serving(), has_field: false, says: says() });
    // Decisions follow from the status: what it lacks is written again at each look. Nothing worse happens.
    let worse =
        first.violations.iter().chain(&edited.violations).filter(|line| *line != "writes what is there already");
    assert_eq!(worse.collect::<Vec<_>>(), Vec::<&String>::new());
    Schema::lacks("AgentDeployment", None);
    let upgraded = edited.after.play(&Act::Wait(60)).await;
    assert_eq!(seen(&upgraded), Seen { stages: serving(), has_field: true, says: None });
    assert_eq!(upgraded.violations, Vec::<String>::new());
}
