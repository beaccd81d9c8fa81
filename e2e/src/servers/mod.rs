//! Servers that stand for what a user has elsewhere: a place for models, a service that a tool calls, receivers of
//! alerts, and a host of Git repositories.

pub mod facts;
pub mod git;
pub mod gpus;
pub mod models;
pub mod receivers;
