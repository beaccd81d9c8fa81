use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn value(expression: &str) -> Result<String, String> {
    evaluate(expression).map_err(|error| error.to_string())
}

#[rstest]
#[case("17+4", "21")]
#[case("2 + 3 * 4", "14")]
#[case("(2 + 3) * 4", "20")]
#[case("10-4-3", "3")]
#[case("100/10/5", "2")]
#[case("-3 * -(2 - 5)", "-9")]
#[case("--5", "5")]
#[case("0.1+0.2", "0.3")]
#[case("1/3*3", "1")]
#[case("1/8", "0.125")]
#[case("2/3", "0.666666666667")]
#[case("-2/3", "-0.666666666667")]
#[case("10/3", "3.333333333333")]
#[case("1-1", "0")]
#[case("-0.0", "0")]
#[case("1.500", "1.5")]
#[case(".5+5.", "5.5")]
#[case("99999*99999*99999*99999", "99996000059999600001")]
#[case("1/10000000000000", "0.0000000000001")]
#[case("2/3/10000000000000", "0")]
#[case("0.9999999999999/3*3", "0.9999999999999")]
#[case("170141183460469231731687303715884105727", "170141183460469231731687303715884105727")]
fn expressions_have_their_exact_value(#[case] expression: &str, #[case] expected: &str) {
    assert_eq!(value(expression), Ok(expected.into()));
}

#[rstest]
#[case("", "the expression is empty")]
#[case("  ", "the expression is empty")]
#[case("1/0", "division by zero")]
#[case("1/(2-2)", "division by zero")]
#[case("1+", "the expression ends too early")]
#[case("(1+2", "the expression ends too early")]
#[case("1+2)", "unexpected ')' at position 4")]
#[case("2 3", "unexpected '3' at position 3")]
#[case("1e5", "unexpected 'e' at position 2")]
#[case("Bela", "unexpected 'B' at position 1")]
#[case("2**3", "unexpected '*' at position 3")]
#[case("1.2.3", "unexpected '.' at position 4")]
#[case("170141183460469231731687303715884105728", "a number is too large")]
#[case("99999999999999999999*99999999999999999999", "a number is too large")]
fn expressions_without_a_value_say_why(#[case] expression: &str, #[case] expected: &str) {
    assert_eq!(value(expression), Err(expected.into()));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(value(&nested(63)), Ok("1".into()));
    assert_eq!(value(&nested(100_000)), Err("the expression is nested too deeply".into()));
    assert_eq!(value(&"-".repeat(100_000)), Err("the expression is nested too deeply".into()));
}

proptest! {
    #[test]
    fn integers_follow_machine_arithmetic(a in any::<i32>(), b in any::<i32>(), c in any::<i16>()) {
        let (x, y, z) = (i128::from(a), i128::from(b), i128::from(c));
        prop_assert_eq!(value(&format!("{a}+{b}*{c}")), Ok((x + y * z).to_string()));
        prop_assert_eq!(value(&format!("({a}-{b})*{c}")), Ok(((x - y) * z).to_string()));
    }

    #[test]
    fn dividing_undoes_multiplying(a in -1_000_000_i64..1_000_000, b in 1_i64..1_000_000) {
        prop_assert_eq!(value(&format!("{a}*{b}/{b}")), Ok(a.to_string()));
        prop_assert_eq!(value(&format!("{a}/{b}*{b}")), Ok(a.to_string()));
    }

    #[test]
    fn decimals_are_written_as_they_were_read(whole in 0_u64.., decimals in 0_u32..1_000_000) {
        let text = format!("{whole}.{decimals:06}1");
        prop_assert_eq!(value(&text), Ok(text.clone()));
    }

    #[test]
    fn no_text_panics(text in "[-+*/(). 0-9a]{0,80}") {
        let _ = evaluate(&text);
    }
}
