//! Tensors of KServe's gRPC protocol, as Triton takes and gives them. Pure.

use crate::backend::{
    BackendError,
    inference::{InferTensorContents, ModelInferResponse, model_infer_request::InferInputTensor},
};

/// An input of whole numbers.
pub fn integers(name: &str, shape: &[usize], int_contents: Vec<i32>) -> InferInputTensor {
    input(name, "INT32", shape, InferTensorContents { int_contents, ..Default::default() })
}

/// An input of whole numbers that are not negative.
pub fn unsigned_integers(name: &str, shape: &[usize], uint_contents: Vec<u32>) -> InferInputTensor {
    input(name, "UINT32", shape, InferTensorContents { uint_contents, ..Default::default() })
}

/// An input of long whole numbers.
pub fn longs(name: &str, shape: &[usize], int64_contents: Vec<i64>) -> InferInputTensor {
    input(name, "INT64", shape, InferTensorContents { int64_contents, ..Default::default() })
}

/// An input of long whole numbers that are not negative.
pub fn unsigned_longs(name: &str, shape: &[usize], uint64_contents: Vec<u64>) -> InferInputTensor {
    input(name, "UINT64", shape, InferTensorContents { uint64_contents, ..Default::default() })
}

/// An input of numbers with a point.
pub fn floats(name: &str, shape: &[usize], fp32_contents: Vec<f32>) -> InferInputTensor {
    input(name, "FP32", shape, InferTensorContents { fp32_contents, ..Default::default() })
}

/// An input that is on.
pub fn on(name: &str, shape: &[usize]) -> InferInputTensor {
    input(name, "BOOL", shape, InferTensorContents { bool_contents: vec![true], ..Default::default() })
}

/// An input of texts.
pub fn texts(name: &str, texts: Vec<String>) -> InferInputTensor {
    let shape = [texts.len()];
    bytes(name, &shape, texts)
}

/// An input of texts of the only request of a batch.
pub fn texts_of_batch(name: &str, texts: Vec<String>) -> InferInputTensor {
    let shape = [1, texts.len()];
    bytes(name, &shape, texts)
}

fn bytes(name: &str, shape: &[usize], texts: Vec<String>) -> InferInputTensor {
    let bytes_contents = texts.into_iter().map(String::into_bytes).collect();
    input(name, "BYTES", shape, InferTensorContents { bytes_contents, ..Default::default() })
}

fn input(name: &str, datatype: &str, shape: &[usize], contents: InferTensorContents) -> InferInputTensor {
    let shape = shape.iter().map(|length| i64::try_from(*length).unwrap_or(i64::MAX)).collect();
    InferInputTensor { name: name.into(), datatype: datatype.into(), shape, contents: Some(contents) }
}

/// The bytes of an output.
pub fn raw<'a>(response: &'a ModelInferResponse, name: &str) -> Result<&'a [u8], BackendError> {
    let index = response.outputs.iter().position(|output| output.name == name);
    let contents = index.and_then(|index| response.raw_output_contents.get(index));
    contents.map(Vec::as_slice).ok_or_else(|| protocol(format!("output {name:?} is missing")))
}

/// An output of whole numbers.
pub fn read_integers(response: &ModelInferResponse, name: &str) -> Result<Vec<i32>, BackendError> {
    let (numbers, rest) = raw(response, name)?.as_chunks();
    if !rest.is_empty() {
        return Err(protocol(format!("output {name:?} is not INT32")));
    }
    Ok(numbers.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect())
}

/// The one element of a BYTES tensor: four bytes of little-endian length, then the text.
pub fn read_text(response: &ModelInferResponse, name: &str) -> Result<String, BackendError> {
    let raw = raw(response, name)?;
    let (length, text) = raw.split_first_chunk().ok_or_else(|| protocol(format!("output {name:?} has no element")))?;
    if usize::try_from(u32::from_le_bytes(*length)) != Ok(text.len()) {
        return Err(protocol(format!("output {name:?} is not one text")));
    }
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// What is wrong with an answer.
pub fn protocol(problem: String) -> BackendError {
    BackendError::Protocol { problem }
}
