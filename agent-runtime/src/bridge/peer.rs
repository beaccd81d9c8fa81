//! The program: what it is asked, and what it says. IO.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{broadcast, mpsc, oneshot},
};

/// Lines that wait for the program to read them.
const WAITING_LINES: usize = 64;
/// Notifications that a listener may not have read yet.
const WAITING_NOTIFICATIONS: usize = 64;
/// Most bytes of a line: as many as the sidecar reads of an answer.
const MAX_LINE_BYTES: u64 = 4 * 1024 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// Who waits for which response.
type Pending = BTreeMap<u64, oneshot::Sender<Map<String, Value>>>;

/// The program's side of the bridge.
pub(super) struct Peer {
    input: mpsc::Sender<String>,
    pending: Mutex<Pending>,
    ids: AtomicU64,
    notifications: broadcast::Sender<Arc<str>>,
    /// What the handshake gave. There is one for as long as the program runs.
    pub(super) handshake: tokio::sync::Mutex<Option<Value>>,
    pub(super) is_initialized: AtomicBool,
}

/// The program has ended.
#[derive(Debug)]
pub(super) struct Gone;

/// A request that waits for its response. Dropped before, it is cancelled.
struct Open<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.peer.pending().remove(&self.id).is_some() {
            let params = json!({ "requestId": self.id, "reason": "the call was given up" });
            self.peer.tell_if_possible(&json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
            }));
        }
    }
}

impl Peer {
    /// A program, and the lines that it is to read.
    pub(super) fn new() -> (Self, mpsc::Receiver<String>) {
        let (input, lines) = mpsc::channel(WAITING_LINES);
        let peer = Self {
            input,
            pending: Mutex::default(),
            ids: AtomicU64::new(1),
            notifications: broadcast::Sender::new(WAITING_NOTIFICATIONS),
            handshake: tokio::sync::Mutex::default(),
            is_initialized: AtomicBool::new(false),
        };
        (peer, lines)
    }

    /// Asks, and returns the response but for its id.
    pub(super) async fn ask(&self, mut request: Map<String, Value>) -> Result<Map<String, Value>, Gone> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        request.insert("id".to_owned(), json!(id));
        let (sender, response) = oneshot::channel();
        self.pending().insert(id, sender);
        let _open = Open { peer: self, id };
        self.input.send(Value::Object(request).to_string()).await.map_err(|_| Gone)?;
        response.await.map_err(|_| Gone)
    }

    /// Sends what wants no answer.
    pub(super) async fn tell(&self, notification: Map<String, Value>) -> Result<(), Gone> {
        self.input.send(Value::Object(notification).to_string()).await.map_err(|_| Gone)
    }

    /// What the program says to nobody in particular from now on.
    pub(super) fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.notifications.subscribe()
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits: a program that reads nothing would keep us from reading what it writes.
    fn tell_if_possible(&self, message: &Value) {
        if let Err(error) = self.input.try_send(message.to_string()) {
            tracing::warn!(%error, "the MCP server does not read what it is told");
        }
    }

    /// Takes what the program has said.
    fn take(&self, message: Value) {
        let mut message = match message {
            Value::Object(message) => message,
            Value::Array(several) => return several.into_iter().for_each(|one| self.take(one)),
            _ => return tracing::warn!("the MCP server wrote a line that is no message"),
        };
        let method = message.get("method").and_then(Value::as_str);
        match (method, message.get("id")) {
            (Some("ping"), Some(id)) => self.tell_if_possible(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
            (Some(_), Some(id)) => {
                let error = json!({ "code": METHOD_NOT_FOUND, "message": "this client has no such capability" });
                self.tell_if_possible(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            // Without listeners nobody needs it.
            (Some(_), None) => drop(self.notifications.send(Value::Object(message).to_string().into())),
            (None, id) => {
                let asked = id.and_then(Value::as_u64).and_then(|id| self.pending().remove(&id));
                message.remove("id");
                // Who asked may have gone.
                asked.map(|asked| asked.send(message));
            }
        }
    }
}

/// Writes lines to the program until it reads no more.
pub(super) async fn write(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        let line = line + "\n";
        if let Err(error) = input.write_all(line.as_bytes()).await {
            return tracing::warn!(%error, "the MCP server reads no more");
        }
    }
}

/// Reads lines of the program until there are no more. Then nobody waits for a response any longer.
pub(super) async fn read(output: impl AsyncRead + Unpin, peer: Arc<Peer>) {
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        match (&mut output).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) => break,
            Ok(_) if !line.ends_with(b"\n") && u64::try_from(line.len()).is_ok_and(|read| read == MAX_LINE_BYTES) => {
                tracing::warn!("the MCP server wrote a line beyond {MAX_LINE_BYTES} bytes: it is read no more");
                break;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "the MCP server cannot be read");
                break;
            }
        }
        match serde_json::from_slice(&line) {
            Ok(message) => peer.take(message),
            Err(_) if line.trim_ascii().is_empty() => {}
            // Its logs belong on its standard error.
            Err(_) => tracing::warn!("the MCP server wrote a line that is not JSON"),
        }
    }
    peer.pending().clear();
}
