use proptest::prelude::*;

use super::{
    Direction, MAX_ACTIVE, Mixture, RESTART_SECONDS, RestartProduct, SequentialT, ln_add, ln_sequential_t, restarts_due,
};

const ONE: Mixture = Mixture { weights: &[1.0], unrestarted: 0.0 };
const THREE: Mixture = Mixture { weights: &[0.5, 0.3, 0.2], unrestarted: 0.5 };

#[test]
fn the_weights_of_all_restarts_sum_to_one() {
    let mut product = RestartProduct::new(&THREE);
    for due in 1..200 {
        product.restart(due);
        assert!(product.ln_e().abs() < 1e-5, "after {due} restarts: {}", product.ln_e());
    }
}

#[test]
fn a_restart_is_due_at_once_and_then_every_five_minutes() {
    assert_eq!([0, 299, 300, 600].map(restarts_due), [1, 1, 2, 3]);
    assert_eq!(RESTART_SECONDS, 300);
}

#[test]
fn a_late_restart_forgets_the_evidence_against_harm() {
    let mut product = RestartProduct::new(&ONE);
    product.restart(1);
    product.update([-50.0]);
    product.restart(2);
    product.update([20.0]);
    // The first restart is lost; the second has weight 1/6.
    assert!((product.ln_e() - (20.0 - 6.0_f64.ln())).abs() < 1e-4, "{}", product.ln_e());
}

/// A three-point block difference with mean zero, enumerated over all paths: the product is exact, and every restart
/// keeps the mean at one.
#[test]
fn a_restarted_product_has_mean_one_over_all_paths() {
    let outcomes = [(0.25, 1.6_f64), (0.5, 1.0), (0.25, 0.4)];
    let mut mean = 0.0;
    for path in 0..3_usize.pow(6) {
        let (mut rest, mut probability) = (path, 1.0);
        let mut product = RestartProduct::new(&ONE);
        for block in 0..6 {
            let (p, e) = outcomes[rest % 3];
            rest /= 3;
            probability *= p;
            product.restart(1 + block / 2);
            product.update([e.ln()]);
        }
        mean += probability * product.ln_e().exp();
    }
    assert!((mean - 1.0).abs() < 1e-5, "{mean}");
}

#[test]
fn frozen_restarts_keep_their_value() {
    let mut process = SequentialT::new();
    for block in 0..200 {
        process.restart(1 + block / 5);
        process.update(if block % 2 == 0 { 0.3 } else { -0.1 });
    }
    assert_eq!(process.starts.len(), MAX_ACTIVE);
    assert_eq!(process.starts[0].ordinal, 0, "the first restart is never frozen");
    assert!(process.ln_e(Direction::Above).is_finite());
    assert!(process.frozen[0].is_finite());
}

#[test]
fn one_block_says_nothing() {
    assert_eq!(ln_sequential_t(1, 100.0, 10_000.0, Direction::Above), 0.0);
}

proptest! {
    #[test]
    fn a_shift_upwards_is_more_evidence_above_and_less_below(
        z in prop::collection::vec(-3.0..3.0_f64, 2..40), shift in 0.01..2.0_f64,
    ) {
        let ln_e = |shift: f64, direction| {
            let sum = z.iter().map(|z| z + shift).sum();
            let squares = z.iter().map(|z| (z + shift) * (z + shift)).sum();
            ln_sequential_t(z.len() as u16, sum, squares, direction)
        };
        prop_assert!(ln_e(shift, Direction::Above) >= ln_e(0.0, Direction::Above) - 1e-9);
        prop_assert!(ln_e(shift, Direction::Below) <= ln_e(0.0, Direction::Below) + 1e-9);
    }

    #[test]
    fn addition_in_log_space_is_addition(a in -50.0..50.0_f64, b in -50.0..50.0_f64) {
        prop_assert!((ln_add(a, b) - (a.exp() + b.exp()).ln()).abs() < 1e-9);
    }
}
