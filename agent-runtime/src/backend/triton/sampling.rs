//! How tokens are chosen, in the inputs that a model has for it. Pure.
//!
//! Names are those of TensorRT-LLM's repository (<https://github.com/NVIDIA/TensorRT-LLM/tree/main/triton_backend>):
//! entries of text have them plain, the engine calls candidates `runtime_top_k` and `runtime_top_p`, and the `llmapi`
//! model has a prefix. Releases before 0.17 call the seed `random_seed`.

use slipway_runtime_config::Sampling;

use super::{Entry, tensor};
use crate::backend::{
    SamplingField, SamplingFields,
    inference::{DataType, ModelConfig, model_infer_request::InferInputTensor},
};

/// The inputs that a model has for how tokens are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingInputs([Option<Input>; SamplingField::ALL.len()]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Input {
    name: &'static str,
    data_type: DataType,
}

/// What an input is given.
#[derive(Clone, Copy)]
enum Number {
    Thousandths(i32),
    Whole(u32),
}

impl SamplingInputs {
    /// Those of a model. An input whose type holds no such number is left out.
    pub fn of(entry: &Entry, configuration: &ModelConfig) -> Self {
        Self(SamplingField::ALL.map(|field| {
            let found = names(entry, field).iter().find_map(|name| {
                let input = configuration.input.iter().find(|input| input.name == *name)?;
                Some(Input { name, data_type: input.data_type() })
            })?;
            holds(field, found.data_type).then_some(found)
        }))
    }

    /// The parts of a sampling that they are for.
    pub fn fields(&self) -> SamplingFields {
        SamplingFields::which(|field| self.input(field).is_some())
    }

    /// Whether tokens are drawn. Otherwise the likeliest is taken.
    pub fn draws(&self, sampling: Sampling) -> bool {
        self.input(SamplingField::Temperature).is_some() && sampling.temperature_thousandths.is_some_and(|it| it > 0)
    }

    /// What a request has of a sampling, in tensors of this shape. Without a temperature there are no candidates to
    /// draw from: engines of TensorRT-LLM would draw for a limit on them alone.
    pub fn tensors(&self, sampling: Sampling, shape: &[usize]) -> Vec<InferInputTensor> {
        let draws = self.draws(sampling);
        let numbers = SamplingField::ALL.map(|field| number(field, sampling, draws));
        let present = self.0.into_iter().zip(numbers).filter_map(|(input, number)| input.zip(number));
        present.map(|(Input { name, data_type }, number)| tensor_of(name, data_type, shape, number)).collect()
    }

    fn input(&self, field: SamplingField) -> Option<Input> {
        self.0[field as usize]
    }
}

fn number(field: SamplingField, sampling: Sampling, draws: bool) -> Option<Number> {
    let unsigned = |value: Option<u32>| value.map(|value| i32::try_from(value).unwrap_or(i32::MAX));
    let drawn = |value: Option<Number>| value.filter(|_| draws);
    match field {
        SamplingField::Temperature => drawn(unsigned(sampling.temperature_thousandths).map(Number::Thousandths)),
        // All candidates: without any limit engines of TensorRT-LLM take the likeliest token at every temperature.
        SamplingField::TopP if sampling.top_k.is_none() => {
            drawn(unsigned(sampling.top_p_thousandths).or(Some(1_000)).map(Number::Thousandths))
        }
        SamplingField::TopP => drawn(unsigned(sampling.top_p_thousandths).map(Number::Thousandths)),
        SamplingField::TopK => drawn(sampling.top_k.map(Number::Whole)),
        SamplingField::PresencePenalty => sampling.presence_penalty_thousandths.map(Number::Thousandths),
        SamplingField::FrequencyPenalty => sampling.frequency_penalty_thousandths.map(Number::Thousandths),
        SamplingField::Seed => sampling.seed.map(Number::Whole),
    }
}

fn names(entry: &Entry, field: SamplingField) -> &'static [&'static str] {
    match (entry, field) {
        // In the JSON of its input `sampling_parameters`.
        (Entry::Vllm, _) => &[],
        (Entry::LlmApi, field) => match field {
            SamplingField::Temperature => &["sampling_param_temperature"],
            SamplingField::TopP => &["sampling_param_top_p"],
            SamplingField::TopK => &["sampling_param_top_k"],
            SamplingField::PresencePenalty => &["sampling_param_presence_penalty"],
            SamplingField::FrequencyPenalty => &["sampling_param_frequency_penalty"],
            SamplingField::Seed => &["sampling_param_seed"],
        },
        (Entry::Tokens(_), SamplingField::TopP) => &["runtime_top_p"],
        (Entry::Tokens(_), SamplingField::TopK) => &["runtime_top_k"],
        (Entry::Text | Entry::Ensemble | Entry::Tokens(_), field) => match field {
            SamplingField::Temperature => &["temperature"],
            SamplingField::TopP => &["top_p"],
            SamplingField::TopK => &["top_k"],
            SamplingField::PresencePenalty => &["presence_penalty"],
            SamplingField::FrequencyPenalty => &["frequency_penalty"],
            SamplingField::Seed => &["seed", "random_seed"],
        },
    }
}

fn holds(field: SamplingField, data_type: DataType) -> bool {
    match field {
        SamplingField::TopK | SamplingField::Seed => {
            matches!(data_type, DataType::TypeInt32 | DataType::TypeUint32 | DataType::TypeInt64 | DataType::TypeUint64)
        }
        SamplingField::Temperature
        | SamplingField::TopP
        | SamplingField::PresencePenalty
        | SamplingField::FrequencyPenalty => data_type == DataType::TypeFp32,
    }
}

fn tensor_of(name: &str, data_type: DataType, shape: &[usize], number: Number) -> InferInputTensor {
    match (number, data_type) {
        // A number of thousandths has few digits.
        (Number::Thousandths(value), _) => tensor::floats(name, shape, vec![value as f32 / 1_000.0]),
        (Number::Whole(value), DataType::TypeUint64) => tensor::unsigned_longs(name, shape, vec![value.into()]),
        (Number::Whole(value), DataType::TypeInt64) => tensor::longs(name, shape, vec![value.into()]),
        (Number::Whole(value), DataType::TypeUint32) => tensor::unsigned_integers(name, shape, vec![value]),
        // The same seed stays the same.
        (Number::Whole(value), _) => tensor::integers(name, shape, vec![value.cast_signed()]),
    }
}
