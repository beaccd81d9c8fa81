//! The figures of an answer, with their bounds. Pure.

use serde::Serialize;
use slipway_crds::{
    v1alpha1::{agent_deployment::ThroughputUnit, profile::Measurement},
    values::PositiveDecimal,
};

use crate::{
    bounds::{Interval, throughput},
    cost::ReplicaPrice,
};

/// What serving costs at the measured throughput, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// For one replica, an hour.
    pub microdollars_per_replica_hour: i64,
    /// For 1,000 of what is counted.
    pub microdollars_per_thousand: Interval,
    /// For a million output tokens. Absent where they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microdollars_per_million_tokens: Option<Interval>,
}

/// What a traffic needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    /// The traffic, a second.
    pub traffic: PositiveDecimal,
    /// What it counts.
    pub unit: ThroughputUnit,
    /// Number of replicas, by the measured throughput with its bounds.
    pub replicas: Interval,
    /// Number of replicas, each with the load of the confirm run. Absent where it was not confirmed in this unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas_as_confirmed: Option<i64>,
    /// Cost of these replicas, an hour, in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microdollars_per_hour: Option<Interval>,
    /// Cost of 1,000 at this traffic, in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microdollars_per_thousand: Option<Interval>,
}

/// What serving at the throughput of a row costs.
pub(super) fn cost(price: ReplicaPrice, row: &Measurement) -> Option<Cost> {
    let of = |per_kilosecond| price.of_row(&Measurement { per_kilosecond, ..row.clone() });
    let throughput = throughput(row);
    Some(Cost {
        microdollars_per_replica_hour: price.microdollars_per_hour(),
        microdollars_per_thousand: throughput.map(|rate| Some(of(rate)?.microdollars_per_thousand))?,
        microdollars_per_million_tokens: throughput.map(|rate| of(rate)?.microdollars_per_million_tokens),
    })
}

/// What a traffic needs of replicas that serve as much as a row, and as much as a confirm run showed.
pub(super) fn fleet(
    (traffic, unit): (&PositiveDecimal, ThroughputUnit),
    (row, confirmed): (&Measurement, Option<&Measurement>),
    (price, replicas): (Option<ReplicaPrice>, Option<i32>),
) -> Option<Fleet> {
    let per_kilosecond = traffic.millionths().div_euclid(1_000);
    let needed = |rate: i64| (rate > 0).then(|| (per_kilosecond + rate - 1).div_euclid(rate).max(1));
    let needs = throughput(row).map(needed)?;
    let fixed = replicas.map(i64::from).map(|count| Interval { value: count, lower: count, upper: count });
    let hourly = |count: i64| Some(price?.microdollars_per_hour().saturating_mul(count));
    let of_all = |count: i64| per_thousand(hourly(count)?, traffic);
    Some(Fleet {
        traffic: traffic.clone(),
        unit,
        replicas: needs,
        replicas_as_confirmed: confirmed.and_then(|row| needed(row.per_kilosecond)),
        microdollars_per_hour: fixed.unwrap_or(needs).map(hourly),
        microdollars_per_thousand: fixed.unwrap_or(needs).map(of_all),
    })
}

/// What 1,000 cost where so much an hour serves a traffic.
fn per_thousand(microdollars_per_hour: i64, traffic: &PositiveDecimal) -> Option<i64> {
    let thousands_per_hour = traffic.value() * 3.6;
    (thousands_per_hour > 0.0).then(|| (microdollars_per_hour as f64 / thousands_per_hour).round() as i64)
}
