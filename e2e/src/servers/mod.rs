//! Servers that stand for what a user has elsewhere: a place for models, a service that a tool calls, and receivers of
//! alerts.

pub mod facts;
pub mod models;
pub mod receivers;
