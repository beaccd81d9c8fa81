//! How a client wants tokens chosen. Pure.

use slipway_runtime_config::Sampling;

use super::error::ApiError;
use crate::backend::{SamplingField, SamplingFields};

/// What a request asks for, as it stands in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) top_k: Option<i64>,
    pub(super) presence_penalty: Option<f64>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) seed: Option<i64>,
}

impl Asked {
    /// What is for an engine that takes these, and the names of what is not.
    pub(super) fn split(mut self, taken: SamplingFields) -> (Self, Vec<&'static str>) {
        let beyond = SamplingField::ALL.into_iter().filter(|field| !taken.has(*field));
        let ignored = beyond.filter(|field| self.drop(*field)).map(SamplingField::name).collect();
        (self, ignored)
    }

    /// Forgets a part, and says whether it was there.
    fn drop(&mut self, field: SamplingField) -> bool {
        match field {
            SamplingField::Temperature => self.temperature.take().is_some(),
            SamplingField::TopP => self.top_p.take().is_some(),
            SamplingField::TopK => self.top_k.take().is_some(),
            SamplingField::PresencePenalty => self.presence_penalty.take().is_some(),
            SamplingField::FrequencyPenalty => self.frequency_penalty.take().is_some(),
            SamplingField::Seed => self.seed.take().is_some(),
        }
    }
}

/// Reads it in thousandths.
///
/// # Errors
/// 400 that names the field and its bounds.
pub(super) fn read(asked: Asked) -> Result<Sampling, ApiError> {
    let Asked { temperature, top_p, top_k, presence_penalty, frequency_penalty, seed } = asked;
    Ok(Sampling {
        temperature_thousandths: number("temperature", temperature, 0.0, 2.0)?.map(i32::unsigned_abs),
        top_p_thousandths: number("top_p", top_p, 0.001, 1.0)?.map(i32::unsigned_abs),
        // Clients of vLLM write -1 for no limit.
        top_k: top_k.filter(|count| *count > 0).map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        presence_penalty_thousandths: number("presence_penalty", presence_penalty, -2.0, 2.0)?,
        frequency_penalty_thousandths: number("frequency_penalty", frequency_penalty, -2.0, 2.0)?,
        // Engines take 32 bits; the same number gives the same seed.
        seed: seed.map(|seed| u32::try_from(seed.rem_euclid(1 << 32)).unwrap_or_default()),
    })
}

fn number(field: &str, value: Option<f64>, least: f64, most: f64) -> Result<Option<i32>, ApiError> {
    match value {
        None => Ok(None),
        // Bounded above, so that it fits.
        Some(value) if (least..=most).contains(&value) => Ok(Some((value * 1_000.0).round() as i32)),
        Some(value) => Err(ApiError::invalid(field, format!("is {value}; must be between {least} and {most}"))),
    }
}
