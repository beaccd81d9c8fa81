//! `/v1/responses` as clients of OpenAI's Responses API and of Open Responses use it.

use axum::http::{Request, StatusCode, header::CONTENT_TYPE};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    chat_wishes::{CALL, PARIS, SUM, qwen},
    fixture::{Answer, Reply, Sidecar, get, or_hang, post, send, sidecar},
};

const PATH: &str = "/v1/responses";
/// The name of a sidecar's first run.
const FIRST: &str = "support-1-649ce3d40a000-0feed000000000000";

async fn create(sidecar: &Sidecar, body: Value) -> Answer {
    or_hang(post(&sidecar.app.api(), PATH, body)).await
}

/// An answer that is a response.
async fn respond(sidecar: &Sidecar, body: Value) -> Value {
    let answer = create(sidecar, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.json()
}

async fn read(sidecar: &Sidecar, method: &str, id: &str) -> Answer {
    let request = Request::builder().method(method).uri(format!("{PATH}/{id}"));
    or_hang(send(&sidecar.app.api(), request, String::new())).await
}

fn weather() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    json!({ "type": "function", "name": "weather", "description": "Of a city.", "parameters": parameters })
}

/// The events of a stream. Each has the name of its type, and the last line is not an event.
fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    let (events, end) = answer.body.trim_end().rsplit_once("\n\n").expect("there are events");
    assert_eq!(end, "data: [DONE]");
    let read = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").expect("an event has data");
        let data: Value = serde_json::from_str(data).expect("the data is JSON");
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    events.split("\n\n").filter(|event| !event.starts_with(':')).map(read).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().expect("an event has a type")).collect()
}

fn texts<'a>(events: &'a [Value], kind: &str, field: &str) -> Vec<&'a str> {
    events.iter().filter(|event| event["type"] == kind).filter_map(|event| event[field].as_str()).collect()
}

/// The text of a response's messages.
fn text(response: &Value) -> String {
    let items = response["output"].as_array().expect("a list").iter().filter(|item| item["type"] == "message");
    items.filter_map(|item| item["content"][0]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_text_is_answered_with_a_message() {
    let sidecar = sidecar([Reply::Says("Answer: 5\n\n")]);
    let body =
        json!({ "model": "support", "input": "How tall?", "instructions": "Be brief.", "metadata": { "a": "b" } });
    let response = respond(&sidecar, body).await;
    let item = response["output"][0]["id"].clone();
    assert!(item.as_str().is_some_and(|id| id.starts_with("msg_") && !id.contains("feed")), "{item}");
    let part = json!({ "type": "output_text", "text": "5", "annotations": [], "logprobs": [] });
    let message =
        json!({ "type": "message", "id": item, "status": "completed", "role": "assistant", "content": [part] });
    let expected = json!({
        "id": format!("resp_{FIRST}"), "object": "response", "status": "completed", "model": "support",
        "created_at": 1_770_000_000, "completed_at": 1_770_000_000, "output": [message], "error": null,
        "incomplete_details": null,
        "usage": {
            "input_tokens": 42, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 11, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 53,
        },
        "instructions": "Be brief.", "previous_response_id": null, "tools": [], "tool_choice": "auto",
        "parallel_tool_calls": true, "text": { "format": { "type": "text" } }, "metadata": { "a": "b" },
        "max_output_tokens": null, "store": true, "temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "top_logprobs": 0, "truncation": "disabled", "background": false,
        "max_tool_calls": null, "reasoning": null, "user": null, "service_tier": "default",
        "safety_identifier": null, "prompt_cache_key": null,
    });
    let mut found = response;
    let prompt = sidecar.engine.prompts()[0].clone();
    assert_eq!(prompt, "System: Be brief.\nQuestion: How tall?\n");
    found["usage"]["input_tokens"] = json!(42);
    found["usage"]["total_tokens"] = json!(53);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn events_follow_each_other_and_build_what_the_last_one_has() {
    let sidecar = qwen([Reply::Spells("<think>\nHm, easy.\n</think>\n\nYes.")], |_| {});
    let events = events(&create(&sidecar, json!({ "input": "Sun?", "stream": true })).await);
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
    let mut order = kinds(&events);
    order.dedup();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(order, expected);
    assert!(texts(&events, "response.output_text.delta", "delta").len() > 2, "it came in one part");
    assert_eq!(texts(&events, "response.output_text.delta", "delta").concat(), "Yes.");
    assert_eq!(texts(&events, "response.reasoning_text.delta", "delta").concat(), "Hm, easy.");
    let done: Vec<_> = events.iter().filter(|event| event["type"] == "response.output_item.done").collect();
    let items: Vec<_> = done.iter().map(|event| event["item"].clone()).collect();
    assert_eq!(done.iter().map(|event| &event["output_index"]).collect::<Vec<_>>(), [&json!(0), &json!(1)]);
    let last = &events[events.len() - 1]["response"];
    assert_eq!((&last["output"], &last["status"]), (&json!(items), &json!("completed")));
    assert_eq!(items[0]["content"], json!([{ "type": "reasoning_text", "text": "Hm, easy." }]));
    // What is kept is the same.
    let id = last["id"].as_str().expect("an id is a text");
    assert_eq!(&read(&sidecar, "GET", id).await.json(), last);
}

#[tokio::test]
async fn a_call_is_an_item_and_its_output_continues_the_conversation() {
    let sidecar = qwen([Reply::Spells(CALL), Reply::Says("It is sunny.")], |_| {});
    let question = json!({ "role": "user", "content": [{ "type": "input_text", "text": "Sun?" }] });
    let first = respond(&sidecar, json!({ "input": [question], "tools": [weather()] })).await;
    let output = first["output"].as_array().expect("a list").clone();
    assert_eq!(text(&first), "Let me look.");
    let call = &output[1];
    assert_eq!(
        (&call["type"], &call["name"], &call["arguments"], &call["status"]),
        (&json!("function_call"), &json!("weather"), &json!("{\"city\":\"Paris\"}"), &json!("completed"))
    );
    let result = json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "sunny" });
    let input = [vec![question], output, vec![result]].concat();
    let last = respond(&sidecar, json!({ "input": input, "tools": [weather()] })).await;
    assert_eq!(text(&last), "It is sunny.");
    let prompts = sidecar.engine.prompts();
    let turn = "Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}";
    assert!(prompts[1].contains(turn), "text and call are one turn: {}", prompts[1]);
    assert!(prompts[1].contains("<tool_response>\nsunny\n</tool_response>"), "{}", prompts[1]);
}

#[tokio::test]
async fn a_streamed_call_has_its_arguments_in_one_part() {
    let sidecar = qwen([Reply::Spells(CALL)], |_| {});
    let events = events(&create(&sidecar, json!({ "input": "Sun?", "tools": [weather()], "stream": true })).await);
    let order = kinds(&events);
    let expected = [
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(order[order.len() - expected.len()..], expected);
    let arguments = texts(&events, "response.function_call_arguments.done", "arguments");
    assert_eq!(arguments, ["{\"city\":\"Paris\"}"]);
    assert_eq!(texts(&events, "response.function_call_arguments.delta", "delta"), arguments);
}

#[tokio::test]
async fn a_response_continues_another_without_its_instructions() {
    let sidecar = qwen([Reply::Says(CALL), Reply::Says("It is sunny."), Reply::Says("Yes.")], |_| {});
    let body = json!({ "input": "Sun?", "tools": [weather()], "instructions": "Be brief." });
    let first = respond(&sidecar, body).await;
    let result = json!({ "type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "sunny" });
    let body = json!({ "input": [result], "tools": [weather()], "previous_response_id": first["id"] });
    let second = respond(&sidecar, body).await;
    let third = respond(&sidecar, json!({ "input": "Sure?", "previous_response_id": second["id"] })).await;
    assert_eq!((text(&second).as_str(), text(&third).as_str()), ("It is sunny.", "Yes."));
    assert_eq!(third["previous_response_id"], second["id"]);
    let prompts = sidecar.engine.prompts();
    assert!(prompts[0].contains("Be brief.") && !prompts[1].contains("Be brief."), "{}", prompts[1]);
    let order = ["Sun?", "\"Paris\"", "sunny", "It is sunny.", "Sure?"].map(|text| prompts[2].find(text));
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?}: {}", prompts[2]);
}

#[tokio::test]
async fn tools_of_the_agent_are_called_and_not_shown() {
    let sidecar = qwen([Reply::Says(SUM), Reply::Says("It is 4.")], |_| {});
    let response = respond(&sidecar, json!({ "input": "2+2?" })).await;
    assert_eq!((text(&response).as_str(), response["output"].as_array().map(Vec::len)), ("It is 4.", Some(1)));
}

#[rstest]
#[case::by_its_schema(true)]
#[case::as_any_object(false)]
#[tokio::test]
async fn an_answer_has_the_format_that_was_asked_for(#[case] has_schema: bool) {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let format = match has_schema {
        true => json!({ "type": "json_schema", "name": "city", "schema": schema, "strict": true }),
        false => json!({ "type": "json_object" }),
    };
    let sidecar = qwen([Reply::Says("Paris, of course."), Reply::Says(PARIS)], |_| {});
    let response = respond(&sidecar, json!({ "input": "City?", "text": { "format": format } })).await;
    assert_eq!((text(&response).as_str(), &response["text"]["format"]), (PARIS, &format));
}

#[tokio::test]
async fn a_spent_limit_leaves_the_response_incomplete() {
    let sidecar = qwen([Reply::IsCutOff("It is su")], |_| {});
    let response = respond(&sidecar, json!({ "input": "Sun?", "max_output_tokens": 8 })).await;
    let reason = json!({ "reason": "max_output_tokens" });
    assert_eq!((&response["status"], &response["incomplete_details"]), (&json!("incomplete"), &reason));
    assert_eq!((&response["output"][0]["status"], &response["completed_at"]), (&json!("incomplete"), &Value::Null));
}

#[tokio::test]
async fn a_failure_has_its_status_or_is_the_last_event() {
    let sidecar = qwen([Reply::Refuses("EngineCore died"), Reply::SaysAndFails("It is sunny today.")], |_| {});
    let at_once = create(&sidecar, json!({ "input": "Sun?", "stream": true })).await;
    assert_eq!((at_once.status, &at_once.json()["error"]["code"]), (StatusCode::BAD_GATEWAY, &json!("model_error")));
    let events = events(&create(&sidecar, json!({ "input": "Sun?", "stream": true })).await);
    let last = events.last().expect("there are events");
    let (kind, response) = (&last["type"], &last["response"]);
    assert_eq!((kind, &response["status"]), (&json!("response.failed"), &json!("failed")));
    assert_eq!(response["error"]["code"], json!("model_error"));
    assert_eq!(response["output"][0]["status"], json!("incomplete"));
    let body = json!({ "input": "Sure?", "previous_response_id": response["id"] });
    let expected = "previous_response_id: it failed, so that nothing can follow it; continue the response before it";
    assert_eq!(create(&sidecar, body).await.error(), expected);
}

#[tokio::test]
async fn a_repeated_request_has_the_response_of_the_first() {
    let sidecar = sidecar([Reply::Says("Answer: 5\n\n")]);
    let ask = async || {
        let request = Request::post(PATH).header(CONTENT_TYPE, "application/json").header("idempotency-key", "a");
        or_hang(send(&sidecar.app.api(), request, json!({ "input": "How tall?" }).to_string())).await
    };
    let (first, second) = (ask().await, ask().await);
    assert_eq!((first.json(), second.header("idempotent-replayed")), (second.json(), "true"));
}

#[tokio::test]
async fn a_response_is_read_judged_and_deleted_by_its_id() {
    let sidecar = sidecar([Reply::Says("Answer: 5\n\n"), Reply::Says("Answer: 6\n\n")]);
    let stored = respond(&sidecar, json!({ "input": "How tall?" })).await;
    let id = stored["id"].as_str().expect("an id is a text").to_owned();
    assert_eq!(read(&sidecar, "GET", &id).await.json(), stored);
    let streamed = read(&sidecar, "GET", &format!("{id}?stream=true")).await.error();
    assert_eq!(streamed, "stream: is not supported here; leave it out, and read the response as a whole");
    let feedback = or_hang(post(&sidecar.app.api(), "/v1/feedback", json!({ "run": id, "success": true }))).await;
    assert_eq!(feedback.status, StatusCode::NO_CONTENT);
    let deleted = json!({ "id": id, "object": "response", "deleted": true });
    assert_eq!(read(&sidecar, "DELETE", &id).await.json(), deleted);
    assert_eq!(read(&sidecar, "GET", &id).await.status, StatusCode::NOT_FOUND);
    let not_stored = respond(&sidecar, json!({ "input": "How tall?", "store": false })).await;
    let id = not_stored["id"].as_str().expect("an id is a text");
    let expected = format!(
        "this pod does not keep response {id:?}: ids begin with resp_. Those with store: false are not kept, and \
         others for a quarter of an hour after their end"
    );
    let answer = read(&sidecar, "GET", id).await;
    assert_eq!((answer.status, answer.error()), (StatusCode::NOT_FOUND, expected));
}

#[tokio::test]
async fn a_response_in_progress_is_shown_and_neither_deleted_nor_continued() {
    let sidecar = sidecar([Reply::WaitsAndSays("Answer: 5\n\n")]);
    let (api, body) = (sidecar.app.api(), json!({ "input": "How tall?" }));
    let waiting = tokio::spawn(async move { or_hang(post(&api, PATH, body)).await });
    or_hang(sidecar.engine.until(|engine| engine.generations.len() == 1)).await;
    let id = format!("resp_{FIRST}");
    assert_eq!(read(&sidecar, "GET", &id).await.json()["status"], json!("in_progress"));
    let deleted = read(&sidecar, "DELETE", &id).await;
    let expected = format!("{id:?} is in progress; end it by closing its connection, or wait for its end");
    assert_eq!((deleted.status, deleted.error()), (StatusCode::CONFLICT, expected));
    let next = create(&sidecar, json!({ "input": "?", "previous_response_id": id })).await;
    assert_eq!(next.error(), "previous_response_id: it is in progress; wait for its end");
    sidecar.engine.release();
    assert_eq!(waiting.await.expect("it does not panic").status, StatusCode::OK);
}

#[tokio::test]
async fn fields_without_effect_are_listed() {
    let sidecar = sidecar([Reply::Says("Answer: 5\n\n")]);
    let body = json!({
        "input": "How tall?", "reasoning": { "effort": "low" }, "include": ["reasoning.encrypted_content"],
        "text": { "verbosity": "low" }, "user": "a", "background": false, "truncation": "disabled",
    });
    let answer = create(&sidecar, body).await;
    assert_eq!(answer.header("x-slipway-ignored-fields"), "include, reasoning, text.verbosity, user");
}

fn user(content: &Value) -> Value {
    json!([{ "role": "user", "content": content }])
}

fn output(call: &str) -> Value {
    json!([{ "role": "user", "content": "?" }, { "type": "function_call_output", "call_id": call, "output": "5" }])
}

#[rstest]
#[case::no_input(json!({}), "input: is missing; send a text or a list of items")]
#[case::number(json!({ "input": 5 }), "input: is neither a text nor a list of items; send one of the two")]
#[case::empty(json!({ "input": [] }), "input: is empty; write the question")]
#[case::blank(json!({ "input": " " }), "input: has no text; leave it out or write its text")]
#[case::text_of_another_shape(
    json!({ "input": [{ "role": "user", "content": {} }] }),
    "input[0]: has another shape than an item should: a text must be a string or a list of parts with a type"
)]
#[case::blank_item(json!({ "input": user(&json!(" ")) }), "input[0]: has no text; leave it out or write its text")]
#[case::image(json!({ "input": user(&json!([{ "type": "input_image", "image_url": "a" }])) }),
    "input[0].content[0].type: is \"input_image\", and this agent reads text alone; send parts of type \"input_text\"")]
#[case::no_content(json!({ "input": [{ "role": "user" }] }), "input[0].content: is missing; write the message's text")]
#[case::role(json!({ "input": [{ "role": "tool", "content": "a" }] }),
    "input[0].role: \"tool\" is not a role; use \"system\", \"developer\", \"user\" or \"assistant\"")]
#[case::kind(json!({ "input": [{ "type": "web_search_call" }] }),
    "input[0].type: is \"web_search_call\"; send \"message\", \"function_call\", \"function_call_output\" or \"reasoning\"")]
#[case::reference(json!({ "input": [{ "type": "item_reference", "id": "a" }] }),
    "input[0].type: is \"item_reference\", and items have no store of their own; send the item itself, or previous_response_id")]
#[case::no_call(json!({ "input": output("a") }),
    "input[1].call_id: \"a\" names no open function_call before it; send the call too, or the previous_response_id of the \
     response that has it")]
#[case::no_output(json!({ "input": [{ "type": "function_call", "call_id": "a", "name": "f", "arguments": "{}" }] }),
    "input: has no function_call_output for the call \"a\"; send one for each function_call")]
#[case::arguments(json!({ "input": [{ "type": "function_call", "call_id": "a", "name": "f", "arguments": "5" }] }),
    "input[0].arguments: is not an object of JSON")]
#[case::call_id(json!({ "input": [{ "type": "function_call_output", "output": "5" }] }),
    "input[0].call_id: is missing; name the call that it answers")]
#[case::no_question(json!({ "input": [{ "role": "assistant", "content": "Hi." }] }),
    "input: ends with an assistant's message; end with the user's question")]
#[case::instructions(json!({ "input": [{ "role": "developer", "content": "Hi." }] }),
    "input: has instructions only; send at least one message of the user's")]
#[case::limit(json!({ "input": "?", "max_output_tokens": 0 }), "max_output_tokens: is 0; must be at least 1")]
#[case::truncation(json!({ "input": "?", "truncation": "auto" }),
    "truncation: \"auto\" is not supported; send \"disabled\", and a shorter input")]
#[case::background(json!({ "input": "?", "background": true }),
    "background: is not supported; send stream: true, and read the answer as it comes")]
#[case::conversation(json!({ "input": "?", "conversation": "conv_1" }),
    "conversation: is not supported; send previous_response_id, or the whole conversation as input")]
#[case::prompt(json!({ "input": "?", "prompt": { "id": "a" } }),
    "prompt: is not supported; write what it stands for into instructions")]
#[case::tool_calls(json!({ "input": "?", "max_tool_calls": 3 }),
    "max_tool_calls: is not supported; the agent's maxSteps bounds its calls; leave it out")]
#[case::context(json!({ "input": "?", "context_management": [{ "type": "compaction" }] }),
    "context_management: is not supported; the oldest results of tools are left out by themselves; leave the field out")]
#[case::tool_kind(json!({ "input": "?", "tools": [{ "type": "web_search" }] }),
    "tools[0].type: is \"web_search\"; tools that a client brings are of type \"function\"")]
#[case::tool_name(json!({ "input": "?", "tools": [{ "type": "function" }] }),
    "tools[0].name: is missing; give the tool's name and parameters")]
#[case::own_tool(json!({ "input": "?", "tools": [{ "type": "function", "name": "calc" }] }),
    "tools[0].name: \"calc\" is a tool of the agent's; choose another name")]
#[case::choice(json!({ "input": "?", "tools": [weather()], "tool_choice": { "type": "function", "name": "other" } }),
    "tool_choice: \"other\" is none of the tools")]
#[case::format(json!({ "input": "?", "text": { "format": { "type": "xml" } } }),
    "text.format.type: \"xml\" is not a format; send \"text\", \"json_object\" or \"json_schema\"")]
#[case::schema(json!({ "input": "?", "text": { "format": { "type": "json_schema", "name": "a" } } }),
    "text.format.schema: is missing; write a JSON Schema")]
#[case::logprobs(json!({ "input": "?", "top_logprobs": 3 }),
    "include: is not supported: this agent's engine does not report them; leave it out")]
#[tokio::test]
async fn what_cannot_be_honored_names_its_field_and_the_remedy(#[case] body: Value, #[case] message: &str) {
    let answer = create(&qwen([], |_| {}), body).await;
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::BAD_REQUEST, message));
    let field = message.split_once(": ").map(|(field, _)| field);
    assert_eq!(answer.json()["error"]["param"].as_str(), field);
}

#[tokio::test]
async fn an_unknown_previous_response_says_where_responses_are_kept() {
    let answer = create(&sidecar([]), json!({ "input": "?", "previous_response_id": "resp_a" })).await;
    let expected = "previous_response_id: this pod does not keep response \"resp_a\". Those with store: false are not \
                    kept, others for a quarter of an hour, in the pod that gave them. Send the whole conversation as input";
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::BAD_REQUEST, expected));
    assert_eq!(answer.json()["error"]["code"], json!("previous_response_not_found"));
    let other = get(&sidecar([]).app.api(), "/v1/responses/run-a").await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
}
