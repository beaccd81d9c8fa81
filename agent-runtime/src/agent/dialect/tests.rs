//! Outputs of all dialects, written after the shapes of upstream's tests. Each is read whole, character by character,
//! and cut at every place.

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;
use slipway_vocabulary::ToolCallDialect::{self as D, *};

use super::*;

/// A turn as a test compares it: its text, its thoughts, and its calls as `name arguments`.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    text: String,
    thoughts: String,
    calls: Vec<String>,
    problem: Option<String>,
}

fn read<'a>(dialect: D, prompt: &str, pieces: impl IntoIterator<Item = &'a str>) -> Read {
    let mut turn = Turn::new(dialect, prompt, ["a", "look"]);
    let mut text: String = pieces.into_iter().filter_map(|piece| turn.push(piece)).collect();
    let (rest, Finished { calls, has_text, has_thoughts, problem }) = turn.finish();
    text.extend(rest);
    let thoughts = turn.thoughts().to_owned();
    assert_eq!((has_text, has_thoughts), (!text.is_empty(), !thoughts.is_empty()));
    let shown = |WrittenCall { name, arguments }| match arguments {
        Arguments::Json(json) => format!("{name} {json}"),
        Arguments::Texts(texts) => format!("{name} {texts:?}"),
    };
    Read { text, thoughts, calls: calls.into_iter().map(shown).collect(), problem }
}

fn characters(text: &str) -> Vec<&str> {
    text.split("").filter(|part| !part.is_empty()).collect()
}

/// Reads an output in every way of cutting it once, which must make no difference.
fn read_all_ways(dialect: D, prompt: &str, output: &str) -> Read {
    let whole = read(dialect, prompt, [output]);
    assert_eq!(read(dialect, prompt, characters(output)), whole, "{dialect:?} by character: {output:?}");
    for (at, _) in output.char_indices() {
        let (first, second) = output.split_at(at);
        assert_eq!(read(dialect, prompt, [first, second]), whole, "{dialect:?} cut at {at}: {output:?}");
    }
    whole
}

#[rstest]
#[case::plain(Hermes, "It is 5 m.\n\nReally.\n", "It is 5 m.\n\nReally.", &[])]
#[case::one(Hermes, "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"b\": 1, \"a\": \"x\"}}\n</tool_call>", "",
    &[r#"look {"b":1,"a":"x"}"#])]
#[case::text_before(Hermes, "Let me see.\n<tool_call>{\"name\": \"t\", \"arguments\": {}}</tool_call>", "Let me see.", &["t {}"])]
#[case::parallel(Hermes, "<tool_call>\n{\"name\": \"a\"}\n</tool_call>\n<tool_call>\n{\"name\": \"b\", \"arguments\": null}\n</tool_call>",
    "", &["a {}", "b {}"])]
#[case::nested(Hermes, r#"<tool_call>{"name":"t","arguments":{"x":{"y":[1,{"z":null}]},"q":"</tool_call> \"ü\""}}</tool_call>"#, "",
    &[r#"t {"x":{"y":[1,{"z":null}]},"q":"</tool_call> \"ü\""}"#])]
#[case::without_end(Hermes, r#"<tool_call>{"name":"t","arguments":{"a":1.5}}"#, "", &[r#"t {"a":1.5}"#])]
#[case::arguments_as_text(Hermes, r#"<tool_call>{"name":"t","arguments":"{\"a\": 1}"}</tool_call>"#, "", &[r#"t {"a":1}"#])]
#[case::almost_a_mark(Hermes, "a <tool_cal> b </tool_call c", "a <tool_cal> b </tool_call c", &[])]
#[case::one(Qwen3Coder,
    "<tool_call>\n<function=look>\n<parameter=city>\nBern\n</parameter>\n<parameter=code>\na < b\n\nc\n</parameter>\n</function>\n</tool_call>",
    "", &[r#"look [("city", "Bern"), ("code", "a < b\n\nc")]"#])]
#[case::parallel(Qwen3Coder,
    "On it.<tool_call>\n<function=a>\n</function>\n</tool_call>\n<tool_call>\n<function=b>\n<parameter=x>1</parameter>\n</function>\n</tool_call>",
    "On it.", &["a []", r#"b [("x", "1")]"#])]
#[case::without_the_outer_tag(Qwen3Coder, "<function=a>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>", "",
    &[r#"a [("x", "1")]"#])]
#[case::without_end(Qwen3Coder, "<tool_call>\n<function=a>\n<parameter=x>\n1\n", "", &[r#"a [("x", "1")]"#])]
#[case::plain(Llama3Json, "The answer is {5}.", "The answer is {5}.", &[])]
#[case::one(Llama3Json, r#" {"name": "look", "parameters": {"city": "Bern"}}"#, "", &[r#"look {"city":"Bern"}"#])]
#[case::tagged(Llama3Json, r#"<|python_tag|>{"name": "look", "parameters": {"n": 3}}"#, "", &[r#"look {"n":3}"#])]
#[case::several(Llama3Json, r#"{"name": "a", "parameters": {}}; {"name": "b", "arguments": {"x": "y;z"}}"#, "",
    &["a {}", r#"b {"x":"y;z"}"#])]
#[case::text_behind(Llama3Json, "{\"name\": \"a\", \"parameters\": {}}\nI called it.", "", &["a {}"])]
#[case::an_answer_in_json(Llama3Json, r#"{"height": 5}"#, r#"{"height": 5}"#, &[])]
#[case::behind_text(Llama3Json, "Let me look.\n{\"name\": \"look\", \"parameters\": {\"city\": \"Bern\"}}", "Let me look.",
    &[r#"look {"city":"Bern"}"#])]
#[case::several_behind_text(Llama3Json,
    "Two.\n\n  { \"name\" : \"a\", \"parameters\": {}};\n{\"name\": \"b\", \"parameters\": {}}", "Two.", &["a {}", "b {}"])]
#[case::of_no_tool(Llama3Json, "Such as:\n{\"name\": \"lookup\", \"parameters\": {}}",
    "Such as:\n{\"name\": \"lookup\", \"parameters\": {}}", &[])]
#[case::within_a_line(Llama3Json, r#"Such as {"name": "look", "parameters": {}}"#,
    r#"Such as {"name": "look", "parameters": {}}"#, &[])]
#[case::no_call_of_a_tool(Llama3Json, "Such as:\n{\"name\": \"look\", \"age\": 5}\nOr so.",
    "Such as:\n{\"name\": \"look\", \"age\": 5}\nOr so.", &[])]
#[case::cut_in_the_name(Llama3Json, "Such as:\n{\"name\": \"lo", "Such as:\n{\"name\": \"lo", &[])]
#[case::several_in_json(Llama3Json, r#"{"height": 5}; {"#, r#"{"height": 5}; {"#, &[])]
#[case::one(Llama4Pythonic, r#"[look(city="Bern", days=3)]"#, "", &[r#"look {"city":"Bern","days":3}"#])]
#[case::several(Llama4Pythonic, "[a(), b(x='it\\'s', y=[1, (2.5, None)], z={'k': True})]", "",
    &["a {}", r#"b {"x":"it's","y":[1,[2.5,null]],"z":{"k":true}}"#])]
#[case::marked(Llama4Pythonic, "<|python_start|>[a(n=-1)]<|python_end|>", "", &[r#"a {"n":-1}"#])]
#[case::a_list_is_an_answer(Llama4Pythonic, "[1] See the map.", "[1] See the map.", &[])]
#[case::list(Mistral, r#"[TOOL_CALLS][{"name": "a", "arguments": {"x": [1]}}, {"name": "b", "arguments": {}}]"#, "",
    &[r#"a {"x":[1]}"#, "b {}"])]
#[case::named(Mistral, r#"Sure.[TOOL_CALLS]a{"x": "}{"}[TOOL_CALLS]b{}"#, "Sure.", &[r#"a {"x":"}{"}"#, "b {}"])]
#[case::with_ids(Mistral, r#"[TOOL_CALLS]a[CALL_ID]123456789[ARGS]{"x": 1}"#, "", &[r#"a {"x":1}"#])]
#[case::r1(DeepSeek,
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{\"city\": \"Bern\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "", &[r#"look {"city":"Bern"}"#])]
#[case::v31(DeepSeek,
    "So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>b<｜tool▁sep｜>{\"x\": \"```\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "So.", &["a {}", r#"b {"x":"```"}"#])]
#[case::answer(Harmony, "<|channel|>final<|message|>It is 5 m.\n\nReally.", "It is 5 m.\n\nReally.", &[])]
#[case::call(Harmony, "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"city\": \"Bern\"}<|call|>", "",
    &[r#"look {"city":"Bern"}"#])]
#[case::recipient_first(Harmony, " to=functions.look<|channel|>commentary json<|message|>{}", "", &["look {}"])]
#[case::preamble(Harmony,
    "<|channel|>commentary<|message|>First a look.<|end|><|start|>assistant<|channel|>commentary to=functions.a<|message|>{}<|call|>",
    "First a look.", &["a {}"])]
#[case::two_messages(Harmony, "<|channel|>commentary<|message|>One.<|end|><|start|>assistant<|channel|>final<|message|>Two.", "One.\nTwo.", &[])]
#[case::no_marks(Harmony, "Just text <b>", "Just text <b>", &[])]
#[case::functools(Phi4, r#"functools[{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]"#, "",
    &[r#"a {"x":1}"#, "b {}"])]
#[case::tagged(Phi4, r#"<|tool_call|>[{"name": "a", "arguments": {}}]<|/tool_call|>"#, "", &["a {}"])]
#[case::text_before(Phi4, r#"So. functools[{"name": "a", "arguments": {"x": [1]}}]"#, "So.", &[r#"a {"x":[1]}"#])]
#[case::plain(Phi4, "functools are functions.", "functools are functions.", &[])]
#[case::python(Phi4, "Use functools[0] or\n[1].", "Use functools[0] or\n[1].", &[])]
#[case::list(Granite, r#"<|tool_call|>[{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {}}]"#, "",
    &[r#"a {"x":1}"#, "b {}"])]
#[case::mark_in_a_text(Granite, r#"<|tool_call|>[{"name": "a", "arguments": {"x": "<|tool_call|>"}}]"#, "",
    &[r#"a {"x":"<|tool_call|>"}"#])]
#[case::plain_tag(Granite, r#"<tool_call>[{"name": "a", "arguments": {}}]"#, "", &["a {}"])]
#[case::function_calls(Granite, r#"<function_call> {"name": "a", "arguments": {}}<function_call> {"name": "b", "arguments": {}}"#, "",
    &["a {}", "b {}"])]
#[case::object(JSON, r#"{"name": "a", "arguments": {"x": "\u00fc"}}"#, "", &[r#"a {"x":"ü"}"#])]
#[case::fenced(JSON, "```json\n[{\"name\": \"a\", \"arguments\": {}}]\n```", "", &["a {}"])]
#[case::below_function(JSON, r#"{"type": "function", "function": {"name": "a", "arguments": {}}}"#, "", &["a {}"])]
#[case::an_answer(JSON, r#"[{"name": "Bela"}]"#, r#"[{"name": "Bela"}]"#, &[])]
fn outputs_are_read(#[case] dialect: D, #[case] output: &str, #[case] text: &str, #[case] calls: &[&str]) {
    let calls = calls.iter().map(|call| (*call).to_owned()).collect();
    let expected = Read { text: text.into(), thoughts: String::new(), calls, problem: None };
    assert_eq!(read_all_ways(dialect, "", output), expected);
}

#[rstest]
#[case(Hermes, "", "<think>\nHm.\n\nYes.\n</think>\n\nIt is 5.", "Hm.\n\nYes.", "It is 5.")]
#[case(Hermes, "<|im_start|>assistant\n<think>\n", "Hm.</think>It is 5.", "Hm.", "It is 5.")]
#[case(Hermes, "", "<think>Hm. <tool_call> is a mark", "Hm. <tool_call> is a mark", "")]
#[case(Hermes, "", "No thoughts.</think> Text.", "", "No thoughts. Text.")]
#[case(DeepSeek, "<｜Assistant｜><think>\n", "\n\n</think>\n\nIt is 5.", "", "It is 5.")]
#[case(Mistral, "", "[THINK]Hm.[/THINK]It is 5.", "Hm.", "It is 5.")]
#[case(Granite, "", "<think>Hm.</think>It is 5.", "Hm.", "It is 5.")]
#[case(Granite, "", "<think>Hm.</think>\n\n<response>It is\n<response>.</response>", "Hm.", "It is\n<response>.")]
#[case(Granite, "", "Here is my thought process:\nHm.\n\nHere is my response:\nIt is 5.", "Hm.", "It is 5.")]
#[case(Granite, "", " Here's my thought process: Hm. Here's my response: It is 5.", "Hm.", "It is 5.")]
#[case(Granite, "", "Here is my thought process: Hm.", "Hm.", "")]
#[case(Granite, "", "So. Here is my thought process: x", "", "So. Here is my thought process: x")]
#[case(Granite, "", "Here is my response: <response>", "", "Here is my response: <response>")]
#[case(
    Harmony,
    "",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It is 5.<|return|>",
    "Hm.",
    "It is 5."
)]
fn thoughts_are_no_text(
    #[case] dialect: D,
    #[case] prompt: &str,
    #[case] output: &str,
    #[case] thoughts: &str,
    #[case] text: &str,
) {
    let expected = Read { text: text.into(), thoughts: thoughts.into(), calls: Vec::new(), problem: None };
    assert_eq!(read_all_ways(dialect, prompt, output), expected);
}

#[rstest]
#[case(
    Hermes,
    "<tool_call>{\"name\": \"a\", \"arguments\": {</tool_call>",
    "the call is not valid JSON; write one object with its name and arguments"
)]
#[case(
    Hermes,
    "<tool_call>{\"arguments\": {}}</tool_call>",
    "a call has no name; write an object with its name and arguments"
)]
#[case(
    Hermes,
    "<tool_call>{\"name\": \"a\", \"arguments\": [1]}</tool_call>",
    "the arguments of \"a\" are not an object"
)]
#[case(
    Hermes,
    "<tool_call>{\"name\": \"a\", \"argument\": {\"x\": 1}}</tool_call>",
    "the call of \"a\" has no arguments; write an object with its name and arguments"
)]
#[case(Qwen3Coder, "<tool_call>{}</tool_call>", "a call has no <function=...>")]
#[case(Qwen3Coder, "<tool_call><function=></function></tool_call>", "a call has no name; write <function=NAME>")]
#[case(
    Llama3Json,
    "{\"name\": \"a\", \"parameters\": {\"x\": }}",
    "the call is not valid JSON; write one object with its name and arguments"
)]
#[case(
    Llama3Json,
    "{\"name\": \"a\", \"parameters\": {}}; {\"name\": \"b, \"parameters\": {}}",
    "a call is not valid JSON; separate calls by semicolons"
)]
#[case(
    Llama3Json,
    "Let me look.\n{\"name\": \"look\", \"parameters\": {\"city\": }}",
    "the call is not valid JSON; write one object with its name and arguments"
)]
#[case(Llama3Json, "<|python_tag|>print(1)", "the call is no object with a name and parameters")]
#[case(Llama4Pythonic, "[a(x=Bern)]", "\"Bern\" is not a value; put texts between quotes")]
#[case(Llama4Pythonic, "[a(1)]", "expected '=' before \")]\"")]
#[case(Mistral, "[TOOL_CALLS][{\"name\"", "what follows [TOOL_CALLS] is not valid JSON")]
#[case(Mistral, "[TOOL_CALLS]a{\"x\": 1", "the arguments of \"a\" are not valid JSON")]
#[case(Mistral, "[TOOL_CALLS]a", "a call has no arguments; write its name and an object of JSON")]
#[case(Mistral, "[TOOL_CALLS]a[TOOL_CALLS]b{}", "a call has no arguments; write its name and an object of JSON")]
#[case(DeepSeek, "<｜tool▁calls▁begin｜>x<｜tool▁calls▁end｜>", "a call does not begin with <｜tool▁call▁begin｜>")]
#[case(
    Harmony,
    "<|channel|>commentary to=functions.a<|message|>{\"x\"<|call|>",
    "the call is not valid JSON; write one object with its name and arguments"
)]
#[case(Harmony, "<|channel|>commentary to=functions.<|message|>{}<|call|>", "a call has no name")]
#[case(
    Harmony,
    "<|channel|>commentary json<|message|>{}<|call|>",
    "a call names no function; write to=functions.NAME before its arguments"
)]
#[case(Phi4, "functools[{]", "the call is not valid JSON; write one object with its name and arguments")]
#[case(Granite, "<|tool_call|>no", "the call is not valid JSON; write a list of objects with a name and arguments")]
#[case(
    JSON,
    "{\"name\": \"a\", \"arguments\": ",
    "the call is not valid JSON; write one object with its name and arguments"
)]
fn a_call_with_mistakes_says_them(#[case] dialect: D, #[case] output: &str, #[case] problem: &str) {
    assert_eq!(read_all_ways(dialect, "", output).problem.as_deref(), Some(problem));
}

#[rstest]
#[case("{{ '<tool_call>\\n' }}...{{ '\\n</tool_call>' }}", Hermes)]
#[case("<tool_call>\n<function=example>\n<parameter=a>\n</tool_call>", Qwen3Coder)]
#[case("<|start_header_id|>{\"name\": function name, \"parameters\": ...}", Llama3Json)]
#[case("<|python_tag|>", Llama3Json)]
#[case("<|python_start|> <|python_tag|>", Llama4Pythonic)]
#[case("[TOOL_CALLS]", Mistral)]
#[case("<｜tool▁calls▁begin｜>", DeepSeek)]
#[case("<|channel|>analysis<|message|>", Harmony)]
#[case("functools[", Phi4)]
#[case("<|start_of_role|>", Granite)]
#[case("{{ message.content }}", JSON)]
fn the_template_tells_the_dialect(#[case] template: &str, #[case] dialect: D) {
    assert_eq!(choose(template), dialect);
}

/// Pieces of all dialects and of what surrounds them, so that any order of them is tried.
const PIECES: [&str; 48] = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "{\"name\": \"a\", \"arguments\": {}}",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "<function=",
    "<parameter=x>",
    "</parameter>",
    "</function>",
    ">",
    "<|python_tag|>",
    "<|python_start|>",
    "<|python_end|>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "[THINK]",
    "[/THINK]",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|channel|>",
    "analysis",
    "final",
    " to=functions.a",
    "<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "functools",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<function_call>",
    "Here is my thought process:",
    "Here's my response:",
    "<response>",
    "</response>",
    "a(x='1')",
    "\n\n",
    " ü🙂",
    "text",
    "```json",
];

fn output() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => "\\PC{0,4}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Also: nothing that a model writes makes a reader panic.
    #[test]
    fn it_makes_no_difference_in_what_pieces_an_output_comes(
        output in output(),
        dialect in prop::sample::select(&D::ALL[1..]),
        prompt in prop::sample::select(&["", "<think>\n"][..]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = read(dialect, prompt, [output.as_str()]);
        prop_assert_eq!(&read(dialect, prompt, characters(&output)), &whole);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| output.floor_char_boundary(cut.index(output.len() + 1))).collect();
        cuts.extend([0, output.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &output[ends[0]..ends[1]]);
        prop_assert_eq!(&read(dialect, prompt, pieces), &whole);
    }
}
