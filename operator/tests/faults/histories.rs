//! Histories that nobody thought of: people edit an agent, delete it and make it again, at any moment. In the end it
//! is what an agent would be that had been asked for that alone.

use proptest::{collection::vec, prelude::*, test_runner::TestCaseError};
use serde_json::{Value, json};

use crate::{
    end::End,
    story::{Act, Played, Scene, stages},
};

/// What people do.
#[derive(Debug, Clone)]
enum Step {
    /// Changes the spec, by a merge patch.
    Edit(Value),
    /// Deletes the agent, and makes it again.
    Again,
}

fn step() -> impl Strategy<Value = Step> {
    let edit = prop_oneof![
        (0..3).prop_map(|words| json!({"agent": {"systemPrompt": format!("Answer {words}.")}})),
        (0..2).prop_map(|model| json!({"model": {"uri": format!("http://models.example/{model}")}})),
        (1..3).prop_map(|replicas| json!({"serving": {"replicas": replicas}})),
        prop_oneof![Just("FP32"), Just("INT8")].prop_map(|one| json!({"search": {"precision": [one]}})),
        (1..3).prop_map(|limit| json!({"rollout": {"revisionHistoryLimit": limit}})),
    ];
    prop_oneof![6 => edit.prop_map(Step::Edit), 1 => Just(Step::Again)]
}

/// Steps, each with a moment after the one before.
fn history() -> impl Strategy<Value = Vec<(Step, prop::sample::Index)>> {
    vec((step(), any::<prop::sample::Index>()), 1..6)
}

/// What people do next, at a moment. The cluster is as it was then, and the operator has just started.
async fn goes_on(from: &Played, moment: &prop::sample::Index, act: &Act) -> Result<Played, TestCaseError> {
    let at = moment.index(from.rounds.len() + 1);
    let scene = from.rounds.get(at).map_or(&from.after, |round| &round.scene);
    let played = scene.play(act).await;
    prop_assert!(played.violations.is_empty(), "{act:?} at {}: {:?}", scene.now, played.violations);
    Ok(played)
}

/// What serves, and how far the agent is.
fn shown(end: &End) -> (Vec<String>, Vec<(&String, &usize)>) {
    (stages(end), end.pods.iter().filter(|(pods, _)| pods.ends_with("\"Running\"")).collect())
}

fn merge(spec: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else { return *spec = patch.clone() };
    for (name, value) in members {
        merge(&mut spec[name], value);
    }
}

async fn lives(steps: Vec<(Step, prop::sample::Index)>) -> Result<(), TestCaseError> {
    let first = Scene::first(None).play(&Act::Create).await;
    // Before the operator has looked.
    let unseen = first.rounds[0].scene.clone();
    let (mut told, mut spec) = (first, json!({}));
    for (step, moment) in &steps {
        told = match step {
            Step::Edit(patch) => {
                merge(&mut spec, patch);
                goes_on(&told, moment, &Act::Edit(patch.clone())).await?
            }
            Step::Again => {
                spec = json!({});
                let gone = goes_on(&told, moment, &Act::Delete).await?;
                goes_on(&gone, moment, &Act::Create).await?
            }
        };
    }
    let expected = unseen.play(&Act::Edit(spec)).await;
    prop_assert_eq!(shown(&told.end), shown(&expected.end));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_agent_becomes_what_it_was_asked_to_be_last_whatever_was_asked_before(steps in history()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(lives(steps))?;
    }
}
