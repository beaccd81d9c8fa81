//! What configures serving backends, and what is refused before any GPU time is spent. Pure.
//!
//! Each backend has a folder. [`tensorrt_llm`] builds engines with TensorRT-LLM's tools. The others build nothing, and
//! are entries of one table, [`no_build::of`]: [`sglang`], [`tensorrt_llm_pytorch`] and [`vllm`]. They share numeric
//! formats ([`formats`]), the figures of GPUs ([`gpu`]), the shape of a model as its config.json has it
//! ([`config_json`]), and what an engine takes of a GPU ([`memory`]). [`check`] has what cannot work whatever the
//! backend, [`triton`] which of Triton's ports are open.
//!
//! The crate runs nothing and reads nothing: texts in, texts and typed errors out.

pub mod check;
pub mod config_json;
pub mod formats;
pub mod gpu;
pub mod memory;
pub mod no_build;
pub mod sglang;
pub mod tensorrt_llm;
pub mod tensorrt_llm_pytorch;
pub mod triton;
pub mod vllm;
