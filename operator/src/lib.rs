//! The Slipway operator: controllers with a pure core and a thin shell.
//!
//! Each controller observes (reads the cluster into a `World`), decides (pure), builds (pure), applies and records. Modules
//! named `decide`, `build` and `status` know no client, no clock and no logging; a test of this crate holds them to it.

pub mod agent_deployment;
pub mod args;
pub mod controllers;
pub mod engine;
pub mod failure;
pub mod inference_pool;
pub mod jobs;
pub mod kube_io;
pub mod leader;
pub mod metrics;
pub mod notifications;
pub mod outgoing;
pub mod plan;
pub mod profile;
pub mod prometheus;
pub mod promql;
pub mod server;
pub mod serving;
pub mod settings;
pub mod why;
