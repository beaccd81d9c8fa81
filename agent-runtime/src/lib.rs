//! The sidecar that serves an agent beside Triton.
//!
//! Layers, each importing only those to its right: [`api`] -> [`agent`] -> [`tools`] -> [`backend`]. [`telemetry`],
//! [`chat_template`], [`outbound`], [`clock`], `aside`, [`ordered_value`] and [`trace_context`] know none of them.
//! [`traces`] tells a receiver what runs did. [`access`] knows clients and their tenants, for the [`api`].
//! [`readiness`] keeps the pod's readiness true, [`objectives`] takes edited objectives over, [`bridge`] stands by
//! itself in containers of MCP servers, [`app`] wires everything, and [`cli`] alone reads arguments and environment.

pub mod access;
pub mod agent;
pub mod api;
pub mod app;
mod aside;
pub mod backend;
pub mod bridge;
pub mod chat_template;
pub mod cli;
pub mod clock;
pub mod config_file;
mod events;
pub mod failure;
pub mod install;
pub mod objectives;
pub mod ordered_value;
pub mod outbound;
pub mod readiness;
pub mod telemetry;
pub mod tools;
pub mod trace_context;
pub mod traces;
