//! The answer to a generation, from wherever it comes. IO.

use std::{error::Error, time::Duration};

use hyper::body::Bytes;
use reqwest::{Response, StatusCode, header::HeaderMap};

use super::near::NearAnswer;

/// How long the server may take to end an answer after its last event.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// An answer whose body is read part by part. Dropping it closes the connection, which ends the generation.
pub(super) enum Answer {
    /// On a connection that is driven by who reads.
    Near(NearAnswer),
    /// On one that a task drives.
    Far(Response),
}

impl Answer {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Near(answer) => answer.head().status(),
            Self::Far(answer) => answer.status(),
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Self::Near(answer) => answer.head().headers(),
            Self::Far(answer) => answer.headers(),
        }
    }

    /// The next part of the body; nothing at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Box<dyn Error + Send + Sync>> {
        match self {
            Self::Near(answer) => Ok(answer.chunk().await?),
            Self::Far(answer) => Ok(answer.chunk().await?),
        }
    }

    /// The body, up to this many bytes: an upstream may send without end.
    pub(super) async fn body(mut self, limit: usize) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
        let mut body = Vec::new();
        while body.len() < limit
            && let Some(chunk) = self.chunk().await?
        {
            body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
        }
        Ok(body)
    }

    /// The same of one that is all that was asked for. The connection can be used again.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Bytes, Box<dyn Error + Send + Sync>> {
        let Some(first) = self.chunk().await? else { return Ok(Bytes::new()) };
        let mut all = Vec::new();
        while let Some(more) = self.chunk().await? {
            if all.is_empty() {
                all.extend_from_slice(&first);
            }
            if all.len() + more.len() > limit {
                return Err(format!("its answer has more than {limit} bytes").into());
            }
            all.extend_from_slice(&more);
        }
        self.end_in_order().await;
        Ok(if all.is_empty() { first } else { all.into() })
    }

    /// Reads what follows the last event, so that the connection can be used again.
    pub(super) async fn end_in_order(self) {
        let all = async {
            match self {
                Self::Near(answer) => answer.end().await,
                Self::Far(mut answer) => while let Ok(Some(_)) = answer.chunk().await {},
            }
        };
        // Past this the connection is closed, which does no harm.
        let _ = tokio::time::timeout(END_TIMEOUT, all).await;
    }
}
