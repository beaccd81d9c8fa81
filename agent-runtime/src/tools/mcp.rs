//! Tools of servers that speak the Model Context Protocol, over HTTP.
//!
//! Revisions 2026-07-28, which has neither handshake nor sessions, and 2025-11-25 down to 2025-03-26, which have both.

mod client;
mod content;
mod error;
mod listing;
mod message;
mod mirror;
mod server;
mod watch;

pub use error::McpError;
pub use listing::ListingError;
pub(crate) use listing::{Listing, Remote};
pub use message::RpcError;
pub(crate) use server::Server;
