//! What TensorRT-LLM's build flow needs before any GPU time is spent. Pure.
//!
//! A checkpoint becomes an engine in two steps of upstream's tools: `convert_checkpoint.py` or `quantize.py`, then
//! `trtllm-build`. This crate knows which versions exist ([`version`]), what each tool takes ([`options`], [`extra`]) and
//! which steps a precision needs ([`recipe`]). It runs nothing and reads nothing: texts in, texts and typed errors out.
//!
//! The options are written by hand from upstream's sources. The tables in `tests/data`, taken from upstream separately,
//! check them through real argument parsers; nothing is generated from those tables.

pub mod extra;
pub mod options;
pub mod recipe;
pub mod version;
