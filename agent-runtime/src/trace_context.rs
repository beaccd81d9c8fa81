//! Where in a trace something happens, as W3C Trace Context has it: read from requests, and written into those that
//! follow from them. Pure.
//!
//! <https://www.w3.org/TR/trace-context/>. Without a context that can be read a new trace begins; no request fails for
//! it.

use std::{fmt, sync::Arc};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// The trace, the span that something happens in, and whether anybody records it.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What vendors add to it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// As much of `tracestate` as everybody must pass on.
const MAX_STATE_BYTES: usize = 512;
/// Lengths of the parts of `traceparent`: version, trace, span and flags.
const PARTS: [usize; 4] = [2, 32, 16, 2];
/// Somebody records the trace.
const SAMPLED: u8 = 1;
/// Its number is random. Both are all flags that there are.
const RANDOM: u8 = 2;

/// A span of a trace.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// The first span of a trace. Neither number can be zero, so that one stands for it.
    pub fn new(trace: u128, span: u64, is_sampled: bool) -> Self {
        let flags = if is_sampled { SAMPLED } else { 0 };
        Self { trace: trace.max(1), span: span.max(1), flags, state: None }
    }

    /// What a request says of itself; nothing where it says nothing that can be read.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let mut parents = headers.get_all(TRACEPARENT).iter();
        let parent = parents.next().filter(|_| parents.next().is_none())?;
        let context = Self::parse(parent.to_str().ok()?)?;
        let states: Option<Vec<_>> = headers.get_all(TRACESTATE).iter().map(|state| state.to_str().ok()).collect();
        let state = states.unwrap_or_default().join(",");
        let is_kept = !state.is_empty() && state.len() <= MAX_STATE_BYTES;
        Some(Self { state: is_kept.then(|| state.into()), ..context })
    }

    /// Reads `traceparent`. A later version may have more behind its flags.
    fn parse(text: &str) -> Option<Self> {
        let mut rest = text;
        let mut numbers = [0_u128; PARTS.len()];
        for (index, (number, length)) in numbers.iter_mut().zip(PARTS).enumerate() {
            if index > 0 {
                rest = rest.strip_prefix('-')?;
            }
            let (digits, behind) = rest.split_at_checked(length)?;
            let is_lower_hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
            *number = digits.bytes().all(is_lower_hex).then(|| u128::from_str_radix(digits, 16).ok())??;
            rest = behind;
        }
        let [version, trace, span, flags] = numbers;
        let ends_well = if version == 0 { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
        if version == 0xff || trace == 0 || span == 0 || !ends_well {
            return None;
        }
        let flags = u8::try_from(flags).ok()? & (SAMPLED | RANDOM);
        Some(Self { trace, span: u64::try_from(span).ok()?, flags, state: None })
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(&self, span: u64) -> Self {
        Self { span: span.max(1), ..self.clone() }
    }

    /// A span within this one, always the same for the same place: nobody keeps a list of them.
    #[must_use]
    pub fn within(&self, place: u64) -> Self {
        self.with_span(mixed(self.span ^ mixed(place)))
    }

    /// The trace's number.
    pub fn trace(&self) -> u128 {
        self.trace
    }

    /// The span's number.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Whether somebody records it.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// What vendors add.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Writes it into a request that follows from it.
    pub fn write(&self, headers: &mut HeaderMap) {
        for (name, value) in self.pairs() {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    /// The names and values that carry it, in headers and elsewhere.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = self.state.as_ref().map(|state| ("tracestate", state.to_string()));
        std::iter::once(("traceparent", self.to_string())).chain(state)
    }
}

impl fmt::Display for TraceContext {
    /// As `traceparent` has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

/// Spreads numbers that differ little over all numbers: the last steps of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(headers: &[(&'static str, &str)]) -> Option<Vec<(&'static str, String)>> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).expect("a header"));
        }
        TraceContext::read(&map).map(|context| context.pairs().collect())
    }

    #[test]
    fn a_context_is_passed_on_as_it_came() {
        let state = ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
        let expected = vec![("traceparent", PARENT.to_owned()), (state.0, state.1.to_owned())];
        assert_eq!(read(&[("traceparent", PARENT), state]), Some(expected.clone()));
        let parts = [("tracestate", "rojo=00f067aa0ba902b7"), ("tracestate", "congo=t61rcWkgMzE")];
        assert_eq!(read(&[("traceparent", PARENT), parts[0], parts[1]]), Some(expected));
    }

    #[rstest]
    #[case::not_recorded("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00")]
    #[case::random("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", "03")]
    #[case::flags_of_later_versions("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", "03")]
    #[case::a_later_version("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", "01")]
    fn flags_that_nobody_here_knows_are_left_out(#[case] parent: &str, #[case] flags: &str) {
        let expected = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        assert_eq!(read(&[("traceparent", parent)]), Some(vec![("traceparent", expected)]));
    }

    #[rstest]
    #[case::nothing("")]
    #[case::no_trace("00-00000000000000000000000000000000-b7ad6b7169203331-01")]
    #[case::no_span("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01")]
    #[case::upper_case("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01")]
    #[case::a_sign("00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    #[case::too_short("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1")]
    #[case::more_than_its_version_has("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")]
    #[case::a_later_version_without_an_end("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more")]
    #[case::no_version("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    #[case::not_ascii("00-0af7651916cd43dd8448eb211c80319\u{e9}-b7ad6b7169203331-01")]
    fn a_context_that_cannot_be_read_is_none(#[case] parent: &str) {
        assert_eq!(read(&[("traceparent", parent), ("tracestate", "rojo=1")]), None);
    }

    #[test]
    fn two_parents_are_none_and_a_long_state_is_left_out() {
        assert_eq!(read(&[("traceparent", PARENT), ("traceparent", PARENT)]), None);
        let long = format!("rojo={}", "1".repeat(MAX_STATE_BYTES));
        assert_eq!(read(&[("traceparent", PARENT), ("tracestate", &long)]), Some(vec![("traceparent", PARENT.into())]));
    }

    proptest! {
        #[test]
        fn whatever_is_written_can_be_read(trace in 1_u128.., span in 1_u64.., is_sampled: bool) {
            let context = TraceContext::new(trace, span, is_sampled);
            let mut headers = HeaderMap::new();
            context.write(&mut headers);
            prop_assert_eq!(TraceContext::read(&headers), Some(context));
        }

        #[test]
        fn places_have_spans_of_their_own(trace in 1_u128.., span in 1_u64..) {
            let context = TraceContext::new(trace, span, true);
            let spans: BTreeSet<u64> = (0..1_000).map(|place| context.within(place).span()).collect();
            prop_assert_eq!((spans.len(), spans.contains(&span)), (1_000, false));
        }
    }
}
