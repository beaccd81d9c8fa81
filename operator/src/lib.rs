//! The Slipway operator: the shell around its pure core, `slipway-operator-core`.
//!
//! Each controller observes (reads the cluster into a `World`), lets the core decide and build, applies and records. A
//! test of this crate holds whatever says that it is pure to it.

pub mod agent_deployment;
pub mod args;
pub mod bounded_body;
pub mod controllers;
pub mod credentials;
pub mod engine;
pub mod evidence;
pub mod kube_io;
pub mod leader;
pub mod metrics;
pub mod notifications;
pub mod outgoing;
pub mod panics;
pub mod profile;
pub mod promql;
pub mod reconcile;
pub mod server;
pub mod settings_file;
pub mod store;
pub mod turns;
pub mod unreadable;
pub mod watches;
