//! Arguments that users add to the typed ones. Pure.

use serde_json::{Map, Value};
use thiserror::Error;

/// What only the Job's own layout may set, or what would need more than the checkpoint has.
const RESERVED: [&str; 9] = [
    "backend",
    "download_dir",
    "hf_token",
    "model",
    "revision",
    "skip_tokenizer_init",
    "tokenizer",
    "triton_config",
    "trust_remote_code",
];

/// Why an extra argument is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArgumentError {
    /// Not an argument.
    #[error(
        "{field}: {text:?} is not an argument: write each as name=value, as in enforce_eager=true, with dots for nested names"
    )]
    NotAnArgument {
        /// Path of the list element.
        field: String,
        /// What was written.
        text: String,
    },
    /// Set by the Job.
    #[error("{field}: {name} belongs to the Job: remove it")]
    Reserved {
        /// Path of the list element.
        field: String,
        /// The argument.
        name: String,
    },
    /// Set by a typed field, or by another element.
    #[error(
        "{field}: {text} contradicts {name}={set}: change the field or the element that sets it, and remove this one"
    )]
    Contradiction {
        /// Path of the list element.
        field: String,
        /// What was written.
        text: String,
        /// The argument.
        name: String,
        /// The value in force.
        set: String,
    },
}

/// Adds users' arguments to typed ones. What is said twice is left out. `field` is the path of the list; `reserved` are
/// names of one backend that belong to the Job, beside those of all.
pub fn merge(
    mut arguments: Map<String, Value>,
    extra: &[String],
    field: &str,
    reserved: &[&str],
) -> Result<Map<String, Value>, ArgumentError> {
    for (index, text) in extra.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let not_an_argument = || ArgumentError::NotAnArgument { field: field.clone(), text: text.clone() };
        let (name, value) = text.split_once('=').ok_or_else(not_an_argument)?;
        let path: Vec<&str> = name.split('.').collect();
        if !path.iter().all(|part| is_name(part)) {
            return Err(not_an_argument());
        }
        if RESERVED.contains(&path[0]) || reserved.contains(&path[0]) {
            return Err(ArgumentError::Reserved { field, name: path[0].to_owned() });
        }
        insert(&mut arguments, &path, value_in(value)).map_err(|set| ArgumentError::Contradiction {
            field,
            text: text.clone(),
            name: name.to_owned(),
            set: set.to_string(),
        })?;
    }
    Ok(arguments)
}

/// What users' arguments say of a name; nothing where none of them has it.
pub fn value_of(extra: &[String], name: &str) -> Option<Value> {
    extra.iter().find_map(|text| text.split_once('=').filter(|(of, _)| *of == name)).map(|(_, value)| value_in(value))
}

/// A word that is not JSON is a text: auto, mp.
fn value_in(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

fn is_name(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_lowercase())
        && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Puts a value where there is none.
///
/// # Errors
/// The value that is there.
fn insert(members: &mut Map<String, Value>, path: &[&str], value: Value) -> Result<(), Value> {
    let [first, rest @ ..] = path else { return Ok(()) };
    if rest.is_empty() {
        return match members.get(*first) {
            Some(set) if *set != value => Err(set.clone()),
            Some(_) => Ok(()),
            None => {
                members.insert((*first).to_owned(), value);
                Ok(())
            }
        };
    }
    match members.entry(*first).or_insert_with(|| Value::Object(Map::new())) {
        Value::Object(inner) => insert(inner, rest, value),
        set => Err(set.clone()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn merged(extra: &[&str]) -> Result<Value, String> {
        let typed = json!({"max_num_seqs": 64, "kv_cache_config": {"enable_block_reuse": true}});
        let Value::Object(typed) = typed else { return Err("no object".to_owned()) };
        let extra: Vec<String> = extra.iter().map(|text| (*text).to_owned()).collect();
        merge(typed, &extra, "engine.vllm.extraArgs", &["port"]).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn values_have_the_types_of_json_and_words_are_texts() {
        let extra = [
            "enforce_eager=true",
            "block_size=32",
            "swap_space=0.5",
            "load_format=auto",
            "compilation_config={\"level\":3}",
            "kv_cache_config.host_cache_size=1024",
            "max_num_seqs=64",
        ];
        assert_eq!(
            merged(&extra),
            Ok(json!({
                "max_num_seqs": 64, "kv_cache_config": {"enable_block_reuse": true, "host_cache_size": 1024},
                "enforce_eager": true, "block_size": 32, "swap_space": 0.5, "load_format": "auto",
                "compilation_config": {"level": 3},
            }))
        );
    }

    #[rstest]
    #[case(
        "--enforce-eager",
        "\"--enforce-eager\" is not an argument: write each as name=value, as in enforce_eager=true, with dots for nested names"
    )]
    #[case(
        "a..b=1",
        "\"a..b=1\" is not an argument: write each as name=value, as in enforce_eager=true, with dots for nested names"
    )]
    #[case("model=gpt2", "model belongs to the Job: remove it")]
    #[case("triton_config.decoupled=false", "triton_config belongs to the Job: remove it")]
    #[case("port=80", "port belongs to the Job: remove it")]
    #[case("trust_remote_code=true", "trust_remote_code belongs to the Job: remove it")]
    #[case(
        "max_num_seqs=8",
        "max_num_seqs=8 contradicts max_num_seqs=64: change the field or the element that sets it, and remove this one"
    )]
    #[case(
        "max_num_seqs.a=8",
        "max_num_seqs.a=8 contradicts max_num_seqs.a=64: change the field or the element that sets it, and remove this one"
    )]
    #[case(
        "kv_cache_config.enable_block_reuse=false",
        "kv_cache_config.enable_block_reuse=false contradicts kv_cache_config.enable_block_reuse=true: change the field or the \
         element that sets it, and remove this one"
    )]
    fn what_cannot_be_added_names_the_element(#[case] extra: &str, #[case] message: &str) {
        assert_eq!(merged(&["block_size=32", extra]), Err(format!("engine.vllm.extraArgs[1]: {message}")));
    }
}
