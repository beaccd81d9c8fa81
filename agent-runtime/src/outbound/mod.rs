//! Connections that leave the pod: to addresses that were checked, by certificates of named authorities, with headers
//! of a mounted Secret. Knows nothing of who is called.

mod addresses;
mod clients;
mod headers;
mod mounted;
mod pause;
pub(crate) mod retry_after;
mod secrets;

pub use addresses::{ForbiddenHost, Lookup};
pub(crate) use addresses::{Guard, forbidden};
pub use clients::AuthoritiesError;
pub(crate) use clients::Clients;
pub use headers::HeadersError;
pub(crate) use headers::read_headers;
pub use mounted::ReadMountedError;
pub(crate) use pause::pause;
pub(crate) use secrets::Secrets;
