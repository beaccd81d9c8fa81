//! Connections to an engine's own server in the same pod: used again, and replaced where the server has closed them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::StreamExt;
use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_agent_runtime::backend::{Backend, BackendError, Generation, OpenAi, OpenAiServer, Piece};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::fixture::or_hang;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A server whose connections end after so many answers.
struct StandIn {
    engine: OpenAi,
    /// The connections that it has accepted.
    connections: Arc<AtomicUsize>,
}

impl StandIn {
    async fn start(answers: usize, body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let endpoint = format!("http://{}", listener.local_addr().expect("it is bound"));
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(answer(stream, answers, body.clone()));
            }
        });
        let engine = OpenAi::new(OpenAiServer::Vllm, &endpoint, "agent").expect("the endpoint is a URL");
        Self { engine, connections }
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

async fn answer(stream: TcpStream, answers: usize, body: String) {
    let mut stream = BufReader::new(stream);
    for _ in 0..answers {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.expect("it reads") == 0 {
                return;
            }
            let header = line.trim().to_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number");
            }
        }
        stream.read_exact(&mut vec![0; length]).await.expect("it reads");
        stream.write_all(format!("{HEAD}{body}").as_bytes()).await.expect("it writes");
    }
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
    let server = StandIn::start(answers, whole()).await;
    assert_eq!(server.say(5).await, ["on and on"; 5]);
    assert_eq!(server.connections.load(Ordering::Relaxed), connections);
}

#[tokio::test]
async fn every_generation_under_way_has_a_connection_of_its_own() {
    let server = StandIn::start(usize::MAX, whole()).await;
    let together = futures::future::join_all([server.say(3), server.say(3)]).await;
    assert_eq!(together, vec![vec!["on and on".to_owned(); 3]; 2]);
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_connection_that_breaks_within_an_answer_ends_the_generation() {
    let server = StandIn::start(1, event("on ", "null")).await;
    let broken = server.generate().await.expect_err("the connection broke");
    assert_eq!(broken.kind(), "unreachable");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
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
