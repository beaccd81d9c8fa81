use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use super::*;

fn order() -> Schema {
    let line = json!({
        "type": "object",
        "properties": { "item": { "type": "string", "minLength": 1 }, "count": { "type": "integer", "minimum": 1 } },
        "required": ["item"],
        "additionalProperties": false,
    });
    let schema = json!({
        "type": "object",
        "title": "An order",
        "properties": {
            "lines": { "type": "array", "items": { "$ref": "#/$defs/line" }, "minItems": 1, "maxItems": 2 },
            "unit": { "enum": ["kg", "g"], "description": "of weight" },
            "discount": { "type": "number", "exclusiveMaximum": 1 },
            "express": { "type": ["boolean", "null"] },
            "note": { "anyOf": [{ "type": "string", "maxLength": 3 }, { "type": "null" }] },
        },
        "required": ["lines"],
        "$defs": { "line": line },
    });
    Schema::of_tool(&schema).expect("the schema is usable")
}

fn check(arguments: Value) -> Result<(), String> {
    let arguments = arguments.as_object().expect("an object").clone();
    order().check(&arguments).map_err(|error| error.to_string())
}

#[test]
fn arguments_that_fit_pass() {
    let whole = json!({
        "lines": [{ "item": "nut", "count": 2.0 }],
        "unit": "kg",
        "discount": 0.5,
        "express": null,
        "note": "abc",
    });
    assert_eq!(check(whole), Ok(()));
    assert_eq!(check(json!({ "lines": [{ "item": "nut" }] })), Ok(()));
}

#[rstest]
#[case(json!({}), "lines is missing")]
#[case(json!({ "lines": [], "city": "x" }), "city is not an argument; the arguments are discount, express, lines, note, unit")]
#[case(json!({ "lines": [] }), "lines has 0 items; at least 1")]
#[case(json!({ "lines": "nut" }), r#"lines is "nut"; it must be an array"#)]
#[case(json!({ "lines": [{ "item": "" }] }), "lines[0].item has 0 characters; at least 1")]
#[case(json!({ "lines": [{ "item": "nut", "count": "2" }] }), r#"lines[0].count is "2"; it must be an integer"#)]
#[case(json!({ "lines": [{ "item": "nut", "count": 0 }] }), "lines[0].count is 0; it must be at least 1")]
#[case(json!({ "lines": [{ "item": "nut", "size": 0 }] }), "lines[0].size is not allowed")]
#[case(json!({ "lines": [{ "item": "a" }], "unit": "t" }), r#"unit is "t"; it must be one of "kg", "g""#)]
#[case(json!({ "lines": [{ "item": "a" }], "discount": 1 }), "discount is 1; it must be below 1")]
#[case(json!({ "lines": [{ "item": "a" }], "express": 1 }), "express is 1; it must be true or false or null")]
#[case(json!({ "lines": [{ "item": "a" }], "note": "abcd" }), r#"note is "abcd", which is none of what it may be"#)]
fn what_does_not_fit_is_named(#[case] arguments: Value, #[case] expected: &str) {
    assert_eq!(check(arguments), Err(expected.to_owned()));
}

#[rstest]
#[case(json!({ "type": "string" }), "is not the schema of an object; begin with type: object and properties")]
#[case(
    json!({ "type": "object", "properties": { "a": { "pattern": "^x" } } }),
    "inputSchema.properties.a.pattern is not supported; leave it out and say it in description"
)]
#[case(
    json!({ "type": "object", "properties": { "a": { "type": "text" } } }),
    "inputSchema.properties.a.type is not string, number, integer, boolean, null, array or object"
)]
#[case(
    json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/b" } } }),
    "inputSchema.properties.a.$ref refers to \"#/$defs/b\", which is not there; references begin with #/$defs/"
)]
#[case(
    json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/tree" } },
        "$defs": { "tree": { "type": "object", "properties": { "left": { "$ref": "#/$defs/tree" } } } },
    }),
    "#/$defs/tree.properties.left.$ref refers to \"#/$defs/tree\", which contains it; a schema cannot be recursive, \
     so write the levels out"
)]
#[case(json!({ "type": "object", "properties": { "a": { "minLength": -1 } } }), "inputSchema.properties.a.minLength is not a whole number")]
fn a_schema_that_cannot_be_used_says_why(#[case] schema: Value, #[case] expected: &str) {
    assert_eq!(Schema::of_tool(&schema).expect_err("it is refused").to_string(), expected);
}

#[test]
fn references_that_multiply_are_bounded() {
    let level = |next: &str| json!({ "type": "array", "items": { "anyOf": vec![json!({ "$ref": next }); 8] } });
    let defs = json!({ "a": level("#/$defs/b"), "b": level("#/$defs/c"), "c": level("#/$defs/d"), "d": {} });
    let schema = json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/a" } }, "$defs": defs });
    assert_eq!(Schema::of_tool(&schema), Err(SchemaError::TooLarge));
}

#[test]
fn texts_become_what_their_argument_may_be() {
    let schema = order();
    assert_eq!(schema.value_of("discount", "0.5"), json!(0.5));
    assert_eq!(schema.value_of("express", "True"), json!(true));
    assert_eq!(schema.value_of("lines", r#"[{"item": "a"}]"#), json!([{ "item": "a" }]));
    assert_eq!(schema.value_of("lines", "a, b"), json!("a, b"));
    assert_eq!(schema.value_of("unit", "7"), json!("7"));
}

#[test]
fn an_object_without_properties_may_hold_objects() {
    let schema = json!({ "type": "object", "properties": { "extra": { "type": "object" } } });
    let schema = Schema::of_tool(&schema).expect("the schema is usable");
    let arguments = json!({ "extra": { "deep": { "deeper": [{ "a": 1 }] } } });
    assert_eq!(schema.check(arguments.as_object().expect("an object")), Ok(()));
}

#[test]
fn any_value_may_have_a_schema_and_unknown_keywords_may_be_left_to_others() {
    let schema = json!({ "type": "array", "items": { "type": "string", "pattern": "a" } });
    let strict = Schema::of_value(&schema, "schema", Unknown::Refused).expect_err("pattern is not checked");
    assert_eq!(strict.to_string(), "schema.items.pattern is not supported; leave it out and say it in description");
    let lenient = Schema::of_value(&schema, "schema", Unknown::Unchecked).expect("the schema is usable");
    assert_eq!(lenient.check_value(&json!(["b"])), Ok(()));
    let problem = lenient.check_value(&json!("b")).expect_err("it is no array");
    assert_eq!(problem.to_string(), "the whole is \"b\"; it must be an array");
}
