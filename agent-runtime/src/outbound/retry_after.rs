//! When a service wants to be asked again. Pure.
//!
//! <https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3>: a number of seconds, or a date.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822};
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// How long a service wants to be left alone; nothing where it does not say, or not in a way that can be read.
pub(crate) fn read(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a very long time.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use reqwest::header::HeaderValue;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::seconds("120", Some(Duration::from_secs(120)))]
    #[case::at_once("0", Some(Duration::ZERO))]
    #[case::a_very_long_time("99999999999999999999999", Some(Duration::from_secs(u64::MAX)))]
    #[case::a_date("Sun, 06 Nov 1994 08:50:07 GMT", Some(Duration::from_secs(30)))]
    #[case::a_date_that_is_over("Sun, 06 Nov 1994 08:49:07 GMT", Some(Duration::ZERO))]
    #[case::below_zero("-1", None)]
    #[case::a_fraction("1.5", None)]
    #[case::words("soon", None)]
    #[case::nothing("", None)]
    fn seconds_and_dates_are_read(#[case] text: &str, #[case] expected: Option<Duration>) {
        let now = "1994-11-06T08:49:37Z".parse().expect("a timestamp");
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers, now), None);
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).expect("a header"));
        assert_eq!(read(&headers, now), expected);
    }
}
