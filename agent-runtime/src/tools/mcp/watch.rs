//! Keeps the list of a server's tools: at the start, when the server says that it has changed, and from time to time.
//! IO.
//!
//! What is known of it stays while a server cannot be asked.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{failure::with_causes, tools::service::Failure};

use super::{
    error::McpError,
    listing::Listing,
    server::{Connection, Listed, Server},
};

/// The first pause after a list that failed; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The longest pause that a server may ask for.
const LONGEST_REST: Duration = Duration::from_secs(5 * 60);
/// How long a list counts where the server does not say.
const FRESH_FOR: Duration = Duration::from_secs(5 * 60);
/// How short and long a server may say.
const SHORTEST_FRESH: Duration = Duration::from_secs(30);
const LONGEST_FRESH: Duration = Duration::from_secs(60 * 60);
/// How long a server has to answer that a session is over.
const LEAVING_TIME: Duration = Duration::from_secs(1);

/// The pause after so many lists that failed: it doubles, and up to half of it is left to the dice, so that pods do not
/// come back together. A server may ask for a longer one.
fn pause(failures: u32, dice: u64, retry_after: Option<Duration>) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
    let half = u64::try_from(longest.as_micros() / 2).unwrap_or(u64::MAX);
    let ours = Duration::from_micros(half + dice % (half + 1));
    ours.max(retry_after.unwrap_or_default().min(LONGEST_REST))
}

impl Server {
    /// Asks for the list until it is dropped, and says when there is a new one.
    pub(crate) async fn keep_listed(&self, news: &Notify) {
        let mut failures = 0_u32;
        loop {
            match self.list().await {
                Ok(listing) => {
                    failures = 0;
                    let fresh_for =
                        listing.fresh_for.map_or(FRESH_FOR, |fresh| fresh.clamp(SHORTEST_FRESH, LONGEST_FRESH));
                    if self.take(listing) {
                        news.notify_one();
                    }
                    self.until_due(fresh_for).await;
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    self.note(&error);
                    news.notify_one();
                    if let Some(connection) = self.known_connection().await {
                        self.forget(&connection).await;
                    }
                    let pause = pause(failures, self.client.service.dice(), error.retry_after());
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.client.changed.notified() => {}
                    }
                }
            }
        }
    }

    /// Ends the session with the server.
    pub(crate) async fn leave(&self) {
        if let Some(connection) = self.known_connection().await {
            let left = tokio::time::timeout(LEAVING_TIME, self.client.leave(&connection.speech)).await;
            tracing::debug!(server = self.name, left = ?left.map(|left| left.is_ok()), "the MCP server is left");
        }
    }

    /// Whether the list is another than before.
    fn take(&self, listing: Listing) -> bool {
        let mut listed = self.listed.write().unwrap_or_else(PoisonError::into_inner);
        if let Listed::Last(last) = &*listed
            && last.is_alike(&listing)
        {
            return false;
        }
        let (server, tools) = (&self.name, listing.tools.len());
        tracing::info!(server, tools, "the tools of an MCP server are known");
        for (tool, problem) in &listing.left_out {
            tracing::warn!(server, tool, problem, "a tool of an MCP server cannot be used");
        }
        *listed = Listed::Last(Arc::new(listing));
        true
    }

    fn note(&self, error: &McpError) {
        let why = with_causes(error);
        tracing::warn!(server = self.name, error = why, "the tools of an MCP server cannot be listed");
        let mut listed = self.listed.write().unwrap_or_else(PoisonError::into_inner);
        if let Listed::Never(before) = &mut *listed {
            *before = why;
        }
    }

    /// Returns when the list should be asked for again.
    async fn until_due(&self, fresh_for: Duration) {
        tokio::select! {
            () = tokio::time::sleep(fresh_for) => {}
            () = self.client.changed.notified() => {}
            () = self.until_announced() => {}
            () = self.tell_of_abandoned() => {}
        }
    }

    /// Listens to the server. A stream that ends is opened again with the next list, which comes a while later.
    async fn until_announced(&self) {
        match self.known_connection().await {
            Some(connection) if connection.announces_changes => {
                if let Err(error) = self.listen(&connection).await {
                    tracing::debug!(server = self.name, error = %error, "an MCP server announces nothing now");
                    if !matches!(error, McpError::EndedEarly | McpError::Service(_)) {
                        // It has no such stream, whatever it says.
                        std::future::pending::<()>().await;
                    }
                    tokio::time::sleep(LONGEST_PAUSE).await;
                }
            }
            Some(_) | None => std::future::pending().await,
        }
    }

    async fn listen(&self, connection: &Connection) -> Result<(), McpError> {
        let service = &self.client.service;
        let opened = tokio::time::timeout(service.timeout(), self.client.open_announcements(&connection.speech)).await;
        let stream = opened.map_err(|_| McpError::EndedEarly)??;
        self.client.until_changed(&connection.speech, stream).await
    }

    /// Tells the server of requests that nobody waits for any more.
    async fn tell_of_abandoned(&self) {
        let mut abandoned = self.abandoned.lock().await;
        while let Some(request) = abandoned.recv().await {
            let told = tokio::time::timeout(LEAVING_TIME, self.client.tell_abandoned(request)).await;
            if !matches!(told, Ok(Ok(()))) {
                tracing::debug!(server = self.name, "an MCP server is not told of a call that was given up");
            }
        }
        // The sender lives as long as the server.
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_double_up_to_a_bound_and_differ_by_half(failures in 1..40_u32, dice: u64) {
            let shortest = pause(failures, 0, None);
            let pause = pause(failures, dice, None);
            prop_assert!(shortest <= pause && pause <= 2 * shortest && pause <= LONGEST_PAUSE, "{pause:?}");
        }
    }

    #[test]
    fn a_server_may_ask_for_a_longer_pause_up_to_a_bound() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let pauses = [None, seconds(0), seconds(7), seconds(86_400)].map(|asked| pause(1, 0, asked).as_millis());
        assert_eq!(pauses, [500, 500, 7_000, 300_000]);
    }
}
