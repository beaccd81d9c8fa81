//! Servers that stand for what a user has elsewhere: a place for models, and a service that a tool calls.

pub mod facts;
pub mod models;
