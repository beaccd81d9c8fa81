//! What serves and who is sent to it, one kind a file. Pure.

mod authentication;
pub mod controller_revision;
pub mod network_policy;
pub mod pod;
pub mod pool;
mod preflight;
pub mod route;
pub mod serving;
mod stdio;
mod traces;
pub mod traffic;
mod upstream;
