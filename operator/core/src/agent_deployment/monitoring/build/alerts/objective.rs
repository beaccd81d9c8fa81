//! An objective as alerts see it: how many of its runs may be bad. Pure.

use slipway_crds::v1alpha1::agent_deployment::ServiceLevelObjectives;

/// Name of the objective on failures, as the status calls it; no other objective can have a dot in its name.
pub const ERROR_RATE: &str = "slo.errorRate";

/// A share in ten-millionths: exact for every percentage of the API times every burn rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u64);

impl Share {
    /// A half.
    pub const HALF: Self = Self(5_000_000);

    /// A share in parts per million.
    pub const fn from_parts_per_million(parts: u32) -> Self {
        Self(parts as u64 * 10)
    }

    /// The share times a number of tenths.
    pub const fn times_tenths(self, tenths: u32) -> Self {
        Self(self.0 * tenths as u64 / 10)
    }

    /// The share as a number between 0 and 1.
    pub const fn ratio(self) -> f64 {
        self.0 as f64 / 1e7
    }

    /// The share as a decimal number between 0 and 1, as PromQL reads it.
    pub fn decimal(self) -> String {
        decimal(self.0, 7)
    }

    /// The share as a percentage, as people read it.
    pub fn percent(self) -> String {
        format!("{}%", decimal(self.0, 5))
    }
}

/// An integer of this many decimal places, without zeros at its end.
fn decimal(value: u64, places: u32) -> String {
    let unit = 10u64.pow(places);
    let text = format!("{}.{:0width$}", value / unit, value % unit, width = places as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An objective whose runs are good or bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetedObjective {
    /// Name of the objective: the label `objective` of its series.
    pub name: String,
    /// What it bounds, for people.
    pub bounds: String,
    /// Share of its runs that may be bad.
    pub allowed: Share,
}

/// The objectives that are judged by every run; capacity and quality are not.
pub fn objectives(slo: &ServiceLevelObjectives) -> Vec<BudgetedObjective> {
    let latencies = slo.objectives.iter().map(|objective| BudgetedObjective {
        name: objective.name.clone(),
        bounds: format!("{} {} ≤ {}", objective.metric.as_str(), objective.percentile, objective.max),
        allowed: Share::from_parts_per_million(1_000 * (1_000 - u32::from(objective.percentile.per_mille()))),
    });
    let failures = slo.error_rate.iter().map(|objective| BudgetedObjective {
        name: ERROR_RATE.to_owned(),
        bounds: format!("errors ≤ {}", objective.max),
        allowed: Share::from_parts_per_million(objective.max.parts_per_million()),
    });
    latencies.chain(failures).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0", "0%")]
    #[case(1, "0.000001", "0.0001%")]
    #[case(1_000, "0.001", "0.1%")]
    #[case(50_000, "0.05", "5%")]
    #[case(1_000_000, "1", "100%")]
    fn a_share_is_written_for_promql_and_for_people(#[case] ppm: u32, #[case] number: &str, #[case] percent: &str) {
        let share = Share::from_parts_per_million(ppm);
        assert_eq!((share.decimal().as_str(), share.percent().as_str()), (number, percent));
    }

    #[test]
    fn no_burn_rate_loses_a_digit() {
        assert_eq!(Share::from_parts_per_million(1).times_tenths(144).decimal(), "0.0000144");
    }
}
