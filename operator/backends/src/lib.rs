//! What TensorRT-LLM's build flow needs before any GPU time is spent. Pure.
//!
//! A checkpoint becomes an engine in two steps of upstream's tools: `convert_checkpoint.py` or `quantize.py`, then
//! `trtllm-build`. This crate knows which versions exist ([`version`]), what each tool takes ([`options`], [`extra`]),
//! which steps a precision needs ([`recipe`]), what GPUs can do ([`gpu`]), what an engine takes of them ([`memory`]) and
//! what cannot work ([`check`]). In the Job it reads a tool's help ([`help`]), an engine's folder ([`engine`]) and the log of a
//! failed step ([`failure`]), and fills the serving repository ([`repository`]), for which Triton is started by [`launch`]. It runs
//! nothing and reads nothing: texts in, texts and typed errors out.
//!
//! vLLM and TensorRT-LLM's PyTorch flow serve a checkpoint without these steps; what they are told is in [`no_build`].
//!
//! The options are written by hand from upstream's sources. The tables in `tests/data`, taken from upstream separately,
//! check them through real argument parsers; nothing is generated from those tables.

pub mod check;
pub mod engine;
pub mod extra;
pub mod failure;
pub mod gpu;
pub mod help;
pub mod launch;
pub mod memory;
pub mod no_build;
pub mod options;
pub mod recipe;
pub mod repository;
pub mod version;
