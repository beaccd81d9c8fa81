//! Operators that die at any time: another one comes to the same evidence and to the same verdict, in the same words.

use proptest::{prelude::*, sample::subsequence};

use super::{EQUAL, Trial, Users, trial};

/// Windows of a trial.
const WINDOWS: usize = 60;
/// Operators that die in it.
const DEATHS: usize = 20;

/// The fate of the operator that is to look at a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lives,
    /// Another one takes its place after the window.
    DiesBeforeItLooks,
    /// What it decided is not written down.
    DiesBeforeItRecords,
}

/// Twenty deaths at any windows.
fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let death = prop_oneof![Just(Fate::DiesBeforeItLooks), Just(Fate::DiesBeforeItRecords)];
    let deaths = prop::collection::vec(death, DEATHS);
    (subsequence((0..WINDOWS).collect::<Vec<_>>(), DEATHS), deaths).prop_map(|(windows, deaths)| {
        let mut fates = vec![Fate::Lives; WINDOWS];
        windows.into_iter().zip(deaths).for_each(|(window, death)| fates[window] = death);
        fates
    })
}

fn serve(trial: &mut Trial, users: Users, fates: &[Fate]) {
    for fate in fates {
        trial.serve_unseen(10, users, *fate == Fate::Lives);
        if *fate == Fate::DiesBeforeItRecords {
            trial.look();
            let _lost = trial.cluster.plan();
        }
    }
    // By then the figures are written again.
    trial.cluster.pass(60);
    trial.settle();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn twenty_operators_that_die_leave_the_same_evidence_as_one_that_lives(fates in fates()) {
        let held = || {
            let mut trial = trial();
            trial.cluster = trial.cluster.clone().edited(|spec| spec.rollout.paused = true);
            trial.settle();
            trial
        };
        let (mut one, mut many) = (held(), held());
        serve(&mut one, EQUAL, &[Fate::Lives; WINDOWS]);
        serve(&mut many, EQUAL, &fates);
        prop_assert!(!one.rollout().evidence.is_empty());
        prop_assert_eq!(one.rollout().evidence, many.rollout().evidence);
        prop_assert_eq!(one.rollout().judge_state, many.rollout().judge_state);
    }

    #[test]
    fn harm_is_found_in_the_same_words_however_often_operators_die(fates in fates()) {
        let slower = Users { slowdown: 1.5, ..EQUAL };
        let (mut one, mut many) = (trial(), trial());
        serve(&mut one, slower, &[Fate::Lives; WINDOWS]);
        serve(&mut many, slower, &fates);
        let reasons = |trial: &Trial| trial.rollout().rejected.into_iter().map(|plan| plan.reason).collect::<Vec<_>>();
        prop_assert_eq!(reasons(&one).len(), 1);
        prop_assert_eq!(reasons(&one), reasons(&many));
    }
}
