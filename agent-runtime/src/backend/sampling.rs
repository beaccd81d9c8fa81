//! How tokens are chosen, in the words of the engines that take it. Pure.

use serde_json::{Value, json};
use slipway_runtime_config::Sampling;

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
