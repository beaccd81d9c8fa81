//! Whether an object already is what it should be, so that an unchanged object costs no write. Pure.

use serde_json::Value;
use slipway_crds::labels;

/// Whether everything that `wanted` says holds in `observed`.
///
/// The API server fills in defaults, so `observed` may say more. Whatever `wanted` no longer says would go unnoticed:
/// for that, objects carry the hash of what was applied last.
pub fn holds(wanted: &Value, observed: &Value) -> bool {
    match (wanted, observed) {
        (Value::Object(wanted), Value::Object(observed)) => wanted.iter().all(|(key, value)| match observed.get(key) {
            Some(found) if is_resource_list(key) => hold_as_quantities(value, found),
            Some(found) => holds(value, found),
            None => is_empty(value),
        }),
        (Value::Array(wanted), Value::Array(observed)) => {
            wanted.len() == observed.len()
                && wanted.iter().zip(observed).all(|(wanted, observed)| holds(wanted, observed))
        }
        (wanted, observed) => wanted == observed,
    }
}

/// The first field of `wanted` that `kept` lacks, as a path. The API server drops what its schema does not have.
pub fn dropped(wanted: &Value, kept: &Value) -> Option<String> {
    let below = |name: &str, path: Option<String>| match path {
        Some(path) if path.is_empty() => Some(name.to_owned()),
        path => path.map(|path| format!("{name}.{path}")),
    };
    match (wanted, kept) {
        (wanted, _) if is_empty(wanted) => None,
        (_, Value::Null) => Some(String::new()),
        (Value::Object(wanted), Value::Object(kept)) => {
            wanted.iter().find_map(|(key, value)| below(key, dropped(value, kept.get(key).unwrap_or(&Value::Null))))
        }
        (Value::Array(wanted), Value::Array(kept)) => wanted
            .iter()
            .zip(kept)
            .enumerate()
            .find_map(|(at, (wanted, kept))| below(&at.to_string(), dropped(wanted, kept))),
        _ => None,
    }
}

/// Fields whose members are quantities, which the API server writes in a canonical form: `0.5` becomes `500m`.
fn is_resource_list(key: &str) -> bool {
    matches!(key, "limits" | "requests")
}

fn hold_as_quantities(wanted: &Value, observed: &Value) -> bool {
    let (Value::Object(members), Value::Object(found)) = (wanted, observed) else { return holds(wanted, observed) };
    members.iter().all(|(key, value)| {
        let found = found.get(key).unwrap_or(&Value::Null);
        let amounts = value.as_str().and_then(nano).zip(found.as_str().and_then(nano));
        amounts.map_or_else(|| holds(value, found), |(wanted, observed)| wanted == observed)
    })
}

/// A quantity in billionths, the finest that the API keeps; absent where the text is not a quantity, or too large for
/// any resource. Grammar: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>.
fn nano(text: &str) -> Option<i128> {
    const NANO: i128 = 1_000_000_000;
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let decimals = u32::try_from(fraction.len()).ok()?;
    let binary = |power: u32| NANO.checked_mul(1_i128.checked_shl(10 * power)?);
    let decimal = |power: u32| 10_i128.checked_pow(power);
    let unit = match suffix {
        "n" => decimal(0),
        "u" => decimal(3),
        "m" => decimal(6),
        "" => decimal(9),
        "k" => decimal(12),
        "M" => decimal(15),
        "G" => decimal(18),
        "T" => decimal(21),
        "P" => decimal(24),
        "E" => decimal(27),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => None,
    };
    digits.checked_mul(unit?)?.checked_div(10_i128.checked_pow(decimals)?)
}

/// The API server leaves out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The hash under which an object was applied last.
pub fn applied_hash(observed: &Value) -> Option<&str> {
    observed.get("metadata")?.get("annotations")?.get(labels::APPLIED_HASH)?.as_str()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::defaults_of_the_server(json!({"a": 1}), json!({"a": 1, "b": 2}), true)]
    #[case::changed_value(json!({"a": 1}), json!({"a": 2}), false)]
    #[case::missing_member(json!({"a": {"b": 1}}), json!({"a": {}}), false)]
    #[case::shorter_list(json!([1]), json!([1, 2]), false)]
    #[case::defaults_within_a_list(json!([{"name": "x"}]), json!([{"name": "x", "protocol": "TCP"}]), true)]
    #[case::empty_is_absent(json!({"a": {}}), json!({}), true)]
    #[case::canonical_cpu(json!({"limits": {"cpu": "0.5"}}), json!({"limits": {"cpu": "500m"}}), true)]
    #[case::canonical_memory(json!({"requests": {"memory": "2048Mi"}}), json!({"requests": {"memory": "2Gi"}}), true)]
    #[case::less_memory(json!({"requests": {"memory": "2047Mi"}}), json!({"requests": {"memory": "2Gi"}}), false)]
    #[case::decimal_is_not_binary(json!({"limits": {"memory": "1G"}}), json!({"limits": {"memory": "1Gi"}}), false)]
    #[case::no_limit(json!({"limits": {"cpu": "1"}}), json!({"limits": {}}), false)]
    #[case::texts_are_no_quantities(json!({"value": "0.5"}), json!({"value": "500m"}), false)]
    fn an_object_holds_when_nothing_that_is_wanted_differs(
        #[case] wanted: Value,
        #[case] observed: Value,
        #[case] expected: bool,
    ) {
        assert_eq!(holds(&wanted, &observed), expected);
    }

    #[rstest]
    #[case::kept(json!({"a": {"b": 1}}), json!({"a": {"b": 1}, "c": 2}), None)]
    #[case::changed_since(json!({"a": 1}), json!({"a": 2}), None)]
    #[case::empty_is_absent(json!({"a": [], "b": null}), json!({}), None)]
    #[case::without_a_schema(json!({"a": 1}), json!(null), Some(""))]
    #[case::member(json!({"a": 1, "b": {"c": 1, "d": 2}}), json!({"a": 1, "b": {"c": 1}}), Some("b.d"))]
    #[case::of_a_list(json!({"a": [{"b": 1}, {"b": 1, "c": 2}]}), json!({"a": [{"b": 1}, {"b": 1}]}), Some("a.1.c"))]
    fn the_first_field_that_was_not_kept_is_named(
        #[case] wanted: Value,
        #[case] kept: Value,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(dropped(&wanted, &kept).as_deref(), expected);
    }
}
