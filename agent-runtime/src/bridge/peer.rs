//! The program: what it is asked, and what it says. IO.

use std::{
    collections::BTreeMap,
    io, mem,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::{broadcast, mpsc, oneshot, watch},
};

use crate::ordered_value::{OrderedMap, OrderedValue};

use super::lines::{self, Head, Line, MAX_LINE_BYTES};

/// Lines that wait for the program to read them.
const WAITING_LINES: usize = 64;
/// Notifications that a listener may not have read yet.
const WAITING_NOTIFICATIONS: usize = 64;
/// How long a program may take to say that it knows a revision without a handshake. One of an earlier revision may
/// leave a question before the handshake unanswered.
const DISCOVERY_TIME: Duration = Duration::from_secs(3);
const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL_ERROR: i64 = -32603;

/// A response, but for its id.
type Message = OrderedMap;
/// Who waits for which response; nobody any more once the program has said its last.
type Pending = Option<BTreeMap<u64, oneshot::Sender<Message>>>;

/// The program's side of the bridge.
pub(super) struct Peer {
    input: mpsc::Sender<String>,
    pending: Mutex<Pending>,
    ids: AtomicU64,
    notifications: broadcast::Sender<Arc<str>>,
    /// What the handshake gave. There is one for as long as the program runs.
    handshake: Arc<tokio::sync::Mutex<Option<OrderedValue>>>,
    /// What the program says of its revisions. It is asked once.
    discovery: watch::Sender<Discovery>,
    pub(super) is_initialized: AtomicBool,
}

/// The program has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gone;

/// How far a program's word on its revisions has come.
#[derive(Clone, Debug)]
enum Discovery {
    NotAsked,
    Asked,
    /// It has had its time. What it says later counts from then on.
    Silent,
    Said(Result<Message, Gone>),
}

/// A request that waits for its response. Dropped before, it is cancelled.
struct Open<'a> {
    peer: &'a Peer,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if self.peer.take_pending(self.id).is_some() {
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
            pending: Mutex::new(Some(BTreeMap::new())),
            ids: AtomicU64::new(1),
            notifications: broadcast::Sender::new(WAITING_NOTIFICATIONS),
            handshake: Arc::default(),
            discovery: watch::Sender::new(Discovery::NotAsked),
            is_initialized: AtomicBool::new(false),
        };
        (peer, lines)
    }

    /// Asks, and returns the response but for its id.
    pub(super) async fn ask(&self, mut request: Message) -> Result<Message, Gone> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        request.insert("id", json!(id).into());
        let (sender, response) = oneshot::channel();
        self.pending().as_mut().ok_or(Gone)?.insert(id, sender);
        let _open = Open { peer: self, id };
        self.input.send(OrderedValue::Object(request).to_string()).await.map_err(|_| Gone)?;
        response.await.map_err(|_| Gone)
    }

    /// Sends what wants no answer.
    pub(super) async fn tell(&self, notification: Message) -> Result<(), Gone> {
        self.input.send(OrderedValue::Object(notification).to_string()).await.map_err(|_| Gone)
    }

    /// A program shakes hands once. A client that comes again gets what the first one got, also where that one did not
    /// wait for it: a handshake cannot be cancelled.
    pub(super) async fn shake_hands(self: &Arc<Self>, request: Message) -> Result<Message, Gone> {
        let mut known = Arc::clone(&self.handshake).lock_owned().await;
        if let Some(result) = known.clone() {
            return Ok(Message::from_iter([("result".to_owned(), result)]));
        }
        let peer = Arc::clone(self);
        let asked = tokio::spawn(async move {
            let response = peer.ask(request).await?;
            *known = response.get("result").cloned();
            Ok(response)
        });
        asked.await.unwrap_or(Err(Gone))
    }

    /// What the program says of its revisions; nothing while it says nothing.
    pub(super) async fn discover(self: &Arc<Self>, request: Message) -> Option<Result<Message, Gone>> {
        let is_first = self.discovery.send_if_modified(|discovery| {
            let is_first = matches!(discovery, Discovery::NotAsked);
            if is_first {
                *discovery = Discovery::Asked;
            }
            is_first
        });
        if is_first {
            let peer = Arc::clone(self);
            // Who asks may have less time than the program.
            tokio::spawn(async move { peer.ask_for_revisions(request).await });
        }
        let mut discovery = self.discovery.subscribe();
        let has_ended = |discovery: &Discovery| !matches!(discovery, Discovery::NotAsked | Discovery::Asked);
        match &*discovery.wait_for(has_ended).await.ok()? {
            Discovery::Said(said) => Some(said.clone()),
            Discovery::NotAsked | Discovery::Asked | Discovery::Silent => None,
        }
    }

    async fn ask_for_revisions(&self, request: Message) {
        let mut asked = pin!(self.ask(request));
        let said = match tokio::time::timeout(DISCOVERY_TIME, &mut asked).await {
            Ok(said) => said,
            Err(_) => {
                self.discovery.send_replace(Discovery::Silent);
                asked.await
            }
        };
        self.discovery.send_replace(Discovery::Said(said));
    }

    /// What the program says to nobody in particular from now on.
    pub(super) fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.notifications.subscribe()
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_pending(&self, id: u64) -> Option<oneshot::Sender<Message>> {
        self.pending().as_mut()?.remove(&id)
    }

    /// Never waits: a program that reads nothing would keep us from reading what it writes.
    fn tell_if_possible(&self, message: &serde_json::Value) {
        if let Err(error) = self.input.try_send(message.to_string()) {
            tracing::warn!(%error, "the MCP server does not read its standard input");
        }
    }

    /// Takes what the program has said.
    fn take(&self, message: OrderedValue) {
        let mut message = match message {
            OrderedValue::Object(message) => message,
            OrderedValue::Array(several) => return several.into_iter().for_each(|one| self.take(one)),
            _ => return tracing::warn!("the MCP server wrote a line that is not a message of JSON-RPC"),
        };
        let method = message.get("method").and_then(OrderedValue::as_str);
        match (method, message.get("id")) {
            (Some("ping"), Some(id)) => self.tell_if_possible(&json!({ "jsonrpc": "2.0", "id": id, "result": {} })),
            (Some(_), Some(id)) => {
                let error = json!({ "code": METHOD_NOT_FOUND, "message": "this client has no such capability" });
                self.tell_if_possible(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
            // Without listeners nobody needs it.
            (Some(_), None) => drop(self.notifications.send(OrderedValue::Object(message).to_string().into())),
            (None, id) => {
                let asked = id.and_then(OrderedValue::as_u64).and_then(|id| self.take_pending(id));
                message.remove("id");
                // Who asked may have gone.
                asked.map(|asked| asked.send(message));
            }
        }
    }

    /// Takes lines of the program until there are no more.
    async fn take_lines(&self, output: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut output = BufReader::new(output);
        while let Some(line) = lines::next(&mut output).await? {
            match line {
                Line::Long(beginning) => self.give_up(&Head::of(&beginning)),
                Line::Whole(line) => match serde_json::from_slice(&line) {
                    Ok(message) => self.take(message),
                    Err(_) if line.trim_ascii().is_empty() => {}
                    // Its logs belong on its standard error.
                    Err(_) => tracing::warn!("the MCP server wrote a line that is not JSON"),
                },
            }
        }
        Ok(())
    }

    /// Fails the request whose answer is too long. One that names no request at its beginning may be anybody's.
    fn give_up(&self, head: &Head) {
        tracing::warn!("the MCP server wrote a line beyond {MAX_LINE_BYTES} bytes: it is passed over");
        let asked: Vec<_> = match head {
            Head { has_method: true, .. } => return,
            Head { id: Some(id), .. } => self.take_pending(*id).into_iter().collect(),
            Head { id: None, .. } => self.pending().as_mut().map(mem::take).unwrap_or_default().into_values().collect(),
        };
        let message = format!("the answer is longer than {MAX_LINE_BYTES} bytes");
        let error = json!({ "code": INTERNAL_ERROR, "message": message });
        let response = Message::from_iter([("error".to_owned(), error.into())]);
        for one in asked {
            // Who asked may have gone.
            drop(one.send(response.clone()));
        }
    }
}

/// Writes lines to the program until it reads no more.
pub(super) async fn write(mut input: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<String>) -> io::Result<()> {
    while let Some(line) = lines.recv().await {
        let line = line + "\n";
        input.write_all(line.as_bytes()).await?;
    }
    Ok(())
}

/// Reads lines of the program until there are no more. Then nobody waits for a response any longer.
pub(super) async fn read(output: impl AsyncRead + Unpin, peer: Arc<Peer>) -> io::Result<()> {
    let outcome = peer.take_lines(output).await;
    *peer.pending() = None;
    outcome
}
