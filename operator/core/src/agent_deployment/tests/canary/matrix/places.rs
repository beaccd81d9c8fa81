//! Places of a rollout: each just before a look of the operator's.

use super::super::{EQUAL, ROLLOUT, Trial, Users, trial, world};

/// A place, and who is there.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) trial: Trial,
    pub(super) users: Users,
    pub(super) stable: String,
    pub(super) canary: String,
}

const SLOW: Users = Users { slowdown: 2.0, ..EQUAL };

fn place(trial: Trial, users: Users, (stable, canary): (String, String)) -> Place {
    Place { trial, users, stable, canary }
}

/// Serves until a look brings about what is asked for, and goes back to before that look.
fn before(mut trial: Trial, users: Users, is_reached: impl Fn(&Trial) -> bool) -> Place {
    let names = (trial.stable(), trial.cluster.canary());
    for _ in 0..400 {
        trial.serve_unseen(10, users, false);
        for _ in 0..2 {
            let kept = trial.clone();
            trial.settle();
            if is_reached(&trial) {
                return place(kept, users, names);
            }
            trial.cluster.ready_pods();
        }
    }
    panic!("the place is never reached: {:?}", trial.rollout());
}

/// Serves until something holds.
fn at(mut trial: Trial, users: Users, is_reached: impl Fn(&Trial) -> bool) -> Trial {
    for _ in 0..400 {
        if is_reached(&trial) {
            return trial;
        }
        trial.serve(10, users);
    }
    panic!("the place is never reached: {:?}", trial.rollout());
}

/// The canary's pods are on their way.
pub(super) fn starting() -> Place {
    let cluster = world().edited(|spec| {
        spec.serving.replicas = 4;
        spec.rollout = serde_norway::from_str(ROLLOUT).expect("a valid rollout");
    });
    let cluster = cluster.serving().edited(|spec| spec.agent.system_prompt = "Think, then answer.".to_owned());
    let mut trial = Trial::on(cluster);
    trial.settle();
    let names = (trial.stable(), trial.cluster.canary());
    place(trial, EQUAL, names)
}

/// They are ready, and nobody has looked.
pub(super) fn about_to_be_given_a_share() -> Place {
    let mut starting = starting();
    starting.trial.cluster.ready_pods();
    starting
}

/// Three windows into the first step.
pub(super) fn at_20_percent() -> Place {
    let mut trial = trial();
    trial.serve(30, EQUAL);
    let names = (trial.stable(), trial.cluster.canary());
    assert_eq!(trial.share(), 20);
    place(trial, EQUAL, names)
}

pub(super) fn about_to_pass_20_percent() -> Place {
    before(trial(), EQUAL, |trial| trial.rollout().step == Some(2))
}

/// Two windows into the second step.
pub(super) fn at_50_percent() -> Place {
    let mut trial = at(trial(), EQUAL, |trial| trial.share() == 50);
    let names = (trial.stable(), trial.cluster.canary());
    trial.serve(20, EQUAL);
    assert_eq!(trial.share(), 50);
    place(trial, EQUAL, names)
}

/// It has passed, by the word of a person, and lacks three of its four pods.
pub(super) fn taking_over() -> Place {
    let Place { mut trial, users, stable, canary } = at_20_percent();
    trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.promote = Some(canary.clone()));
    trial.settle();
    assert_eq!((trial.rollout().step, trial.cluster.world.serving[&canary].ready), (Some(3), 1));
    place(trial, users, (stable, canary))
}

pub(super) fn about_to_take_over() -> Place {
    before(trial(), EQUAL, |trial| trial.canary().is_none())
}

pub(super) fn about_to_be_rolled_back() -> Place {
    before(trial(), SLOW, |trial| trial.canary().is_none())
}

/// Its pods have lost their traffic and are still there.
pub(super) fn rolled_back() -> Place {
    let trial = trial();
    let names = (trial.stable(), trial.cluster.canary());
    let trial = at(trial, SLOW, |trial| trial.canary().is_none());
    place(trial, SLOW, names)
}
