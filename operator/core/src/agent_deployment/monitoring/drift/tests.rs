use pretty_assertions::assert_eq;
use proptest::prelude::*;
use slipway_analysis::drift::{
    baseline::Counts,
    live::{ATTRIBUTED_BLOCKS, BLOCK_SECONDS, Family, Part},
};
use slipway_vocabulary::evidence::{Evidence, Histogram, Metric, RING_WINDOWS, Window};

use super::{
    Advanced, LivePod, Look, MAX_BYTES, Memory, advance,
    simulated::{Dice, SLOWER, USUAL, Users},
};

const DAY: u64 = 86_400;
const BLOCKS_OF_A_DAY: u64 = DAY / BLOCK_SECONDS;

/// Two pods, each with the windows of its last hour.
#[derive(Clone)]
struct Pods {
    dice: Dice,
    windows: [Vec<Window>; 2],
    /// Starts of each pod's process.
    starts: [u32; 2],
    block: u64,
    sent: u64,
}

impl Pods {
    fn new(seed: u64) -> Self {
        Self { dice: Dice(seed), windows: [Vec::new(), Vec::new()], starts: [0; 2], block: 0, sent: 0 }
    }

    /// Both pods serve for another block.
    fn serve(&mut self, users: Users) {
        let per_block = BLOCK_SECONDS / 10;
        for windows in &mut self.windows {
            for place in [per_block / 4, per_block / 2] {
                let window = users.window(&mut self.dice, self.block * per_block + place);
                self.sent += window.metrics.first().map_or(0, |metric| metric.count);
                windows.push(window);
            }
            let oldest = ((self.block + 1) * per_block).saturating_sub(RING_WINDOWS as u64);
            windows.retain(|window| window.id >= oldest);
        }
        self.block += 1;
    }

    fn live(&self, pod: usize) -> LivePod {
        let evidence = Evidence {
            version: 1,
            revision: "a".to_owned(),
            pod: format!("pod-{pod}"),
            started_at: format!("start {}", self.starts[pod]),
            windows: self.windows[pod].clone(),
        };
        LivePod { evidence, images: [("triton".to_owned(), "sha256:1".to_owned())].into() }
    }

    fn look(&self, memory: Option<&Memory>, pods: &[LivePod]) -> Option<Advanced> {
        let end_seconds = self.block * BLOCK_SECONDS;
        advance(memory, &Look { revision: "a", engine: Some("sha256:c"), pods, from_seconds: 0, end_seconds })
    }
}

/// The memory after so many blocks, looked at after each.
fn watched(pods: &mut Pods, memory: Option<Memory>, (users, blocks): (Users, u64)) -> Option<Memory> {
    let mut memory = memory;
    for _ in 0..blocks {
        pods.serve(users);
        let advanced = pods.look(memory.as_ref(), &[pods.live(0), pods.live(1)]);
        memory = advanced.map(|advanced| advanced.memory).or(memory);
    }
    memory
}

fn ln_e(memory: &Memory, family: Family) -> f64 {
    memory.test().and_then(|test| test.ln_e(family)).expect("a block has been tested")
}

/// Whether the model and tools are shown to be slower.
fn slower_parts(memory: &Memory) -> [bool; 2] {
    let test = memory.test().expect("a block has been tested");
    [Part::Model, Part::Tools].map(|part| test.is_slower(part))
}

/// Of twenty plans that are watched for three days and change in nothing, none alarms at a level of 1 % for the
/// workload, for behaviour and for each part.
#[test]
fn what_stays_as_it_is_raises_no_alarm() {
    let limit = -super::ALPHA.ln();
    let alarms: Vec<(u64, f64, f64, [bool; 2])> = (0..20)
        .map(|seed| {
            let memory = watched(&mut Pods::new(seed), None, (USUAL, 4 * BLOCKS_OF_A_DAY)).expect("there was traffic");
            (seed, ln_e(&memory, Family::Workload), ln_e(&memory, Family::Behavior), slower_parts(&memory))
        })
        .filter(|(_, workload, behavior, parts)| *workload >= limit || *behavior >= limit || *parts != [false; 2])
        .collect();
    assert_eq!(alarms, vec![]);
}

#[test]
fn a_part_is_slower_where_its_own_signals_show_it_and_no_other_part_is() {
    let mut pods = Pods::new(1);
    let day = watched(&mut pods, None, (USUAL, BLOCKS_OF_A_DAY));
    let parts = |users| {
        let memory = watched(&mut pods.clone(), day.clone(), (users, 6 * 6)).expect("there was traffic");
        slower_parts(&memory)
    };
    let slow_tools = Users { slower_tools: 4.0, ..USUAL };
    let both = Users { slower_tools: 4.0, ..SLOWER };
    let failing = Users { failures: 100, ..USUAL };
    let found = [SLOWER, slow_tools, both, failing].map(parts);
    assert_eq!(found, [[true, false], [false, true], [true, true], [false, false]]);
}

#[test]
fn tools_that_become_slow_in_the_middle_of_a_day_a_week_later_show_it_within_a_day_of_blocks() {
    let mut pods = Pods::new(3);
    let week = watched(&mut pods, None, (USUAL, 8 * BLOCKS_OF_A_DAY + BLOCKS_OF_A_DAY / 2));
    let slow_tools = Users { slower_tools: 1.5, ..USUAL };
    let parts = |blocks| {
        let memory = watched(&mut pods.clone(), week.clone(), (slow_tools, blocks)).expect("there was traffic");
        slower_parts(&memory)
    };
    assert_eq!([6, ATTRIBUTED_BLOCKS.into()].map(parts), [[false, false], [false, true]]);
}

#[test]
fn what_is_slower_by_a_third_or_longer_by_half_is_found_within_hours() {
    let mut pods = Pods::new(1);
    let day = watched(&mut pods, None, (USUAL, BLOCKS_OF_A_DAY));
    let found = |users, family| {
        let memory = watched(&mut pods.clone(), day.clone(), (users, 6 * 6)).expect("there was traffic");
        ln_e(&memory, family) >= -super::ALPHA.ln()
    };
    let longer = Users { longer: 1.5, ..USUAL };
    let all = [
        (SLOWER, Family::Behavior),
        (SLOWER, Family::Workload),
        (longer, Family::Workload),
        (longer, Family::Behavior),
    ];
    assert_eq!(all.map(|(users, family)| found(users, family)), [true, false, true, false]);
}

#[test]
fn a_baseline_is_frozen_after_a_day_and_only_with_enough_in_it() {
    let mut pods = Pods::new(2);
    let day = watched(&mut pods, None, (USUAL, BLOCKS_OF_A_DAY + 1)).expect("there was traffic");
    assert_eq!((day.frozen_seconds, day.baseline.promoted_seconds), (Some(DAY), 0));
    let mut few = Pods::new(2);
    let rare = Users { runs: 2, ..USUAL };
    let memory = watched(&mut few, None, (rare, BLOCKS_OF_A_DAY)).expect("there was traffic");
    assert_eq!((memory.frozen_seconds, memory.units() < super::MIN_UNITS), (None, true));
    let memory = watched(&mut few, Some(memory), (rare, BLOCKS_OF_A_DAY)).expect("there was traffic");
    let frozen = memory.frozen_seconds.expect("it has enough by now");
    assert!(frozen > DAY && memory.baseline.promoted_seconds == frozen - DAY, "{frozen}");
}

#[test]
fn nothing_is_remembered_of_a_block_without_traffic() {
    let mut pods = Pods::new(3);
    let memory = watched(&mut pods, None, (USUAL, 1));
    pods.serve(Users { runs: 0, ..USUAL });
    assert!(pods.look(memory.as_ref(), &[pods.live(0), pods.live(1)]).is_none());
    assert!(pods.look(None, &[]).is_none());
}

#[test]
fn a_block_is_counted_once_however_often_it_is_looked_at() {
    let mut pods = Pods::new(4);
    let memory = watched(&mut pods, None, (USUAL, 1));
    assert!(pods.look(memory.as_ref(), &[pods.live(0), pods.live(1)]).is_none());
}

#[test]
fn the_windows_of_a_pod_that_was_silent_are_counted_when_it_answers() {
    let mut pods = Pods::new(5);
    pods.serve(USUAL);
    let first = pods.look(None, &[pods.live(0)]).expect("there was traffic").memory;
    pods.serve(USUAL);
    let both = pods.look(Some(&first), &[pods.live(0), pods.live(1)]).expect("there was traffic").memory;
    assert_eq!(both.units(), pods.sent);
}

#[test]
fn a_pod_with_another_image_is_left_out_and_a_baseline_that_fits_no_pod_begins_again() {
    let mut pods = Pods::new(6);
    let memory = watched(&mut pods, None, (USUAL, 2)).expect("there was traffic");
    pods.serve(USUAL);
    let mut other = pods.live(1);
    other.images.insert("triton".to_owned(), "sha256:2".to_owned());
    let mixed = pods.look(Some(&memory), &[pods.live(0), other.clone()]).expect("there was traffic");
    let difference = mixed.left_out.map(|difference| difference.to_string());
    assert_eq!(difference.as_deref(), Some("image.triton was sha256:1 and is sha256:2"));
    assert!(mixed.begun_again.is_none() && mixed.memory.begun_seconds == memory.begun_seconds);
    let mut idle = pods.live(0);
    idle.evidence.windows.clear();
    let in_turn = pods.look(Some(&memory), &[idle, other.clone()]).expect("there was traffic");
    assert!(in_turn.begun_again.is_none(), "who is idle in this block is compared in the next");
    let all = pods.look(Some(&memory), &[other]).expect("there was traffic");
    let difference = all.begun_again.map(|difference| difference.to_string());
    assert_eq!(difference.as_deref(), Some("image.triton was sha256:1 and is sha256:2"));
    assert_eq!((all.memory.baseline.identity["image.triton"].as_str(), all.left_out), ("sha256:2", None));
    assert!(all.memory.begun_seconds > memory.begun_seconds);
}

#[test]
fn what_a_pod_does_not_report_is_no_difference() {
    let mut pods = Pods::new(7);
    let memory = watched(&mut pods, None, (USUAL, 1)).expect("there was traffic");
    pods.serve(USUAL);
    let silent = LivePod { images: [].into(), ..pods.live(0) };
    let advanced = pods.look(Some(&memory), &[silent]).expect("there was traffic");
    assert_eq!((advanced.begun_again, advanced.left_out), (None, None));
}

#[test]
fn a_test_of_another_version_begins_anew_on_the_same_baseline() {
    let mut pods = Pods::new(8);
    let memory = watched(&mut pods, None, (USUAL, BLOCKS_OF_A_DAY + 6)).expect("there was traffic");
    let mut foreign = memory.clone();
    foreign.test = Some("9:00000".to_owned());
    let after = watched(&mut pods, Some(foreign), (USUAL, 1)).expect("there was traffic");
    assert_eq!((&after.baseline, after.frozen_seconds), (&memory.baseline, memory.frozen_seconds));
    assert!(after.test().is_some_and(|test| test.ln_e(Family::Behavior).is_some()));
}

#[test]
fn a_memory_is_never_longer_than_it_may_be() {
    let mut memory = Memory::begin("a", [].into(), 0);
    let counts = |dice: &mut Dice| {
        let window = Users { runs: 2_000, ..USUAL }.window(dice, 4_000);
        let metric = window.metrics.into_iter().next().expect("it has traffic");
        slipway_analysis::drift::baseline::Counts {
            count: metric.count,
            errors: metric.errors,
            buckets: metric.buckets,
        }
    };
    let counted = counts(&mut Dice(9));
    for metric in Metric::ALL {
        for stratum in 0..300 {
            memory.baseline.counted.set(metric, format!("miss/p{}/f{}", stratum / 20, stratum % 20), counted.clone());
        }
    }
    let pod = |number: u64| (format!("{}-{number}@2026-01-01T00:00:00.000000000Z", "p".repeat(64)), 100 + number);
    memory.mark((0..300).map(pod), 200);
    memory.freeze(2 * DAY);
    memory.test = memory.test().map(|test| test.encode());
    assert!(memory.write().len() <= MAX_BYTES, "{}", memory.write().len());
    assert_eq!(memory.units(), 300 * counted.count, "what finished is still known");
    assert!(memory.read.values().all(|window| *window >= 240), "the longest silent are forgotten");
}

/// ConfigMaps in users' clusters hold it.
#[test]
fn the_text_of_a_memory_stays() {
    let identity = [("engine".to_owned(), "sha256:c".to_owned())].into();
    let mut memory = Memory::begin("7c1f9a2b3d", identity, 600);
    let buckets = Histogram::from_pairs([(16, 900), (17, 255)]).expect("buckets of the table");
    let counts = Counts { count: 1_200, errors: 45, buckets };
    memory.baseline.counted.set(Metric::ModelTime, "miss/p9/f0".to_owned(), counts);
    memory.mark([("pod-0@start 0".to_owned(), 70)], 70);
    memory.counted_to = DAY;
    memory.freeze(DAY + 600);
    memory.test = Some("2:00000".to_owned());
    let text = r#"{"version":1,"revision":"7c1f9a2b3d","identity":{"engine":"sha256:c"},"begunSeconds":600,"#
        .to_owned()
        + r#""frozenSeconds":87000,"countedTo":86400,"read":{"pod-0@start 0":70},"test":"2:00000","#
        + r#""counts":{"ModelTime":{"miss/p9/f0":"4b0 2d 10:384,ff"}}}"#;
    assert_eq!(memory.write(), text);
    assert_eq!(Memory::read(&text).expect("it is read"), memory);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Each run is counted once, and the result is the same to the bit: however rarely pods are read within the hour
    /// that they remember, and whatever restarts.
    #[test]
    fn whoever_goes_on_knows_the_same(
        seed in any::<u64>(),
        looks in prop::collection::vec((1..5u64, any::<bool>()), 60..90),
    ) {
        let mut pods = Pods::new(seed);
        let (mut each, mut seldom): (Option<Memory>, Option<Memory>) = (None, None);
        for (blocks, starts_anew) in looks {
            each = watched(&mut pods, each, (USUAL, blocks));
            let advanced = pods.look(seldom.as_ref(), &[pods.live(1), pods.live(0)]);
            let text = advanced.map(|advanced| advanced.memory.write());
            seldom = text.map(|text| Memory::read(&text).expect("it reads what it wrote")).or(seldom);
            prop_assert_eq!(&seldom, &each);
            if starts_anew {
                pods.starts[0] += 1;
                pods.windows[0].clear();
            }
            let memory = each.as_ref().expect("there was traffic");
            if memory.frozen_seconds.is_none() {
                prop_assert_eq!(memory.units(), pods.sent);
            }
        }
    }
}
