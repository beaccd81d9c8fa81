//! What TensorRT-LLM's build flow needs before any GPU time is spent. Pure.
//!
//! A checkpoint becomes an engine in two steps of upstream's tools: `convert_checkpoint.py` or `quantize.py`, then
//! `trtllm-build`. This module knows which versions exist ([`version`]), what each tool takes ([`options`], [`extra`]),
//! which steps a precision needs ([`recipe`]) of a family of models ([`family`]), and what cannot work ([`check`]). In
//! the Job it reads a tool's help ([`help`]), an engine's folder ([`engine`]) and the log of a failed step
//! ([`failure`]). It fills the serving repository ([`repository`]), for which Triton is started by [`launch`].
//!
//! The options are written by hand from upstream's sources. The tables in `tests/data`, taken from upstream separately,
//! check them through real argument parsers; nothing is generated from those tables.

pub mod check;
pub mod engine;
pub mod extra;
pub mod failure;
pub mod family;
pub mod help;
pub mod launch;
pub mod options;
pub mod recipe;
pub mod repository;
pub mod version;
