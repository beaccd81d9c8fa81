//! A host of Git repositories over HTTP: Git's own `git http-backend`, which is a program of CGI (RFC 3875).

use std::{
    io,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri},
    response::IntoResponse,
};
use tokio::{io::AsyncWriteExt, process::Command};

/// The service: every folder below the root is a repository, by its path.
pub fn router(root: PathBuf) -> Router {
    Router::new().fallback(answer).with_state(root)
}

async fn answer(
    State(root): State<PathBuf>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> axum::response::Response {
    match run(&root, &method, &uri, &headers, &body).await {
        Ok(output) => response(&output.stdout).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("failed to run Git: {error}")).into_response(),
    }
}

async fn run(root: &Path, method: &Method, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> io::Result<Output> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method.as_str())
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = backend.stdin.take() {
        input.write_all(body).await?;
    }
    backend.wait_with_output().await
}

/// What a program of CGI printed: headers, `Status` among them, an empty line, and the body.
fn response(printed: &[u8]) -> Response<Body> {
    let end = printed.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(printed.len());
    let body = printed.get(end + 4..).unwrap_or_default().to_vec();
    let mut response = Response::new(Body::from(body));
    for line in String::from_utf8_lossy(&printed[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|code| code.parse().ok());
            *response.status_mut() = code.unwrap_or(StatusCode::BAD_GATEWAY);
        } else if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::http::header::CONTENT_TYPE;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_git_printed_becomes_an_answer() {
        let found = response(b"Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno such thing");
        assert_eq!(
            (found.status(), &found.headers()[CONTENT_TYPE]),
            (StatusCode::NOT_FOUND, &HeaderValue::from_static("text/plain"))
        );
        assert_eq!(response(b"Content-Type: text/plain\r\n\r\n").status(), StatusCode::OK);
    }
}
