//! Money: what a replica costs, and what serving at a measured throughput does. Pure.
//!
//! Amounts are whole millionths of a US dollar: the API has no floating point.

use slipway_crds::{
    v1alpha1::{
        profile::{HourlyPrice, MeasuredCost, Measurement, ProfileInputs},
        shared::ContainerResources,
    },
    values::PositiveDecimal,
};
use thiserror::Error;

const SECONDS_PER_HOUR: i128 = 3_600;
/// Least and greatest price of an hour, in millionths of a dollar. A slice of an old GPU costs more, and a board of the
/// newest less.
const PRICES: std::ops::RangeInclusive<i64> = 1_000..=1_000_000_000;

/// Why a text is not a price.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PriceError {
    /// It is not a number above zero.
    #[error("{0:?} is not a price: write US dollars an hour from 0.001 to 1000, such as 2.5")]
    NotANumber(String),
    /// Nothing costs as little or as much.
    #[error("{0} US dollars an hour cannot be right: write a price from 0.001 to 1000")]
    Absurd(String),
}

/// Reads a price of an hour in US dollars.
///
/// # Errors
/// [`PriceError`] if it is not a number above zero, or one that cannot be right.
pub fn price(text: &str) -> Result<PositiveDecimal, PriceError> {
    let price: PositiveDecimal = text.parse().map_err(|_| PriceError::NotANumber(text.to_owned()))?;
    if PRICES.contains(&price.millionths()) { Ok(price) } else { Err(PriceError::Absurd(text.to_owned())) }
}

/// What one replica costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaPrice {
    microdollars_per_hour: i64,
}

impl ReplicaPrice {
    /// The price of a replica that holds so many GPUs; without one, that of its pod.
    pub fn of(price: &HourlyPrice, gpus: u32) -> Self {
        Self { microdollars_per_hour: price.per_hour.millionths().saturating_mul(i64::from(gpus.max(1))) }
    }

    /// The price by which a campaign compares the costs of an engine, if it does.
    pub fn of_engine(inputs: &ProfileInputs, engine: &str) -> Option<Self> {
        inputs.price_of(engine).map(|price| Self::of(price, gpus(inputs)))
    }

    /// For an hour.
    pub const fn microdollars_per_hour(self) -> i64 {
        self.microdollars_per_hour
    }

    /// For 1,000 requests or runs at a throughput per 1,000 seconds; nothing where none was served.
    pub fn per_thousand(self, per_kilosecond: i64) -> Option<i64> {
        // 1,000 take 1,000,000 / per_kilosecond seconds.
        let price = i128::from(self.microdollars_per_hour) * 1_000_000;
        (per_kilosecond > 0).then(|| quotient(price, SECONDS_PER_HOUR * i128::from(per_kilosecond)))
    }

    /// What serving at the throughput of a row costs; nothing where none was served.
    pub fn of_row(self, row: &Measurement) -> Option<MeasuredCost> {
        let microdollars_per_thousand = self.per_thousand(row.per_kilosecond)?;
        let tokens = row.output_tokens.filter(|tokens| *tokens > 0);
        let of_tokens = |tokens: i64| {
            let thousandths = i128::from(row.count) * 1_000;
            quotient(i128::from(microdollars_per_thousand) * thousandths, i128::from(tokens))
        };
        Some(MeasuredCost { microdollars_per_thousand, microdollars_per_million_tokens: tokens.map(of_tokens) })
    }

    /// The least throughput per 1,000 seconds at which 1,000 cost no more than this.
    pub fn least_per_kilosecond(self, microdollars: i64) -> u64 {
        let (price, most) = (i128::from(self.microdollars_per_hour) * 1_000_000, i128::from(microdollars.max(1)));
        let least = (price + SECONDS_PER_HOUR * most - 1) / (SECONDS_PER_HOUR * most);
        u64::try_from(least).unwrap_or(u64::MAX).max(1)
    }
}

/// A quotient of positive numbers, rounded.
fn quotient(of: i128, by: i128) -> i64 {
    i64::try_from((of + by / 2) / by).unwrap_or(i64::MAX)
}

/// GPUs that the pods of a campaign hold; 0 on a CPU.
pub fn gpus(inputs: &ProfileInputs) -> u32 {
    gpus_of(&inputs.placement.triton_resources)
}

/// GPUs that a container holds.
pub fn gpus_of(resources: &ContainerResources) -> u32 {
    resources.limits.get("nvidia.com/gpu").and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// An amount as people write it, with three significant digits below a dollar: `$0.000347`, `$0.42`, `$12.50`, `$1250`.
pub fn dollars(microdollars: i64) -> String {
    let value = microdollars as f64 / 1e6;
    match microdollars {
        ..=0 => "$0".to_owned(),
        1..1_000_000 => {
            let zeros = 5 - microdollars.ilog10();
            let text = format!("{value:.*}", (zeros as usize + 3).min(6));
            format!("${}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        1_000_000..100_000_000 => format!("${value:.2}"),
        _ => format!("${value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn replica(per_hour: &str, gpus: u32) -> ReplicaPrice {
        let price = HourlyPrice {
            gpu_product: Some("NVIDIA-L4".to_owned()),
            spot: false,
            per_hour: per_hour.parse().expect("a price"),
        };
        ReplicaPrice::of(&price, gpus)
    }

    fn row(per_kilosecond: i64, count: i32, output_tokens: Option<i64>) -> Measurement {
        serde_json::from_value(serde_json::json!({
            "engine": "engine-a", "configuration": "default", "level": 4, "purpose": "Explore", "verdict": "Feasible",
            "count": count, "errors": 0, "milliseconds": 9_000, "perKilosecond": per_kilosecond,
            "gpuMilliseconds": 9_500, "outputTokens": output_tokens,
        }))
        .expect("a row")
    }

    #[test]
    fn a_thousand_runs_cost_the_time_that_they_take() {
        // 2 runs a second: 1,000 take 500 s of a GPU at $3.60 an hour.
        let cost = replica("3.6", 1).of_row(&row(2_000, 100, Some(50_000))).expect("a cost");
        let expected =
            MeasuredCost { microdollars_per_thousand: 500_000, microdollars_per_million_tokens: Some(1_000_000) };
        assert_eq!(cost, expected, "500 tokens a run: 1,000 runs write half a million");
        assert_eq!(replica("3.6", 4).per_thousand(2_000), Some(2_000_000), "four GPUs");
        assert_eq!(replica("3.6", 0).per_thousand(2_000), Some(500_000), "a pod without one");
    }

    #[test]
    fn without_throughput_or_tokens_there_is_no_such_cost() {
        assert_eq!(replica("3.6", 1).of_row(&row(0, 0, None)), None);
        let cost = replica("3.6", 1).of_row(&row(2_000, 100, None)).expect("a cost");
        assert_eq!(cost.microdollars_per_million_tokens, None);
    }

    #[rstest]
    #[case::nothing("")]
    #[case::negative("-2.5")]
    #[case::zero("0")]
    #[case::a_currency("$2.5")]
    #[case::infinite("inf")]
    fn what_is_no_number_above_zero_is_no_price(#[case] text: &str) {
        assert_eq!(price(text), Err(PriceError::NotANumber(text.to_owned())));
    }

    #[rstest]
    #[case::that_of_a_month("1800")]
    #[case::that_of_a_second("0.0007")]
    fn an_absurd_price_is_none(#[case] text: &str) {
        let message = format!("{text} US dollars an hour cannot be right: write a price from 0.001 to 1000");
        assert_eq!(price(text).map_err(|error| error.to_string()), Err(message));
    }

    #[test]
    fn amounts_are_written_as_people_do() {
        let shown = [0, 347, 12_340, 420_000, 999_999, 1_500_000, 12_345_678, 1_250_400_000].map(dollars);
        assert_eq!(shown, ["$0", "$0.000347", "$0.0123", "$0.42", "$1", "$1.50", "$12.35", "$1250"]);
    }

    proptest! {
        #[test]
        fn the_least_throughput_is_the_first_that_is_cheap_enough(
            per_hour in 1_000u64..10_000_000, most in 1i64..1_000_000_000
        ) {
            let per_hour = PositiveDecimal::from_ten_thousandths(per_hour).expect("a number");
            let price = ReplicaPrice::of(&HourlyPrice { gpu_product: None, spot: false, per_hour }, 1);
            let least = i64::try_from(price.least_per_kilosecond(most)).expect("far below");
            prop_assert!(price.per_thousand(least).expect("a cost") <= most);
            if least > 1 {
                prop_assert!(price.per_thousand(least - 1).expect("a cost") >= most);
            }
        }
    }
}
