//! The tools of an agent: what the model may call by name. Knows nothing of runs, prompts or requests.

mod arguments;
pub mod calculator;
mod http;
mod registry;
mod service;

pub use arguments::ArgumentError;
pub use http::{HttpToolError, PrepareHttpToolError};
pub use registry::{PrepareToolError, Registry, ToolError};
pub(crate) use service::Clients;
pub use service::{
    AuthoritiesError, ForbiddenHost, HeadersError, Lookup, PrepareServiceError, ReadMountedError, ServiceError,
};
