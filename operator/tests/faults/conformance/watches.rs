//! Watches from versions that are known, of none, and of one long gone; and the pages of a list.

use serde_json::{Value, json};

use super::{
    script::agent_deployment,
    step::{AGENTS, CONFIG_MAPS, Collection, METADATA, PODS, Requests, Step},
};

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": "watched"}},
        "data": {"a": "1"}})
}

const LABELLED: &str = "labelSelector=of%3Dwatched";

/// Watches for a second.
fn watch<'a>(requests: &'a mut Requests, name: &str, of: Collection, query: &str) -> &'a mut Step {
    requests.get(name, format!("{}?watch=true&timeoutSeconds=1&{query}", of.path()))
}

/// From the first version of an object.
fn since(object: &str) -> String {
    format!("resourceVersion=$first({object})")
}

fn selected(requests: &mut Requests) {
    let [first, second] = ["first-watched", "second-watched"];
    let label = |value: &str| json!({"metadata": {"labels": {"of": value}}});
    requests.create("one is created", CONFIG_MAPS, &map(first));
    requests.create("another is created", CONFIG_MAPS, &map(second));
    requests.merge("it is changed", CONFIG_MAPS.of(first), &json!({"data": {"a": "2"}}));
    requests.merge("it is changed to what it is", CONFIG_MAPS.of(first), &json!({"data": {"a": "2"}}));
    requests.merge("the other loses its label", CONFIG_MAPS.of(second), &label("other"));
    requests.merge("the other is changed", CONFIG_MAPS.of(second), &json!({"data": {"a": "2"}}));
    let [since_first, since_second] = [first, second].map(|name| since(&format!("ConfigMap/{name}")));
    watch(requests, "by label", CONFIG_MAPS, &format!("{LABELLED}&{since_first}"));
    watch(requests, "by label, from a later version", CONFIG_MAPS, &format!("{LABELLED}&{since_second}"));
    let named = format!("fieldSelector=metadata.name%3D{second}");
    watch(requests, "by name", CONFIG_MAPS, &format!("{named}&{since_first}"));
    watch(requests, "of metadata", CONFIG_MAPS, &format!("{LABELLED}&{since_first}")).accepts(METADATA);
    let everywhere = format!("/api/v1/configmaps?watch=true&timeoutSeconds=1&{LABELLED}&{since_first}");
    requests.get("of all namespaces", everywhere);
    requests.merge("the other has its label again", CONFIG_MAPS.of(second), &label("watched"));
    requests.delete("it is deleted", CONFIG_MAPS.of(first), &Value::Null);
    requests.create("one of its name is created", CONFIG_MAPS, &map(first));
    watch(requests, "sees them come and go", CONFIG_MAPS, &format!("{LABELLED}&{since_second}"));
}

/// Without a version, and with one that nobody knows.
fn begun(requests: &mut Requests) {
    let by_label = |query: &str| format!("{LABELLED}&{query}");
    watch(requests, "of no version", CONFIG_MAPS, LABELLED);
    watch(requests, "of version 0", CONFIG_MAPS, &by_label("resourceVersion=0"));
    watch(requests, "of version 0 and metadata", CONFIG_MAPS, &by_label("resourceVersion=0")).accepts(METADATA);
    watch(requests, "of what is not a version", CONFIG_MAPS, &by_label("resourceVersion=first")).comes_to(500);
    watch(requests, "by a selector that cannot be read", CONFIG_MAPS, "labelSelector=a%20b").comes_to(400);
    watch(requests, "of a kind that nobody serves", Collection { api: "api/v1", plural: "strangers" }, "")
        .comes_to(404);
    watch(requests, "of a version long gone", AGENTS, "resourceVersion=1");
    let bookmarks = format!("allowWatchBookmarks=true&{LABELLED}&{}", since("ConfigMap/second-watched"));
    let path = CONFIG_MAPS.path();
    requests.get("hears where it is", format!("{path}?watch=true&timeoutSeconds=5&{bookmarks}"));
    let late = format!("allowWatchBookmarks=true&{LABELLED}&resourceVersion=$latest(ConfigMap/first-watched)");
    requests.get("of nothing new hears where it is", format!("{path}?watch=true&timeoutSeconds=5&{late}"));
}

/// A list in pages, and a watch from there on.
fn listed(requests: &mut Requests) {
    let pages = format!("{}?limit=1", AGENTS.path());
    for name in ["first", "second", "third"] {
        requests.create(&format!("the {name} agent is created"), AGENTS, &agent_deployment().object(name));
    }
    requests.get("the first page of all", pages.clone());
    requests.get("the second page of all", format!("{pages}&continue=$token"));
    requests.get("the last page of all", format!("{pages}&continue=$token"));
    requests.get("a page after what is no token", format!("{pages}&continue=none")).comes_to(400);
    requests.get("all agents", AGENTS.path());
    let status = json!({"apiVersion": "slipway.dev/v1alpha1", "kind": "AgentDeployment", "metadata": {"name": "first"},
        "status": {"stage": "Serving", "observedGeneration": 1}});
    requests.apply("a status is applied", AGENTS.status("first"), &status);
    requests.apply("it is applied again", AGENTS.status("first"), &status);
    let prompt = json!({"spec": {"agent": {"systemPrompt": "Think."}}});
    requests.merge("the second is edited", AGENTS.of("second"), &prompt);
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    requests.merge("somebody holds the third", AGENTS.of("third"), &held);
    requests.delete("the third is deleted", AGENTS.of("third"), &json!({"propagationPolicy": "Background"}));
    requests.release("nobody holds the third", AGENTS.of("third"));
    watch(requests, "from the list on", AGENTS, "resourceVersion=$list");
    for name in ["first", "second"] {
        requests.delete(&format!("the {name} agent is deleted"), AGENTS.of(name), &Value::Null);
    }
    watch(requests, "from the list on, once all are gone", AGENTS, "resourceVersion=$list");
}

/// How pods end.
fn of_pods(requests: &mut Requests) {
    let pod = |name: &str, node: &Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"of": "watched"}},
            "spec": {"automountServiceAccountToken": false, "nodeName": node,
                "containers": [{"name": "main", "image": "example.com/main:1"}]}})
    };
    requests.get("no pods", format!("{}?{LABELLED}", PODS.path()));
    requests.create("a pod without a node is created", PODS, &pod("pending", &Value::Null));
    requests.create("a pod with a node is created", PODS, &pod("running", &json!("elsewhere")));
    requests.merge("it runs", PODS.status("running"), &json!({"status": {"phase": "Running"}}));
    requests.delete("the one without is deleted", PODS.of("pending"), &Value::Null);
    requests.delete("the one with a node is deleted", PODS.of("running"), &Value::Null);
    requests.delete("its node has ended it", PODS.of("running"), &json!({"gracePeriodSeconds": 0}));
    watch(requests, "of pods", PODS, &format!("{LABELLED}&resourceVersion=$list"));
}

pub fn steps() -> Vec<Step> {
    let mut requests = Requests::about("watch");
    selected(&mut requests);
    begun(&mut requests);
    listed(&mut requests);
    of_pods(&mut requests);
    for name in ["first-watched", "second-watched"] {
        requests.delete(&format!("{name} is deleted at last"), CONFIG_MAPS.of(name), &Value::Null);
    }
    requests.steps
}
