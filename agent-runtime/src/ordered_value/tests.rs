use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn read(text: &str) -> OrderedValue {
    serde_json::from_str(text).expect("it is JSON")
}

#[test]
fn a_value_is_written_as_it_was_read_but_for_its_blanks() {
    let text = r#"{"z":[1,-2,1.5,1e+300,null,true,"é\n"],"a":{"c":{},"b":[]}}"#;
    assert_eq!(read(text).to_string(), text);
    assert_eq!(read(" { \"z\" : [ 1 ] ,\n\"a\" :\t{ } } ").to_string(), r#"{"z":[1],"a":{}}"#);
    assert_eq!(Value::from(read(text)), serde_json::from_str::<Value>(text).expect("it is JSON"));
    assert_eq!(OrderedValue::from(json!({"b": [1], "a": null})).to_string(), r#"{"a":null,"b":[1]}"#);
}

#[test]
fn of_a_key_that_is_written_twice_the_last_value_counts() {
    let value = read(r#"{"b": 1, "a": 2, "b": {"c": 3, "c": 4}}"#);
    assert_eq!(value.to_string(), r#"{"b":{"c":4},"a":2}"#);
}

#[test]
fn the_order_passes_through_what_serde_keeps_for_later() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Tool {
        name: String,
        count: Option<u32>,
        schema: OrderedValue,
    }
    #[derive(Deserialize)]
    struct Body {
        #[serde(flatten)]
        others: OrderedMap,
    }
    let text = r#"{"tool": {"schema": {"z": 1, "a": [{"y": 2, "b": 3}]}, "name": "find", "count": null}}"#;
    let Body { mut others } = serde_json::from_str(text).expect("it is JSON");
    let tool = others.remove("tool").expect("it is there");
    let tool = Tool::deserialize(tool).expect("it has this shape");
    assert_eq!((tool.name.as_str(), tool.count), ("find", None));
    assert_eq!(tool.schema.to_string(), r#"{"z":1,"a":[{"y":2,"b":3}]}"#);
    let problem = Tool::deserialize(read(r#"{"name": 5}"#)).expect_err("it has another");
    let same = serde_json::from_value::<Tool>(json!({"name": 5})).expect_err("it has another");
    assert_eq!(problem.to_string(), same.to_string());
}

#[test]
fn a_value_of_too_many_levels_is_refused_as_others_are() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let outcome = |levels: usize| {
        let ordered = serde_json::from_str::<OrderedValue>(&deep(levels)).map(drop);
        let plain = serde_json::from_str::<Value>(&deep(levels)).map(drop);
        let message = |outcome: Result<(), serde_json::Error>| outcome.map_err(|error| error.to_string());
        (message(ordered), message(plain))
    };
    assert_eq!(outcome(127), (Ok(()), Ok(())));
    let (ordered, plain) = outcome(128);
    assert_eq!((ordered.is_err(), ordered), (true, plain));
}
