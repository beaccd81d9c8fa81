//! Requests as perf_analyzer reads them, in the tensors of the served entry. Pure.

use serde_json::{Value, json};
use slipway_agent_runtime::backend::{BackendError, Entry, Generation, inference::ModelInferRequest};
use slipway_worker_contract::QualityPrompt;

/// Dimensions of a batch.
const BATCH: usize = 1;

/// Writes requests as perf_analyzer's input data
/// (<https://github.com/triton-inference-server/perf_analyzer/blob/main/docs/input_data.md>).
///
/// # Errors
/// A prompt has no tokens.
pub fn input_data(requests: &[QualityPrompt], entry: &Entry) -> Result<Value, BackendError> {
    let of_request = |request: &QualityPrompt| match entry {
        Entry::Text => Ok(of_text(request)),
        // As the sidecar sends it; the model's name is perf_analyzer's own argument.
        Entry::Tokens(_) | Entry::Ensemble => {
            entry.request("", generation(request)).map(|request| of_tensors(request, BATCH))
        }
        Entry::Vllm | Entry::LlmApi => entry.request("", generation(request)).map(|request| of_tensors(request, 0)),
    };
    let data: Vec<Value> = requests.iter().map(of_request).collect::<Result<_, _>>()?;
    Ok(json!({"data": data}))
}

fn of_text(request: &QualityPrompt) -> Value {
    let mut entry = json!({
        "text_input": [request.prompt],
        "max_tokens": [request.max_tokens],
        "stream": [false],
    });
    if !request.stop_words.is_empty() {
        entry["stop_words"] = json!({"content": request.stop_words, "shape": [request.stop_words.len()]});
    }
    entry
}

fn generation(request: &QualityPrompt) -> Generation {
    let QualityPrompt { id, prompt, max_tokens, stop_words } = request.clone();
    Generation { id, prompt, max_tokens, stop_words, ..Generation::default() }
}

/// Tensors without their first dimensions: perf_analyzer adds that of the batch itself.
fn of_tensors(request: ModelInferRequest, without: usize) -> Value {
    let tensors = request.inputs.into_iter().map(|input| {
        let contents = input.contents.unwrap_or_default();
        let content = match input.datatype.as_str() {
            "BOOL" => json!(contents.bool_contents),
            "BYTES" => {
                let texts = contents.bytes_contents.iter().map(|bytes| String::from_utf8_lossy(bytes));
                json!(texts.collect::<Vec<_>>())
            }
            _ => json!(contents.int_contents),
        };
        (input.name, json!({"content": content, "shape": input.shape.get(without..).unwrap_or_default()}))
    });
    Value::Object(tensors.collect())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use pretty_assertions::assert_eq;
    use slipway_agent_runtime::backend::tokens::Tokenizer;

    use super::*;

    fn prompt() -> QualityPrompt {
        QualityPrompt { id: "1".into(), prompt: "p".into(), max_tokens: 8, stop_words: vec!["\n".into()] }
    }

    #[test]
    fn text_is_written_for_an_entry_of_text() {
        assert_eq!(
            input_data(&[prompt()], &Entry::Text).unwrap(),
            json!({"data": [{"text_input": ["p"], "max_tokens": [8], "stream": [false],
                "stop_words": {"content": ["\n"], "shape": [1]}}]})
        );
    }

    #[test]
    fn the_tensors_of_a_backend_without_a_build_are_written_whole() {
        let sampling = r#"{"max_tokens":8,"stop":["\n"],"temperature":0}"#;
        let on = json!({"content": [true], "shape": [1]});
        assert_eq!(
            input_data(&[prompt()], &Entry::Vllm).unwrap(),
            json!({"data": [{
                "text_input": {"content": ["p"], "shape": [1]}, "stream": on, "exclude_input_in_output": on,
                "sampling_parameters": {"content": [sampling], "shape": [1]}, "return_finish_reason": on,
                "return_num_output_tokens": on,
            }]})
        );
        assert_eq!(
            input_data(&[prompt()], &Entry::LlmApi).unwrap(),
            json!({"data": [{
                "text_input": {"content": ["p"], "shape": [1]}, "streaming": on,
                "sampling_param_max_tokens": {"content": [8], "shape": [1]},
                "sampling_param_top_k": {"content": [1], "shape": [1]},
                "sampling_param_exclude_input_from_output": on, "return_finish_reason": on,
            }]})
        );
    }

    #[test]
    fn text_for_models_around_an_engine_has_no_batch_dimension_of_its_own() {
        assert_eq!(
            input_data(&[prompt()], &Entry::Ensemble).unwrap(),
            json!({"data": [{
                "text_input": {"content": ["p"], "shape": [1]}, "max_tokens": {"content": [8], "shape": [1]},
                "stream": {"content": [true], "shape": [1]}, "stop_words": {"content": ["\n"], "shape": [1]},
            }]})
        );
    }

    #[test]
    fn tokens_are_written_for_an_engine() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/model/checkpoints/react-512");
        let entry = Entry::Tokens(Arc::new(Tokenizer::read(&folder).unwrap()));
        assert_eq!(
            input_data(&[prompt()], &entry).unwrap(),
            json!({"data": [{
                "input_ids": {"content": [112], "shape": [1]},
                "input_lengths": {"content": [1], "shape": [1]},
                "request_output_len": {"content": [8], "shape": [1]},
                "streaming": {"content": [true], "shape": [1]},
                "end_id": {"content": [258], "shape": [1]},
                "stop_words_list": {"content": [10, 1], "shape": [2, 1]},
            }]})
        );
    }
}
