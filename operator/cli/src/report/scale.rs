//! Axes: what lies where, and which values are written at them. Pure.

/// A linear or logarithmic axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_logarithmic: bool,
    /// Where `low` and `high` lie, in pixels.
    from: f64,
    to: f64,
}

/// Values apart by more than this factor need a logarithmic axis.
const WIDE: f64 = 8.0;
/// Room beyond the outermost values, as a share of their span.
const ROOM: f64 = 0.07;
/// Steps that people count in.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

impl Scale {
    /// An axis from 0 to beyond the greatest value.
    pub(super) fn from_zero(values: &[f64], (from, to): (f64, f64)) -> Self {
        let high = values.iter().copied().fold(0.0, f64::max);
        let high = if high > 0.0 { high * (1.0 + ROOM) } else { 1.0 };
        Self { low: 0.0, high, is_logarithmic: false, from, to }
    }

    /// An axis that holds all values, logarithmic where they are far apart. Values are positive.
    pub(super) fn around(values: &[f64], (from, to): (f64, f64)) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        if !low.is_finite() || low <= 0.0 || high / low < WIDE {
            return Self::from_zero(values, (from, to));
        }
        let room = (high / low).powf(ROOM);
        Self { low: low / room, high: high * room, is_logarithmic: true, from, to }
    }

    /// Where a value lies.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }

    /// Round values to write at the axis: four to nine of them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic { self.logarithmic_ticks() } else { self.linear_ticks() }
    }

    pub(super) fn is_logarithmic(&self) -> bool {
        self.is_logarithmic
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 7.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = STEPS.iter().map(|step| step * power).find(|step| *step >= rough).unwrap_or(10.0 * power);
        let count = (self.high / step).floor() as u32;
        // 3 x 0.1 is to be written as 0.3.
        (0..=count).map(|index| (f64::from(index) * step * 1e9).round() / 1e9).collect()
    }

    fn logarithmic_ticks(&self) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| STEPS.iter().map(move |step| step * 10f64.powi(power)));
        all.filter(|tick| (self.low..=self.high).contains(tick)).collect()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_linear_axis_begins_at_zero_and_counts_in_round_steps() {
        let scale = Scale::from_zero(&[12.0, 31.0], (0.0, 100.0));
        assert_eq!(scale.ticks(), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!((scale.at(0.0), scale.at(33.17).round()), (0.0, 100.0));
    }

    #[test]
    fn values_far_apart_get_a_logarithmic_axis_with_all_of_them_inside() {
        let scale = Scale::around(&[60_000.0, 2_400_000.0], (300.0, 0.0));
        assert_eq!(scale.ticks(), [50_000.0, 100_000.0, 200_000.0, 500_000.0, 1_000_000.0, 2_000_000.0]);
        let inside = |value| (0.0..=300.0).contains(&scale.at(value));
        assert!(inside(60_000.0) && inside(2_400_000.0) && scale.is_logarithmic());
    }

    #[test]
    fn an_axis_without_values_is_still_an_axis() {
        assert_eq!(Scale::around(&[], (0.0, 10.0)).at(1.0), 10.0);
    }
}
