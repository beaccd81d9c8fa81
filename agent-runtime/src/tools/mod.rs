//! The tools of an agent: what the model may call by name. Knows nothing of runs, prompts or requests.

mod arguments;
pub mod calculator;
mod http;
mod mcp;
mod registry;
mod service;
mod shown;

pub use arguments::ArgumentError;
pub use http::{HttpToolError, PrepareHttpToolError};
pub use mcp::{ListingError, McpError, RpcError};
pub use registry::{Catalog, PrepareToolError, Registry, Replay, Request, Sources, ToolError};
pub use service::{PrepareServiceError, ServiceError};
pub use shown::{ShownTool, ToolInput};
