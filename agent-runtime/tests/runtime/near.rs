//! Connections to an engine's own server in the same pod: used again, and replaced where the server has closed them.

use std::{
    mem::take,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{StreamExt, future::join_all};
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::backend::{Backend, BackendError, Generation, OpenAi, OpenAiServer, Piece};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::watch,
    task::JoinSet,
};

use crate::fixture::or_hang;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// Connections that are open at once: more than reads that a task makes before it gives way to others.
const CROWD: usize = 140;

/// A server whose connections end after so many answers.
struct StandIn {
    engine: OpenAi,
    seen: Arc<watch::Sender<Seen>>,
    open: Arc<Mutex<JoinSet<()>>>,
}

/// What it has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    connections: usize,
    requests: usize,
}

/// What the server does on a connection.
#[derive(Clone)]
struct Habits {
    /// The answers of a connection. It is closed behind the last.
    answers: usize,
    head: &'static str,
    body: String,
    /// It answers nobody before there are so many connections.
    together: usize,
    /// What it does behind the last answer, once it is asked again.
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// It closes the connection, and does not wait to be asked.
    Closes,
    /// It reads the request and closes the connection.
    Breaks,
    /// It answers something that is not HTTP.
    Babbles,
    /// It never answers.
    Thinks,
}

impl Default for Habits {
    fn default() -> Self {
        Self { answers: usize::MAX, head: HEAD, body: whole(), together: 1, then: Then::Closes }
    }
}

impl StandIn {
    async fn start(habits: Habits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let seen = Arc::new(watch::Sender::new(Seen::default()));
        let open = Arc::new(Mutex::new(JoinSet::new()));
        let (sees, all) = (Arc::clone(&seen), Arc::clone(&open));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                sees.send_modify(|seen| seen.connections += 1);
                let serving = serve(stream, habits.clone(), Arc::clone(&sees));
                all.lock().unwrap_or_else(PoisonError::into_inner).spawn(serving);
            }
        });
        let engine = OpenAi::new(OpenAiServer::Vllm, &endpoint, "agent").expect("the endpoint is a URL");
        Self { engine, seen, open }
    }

    fn seen(&self) -> Seen {
        *self.seen.borrow()
    }

    /// Closes all connections.
    async fn close(&self) {
        let mut open = take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        or_hang(open.shutdown()).await;
        turns().await;
    }

    /// Whether the agent runtime closes all connections without waiting for anything.
    async fn is_left(&self) -> bool {
        let mut open = take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for _ in 0..100 {
            turns().await;
            while open.try_join_next().is_some() {}
            if open.is_empty() {
                return true;
            }
        }
        false
    }

    async fn generate(&self) -> Result<Vec<Piece>, BackendError> {
        let generation = Generation { id: "run-1".into(), prompt: "?".into(), max_tokens: 7, ..Generation::default() };
        let pieces: Vec<_> = or_hang(self.engine.generate(generation).collect()).await;
        pieces.into_iter().collect()
    }

    /// What so many generations say, one after the other.
    async fn say(&self, times: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..times {
            let pieces = self.generate().await.expect("it answers");
            texts.push(pieces.into_iter().map(|piece| piece.text).collect());
        }
        texts
    }
}

/// Lets others go on for a while.
async fn turns() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn serve(stream: TcpStream, habits: Habits, seen: Arc<watch::Sender<Seen>>) {
    let mut stream = BufReader::new(stream);
    for _ in 0..habits.answers {
        if !was_asked(&mut stream, &seen).await {
            return;
        }
        seen.subscribe().wait_for(|seen| seen.connections >= habits.together).await.expect("the server accepts");
        // Who has gone does not read it.
        let _ = stream.write_all(format!("{}{}", habits.head, habits.body).as_bytes()).await;
    }
    if habits.then == Then::Closes || !was_asked(&mut stream, &seen).await {
        return;
    }
    match habits.then {
        Then::Closes | Then::Breaks => {}
        Then::Babbles => stream.write_all(b"Segmentation fault\r\n\r\n").await.expect("it writes"),
        Then::Thinks => assert!(!was_asked(&mut stream, &seen).await, "its peer closes the connection"),
    }
}

/// Reads a request; whether there was one.
async fn was_asked(stream: &mut BufReader<TcpStream>, seen: &watch::Sender<Seen>) -> bool {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return false;
        }
        let header = line.trim().to_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
    }
    let is_whole = stream.read_exact(&mut vec![0; length]).await.is_ok();
    seen.send_modify(|seen| seen.requests += usize::from(is_whole));
    is_whole
}

/// A part of a body as HTTP/1.1 writes it.
fn part(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn event(text: &str, finish: &str) -> String {
    part(&format!("data: {{\"choices\": [{{\"index\": 0, \"text\": \"{text}\", \"finish_reason\": {finish}}}]}}\n\n"))
}

fn whole() -> String {
    [event("on ", "null"), event("and on", "\"stop\""), part("data: [DONE]\n\n"), "0\r\n\r\n".into()].concat()
}

#[rstest]
#[case::while_the_server_keeps_it(usize::MAX, 1)]
#[case::and_replaced_once_the_server_has_closed_it(2, 3)]
#[case::or_not_at_all(1, 5)]
#[tokio::test]
async fn a_connection_is_used_again(#[case] answers: usize, #[case] connections: usize) {
    let server = StandIn::start(Habits { answers, ..Habits::default() }).await;
    assert_eq!(server.say(5).await, ["on and on"; 5]);
    assert_eq!(server.seen(), Seen { connections, requests: 5 });
}

#[tokio::test]
async fn every_generation_under_way_has_a_connection_of_its_own() {
    let server = StandIn::start(Habits { together: 2, ..Habits::default() }).await;
    let together = join_all([server.say(3), server.say(3)]).await;
    assert_eq!(together, vec![vec!["on and on".to_owned(); 3]; 2]);
    assert_eq!(server.seen(), Seen { connections: 2, requests: 6 });
}

#[tokio::test]
async fn a_generation_waits_for_none_of_many_connections_that_were_closed() {
    let server = StandIn::start(Habits { together: CROWD, ..Habits::default() }).await;
    let crowd = join_all((0..CROWD).map(|_| server.say(1))).await;
    assert_eq!(crowd, vec![["on and on"]; CROWD]);
    assert_eq!(server.seen(), Seen { connections: CROWD, requests: CROWD });
    turns().await;
    server.close().await;
    // Only a task has to give way.
    let again = tokio::spawn(async move { (server.say(3).await, server.seen()) });
    let (said, seen) = or_hang(again).await.expect("it does not panic");
    assert_eq!(said, ["on and on"; 3]);
    assert_eq!(seen, Seen { connections: CROWD + 1, requests: CROWD + 3 });
}

#[tokio::test]
async fn a_connection_is_closed_at_once_where_the_server_wants_it_closed() {
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    let server = StandIn::start(Habits { head, ..Habits::default() }).await;
    assert_eq!(server.say(2).await, ["on and on"; 2]);
    assert_eq!(server.seen(), Seen { connections: 2, requests: 2 });
    assert!(server.is_left().await, "a connection is open that nobody can use");
    let tasks = Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 1, "beside the server's, none waits for it");
}

#[tokio::test]
async fn a_connection_that_breaks_within_an_answer_ends_the_generation() {
    let server = StandIn::start(Habits { answers: 1, body: event("on ", "null"), ..Habits::default() }).await;
    let broken = server.generate().await.expect_err("the connection broke");
    assert_eq!(broken.kind(), "unreachable");
    assert_eq!(server.seen(), Seen { connections: 1, requests: 1 });
}

#[rstest]
#[case::breaks_at_once(Then::Breaks, Some("on and on"), Seen { connections: 2, requests: 3 })]
#[case::is_no_server_any_more(Then::Babbles, None, Seen { connections: 1, requests: 2 })]
#[tokio::test]
async fn a_request_is_repeated_where_a_used_connection(
    #[case] then: Then,
    #[case] said: Option<&str>,
    #[case] seen: Seen,
) {
    let server = StandIn::start(Habits { answers: 1, then, ..Habits::default() }).await;
    assert_eq!(server.say(1).await, ["on and on"]);
    let text = |pieces: Vec<Piece>| pieces.into_iter().map(|piece| piece.text).collect::<String>();
    assert_eq!(server.generate().await.map(text).ok().as_deref(), said);
    assert_eq!(server.seen(), seen);
}

#[rstest]
#[case::before_its_answer(0, String::new())]
#[case::within_its_answer(1, event("on ", "null"))]
#[tokio::test]
async fn a_generation_that_is_dropped_closes_its_connection(#[case] answers: usize, #[case] body: String) {
    let server = StandIn::start(Habits { answers, body, then: Then::Thinks, ..Habits::default() }).await;
    let mut generation = server.engine.generate(Generation::default());
    for _ in 0..answers {
        or_hang(generation.next()).await.expect("there is more").expect("it answers");
    }
    let mut seen = server.seen.subscribe();
    tokio::select! {
        _ = generation.next() => panic!("the server says nothing more"),
        asked = seen.wait_for(|seen| seen.requests == 1) => drop(asked.expect("the server reads")),
    }
    drop(generation);
    assert!(server.is_left().await, "the engine generates for nobody");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
    drop(listener);
    let engine = OpenAi::new(OpenAiServer::Vllm, &endpoint, "agent").expect("the endpoint is a URL");
    let mut pieces = engine.generate(Generation::default());
    let refused = or_hang(pieces.next()).await.expect("it says why").expect_err("nobody is there");
    assert_eq!(refused.to_string(), format!("the engine at {endpoint} cannot be reached"));
}
