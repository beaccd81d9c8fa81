//! What the Slipway operator decides and builds. Pure.
//!
//! A world that was observed goes in; a plan, made of objects, status, events and announcements, comes out. This crate
//! links no client of Kubernetes and no asynchronous runtime. It reads no clock, no environment and no file, draws no
//! random number and logs nothing: the shell, `slipway-operator`, does that. Every file of this crate is held to it by
//! a test of the shell.

pub mod agent_deployment;
pub mod artifact_store;
pub mod conditions;
pub mod engine;
pub mod expectations;
pub mod inference_pool;
pub mod jobs;
pub mod leader;
pub mod notifications;
pub mod outdated;
pub mod parts;
pub mod plan;
pub mod profile;
pub mod prometheus;
pub mod refusal;
#[cfg(test)]
mod reworded;
pub mod serving;
pub mod settings;
pub mod store;
pub mod why;
