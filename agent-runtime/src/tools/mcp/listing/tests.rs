use pretty_assertions::assert_eq;
use rstest::rstest;
use serde_json::json;

use super::*;

const EVERYTHING: Choice<'static> = Choice { prefix: "shop_", only: &[], trusts_annotations: false, has_mirrors: true };

fn tool(name: &str) -> Value {
    json!({ "name": name, "description": "What it does.", "inputSchema": { "type": "object" } })
}

fn page(tools: &[Value]) -> OrderedValue {
    json!({ "tools": tools }).into()
}

fn names(listing: Result<Listing, ListingError>) -> Result<Vec<(String, String)>, String> {
    let names = |tool: &Remote| (tool.name.clone(), tool.shown.name.clone());
    listing.map(|listing| listing.tools.iter().map(names).collect()).map_err(|error| error.to_string())
}

fn pairs(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
    Ok(pairs.iter().map(|(name, shown)| ((*name).to_owned(), (*shown).to_owned())).collect())
}

#[test]
fn tools_of_all_pages_have_names_that_models_can_write() {
    let pages = [page(&[tool("search"), tool("admin.users/list")]), page(&[tool("Get-Order")])];
    let expected = pairs(&[
        ("search", "shop_search"),
        ("admin.users/list", "shop_admin_users_list"),
        ("Get-Order", "shop_Get-Order"),
    ]);
    assert_eq!(names(Listing::read(&pages, EVERYTHING)), expected);
    let bare = Choice { prefix: "", ..EVERYTHING };
    assert_eq!(names(Listing::read(&pages[1..], bare)), pairs(&[("Get-Order", "Get-Order")]));
}

#[test]
fn only_named_tools_are_taken_and_each_must_be_there() {
    let pages = [page(&[tool("search"), tool("delete"), json!({ "name": "broken" })])];
    let only = |only: &[&str]| {
        let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
        names(Listing::read(&pages, Choice { only: &only, ..EVERYTHING }))
    };
    assert_eq!(only(&["search"]), pairs(&[("search", "shop_search")]));
    let missing = "the server has no tool \"find\"; it has search, delete, broken";
    assert_eq!(only(&["search", "find"]), Err(missing.into()));
    assert_eq!(only(&["broken"]), Err("the tool \"broken\" cannot be used: it has no inputSchema".into()));
}

#[test]
fn two_tools_of_one_name_are_refused() {
    let pages = [page(&[tool("a.b"), tool("c"), tool("a/b")])];
    let message = "the tools \"a.b\" and \"a/b\" would both be called \"shop_a_b\"; name one of them in tools";
    assert_eq!(names(Listing::read(&pages, EVERYTHING)), Err(message.into()));
    let many: Vec<_> = (0..=MAX_TOOLS).map(|i| tool(&format!("t{i}"))).collect();
    let message = "the server has more than 128 tools; name those that the model may call in tools";
    assert_eq!(names(Listing::read(&[page(&many)], EVERYTHING)), Err(message.into()));
}

#[rstest]
#[case(json!({ "name": "a", "inputSchema": { "type": "string" } }), "its inputSchema is not of type object")]
#[case(json!({ "name": "a", "inputSchema": { "type": "object", "properties": { "b": { "$ref": "https://x/y" } } } }),
    "inputSchema.properties.b.$ref refers to \"https://x/y\", which is not there; references begin with #/$defs/")]
#[case(json!({ "name": "a", "inputSchema": { "type": "object", "properties": 7 } }),
    "inputSchema.properties is not an object")]
#[case(json!({ "name": "a", "inputSchema": { "type": "object",
                                             "properties": { "b": { "type": "number", "x-mcp-header": "B" } } } }),
    "x-mcp-header of b is for texts, integers and booleans")]
#[case(tool(&"a".repeat(59)),
    "its name would be \"shop_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"; names have up to 63 \
     characters, a letter first")]
fn a_tool_that_cannot_be_used_is_left_out_with_the_reason(#[case] broken: Value, #[case] problem: &str) {
    let listing = Listing::read(&[page(&[broken, tool("search")])], EVERYTHING).expect("the others can be used");
    assert_eq!(listing.left_out.iter().map(|(_, problem)| problem.as_str()).collect::<Vec<_>>(), [problem]);
    assert_eq!(names(Ok(listing)), pairs(&[("search", "shop_search")]));
}

#[rstest]
#[case(json!({ "tool": [] }), "the server's list of tools cannot be read: tools is no list")]
#[case(json!({ "tools": [{ "title": "A" }] }), "the server's list of tools cannot be read: a tool has no name")]
fn a_list_of_another_shape_is_refused(#[case] page: Value, #[case] message: &str) {
    assert_eq!(names(Listing::read(&[page.into()], EVERYTHING)), Err(message.into()));
}

#[test]
fn annotations_count_where_they_are_trusted() {
    let annotated =
        |annotations: Value| json!({ "name": "a", "inputSchema": { "type": "object" }, "annotations": annotations });
    let is_repeatable = |annotations: Value, trusts_annotations: bool| {
        let choice = Choice { trusts_annotations, ..EVERYTHING };
        let listing = Listing::read(&[page(&[annotated(annotations)])], choice).expect("it can be used");
        listing.tools[0].is_repeatable
    };
    assert!(is_repeatable(json!({ "readOnlyHint": true }), true));
    assert!(is_repeatable(json!({ "readOnlyHint": false, "idempotentHint": true }), true));
    assert!(!is_repeatable(json!({ "destructiveHint": false }), true));
    assert!(!is_repeatable(json!({}), true));
    assert!(!is_repeatable(json!({ "readOnlyHint": true, "idempotentHint": true }), false));
}

#[test]
fn a_schema_keeps_its_order_and_another_order_is_no_other_list() {
    let listing = |properties: &str| {
        let tool = r#"{"name": "a", "inputSchema": {"required": ["z"], "properties": PROPERTIES, "type": "object"}}"#;
        let page = format!("{{\"tools\": [{}]}}", tool.replace("PROPERTIES", properties));
        Listing::read(&[serde_json::from_str(&page).expect("it is JSON")], EVERYTHING).expect("it can be used")
    };
    let list = listing(r#"{"z": {}, "b": {"type": "string"}}"#);
    let ToolInput::Served(schema) = &list.tools[0].shown.input else { panic!("the server checks it") };
    let expected = r#"{"required":["z"],"properties":{"z":{},"b":{"type":"string"}},"type":"object"}"#;
    assert_eq!(schema.to_string(), expected);
    assert!(list.is_alike(&listing(r#"{"b": {"type": "string"}, "z": {}}"#)));
    assert!(!list.is_alike(&listing(r#"{"b": {"type": "number"}, "z": {}}"#)));
}

#[test]
fn the_shortest_time_to_live_counts() {
    let of = |pages: &[OrderedValue]| Listing::read(pages, EVERYTHING).expect("it can be used").fresh_for;
    assert_eq!(of(&[page(&[])]), None);
    let pages = [60_000, 30_000].map(|time| json!({ "tools": [], "ttlMs": time }).into());
    assert_eq!(of(&pages), Some(Duration::from_secs(30)));
}

fn remote(schema: Value) -> Remote {
    let tool = json!({ "name": "a", "title": "Its title", "inputSchema": schema });
    Listing::read(&[page(&[tool])], EVERYTHING).expect("it can be used").tools.remove(0)
}

fn arguments(schema: Value, input: &str) -> Result<Value, String> {
    remote(schema).arguments(input).map(Value::Object)
}

#[test]
fn a_title_describes_a_tool_without_a_description() {
    assert_eq!(remote(json!({ "type": "object" })).shown.description, "Its title");
}

#[test]
fn arguments_are_an_object_or_the_only_text() {
    let weather = || {
        json!({ "type": "object", "properties": { "city": { "type": "string", "pattern": "^[A-Z]" } },
                "required": ["city"] })
    };
    assert_eq!(arguments(weather(), r#"{"city": "Bern"}"#), Ok(json!({ "city": "Bern" })));
    assert_eq!(arguments(weather(), "Bern"), Ok(json!({ "city": "Bern" })));
    assert_eq!(arguments(weather(), ""), Err("city is missing".into()));
    assert_eq!(arguments(weather(), r#"{"city": 7}"#), Err("city is 7; it must be a string".into()));
    let days = json!({ "type": "object", "properties": { "days": { "type": "integer" } } });
    assert_eq!(arguments(days.clone(), "7"), Ok(json!({ "days": 7 })));
    assert_eq!(arguments(days, " "), Ok(json!({})));
    let both = json!({ "type": "object", "properties": { "a": {}, "b": {} } });
    assert_eq!(arguments(both, "a.b"), Err("write an object of JSON, with the arguments a, b".into()));
}

#[test]
fn what_only_the_server_can_check_is_left_to_it() {
    let anything = json!({ "type": "object" });
    assert_eq!(arguments(anything, r#"{"a": [1]}"#), Ok(json!({ "a": [1] })));
    let tree = json!({ "type": "object", "properties": { "node": { "$ref": "#/$defs/node" } },
                       "$defs": { "node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/node" } } } } });
    assert_eq!(arguments(tree, r#"{"node": 7}"#), Ok(json!({ "node": 7 })));
}
