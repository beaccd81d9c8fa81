//! Whatever befalls an agent with users, watching it disturbs nobody.

use std::sync::OnceLock;

use proptest::prelude::*;
use slipway_crds::v1alpha1::agent_deployment::OnDrift;

use super::{BLOCK, DAY, LONGER, Life, MEMORY, NO_USERS, name_of, profiling, reprofiling};
use crate::agent_deployment::monitoring::drift::{
    MemoryView,
    simulated::{SLOWER, USUAL},
};

/// What befalls an agent with users.
#[derive(Debug, Clone)]
enum Event {
    Serve(u8, u8),
    Away(i64),
    LoseMemory,
    SpoilMemory,
    Image(bool),
    Approve,
    OnDrift(bool),
    EndRun,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..4u8, 1..8u8).prop_map(|(users, hours)| Event::Serve(users, hours)),
        2 => (1..5 * DAY).prop_map(Event::Away),
        1 => Just(Event::LoseMemory),
        1 => Just(Event::SpoilMemory),
        1 => any::<bool>().prop_map(Event::Image),
        2 => Just(Event::Approve),
        1 => any::<bool>().prop_map(Event::OnDrift),
        2 => Just(Event::EndRun),
    ]
}

fn befall(mut life: Life, event: Event) -> Life {
    match event {
        Event::Serve(users, hours) => {
            let users = [USUAL, SLOWER, LONGER, NO_USERS][usize::from(users)];
            return life.hours(i64::from(hours), users);
        }
        Event::Away(seconds) => life.cluster.pass(seconds),
        Event::LoseMemory => life.cluster.world.memory = MemoryView::Absent,
        Event::SpoilMemory => {
            life.cluster.world.memory = MemoryView::Unreadable { problem: "it is spoiled".to_owned() }
        }
        Event::Image(is_new) => life.images = [if is_new { "sha256:2" } else { "sha256:1" }; 2],
        Event::Approve => {
            let word = life.cluster.world.status.drift.clone().and_then(|drift| drift.proposal);
            life.cluster = profiling(life.cluster, |profiling| profiling.approve_reprofiling = word);
        }
        Event::OnDrift(is_acted_on) => {
            let on_drift = if is_acted_on { OnDrift::Reprofile } else { OnDrift::Report };
            life.cluster = profiling(life.cluster, |profiling| profiling.on_drift = on_drift);
        }
        Event::EndRun => {
            let run = life.cluster.world.status.reprofiling.clone().and_then(|state| state.run);
            if run.is_some_and(|run| run.ended_at.is_none() && run.profile.is_some()) {
                return life.measured_anew();
            }
        }
    }
    life.settle();
    life
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Whatever happens, serving continues, the memory is written at most once a block, and facts are announced once.
    /// Campaigns that nobody asked for are seven days apart.
    #[test]
    fn watching_disturbs_nobody(events in prop::collection::vec(event(), 1..12)) {
        static WATCHED: OnceLock<Life> = OnceLock::new();
        let mut life = WATCHED.get_or_init(|| Life::of(reprofiling()).hours(25, USUAL)).clone();
        let stable = life.cluster.stable();
        for event in events {
            let begun = life.cluster.world.now;
            let (writes, campaigns) = (life.writes, life.cluster.world.latest_campaign);
            life = befall(life, event);
            let profiling = life.cluster.world.spec.profiling.as_ref().expect("it is profiled");
            let is_approved = profiling.approve_reprofiling.is_some();
            let blocks = life.cluster.world.now.duration_since(begun).as_secs() / BLOCK + 1;
            prop_assert!(i64::try_from(life.writes - writes).expect("few") <= blocks);
            let plan = life.cluster.plan();
            prop_assert_eq!(&plan, &life.cluster.plan());
            prop_assert_eq!(&plan.notes, &vec![], "told before");
            prop_assert!(!plan.children.iter().any(|child| name_of(child) == MEMORY));
            prop_assert_eq!(life.cluster.stable(), stable.clone());
            let [last, next] = [campaigns, life.cluster.world.latest_campaign].map(|at| at.expect("there was one"));
            let apart = next.duration_since(last).as_secs();
            prop_assert!(apart == 0 || apart >= 7 * DAY || is_approved, "{apart}");
        }
    }
}
