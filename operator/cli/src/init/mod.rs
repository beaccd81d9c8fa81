//! `kubectl slipway init`: a first manifest from a model, a GPU and objectives. Pure.
//!
//! [`options`] reads the flags, [`mod@backend`] and [`objective`] two of them, and [`mod@manifest`] writes the text.
//! Whatever passes is accepted by the API server: tests hold every combination to its rules.

pub mod backend;
pub mod manifest;
pub mod objective;
pub mod options;

pub use manifest::manifest;
pub use options::{InitArgs, InitError, Options};
