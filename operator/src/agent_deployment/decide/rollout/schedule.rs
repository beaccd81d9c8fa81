//! The steps of a rollout: which share of traffic the canary is given, and how many pods it needs for that. Pure.

use slipway_crds::v1alpha1::agent_deployment::{Rollout, RolloutStep, TrafficType};

/// Shares of the default schedule, in percent.
const DEFAULT_WEIGHTS: [i32; 3] = [5, 20, 50];

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    /// The share that was asked for, in percent.
    pub(super) weight: i32,
    /// The share that the canary really gets, in percent.
    pub(super) share: f64,
    /// Pods of the canary.
    pub(super) pods: i32,
    /// Shortest time at the step, in seconds.
    pub(super) min_soak_seconds: u64,
    /// Longest time at the step without a verdict, in seconds.
    pub(super) max_soak_seconds: u64,
}

/// The steps before the canary takes over. A share of 100 percent is the taking over itself.
pub(super) fn schedule(rollout: &Rollout, replicas: i32) -> Vec<Planned> {
    let defaults: Vec<RolloutStep> = DEFAULT_WEIGHTS.map(RolloutStep::with_weight).to_vec();
    let steps = if rollout.steps.is_empty() { &defaults } else { &rollout.steps };
    let mut planned: Vec<Planned> = Vec::new();
    for step in steps.iter().filter(|step| step.weight < 100) {
        let pods = canary_pods(replicas, step.weight);
        let share = match rollout.traffic.r#type {
            TrafficType::GatewayAPI | TrafficType::BlueGreen => f64::from(step.weight),
            TrafficType::ReplicaRatio => 100.0 * f64::from(pods) / f64::from(pods + replicas),
        };
        let min_soak_seconds = step.min_soak.seconds_rounded_up();
        let max_soak_seconds = step.max_soak.seconds_rounded_up();
        let next = Planned { weight: step.weight, share, pods, min_soak_seconds, max_soak_seconds };
        match planned.last_mut() {
            // With whole pods two steps can be the same: the later one, for as long as both.
            Some(last) if last.share >= share => {
                last.weight = step.weight;
                last.min_soak_seconds += min_soak_seconds;
                last.max_soak_seconds += max_soak_seconds;
            }
            _ => planned.push(next),
        }
    }
    planned
}

/// What cannot be done, in words that name the remedy.
pub(super) fn problem(rollout: &Rollout) -> Option<String> {
    let step = rollout.steps.iter().find(|step| step.max_soak.microseconds() < step.min_soak.microseconds())?;
    Some(format!(
        "the step of weight {} has maxSoak {} below minSoak {}: raise maxSoak or lower minSoak",
        step.weight, step.max_soak, step.min_soak
    ))
}

/// Pods that make a canary pod carry what a stable one does: `ceil(R w / (1 - w))` for `R` stable pods. Never more than stable has,
/// for as many will carry everything once the canary has taken over.
fn canary_pods(replicas: i32, weight: i32) -> i32 {
    let (replicas, weight) = (i64::from(replicas), i64::from(weight));
    let alike = (replicas * weight + (99 - weight)) / (100 - weight);
    i32::try_from(alike.clamp(1, replicas.max(1))).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    fn rollout(traffic: &str, steps: &str) -> Rollout {
        let gateway = if traffic == "GatewayAPI" { ", gatewayAPI: {parentRefs: [{name: agents}]}" } else { "" };
        let text = format!("{{traffic: {{type: {traffic}{gateway}}}, steps: {steps}}}");
        serde_norway::from_str(&text).expect("a valid rollout")
    }

    fn shares(traffic: &str, steps: &str, replicas: i32) -> Vec<(i32, i32, f64)> {
        let planned = schedule(&rollout(traffic, steps), replicas);
        planned.into_iter().map(|step| (step.weight, step.pods, step.share)).collect()
    }

    #[test]
    fn pods_of_both_revisions_carry_alike() {
        assert_eq!(shares("GatewayAPI", "[]", 8), [(5, 1, 5.0), (20, 2, 20.0), (50, 8, 50.0)]);
        assert_eq!(shares("GatewayAPI", "[{weight: 90}, {weight: 100}]", 3), [(90, 3, 90.0)]);
    }

    #[test]
    fn whole_pods_merge_steps_that_are_the_same() {
        assert_eq!(
            shares("ReplicaRatio", "[{weight: 5}, {weight: 20}, {weight: 50}]", 4),
            [(20, 1, 20.0), (50, 4, 50.0)]
        );
        let merged = schedule(&rollout("ReplicaRatio", "[{weight: 5, minSoak: 1m}, {weight: 50, minSoak: 2m}]"), 1);
        assert_eq!(merged.iter().map(|step| (step.share, step.min_soak_seconds)).collect::<Vec<_>>(), [(50.0, 180)]);
    }

    #[rstest]
    #[case(1, 1, 1)]
    #[case(10, 5, 1)]
    #[case(10, 20, 3)]
    #[case(3, 50, 3)]
    #[case(0, 50, 1)]
    fn pods_follow_the_share(#[case] replicas: i32, #[case] weight: i32, #[case] pods: i32) {
        assert_eq!(canary_pods(replicas, weight), pods);
    }

    #[test]
    fn a_longest_soak_below_the_shortest_is_named() {
        let problem = problem(&rollout("GatewayAPI", "[{weight: 5, minSoak: 1h, maxSoak: 1m}]"));
        assert_eq!(
            problem.as_deref(),
            Some("the step of weight 5 has maxSoak 1m below minSoak 1h: raise maxSoak or lower minSoak")
        );
    }
}
