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

#[rstest]
#[case::temperature("0".parse::<Temperature>().map(|value| value.thousandths()), Ok(0))]
#[case::temperature("2.0".parse::<Temperature>().map(|value| value.thousandths()), Ok(2_000))]
#[case::temperature("0.0001".parse::<Temperature>().map(|value| value.thousandths()), Ok(1))]
#[case::top_p("0.95".parse::<TopP>().map(|value| value.thousandths()), Ok(950))]
#[case::top_p("1".parse::<TopP>().map(|value| value.thousandths()), Ok(1_000))]
fn sampling_is_given_in_thousandths_and_never_rounded_to_nothing(
    #[case] read: Result<u32, ValueError>,
    #[case] expected: Result<u32, ValueError>,
) {
    assert_eq!(read, expected);
}

#[rstest]
#[case::temperature("2.1".parse::<Temperature>().map(String::from),
    r#""2.1" is not a temperature: write a number from 0 to 2 with at most four places, such as 0.7"#)]
#[case::temperature("-1".parse::<Temperature>().map(String::from),
    r#""-1" is not a temperature: write a number from 0 to 2 with at most four places, such as 0.7"#)]
#[case::top_p("0".parse::<TopP>().map(String::from),
    r#""0" is not a top-p: write a number above 0 and up to 1 with at most four places, such as 0.95"#)]
#[case::top_p("1.5".parse::<TopP>().map(String::from),
    r#""1.5" is not a top-p: write a number above 0 and up to 1 with at most four places, such as 0.95"#)]
#[case::decimal("-1".parse::<NonNegativeDecimal>().map(String::from),
    r#""-1" is not a number: write 0 or one above it, such as 1.5 or 20"#)]
fn a_number_out_of_its_range_is_refused_with_the_range(
    #[case] read: Result<String, ValueError>,
    #[case] expected: &str,
) {
    assert_eq!(read.map_err(|error| error.to_string()), Err(expected.to_owned()));
}

/// What the API server keeps the operator must be able to read: else an object would be accepted and left alone.
fn whatever_the_pattern_takes_is_read<T: FromStr<Err = ValueError>>(pattern: &str) {
    let texts = proptest::string::string_regex(pattern.trim_matches(['^', '$'])).expect("a pattern of the API");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2_000));
    let read = runner.run(&texts, |text| {
        prop_assert!(text.parse::<T>().is_ok(), "{text}");
        Ok(())
    });
    assert_eq!(read, Ok(()));
}

#[test]
fn whatever_the_api_server_keeps_is_read() {
    whatever_the_pattern_takes_is_read::<DurationText>(DURATION_PATTERN);
    whatever_the_pattern_takes_is_read::<Percent>(PERCENT_PATTERN);
    whatever_the_pattern_takes_is_read::<PositiveDecimal>(POSITIVE_DECIMAL_PATTERN);
    whatever_the_pattern_takes_is_read::<NonNegativeDecimal>(NON_NEGATIVE_DECIMAL_PATTERN);
    whatever_the_pattern_takes_is_read::<Penalty>(PENALTY_PATTERN);
    whatever_the_pattern_takes_is_read::<Temperature>(TEMPERATURE_PATTERN);
    whatever_the_pattern_takes_is_read::<TopP>(TOP_P_PATTERN);
}

/// The other way round: of the numbers at the bounds, those that are read are kept.
#[rstest]
#[case(PERCENT_PATTERN, &["0%", "100%", "100.0000%", "99.9999%"], &["100.0001%", "101%"])]
#[case(POSITIVE_DECIMAL_PATTERN, &["0.0001", "0.1", "1", "10.50", "999999999.9999"], &["0", "0.0", "0.0000", "00.1"])]
#[case(NON_NEGATIVE_DECIMAL_PATTERN, &["0", "0.0", "0.0001", "20"], &["-1", "01", "1."])]
#[case(TEMPERATURE_PATTERN, &["0", "0.0", "0.7", "1.9999", "2", "2.0"], &["2.1", "2.0001", "3", "-1"])]
#[case(TOP_P_PATTERN, &["0.0001", "0.95", "1", "1.0"], &["0", "0.0", "1.1", "2"])]
fn a_pattern_ends_where_its_numbers_do(#[case] pattern: &str, #[case] kept: &[&str], #[case] refused: &[&str]) {
    let pattern = regex::Regex::new(pattern).expect("a pattern of the API");
    let of = |texts: &[&str]| texts.iter().map(|text| pattern.is_match(text)).collect::<Vec<_>>();
    assert_eq!((of(kept), of(refused)), (vec![true; kept.len()], vec![false; refused.len()]));
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
