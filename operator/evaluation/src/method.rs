//! The searches by their names. Pure.

use clap::ValueEnum;
use slipway_analysis::search::{SearchStrategy, Settings, Slipway, Space};

use crate::{
    baseline::{Baseline, Method},
    engine_by_engine::{EngineBuilds, EngineByEngine},
};

/// A search by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MethodName {
    /// The product's search over all cells at once
    Slipway,
    /// The same as a campaign that asks for its engines makes it, one engine after another
    SlipwayWhenAsked,
    /// The same as a campaign makes it by default, over every engine
    SlipwayAll,
    /// Every cell
    Brute,
    /// Model Analyzer's brute search with its early exit
    BruteEarlyExit,
    /// Model Analyzer's quick search and concurrency sweep
    MaQuickSweep,
    /// A tenth of the cells at random
    Random,
    /// A tree-structured Parzen estimator
    Tpe,
    /// Bisection of the load for every arm
    Bisection,
}

impl MethodName {
    /// The strategy of this name on a space.
    #[must_use]
    pub fn strategy(self, space: Space, seed: u64) -> Box<dyn SearchStrategy> {
        let engine_by_engine = |space, builds| {
            let settings = Settings { seed, ..Settings::default() };
            Box::new(EngineByEngine::new(space, builds, settings)) as Box<dyn SearchStrategy>
        };
        let baseline = |space, method| Box::new(Baseline::new(space, method, seed)) as Box<dyn SearchStrategy>;
        match self {
            Self::Slipway => Box::new(Slipway::new(space, Settings { seed, ..Settings::default() })),
            Self::SlipwayWhenAsked => engine_by_engine(space, EngineBuilds::WhenAsked),
            Self::SlipwayAll => engine_by_engine(space, EngineBuilds::All),
            Self::Brute => baseline(space, Method::Brute),
            Self::BruteEarlyExit => baseline(space, Method::BruteEarlyExit),
            Self::MaQuickSweep => baseline(space, Method::MaQuickSweep),
            Self::Random => baseline(space, Method::Random),
            Self::Tpe => baseline(space, Method::Tpe),
            Self::Bisection => baseline(space, Method::Bisection),
        }
    }

    /// The name as it is typed.
    #[must_use]
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
