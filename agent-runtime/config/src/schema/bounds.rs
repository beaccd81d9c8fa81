//! Bounds of numbers, lengths and counts. Pure.

use serde_json::Value;

use super::{InvalidArguments, SchemaError, invalid, shape};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bounds {
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    pub(super) lengths: [Option<u64>; 2],
    pub(super) counts: [Option<u64>; 2],
    pub(super) are_distinct: bool,
}

pub(super) fn set_bound(bounds: &mut Bounds, keyword: &str, value: &Value, path: &str) -> Result<(), SchemaError> {
    let number = || value.as_f64().map(Some).ok_or_else(|| shape(path, "a number"));
    let count = || value.as_u64().map(Some).ok_or_else(|| shape(path, "a whole number"));
    match keyword {
        "minimum" => bounds.minimum = number()?,
        "maximum" => bounds.maximum = number()?,
        "exclusiveMinimum" => bounds.above = number()?,
        "exclusiveMaximum" => bounds.below = number()?,
        "minLength" => bounds.lengths[0] = count()?,
        "maxLength" => bounds.lengths[1] = count()?,
        "minItems" => bounds.counts[0] = count()?,
        "maxItems" => bounds.counts[1] = count()?,
        "uniqueItems" => bounds.are_distinct = value.as_bool().ok_or_else(|| shape(path, "true or false"))?,
        _ => return Err(SchemaError::Unsupported { path: path.to_owned() }),
    }
    Ok(())
}

impl Bounds {
    pub(super) fn check_number(&self, value: f64, path: &str) -> Result<(), InvalidArguments> {
        let refused = [
            (self.minimum, "at least", self.minimum.is_some_and(|bound| value < bound)),
            (self.maximum, "at most", self.maximum.is_some_and(|bound| value > bound)),
            (self.above, "above", self.above.is_some_and(|bound| value <= bound)),
            (self.below, "below", self.below.is_some_and(|bound| value >= bound)),
        ];
        match refused.into_iter().find(|(_, _, is_refused)| *is_refused) {
            Some((Some(bound), words, _)) => Err(invalid(path, format!("is {value}; it must be {words} {bound}"))),
            _ => Ok(()),
        }
    }
}

pub(super) fn within([least, most]: [Option<u64>; 2], count: u64) -> Result<(), String> {
    match (least, most) {
        (Some(least), _) if count < least => Err(format!("at least {least}")),
        (_, Some(most)) if count > most => Err(format!("at most {most}")),
        _ => Ok(()),
    }
}
