//! The words that several programs of Slipway exchange, each declared once.
//!
//! [`evidence`] is what pods count and judges read. The crate depends on serde alone: it is linked into the operator, the
//! sidecar, the worker and the analysis, which never depend on the API's own crate.

pub mod evidence;
