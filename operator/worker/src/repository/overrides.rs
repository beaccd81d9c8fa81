//! Applies a serving configuration to a config.pbtxt. Pure: the profiled and the served model get the same text.

use slipway_worker_contract::ServeConfig;

use super::text_format::{self, Field, SyntaxError, Value, scalar};

/// Returns the configuration's text with the overrides in it; unchanged text if there are none.
///
/// # Errors
/// [`SyntaxError`] if the text is not protobuf text.
pub fn apply(config: &str, overrides: &ServeConfig) -> Result<String, SyntaxError> {
    // Destructured so that a new field cannot be forgotten here.
    let ServeConfig { instances, max_batch_size, queue_delay_micros, parameters } = overrides;
    let mut fields = text_format::parse(config)?;
    if overrides == &ServeConfig::default() {
        return Ok(config.to_owned());
    }
    if let Some(count) = instances {
        set_instances(&mut fields, *count);
    }
    if let Some(size) = max_batch_size {
        set(&mut fields, "max_batch_size", Value::Bare(size.to_string()));
    }
    if let Some(delay) = queue_delay_micros {
        let batching = message(&mut fields, "dynamic_batching");
        set(batching, "max_queue_delay_microseconds", Value::Bare(delay.to_string()));
    }
    for (key, value) in parameters {
        set_parameter(&mut fields, key, value);
    }
    Ok(text_format::write(&fields))
}

fn set_instances(fields: &mut Vec<Field>, count: u32) {
    let count = Value::Bare(count.to_string());
    let mut found = false;
    for field in fields.iter_mut().filter(|f| f.name == "instance_group") {
        if let Value::Message(group) = &mut field.value {
            set(group, "count", count.clone());
            found = true;
        }
    }
    if !found {
        set(message(fields, "instance_group"), "count", count);
    }
}

fn set_parameter(fields: &mut Vec<Field>, key: &str, value: &str) {
    fields.retain(|f| match &f.value {
        Value::Message(entry) => f.name != "parameters" || scalar(entry, "key") != Some(key),
        Value::Text(_) | Value::Bare(_) => true,
    });
    let string = Field { name: "string_value".to_owned(), value: Value::Text(value.to_owned()) };
    let entry = vec![
        Field { name: "key".to_owned(), value: Value::Text(key.to_owned()) },
        Field { name: "value".to_owned(), value: Value::Message(vec![string]) },
    ];
    fields.push(Field { name: "parameters".to_owned(), value: Value::Message(entry) });
}

/// Sets the only value of a name.
fn set(fields: &mut Vec<Field>, name: &str, value: Value) {
    match fields.iter_mut().find(|f| f.name == name) {
        Some(field) => field.value = value,
        None => fields.push(Field { name: name.to_owned(), value }),
    }
}

/// Returns the fields of a message, made empty if there is none.
fn message<'a>(fields: &'a mut Vec<Field>, name: &str) -> &'a mut Vec<Field> {
    let index = fields.iter().position(|f| f.name == name && matches!(f.value, Value::Message(_)));
    let index = index.unwrap_or_else(|| {
        fields.push(Field { name: name.to_owned(), value: Value::Message(Vec::new()) });
        fields.len() - 1
    });
    match &mut fields[index].value {
        Value::Message(inner) => inner,
        Value::Text(_) | Value::Bare(_) => unreachable!("the position is a message's"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_override_lands_in_its_field_and_nothing_else_moves() {
        let config = r#"
            name: "agent"
            backend: "python"
            max_batch_size: 8
            instance_group [ { kind: KIND_CPU count: 1 } ]
            parameters { key: "threads" value { string_value: "1" } }
            parameters { key: "kept" value { string_value: "yes" } }
        "#;
        let overrides = ServeConfig {
            instances: Some(3),
            max_batch_size: Some(4),
            queue_delay_micros: Some(250),
            parameters: BTreeMap::from([("threads".to_owned(), "2".to_owned())]),
        };
        let expected = r#"
            name: "agent"
            backend: "python"
            max_batch_size: 4
            instance_group { kind: KIND_CPU count: 3 }
            parameters { key: "kept" value { string_value: "yes" } }
            dynamic_batching { max_queue_delay_microseconds: 250 }
            parameters { key: "threads" value { string_value: "2" } }
        "#;
        let applied = apply(config, &overrides).unwrap();
        assert_eq!(text_format::parse(&applied).unwrap(), text_format::parse(expected).unwrap());
        assert_eq!(apply(&applied, &overrides).unwrap(), applied, "applying twice changes nothing");
    }

    #[test]
    fn a_model_without_instance_group_gets_one() {
        let overrides = ServeConfig { instances: Some(2), ..ServeConfig::default() };
        assert_eq!(apply("name: \"a\"", &overrides).unwrap(), "name: \"a\"\ninstance_group {\n  count: 2\n}\n");
    }

    #[test]
    fn without_overrides_the_text_stays_as_it_is() {
        let text = "name:   \"a\" # a comment\n";
        assert_eq!(apply(text, &ServeConfig::default()).unwrap(), text);
    }
}
