//! HTTP tools whose service has a certificate of a private authority.
//!
//! The files in `certificates/` are of no use elsewhere: a server for 127.0.0.1 whose certificate the first authority
//! has signed, with its key, and an authority that has signed nothing.

use std::{fs, path::Path, sync::Arc};

use pretty_assertions::assert_eq;
use slipway_agent_runtime::tools::{Registry, Request, ToolError};
use slipway_runtime_config::{HttpTool, Tool, ToolKind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::fixture::or_hang;

pub const AUTHORITY: &str = include_str!("certificates/authority.pem");
const ANOTHER: &str = include_str!("certificates/another-authority.pem");

/// What a service answers with: the status and further headers, and the body.
type Answers = Arc<dyn Fn() -> (&'static str, String) + Send + Sync>;

/// A service that answers every request with `42`, at `https://127.0.0.1:PORT`.
async fn service() -> String {
    tls_service(|| Some("42".into())).await
}

/// A service that answers with this, or with 500 where there is nothing, at `https://127.0.0.1:PORT`.
pub async fn tls_service(answers: impl Fn() -> Option<String> + Send + Sync + 'static) -> String {
    tls_service_with_status(move || {
        answers().map_or(("500 Internal Server Error", String::new()), |body| ("200 OK", body))
    })
    .await
}

/// A service that answers with this status and this body, at `https://127.0.0.1:PORT`.
pub async fn tls_service_with_status(answers: impl Fn() -> (&'static str, String) + Send + Sync + 'static) -> String {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("certificates/server.pem")).expect("it is PEM");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/server-key.pem")).expect("it is PEM");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is the certificate's");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
    let answers: Answers = Arc::new(answers);
    let origin = format!("https://{}", listener.local_addr().expect("it is bound"));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a client comes");
            tokio::spawn(answer(acceptor.clone(), stream, Arc::clone(&answers)));
        }
    });
    origin
}

/// Answers one request. A client that trusts nobody here says so in the handshake and leaves.
async fn answer(acceptor: TlsAcceptor, stream: TcpStream, answers: Answers) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.expect("a request has an end"));
    }
    let (status, body) = answers();
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.expect("the client reads");
    stream.shutdown().await.expect("the client reads");
}

async fn tool(authorities_from: Option<&Path>) -> Registry {
    let authorities_from = authorities_from.map(|folder| folder.to_str().expect("the path is text").to_owned());
    let http = HttpTool { authorities_from, ..HttpTool::new(&service().await) };
    let tool = Tool { name: "tool".into(), description: String::new(), input_schema: None, kind: ToolKind::Http(http) };
    Registry::new(&[tool]).expect("the tool can be set up")
}

async fn call(tool: &Registry) -> Result<String, (&'static str, String)> {
    or_hang(tool.call(Request::new("tool", ""))).await.map_err(|error: ToolError| (error.kind(), error.observation()))
}

fn untrusted() -> Result<String, (&'static str, String)> {
    Err(("connect", "the service cannot be reached".into()))
}

#[tokio::test]
async fn the_public_authorities_do_not_vouch_for_a_private_one() {
    assert_eq!(call(&tool(None).await).await, untrusted());
}

#[tokio::test]
async fn a_mounted_authority_is_trusted_as_it_is_now() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("the file is written");
    write("..data", "not a certificate");
    write("ca.crt", ANOTHER);
    let tool = tool(Some(folder.path())).await;
    assert_eq!(call(&tool).await, untrusted());
    write("ca.crt", &format!("{ANOTHER}{AUTHORITY}"));
    assert_eq!(call(&tool).await, Ok("42".into()), "of a bundle, each counts");
    assert_eq!(call(&tool).await, Ok("42".into()));
    write("ca.crt", ANOTHER);
    assert_eq!(call(&tool).await, untrusted(), "an authority that is taken away is trusted no more");
    write("new.crt", AUTHORITY);
    assert_eq!(call(&tool).await, Ok("42".into()), "of several files, each counts");
}

#[tokio::test]
async fn certificates_that_cannot_be_used_are_told_without_their_place() {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let tool = tool(Some(folder.path())).await;
    let unusable = Err(("certificates", "the tool's certificate authorities cannot be used".to_owned()));
    assert_eq!(call(&tool).await, unusable, "no file");
    fs::write(folder.path().join("ca.crt"), "no PEM").expect("the file is written");
    assert_eq!(call(&tool).await, unusable, "no certificate");
    fs::remove_dir_all(folder.path()).expect("the directory is removed");
    assert_eq!(call(&tool).await, unusable, "no folder");
}
