//! `/openapi.json`, against what the API really takes and answers.

use axum::http::{Request, StatusCode, header::CONTENT_TYPE};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use slipway_runtime_config::{Schema, Unknown};

use crate::{
    fixture::{Answer, Reply, get, post, send, sidecar, sidecar_with},
    templates::{QWEN3, checkpoint, use_template},
};

const RUN: &str = "run-support-1-649ce3d40a000-0feed000000000000";

async fn document() -> Value {
    get(&sidecar([]).app.api(), "/openapi.json").await.json()
}

/// A schema of the document, with what it refers to.
fn schema(document: &Value, schema: &Value) -> Schema {
    let whole = json!({ "allOf": [schema], "components": document["components"] });
    Schema::of_value(&whole, "openapi.json", Unknown::Unchecked).expect("the schema is well formed")
}

/// An answer has a status that the document names, and the shape that it gives for it.
fn compare(document: &Value, method: &str, path: &str, answer: &Answer) {
    let status = answer.status.as_u16().to_string();
    let response = &document["paths"][path][method]["responses"][&status];
    assert!(response.is_object(), "{method} {path} answers {status}, which the document does not name");
    let expected = &response["content"]["application/json"]["schema"];
    if expected.is_null() {
        return;
    }
    let found = schema(document, expected).check_value(&answer.json());
    assert_eq!(found, Ok(()), "{method} {path} {status}: {}", answer.body);
}

#[tokio::test]
async fn answers_have_the_shapes_of_the_document() {
    let document = document().await;
    let folder = checkpoint(QWEN3);
    let call = "<think>Hm.</think><tool_call>{\"name\": \"w\", \"arguments\": {}}</tool_call>";
    let sum = "<tool_call>{\"name\": \"calc\", \"arguments\": {\"expression\": \"1/0\"}}</tool_call>";
    let replies = [
        Reply::Says("Hi."),
        Reply::Says(call),
        Reply::Says(sum),
        Reply::Says("No."),
        Reply::Says(""),
        Reply::Says(call),
    ];
    let sidecar = sidecar_with(replies, |config| use_template(config, &folder));
    let api = sidecar.app.api();
    let chat = "/v1/chat/completions";
    let ask = json!({ "messages": [{ "role": "user", "content": "?" }] });
    let mut with_tools = ask.clone();
    with_tools["tools"] = json!([{ "type": "function", "function": { "name": "w" } }]);
    for body in [&ask, &with_tools, &json!({ "messages": [] }), &json!({ "model": "a", "messages": [] })] {
        compare(&document, "post", chat, &post(&api, chat, body.clone()).await);
    }
    for body in [json!({ "input": "?" }), json!({ "input": "?" }), json!({})] {
        compare(&document, "post", "/v1/runs", &post(&api, "/v1/runs", body).await);
    }
    // The third run of the pod was the first of /v1/runs.
    let run = "run-support-1-649ce3d40a000-2feed000000000002";
    for id in [run, RUN] {
        compare(&document, "get", "/v1/runs/{id}", &get(&api, &format!("/v1/runs/{id}")).await);
        let cancelled = post(&api, &format!("/v1/runs/{id}/cancel"), json!({})).await;
        compare(&document, "post", "/v1/runs/{id}/cancel", &cancelled);
    }
    assert_eq!(get(&api, &format!("/v1/runs/{run}")).await.status, StatusCode::OK);
    let response = json!({ "input": "?", "tools": [{ "type": "function", "name": "w" }] });
    for body in [response, json!({}), json!({ "model": "a", "input": "?" })] {
        compare(&document, "post", "/v1/responses", &post(&api, "/v1/responses", body).await);
    }
    for id in ["resp_support-1-649ce3d40a000-4feed000000000004", "resp_a"] {
        let path = format!("/v1/responses/{id}");
        compare(&document, "get", "/v1/responses/{id}", &get(&api, &path).await);
        let deleted = send(&api, Request::delete(&path), String::new()).await;
        compare(&document, "delete", "/v1/responses/{id}", &deleted);
    }
    for body in [json!({ "run": run, "success": true }), json!({ "run": run, "success": true }), json!({ "run": "a" })]
    {
        compare(&document, "post", "/v1/feedback", &post(&api, "/v1/feedback", body).await);
    }
    for id in ["support", "other"] {
        compare(&document, "get", "/v1/models/{id}", &get(&api, &format!("/v1/models/{id}")).await);
    }
    for path in ["/v1/models", "/metrics", "/openapi.json"] {
        compare(&document, "get", path, &get(&api, path).await);
    }
}

#[tokio::test]
async fn every_path_for_tenants_names_the_answers_to_those_who_are_none() {
    let document = document().await;
    for (path, methods) in document["paths"].as_object().expect("an object") {
        for (method, operation) in methods.as_object().expect("an object") {
            let statuses = ["401", "403", "503"].map(|status| operation["responses"][status].is_object());
            let is_open = operation["security"] == json!([{}]);
            assert_eq!(statuses, [!is_open; 3], "{method} {path}");
            assert_eq!(is_open, !path.starts_with("/v1/"), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn every_path_and_method_of_the_document_is_served_and_no_other() {
    let document = document().await;
    let api = sidecar([]).app.api();
    for (path, methods) in document["paths"].as_object().expect("an object") {
        let path = path.replace("{id}", "x");
        for method in ["GET", "POST", "PUT", "DELETE"] {
            let request = Request::builder().method(method).uri(&path).header(CONTENT_TYPE, "application/json");
            let answer = send(&api, request, String::new()).await;
            let is_served = answer.status != StatusCode::METHOD_NOT_ALLOWED;
            let is_named = methods[method.to_lowercase()].is_object();
            assert_eq!(is_served, is_named, "{method} {path} answers {}", answer.status);
            let is_path = !answer.body.contains("no such path");
            assert!(is_path, "{method} {path}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_request_that_the_document_forbids_is_refused() {
    let document = document().await;
    let api = sidecar([]).app.api();
    let of = |name: &str| schema(&document, &json!({ "$ref": format!("#/components/schemas/{name}") }));
    let user = json!([{ "role": "user", "content": "?" }]);
    let f = json!({ "name": "f" });
    let call = json!({ "id": "a", "type": "custom", "function": { "name": "f", "arguments": "{}" } });
    let of_custom = json!({ "role": "assistant", "tool_calls": [call] });
    for (path, name, body) in [
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": [] })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "n": 2 })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "max_tokens": 0 })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "stop": ["a", "b", "c", "d", "e"] })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "top_logprobs": 21 })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "stream": "yes" })),
        ("/v1/responses", "ResponseRequest", json!({ "input": [] })),
        ("/v1/responses", "ResponseRequest", json!({ "input": "?", "max_output_tokens": 0 })),
        ("/v1/responses", "ResponseRequest", json!({ "input": "?", "truncation": "auto" })),
        ("/v1/responses", "ResponseRequest", json!({ "input": "?", "store": "yes" })),
        ("/v1/runs", "RunRequest", json!({ "input": "?", "maxTokens": 0 })),
        ("/v1/feedback", "Feedback", json!({ "run": "run-a-0-0", "score": 2 })),
        ("/v1/feedback", "Feedback", json!({ "run": "run-a-0-0", "score": 1, "success": true })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": [{ "role": "tool", "content": "7" }] })),
        (
            "/v1/chat/completions",
            "ChatRequest",
            json!({ "messages": user, "tools": [{ "type": null, "function": f }] }),
        ),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "tools": [{ "function": f }] })),
        (
            "/v1/chat/completions",
            "ChatRequest",
            json!({ "messages": [of_custom, { "role": "tool", "content": "7",
            "tool_call_id": "a" }] }),
        ),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "top_logprobs": 2 })),
        ("/v1/chat/completions", "ChatRequest", json!({ "messages": user, "stop": "" })),
        ("/v1/responses", "ResponseRequest", json!({ "input": "?", "tools": [{ "type": null, "name": "f" }] })),
        ("/v1/responses", "ResponseRequest", json!({ "input": [{ "type": "reasoning", "summary": [{}] }] })),
        ("/v1/responses", "ResponseRequest", json!({ "input": [{ "type": "function_call", "name": "f" }] })),
        ("/v1/responses", "ResponseRequest", json!({ "input": [{ "role": "user", "content": [{ "type": "text" }] }] })),
        ("/v1/runs", "RunRequest", json!({ "input": "?", "messages": user })),
    ] {
        assert!(of(name).check_value(&body).is_err(), "the document allows {body}");
        assert_eq!(post(&api, path, body.clone()).await.status, StatusCode::BAD_REQUEST, "{body}");
    }
}
