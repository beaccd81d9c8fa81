//! The steps of a rollout: which share of traffic the canary is given, and how many pods it needs for that. Pure.

use slipway_crds::v1alpha1::agent_deployment::{Rollout, RolloutStep, TrafficType};

/// Shares of the default schedule, in percent.
const DEFAULT_WEIGHTS: [i32; 3] = [5, 20, 50];

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlannedStep {
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

/// Pods between which the traffic is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arms {
    /// Pods of stable.
    pub(super) stable: i32,
    /// Pods that the canary has room for.
    pub(super) canary_at_most: i32,
    /// Largest share that the canary may have, in percent.
    pub(super) share_at_most: i32,
}

impl Arms {
    /// As many as are wanted.
    pub(super) fn unlimited(replicas: i32) -> Self {
        Self { stable: replicas, canary_at_most: i32::MAX, share_at_most: 100 }
    }

    /// Pods for a share, and the share that these can carry: a pod of the canary never carries more than one of stable
    /// for want of room.
    fn carrying(self, weight: i32) -> (i32, i32) {
        let weight = weight.min(self.share_at_most);
        let pods = canary_pods(self.stable, weight);
        if pods <= self.canary_at_most {
            return (pods, weight);
        }
        let (pods, stable) = (i64::from(self.canary_at_most.max(1)), i64::from(self.stable));
        let parity = (100 * pods / (stable + pods)).clamp(1, i64::from(weight));
        (self.canary_at_most.max(1), i32::try_from(parity).unwrap_or(weight))
    }
}

/// The one step of a canary that no stable pod is left beside: it has all the traffic, for the longest soak that was
/// asked for.
pub(super) fn alone(rollout: &Rollout) -> Vec<PlannedStep> {
    let steps = schedule(rollout, Arms::unlimited(1));
    let longest = |soak: fn(&PlannedStep) -> u64| steps.iter().map(soak).max();
    let soaks = longest(|step| step.min_soak_seconds).zip(longest(|step| step.max_soak_seconds));
    let only = soaks.map(|(min_soak_seconds, max_soak_seconds)| PlannedStep {
        weight: 100,
        share: 100.0,
        pods: 1,
        min_soak_seconds,
        max_soak_seconds,
    });
    only.into_iter().collect()
}

/// The steps before the canary takes over. A share of 100 percent is the taking over itself.
pub(super) fn schedule(rollout: &Rollout, arms: Arms) -> Vec<PlannedStep> {
    let defaults: Vec<RolloutStep> = DEFAULT_WEIGHTS.map(RolloutStep::with_weight).to_vec();
    let steps = if rollout.steps.is_empty() { &defaults } else { &rollout.steps };
    let mut planned: Vec<PlannedStep> = Vec::new();
    for step in steps.iter().filter(|step| step.weight < 100) {
        let (pods, weight) = arms.carrying(step.weight);
        let share = match rollout.traffic.r#type {
            TrafficType::GatewayAPI | TrafficType::BlueGreen => f64::from(weight),
            TrafficType::ReplicaRatio => 100.0 * f64::from(pods) / f64::from(pods + arms.stable),
        };
        let min_soak_seconds = step.min_soak.seconds_rounded_up();
        let max_soak_seconds = step.max_soak.seconds_rounded_up();
        let next = PlannedStep { weight, share, pods, min_soak_seconds, max_soak_seconds };
        match planned.last_mut() {
            // With whole pods, too few of them, or a largest share, two steps can be the same: the later one, for as
            // long as both.
            Some(last) if last.share >= share => {
                last.weight = weight;
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

/// Pods that make a canary pod carry what a stable one does: `ceil(R w / (1 - w))` for `R` stable pods. Never more than
/// stable has, for as many will carry everything once the canary has taken over.
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
        let planned = schedule(&rollout(traffic, steps), Arms::unlimited(replicas));
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
        let steps = rollout("ReplicaRatio", "[{weight: 5, minSoak: 1m}, {weight: 50, minSoak: 2m}]");
        let merged = schedule(&steps, Arms::unlimited(1));
        assert_eq!(merged.iter().map(|step| (step.share, step.min_soak_seconds)).collect::<Vec<_>>(), [(50.0, 180)]);
    }

    #[rstest]
    #[case("GatewayAPI", 1, &[(5, 1, 5.0), (20, 1, 20.0)])]
    #[case("GatewayAPI", 2, &[(5, 1, 5.0), (20, 1, 20.0), (33, 2, 33.0)])]
    #[case("GatewayAPI", 4, &[(5, 1, 5.0), (20, 1, 20.0), (50, 4, 50.0)])]
    #[case("ReplicaRatio", 1, &[(20, 1, 20.0)])]
    fn too_few_pods_carry_no_more_than_as_many_of_stable(
        #[case] traffic: &str,
        #[case] room: i32,
        #[case] expected: &[(i32, i32, f64)],
    ) {
        let arms = Arms { canary_at_most: room, ..Arms::unlimited(4) };
        let planned = schedule(&rollout(traffic, "[]"), arms);
        let shares: Vec<_> = planned.into_iter().map(|step| (step.weight, step.pods, step.share)).collect();
        assert_eq!(shares, expected);
    }

    #[rstest]
    #[case("[]", &[(5, 1, 600), (20, 1, 600), (33, 2, 600)])]
    #[case::never_reached("[{weight: 10}, {weight: 33}]", &[(10, 1, 600), (33, 2, 600)])]
    #[case::several_beyond("[{weight: 30}, {weight: 40, minSoak: 1m}, {weight: 80, minSoak: 2m}]", &[(30, 2, 600), (33, 2, 180)])]
    fn beyond_the_largest_share_there_is_one_step_for_as_long_as_all_of_them(
        #[case] steps: &str,
        #[case] expected: &[(i32, i32, u64)],
    ) {
        let arms = Arms { share_at_most: 33, ..Arms::unlimited(4) };
        let planned = schedule(&rollout("GatewayAPI", steps), arms);
        assert!(planned.iter().all(|step| (step.share - f64::from(step.weight)).abs() < 1e-9), "{planned:?}");
        let steps: Vec<_> = planned.iter().map(|step| (step.weight, step.pods, step.min_soak_seconds)).collect();
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_canary_alone_has_all_traffic_for_the_longest_soak() {
        let steps = rollout("GatewayAPI", "[{weight: 5, minSoak: 1m, maxSoak: 3h}, {weight: 50, minSoak: 2m}]");
        let step = PlannedStep { weight: 100, share: 100.0, pods: 1, min_soak_seconds: 120, max_soak_seconds: 10_800 };
        assert_eq!(alone(&steps), [step]);
        assert_eq!(alone(&rollout("GatewayAPI", "[{weight: 100}]")), []);
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
