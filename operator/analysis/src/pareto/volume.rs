//! Area and volume under a staircase, all coordinates as costs. Pure.

/// Area between points and the reference: a sweep along the first cost.
pub(super) fn area(points: &[[f64; 3]], reference: [f64; 3]) -> f64 {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let mut ceiling = reference[1];
    let mut area = 0.0;
    for point in sorted {
        if point[1] < ceiling {
            area += (reference[0] - point[0]) * (ceiling - point[1]);
            ceiling = point[1];
        }
    }
    area
}

/// Volume between points and the reference: slabs along the third cost, each as high as the gap to the next point.
pub(super) fn volume(points: &[[f64; 3]], reference: [f64; 3]) -> f64 {
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a[2].total_cmp(&b[2]));
    let mut volume = 0.0;
    for (index, point) in sorted.iter().enumerate() {
        let top = sorted.get(index + 1).map_or(reference[2], |next| next[2]);
        if top > point[2] {
            volume += (top - point[2]) * area(&sorted[..=index], reference);
        }
    }
    volume
}
