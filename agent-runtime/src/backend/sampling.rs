//! How tokens are chosen: which parts of that an engine takes, and the words of those that take it as JSON. Pure.

use serde_json::{Value, json};
use slipway_runtime_config::Sampling;

/// A part of a [`Sampling`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingField {
    /// The temperature.
    Temperature,
    /// The probability that the candidates have together.
    TopP,
    /// How many candidates there are.
    TopK,
    /// The penalty of tokens that were written before.
    PresencePenalty,
    /// The same for each time that they were.
    FrequencyPenalty,
    /// The seed.
    Seed,
}

/// The parts of a [`Sampling`] that an engine's requests have a place for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingFields([bool; SamplingField::ALL.len()]);

impl SamplingField {
    /// Every part, in the order of their variants.
    pub const ALL: [Self; 6] =
        [Self::Temperature, Self::TopP, Self::TopK, Self::PresencePenalty, Self::FrequencyPenalty, Self::Seed];

    /// Its name in requests of clients.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::TopK => "top_k",
            Self::PresencePenalty => "presence_penalty",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::Seed => "seed",
        }
    }

    /// Whether a sampling says something of it.
    pub fn is_in(self, sampling: Sampling) -> bool {
        match self {
            Self::Temperature => sampling.temperature_thousandths.is_some(),
            Self::TopP => sampling.top_p_thousandths.is_some(),
            Self::TopK => sampling.top_k.is_some(),
            Self::PresencePenalty => sampling.presence_penalty_thousandths.is_some(),
            Self::FrequencyPenalty => sampling.frequency_penalty_thousandths.is_some(),
            Self::Seed => sampling.seed.is_some(),
        }
    }
}

impl SamplingFields {
    /// No part.
    pub const NONE: Self = Self([false; SamplingField::ALL.len()]);
    /// Every part.
    pub const ALL: Self = Self([true; SamplingField::ALL.len()]);

    /// The parts of which `has` says so.
    pub fn which(has: impl FnMut(SamplingField) -> bool) -> Self {
        Self(SamplingField::ALL.map(has))
    }

    /// Whether a part is one of them.
    pub const fn has(self, field: SamplingField) -> bool {
        self.0[field as usize]
    }

    /// Their names in requests.
    pub fn names(self) -> Vec<&'static str> {
        SamplingField::ALL.into_iter().filter(|field| self.has(*field)).map(SamplingField::name).collect()
    }

    /// What a sampling says beyond them, by the names of requests.
    pub fn lacking(self, sampling: Sampling) -> Vec<&'static str> {
        let beyond = |field: &SamplingField| field.is_in(sampling) && !self.has(*field);
        SamplingField::ALL.into_iter().filter(beyond).map(SamplingField::name).collect()
    }
}

/// Adds what is set to a request. Without a temperature the likeliest token is taken, as with every other entry.
pub fn write(sampling: Sampling, request: &mut Value) {
    let top_k = sampling.top_k;
    write_if_set(sampling, request);
    if sampling.temperature_thousandths.is_none() {
        request["temperature"] = json!(0);
    }
    if let Some(top_k) = top_k {
        request["top_k"] = json!(top_k);
    }
}

/// Adds what is set to a request for a server of any make: some refuse a temperature, and the API knows no `top_k`.
pub fn write_if_set(sampling: Sampling, request: &mut Value) {
    let Sampling {
        temperature_thousandths,
        top_p_thousandths,
        top_k: _,
        presence_penalty_thousandths,
        frequency_penalty_thousandths,
        seed,
    } = sampling;
    let fields = [
        ("temperature", temperature_thousandths.map(|value| thousandths(i64::from(value)))),
        ("top_p", top_p_thousandths.map(|value| thousandths(i64::from(value)))),
        ("presence_penalty", presence_penalty_thousandths.map(|value| thousandths(i64::from(value)))),
        ("frequency_penalty", frequency_penalty_thousandths.map(|value| thousandths(i64::from(value)))),
        ("seed", seed.map(Value::from)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            request[name] = value;
        }
    }
}

/// A number of JSON that has no more digits than were given.
fn thousandths(value: i64) -> Value {
    if value % 1_000 == 0 { json!(value / 1_000) } else { json!(value as f64 / 1_000.0) }
}
