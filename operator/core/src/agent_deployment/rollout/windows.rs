//! When a canary is looked at, and which windows its pods are asked for. Pure.

use std::time::Duration;

use jiff::Timestamp;
use slipway_crds::{conditions::Reason, v1alpha1::agent_deployment::RolloutStatus};
use slipway_vocabulary::evidence::{WINDOW_SECONDS, window_id};

/// Seconds after the end of a window in which a pod has counted it.
pub(super) const GRACE_SECONDS: u64 = 2;
/// Windows for which a silent or late pod is awaited before the others are judged without it: half a minute.
pub(super) const PATIENCE_WINDOWS: u64 = 3;
/// The same of a pod that the operator had no turn to ask: three minutes, of which one may not be written yet.
pub(super) const UNASKED_WINDOWS: u64 = 18;
/// Windows whose sessions say whether a wrong split was fixed: five minutes.
pub(super) const MENDED_WINDOWS: u64 = 30;

/// Time until the next window can be read: whole seconds, from one to the length of a window.
pub(super) fn until_next_window(now: Timestamp) -> Duration {
    let counted = u64::try_from(now.as_second()).unwrap_or(0).saturating_sub(GRACE_SECONDS);
    Duration::from_secs(WINDOW_SECONDS - counted % WINDOW_SECONDS)
}

/// The window after which pods are to report what the judge still reads. These are windows since it last wrote down
/// what it had read, those that late clocks may have held up, and the latest ones, by which the split is judged.
/// Windows before the present weight are never read. While nodes hold the judge, it reads nothing, however long: then
/// all windows are asked for.
pub fn judged_after(rollout: &RolloutStatus, now: Timestamp) -> u64 {
    if rollout.reason.as_deref() == Some(Reason::NodeAtFault.as_str()) {
        return 0;
    }
    let before = before_weight(rollout);
    let written = rollout.judged_at.as_ref().filter(|_| rollout.judge_state.is_some());
    let read = written.map_or(before, |at| id_of(at.0.min(now)));
    read.saturating_sub(MENDED_WINDOWS + PATIENCE_WINDOWS + UNASKED_WINDOWS).max(before)
}

/// The last window before that in which the present weight was taken.
pub(super) fn before_weight(rollout: &RolloutStatus) -> u64 {
    rollout.weight_since.as_ref().map_or(0, |since| id_of(since.0)).saturating_sub(1)
}

fn id_of(time: Timestamp) -> u64 {
    window_id(u64::try_from(time.as_second()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn while_nodes_hold_the_judge_all_windows_are_asked_for() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let judged = RolloutStatus {
            weight_since: Some(Time(at(0))),
            judged_at: Some(Time(at(10_000))),
            judge_state: Some("kept".to_owned()),
            ..RolloutStatus::default()
        };
        assert_eq!(judged_after(&judged, at(10_020)), 1_000 - 51);
        let held = RolloutStatus { reason: Some(Reason::NodeAtFault.as_str().to_owned()), ..judged };
        assert_eq!(judged_after(&held, at(10_020)), 0);
    }

    #[test]
    fn a_canary_is_looked_at_as_soon_as_its_pods_have_counted_a_window() {
        let wait = |text: &str| until_next_window(text.parse().unwrap()).as_secs();
        assert_eq!(wait("2026-01-01T00:00:12Z"), 10);
        assert_eq!(wait("2026-01-01T00:00:12.9Z"), 10);
        assert_eq!(wait("2026-01-01T00:00:15Z"), 7);
        assert_eq!(wait("2026-01-01T00:00:21.9Z"), 1);
    }
}
