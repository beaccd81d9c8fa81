//! What stock clients ask of a chat completion beside an answer: tools of their own, formats, stops, probabilities.

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_runtime_config::{
    LatencyMetric, LatencyObjective, Percentile, RuntimeConfig, TextDialect, ToolCallDialect,
};

use crate::{
    fixture::{Answer, Reply, Sidecar, get, or_hang, post, sidecar, sidecar_with},
    templates::{QWEN3, checkpoint, use_template},
};

const PATH: &str = "/v1/chat/completions";
pub const CALL: &str =
    "Let me look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>";
pub const SUM: &str = "<tool_call>{\"name\": \"calc\", \"arguments\": {\"expression\": \"2+2\"}}</tool_call>";

/// A sidecar whose prompts Qwen3's template writes.
pub fn qwen(replies: impl IntoIterator<Item = Reply>, change: impl FnOnce(&mut RuntimeConfig)) -> Sidecar {
    let folder = checkpoint(QWEN3);
    sidecar_with(replies, |config| {
        use_template(config, &folder);
        change(config);
    })
}

fn weather() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    json!({ "type": "function", "function": { "name": "weather", "description": "Of a city.", "parameters": parameters } })
}

/// A question with further fields.
fn question(more: &Value) -> Value {
    let mut request = json!({ "model": "support", "messages": [{ "role": "user", "content": "Sun?" }] });
    for (field, value) in more.as_object().expect("an object") {
        request[field] = value.clone();
    }
    request
}

async fn ask(sidecar: &Sidecar, more: Value) -> Answer {
    or_hang(post(&sidecar.app.api(), PATH, question(&more))).await
}

fn choice(answer: &Answer) -> Value {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    answer.json()["choices"][0].clone()
}

fn chunks(answer: &Answer) -> Vec<Value> {
    let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).expect("a chunk is JSON")).collect()
}

#[tokio::test]
async fn a_call_of_a_clients_tool_ends_the_run_and_its_result_continues_it() {
    let sidecar = qwen([Reply::Spells(CALL), Reply::Says("It is sunny.")], |_| {});
    let tools = json!({ "tools": [weather()] });
    let first = choice(&ask(&sidecar, tools.clone()).await);
    assert_eq!((&first["finish_reason"], &first["message"]["content"]), (&json!("tool_calls"), &json!("Let me look.")));
    let call = first["message"]["tool_calls"][0].clone();
    assert_eq!(call["function"], json!({ "name": "weather", "arguments": "{\"city\":\"Paris\"}" }));
    let mut request = question(&tools);
    let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": "sunny" });
    request["messages"].as_array_mut().expect("a list").extend([first["message"].clone(), result]);
    let last = choice(&or_hang(post(&sidecar.app.api(), PATH, request)).await);
    assert_eq!((&last["message"]["content"], &last["finish_reason"]), (&json!("It is sunny."), &json!("stop")));
    let prompts = sidecar.engine.prompts();
    assert!(prompts[0].contains("\"name\": \"weather\", \"description\": \"Of a city.\""), "{}", prompts[0]);
    assert!(prompts[0].contains("\"name\": \"calc\""), "the agent's own tools are there too: {}", prompts[0]);
    assert!(prompts[1].contains("{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}"), "{}", prompts[1]);
    assert!(prompts[1].contains("<tool_response>\nsunny\n</tool_response>"), "{}", prompts[1]);
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_runs_total{outcome=\"answered\"} 2"), "{metrics}");
}

#[tokio::test]
async fn json_behind_text_calls_a_tool_of_the_run_and_no_other() {
    const OF_NO_TOOL: &str = "Such as:\n{\"name\": \"storm\", \"parameters\": {}}";
    const OF_THE_CLIENT: &str = "Let me look.\n{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}";
    let sidecar = qwen([Reply::Spells(OF_NO_TOOL), Reply::Spells(OF_THE_CLIENT)], |config| {
        config.chat_template.as_mut().expect("it has one").dialect = Some(ToolCallDialect::Llama3Json);
    });
    let tools = json!({ "tools": [weather()] });
    let text = choice(&ask(&sidecar, tools.clone()).await);
    assert_eq!((&text["finish_reason"], &text["message"]["content"]), (&json!("stop"), &json!(OF_NO_TOOL)));
    let called = choice(&ask(&sidecar, tools).await);
    assert_eq!(
        (&called["finish_reason"], &called["message"]["content"]),
        (&json!("tool_calls"), &json!("Let me look."))
    );
    let function = &called["message"]["tool_calls"][0]["function"];
    assert_eq!(function, &json!({ "name": "weather", "arguments": "{\"city\":\"Paris\"}" }));
}

#[tokio::test]
async fn a_streamed_call_comes_in_one_chunk_before_the_reason() {
    let sidecar = qwen([Reply::Spells(CALL)], |_| {});
    let all = chunks(&ask(&sidecar, json!({ "tools": [weather()], "stream": true })).await);
    let call = all[all.len() - 2]["choices"][0]["delta"]["tool_calls"][0].clone();
    assert_eq!((&call["index"], &call["function"]["name"]), (&json!(0), &json!("weather")));
    assert_eq!(all[all.len() - 1]["choices"][0]["finish_reason"], json!("tool_calls"));
}

#[tokio::test]
async fn tools_of_the_agent_run_first_and_beside_those_of_the_client() {
    let both: &'static str = Box::leak(format!("{SUM}\n{CALL}").into_boxed_str());
    let sidecar = qwen([Reply::Says(both), Reply::Says(CALL)], |_| {});
    let first = choice(&ask(&sidecar, json!({ "tools": [weather()] })).await);
    assert_eq!(first["message"]["tool_calls"].as_array().map(Vec::len), Some(1));
    assert!(sidecar.engine.prompts()[1].contains("<tool_response>\n4\n</tool_response>"));
}

#[rstest]
#[case::none(json!("none"), false)]
#[case::auto(json!("auto"), true)]
#[case::named(json!({ "type": "function", "function": { "name": "weather" } }), true)]
#[tokio::test]
async fn the_model_sees_the_tools_that_the_client_chose(#[case] tool_choice: Value, #[case] is_shown: bool) {
    let sidecar = qwen([Reply::Says(CALL), Reply::Says("No.")], |_| {});
    ask(&sidecar, json!({ "tools": [weather()], "tool_choice": tool_choice })).await;
    assert_eq!(sidecar.engine.prompts()[0].contains("Of a city."), is_shown);
}

#[tokio::test]
async fn a_model_that_has_to_call_is_told_once_and_then_the_request_is_unmet() {
    let required = json!({ "tools": [weather()], "tool_choice": "required" });
    let sidecar = qwen([Reply::Says("Hm."), Reply::Says(CALL)], |_| {});
    assert_eq!(choice(&ask(&sidecar, required.clone()).await)["finish_reason"], json!("tool_calls"));
    assert!(sidecar.engine.prompts()[1].contains("You have to call a tool. Call one of weather now."));
    let sidecar = qwen([Reply::Says("Hm."), Reply::Says("Hm.")], |_| {});
    let answer = ask(&sidecar, required).await;
    let expected =
        "the model did not do in step 2 what the request asks for: it called no tool, which tool_choice demands";
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::UNPROCESSABLE_ENTITY, expected));
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    assert!(metrics.contains("slipway_runs_total{outcome=\"cancelled\"} 1"), "no failure of the agent's: {metrics}");
}

#[tokio::test]
async fn one_call_is_handed_back_where_the_client_takes_one() {
    let two: &'static str = Box::leak(format!("{CALL}\n{CALL}").into_boxed_str());
    let sidecar = qwen([Reply::Says(two)], |_| {});
    let message = choice(&ask(&sidecar, json!({ "tools": [weather()], "parallel_tool_calls": false })).await);
    assert_eq!(message["message"]["tool_calls"].as_array().map(Vec::len), Some(1));
}

fn city() -> Value {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "population": { "type": "integer" } },
        "required": ["name", "population"],
        "additionalProperties": false,
    });
    json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "city", "schema": schema } } })
}

pub const PARIS: &str = "{\"name\": \"Paris\", \"population\": 2100000}";

#[tokio::test]
async fn an_answer_in_another_format_is_written_again() {
    let fenced = "```json\n{\"name\": \"Paris\", \"population\": 2100000}\n```";
    let sidecar = qwen([Reply::Spells("Paris, of course."), Reply::Spells(fenced)], |_| {});
    let all = chunks(
        &ask(&sidecar, {
            let mut more = city();
            more["stream"] = json!(true);
            more
        })
        .await,
    );
    let text: String = all.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, PARIS, "nothing of the first answer was handed out");
    let prompts = sidecar.engine.prompts();
    assert!(prompts[0].contains("It must fit this JSON Schema:\n{\"additionalProperties\":false"), "{}", prompts[0]);
    let told = "Your answer has a mistake: it is not JSON alone. Write it again, as JSON alone.";
    assert!(prompts[1].contains(told), "{}", prompts[1]);
}

#[rstest]
#[case::of_a_schema(city(), "{\"name\": 5}", "population is missing")]
#[case::of_any_object(json!({ "response_format": { "type": "json_object" } }), "[1]", "it is not an object of JSON")]
#[tokio::test]
async fn a_second_answer_in_another_format_ends_the_run(
    #[case] format: Value,
    #[case] bad: &'static str,
    #[case] problem: &str,
) {
    let sidecar = qwen([Reply::Says(bad), Reply::Says(bad)], |_| {});
    let answer = ask(&sidecar, format).await;
    let expected = format!(
        "the model did not do in step 2 what the request asks for: its answer does not fit response_format: {problem}"
    );
    assert_eq!((answer.status, answer.error()), (StatusCode::UNPROCESSABLE_ENTITY, expected));
    assert_eq!(answer.json()["error"]["code"], json!("request_unmet"));
}

#[tokio::test]
async fn an_engine_that_can_is_held_to_the_format_where_the_turn_is_the_answer() {
    let guided = |sidecar: &Sidecar| {
        let mut found = None;
        sidecar.engine.look(|state| found = Some(state.generations.iter().map(|one| one.guide.is_some()).collect()));
        found.unwrap_or_else(Vec::new)
    };
    let own_server = |config: &mut RuntimeConfig| config.engine.dialect = TextDialect::OpenAi;
    let alone = qwen([Reply::Spells(PARIS)], |config| {
        own_server(config);
        config.tools.clear();
    });
    let first = choice(&ask(&alone, city()).await);
    assert_eq!((first["message"]["content"].as_str(), guided(&alone)), (Some(PARIS), vec![true]));
    // With tools the model may want one first; what it writes again can only be the answer.
    let with_tools = qwen([Reply::Says("Paris."), Reply::Says(PARIS)], own_server);
    choice(&ask(&with_tools, city()).await);
    assert_eq!(guided(&with_tools), [false, true]);
}

#[rstest]
#[case::a_chat(true, "Answer on STOP and")]
#[case::a_transcript(false, "Answer: on STOP and")]
#[tokio::test]
async fn an_answer_ends_at_the_clients_stop(#[case] is_chat: bool, #[case] said: &'static str) {
    let sidecar = if is_chat { qwen([Reply::Spells(said)], |_| {}) } else { sidecar([Reply::Spells(said)]) };
    let all = chunks(&ask(&sidecar, json!({ "stop": "STOP", "stream": true })).await);
    let text: String = all.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text.trim_end(), if is_chat { "Answer on" } else { "on" });
    assert_eq!(all.last().expect("a chunk")["choices"][0]["finish_reason"], json!("stop"));
    or_hang(sidecar.engine.until(|engine| engine.cancelled == 1)).await;
}

/// Thus neither the engine nor the sidecar has work for each token.
#[rstest]
#[case::nobody_looks_before_the_end(json!({}), None, true)]
#[case::the_client_does(json!({ "stream": true }), None, false)]
#[case::an_objective_does(json!({}), Some(LatencyMetric::RequestTimeToFirstToken), false)]
#[case::of_another_latency(json!({}), Some(LatencyMetric::AgentRunLatency), true)]
#[tokio::test]
async fn turns_are_asked_for_as_one_where_nobody_looks_before_their_end(
    #[case] more: Value,
    #[case] metric: Option<LatencyMetric>,
    #[case] expected: bool,
) {
    let objective = |metric| LatencyObjective {
        name: "objective".into(),
        metric,
        percentile: Percentile::P95,
        max_microseconds: 1_000_000,
    };
    let replies = [Reply::Says(SUM), Reply::Says("4")];
    let sidecar = qwen(replies, |config| config.objectives = metric.map(objective).into_iter().collect());
    sidecar.engine.can_send_whole();
    assert_eq!(ask(&sidecar, more).await.status, StatusCode::OK);
    let mut found = Vec::new();
    sidecar.engine.look(|state| found = state.generations.iter().map(|one| one.wants_whole).collect());
    assert_eq!(found, [expected; 2]);
}

/// A transcript's turn ends at an empty line, where an engine may go on.
#[tokio::test]
async fn turns_of_a_transcript_are_asked_for_as_streams() {
    let sidecar = sidecar([Reply::Says("Answer: 4\n\n")]);
    sidecar.engine.can_send_whole();
    assert_eq!(ask(&sidecar, json!({})).await.status, StatusCode::OK);
    sidecar.engine.look(|state| assert!(!state.generations[0].wants_whole));
}

#[tokio::test]
async fn thoughts_are_told_apart_and_counted() {
    let reply = || Reply::Spells("<think>\nHm, easy.\n</think>\n\nYes.");
    let sidecar = qwen([reply(), reply()], |_| {});
    let whole = ask(&sidecar, json!({})).await;
    let message = choice(&whole)["message"].clone();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Hm, easy."), &json!("Yes.")));
    let thought = whole.json()["usage"]["completion_tokens_details"]["reasoning_tokens"].as_u64();
    assert!(thought.is_some_and(|tokens| tokens >= 9), "{thought:?}");
    let all = chunks(&ask(&sidecar, json!({ "stream": true })).await);
    let of = |field: &str| -> String {
        all.iter().filter_map(|chunk| chunk["choices"][0]["delta"][field].as_str()).collect()
    };
    assert_eq!((of("reasoning_content").as_str(), of("content").as_str()), ("Hm, easy.", "Yes."));
}

#[tokio::test]
async fn what_came_as_one_has_a_latency_and_no_first_token() {
    let sidecar = qwen([Reply::SaysAsOne("<think>\nHm, easy.\n</think>\n\nYes.")], |_| {});
    sidecar.engine.can_send_whole();
    let whole = ask(&sidecar, json!({})).await;
    let message = choice(&whole)["message"].clone();
    assert_eq!((&message["reasoning_content"], &message["content"]), (&json!("Hm, easy."), &json!("Yes.")));
    // A share of the tokens, of which the thoughts have 11 bytes of 32.
    assert_eq!(whole.json()["usage"]["completion_tokens_details"]["reasoning_tokens"], json!(11));
    let metrics = get(&sidecar.app.admin(), "/metrics").await.body;
    let count = |name: &str| metrics.lines().find(|line| line.starts_with(&format!("{name}_count"))).map(str::to_owned);
    assert_eq!(
        count("slipway_run_time_to_first_token_seconds").as_deref().map(|line| line.ends_with(" 0")),
        Some(true)
    );
    assert_eq!(count("gen_ai_client_operation_time_to_first_chunk_seconds"), None);
    assert!(count("gen_ai_client_operation_duration_seconds").is_some_and(|line| line.ends_with(" 1")), "{metrics}");
}

#[rstest]
#[case::own(json!([{ "type": "function", "function": { "name": "calc" } }]),
    "tools[0].function.name: \"calc\" is a tool of the agent's; choose another name")]
#[case::twice(json!([weather(), weather()]),
    "tools[1].function.name: \"weather\" is there twice; give each tool a name of its own")]
#[case::name(json!([{ "type": "function", "function": { "name": "a b" } }]),
    "tools[0].function.name: \"a b\" is not a name; use 1 to 64 letters, digits, '_', '-' and '.'")]
#[case::kind(json!([{ "type": "web_search" }]),
    "tools[0].type: is \"web_search\"; tools that a client brings are of type \"function\"")]
#[case::no_kind(json!([{ "type": null, "function": { "name": "a" } }]),
    "tools[0].type: is missing; tools that a client brings are of type \"function\"")]
#[case::nothing(json!([{ "type": "function" }]), "tools[0].function: is missing; give the tool's name and parameters")]
#[case::schema(json!([{ "type": "function", "function": { "name": "a", "parameters": 5 } }]),
    "tools[0].function.parameters: is not an object; write the JSON Schema of the tool's arguments")]
#[tokio::test]
async fn a_tool_that_cannot_be_offered_names_the_field(#[case] tools: Value, #[case] message: &str) {
    let answer = ask(&qwen([], |_| {}), json!({ "tools": tools })).await;
    assert_eq!((answer.status, answer.error().as_str()), (StatusCode::BAD_REQUEST, message));
}

#[rstest]
#[case::keyword(json!({ "type": "string", "pattern": "a" }), "response_format.json_schema.schema: schema.pattern is not supported")]
#[case::recursive(json!({ "$ref": "#" }), "response_format.json_schema.schema: schema.$ref refers to \"#\", which contains it")]
#[case::missing(Value::Null, "response_format.json_schema.schema: is missing; write a JSON Schema")]
#[tokio::test]
async fn a_schema_that_nothing_can_check_names_the_keyword(#[case] schema: Value, #[case] message: &str) {
    let format = json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema } });
    let answer = ask(&qwen([], |_| {}), json!({ "response_format": format })).await;
    let error = answer.error();
    assert_eq!((answer.status, error.starts_with(message)), (StatusCode::BAD_REQUEST, true), "{error}");
}

#[tokio::test]
async fn a_choice_of_no_tool_names_the_field() {
    let named = json!({ "type": "function", "function": { "name": "other" } });
    let sidecar = qwen([], |_| {});
    let answer = ask(&sidecar, json!({ "tools": [weather()], "tool_choice": named })).await;
    assert_eq!(answer.error(), "tool_choice: \"other\" is none of the tools");
    let answer = ask(&sidecar, json!({ "tools": [weather()], "tool_choice": "sometimes" })).await;
    assert!(answer.error().starts_with("tool_choice: is \"sometimes\"; send \"auto\""), "{}", answer.error());
}
