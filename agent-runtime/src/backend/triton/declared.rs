//! What a model of Triton declares, beside what the sidecar sends to it and reads of it. Pure.
//!
//! Triton refuses a request with an input that its model does not declare, one of another type, and one that lacks an
//! input without `optional`. So such a model is found before its first run.

use std::collections::BTreeSet;

use crate::backend::inference::{DataType, ModelConfig, ModelInferRequest, ModelTransactionPolicy};

/// What the sidecar needs of a model.
pub struct Needs {
    /// Its requests.
    pub request: ModelInferRequest,
    /// Outputs that it reads.
    pub outputs: &'static [&'static str],
    /// Whether answers come in several responses, for which the model has to be decoupled.
    pub streams: bool,
}

/// What keeps a model from being used, each in words that follow its name; nothing if it can be.
pub fn problems(config: &ModelConfig, needs: &Needs) -> Vec<String> {
    let ModelConfig { input: inputs, output: outputs, model_transaction_policy } = config;
    let Needs { request, outputs: read, streams } = needs;
    let mut problems = Vec::new();
    for sent in &request.inputs {
        let declared = inputs.iter().find(|input| input.name == sent.name);
        match declared.map(|input| wire_name(input.data_type())) {
            None => problems.push(format!("it has no input {:?} of type {}", sent.name, sent.datatype)),
            Some(found) if found != sent.datatype => {
                problems.push(format!("its input {:?} has type {found}, and {} is sent", sent.name, sent.datatype));
            }
            Some(_) => {}
        }
    }
    let sent: BTreeSet<&str> = request.inputs.iter().map(|input| input.name.as_str()).collect();
    let unsent = inputs.iter().filter(|input| !input.optional && !sent.contains(input.name.as_str()));
    problems
        .extend(unsent.map(|input| format!("its input {:?} is not optional, and nothing is sent for it", input.name)));
    let missing = read.iter().filter(|name| !outputs.iter().any(|output| output.name == **name));
    problems.extend(missing.map(|name| format!("it has no output {name:?}")));
    let is_decoupled = matches!(model_transaction_policy, Some(ModelTransactionPolicy { decoupled: true }));
    if *streams && !is_decoupled {
        problems.push("its model_transaction_policy is not decoupled, so that it cannot stream".to_owned());
    }
    problems
}

/// A type, as requests name it.
fn wire_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::TypeString => "BYTES",
        other => other.as_str_name().strip_prefix("TYPE_").unwrap_or_default(),
    }
}
