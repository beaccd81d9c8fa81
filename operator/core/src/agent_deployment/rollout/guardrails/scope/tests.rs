use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn of_team(query: &str) -> Result<String, String> {
    let labels = ["namespace", "exported_namespace"].map(str::to_owned);
    scoped(query, Scope { namespace: "team", labels: &labels }).map_err(|error| error.to_string())
}

#[rstest]
#[case::bare("up", r#"up{namespace="team"}"#)]
#[case::empty("up{}", r#"up{namespace="team"}"#)]
#[case::matched(r#"up{pod=~"a|b"}"#, r#"up{namespace="team",pod=~"a|b"}"#)]
#[case::with_a_comma(r#"up{pod="a",}"#, r#"up{namespace="team",pod="a",}"#)]
#[case::without_a_name(r#"{__name__=~".+"}"#, r#"{namespace="team",__name__=~".+"}"#)]
#[case::quoted_metric(r#"{"a.b", c="d"}"#, r#"{namespace="team","a.b", c="d"}"#)]
#[case::of_the_namespace(r#"up{namespace="team"}"#, r#"up{namespace="team"}"#)]
#[case::of_another_label(r#"gpu{exported_namespace='team'}"#, r#"gpu{exported_namespace='team'}"#)]
#[case::of_another_namespace(r#"up{namespace="other"}"#, r#"up{namespace="team",namespace="other"}"#)]
#[case::of_several(r#"up{namespace=~"team"}"#, r#"up{namespace="team",namespace=~"team"}"#)]
#[case::of_all_but_one(r#"up{namespace!="team"}"#, r#"up{namespace="team",namespace!="team"}"#)]
#[case::call("rate(runs[5m])", r#"rate(runs{namespace="team"}[5m])"#)]
#[case::subquery("max_over_time(up[1h:5m])", r#"max_over_time(up{namespace="team"}[1h:5m])"#)]
#[case::open_subquery("max_over_time(up[1h:])", r#"max_over_time(up{namespace="team"}[1h:])"#)]
#[case::grouped_before("sum by (pod, le) (a)", r#"sum by (pod, le) (a{namespace="team"})"#)]
#[case::grouped_after("SUM(a) WITHOUT (pod)", r#"SUM(a{namespace="team"}) WITHOUT (pod)"#)]
#[case::ratio("a / b", r#"a{namespace="team"} / b{namespace="team"}"#)]
#[case::matching(
    "a * on(pod) group_left(node) b",
    r#"a{namespace="team"} * on(pod) group_left(node) b{namespace="team"}"#
)]
#[case::compared("a >= bool -b", r#"a{namespace="team"} >= bool -b{namespace="team"}"#)]
#[case::sets("a or b unless c", r#"a{namespace="team"} or b{namespace="team"} unless c{namespace="team"}"#)]
#[case::moved("a offset -5m + b @ end()", r#"a{namespace="team"} offset -5m + b{namespace="team"} @ end()"#)]
#[case::quantile("histogram_quantile(0.9, a)", r#"histogram_quantile(0.9, a{namespace="team"})"#)]
#[case::replaced(
    r#"label_replace(a, "b", "$1{}", "c", "(.*)")"#,
    r#"label_replace(a{namespace="team"}, "b", "$1{}", "c", "(.*)")"#
)]
#[case::words_as_metrics("on + by", r#"on{namespace="team"} + by{namespace="team"}"#)]
#[case::figures("1e-3 * 0x1F + Inf - nan + .5", "1e-3 * 0x1F + Inf - nan + .5")]
#[case::no_values("vector(time())", "vector(time())")]
#[case::comment(
    "a # {namespace=\"other\"}\n+ b",
    "a{namespace=\"team\"} # {namespace=\"other\"}\n+ b{namespace=\"team\"}"
)]
#[case::comment_of_another_system("a # b\r\n+ c", "a{namespace=\"team\"} # b\r\n+ c{namespace=\"team\"}")]
#[case::name_after_an_exponent("1e+a", r#"1e+a{namespace="team"}"#)]
#[case::exponent("1e+5 + 1E-5", "1e+5 + 1E-5")]
#[case::backslash_in_backticks(r"a{b=~`\d+`}", r#"a{namespace="team",b=~`\d+`}"#)]
#[case::quotes_in_quotes(r#"a{b="\"}",c='"'}"#, r#"a{namespace="team",b="\"}",c='"'}"#)]
fn every_selector_selects_the_namespace(#[case] query: &str, #[case] expected: &str) {
    assert_eq!(of_team(query), Ok(expected.to_owned()));
}

#[rstest]
#[case::alternatives(
    r#"up{a="b" or c="d"}"#,
    r#"its query has "or" at 10, where PromQL has no such word: correct it, or write it without a dialect"#
)]
#[case::templates(
    "WITH (x = up) x",
    r#"its query has "=" at 9, where PromQL has no such word: correct it, or write it without a dialect"#
)]
#[case::two_values(
    "up down",
    r#"its query has "down" at 4, where PromQL has no such word: correct it, or write it without a dialect"#
)]
#[case::selector_in_a_range(
    "up[down]",
    r#"its query has "down" at 4, where PromQL has no such word: correct it, or write it without a dialect"#
)]
#[case::label_that_is_none(
    "sum by (a{}) (up)",
    r#"its query has "{" at 10, where PromQL has no such word: correct it, or write it without a dialect"#
)]
#[case::closed_twice(
    "up)",
    r#"its query has ")" at 3, where PromQL has no such word: correct it, or write it without a dialect"#
)]
#[case::escaped_name(r"up\-down", r"its query has '\\' at 3, which PromQL does not know: take it out")]
#[case::comment_that_ends_for_prometheus_alone(
    "up # \r or on() secret",
    r"its query has '\r' at 6, which PromQL does not know: take it out"
)]
#[case::matcher_in_a_comment_for_others_alone(
    "{ # \rnamespace=\"team\"\n}",
    r"its query has '\r' at 5, which PromQL does not know: take it out"
)]
#[case::comment_that_ends_the_query("up # \r", r"its query has '\r' at 6, which PromQL does not know: take it out")]
#[case::matcher_in_a_text_for_others(
    r#"{x!=`\`,namespace="team",y!=`} or secret # `}"#,
    r"its query has '\\' at 6, which PromQL does not know: take it out"
)]
#[case::open_quote("up{a=\"b\n\"}", "its query has a quote at 6 that is not closed: close it on the same line")]
#[case::nothing("", "its query ends where more is expected: complete it")]
#[case::open("sum(up", "its query ends where more is expected: complete it")]
#[case::of_two_values("up +", "its query ends where more is expected: complete it")]
#[case::joins("info(up)", "its query calls info(), which reads metrics of all namespaces: write it without")]
fn what_could_read_more_is_refused(#[case] query: &str, #[case] expected: &str) {
    assert_eq!(of_team(query), Err(expected.to_owned()));
}

/// Words that a tenant may write, in any order.
const WORDS: &str = "up|secret|sum|by|on|or|group_left|bool|offset|inf|(|)|{|}|[|]|,|+|=|==|!=|@|5m|1e|0x1e|namespace|\
                     \"team\"|`team`|'\\'|#|\r|\n| |\\|\"|`|é|:|.";

fn query() -> impl Strategy<Value = String> {
    let words: Vec<&str> = WORDS.split('|').collect();
    prop::collection::vec(prop::sample::select(words), 0..24).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Reading what was held to a namespace once more adds nothing, and no query ends the operator.
    #[test]
    fn a_scoped_query_is_scoped(query in query()) {
        if let Ok(held) = of_team(&query) {
            prop_assert_eq!(of_team(&held), Ok(held));
        }
    }
}
