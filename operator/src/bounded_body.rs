//! Reads answers of pods no further than a bound. Reads IO.
//!
//! Pods of tenants answer as they like: a body without an end must not become the operator's memory.

use futures::StreamExt;
use thiserror::Error;

/// Why a body was not read.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The connection broke off, or the time was up.
    #[error("failed to read the body")]
    Read(#[source] reqwest::Error),
    /// The body goes on after the bound.
    #[error("the body has more than {bound} bytes")]
    TooLong {
        /// The most bytes that are read.
        bound: usize,
    },
}

/// The body of an answer.
///
/// # Errors
/// When it is longer than `bound` bytes or cannot be read to its end.
pub async fn read(answer: reqwest::Response, bound: usize) -> Result<Vec<u8>, BodyError> {
    let mut pieces = answer.bytes_stream();
    let mut body = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(BodyError::Read)?;
        if body.len() + piece.len() > bound {
            return Err(BodyError::TooLong { bound });
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Answers one request with a body of so many bytes, without saying how many.
    async fn answer(bytes: usize) -> reqwest::Response {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await;
            // The reader may leave before the end: that is what is tested.
            let _ = stream.write_all(&vec![b'x'; bytes]).await;
        });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.get(format!("http://{address}/")).send().await.unwrap()
    }

    #[tokio::test]
    async fn a_body_within_its_bound_is_read_whole() {
        assert_eq!(read(answer(1_000).await, 1_000).await.unwrap(), vec![b'x'; 1_000]);
    }

    #[tokio::test]
    async fn a_body_beyond_its_bound_is_refused_before_its_end() {
        let error = read(answer(50_000_000).await, 1_000).await.unwrap_err();
        assert_eq!(error.to_string(), "the body has more than 1000 bytes");
    }
}
