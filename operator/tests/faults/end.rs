//! What there is at the end, without what differs from one telling of a story to the next.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_crds::{labels::APP_COMPONENT, store};

use crate::{
    api::{
        kinds::PODS,
        store::{Key, Store},
    },
    story::{AGENT, BESIDE, stages},
};

/// Objects by their place; of pods, how many there are of each template; the folders of the volume.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    pub objects: BTreeMap<Key, Value>,
    pub pods: BTreeMap<String, usize>,
    pub volume: Vec<String>,
}

/// The end of a story.
pub fn of(store: &Store) -> End {
    let own = store.all().iter().filter(|(key, _)| !BESIDE.contains(&key.kind));
    let mut pods = BTreeMap::new();
    for (_, pod) in store.of_kind(PODS) {
        let of = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().to_owned();
        *pods.entry(format!("{of}: {}", pod["status"]["phase"])).or_default() += 1;
    }
    let shown = |(key, object): (&Key, &Arc<Value>)| {
        let component = &object["metadata"]["labels"][APP_COMPONENT];
        let shown = match object["data"][store::KEY].as_str() {
            _ if *component == DRIFT => json!("what was counted by the clock"),
            // Its hash is one of times too.
            Some(record) => masked(&serde_json::from_str(record).unwrap()),
            None => masked(object),
        };
        (key.clone(), shown)
    };
    End { objects: own.map(shown).collect(), pods, volume: store.volume.folders() }
}

/// Members that tell when and how often, and not what.
const MASKED: [&str; 3] = ["resourceVersion", "buildMilliseconds", DRIFT];
/// The part that the memory of what users met plays, and its name in the status.
const DRIFT: &str = "drift";

fn masked(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mask = |(name, value): (&String, &Value)| {
                (name.clone(), if MASKED.contains(&name.as_str()) { json!("...") } else { masked(value) })
            };
            Value::Object(members.iter().map(mask).collect())
        }
        Value::Array(items) => items.iter().map(masked).collect(),
        Value::String(text) if text.parse::<Timestamp>().is_ok() => json!("a time"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Lines that say what two ends differ in.
pub fn differences(expected: &End, found: &End) -> Vec<String> {
    let mut lines = Vec::new();
    let keys: std::collections::BTreeSet<&Key> = expected.objects.keys().chain(found.objects.keys()).collect();
    for key in keys {
        let place = format!("{} {}", key.kind.kind, key.name);
        match (expected.objects.get(key), found.objects.get(key)) {
            (Some(a), Some(b)) => compare(&place, a, b, &mut lines),
            (Some(_), None) => lines.push(format!("{place}: missing")),
            (None, _) => lines.push(format!("{place}: left over")),
        }
    }
    if expected.pods != found.pods {
        lines.push(format!("pods: {:?}, not {:?}", found.pods, expected.pods));
    }
    if expected.volume != found.volume {
        lines.push(format!("volume: {:?}, not {:?}", found.volume, expected.volume));
    }
    lines
}

/// What users or operators would miss, of all that differs: how far the agents are, and pods.
pub fn harm(expected: &End, found: &End) -> Vec<String> {
    let seen = |end: &End| {
        let serving = end.pods.iter().filter(|(of, _)| of.starts_with(AGENT));
        (stages(end), serving.map(|(_, pods)| *pods).collect::<Vec<_>>())
    };
    let (expected, found) = (seen(expected), seen(found));
    if expected == found { Vec::new() } else { vec![format!("stages and pods: {found:?}, not {expected:?}")] }
}

fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                let read = |members: &serde_json::Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}.{name}"), &read(a), &read(b), lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(at, (a, b))| compare(&format!("{path}[{at}]"), a, b, lines));
        }
        (a, b) if a == b => {}
        (a, b) => lines.push(format!("{path}: {b}, not {a}")),
    }
}
