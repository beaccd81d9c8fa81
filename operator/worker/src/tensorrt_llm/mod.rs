//! The steps of a TensorRT-LLM build, in the vendor's own image: its tools, then the serving repository.
//!
//! `tool` runs one of upstream's programs after asking its `--help` whether it takes what it is about to be given, and
//! explains a failure from its log. `assemble` checks the engine and puts it, the tokenizer and the image's models into one
//! artifact.

pub mod assemble;
pub mod tool;

use slipway_backends::failure::FailureClass as ToolClass;
use slipway_worker_contract::FailureClass;

/// The class of the operator's records for upstream's.
fn class_of(class: ToolClass) -> FailureClass {
    match class {
        ToolClass::InsufficientMemory => FailureClass::InsufficientMemory,
        ToolClass::UnsupportedPrecision => FailureClass::UnsupportedPrecision,
        ToolClass::BadModel => FailureClass::BadModel,
        ToolClass::ImageMismatch => FailureClass::ImageMismatch,
        ToolClass::Infrastructure => FailureClass::Infrastructure,
    }
}
