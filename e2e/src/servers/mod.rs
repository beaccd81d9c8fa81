//! Servers that stand for what a user has elsewhere: a place for models, services that tools call, an issuer of tokens,
//! receivers of alerts, and a host of Git repositories. One is a client, which sends what scenarios tell it.

pub mod callers;
pub mod facts;
pub mod git;
pub mod gpus;
pub mod issuer;
pub mod mcp;
pub mod models;
pub mod receivers;
pub mod tls;
