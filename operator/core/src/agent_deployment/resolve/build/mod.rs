//! The Jobs that resolve and fetch, one a file. Pure.

pub mod fetch_job;
pub mod resolve_job;
