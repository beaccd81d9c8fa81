use std::fs;

use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

/// 2026-11-09 10:11:12 UTC.
const NOW: Timestamp = Timestamp::from_micros(1_794_219_072_000_000);

const TOOL: &str = r#"{"type": "function", "function": {"name": "look", "description": "Zürich & <more>",
    "parameters": {"type": "object", "properties": {"b": {"type": "number", "default": 0.00001}, "a": {"items": []}}}}}"#;

fn prompt(messages: &str) -> Prompt {
    Prompt {
        messages: json(messages).expect("it is JSON"),
        tools: None,
        generation_prompt: true,
        now: NOW,
        extra: BTreeMap::new(),
    }
}

fn tokens() -> BTreeMap<String, String> {
    BTreeMap::from([("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())])
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::compile(source, &tokens()).expect("it compiles")
}

fn rendered(source: &str) -> String {
    template(source).render(&prompt("[]")).expect("it renders")
}

fn render_error(source: &str) -> String {
    template(source).render(&prompt("[]")).expect_err("it fails").to_string()
}

#[test]
fn a_conversation_is_written_with_its_tools_and_the_begin_of_the_models_turn() {
    let template = template(
        "{{- bos_token }}
{%- if tools %}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
{%- endif %}
{%- for message in messages %}
    {{- '<' + message.role + '>' + message['content'] | trim + eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<assistant>' }}
{%- endif %}",
    );
    let talk = r#"[{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "1+1?"}]"#;
    let mut prompt = prompt(talk);
    assert_eq!(template.render(&prompt).unwrap(), "<s><system>Be brief.</s><user>1+1?</s><assistant>");
    prompt.generation_prompt = false;
    prompt.tools = Some(json(&format!("[{TOOL}]")).expect("it is JSON"));
    let tool = r#"{"type": "function", "function": {"name": "look", "description": "Zürich & <more>", "parameters": {"type": "object", "properties": {"b": {"type": "number", "default": 1e-05}, "a": {"items": []}}}}}"#;
    assert_eq!(template.render(&prompt).unwrap(), format!("<s>{tool}<system>Be brief.</s><user>1+1?</s>"));
}

#[rstest]
#[case::order_and_spaces("{{ {'b': 1, 'a': [true, none, 'ü']} | tojson }}", r#"{"b": 1, "a": [true, null, "ü"]}"#)]
#[case::sorted("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}", r#"{"a": 2, "b": 1}"#)]
#[case::ascii("{{ 'ü🙂' | tojson(ensure_ascii=true) }}", r#""\u00fc\ud83d\ude42""#)]
#[case::indented(
    "{{ {'a': [1, []], 'b': {}} | tojson(indent=2) }}",
    "{\n  \"a\": [\n    1,\n    []\n  ],\n  \"b\": {}\n}"
)]
#[case::separated("{{ {'a': [1, 2]} | tojson(separators=(',', ':')) }}", r#"{"a":[1,2]}"#)]
#[case::escaped(r"{{ 'a\n\t\\' | tojson }}", r#""a\n\t\\""#)]
#[case::no_html(r#"{{ "<a href='x'>" | tojson }}"#, r#""<a href='x'>""#)]
#[case::floats(
    "{{ [1.0, 0.1, 1e16, 1.5e-7, 123456789012345.0] | tojson }}",
    "[1.0, 0.1, 1e+16, 1.5e-07, 123456789012345.0]"
)]
fn json_is_written_as_python_does(#[case] source: &str, #[case] expected: &str) {
    assert_eq!(rendered(source), expected);
}

#[rstest]
#[case::constants("{{ true }} {{ none }} {{ 1e22 }}", "True None 1e+22")]
#[case::lists("{{ ['a', 1, {'b': none}] }}", "['a', 1, {'b': None}]")]
#[case::methods("{{ 'a.b.c'.rsplit('.', 1)[0] }} {{ 'xay'.removeprefix('x').removesuffix('y') }}", "a.b a")]
#[case::items("{% for k, v in {'items': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}", "items=1;a=2;")]
#[case::sequences("{{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }}", "True True False")]
#[case::loops("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13")]
#[case::broken_off("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1")]
#[case::last("{% for i in [1, 2, 3] if i != 3 %}{{ i }}{{ ',' if not loop.last }}{% endfor %}", "1,2")]
#[case::last_of_a_text("{% for c in 'aüb' %}{{ c }}{% if not loop.last %},{% endif %}{% endfor %}", "a,ü,b")]
#[case::last_of_nothing("{% for c in '' %}{{ loop.last }}{% else %}none{% endfor %}", "none")]
#[case::neighbours("{% for i in [1, 2] %}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}", "2;1;")]
#[case::namespaces(
    "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "3"
)]
#[case::macros("{% macro m(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}", "[1x][12]")]
#[case::backwards("{{ [1, 2, 3][::-1] | join(',') }} {{ 'abc'[1:] }} {{ [1, 2][-1] }}", "3,2,1 bc 2")]
#[case::blocks("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc")]
#[case::generation("{% for i in [1] %}\n  {%- generation %}\nx{{ i }}\n  {%- endgeneration %}\n{% endfor %}", "x1")]
#[case::indents("{{ 'a\\n\\nb\\n' | indent(2, first=true) }}|{{ 'a\\nb' | indent('> ') }}", "  a\n\n  b\n|a\n> b")]
#[case::raw("{% raw %}\n{{ x }}\n{% endraw %}\n|", "\n{{ x }}\n|")]
#[case::iterables("{{ none is iterable }} {{ 'a' is iterable }} {{ [1] is iterable }}", "False True True")]
#[case::time(
    "{{ strftime_now('%d %b %Y') }}, {{ strftime_now('%Y-%m-%d %H:%M:%S') }}",
    "09 Nov 2026, 2026-11-09 10:11:12"
)]
#[case::undefined("[{{ nothing }}]{{ 'x' if nothing is defined }}{{ messages[0] is defined }}", "[]False")]
fn templates_find_what_transformers_gives_them(#[case] source: &str, #[case] expected: &str) {
    assert_eq!(rendered(source), expected);
}

#[rstest]
#[case("reasoning_content")]
#[case("thinking")]
#[case("reasoning")]
fn thoughts_are_found_under_the_names_that_templates_read(#[case] name: &str) {
    let template = template("{% for m in messages %}{{ m.thinking }},{{ m.reasoning_content }};{% endfor %}");
    let messages = format!(r#"[{{"role": "user"}}, {{"role": "assistant", "{name}": "Easy."}}]"#);
    assert_eq!(template.render(&prompt(&messages)).unwrap(), ",;Easy.,Easy.;");
}

#[test]
fn a_template_that_refuses_is_told_in_its_words() {
    let source = "{% if messages[0].role != 'user' %}{{ raise_exception('roles must \"alternate\"') }}{% endif %}";
    let template = template(source);
    assert!(template.render(&prompt(r#"[{"role": "user"}]"#)).is_ok());
    let error = template.render(&prompt(r#"[{"role": "system"}]"#)).unwrap_err();
    assert_eq!(error.to_string(), "the model's chat template refuses the conversation: roles must \"alternate\"");
}

#[rstest]
#[case::a_value_that_is_not_there("\n{{ messages[7].role }}", "the chat template fails at line 2: ")]
#[case::a_filter_that_is_not_there("{{ 1 | nofilter }}", "the chat template fails at line 1: ")]
#[case::something_that_is_no_json("{{ nothing | tojson }}", "the chat template fails at line 1: ")]
#[case::a_loop_without_an_end(
    "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = 1 %}{% endfor %}{% endfor %}",
    "the chat template takes more than 10000000 steps; send a shorter conversation"
)]
fn a_template_that_fails_says_where(#[case] source: &str, #[case] expected: &str) {
    let message = render_error(source);
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_malformed_template_says_where() {
    let error = ChatTemplate::compile("a\n{% if %}", &tokens()).err().expect("it is malformed").to_string();
    assert!(error.starts_with("the chat template is malformed at line 2: "), "{error}");
}

/// A checkpoint's folder with these files.
fn checkpoint(files: &[(&str, &str)]) -> Result<Option<Checkpoint>, String> {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder is made");
        fs::write(path, text).expect("the file is written");
    }
    let shown = |error: ReadCheckpointError| {
        crate::failure::with_causes(&error).replace(folder.path().to_str().expect("a text"), "CHECKPOINT")
    };
    Checkpoint::read(folder.path()).map_err(shown)
}

fn both(files: &[(&str, &str)]) -> [String; 2] {
    let checkpoint = checkpoint(files).expect("it can be read").expect("it has templates");
    [false, true].map(|has_tools| checkpoint.template(has_tools).render(&prompt("[]")).expect("it renders"))
}

#[test]
fn a_checkpoint_has_its_template_and_tokens_in_its_tokenizers_configuration() {
    let config = r#"{"chat_template": "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}", "bos_token": {"content": "<s>"},
        "eos_token": "</s>", "pad_token": null}"#;
    assert_eq!(both(&[("tokenizer_config.json", config)]), ["<s></s>False"; 2]);
}

#[test]
fn a_template_in_a_file_of_its_own_comes_first() {
    let config = r#"{"chat_template": "old", "eos_token": "</s>"}"#;
    let map = r#"{"bos_token": "<s>", "eos_token": "old"}"#;
    let files = [
        ("tokenizer_config.json", config),
        ("special_tokens_map.json", map),
        ("chat_template.jinja", "{{ bos_token }}{{ eos_token }}"),
    ];
    assert_eq!(both(&files), ["<s></s>"; 2]);
}

#[test]
fn prompts_with_tools_may_have_a_template_of_their_own() {
    let config =
        r#"{"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]}"#;
    assert_eq!(both(&[("tokenizer_config.json", config)]), ["plain", "tools"]);
    let files = [("chat_template.jinja", "plain"), ("additional_chat_templates/tool_use.jinja", "tools")];
    assert_eq!(both(&files), ["plain", "tools"]);
}

#[test]
fn a_checkpoint_without_a_template_has_none() {
    assert!(checkpoint(&[]).expect("it can be read").is_none());
    assert!(checkpoint(&[("tokenizer_config.json", "{}")]).expect("it can be read").is_none());
}

#[rstest]
#[case::no_json(
    "{",
    "CHECKPOINT/tokenizer_config.json is not the configuration of a tokenizer: save it again with save_pretrained()"
)]
#[case::no_template(
    r#"{"chat_template": 7}"#,
    "CHECKPOINT/tokenizer_config.json is not the configuration of a tokenizer"
)]
#[case::no_default(
    r#"{"chat_template": [{"name": "rag", "template": ""}]}"#,
    "the checkpoint has chat templates named \"rag\", and none of them is \"default\""
)]
#[case::malformed(
    r#"{"chat_template": "{% if %}"}"#,
    "failed to compile the chat template \"default\" of the checkpoint: the chat template is malformed at line 1: "
)]
fn a_checkpoint_that_cannot_be_used_says_why(#[case] config: &str, #[case] expected: &str) {
    let message = checkpoint(&[("tokenizer_config.json", config)]).err().expect("it cannot be used");
    assert!(message.starts_with(expected), "{message}");
}
