//! The tools of an agent: what the model may call by name. Knows nothing of runs, prompts or requests.

mod arguments;
pub mod calculator;
mod http;
mod registry;

pub use arguments::ArgumentError;
pub(crate) use http::Clients;
pub use http::{AuthoritiesError, HeadersError, HttpToolError, PrepareHttpToolError, ReadMountedError};
pub use registry::{PrepareToolError, Registry, ToolError};
