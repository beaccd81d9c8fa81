//! The throughputs by which engines are compared: as measured, for a GPU, or for a dollar where they have several
//! prices. Pure.

use slipway_worker_contract::{Costs, OptimizeFor, OtherEngine};

use super::Guided;

/// Requests of a thousand in 1,000 seconds and for a dollar an hour, at a dollar for each thousand.
const PER_DOLLAR: f64 = 1_000_000.0 / 3_600.0;

/// What one replica of an engine takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replica {
    /// GPUs, at least one: a pod without any stands for one.
    pub(super) gpus: u32,
    /// Absent where all engines have one price.
    microdollars_per_hour: Option<u64>,
}

impl Replica {
    pub(super) fn own(search: &Guided) -> Self {
        Self { gpus: search.gpus, microdollars_per_hour: search.costs.map(|costs| costs.microdollars_per_hour) }
    }

    pub(super) fn other(other: &OtherEngine) -> Self {
        Self { gpus: other.gpus.max(1), microdollars_per_hour: other.microdollars_per_hour }
    }

    /// That of an engine of the space: the search's own, then the others.
    pub(super) fn of(search: &Guided, engine: usize) -> Self {
        engine.checked_sub(1).map_or_else(|| Self::own(search), |other| Self::other(&search.others[other]))
    }

    fn dollars_per_hour(self) -> Option<f64> {
        self.microdollars_per_hour.map(|price| price as f64 / 1e6)
    }

    /// What an hour of one of its GPUs costs in dollars.
    pub(super) fn gpu_price(self) -> Option<f64> {
        self.dollars_per_hour().map(|dollars| dollars / f64::from(self.gpus))
    }

    /// What it costs, in any unit: dollars an hour, or GPUs at one price.
    pub(super) fn cost(self) -> f64 {
        self.dollars_per_hour().unwrap_or(f64::from(self.gpus))
    }
}

/// A throughput of one replica in 1,000 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Throughput {
    Measured,
    PerGpu,
    PerDollar,
}

impl Throughput {
    /// The name of the metric, which tells the search its unit.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Measured => "throughput",
            Self::PerGpu => "throughput_per_gpu",
            Self::PerDollar => "throughput_per_dollar",
        }
    }

    /// What the measured throughput of a replica is divided by.
    pub(super) fn divisor(self, of: Replica) -> f64 {
        match self {
            Self::Measured => 1.0,
            Self::PerGpu | Self::PerDollar => of.cost(),
        }
    }

    /// The throughput that is looked for, and the other one where a limit is of it.
    pub(super) fn compared(search: &Guided) -> (Self, Option<Self>) {
        let first = match (search.optimize_for, search.costs) {
            (OptimizeFor::Throughput | OptimizeFor::Latency, _) => Self::Measured,
            (OptimizeFor::Cost, None) => Self::PerGpu,
            (OptimizeFor::Cost, Some(_)) => Self::PerDollar,
        };
        (first, Self::limits(search).into_iter().map(|(of, _)| of).find(|of| *of != first))
    }

    /// The least that each may be. At one price a limit on cost is one on the throughput of this engine, whose replicas
    /// take as much as all others.
    pub(super) fn limits(search: &Guided) -> Vec<(Self, f64)> {
        let Some(Costs { target_per_kilosecond, max_microdollars_per_thousand, .. }) = search.costs else {
            let of = if search.optimize_for == OptimizeFor::Cost { Self::PerGpu } else { Self::Measured };
            let target =
                search.target_per_kilosecond.map(|target| (of, target as f64 / of.divisor(Replica::own(search))));
            return target.into_iter().collect();
        };
        let target = target_per_kilosecond.map(|target| (Self::Measured, target as f64));
        let per_dollar = |most: u64| (Self::PerDollar, PER_DOLLAR / (most.max(1) as f64 / 1e6));
        target.into_iter().chain(max_microdollars_per_thousand.map(per_dollar)).collect()
    }
}
