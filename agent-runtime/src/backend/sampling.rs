//! How tokens are chosen, in the words of the engines that take it. Pure.

use serde_json::{Value, json};
use slipway_runtime_config::Sampling;

/// Adds what is set to a request. Without a temperature the likeliest token is taken, as with every other entry.
pub fn write(sampling: Sampling, request: &mut Value) {
    let Sampling {
        temperature_thousandths,
        top_p_thousandths,
        top_k,
        presence_penalty_thousandths,
        frequency_penalty_thousandths,
        seed,
    } = sampling;
    request["temperature"] = temperature_thousandths.map_or(json!(0), |value| thousandths(i64::from(value)));
    let fields = [
        ("top_p", top_p_thousandths.map(|value| thousandths(i64::from(value)))),
        ("top_k", top_k.map(Value::from)),
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
