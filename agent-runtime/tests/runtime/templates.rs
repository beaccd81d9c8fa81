//! Agents whose prompts are written by a checkpoint's chat template: what an engine receives is what transformers would
//! send, and calls are read in the model's dialect.
//!
//! The templates are written for these tests, after the shapes of Qwen3's and Llama 3.1's. `templates/record.py`
//! records what transformers renders.

use std::{
    collections::VecDeque,
    fs,
    sync::{Arc, Mutex},
};

use axum::{Json, Router, extract::State, response::IntoResponse, routing::post as on_post};
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::{
    api::{admission::Readiness, run_names::Seal},
    app::{App, Parts},
    backend::{OpenAi, OpenAiServer},
    clock::Clock,
};
use slipway_runtime_config::{
    ChatTemplate, HttpMethod, HttpTool, Parameter, RuntimeConfig, Sampling, TextDialect, Tool, ToolKind,
};
use tempfile::TempDir;

use crate::fixture::{Answer, Reply, START, calculator, or_hang, post, post_for_events, serve, sidecar_with};

const RECORDED: &str = include_str!("templates/recorded.json");
pub const QWEN3: &str = include_str!("templates/qwen3.jinja");
pub const LLAMA31: &str = include_str!("templates/llama31.jinja");

pub fn checkpoint(template: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("chat_template.jinja"), template).expect("it is written");
    let config = json!({ "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>" });
    fs::write(folder.path().join("tokenizer_config.json"), config.to_string()).expect("it is written");
    let adds_begin = json!({ "single": [{ "SpecialToken": { "id": "<|begin_of_text|>", "type_id": 0 } }] });
    let tokenizer = json!({ "post_processor": { "type": "Sequence", "processors": [adds_begin] } });
    fs::write(folder.path().join("tokenizer.json"), tokenizer.to_string()).expect("it is written");
    folder
}

pub fn use_template(config: &mut RuntimeConfig, folder: &TempDir) {
    let folder = folder.path().to_str().expect("a path is text").to_owned();
    config.chat_template = Some(ChatTemplate { folder, dialect: None });
}

fn order() -> Tool {
    let http = HttpTool {
        method: HttpMethod::Post,
        parameters: ["item", "count"].map(|name| Parameter { name: name.into() }).into(),
        ..HttpTool::new("http://127.0.0.1:9/orders")
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "count": { "type": "integer", "minimum": 1 },
            "item": { "type": "string", "description": "What" },
        },
        "required": ["item"],
    });
    Tool {
        name: "order".into(),
        description: "Orders – \"now\".".into(),
        input_schema: Some(schema),
        kind: ToolKind::Http(http),
    }
}

/// What a stand-in for vLLM's server was asked, and what it says.
#[derive(Default)]
struct StandIn {
    requests: Mutex<Vec<Value>>,
    replies: Mutex<VecDeque<String>>,
}

async fn complete(State(server): State<Arc<StandIn>>, Json(request): Json<Value>) -> impl IntoResponse {
    let is_streamed = request["stream"] == json!(true);
    server.requests.lock().expect("no test panics with the lock").push(request);
    let reply = server.replies.lock().expect("no test panics with the lock").pop_front().expect("a reply");
    let chunk = json!({
        "choices": [{ "index": 0, "text": reply, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 9, "completion_tokens": 7 },
    });
    match is_streamed {
        true => ([("content-type", "text/event-stream")], format!("data: {chunk}\n\ndata: [DONE]\n\n")),
        false => ([("content-type", "application/json")], chunk.to_string()),
    }
}

/// Asks an agent of two tools, and returns the answer and what its engine was asked.
async fn ask(of: OpenAiServer, template: &str, replies: &[&str]) -> (Answer, Vec<Value>) {
    let folder = checkpoint(template);
    let server = Arc::new(StandIn::default());
    server.replies.lock().expect("nobody else has it").extend(replies.iter().map(|reply| (*reply).to_owned()));
    let router = Router::new().route("/v1/completions", on_post(complete)).with_state(Arc::clone(&server));
    let endpoint = serve(router).await;
    let mut config = RuntimeConfig::new("support", "support-1", &endpoint);
    config.engine.dialect = TextDialect::OpenAi;
    config.system_prompt = "Be brief.\nUse tools.".into();
    config.sampling = Sampling { temperature_thousandths: Some(600), top_k: Some(20), ..Sampling::default() };
    config.tools = vec![calculator(), order()];
    use_template(&mut config, &folder);
    config.validate().expect("the test's configuration is valid");
    let backend = Arc::new(OpenAi::new(of, &endpoint, "agent").expect("the endpoint is a URL"));
    let (clock, _time) = Clock::manual(START);
    let app = App::new(Parts { config, pod: "support-1-x".into(), backend, clock, seal: Seal::new(|number| number) });
    let app = app.expect("the template is usable");
    app.admission().set_readiness(Readiness::Ready);
    let messages = json!([
        { "role": "user", "content": "Hi" },
        { "role": "assistant", "content": "Hello!" },
        { "role": "user", "content": "What is\n\n  17*23 and 2+2?" },
    ]);
    let request = json!({ "model": "support", "messages": messages, "temperature": 0.7, "seed": 5 });
    let answer = or_hang(post(&app.api(), "/v1/chat/completions", request)).await;
    let requests = server.requests.lock().expect("no test panics with the lock").clone();
    (answer, requests)
}

fn request(prompt: &Value) -> Value {
    json!({
        "model": "agent", "prompt": prompt, "max_tokens": 256, "temperature": 0.7, "top_k": 20, "seed": 5,
        "stream": false, "skip_special_tokens": false, "add_special_tokens": false,
    })
}

#[tokio::test]
async fn a_model_of_qwen3_sees_its_tools_thoughts_and_results_as_transformers_writes_them() {
    let calls = "<think>\nTwo products.\n</think>\n\nLet me see.\n\
        <tool_call>\n{\"name\": \"calc\", \"arguments\": {\"expression\": \"17*23\"}}\n</tool_call>\n\
        <tool_call>\n{\"name\": \"calc\", \"arguments\": {\"expression\": \"2+2\"}}\n</tool_call>";
    let last = "<think>\n\n</think>\n\n391 and 4.\n\n| a | b |\n|---|---|\n";
    let (answer, requests) = ask(OpenAiServer::Vllm, QWEN3, &[calls, last]).await;
    let recorded: Value = serde_json::from_str(RECORDED).expect("it is JSON");
    assert_eq!(requests, [request(&recorded["qwen3"][0]), request(&recorded["qwen3"][1])]);
    let said = "Let me see.\n\n391 and 4.\n\n| a | b |\n|---|---|";
    assert_eq!(answer.json()["choices"][0]["message"]["content"], said);
}

#[tokio::test]
async fn a_model_of_llama_makes_its_calls_one_after_the_other() {
    let calls = "{\"name\": \"calc\", \"parameters\": {\"expression\": \"17*23\"}}; \
        {\"name\": \"calc\", \"parameters\": {\"expression\": \"2+2\"}}";
    let (answer, requests) = ask(OpenAiServer::Vllm, LLAMA31, &[calls, "391 and 4."]).await;
    let recorded: Value = serde_json::from_str(RECORDED).expect("it is JSON");
    assert_eq!(requests, [request(&recorded["llama31"][0]), request(&recorded["llama31"][1])]);
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "391 and 4.");
}

#[tokio::test]
async fn a_server_that_begins_every_prompt_itself_gets_no_second_beginning() {
    let (_, requests) = ask(OpenAiServer::SgLang, LLAMA31, &["391 and 4."]).await;
    let recorded: Value = serde_json::from_str(RECORDED).expect("it is JSON");
    let whole = recorded["llama31"][0].as_str().expect("a text");
    assert_eq!(requests[0]["prompt"].as_str(), whole.strip_prefix("<|begin_of_text|>"));
}

/// Asks an agent with Qwen3's template and the two tools.
async fn ask_qwen(replies: Vec<Reply>) -> (Answer, Vec<String>) {
    let folder = checkpoint(QWEN3);
    let sidecar = sidecar_with(replies, |config| {
        config.tools = vec![calculator(), order()];
        use_template(config, &folder);
    });
    let answer = or_hang(post(&sidecar.app.api(), "/v1/runs", json!({ "input": "2+2?" }))).await;
    (answer, sidecar.engine.prompts())
}

const GOOD: &str = "<tool_call>\n{\"name\": \"calc\", \"arguments\": {\"expression\": \"2+2\"}}\n</tool_call>";
const UNKNOWN: &str = "<tool_call>\n{\"name\": \"calculate\", \"arguments\": {}}\n</tool_call>";

#[rstest]
#[case::unknown(UNKNOWN, "unknown tool \"calculate\"; the tools are calc, order")]
#[case::of_another_type(
    "<tool_call>{\"name\": \"order\", \"arguments\": {\"item\": \"nut\", \"count\": \"two\"}}</tool_call>",
    "the arguments of \"order\" do not fit: count is \"two\"; it must be an integer"
)]
#[case::missing(
    "<tool_call>{\"name\": \"order\"}</tool_call>",
    "the arguments of \"order\" do not fit: item is missing"
)]
#[case::malformed(
    "<tool_call>{\"name\": \"calc\",}</tool_call>",
    "the call is not valid JSON; write one object with its name and arguments"
)]
#[tokio::test]
async fn a_call_with_mistakes_is_told_to_the_model_once(#[case] bad: &'static str, #[case] problem: &str) {
    let (answer, prompts) = ask_qwen(vec![Reply::Spells(bad), Reply::Says(GOOD), Reply::Says("It is 4.")]).await;
    assert_eq!(answer.json()["answer"], "It is 4.");
    let told = format!(
        "<|im_start|>assistant\n{bad}<|im_end|>\n<|im_start|>user\nYour call was not made: {problem}. Correct it, or \
         answer without a tool.<|im_end|>\n<|im_start|>assistant\n"
    );
    assert!(prompts[1].ends_with(&told), "{}", prompts[1]);
    assert!(prompts[2].contains("<tool_response>\n4\n</tool_response>"), "{}", prompts[2]);
}

#[tokio::test]
async fn a_second_call_with_mistakes_ends_the_run() {
    let (answer, prompts) = ask_qwen(vec![Reply::Says(UNKNOWN), Reply::Says(UNKNOWN)]).await;
    let expected = "the model's output in step 2 cannot be read: its calls have mistakes: unknown tool \"calculate\"; \
        the tools are calc, order";
    assert_eq!((answer.status.as_u16(), prompts.len()), (502, 2));
    assert_eq!(answer.json()["error"]["message"], expected);
}

#[rstest]
#[case::thoughts_alone(
    Reply::Says("<think>Hm.</think>"),
    "the model's output in step 1 cannot be read: it wrote nothing"
)]
#[case::cut_thoughts(
    Reply::IsCutOff("<think>Hm."),
    "the model's output in step 1 cannot be read: its thoughts were cut off by the limit on tokens; raise maxOutputTokens"
)]
#[case::cut_call(
    Reply::IsCutOff("<tool_call>{\"name\""),
    "the model's output in step 1 cannot be read: its actions were cut off by the limit on tokens"
)]
#[tokio::test]
async fn a_turn_without_text_or_calls_says_why(#[case] reply: Reply, #[case] expected: &str) {
    let (answer, _) = ask_qwen(vec![reply]).await;
    assert_eq!(answer.json()["error"]["message"], expected);
}

#[tokio::test]
async fn labels_of_other_grammars_and_blank_lines_are_text() {
    let text = "Question: why?\n\nFinal Answer: 4\n\nAction: none[]";
    let (answer, _) = ask_qwen(vec![Reply::Spells("Question: why?\n\nFinal Answer: 4\n\nAction: none[]\n\n")]).await;
    assert_eq!(answer.json()["answer"], text);
}

#[tokio::test]
async fn the_parts_of_a_streamed_answer_are_the_answer() {
    let folder = checkpoint(QWEN3);
    let replies = vec![
        Reply::Spells(
            "Let me see.\n\n<tool_call>{\"name\": \"calc\", \"arguments\": {\"expression\": \"1+1\"}}</tool_call>",
        ),
        Reply::Spells("<think>Easy.</think>\n\nIt is\n\n2.\n"),
    ];
    let sidecar = sidecar_with(replies, |config| use_template(config, &folder));
    let answer = or_hang(post_for_events(&sidecar.app.api(), "/v1/runs", json!({ "input": "1+1?" }))).await;
    let events = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = events.map(|data| serde_json::from_str(data).expect("an event is JSON")).collect();
    let parts: String = events
        .iter()
        .filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT")
        .filter_map(|event| event["delta"].as_str())
        .collect();
    assert_eq!(parts, "Let me see.It is\n\n2.");
    assert_eq!(events.last().expect("the run's end")["result"]["answer"], "Let me see.\n\nIt is\n\n2.");
}

#[tokio::test]
async fn a_template_without_tools_or_instructions_gets_both_in_the_question() {
    let folder = checkpoint(
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}\
         <{{ m.role }}>{{ m.content }}{% endfor %}<model>",
    );
    let replies = vec![Reply::Says("{\"name\": \"calc\", \"arguments\": {\"expression\": \"1+1\"}}"), Reply::Says("2")];
    let sidecar = sidecar_with(replies, |config| use_template(config, &folder));
    let answer = or_hang(post(&sidecar.app.api(), "/v1/runs", json!({ "input": "1+1?" }))).await;
    assert_eq!(answer.json()["answer"], "2");
    let prompts = sidecar.engine.prompts();
    assert!(prompts[0].starts_with("<user>You may call these tools, given as JSON:\n[{\"type\": \"function\""));
    assert!(prompts[0].ends_with("\n\n1+1?<model>"), "{}", prompts[0]);
    let results =
        "<assistant>{\"name\": \"calc\", \"arguments\": {\"expression\": \"1+1\"}}<user>Result of calc: 2<model>";
    assert!(prompts[1].ends_with(results), "{}", prompts[1]);
}

/// A template that writes messages so, and calls of the assistant's so.
fn writing(content: &str, calls: &str) -> String {
    format!(
        "{{# tools <tool_call> </tool_call> #}}{{% for m in messages %}}<{{{{ m.role }}}}>{content}\
         {{% for c in m.tool_calls or [] %}}{calls}{{% endfor %}}{{% endfor %}}<model>"
    )
}

const AS_OBJECT: &str = "{{ c.function.name }}{{ c.function.arguments | tojson }}";

/// Templates differ in what they take of a turn with calls. The first is as Qwen3's own, the third and the fourth are
/// as those of DeepSeek R1.
#[rstest]
#[case::texts_alone(
    writing("{{ m.content.strip() }}", AS_OBJECT),
    "",
    "<assistant>calc{\"expression\": \"2+2\"}<tool>4<model>"
)]
#[case::the_word_for_nothing(
    writing("{{ m.content }}", AS_OBJECT),
    "",
    "<assistant>calc{\"expression\": \"2+2\"}<tool>4<model>"
)]
#[case::arguments_as_a_text(
    writing("{{ m.content or '' }}", "{{ c.function.name + '=' + c.function.arguments }}"),
    "",
    "<assistant>calc={\"expression\": \"2+2\"}<tool>4<model>"
)]
#[case::no_text_beside_calls(
    writing("{{ m.content or '' }}", "{% if m.content is none %}{{ c.function.arguments | tojson }}{% endif %}"),
    "Let me see.\n",
    "<assistant>{\"expression\": \"2+2\"}<tool>4<model>"
)]
#[case::a_text_beside_calls(
    writing("{{ m.content or '' }}", AS_OBJECT),
    "Let me see.\n",
    "<assistant>Let me see.calc{\"expression\": \"2+2\"}<tool>4<model>"
)]
#[case::no_results(
    writing("{% if m.role == 'tool' %}{{ raise_exception('no') }}{% endif %}{{ m.content or '' }}", AS_OBJECT),
    "",
    "\n</tool_call><user>Result of calc: 4<model>"
)]
#[tokio::test]
async fn a_template_is_given_calls_as_it_takes_them(#[case] template: String, #[case] text: &str, #[case] end: &str) {
    let folder = checkpoint(&template);
    let turn: &'static str = format!("{text}{GOOD}").leak();
    let sidecar = sidecar_with([Reply::Says(turn), Reply::Says("It is 4.")], |config| use_template(config, &folder));
    let answer = or_hang(post(&sidecar.app.api(), "/v1/runs", json!({ "input": "2+2?" }))).await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.body);
    let prompts = sidecar.engine.prompts();
    assert!(prompts[1].ends_with(end), "{}", prompts[1]);
}

/// Like those of DeepSeek R1's distillations, which write calls in marks but show no tools.
#[tokio::test]
async fn calls_that_instructions_ask_for_are_read_in_their_form() {
    let folder = checkpoint(
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{# <｜tool▁calls▁begin｜> #}<model>",
    );
    let replies = vec![Reply::Says("{\"name\": \"calc\", \"arguments\": {\"expression\": \"1+1\"}}"), Reply::Says("2")];
    let sidecar = sidecar_with(replies, |config| use_template(config, &folder));
    let answer = or_hang(post(&sidecar.app.api(), "/v1/runs", json!({ "input": "1+1?" }))).await;
    assert_eq!(answer.json()["answer"], "2");
    assert!(sidecar.engine.prompts()[1].ends_with("<user>Result of calc: 2<model>"));
}

#[tokio::test]
async fn a_conversation_that_the_template_refuses_is_the_clients() {
    let folder = checkpoint("{% if messages[0].content == 'no' %}{{ raise_exception('say yes') }}{% endif %}text");
    let sidecar = sidecar_with([], |config| {
        config.tools.clear();
        use_template(config, &folder);
    });
    let answer = or_hang(post(&sidecar.app.api(), "/v1/runs", json!({ "input": "no" }))).await;
    assert_eq!(answer.status.as_u16(), 400);
    assert_eq!(answer.error(), "messages: the model's chat template refuses the conversation: say yes");
}

#[rstest]
#[case::malformed(
    "{% if %}",
    "failed to read the chat template of the checkpoint: failed to compile the chat template \
    \"default\" of the checkpoint: the chat template is malformed at line 1: unexpected end of block"
)]
#[case::always_fails(
    "{{ raise_exception('never') }}",
    "failed to set up the chat template of the checkpoint: the chat \
    template of the checkpoint renders no conversation: the model's chat template refuses the conversation: never"
)]
fn a_broken_template_is_told_at_the_start(#[case] template: &str, #[case] expected: &str) {
    let folder = checkpoint(template);
    let mut config = RuntimeConfig::new("support", "support-1", "http://127.0.0.1:8001");
    use_template(&mut config, &folder);
    let (clock, _time) = Clock::manual(START);
    let backend =
        Arc::new(OpenAi::new(OpenAiServer::Vllm, "http://127.0.0.1:1", "agent").expect("the endpoint is a URL"));
    let parts = Parts { config, pod: "x".into(), backend, clock, seal: Seal::new(|number| number) };
    let error = App::new(parts).err().expect("the template is broken");
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    assert_eq!(causes.map(ToString::to_string).collect::<Vec<_>>().join(": "), expected);
}

#[tokio::test]
async fn a_checkpoint_without_a_template_has_the_transcript() {
    let folder = tempfile::tempdir().expect("a folder");
    let sidecar = sidecar_with([Reply::Says("Answer: 4\n\n")], |config| use_template(config, &folder));
    let answer = or_hang(post(&sidecar.app.api(), "/v1/runs", json!({ "input": "2+2?" }))).await;
    assert_eq!(answer.json()["answer"], "4");
    assert_eq!(sidecar.engine.prompts(), ["Question: 2+2?\n"]);
}
