//! How long the artifact store keeps what nothing needs any more. Pure.

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::InvalidSetting;

/// What may be removed from stores, and when. Without it nothing is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retention {
    /// Seconds that files stay which nothing needs any more, and Jobs that ended and that nothing reads.
    pub seconds: i64,
    /// The most that is kept of what nothing needs any more, as a quantity: what has been there longest goes first.
    /// Absent means no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unreferenced: Option<String>,
}

impl Retention {
    /// How long what nothing needs stays.
    pub const fn time(&self) -> SignedDuration {
        SignedDuration::from_secs(self.seconds)
    }

    /// The bytes of [`max_unreferenced`](Self::max_unreferenced).
    pub fn max_unreferenced_bytes(&self) -> Option<i64> {
        self.max_unreferenced.as_deref().and_then(bytes_of)
    }

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let invalid =
            |field: &str, problem: &str| Err(InvalidSetting { field: field.to_owned(), problem: problem.to_owned() });
        if !(3600..=MOST_SECONDS).contains(&self.seconds) {
            return invalid("store.retention.seconds", "must be from 3600 to 3153600000, which is a hundred years");
        }
        if self.max_unreferenced.is_some() && self.max_unreferenced_bytes().is_none() {
            return invalid(
                "store.retention.maxUnreferenced",
                "is not a quantity: write one such as 50Gi, or leave it out",
            );
        }
        Ok(())
    }
}

/// A hundred years.
const MOST_SECONDS: i64 = 3_153_600_000;

/// The bytes of a quantity in the forms that the chart takes.
fn bytes_of(quantity: &str) -> Option<i64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(end);
    let factor = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        _ => return None,
    };
    // What is too much for the type is as good as no bound.
    number.parse::<f64>().ok().map(|number| (number * factor) as i64)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn checked(yaml: &str) -> Result<Retention, String> {
        let retention: Retention = serde_norway::from_str(yaml).map_err(|error| error.to_string())?;
        retention.check().map(|()| retention).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn a_bound_is_read_in_every_unit() {
        let bytes = ["1500", "1.5k", "2M", "3G", "1Ki", "1.5Mi", "50Gi", "1Ti"].map(bytes_of);
        let read = [1_500, 1_500, 2_000_000, 3_000_000_000, 1_024, 1_572_864, 53_687_091_200, 1_099_511_627_776];
        assert_eq!(bytes, read.map(Some));
        assert_eq!(["", "Gi", "5 Gi", "5Xi"].map(bytes_of), [None; 4]);
    }

    #[rstest]
    #[case::too_short(
        "{seconds: 60}",
        "store.retention.seconds of the configuration: must be from 3600 to 3153600000, which is a hundred years"
    )]
    #[case::too_long(
        "{seconds: 9000000000}",
        "store.retention.seconds of the configuration: must be from 3600 to 3153600000, which is a hundred years"
    )]
    #[case::no_quantity(
        "{seconds: 3600, maxUnreferenced: much}",
        "store.retention.maxUnreferenced of the configuration: is not a quantity: write one such as 50Gi, or leave it out"
    )]
    #[case::a_bound_alone("{maxUnreferenced: 50Gi}", "missing field `seconds`")]
    fn what_cannot_be_kept_to_is_refused_with_the_remedy(#[case] yaml: &str, #[case] problem: &str) {
        assert_eq!(checked(yaml), Err(problem.to_owned()));
    }

    #[test]
    fn what_is_kept_is_bounded_in_time_and_where_asked_for_in_size() {
        let retention = checked("{seconds: 604800, maxUnreferenced: 50Gi}").expect("a retention");
        let week = SignedDuration::from_hours(7 * 24);
        assert_eq!((retention.time(), retention.max_unreferenced_bytes()), (week, Some(53_687_091_200)));
        assert_eq!(checked("{seconds: 3600}").map(|retention| retention.max_unreferenced_bytes()), Ok(None));
    }
}
