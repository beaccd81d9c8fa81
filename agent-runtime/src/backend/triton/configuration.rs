//! What the configuration of a model must have for its entry, and what is to be done where it has not. Pure.

use std::fmt;

use super::Entry;
use crate::backend::inference::{DataType, ModelConfig};

/// The platform of models that Triton makes of others. What it streams is what they stream.
const ENSEMBLE: &str = "ensemble";

/// A tensor and its type.
type Tensor = (&'static str, DataType);

/// What an entry exchanges with its model.
struct Contract {
    /// Inputs of every request.
    always: &'static [Tensor],
    /// Inputs of some requests.
    at_times: &'static [Tensor],
    outputs: &'static [Tensor],
    /// Whether tensors have a batch dimension.
    is_batched: bool,
}

/// All that does not fit, in the order of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfits(pub Vec<Misfit>);

/// What of a model's configuration does not fit, and what is to be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A model that does not stream.
    #[error("it answers a request once and cannot stream: set decoupled: true in its model_transaction_policy")]
    NotDecoupled,
    /// Tensors have no batch dimension.
    #[error("its max_batch_size is {found}, and requests have no batch dimension: set it to 0")]
    Batched {
        /// What it is.
        found: i32,
    },
    /// Tensors have a batch dimension.
    #[error("its max_batch_size is 0, and requests have a batch dimension: set it to 1 or more")]
    NotBatched,
    /// A tensor that it lacks.
    #[error("it has no {side} {name:?}: add it as {}, or use a version of its backend that has it", expected.as_str_name())]
    Absent {
        /// Which it would be.
        side: Side,
        /// Its name.
        name: &'static str,
        /// Its type.
        expected: DataType,
    },
    /// A tensor of another type.
    #[error("its {side} {name:?} is {}: make it {}", found.as_str_name(), expected.as_str_name())]
    OtherType {
        /// Which it is.
        side: Side,
        /// Its name.
        name: &'static str,
        /// The type that it has.
        found: DataType,
        /// The type that it should have.
        expected: DataType,
    },
    /// An input that not every request has.
    #[error("its input {name:?} is required, and not every request has it: set optional: true")]
    Required {
        /// Its name.
        name: String,
    },
}

/// Which tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What the model takes.
    Input,
    /// What it gives.
    Output,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

impl fmt::Display for Misfits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(Misfit::to_string).collect();
        f.write_str(&texts.join("; "))
    }
}

/// Compares a model's configuration with what its entry exchanges.
///
/// # Errors
/// All that does not fit.
pub fn check(entry: &Entry, configuration: &ModelConfig) -> Result<(), Misfits> {
    let contract = contract(entry);
    let is_decoupled = configuration.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    let mut misfits = Vec::new();
    if !is_decoupled && configuration.platform != ENSEMBLE {
        misfits.push(Misfit::NotDecoupled);
    }
    match (contract.is_batched, configuration.max_batch_size) {
        (false, found) if found > 0 => misfits.push(Misfit::Batched { found }),
        (true, 0) => misfits.push(Misfit::NotBatched),
        (false | true, _) => {}
    }
    let inputs =
        |name: &str| configuration.input.iter().find(|input| input.name == name).map(|input| input.data_type());
    let outputs =
        |name: &str| configuration.output.iter().find(|output| output.name == name).map(|output| output.data_type());
    let wanted = contract.always.iter().chain(contract.at_times);
    misfits.extend(wanted.filter_map(|tensor| misfit(Side::Input, *tensor, inputs(tensor.0))));
    misfits.extend(contract.outputs.iter().filter_map(|tensor| misfit(Side::Output, *tensor, outputs(tensor.0))));
    let is_always_sent = |name: &str| contract.always.iter().any(|(sent, _)| *sent == name);
    let required = configuration.input.iter().filter(|input| !input.optional && !is_always_sent(&input.name));
    misfits.extend(required.map(|input| Misfit::Required { name: input.name.clone() }));
    if misfits.is_empty() { Ok(()) } else { Err(Misfits(misfits)) }
}

fn misfit(side: Side, (name, expected): Tensor, found: Option<DataType>) -> Option<Misfit> {
    match found {
        None => Some(Misfit::Absent { side, name, expected }),
        Some(found) if found != expected => Some(Misfit::OtherType { side, name, found, expected }),
        Some(_) => None,
    }
}

const fn contract(entry: &Entry) -> Contract {
    use DataType::{TypeBool, TypeInt32, TypeString, TypeUint32};
    match entry {
        Entry::Text => Contract {
            always: &[("text_input", TypeString), ("max_tokens", TypeInt32), ("stream", TypeBool)],
            at_times: &[("stop_words", TypeString)],
            outputs: &[("text_output", TypeString), ("output_tokens", TypeInt32), ("finish_reason", TypeString)],
            is_batched: false,
        },
        Entry::Tokens(_) => Contract {
            always: &[
                ("input_ids", TypeInt32),
                ("input_lengths", TypeInt32),
                ("request_output_len", TypeInt32),
                ("streaming", TypeBool),
            ],
            at_times: &[("end_id", TypeInt32), ("stop_words_list", TypeInt32)],
            outputs: &[("output_ids", TypeInt32), ("sequence_length", TypeInt32)],
            is_batched: true,
        },
        Entry::Ensemble => Contract {
            always: &[("text_input", TypeString), ("max_tokens", TypeInt32), ("stream", TypeBool)],
            at_times: &[("stop_words", TypeString)],
            outputs: &[("text_output", TypeString)],
            is_batched: true,
        },
        Entry::Vllm => Contract {
            always: &[
                ("text_input", TypeString),
                ("stream", TypeBool),
                ("exclude_input_in_output", TypeBool),
                ("sampling_parameters", TypeString),
                ("return_finish_reason", TypeBool),
                ("return_num_output_tokens", TypeBool),
            ],
            at_times: &[],
            outputs: &[("text_output", TypeString), ("finish_reason", TypeString), ("num_output_tokens", TypeUint32)],
            is_batched: false,
        },
        Entry::LlmApi => Contract {
            always: &[
                ("text_input", TypeString),
                ("streaming", TypeBool),
                ("sampling_param_max_tokens", TypeInt32),
                ("sampling_param_exclude_input_from_output", TypeBool),
                ("return_finish_reason", TypeBool),
            ],
            at_times: &[("sampling_param_top_k", TypeInt32)],
            outputs: &[("text_output", TypeString), ("finish_reason", TypeString)],
            is_batched: false,
        },
    }
}
