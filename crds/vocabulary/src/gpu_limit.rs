//! Bounds on what a GPU does while a configuration is measured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Figures of the GPUs while a configuration is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub enum GpuFigure {
    /// Mean share of the time in which the GPUs were busy, in percent.
    Utilization,
    /// Mean power of a GPU, in watts.
    Power,
    /// Most memory that was used on a GPU, in MiB.
    Memory,
}

impl GpuFigure {
    /// The name of its limit in results: `gpu-power`.
    pub const fn limit_name(self) -> &'static str {
        match self {
            Self::Utilization => "gpu-utilization",
            Self::Power => "gpu-power",
            Self::Memory => "gpu-memory",
        }
    }

    /// The unit, as it is written after a number.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Utilization => "%",
            Self::Power => "W",
            Self::Memory => "MiB",
        }
    }
}

impl fmt::Display for GpuFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utilization => "GPU utilization",
            Self::Power => "GPU power",
            Self::Memory => "GPU memory",
        })
    }
}

/// A bound from below, from above, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuLimit {
    /// What is bounded.
    pub figure: GpuFigure,
    /// The least that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// The most that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

/// Which bound a value misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedSide {
    /// It is below the least value.
    Below(u32),
    /// It is above the greatest value.
    Above(u32),
}

impl GpuLimit {
    /// The bound that a value misses, if it misses one.
    pub fn missed_by(&self, value: u32) -> Option<MissedSide> {
        let below = self.min.filter(|min| value < *min).map(MissedSide::Below);
        below.or_else(|| self.max.filter(|max| value > *max).map(MissedSide::Above))
    }

    /// The bound from above alone, if there is one: a load below the level's need not keep a GPU busy.
    pub fn from_above(self) -> Option<Self> {
        self.max.map(|_| Self { min: None, ..self })
    }

    /// That a value misses a bound, in words.
    pub fn miss(&self, value: u32) -> Option<String> {
        let Self { figure, .. } = self;
        let unit = figure.unit();
        Some(match self.missed_by(value)? {
            MissedSide::Below(min) => format!("{figure} is too low: {value} {unit} of at least {min} {unit}"),
            MissedSide::Above(max) => format!("{figure} is too high: {value} {unit} of at most {max} {unit}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_misses_a_bound_from_either_side_and_meets_it_when_equal() {
        let limit = GpuLimit { figure: GpuFigure::Utilization, min: Some(60), max: Some(90) };
        let missed = [59, 60, 90, 91].map(|value| limit.missed_by(value));
        assert_eq!(missed, [Some(MissedSide::Below(60)), None, None, Some(MissedSide::Above(90))]);
        assert_eq!(limit.miss(41).as_deref(), Some("GPU utilization is too low: 41 % of at least 60 %"));
        assert_eq!(limit.from_above(), Some(GpuLimit { min: None, ..limit }));
        assert_eq!(GpuLimit { max: None, ..limit }.from_above(), None);
        let open = GpuLimit { figure: GpuFigure::Power, min: None, max: Some(300) };
        assert_eq!(open.miss(0), None);
        assert_eq!(open.miss(310).as_deref(), Some("GPU power is too high: 310 W of at most 300 W"));
    }
}
