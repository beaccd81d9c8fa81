//! Connections to a server in the same pod. IO.
//!
//! Who asks drives the connection too. A task of its own would be woken for every part of an answer, and would wake its
//! reader. An engine sends a part for each token, and these switches would take more time than the parts.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use hyper::{
    Method, Request, Response,
    body::{Body as _, Bytes, Frame, Incoming},
    client::conn::http1::{Connection, SendRequest, handshake},
    header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue},
};
use hyper_util::rt::TokioIo;
use reqwest::{Body, Url};
use tokio::net::TcpStream;

/// The server is in the same pod: a connection that takes longer is not coming.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection waits for another request, and how many do.
const IDLE_TIME: Duration = Duration::from_secs(60);
const MOST_IDLE: usize = 256;
/// A server that closes an idle connection while it is asked does so this soon. What breaks later breaks at its work.
const SOON: Duration = Duration::from_secs(1);

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NearError {
    /// Nobody accepts connections.
    #[error("no connection")]
    Connect(#[source] io::Error),
    /// Nobody accepts them in time.
    #[error("no connection within {} s", CONNECT_TIMEOUT.as_secs())]
    Late,
    /// The request cannot be written.
    #[error("the request cannot be written")]
    Request(#[source] hyper::http::Error),
    /// The connection broke, or what came is not HTTP.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
}

/// A server, and the connections to it that wait for another request.
pub(super) struct Near {
    address: SocketAddr,
    host: HeaderValue,
    path: String,
    idle: Idle,
}

/// The last one was used last.
#[derive(Clone, Default)]
struct Idle(Arc<Mutex<Vec<(Instant, Open)>>>);

/// A connection that does nothing by itself.
type Driven = Connection<TokioIo<TcpStream>, Body>;

/// A connection, and what sends on it.
struct Open {
    sender: SendRequest<Body>,
    /// Nothing once it is over.
    connection: Option<Pin<Box<Driven>>>,
}

/// An answer whose body is read part by part. Dropping it closes the connection.
pub(super) struct NearAnswer {
    head: Response<()>,
    body: Incoming,
    open: Open,
    idle: Idle,
}

impl Near {
    /// The way to what a server does at a URL; nothing where that is not an address of plain HTTP.
    pub(super) fn new(url: &Url) -> Option<Self> {
        let host = url.host_str().filter(|_| url.scheme() == "http")?;
        let ip: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        let port = url.port_or_known_default()?;
        let host = HeaderValue::try_from(format!("{host}:{port}")).ok()?;
        Some(Self { address: SocketAddr::new(ip, port), host, path: url.path().to_owned(), idle: Idle::default() })
    }

    /// Asks for something, with a body of JSON.
    pub(super) async fn post(&self, headers: &HeaderMap, body: Bytes) -> Result<NearAnswer, NearError> {
        let request = || self.request(headers, body.clone()).map_err(NearError::Request);
        while let Some(mut open) = self.idle.take().await {
            let since = Instant::now();
            match open.ask(request()?).await {
                Ok(answer) => return Ok(self.answer(answer, open)),
                // It was over before the request was written.
                Err(error) if error.is_canceled() => {}
                // The server closed it while it was asked, or broke. It is asked once more.
                Err(error) if !error.is_parse() && since.elapsed() < SOON => break,
                Err(error) => return Err(NearError::Broken(error)),
            }
        }
        let mut open = self.open().await?;
        let answer = open.ask(request()?).await.map_err(NearError::Broken)?;
        Ok(self.answer(answer, open))
    }

    fn request(&self, headers: &HeaderMap, body: Bytes) -> Result<Request<Body>, hyper::http::Error> {
        let mut request = Request::builder().method(Method::POST).uri(&self.path).body(Body::from(body))?;
        let all = request.headers_mut();
        headers.clone_into(all);
        all.insert(HOST, self.host.clone());
        all.insert(ACCEPT, HeaderValue::from_static("*/*"));
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(request)
    }

    async fn open(&self) -> Result<Open, NearError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(self.address));
        let stream = connecting.await.map_err(|_| NearError::Late)?.map_err(NearError::Connect)?;
        stream.set_nodelay(true).map_err(NearError::Connect)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(NearError::Broken)?;
        Ok(Open { sender, connection: Some(Box::pin(connection)) })
    }

    fn answer(&self, answer: Response<Incoming>, open: Open) -> NearAnswer {
        let (head, body) = answer.into_parts();
        NearAnswer { head: Response::from_parts(head, ()), body, open, idle: self.idle.clone() }
    }
}

impl Idle {
    fn all(&self) -> MutexGuard<'_, Vec<(Instant, Open)>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that the server has not closed, as far as is known here.
    async fn take(&self) -> Option<Open> {
        loop {
            let (since, mut open) = self.all().pop()?;
            let is_over = poll_fn(|context| Poll::Ready(open.drive(context))).await;
            if !is_over && since.elapsed() < IDLE_TIME {
                return Some(open);
            }
        }
    }

    fn put(&self, open: Open) {
        let mut all = self.all();
        all.retain(|(since, _)| since.elapsed() < IDLE_TIME);
        if all.len() < MOST_IDLE {
            all.push((Instant::now(), open));
        }
    }
}

impl Open {
    /// Lets the connection go on as far as it can, and tells whether it is over.
    fn drive(&mut self, context: &mut Context<'_>) -> bool {
        // Whoever waits for the answer gets the reason of its end. Dropping the connection answers a request that was
        // not written, and whoever asks whether the connection takes another.
        if self.connection.as_mut().is_some_and(|connection| connection.as_mut().poll(context).is_ready()) {
            self.connection = None;
        }
        self.connection.is_none()
    }

    async fn ask(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        let mut answer = pin!(self.sender.send_request(request));
        poll_fn(|context| {
            self.drive(context);
            answer.as_mut().poll(context)
        })
        .await
    }
}

impl NearAnswer {
    /// Its status and headers.
    pub(super) fn head(&self) -> &Response<()> {
        &self.head
    }

    /// The next part of the body; nothing at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, NearError> {
        poll_fn(|context| self.poll_chunk(context)).await.map_err(NearError::Broken)
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<hyper::Result<Option<Bytes>>> {
        loop {
            let mut frame = Pin::new(&mut self.body).poll_frame(context);
            if frame.is_pending() {
                self.open.drive(context);
                frame = Pin::new(&mut self.body).poll_frame(context);
            }
            match ready!(frame).transpose()?.map(Frame::into_data) {
                None => return Poll::Ready(Ok(None)),
                Some(Ok(data)) => return Poll::Ready(Ok(Some(data))),
                // Trailers say nothing here.
                Some(Err(_)) => {}
            }
        }
    }

    /// Reads what is left of the body, and keeps the connection for another request.
    pub(super) async fn end(mut self) {
        while let Ok(Some(_)) = self.chunk().await {}
        let Self { mut open, idle, .. } = self;
        let ready = poll_fn(|context| {
            open.drive(context);
            open.sender.poll_ready(context)
        });
        if ready.await.is_ok() {
            idle.put(open);
        }
    }
}
