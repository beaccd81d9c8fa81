use pretty_assertions::assert_eq;
use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("500ms", 500_000)]
#[case("2s", 2_000_000)]
#[case("1.5s", 1_500_000)]
#[case("250us", 250)]
#[case("5m", 300_000_000)]
#[case("1h", 3_600_000_000)]
#[case("30d", 2_592_000_000_000)]
fn a_duration_is_read_in_its_unit(#[case] text: &str, #[case] microseconds: u64) {
    assert_eq!(text.parse::<DurationText>().map(|d| d.microseconds()), Ok(microseconds));
}

#[rstest]
#[case("500")]
#[case("ms")]
#[case("-1s")]
#[case("1 s")]
#[case("1e3s")]
#[case("5 minutes")]
#[case("")]
fn a_duration_without_number_or_unit_is_refused_with_the_remedy(#[case] text: &str) {
    assert_eq!(
        text.parse::<DurationText>().map_err(|e| e.to_string()),
        Err(format!("{text:?} is not a duration: write a number with a unit, such as 500ms, 2s, 5m, 1h or 30d"))
    );
}

#[test]
fn seconds_are_rounded_up_so_that_a_deadline_is_never_shorter_than_written() {
    assert_eq!("1.001s".parse::<DurationText>().map(|d| d.seconds_rounded_up()), Ok(2));
}

#[rstest]
#[case("2%", 20_000)]
#[case("0.1%", 1_000)]
#[case("100%", 1_000_000)]
fn a_percentage_is_exact_in_parts_per_million(#[case] text: &str, #[case] parts: u32) {
    assert_eq!(text.parse::<Percent>().map(|p| p.parts_per_million()), Ok(parts));
}

#[rstest]
#[case("2")]
#[case("101%")]
#[case("-2%")]
#[case("two%")]
fn a_percentage_out_of_range_is_refused_with_the_remedy(#[case] text: &str) {
    assert_eq!(
        text.parse::<Percent>().map_err(|e| e.to_string()),
        Err(format!("{text:?} is not a percentage: write a number from 0% to 100%, such as 2% or 0.1%"))
    );
}

#[test]
fn zero_is_not_a_positive_number() {
    assert_eq!(
        "0".parse::<PositiveDecimal>().map_err(|e| e.to_string()),
        Err(r#""0" is not a positive number: write one such as 1.5 or 20"#.to_owned())
    );
}

#[rstest]
#[case("0.5", 500)]
#[case("-1", -1_000)]
#[case("2.000", 2_000)]
#[case("-0.025", -25)]
#[case("0", 0)]
fn a_penalty_is_exact_in_thousandths(#[case] text: &str, #[case] thousandths: i32) {
    assert_eq!(text.parse::<Penalty>().map(|penalty| penalty.thousandths()), Ok(thousandths));
}

#[rstest]
#[case("2.001")]
#[case("-3")]
#[case("0.0001")]
#[case("--1")]
#[case("+1")]
#[case("much")]
fn a_penalty_out_of_range_is_refused_with_the_remedy(#[case] text: &str) {
    assert_eq!(
        text.parse::<Penalty>().map_err(|e| e.to_string()),
        Err(format!(
            "{text:?} is not a penalty: write a number from -2 to 2 with at most three places, such as 0.5 or -1"
        ))
    );
}

#[rstest]
#[case(0, "0us")]
#[case(870, "870us")]
#[case(1_449, "1.4ms")]
#[case(436_000, "440ms")]
#[case(996_000, "1s")]
#[case(2_149_000, "2.1s")]
fn a_measured_time_is_written_with_two_digits(#[case] microseconds: u64, #[case] text: &str) {
    assert_eq!(readable_duration(microseconds, 2), text);
}

proptest! {
    #[test]
    fn a_duration_keeps_its_text_through_json(whole in 0u32..1_000_000, fraction in proptest::option::of(0u32..1000), unit in "us|ms|s|m|h|d") {
        let text = match fraction { Some(f) => format!("{whole}.{f:03}{unit}"), None => format!("{whole}{unit}") };
        let json = serde_json::Value::String(text.clone());
        let value: DurationText = serde_json::from_value(json.clone())?;
        prop_assert_eq!(serde_json::to_value(&value)?, json);
    }
}

#[rstest]
#[case(10_000, Some("1"))]
#[case(12_000, Some("1.2"))]
#[case(1, Some("0.0001"))]
#[case(70_010_000, Some("7001"))]
#[case(0, None)]
#[case(10_000_000_000_000, None)]
fn a_number_is_written_as_people_write_it(#[case] ten_thousandths: u64, #[case] text: Option<&str>) {
    let number = PositiveDecimal::from_ten_thousandths(ten_thousandths);
    assert_eq!(number.as_ref().map(ToString::to_string).as_deref(), text);
    assert_eq!(number.map(|number| number.ten_thousandths), text.map(|_| ten_thousandths));
}
