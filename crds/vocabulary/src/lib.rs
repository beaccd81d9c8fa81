//! The words that several programs of Slipway exchange, each declared once.
//!
//! [`evidence`] is what pods count and judges read; [`Percentile`] is what objectives bound, and [`FailureClass`] how a
//! Job fails. [`serving`] is what serves an engine. The crate depends on serde alone: it is linked into the operator,
//! the sidecar, the worker and the analysis. Of these, only the operator depends on the API's own crate. The feature
//! `schema` adds the schemas that the API is generated from. Doc comments of words that the API uses are part of it.

pub mod evidence;
mod failure;
mod percentile;
pub mod serving;

pub use failure::FailureClass;
pub use percentile::Percentile;
