//! How an engine chooses tokens.

use serde::{Deserialize, Serialize};

/// How tokens are chosen. What is absent is not sent, except that the temperature is then 0: the likeliest token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sampling {
    /// The temperature, times 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_thousandths: Option<u32>,
    /// The probability that the candidates have together, times 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p_thousandths: Option<u32>,
    /// How many candidates there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// The penalty of tokens that were written before, times 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence_penalty_thousandths: Option<i32>,
    /// The same for each time that they were, times 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_penalty_thousandths: Option<i32>,
    /// The same seed gives the same answer, as far as the engine keeps that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
}

impl Sampling {
    /// Whether it says nothing.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// This, where it says something, and `other` where it does not.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            temperature_thousandths: self.temperature_thousandths.or(other.temperature_thousandths),
            top_p_thousandths: self.top_p_thousandths.or(other.top_p_thousandths),
            top_k: self.top_k.or(other.top_k),
            presence_penalty_thousandths: self.presence_penalty_thousandths.or(other.presence_penalty_thousandths),
            frequency_penalty_thousandths: self.frequency_penalty_thousandths.or(other.frequency_penalty_thousandths),
            seed: self.seed.or(other.seed),
        }
    }
}
