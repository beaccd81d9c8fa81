//! The runs a baseline has had so far, handed out as it asks for them. Pure.

use std::collections::BTreeMap;

use slipway_analysis::{
    search::{Cell, Conclusion, Constraint, Measurement, MetricKind, Outcome, Proposal, Purpose, Space},
    slo::nearest,
};

/// A run that a baseline needs before it can go on.
#[derive(Debug)]
pub(super) struct Need(pub(super) Proposal);

/// How good a run was: feasible ones by objective, then infeasible ones by how little they miss, then failed ones.
/// Greater is better.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Grade {
    class: u8,
    value: f64,
}

impl Grade {
    pub(super) fn is_feasible(self) -> bool {
        self.class == 2
    }

    /// Gain over another run of the same class, relative to its size.
    pub(super) fn relative_to(self, other: Self) -> f64 {
        if other.value == 0.0 { 0.0 } else { (self.value - other.value) / other.value.abs() }
    }
}

/// A run as a baseline sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub cell: Cell,
    pub grade: Grade,
    pub throughput: Option<f64>,
}

pub(super) struct Memo<'a> {
    pub space: &'a Space,
    measurements: &'a [Measurement],
    runs: BTreeMap<Cell, usize>,
    driver: Option<usize>,
}

impl<'a> Memo<'a> {
    pub(super) fn new(space: &'a Space, measurements: &'a [Measurement]) -> Self {
        let mut runs = BTreeMap::new();
        for (index, measurement) in measurements.iter().enumerate() {
            runs.entry(measurement.cell).or_insert(index);
        }
        let is = |metric: &usize| space.metrics[*metric].kind == MetricKind::Throughput;
        let driver = Some(space.objective).filter(is).or_else(|| (0..space.metrics.len()).find(is));
        Self { space, measurements, runs, driver }
    }

    /// The run of a cell; a cell is run once.
    pub(super) fn run(&self, cell: Cell, reason: &str) -> Result<Seen, Need> {
        let proposal = || Need(Proposal { cell, purpose: Purpose::Explore, reason: reason.to_owned() });
        let measurement = &self.measurements[*self.runs.get(&cell).ok_or_else(proposal)?];
        Ok(Seen { cell, grade: self.grade(measurement), throughput: self.throughput(measurement) })
    }

    /// The run of a cell if it was made.
    pub(super) fn known(&self, cell: Cell) -> Option<Seen> {
        self.run(cell, "").ok()
    }

    /// All runs, in the order they were made.
    pub(super) fn history(&self) -> impl Iterator<Item = Seen> + '_ {
        self.measurements.iter().filter_map(|m| self.known(m.cell))
    }

    fn grade(&self, measurement: &Measurement) -> Grade {
        match &measurement.outcome {
            Outcome::Measured { values, .. } if self.space.meets(values) => {
                Grade { class: 2, value: -self.space.direction.as_cost(values[self.space.objective]) }
            }
            Outcome::Measured { values, .. } => Grade { class: 1, value: -self.space.worst_excess(values) },
            Outcome::Aborted { values, .. } => {
                let excess = |c: &Constraint| Some(self.space.limit(c).excess(values[c.metric]?));
                let worst = self.space.constraints.iter().filter_map(excess).fold(1.0, f64::max);
                Grade { class: 1, value: -worst }
            }
            Outcome::Failed => Grade { class: 0, value: 0.0 },
        }
    }

    fn throughput(&self, measurement: &Measurement) -> Option<f64> {
        match &measurement.outcome {
            Outcome::Measured { values, .. } => Some(values[self.driver?]),
            Outcome::Aborted { values, .. } => values[self.driver?],
            Outcome::Failed => None,
        }
    }

    /// The best feasible run, or that there is none.
    pub(super) fn conclusion(&self) -> Conclusion {
        let best = self.history().reduce(|best, seen| if seen.grade > best.grade { seen } else { best });
        match best {
            Some(best) if best.grade.is_feasible() => {
                Conclusion::Chosen { cell: best.cell, reason: "the best feasible run".into(), gain_left: None }
            }
            Some(_) | None => {
                let limits: Vec<_> = self.space.constraints.iter().map(|c| self.space.limit(c)).collect();
                let row = |m: &Measurement| -> Vec<Option<f64>> {
                    let of = |metric: usize| match &m.outcome {
                        Outcome::Measured { values, .. } => Some(values[metric]),
                        Outcome::Aborted { .. } | Outcome::Failed => None,
                    };
                    self.space.constraints.iter().map(|c| of(c.metric)).collect()
                };
                let rows: Vec<_> = self.measurements.iter().map(row).collect();
                Conclusion::Infeasible { nearest: nearest(&limits, &rows), reason: "no run was feasible".into() }
            }
        }
    }
}
