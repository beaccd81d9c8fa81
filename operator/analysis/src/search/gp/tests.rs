use proptest::prelude::*;

use super::*;
use crate::search::tests::two_axes;

const AMPLITUDES: Amplitudes =
    Amplitudes { offset: 1.0, arm: 0.6, slope: 0.2, arm_slope: 0.2, level: 0.25, arm_level: 0.25, fault: 0.6 };
/// Positions of the axes of [`two_axes`].
const INSTANCES: usize = 0;
const POLICY: usize = 1;

/// A process on one run of some arms each.
fn process(kernel: &Kernel, amplitudes: Amplitudes, residuals: &[(usize, f64)]) -> Process {
    let site =
        |(arm, residual): &(usize, f64)| Site { cell: Cell { arm: *arm, level: 2 }, residual: *residual, noise: 1e-4 };
    Process::fit(kernel, amplitudes, residuals.iter().map(site).collect())
}

/// The share of the fits that have a fault.
fn share(process: &Process, fault: Fault) -> f64 {
    process.fits.iter().filter(|fit| fit.scales.fault == fault).map(|fit| fit.weight).sum()
}

#[test]
fn a_factor_of_its_own_for_each_value_of_an_axis_is_told_from_one_for_all() {
    let kernel = Kernel::new(&two_axes());
    let off = |factors: [f64; 4]| -> Vec<(usize, f64)> { (0..12).map(|arm| (arm, factors[arm / 3])).collect() };
    let agreeing = process(&kernel, AMPLITUDES, &off([0.3; 4]));
    let wrong = process(&kernel, AMPLITUDES, &off([0.8, -0.5, 0.7, -0.9]));
    assert!(share(&agreeing, Fault::Common) > 0.8, "{}", share(&agreeing, Fault::Common));
    assert!(share(&wrong, Fault::ByValue(INSTANCES)) > 0.9, "{}", share(&wrong, Fault::ByValue(INSTANCES)));
}

#[test]
fn without_prior_columns_there_is_no_fault_to_tell() {
    let kernel = Kernel::new(&two_axes());
    let none = Amplitudes { fault: 0.0, ..AMPLITUDES };
    let process = process(&kernel, none, &[(0, 0.8), (3, -0.5), (6, 0.7)]);
    assert!((share(&process, Fault::Common) - 1.0).abs() < 1e-12);
}

proptest! {
    #[test]
    fn a_value_without_a_run_is_less_sure_where_values_with_one_disagree(disagreement in 0.7f64..2.0) {
        let kernel = Kernel::new(&two_axes());
        let sd = |off: f64| {
            // Two arms under each of two policies; the third has none.
            let runs = [(0, 0.0), (1, off), (3, 0.0), (4, off)];
            process(&kernel, AMPLITUDES, &runs).at(&kernel, &[Cell { arm: 2, level: 2 }])[0].variance.sqrt()
        };
        prop_assert!(sd(disagreement) > 1.2 * sd(0.0), "{} {}", sd(disagreement), sd(0.0));
    }

    #[test]
    fn fits_that_are_kept_leave_each_fault_its_share(
        weights in prop::collection::vec((0.0f64..1.0, 0usize..3), 1..81),
    ) {
        let fault = |k: usize| [Fault::Common, Fault::ByValue(INSTANCES), Fault::ByValue(POLICY)][k];
        let fit = |(weight, k): &(f64, usize)| {
            let scales = Scales { arm: 1.0, level: 1.0, nugget: 0.01, fault: fault(*k) };
            Fit { weight: *weight + 1e-9, scales, factor: Vec::new(), dual: Vec::new() }
        };
        let fits: Vec<Fit> = weights.iter().map(fit).collect();
        let total: f64 = fits.iter().map(|fit| fit.weight).sum();
        let kept = kept(fits.clone());
        prop_assert!(kept.len() <= MOST_FITS + 2);
        prop_assert!(kept.is_sorted_by(|a, b| a.weight >= b.weight));
        for k in 0..3 {
            let of = |fits: &[Fit]| -> f64 {
                fits.iter().filter(|fit| fit.scales.fault == fault(k)).map(|fit| fit.weight).sum()
            };
            // Two faults may be dropped for want of weight.
            prop_assert!((of(&kept) - of(&fits) / total).abs() <= 2.0 * LEAST_WEIGHT);
        }
    }
}
