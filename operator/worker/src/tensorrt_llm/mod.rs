//! The steps of a TensorRT-LLM build, in the vendor's own image: its tools, then the serving repository.
//!
//! `tool` runs one of upstream's programs after asking its `--help` whether it takes what it is about to be given, and
//! explains a failure from its log. `assemble` checks the engine and puts it, the tokenizer and the image's models into
//! one artifact.

pub mod assemble;
pub mod tool;
