//! Tools of MCP servers, against a server of either revision.

pub mod server;
mod stdio;

use std::{fs, sync::Arc};

use axum::http::StatusCode;
use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;
use slipway_agent_runtime::{
    app::Listeners,
    outbound::Lookup,
    tools::{Registry, Request, Sources},
};
use slipway_runtime_config::{McpServer, Tool, ToolKind};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, yield_now},
};
use tokio_util::sync::CancellationToken;

use crate::fixture::{Reply, get, or_hang, post, sidecar_with};
use server::{Fake, Revision, Seen, call_of, weather};

type Answer = Result<String, (&'static str, String)>;

/// The tools of an agent with servers, which are kept listed.
struct Agent {
    tools: Arc<Registry>,
    /// How many catalogs were taken.
    taken: watch::Receiver<usize>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Agent {
    fn start(tools: &[Tool], servers: &[McpServer]) -> Self {
        let sources = Sources { tools, servers, lookup: &Lookup::of_system() };
        let tools = Arc::new(Registry::of(sources).expect("the tools can be set up"));
        let (take, taken) = watch::channel(0);
        let stop = CancellationToken::new();
        let (registry, until) = (Arc::clone(&tools), stop.clone());
        let count = move |_: &_| {
            take.send_modify(|taken| *taken += 1);
            Ok(())
        };
        let task = tokio::spawn(async move { registry.watch(count, until).await });
        Self { tools, taken, stop, task }
    }

    /// With the tools of one server, once they are known.
    async fn of(server: &Fake, change: impl FnOnce(&mut McpServer)) -> Self {
        let mut config = McpServer::new("home", &server.url);
        change(&mut config);
        let mut this = Self::start(&[], &[config]);
        this.until_taken(1).await;
        this
    }

    async fn until_taken(&mut self, times: usize) {
        or_hang(self.taken.wait_for(|taken| *taken >= times)).await.expect("the watch lives");
        // A catalog counts once it was taken.
        or_hang(async {
            while self.tools.missing().is_some() || self.names().is_empty() {
                yield_now().await
            }
        })
        .await;
    }

    fn names(&self) -> Vec<String> {
        self.tools.catalog().names.iter().cloned().collect()
    }

    async fn call(&self, name: &str, input: &str) -> Answer {
        or_hang(self.tools.call(Request::new(name, input))).await.map_err(|error| (error.kind(), error.observation()))
    }

    async fn until_named(&self, names: &[&str]) {
        or_hang(async {
            while self.names() != names {
                yield_now().await
            }
        })
        .await;
    }

    /// Why its tools are not known.
    async fn until_missing(&self, words: &str) {
        or_hang(async {
            while !self.tools.missing().is_some_and(|why| why.contains(words)) {
                yield_now().await
            }
        })
        .await;
    }

    async fn end(self) {
        self.stop.cancel();
        or_hang(self.task).await.expect("no panic");
    }
}

#[tokio::test]
async fn a_server_without_handshake_is_told_everything_with_each_request() {
    let server = Fake::new(Revision::Modern).await;
    server.set_tools(&[&[weather()], &[json!({ "name": "clock.now", "inputSchema": { "type": "object" } })]]);
    let secret = tempfile::tempdir().expect("a temporary directory can be made");
    fs::write(secret.path().join("x-api-key"), "secret\n").expect("the file is written");
    let folder = secret.path().to_str().expect("the path is text").to_owned();
    let agent = Agent::of(&server, |config| config.headers_from = Some(folder)).await;
    assert_eq!(agent.names(), ["home_clock_now", "home_weather"]);
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern", "days": 3}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
    let seen = server.seen();
    let headers = |name: &str| seen.iter().map(|seen| seen.header(name)).collect::<Vec<_>>();
    assert_eq!(
        headers("mcp-method"),
        ["server/discover", "tools/list", "tools/list", "tools/call"].map(|method| Some(method.to_owned()))
    );
    assert_eq!(headers("mcp-name"), [None, None, None, Some("weather".to_owned())]);
    assert_eq!(headers("mcp-param-city"), [None, None, None, Some("Bern".to_owned())]);
    assert!(headers("mcp-protocol-version").iter().all(|version| version.as_deref() == Some("2026-07-28")));
    assert!(headers("x-api-key").iter().all(|key| key.as_deref() == Some("secret")));
    assert!(headers("mcp-session-id").iter().all(Option::is_none));
    assert_eq!(seen[2].params()["cursor"], "1");
    let call = seen[3].params();
    assert_eq!((&call["name"], &call["arguments"]), (&json!("weather"), &json!({ "city": "Bern", "days": 3 })));
    assert_eq!(call["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(call["_meta"]["io.modelcontextprotocol/clientInfo"]["name"], "slipway-agent-runtime");
}

#[rstest]
#[case("2025-11-25")]
#[case("2025-06-18")]
#[case("2025-03-26")]
#[tokio::test]
async fn a_server_with_handshake_has_a_session(#[case] version: &'static str) {
    let server = Fake::new(Revision::Handshake(version)).await;
    let agent = Agent::of(&server, |_| {}).await;
    assert_eq!(
        agent.call("home_weather", "Bern").await,
        Err((
            "arguments",
            "wrong arguments: write an object of JSON, \
        with the arguments city, days"
                .into()
        ))
    );
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
    let seen = server.seen();
    let methods: Vec<_> = seen.iter().map(Seen::method).collect();
    let expected = ["server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE"];
    assert_eq!(methods, expected);
    for seen in &seen[2..] {
        assert_eq!(seen.header("mcp-session-id").as_deref(), Some("session-1"));
        assert_eq!(seen.header("mcp-protocol-version").as_deref(), Some(version));
        assert_eq!(seen.header("mcp-method"), None);
    }
    assert_eq!(seen[1].params()["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_server_of_other_versions_is_told_apart() {
    let server = Fake::new(Revision::Handshake("1999-01-01")).await;
    let agent = Agent::start(&[], &[McpServer::new("home", &server.url)]);
    agent.until_missing("the server speaks other versions of MCP: 1999-01-01").await;
    agent.end().await;
}

#[rstest]
#[case(Revision::Modern)]
#[case(Revision::Handshake("2025-11-25"))]
#[tokio::test]
async fn answers_come_as_streams_too(#[case] revision: Revision) {
    let server = Fake::new(revision).await;
    server.stream();
    let agent = Agent::of(&server, |_| {}).await;
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
}

#[tokio::test]
async fn a_question_of_the_server_is_answered() {
    let server = Fake::new(Revision::Handshake("2025-06-18")).await;
    server.stream();
    server.ask_back();
    let agent = Agent::of(&server, |_| {}).await;
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
    let answers: Vec<_> = server.seen().iter().filter(|seen| seen.method().is_empty()).map(Seen::body).collect();
    let error = json!({ "code": -32601, "message": "this client has no such capability" });
    let both =
        [json!({ "jsonrpc": "2.0", "id": "p", "result": {} }), json!({ "jsonrpc": "2.0", "id": "s", "error": error })];
    assert_eq!(answers[answers.len() - 2..], both);
}

#[tokio::test]
async fn an_interrupted_stream_is_taken_up_again() {
    let server = Fake::new(Revision::Handshake("2025-11-25")).await;
    let agent = Agent::of(&server, |_| {}).await;
    server.stream();
    server.interrupt();
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
    let taken_up: Vec<_> = server.seen().iter().filter_map(|seen| seen.header("last-event-id")).collect();
    assert_eq!(taken_up, ["event-1"]);
}

#[tokio::test]
async fn a_session_that_has_ended_is_begun_again() {
    let server = Fake::new(Revision::Handshake("2025-11-25")).await;
    let agent = Agent::of(&server, |_| {}).await;
    server.forget_sessions();
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    let sessions: Vec<_> =
        server.calls().iter().map(|call| call.header("mcp-session-id").unwrap_or_default()).collect();
    assert_eq!(sessions, ["session-1", "session-2"]);
    agent.end().await;
}

#[tokio::test]
async fn a_server_that_is_replaced_by_an_earlier_revision_is_found_out() {
    let server = Fake::new(Revision::Modern).await;
    let agent = Agent::of(&server, |_| {}).await;
    server.become_revision(Revision::Handshake("2025-03-26"));
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
}

#[rstest]
#[case(Revision::Modern)]
#[case(Revision::Handshake("2025-11-25"))]
#[tokio::test]
async fn a_change_that_the_server_announces_is_followed(#[case] revision: Revision) {
    let server = Fake::new(revision).await;
    server.announce();
    let agent = Agent::of(&server, |_| {}).await;
    or_hang(server.until_listened_to()).await;
    server.set_tools(&[&[json!({ "name": "tide", "inputSchema": { "type": "object" } })]]);
    server.say_changed();
    agent.until_named(&["home_tide"]).await;
    let gone = "unknown tool \"home_weather\"; the tools are home_tide".to_owned();
    assert_eq!(agent.call("home_weather", "{}").await, Err(("unknown_tool", gone)));
    agent.end().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_used_changes_nothing() {
    let server = Fake::new(Revision::Modern).await;
    server.announce();
    let agent = Agent::of(&server, |_| {}).await;
    or_hang(server.until_listened_to()).await;
    let lists = server.lists();
    server.set_tools(&[&[weather(), weather()]]);
    server.say_changed();
    or_hang(server.until_listed(lists + 1)).await;
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Ok("7 C in Bern".into()));
    agent.end().await;
}

#[rstest]
#[case::missing(&["tide"], "the server has no tool \"tide\"; it has weather")]
#[tokio::test]
async fn tools_that_are_named_must_be_there(#[case] tools: &[&str], #[case] words: &str) {
    let server = Fake::new(Revision::Modern).await;
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    let agent = Agent::start(&[], &[McpServer { tools, ..McpServer::new("home", &server.url) }]);
    let why = format!("the tools of the MCP server \"home\" are not known: {words}");
    agent.until_missing(&why).await;
    agent.end().await;
}

#[tokio::test]
async fn two_tools_of_one_name_are_told_with_their_origins() {
    let (one, other) = (Fake::new(Revision::Modern).await, Fake::new(Revision::Handshake("2025-11-25")).await);
    let server = |name: &str, url: &str| McpServer { prefix: String::new(), ..McpServer::new(name, url) };
    let agent = Agent::start(&[], &[server("one", &one.url), server("other", &other.url)]);
    let why = "two tools are called \"weather\": \"weather\" of MCP server \"one\" and \"weather\" of MCP server \
               \"other\"; change the prefix of a server, or name its tools in tools";
    agent.until_missing(why).await;
    agent.end().await;
    let own =
        Tool { name: "weather".into(), description: String::new(), input_schema: None, kind: ToolKind::Calculator };
    let agent = Agent::start(&[own], &[server("one", &one.url)]);
    agent.until_missing("two tools are called \"weather\": the agent's own \"weather\" and").await;
    agent.end().await;
}

#[rstest]
#[case::own_error(call_of(json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true })),
    "tool", "no such city")]
#[case::wordless_error(call_of(json!({ "content": [], "isError": true })),
    "tool", "the tool failed, and does not say why")]
#[case::input(call_of(json!({ "resultType": "input_required", "inputRequests": {} })),
    "input_required", "the tool asks for the answer of a person, and nobody is there to give it")]
#[case::task(call_of(json!({ "resultType": "task" })),
    "answer", "the server's answer is not MCP: its kind of result is not known")]
#[case::refusal((StatusCode::OK, json!({ "jsonrpc": "2.0", "id": "ID", "error": { "code": -32602, "message": "Unknown\ntool" } }).to_string()),
    "refused", "the server refuses: Unknown tool")]
#[case::status((StatusCode::INTERNAL_SERVER_ERROR, "<html>".into()), "status", "HTTP status 500")]
#[case::page((StatusCode::OK, "<html>".into()),
    "answer", "the server's answer is not MCP: expected value at line 1 column 1")]
#[case::another_answer((StatusCode::OK, json!({ "jsonrpc": "2.0", "id": "other", "result": {} }).to_string()),
    "answer", "the server's answer is not MCP: it has no response to the request")]
#[case::long(call_of(json!({ "content": [{ "type": "text", "text": "x".repeat(65_537) }] })),
    "answer", "the answer is longer than 65536 bytes")]
#[tokio::test]
async fn a_failed_call_says_why(#[case] answer: (StatusCode, String), #[case] kind: &'static str, #[case] words: &str) {
    let server = Fake::new(Revision::Modern).await;
    let agent = Agent::of(&server, |_| {}).await;
    server.answer_calls(answer);
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, Err((kind, words.into())));
    assert_eq!(server.calls().len(), 1);
    agent.end().await;
}

#[tokio::test]
async fn only_what_a_trusted_server_says_may_be_repeated_is_repeated() {
    for (trust_annotations, calls) in [(true, 3), (false, 1)] {
        let server = Fake::new(Revision::Modern).await;
        server.set_tools(&[&[json!({ "name": "weather", "inputSchema": { "type": "object" },
                                     "annotations": { "readOnlyHint": true } })]]);
        let retries = if trust_annotations { 2 } else { 0 };
        let change = |config: &mut McpServer| (config.trust_annotations, config.retries) = (trust_annotations, retries);
        let agent = Agent::of(&server, change).await;
        assert_eq!(agent.tools.is_repeatable("home_weather"), trust_annotations);
        server.answer_calls((StatusCode::BAD_GATEWAY, String::new()));
        assert_eq!(agent.call("home_weather", "").await, Err(("status", "HTTP status 502".into())));
        assert_eq!(server.calls().len(), calls);
        agent.end().await;
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_the_server_told() {
    let server = Fake::new(Revision::Handshake("2025-11-25")).await;
    let agent = Agent::of(&server, |config| config.timeout_milliseconds = 500).await;
    server.hang();
    let timeout = Err(("timeout", "no answer within 500 ms".into()));
    assert_eq!(agent.call("home_weather", r#"{"city": "Bern"}"#).await, timeout);
    let told = or_hang(server.until_told("notifications/cancelled")).await;
    assert_eq!(told.params()["requestId"], server.calls()[0].body()["id"]);
    agent.end().await;
}

#[tokio::test]
async fn a_server_that_comes_back_is_asked_again() {
    let server = Fake::new(Revision::Modern).await;
    server.refuse(StatusCode::SERVICE_UNAVAILABLE);
    let mut agent = Agent::start(&[], &[McpServer::new("home", &server.url)]);
    agent.until_missing("the tools of the MCP server \"home\" are not known: HTTP status 503").await;
    server.refuse(StatusCode::OK);
    agent.until_taken(1).await;
    assert_eq!(agent.names(), ["home_weather"]);
    agent.end().await;
}

#[tokio::test]
async fn an_agent_serves_once_it_knows_its_tools_and_shows_them_to_its_model() {
    let server = Fake::new(Revision::Modern).await;
    server.refuse(StatusCode::UNAUTHORIZED);
    let replies = [Reply::Says("Action: home_weather[{\"city\": \"Bern\"}]"), Reply::Says("Answer: 7 C")];
    let sidecar = sidecar_with(replies, |config| {
        config.prompt_template = "{tools}\n{messages}".into();
        config.mcp_servers = vec![McpServer::new("home", &server.url)];
    });
    let (api, admin, engine) = (sidecar.app.api(), sidecar.app.admin(), sidecar.engine);
    let listen = async || TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let listeners = Listeners { api: listen().await, admin: listen().await, texts: None };
    let terminate = CancellationToken::new();
    let ended = tokio::spawn(sidecar.app.serve(listeners, terminate.clone()));
    let until = async |status: StatusCode, words: &str| loop {
        let answer = get(&admin, "/readyz").await;
        if answer.status == status && answer.body.contains(words) {
            break;
        }
        yield_now().await;
    };
    let why = "not ready: the tools of the MCP server \"home\" are not known: HTTP status 401";
    or_hang(until(StatusCode::SERVICE_UNAVAILABLE, why)).await;
    server.refuse(StatusCode::OK);
    or_hang(until(StatusCode::OK, "ok")).await;
    let run = or_hang(post(&api, "/v1/runs", json!({ "input": "How warm is it in Bern?" }))).await;
    assert_eq!((run.status, &run.json()["answer"]), (StatusCode::OK, &json!("7 C")));
    let prompts = engine.prompts();
    let line = "home_weather: The weather of a city. (JSON: {\"city\", \"days\"?})\n";
    assert!(prompts[0].contains(line), "{}", prompts[0]);
    assert!(prompts[1].contains("Observation: 7 C in Bern\n"), "{}", prompts[1]);
    terminate.cancel();
    or_hang(ended).await.expect("no panic").expect("an orderly end");
}
