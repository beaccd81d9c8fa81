use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::{Direction, Front, ParetoError};
use Direction::{Maximize, Minimize};

fn by_definition(points: &[Vec<f64>], directions: &[Direction]) -> Vec<usize> {
    let cost = |p: &[f64]| -> Vec<f64> { p.iter().zip(directions).map(|(v, d)| d.as_cost(*v)).collect() };
    (0..points.len())
        .filter(|&i| {
            !points.iter().any(|other| {
                let (a, b) = (cost(other), cost(&points[i]));
                a.iter().zip(&b).all(|(x, y)| x <= y) && a.iter().zip(&b).any(|(x, y)| x < y)
            })
        })
        .collect()
}

/// Counts unit cells of the integer grid that some point dominates: exact for integer coordinates.
fn cells_dominated(points: &[Vec<f64>], reference: &[f64]) -> f64 {
    let side = reference[0] as i64;
    let depth = if reference.len() == 3 { side } else { 1 };
    let mut count = 0.0;
    for x in 0..side {
        for y in 0..side {
            for z in 0..depth {
                let corner = [x as f64, y as f64, z as f64];
                if points.iter().any(|p| p.iter().zip(corner).all(|(v, c)| *v <= c)) {
                    count += 1.0;
                }
            }
        }
    }
    count
}

fn grid_points(dimensions: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
    prop::collection::vec(prop::collection::vec((0..8i32).prop_map(f64::from), dimensions), 0..40)
}

proptest! {
    #[test]
    fn the_front_is_what_the_definition_says(points in prop_oneof![grid_points(2), grid_points(3)], flip in any::<[bool; 3]>()) {
        let dimensions = points.first().map_or(2, Vec::len);
        let directions: Vec<Direction> = flip[..dimensions].iter().map(|f| if *f { Maximize } else { Minimize }).collect();
        let front = Front::of(&points, &directions).unwrap();
        prop_assert_eq!(front.members(), by_definition(&points, &directions));
    }

    #[test]
    fn the_hypervolume_equals_counted_cells(points in prop_oneof![grid_points(2), grid_points(3)]) {
        let dimensions = points.first().map_or(2, Vec::len);
        let directions = vec![Minimize; dimensions];
        let reference = vec![8.0; dimensions];
        let volume = Front::of(&points, &directions).unwrap().hypervolume(&reference).unwrap();
        prop_assert!((volume - cells_dominated(&points, &reference)).abs() < 1e-9);
    }

    #[test]
    fn another_point_never_shrinks_the_hypervolume(points in grid_points(3), extra in prop::collection::vec((0..8i32).prop_map(f64::from), 3)) {
        let directions = [Minimize; 3];
        let reference = [8.0; 3];
        let before = Front::of(&points, &directions).unwrap().hypervolume(&reference).unwrap();
        let mut more = points;
        more.push(extra);
        let after = Front::of(&more, &directions).unwrap().hypervolume(&reference).unwrap();
        prop_assert!(after >= before - 1e-9);
    }
}

#[test]
fn equal_points_are_both_on_the_front() {
    let front = Front::of(&[vec![1.0, 2.0], vec![1.0, 2.0], vec![2.0, 2.0]], &[Minimize, Minimize]).unwrap();
    assert_eq!(front.members(), [0, 1]);
}

#[test]
fn a_point_beyond_the_reference_adds_nothing() {
    let front = Front::of(&[vec![1.0, 9.0], vec![4.0, 4.0]], &[Minimize, Minimize]).unwrap();
    assert_eq!(front.hypervolume(&[8.0, 8.0]), Ok(16.0));
}

#[test]
fn points_that_cannot_be_compared_are_refused() {
    let text = |r: Result<Front, ParetoError>| r.unwrap_err().to_string();
    assert_eq!(text(Front::of(&[vec![1.0]], &[Minimize])), "1 objectives were given; give 2 or 3");
    assert_eq!(
        text(Front::of(&[vec![1.0]], &[Minimize, Maximize])),
        "point 0 has 1 values for 2 objectives; give one value per objective"
    );
    assert_eq!(
        text(Front::of(&[vec![1.0, f64::NAN]], &[Minimize, Maximize])),
        "point 0 has a value that is not finite in objective 1; leave failed runs out"
    );
}
