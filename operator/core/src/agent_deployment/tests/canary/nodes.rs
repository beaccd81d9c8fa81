//! Canaries whose nodes slow their GPUs down or break them: the judge blames the node, and decides nothing.

use pretty_assertions::assert_eq;
use rstest::rstest;
use slipway_vocabulary::{preflight::Slowdown, telemetry::GpuWindow};

use super::{EQUAL, Trial, Users, trial};

const SLOW: Users = Users { slowdown: 1.6, ..EQUAL };

fn hot() -> GpuWindow {
    GpuWindow {
        samples: 50,
        slowed: vec![(Slowdown::Heat, 45)],
        clock_mhz: Some(1_200),
        max_clock_mhz: Some(1_980),
        ..GpuWindow::default()
    }
}

fn off_its_bus() -> GpuWindow {
    GpuWindow { samples: 50, xids: vec![79], ..GpuWindow::default() }
}

/// Busy at its power limit, as large GPUs are.
fn well() -> GpuWindow {
    GpuWindow { samples: 50, slowed: vec![(Slowdown::PowerCap, 50)], ..GpuWindow::default() }
}

/// The first pods of a revision have such a GPU.
fn give(trial: &mut Trial, revision: &str, pods: usize, gpu: &GpuWindow) {
    (0..pods).for_each(|pod| drop(trial.gpus.insert(format!("{revision}-{pod}"), gpu.clone())));
}

fn condition(trial: &Trial, type_: &str) -> (String, String) {
    let conditions = &trial.cluster.world.status.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == type_).expect("a rollout");
    (found.reason.clone(), found.message.clone())
}

fn reconciling(trial: &Trial) -> (String, String) {
    condition(trial, "Reconciling")
}

#[test]
fn a_canary_that_is_slow_on_hot_nodes_is_held_and_its_node_is_named() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    give(&mut trial, &canary, 2, &hot());
    trial.serve(20 * 60, SLOW);
    assert_eq!((trial.share(), trial.rollout().rejected), (20, Vec::new()));
    assert_eq!(trial.rollout().reason.as_deref(), Some("NodeAtFault"));
    let (reason, message) = reconciling(&trial);
    assert_eq!(reason, "NodeAtFault");
    let words = format!(
        "NodeAtFault: on node gpu-7 of pod {canary}-0 GPU 0 is slowed down by heat to 1200 of 1980 MHz in 45 of 50 samples; on \
         node gpu-7 of pod {canary}-1 GPU 0"
    );
    assert!(message.contains(&words), "{message}");
}

#[rstest]
#[case::equal(EQUAL)]
#[case::slow(SLOW)]
fn nothing_is_decided_by_pods_of_such_nodes_however_long_it_takes(#[case] users: Users) {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    give(&mut trial, &canary, 2, &hot());
    trial.serve(50 * 60, users);
    assert_eq!((trial.stable(), trial.canary(), trial.share()), (stable, Some(canary), 20));
    let (reason, message) = condition(&trial, "Suspended");
    let told =
        reason == "VerdictUnreachable" && message.contains("no verdict is possible: NodeAtFault: on node gpu-7 of ");
    assert!(told, "{reason}: {message}");
}

#[test]
fn a_canary_is_judged_once_its_nodes_have_cooled_down() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    give(&mut trial, &canary, 2, &hot());
    trial.serve(10 * 60, EQUAL);
    let mut slow = trial.clone();
    give(&mut trial, &canary, 2, &well());
    trial.serve(90 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
    give(&mut slow, &canary, 2, &well());
    slow.serve(30 * 60, Users { slowdown: 2.0, ..EQUAL });
    assert_eq!((slow.stable(), slow.rollout().rejected.len()), (stable, 1), "{:?}", slow.rollout());
}

#[test]
fn a_broken_gpu_stays_broken() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    give(&mut trial, &canary, 2, &off_its_bus());
    trial.serve(20, EQUAL);
    give(&mut trial, &canary, 2, &well());
    trial.serve(20 * 60, SLOW);
    let (reason, message) = reconciling(&trial);
    assert_eq!(reason, "NodeAtFault");
    assert!(message.contains("GPU 0 raised XID 79"), "{message}");
    assert_eq!(trial.rollout().rejected, Vec::new());
}

/// Where it broke is no longer asked for by then, and belongs to another share.
#[test]
fn a_gpu_that_broke_at_an_earlier_share_explains_why_its_pod_ends() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    give(&mut trial, &canary, 1, &off_its_bus());
    trial.serve(20, EQUAL);
    give(&mut trial, &canary, 1, &well());
    let first = trial.share();
    for _ in 0..90 {
        if trial.share() != first {
            break;
        }
        trial.serve(60, EQUAL);
    }
    assert!(trial.share() > first && trial.stable() != canary, "{:?}", trial.shares);
    trial.lose_pods(&canary, Some("triton: exited with code 1"));
    trial.settle();
    assert_eq!(trial.rollout().rejected, Vec::new());
}

#[test]
fn the_others_are_judged_where_one_pod_has_such_a_node() {
    let mut trial = trial();
    let canary = trial.cluster.canary();
    give(&mut trial, &canary, 1, &hot());
    trial.serve(2 * 60, EQUAL);
    let message = trial.rollout().message.expect("a verdict");
    assert!(message.contains(&format!("left out: on node gpu-7 of pod {canary}-0 GPU 0")), "{message}");
    trial.serve(90 * 60, EQUAL);
    assert_eq!(trial.stable(), canary, "{:?}", trial.rollout());
}

/// The null case: what hits both sides alike, or is normal, changes nothing at all.
#[rstest]
#[case::one_pod_of_each(1, 1, hot())]
#[case::all_pods(2, 2, hot())]
#[case::at_the_power_limit(2, 0, well())]
#[case::a_programs_own_error(2, 0, GpuWindow { samples: 50, xids: vec![31, 13], ..GpuWindow::default() })]
fn what_both_sides_have_alike_changes_nothing(
    #[case] of_canary: usize,
    #[case] of_stable: usize,
    #[case] gpu: GpuWindow,
    #[values(EQUAL, SLOW)] users: Users,
) {
    let mut trial = trial();
    let mut unseen = trial.clone();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    give(&mut trial, &canary, of_canary, &gpu);
    give(&mut trial, &stable, of_stable, &gpu);
    trial.serve(40 * 60, users);
    unseen.serve(40 * 60, users);
    assert_eq!(trial.cluster.world.status, unseen.cluster.world.status);
    assert_eq!((trial.shares, trial.events), (unseen.shares, unseen.events));
}

#[test]
fn a_server_that_a_broken_gpu_ends_is_no_fault_of_the_plan() {
    let mut trial = trial();
    let (stable, canary) = (trial.stable(), trial.cluster.canary());
    give(&mut trial, &canary, 2, &off_its_bus());
    trial.serve(60, EQUAL);
    let error = "triton: exited with code 1";
    trial.lose_pods(&canary, Some(error));
    trial.settle();
    assert_eq!((trial.share(), trial.rollout().rejected), (0, Vec::new()), "its users are with stable");
    // It is restarted on its node, and ends again.
    for _ in 0..20 {
        trial.cluster.pass(60);
        trial.lose_pods(&canary, Some(error));
        trial.settle();
    }
    assert_eq!((trial.stable(), trial.rollout().rejected), (stable, Vec::new()));
    let (reason, message) = reconciling(&trial);
    assert_eq!(reason, "NodeAtFault");
    let words = format!("on node gpu-7 of pod {canary}-0 GPU 0 raised XID 79");
    assert!(message.contains(&words) && message.contains("cordon the node"), "{message}");
}
