//! When the serving choice is measured again, in words. Pure.

/// By its schedule: `at` is when it is due, `held` what it waits for where it is.
pub(super) fn planned(at: &str, held: Option<&str>, latest: Option<&str>) -> String {
    let when = match held {
        None => format!("the serving choice is measured again at {at}"),
        Some(held) => format!("measuring the serving choice again is due since {at}: it begins once {held}"),
    };
    with(when, latest)
}

/// After drift: `at` is when it may be, `held` what it waits for where it may.
pub(super) fn after_drift(at: &str, held: Option<&str>, risk: &str, latest: Option<&str>) -> String {
    let when = match held {
        None => format!("re-profiling after drift waits until {at}, seven days after the last campaign: {risk}"),
        Some(held) => format!("re-profiling after drift is due since {at}: it begins once {held}: {risk}"),
    };
    with(when, latest)
}

fn with(text: String, latest: Option<&str>) -> String {
    match latest {
        Some(latest) => format!("{text}; {latest}"),
        None => text,
    }
}
