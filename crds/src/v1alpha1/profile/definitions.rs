//! Measurements of earlier releases, read by today's definitions of their metrics. Pure.

use serde::{Deserialize, Deserializer};

use super::{LatencyMetric, Measurement};

/// Version of the definitions of metrics by which measurements are written.
///
/// | version | change |
/// |---|---|
/// | 1 | `TimeToFirstToken` is the longest wait for the first token of any of a run's model requests |
/// | 2 | that is `RequestTimeToFirstToken`; `TimeToFirstToken` is the wait for the first token of the answer |
pub const DEFINITIONS: i32 = 2;

/// The version of measurements that name none.
pub(super) const fn first() -> i32 {
    1
}

/// Reads measurements of any release.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Measurement>, D::Error> {
    let mut measurements = Vec::<Measurement>::deserialize(deserializer)?;
    measurements.iter_mut().for_each(define_as_now);
    Ok(measurements)
}

fn define_as_now(measurement: &mut Measurement) {
    if measurement.definitions >= DEFINITIONS {
        return;
    }
    for latency in &mut measurement.latencies {
        if latency.metric == LatencyMetric::TimeToFirstToken {
            latency.metric = LatencyMetric::RequestTimeToFirstToken;
        }
    }
    measurement.definitions = DEFINITIONS;
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::v1alpha1::ProfileStatus;

    fn status(definitions: Option<i32>) -> Value {
        let mut measurement = json!({
            "engine": "engine-a", "configuration": "default", "level": 4, "purpose": "Explore", "verdict": "Feasible",
            "count": 300, "errors": 0, "milliseconds": 9_000, "perKilosecond": 33_000, "gpuMilliseconds": 9_500,
            "latencies": [{"metric": "TimeToFirstToken", "percentile": "p95", "microseconds": 40_000, "lower": 38_000}],
        });
        if let Some(definitions) = definitions {
            measurement["definitions"] = json!(definitions);
        }
        json!({"rows": 1, "measurements": [measurement]})
    }

    #[test]
    fn the_first_token_of_an_earlier_row_is_that_of_the_worst_request() {
        let read = |definitions| {
            let status: ProfileStatus = serde_json::from_value(status(definitions)).expect("a status");
            (status.measurements[0].latencies[0].metric, status.measurements[0].definitions)
        };
        assert_eq!(read(None), (LatencyMetric::RequestTimeToFirstToken, 2));
        assert_eq!(read(Some(1)), (LatencyMetric::RequestTimeToFirstToken, 2));
        assert_eq!(read(Some(2)), (LatencyMetric::TimeToFirstToken, 2));
    }

    #[test]
    fn what_is_written_reads_back_as_it_was() {
        let read: ProfileStatus = serde_json::from_value(status(None)).expect("a status");
        let written = serde_json::to_value(&read).expect("a status is data");
        assert_eq!(serde_json::from_value::<ProfileStatus>(written).expect("a status"), read);
    }
}
