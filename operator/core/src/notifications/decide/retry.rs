//! What a receiver's answer means, and how long to wait after a failure. Pure.

use std::time::Duration;

use jiff::{Timestamp, fmt::rfc2822::DateTimeParser};

use super::Policy;

/// Outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The receiver has it.
    Delivered,
    /// The receiver may take it later.
    Later {
        /// What happened.
        reason: String,
        /// How long the receiver asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The receiver will never take it.
    Refused {
        /// What happened.
        reason: String,
    },
}

/// Reads a status and a `Retry-After` header (RFC 9110, section 10.2.3: seconds, or a date).
///
/// 408, 429 and all of 5xx may pass. Every other failure is final, redirects included: Slack's 4xx mean a bad payload
/// or a removed address, and PagerDuty asks not to repeat a 400.
pub fn answer(status: u16, retry_after: Option<&str>, now: Timestamp) -> Answer {
    match status {
        200..=299 => Answer::Delivered,
        408 | 429 | 500..=599 => Answer::Later {
            reason: format!("status {status}"),
            retry_after: retry_after.and_then(|text| waiting_time(text, now)),
        },
        _ => Answer::Refused { reason: format!("status {status}") },
    }
}

fn waiting_time(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

/// Waiting time after so many failures: exponential, with half of it left to chance (`dice` from 0 to 1), so that many
/// operators do not knock at once.
pub(super) fn back_off(policy: &Policy, failures: u32, dice: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = policy.first_back_off.saturating_mul(1 << doublings).min(policy.longest_back_off);
    full / 2 + (full / 2).mul_f64(dice.clamp(0.0, 1.0))
}
