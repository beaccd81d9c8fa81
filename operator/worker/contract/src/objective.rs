//! Latency objectives as a task file has them: `maxMicros` is the bound.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use slipway_vocabulary::{LatencyMetric, LatencyObjective, Percentile};

/// The fields of an objective under the names of a task file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "LatencyObjective", rename_all = "camelCase", deny_unknown_fields)]
struct OfTask {
    name: String,
    metric: LatencyMetric,
    percentile: Percentile,
    #[serde(rename = "maxMicros")]
    max_microseconds: u64,
}

#[derive(Serialize)]
struct Written<'a>(#[serde(with = "OfTask")] &'a LatencyObjective);

#[derive(Deserialize)]
struct Read(#[serde(with = "OfTask")] LatencyObjective);

pub(crate) fn serialize<S: Serializer>(objectives: &[LatencyObjective], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(objectives.iter().map(Written))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<LatencyObjective>, D::Error> {
    Ok(Vec::<Read>::deserialize(deserializer)?.into_iter().map(|Read(objective)| objective).collect())
}
