//! The Jobs that find out and fetch, one a file. Pure.

pub mod fetch_job;
pub mod resolve_job;
