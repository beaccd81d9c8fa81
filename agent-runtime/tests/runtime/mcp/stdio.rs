//! Servers on standard input and output, behind the bridge: a small one in shell.

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::{Value, json};
use slipway_agent_runtime::{
    bridge::{self, BridgeError},
    tools::ToolInput,
};
use slipway_runtime_config::McpServer;
use tempfile::TempDir;
use tokio::{net::UnixListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::fixture::or_hang;

/// Answers each line. What it is told beside is in the file `told`.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { answer "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}]}"; }
list() { answer "\"result\":{\"tools\":[{\"name\":\"$1\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"to\":{},\"do\":{}}}}]}"; }
tool=say
echo 'a line that is no message'
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"server/discover"'*) DISCOVER;;
    *'"initialize"'*) BEFORE; answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}';;
    *'"tools/list"'*) list $tool;;
    *'"subscriptions/listen"'*) ;;
    *'"arguments":{"do":"die"}'*) exit 3;;
    *'"arguments":{"do":"mute"}'*) exec 1>&-;;
    *'"arguments":{"do":"flood"}'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"text":"' "$id"; head -c 5000000 /dev/zero | tr '\0' x; echo '"}}';;
    *'"arguments":{"do":"hang"}'*) echo hangs >> "$1/told";;
    *'"arguments":{"do":"ask"}'*)
      echo '{"jsonrpc":"2.0","id":"q","method":"ping"}'; read -r pong; echo "$pong" >> "$1/told"; text asked;;
    *'"arguments":{"do":"change"}'*)
      tool=shout; echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; text changed;;
    *'"tools/call"'*) text hello;;
    *) echo "$line" >> "$1/told";;
  esac
done
echo "the end" >> "$1/told"
"#;

const OLD: &str = r#"answer '"error":{"code":-32601,"message":"no such method"}'"#;
const MODERN: &str =
    r#"answer '"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}'"#;
const SILENT: &str = ":";
/// What goes before the answer to a handshake: it waits for somebody who says that it may go on.
const WAITS: &str = r#"echo 'it waits' >> "$1/told"; mkfifo "$1/go"; read -r go < "$1/go""#;

/// A server behind its bridge.
struct Bridged {
    folder: TempDir,
    command: Vec<String>,
    socket: PathBuf,
    stop: CancellationToken,
    task: JoinHandle<Result<(), BridgeError>>,
}

impl Bridged {
    fn start(discover: &str) -> Self {
        Self::start_with(discover, ":")
    }

    fn start_with(discover: &str, before: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("server.sh");
        fs::write(&script, SERVER.replace("DISCOVER", discover).replace("BEFORE", before)).expect("it is written");
        let words = ["/bin/sh".into(), script, folder.path().to_owned()];
        let command = words.map(|word| word.into_os_string().into_string().expect("a path is text")).to_vec();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("the folder is ours");
        let (stop, until) = (CancellationToken::new(), command.clone());
        let token = stop.clone();
        let task = tokio::spawn(async move { bridge::serve(listener, &until, token).await });
        Self { folder, command, socket, stop, task }
    }

    /// The same again at its socket, as the kubelet does.
    fn again(&mut self) {
        let (socket, command, stop) = (self.socket.clone(), self.command.clone(), self.stop.clone());
        self.task = tokio::spawn(async move { bridge::run(&socket, &command, stop).await });
    }

    fn server(&self) -> McpServer {
        let mut server = McpServer::new("files", "http://localhost/mcp");
        server.socket = Some(self.socket.to_str().expect("a path is text").to_owned());
        server
    }

    /// What the server was told, once it has this.
    async fn told(&self, what: &str) -> String {
        let file = self.folder.path().join("told");
        or_hang(async {
            loop {
                let told = fs::read_to_string(&file).unwrap_or_default();
                if told.contains(what) {
                    return told;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    async fn post(&self, body: &Value, session: Option<&str>) -> (u16, Value) {
        let client =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).unix_socket(self.socket.as_path()).build();
        let client = client.expect("a client");
        let mut request = client.post("http://localhost/mcp").body(body.to_string());
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let response = or_hang(request.send()).await.expect("it answers");
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }
}

fn argument(what: &str) -> String {
    json!({ "do": what }).to_string()
}

#[rstest]
#[case::with_a_handshake(OLD)]
#[case::without(MODERN)]
#[tokio::test]
async fn a_server_of_either_revision_is_called_through_the_bridge(#[case] discover: &str) {
    let bridged = Bridged::start(discover);
    let agent = Agent::start(&[], &[bridged.server()]);
    agent.until_named(&["files_say"]).await;
    let ToolInput::Served(schema) = &agent.tools.catalog().shown[0].input else { panic!("the server checks it") };
    assert_eq!(schema.to_string(), r#"{"type":"object","properties":{"to":{},"do":{}}}"#, "in the server's order");
    assert_eq!(agent.call("files_say", &argument("nothing")).await, Ok("hello".into()));
    assert_eq!(agent.call("files_say", &argument("ask")).await, Ok("asked".into()), "it may ask whether we are there");
    assert!(bridged.told(r#""result":{}"#).await.contains(r#""id":"q""#));
    assert_eq!(agent.call("files_say", &argument("change")).await, Ok("changed".into()));
    agent.until_named(&["files_shout"]).await;
    bridged.stop.cancel();
    assert!(or_hang(bridged.task).await.expect("it ends").is_ok());
    let told = fs::read_to_string(bridged.folder.path().join("told")).expect("it is there");
    assert!(told.ends_with("the end\n"), "its input has ended: {told}");
}

#[tokio::test]
async fn a_server_that_leaves_the_first_question_unanswered_is_offered_a_handshake() {
    let bridged = Bridged::start(SILENT);
    let agent = Agent::start(&[], &[bridged.server()]);
    agent.until_named(&["files_say"]).await;
}

/// Its one attempt has less time than the bridge leaves the program.
#[tokio::test]
async fn a_server_that_leaves_the_first_question_unanswered_is_found_by_a_hasty_client() {
    let bridged = Bridged::start(SILENT);
    let mut server = bridged.server();
    server.timeout_milliseconds = 2_000;
    let agent = Agent::start(&[], &[server]);
    agent.until_named(&["files_say"]).await;
}

#[tokio::test]
async fn a_handshake_goes_on_when_nobody_waits_for_it() {
    let bridged = Bridged::start_with(OLD, WAITS);
    let handshake = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    tokio::select! {
        _ = bridged.post(&handshake, None) => panic!("it waits"),
        _ = bridged.told("it waits") => {}
    }
    fs::write(bridged.folder.path().join("go"), "now\n").expect("somebody reads it");
    let (status, agreed) = bridged.post(&handshake, None).await;
    assert_eq!((status, &agreed["result"]["protocolVersion"]), (200, &json!("2025-11-25")));
    bridged.stop.cancel();
    assert!(or_hang(bridged.task).await.expect("it ends").is_ok());
    let told = fs::read_to_string(bridged.folder.path().join("told")).expect("it is there");
    assert_eq!(told, "it waits\nthe end\n", "one handshake, and no cancellation");
}

#[tokio::test]
async fn an_answer_beyond_the_bound_fails_its_call_alone() {
    let bridged = Bridged::start(OLD);
    let agent = Agent::start(&[], &[bridged.server()]);
    agent.until_named(&["files_say"]).await;
    let (kind, words) = agent.call("files_say", &argument("flood")).await.expect_err("it is too long");
    assert_eq!((kind, words.contains("the answer is longer than 4194304 bytes")), ("refused", true), "{words}");
    assert_eq!(agent.call("files_say", &argument("nothing")).await, Ok("hello".into()));
}

#[tokio::test]
async fn a_server_that_says_no_more_takes_the_bridge_along() {
    let bridged = Bridged::start(OLD);
    let agent = Agent::start(&[], &[bridged.server()]);
    agent.until_named(&["files_say"]).await;
    agent.call("files_say", &argument("mute")).await.expect_err("nobody answers");
    let ended = or_hang(bridged.task).await.expect("it ends by itself").expect_err("nobody could be asked");
    assert_eq!(ended.to_string(), "\"/bin/sh\" has closed its standard output, and runs on");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let bridged = Bridged::start(OLD);
    let agent = Agent::start(&[], &[bridged.server()]);
    agent.until_named(&["files_say"]).await;
    let hangs = argument("hang");
    let answer = tokio::select! {
        answer = agent.call("files_say", &hangs) => Some(answer),
        _ = bridged.told("hangs") => None,
    };
    assert_eq!(answer, None, "it hangs, and the caller has gone");
    let told = bridged.told("notifications/cancelled").await;
    assert!(told.contains(r#""reason":"the call was given up""#), "{told}");
}

#[tokio::test]
async fn a_server_that_ends_takes_the_bridge_along_and_is_found_again() {
    let mut bridged = Bridged::start(OLD);
    let agent = Agent::start(&[], &[bridged.server()]);
    agent.until_named(&["files_say"]).await;
    let lost = agent.call("files_say", &argument("die")).await.expect_err("nobody answers");
    assert!(["connect", "refused"].contains(&lost.0), "{lost:?}");
    let ended = or_hang(&mut bridged.task).await.expect("it ends by itself").expect_err("the server has ended");
    assert_eq!(ended.to_string(), "\"/bin/sh\" has ended (exit status: 3)");
    bridged.again();
    or_hang(async {
        while agent.call("files_say", &argument("nothing")).await != Ok("hello".into()) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_no_message_or_of_another_session_is_refused() {
    let bridged = Bridged::start(OLD);
    assert_eq!(bridged.post(&json!([1]), None).await.0, 400);
    let list = json!({ "jsonrpc": "2.0", "id": "mine", "method": "tools/list" });
    assert_eq!(bridged.post(&list, Some("another")).await.0, 404);
    let (status, listed) = bridged.post(&list, None).await;
    assert_eq!((status, &listed["id"], &listed["result"]["tools"][0]["name"]), (200, &json!("mine"), &json!("say")));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = UnixListener::bind(folder.path().join("one")).expect("the folder is ours");
    let command = ["/no/such/program".to_owned()];
    let error = bridge::serve(listener, &command, CancellationToken::new()).await.expect_err("there is none");
    assert_eq!(error.to_string(), "failed to start \"/no/such/program\"; name a program of the image");
    let listener = UnixListener::bind(folder.path().join("other")).expect("the folder is ours");
    let error = bridge::serve(listener, &[], CancellationToken::new()).await.expect_err("there is none");
    assert_eq!(error.to_string(), "no program is named; write it and its arguments behind --");
}
