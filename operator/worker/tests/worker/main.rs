//! The verbs against temporary folders and in-process servers, as a Job would run them.

// Fixtures outside of test functions may fail as loudly as the tests themselves.
#![allow(clippy::unwrap_used, clippy::panic)]

mod agents;
mod artifacts;
mod asking;
mod campaign;
mod full_volume;
mod no_build;
mod processes;
mod server;
mod sources;
mod sweep;
mod tensorrt_llm;
