//! The percentiles that an objective can name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Percentiles that an objective can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum Percentile {
    /// The median.
    #[serde(rename = "p50")]
    P50,
    /// 90 of 100 values are at most this.
    #[serde(rename = "p90")]
    P90,
    /// 95 of 100 values are at most this.
    #[serde(rename = "p95")]
    P95,
    /// 99 of 100 values are at most this.
    #[serde(rename = "p99")]
    P99,
    /// 999 of 1,000 values are at most this.
    #[serde(rename = "p99.9")]
    P99_9,
}

impl Percentile {
    /// Every percentile, in ascending order.
    pub const ALL: [Self; 5] = [Self::P50, Self::P90, Self::P95, Self::P99, Self::P99_9];

    /// The name in the API and on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
        }
    }

    /// The share of values that are at most the percentile, in thousandths: p99.9 is 999.
    #[must_use]
    pub const fn per_mille(self) -> u16 {
        match self {
            Self::P50 => 500,
            Self::P90 => 900,
            Self::P95 => 950,
            Self::P99 => 990,
            Self::P99_9 => 999,
        }
    }

    /// The share of values that are at most the percentile.
    #[must_use]
    pub fn probability(self) -> f64 {
        f64::from(self.per_mille()) / 1_000.0
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::Percentile;
    use crate::evidence::Quantile;

    #[test]
    fn a_percentile_is_written_as_it_is_called() {
        let written = Percentile::ALL.map(|percentile| serde_json::to_value(percentile).unwrap());
        assert_eq!(written, ["p50", "p90", "p95", "p99", "p99.9"]);
        assert_eq!(Percentile::ALL.map(|percentile| percentile.to_string()), ["p50", "p90", "p95", "p99", "p99.9"]);
    }

    #[test]
    fn a_percentile_is_the_same_share_in_every_form() {
        assert_eq!(Percentile::ALL.map(Percentile::probability), [0.5, 0.9, 0.95, 0.99, 0.999]);
        let quantiles = [Quantile::P50, Quantile::P90, Quantile::P95, Quantile::P99, Quantile::P99_9];
        assert_eq!(Percentile::ALL.map(Quantile::from), quantiles);
        assert_eq!(quantiles.map(Quantile::probability), Percentile::ALL.map(Percentile::probability));
    }
}
