//! The operator's own reconciliations against a strict API server in memory, with a fault at every write.
//!
//! A story is told once undisturbed. Then it is told again for every write and every fault, and for every list that
//! shows the past: it must come to the same end, create and delete the same objects as often, and never let users down.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod api;
mod cluster;
mod end;
mod operator;
mod plans;
mod server;
mod story;
mod users;

use pretty_assertions::assert_eq;

use story::{Act, tell};

#[tokio::test]
async fn an_agent_is_created_and_becomes_ready() {
    let told = tell(&[Act::Create], None).await;
    assert_eq!(told.violations, Vec::<String>::new());
    assert_eq!(story::stages(&told.ends[0]), ["Serving"]);
}
