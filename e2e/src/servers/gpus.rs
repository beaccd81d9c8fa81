//! What the program beside an engine reports of a pod's GPUs, as one H200 did while it multiplied matrices for six of
//! every ten seconds (`data/gpus-h200.json`, recorded with `slipway-preflight watch`). The windows are said to be those
//! of now.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::{Json, Router, extract::Query, http::StatusCode, routing::get};
use serde::Deserialize;
use slipway_vocabulary::{
    evidence::window_id,
    telemetry::{PATH, Telemetry, TelemetryWindow},
};

const RECORDED: &str = include_str!("../../data/gpus-h200.json");
/// Windows in an answer, the current one included.
const WINDOWS: u64 = 6;

#[derive(Debug, Deserialize)]
struct After {
    after: Option<u64>,
}

/// The service.
pub fn router() -> Router {
    Router::new().route(PATH, get(gpus))
}

async fn gpus(Query(After { after }): Query<After>) -> Result<Json<Telemetry>, (StatusCode, String)> {
    let broken = |error: serde_json::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let recorded: Telemetry = serde_json::from_str(RECORDED).map_err(broken)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(Json(replayed(&recorded, window_id(now), after)))
}

/// The recorded windows as those that end with `last`, in a circle.
fn replayed(recorded: &Telemetry, last: u64, after: Option<u64>) -> Telemetry {
    let first = last.saturating_sub(WINDOWS - 1).max(after.map_or(0, |after| after.saturating_add(1)));
    let window = |id: u64| {
        let place = usize::try_from(id).ok()?.checked_rem(recorded.windows.len())?;
        let gpus = recorded.windows.get(place)?.gpus.clone();
        Some(TelemetryWindow { id, gpus })
    };
    Telemetry { windows: (first..=last).filter_map(window).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(last: u64, after: Option<u64>) -> Vec<u64> {
        let recorded = serde_json::from_str(RECORDED).unwrap();
        replayed(&recorded, last, after).windows.iter().map(|window| window.id).collect()
    }

    #[test]
    fn windows_end_with_that_of_now_and_begin_after_the_last_that_is_known() {
        assert_eq!(ids(100, None), [95, 96, 97, 98, 99, 100]);
        assert_eq!(ids(100, Some(98)), [99, 100]);
        assert_eq!(ids(100, Some(100)), Vec::<u64>::new());
    }
}
