//! When the serving choice is measured again, in words. Pure.

/// By its schedule: `at` is when it is due, `held` what it waits for where it is.
pub(super) fn planned(at: &str, held: Option<&str>, latest: Option<&str>) -> String {
    let when = match held {
        None => format!("the serving choice is measured again at {at}"),
        Some(held) => format!("measuring the serving choice again is due since {at}: it begins once {held}"),
    };
    with(when, latest)
}

/// What a campaign after drift waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterDrift {
    /// Seven days after the last one.
    Rest {
        /// When they are over.
        until: String,
    },
    /// What must not be disturbed.
    Else {
        /// Since when it is due.
        since: String,
        /// What has to be.
        held: &'static str,
    },
    /// Whether slower tools are the cause, which it could not fix.
    Cause {
        /// Blocks with traffic that are compared until then.
        blocks_left: i32,
    },
}

impl AfterDrift {
    /// What distinguishes it from others; how many blocks are left does not.
    pub fn subject(&self) -> &str {
        match self {
            Self::Rest { until: at } | Self::Else { since: at, .. } => at,
            Self::Cause { .. } => "cause",
        }
    }
}

pub(super) fn after_drift(waits: &AfterDrift, risk: &str, latest: Option<&str>) -> String {
    let when = match waits {
        AfterDrift::Rest { until } => {
            format!("re-profiling after drift waits until {until}, seven days after the last campaign: {risk}")
        }
        AfterDrift::Else { since, held } => {
            format!("re-profiling after drift is due since {since}: it begins once {held}: {risk}")
        }
        AfterDrift::Cause { blocks_left } => {
            let blocks = if *blocks_left == 1 { "block" } else { "blocks" };
            format!(
                "re-profiling after drift waits for {blocks_left} more {blocks} of ten minutes with traffic, which \
                 show whether tools are slower: {risk}"
            )
        }
    };
    with(when, latest)
}

fn with(text: String, latest: Option<&str>) -> String {
    match latest {
        Some(latest) => format!("{text}; {latest}"),
        None => text,
    }
}
