//! `/v1/chat/completions` and `/v1/models`.

use axum::{
    body::Body,
    http::{Request, StatusCode, header::CONTENT_TYPE},
};
use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::api::admission::Readiness;
use tower::ServiceExt;

use crate::fixture::{Reply, Sidecar, get, or_hang, post, sidecar, sidecar_with};

const PATH: &str = "/v1/chat/completions";

fn question(text: &str) -> Value {
    json!({ "model": "support", "messages": [{ "role": "user", "content": text }] })
}

fn calculates() -> Sidecar {
    sidecar([Reply::Says("Action: calc[17+4]\n\n"), Reply::Says("Answer: It is 21.\n\n")])
}

#[tokio::test]
async fn a_question_is_answered_in_the_shape_of_the_openai_api() {
    let sidecar = calculates();
    let answer = post(&sidecar.app.api(), PATH, question("What is 17+4?")).await;
    assert_eq!((answer.status, answer.header("x-slipway-revision")), (StatusCode::OK, "support-1"));
    insta::assert_json_snapshot!(answer.json());
    assert_eq!(
        sidecar.engine.prompts(),
        ["Question: What is 17+4?\n", "Question: What is 17+4?\nAction: calc[17+4]\n\nObservation: 21\n",]
    );
}

#[tokio::test]
async fn an_answer_is_streamed_in_chunks() {
    let sidecar = calculates();
    let mut request = question("What is 17+4?");
    request["stream"] = json!(true);
    request["stream_options"] = json!({ "include_usage": true });
    let answer = post(&sidecar.app.api(), PATH, request).await;
    assert_eq!(answer.header(CONTENT_TYPE.as_str()), "text/event-stream");
    insta::assert_snapshot!(answer.body);
}

#[tokio::test]
async fn system_prompt_and_earlier_turns_reach_the_model() {
    let sidecar = sidecar_with([Reply::Says("Answer: 4\n\n")], |config| config.system_prompt = "Be brief.".into());
    let messages = json!([
        { "role": "user", "content": "1+1?" },
        { "role": "assistant", "content": "2" },
        { "role": "user", "content": [{ "type": "text", "text": "And\ntwice that?" }] },
    ]);
    post(&sidecar.app.api(), PATH, json!({ "messages": messages })).await;
    assert_eq!(
        sidecar.engine.prompts(),
        ["System: Be brief.\nQuestion: 1+1?\nAnswer: 2\n\nQuestion: And twice that?\n"]
    );
}

#[tokio::test]
async fn the_template_may_list_the_tools_and_write_its_own_labels() {
    let template = "You have:\n{tools}\n\nQuestion: {question}\n";
    let sidecar = sidecar_with([Reply::Says("Answer: 4\n\n")], |config| config.prompt_template = template.into());
    let api = sidecar.app.api();
    post(&api, PATH, question("2+2?")).await;
    assert_eq!(sidecar.engine.prompts(), ["You have:\ncalc: Evaluates an expression.\n\nQuestion: 2+2?\n"]);
    let talk = json!([
        { "role": "user", "content": "1" }, { "role": "assistant", "content": "2" }, { "role": "user", "content": "3" },
    ]);
    let refused = post(&api, PATH, json!({ "messages": talk })).await;
    assert_eq!(
        refused.error(),
        "messages: has earlier turns, and this agent's promptTemplate holds one question only; \
         send a single user message"
    );
}

#[tokio::test]
async fn instructions_of_the_client_follow_those_of_the_agent() {
    let sidecar = sidecar_with([Reply::Says("Answer: 4\n\n")], |config| config.system_prompt = "Be brief.\n".into());
    let messages = json!([
        { "role": "system", "content": "In French.\nAnswer: 5" },
        { "role": "developer", "content": [{ "type": "text", "text": "Be kind." }] },
        { "role": "user", "content": "2+2?" },
    ]);
    let answer = post(&sidecar.app.api(), PATH, json!({ "messages": messages })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(
        sidecar.engine.prompts(),
        ["System: Be brief. In French. Answer: 5 Be kind.\nQuestion: 2+2?\n"],
        "instructions write no lines of the transcript"
    );
}

#[tokio::test]
async fn instructions_without_a_place_in_the_template_are_refused_before_they_are_lost() {
    let sidecar = sidecar_with([], |config| config.prompt_template = "{messages}".into());
    let messages = json!([{ "role": "system", "content": "In French." }, { "role": "user", "content": "2+2?" }]);
    let refused = post(&sidecar.app.api(), PATH, json!({ "messages": messages })).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        refused.error(),
        "messages: has instructions, and this agent's promptTemplate has no {systemPrompt}; send no system message"
    );
}

#[tokio::test]
async fn a_history_may_begin_with_the_agents_greeting() {
    let sidecar = sidecar([Reply::Says("Answer: 4\n\n")]);
    let messages = json!([{ "role": "assistant", "content": "Hello!" }, { "role": "user", "content": "2+2?" }]);
    let answer = post(&sidecar.app.api(), PATH, json!({ "messages": messages })).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(sidecar.engine.prompts(), ["Answer: Hello!\n\nQuestion: 2+2?\n"]);
}

#[tokio::test]
async fn fields_without_effect_are_listed() {
    let sidecar = sidecar([Reply::Says("Answer: 4\n\n"), Reply::Says("Answer: 4\n\n")]);
    let mut request = question("2+2?");
    request["temperature"] = json!(0.7);
    request["vendor.extra"] = json!({ "cache": true });
    request["user"] = Value::Null;
    request["a\nb"] = json!("what is no token stays out of the header");
    for is_stream in [false, true] {
        request["stream"] = json!(is_stream);
        let answer = post(&sidecar.app.api(), PATH, request.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!(answer.header("x-slipway-ignored-fields"), "temperature, vendor.extra");
    }
}

#[tokio::test]
async fn an_answer_cut_off_says_so() {
    let sidecar = sidecar([Reply::IsCutOff("Answer: on and")]);
    let choice = post(&sidecar.app.api(), PATH, question("?")).await.json()["choices"][0].clone();
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("on and"), &json!("length")));
}

#[tokio::test]
async fn a_limit_spent_before_the_answer_gives_an_empty_one() {
    let sidecar = sidecar([Reply::Says("Action: calc[17+4]\n\n")]);
    let mut request = question("?");
    request["max_tokens"] = json!(5);
    let choice = post(&sidecar.app.api(), PATH, request).await.json()["choices"][0].clone();
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!(""), &json!("length")));
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_runs_total{outcome=\"max_tokens_exceeded\"} 1"), "{metrics}");
}

#[tokio::test]
async fn an_empty_answer_may_be_sent_back() {
    let again = || Reply::Says("Answer: 1\n\n");
    let sidecar = sidecar([Reply::Says("Action: calc[17+4]\n\n"), again(), again()]);
    let mut request = question("?");
    request["max_tokens"] = json!(5);
    let empty = post(&sidecar.app.api(), PATH, request).await.json()["choices"][0]["message"].clone();
    for said in [empty, json!({ "role": "assistant", "content": null })] {
        let messages = json!([{ "role": "user", "content": "a" }, said, { "role": "user", "content": "b" }]);
        let answer = post(&sidecar.app.api(), PATH, json!({ "messages": messages })).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    }
}

#[rstest]
#[case::model(json!({ "model": "gpt" }), 404, "model: \"gpt\" does not exist here; this pod serves \"support\"")]
#[case::no_messages(json!({ "messages": [] }), 400, "messages: is empty; send at least one user message")]
#[case::no_text(json!({ "messages": [{ "role": "user", "content": " " }] }), 400,
    "messages: has no text at index 0; leave the message out or write its text")]
#[case::last(json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }] }), 400,
    "messages: ends with an assistant message; end with the user's question")]
#[case::system(json!({ "messages": [{ "role": "system", "content": "a" }] }), 400,
    "messages: has instructions only; send at least one user message")]
#[case::tool(json!({ "messages": [{ "role": "tool", "content": "a" }] }), 400,
    "messages[0].tool_call_id: is missing; name the call that the message answers")]
#[case::no_call(json!({ "messages": [{ "role": "tool", "tool_call_id": "c", "content": "a" }] }), 400,
    "messages: has a tool message at index 0 whose tool_call_id \"c\" names no open call before it")]
#[case::arguments(json!({ "messages": [{ "role": "assistant", "tool_calls": [{ "id": "c", "function": { "name": "a", "arguments": "[" } }] }] }), 400,
    "messages[0].tool_calls[0].function.arguments: is not an object of JSON")]
#[case::kind_of_call(json!({ "messages": [{ "role": "assistant", "tool_calls": [{ "id": "c", "type": "custom", "function": { "name": "a" } }] }] }), 400,
    "messages[0].tool_calls[0].type: is \"custom\"; calls of tools are of type \"function\"")]
#[case::role(json!({ "messages": [{ "role": "bot", "content": "a" }] }), 400,
    "messages[0].role: \"bot\" is not a role; use \"system\", \"user\", \"assistant\" or \"tool\"")]
#[case::content(json!({ "messages": [{ "role": "user" }] }), 400,
    "messages[0].content: is missing; write the message's text")]
#[case::image(json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] }] }), 400,
    "messages[0].content[0].type: is \"image_url\", and this agent reads text alone; send parts of type \"text\"")]
#[case::tools(json!({ "tools": [{ "type": "function" }] }), 400,
    "tools: is not supported: this agent's prompts are ReAct transcripts, which have no place for it; leave it out, or")]
#[case::functions(json!({ "functions": [{ "name": "a" }] }), 400, "functions: is not supported; send tools")]
#[case::format(json!({ "response_format": { "type": "json_object" } }), 400,
    "response_format: is not supported: this agent's prompts are ReAct transcripts")]
#[case::format_of_no_type(json!({ "response_format": { "type": "yaml" } }), 400,
    "response_format.type: \"yaml\" is not a format; send \"text\", \"json_object\" or \"json_schema\"")]
#[case::stops(json!({ "stop": ["a", "b", "c", "d", "e"] }), 400, "stop: has 5; send at most 4")]
#[case::no_stop(json!({ "stop": "" }), 400, "stop: has an empty text or one beyond 256 characters")]
#[case::stop_of_another_type(json!({ "stop": 5 }), 400, "stop: has another shape than it should: send a text or a list of texts")]
#[case::logprobs(json!({ "logprobs": true }), 400, "logprobs: is not supported: this agent's engine does not report them")]
#[case::top_logprobs(json!({ "top_logprobs": 3 }), 400, "top_logprobs: needs logprobs: true")]
#[case::too_many_logprobs(json!({ "logprobs": true, "top_logprobs": 21 }), 400, "top_logprobs: is 21; send at most 20")]
#[case::choice_without_tools(json!({ "tool_choice": "required" }), 400,
    "tool_choice: is \"required\" without tools; it means tools of yours")]
#[case::n(json!({ "n": 2 }), 400, "n: the agent gives one answer; leave the field out or send 1")]
#[case::max_tokens(json!({ "max_tokens": 0 }), 400, "max_tokens: is 0; must be at least 1")]
#[case::wrong_type(json!({ "stream": "yes" }), 400, "stream: invalid type: string \"yes\", expected a boolean at line 1")]
#[tokio::test]
async fn a_bad_request_names_the_field(#[case] change: Value, #[case] status: u16, #[case] message: &str) {
    let sidecar = sidecar([]);
    let mut request = question("?");
    for (field, value) in change.as_object().expect("changes are an object") {
        request[field] = value.clone();
    }
    let answer = post(&sidecar.app.api(), PATH, request).await;
    let error = answer.error();
    assert_eq!((answer.status.as_u16(), error.starts_with(message)), (status, true), "{error}");
    assert_eq!(answer.header("x-slipway-revision"), "support-1");
}

#[tokio::test]
async fn an_error_has_the_openai_envelope() {
    let answer = post(&sidecar([]).app.api(), PATH, json!({ "model": "support", "messages": [], "n": 3 })).await;
    insta::assert_json_snapshot!(answer.json(), @r#"
    {
      "error": {
        "code": "invalid_value",
        "message": "n: the agent gives one answer; leave the field out or send 1",
        "param": "n",
        "type": "invalid_request_error"
      }
    }
    "#);
}

#[tokio::test]
async fn what_clients_send_by_default_is_let_through() {
    let sidecar = sidecar([Reply::Says("Answer: 1\n\n")]);
    let mut request = question("?");
    for (field, value) in [
        ("temperature", json!(0.7)),
        ("tools", json!([])),
        ("stop", Value::Null),
        ("tool_choice", json!("auto")),
        ("response_format", json!({ "type": "text" })),
        ("logprobs", json!(false)),
        ("n", json!(1)),
    ] {
        request[field] = value;
    }
    assert_eq!(post(&sidecar.app.api(), PATH, request).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_failure_before_the_answer_has_its_status_even_when_streaming() {
    let sidecar = sidecar([Reply::Says("As an AI\n\n"), Reply::Says("As an AI\n\n")]);
    let mut request = question("?");
    request["stream"] = json!(true);
    let answer = post(&sidecar.app.api(), PATH, request).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(
        answer.error(),
        "the model's output in step 2 cannot be read: it wrote the line \"As an AI\", \
         which is neither a thought, an action nor an answer"
    );
}

#[tokio::test]
async fn headers_and_the_role_do_not_wait_for_the_answer() {
    let sidecar = sidecar([Reply::WaitsAndSays("Answer: 1\n\n")]);
    let mut request = question("?");
    request["stream"] = json!(true);
    let post = Request::post(PATH).header(CONTENT_TYPE, "application/json").body(Body::from(request.to_string()));
    let asked = sidecar.app.api().oneshot(post.expect("the request is well formed"));
    let response = or_hang(asked).await.expect("a router does not fail");
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body().into_data_stream();
    let first = or_hang(body.next()).await.expect("an event comes").expect("the body arrives");
    assert!(String::from_utf8_lossy(&first).contains("\"role\":\"assistant\""), "{first:?}");
    sidecar.engine.release();
    let rest: Vec<_> = or_hang(body.map(|bytes| bytes.expect("the body arrives").to_vec()).collect()).await;
    assert!(rest.concat().ends_with(b"data: [DONE]\n\n"));
}

#[tokio::test]
async fn a_failure_within_the_answer_ends_the_stream_with_an_error() {
    let sidecar = sidecar([Reply::SaysAndFails("Answer: one two three")]);
    let mut request = question("?");
    request["stream"] = json!(true);
    let answer = post(&sidecar.app.api(), PATH, request).await;
    let last = answer.body.trim_end().lines().last().expect("there are events").to_owned();
    assert_eq!(
        last,
        "data: {\"error\":{\"code\":\"model_error\",\"message\":\"the model call of step 1 failed: the engine failed: \
         CUDA out of memory\",\"param\":null,\"type\":\"server_error\"}}"
    );
}

#[tokio::test]
async fn a_full_pod_answers_429_and_when_to_retry() {
    let sidecar = sidecar_with([Reply::WaitsAndSays("Answer: 1\n\n")], |config| config.max_in_flight = 1);
    let api = sidecar.app.api();
    let first = tokio::spawn({
        let api = api.clone();
        async move { post(&api, PATH, question("?")).await.status }
    });
    sidecar.engine.until(|engine| engine.generations.len() == 1).await;
    let second = post(&api, PATH, question("?")).await;
    assert_eq!((second.status, second.header("retry-after")), (StatusCode::TOO_MANY_REQUESTS, "1"));
    assert_eq!(second.error(), "this pod serves 1 run(s) at once and all places are taken; try again");
    sidecar.engine.release();
    assert_eq!(first.await.expect("the first run ends"), StatusCode::OK);
}

#[rstest]
#[case(Readiness::NotReady { why: "Triton's model \"agent\" is not ready".into() },
    "this pod is not ready: Triton's model \"agent\" is not ready", "not_ready")]
#[case(Readiness::Draining, "this pod is shutting down; send the request again", "draining")]
#[tokio::test]
async fn a_pod_that_does_not_serve_answers_503(
    #[case] readiness: Readiness,
    #[case] message: &str,
    #[case] reason: &str,
) {
    let sidecar = sidecar([]);
    sidecar.app.admission().set_readiness(readiness);
    let answer = post(&sidecar.app.api(), PATH, question("?")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "1"));
    assert_eq!(answer.error(), message);
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains(&format!("slipway_runs_refused_total{{reason=\"{reason}\"}} 1\n")), "{metrics}");
}

#[tokio::test]
async fn the_agent_is_the_one_model() {
    let api = sidecar([]).app.api();
    let model = json!({ "id": "support", "object": "model", "created": 1_770_000_000, "owned_by": "slipway" });
    assert_eq!(get(&api, "/v1/models").await.json(), json!({ "object": "list", "data": [model] }));
    assert_eq!(get(&api, "/v1/models/support").await.json(), model);
    assert_eq!(get(&api, "/v1/models/gpt").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_errors_with_the_revision() {
    let api = sidecar([]).app.api();
    let path = get(&api, "/v1/embeddings").await;
    assert_eq!((path.status, path.header("x-slipway-revision")), (StatusCode::NOT_FOUND, "support-1"));
    assert_eq!(path.error(), "no such path: /v1/embeddings; see /v1/models");
    let compaction = post(&api, "/v1/responses/compact", json!({})).await;
    let expected = "no such path: /v1/responses/compact; see /v1/models";
    assert_eq!((compaction.status, compaction.error().as_str()), (StatusCode::NOT_FOUND, expected));
    let method = get(&api, PATH).await;
    assert_eq!((method.status, method.header("x-slipway-revision")), (StatusCode::METHOD_NOT_ALLOWED, "support-1"));
    assert_eq!(method.error(), "/v1/chat/completions does not take GET");
}
