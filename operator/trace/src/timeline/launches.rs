//! The calls whose GPU work has not been seen yet. Pure.

use std::collections::{HashMap, VecDeque};

use super::{
    super::{
        classify::EnginePhase,
        record::{Correlation, NameId},
    },
    ranges::RangeNode,
};

/// Launches kept: a stream queues about a thousand, so this covers some hundred streams.
const CAPACITY: usize = 1 << 18;

/// A call that put work on a device, and where the host stood when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Start of the call.
    pub start: i64,
    /// End of the call.
    pub end: i64,
    /// Innermost operator.
    pub operator: Option<NameId>,
    /// Work of that operator, where its shapes were recorded.
    pub flops: u64,
    /// Bytes of that operator.
    pub bytes: u64,
    /// Innermost range.
    pub range: RangeNode,
    /// The engine's phase by the ranges around.
    pub phase: Option<EnginePhase>,
    /// Whether GPU work of this call was seen: a graph launch has many kernels.
    pub seen: bool,
}

/// Recent launches by correlation; the oldest are forgotten.
#[derive(Debug, Default)]
pub struct Launches {
    open: HashMap<Correlation, Launch>,
    order: VecDeque<Correlation>,
}

impl Launches {
    /// Adds a launch.
    pub fn insert(&mut self, correlation: Correlation, launch: Launch) {
        if self.open.insert(correlation, launch).is_none() {
            self.order.push_back(correlation);
        }
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
    }

    /// Returns the launch of some GPU work and whether this is the first of it.
    pub fn of(&mut self, correlation: Correlation) -> Option<(Launch, bool)> {
        if correlation == Correlation::NONE {
            return None;
        }
        let launch = self.open.get_mut(&correlation)?;
        let first = !std::mem::replace(&mut launch.seen, true);
        Some((*launch, first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(start: i64) -> Launch {
        Launch {
            start,
            end: start,
            operator: None,
            flops: 0,
            bytes: 0,
            range: RangeNode::ROOT,
            phase: None,
            seen: false,
        }
    }

    #[test]
    fn a_graph_launch_serves_many_kernels_and_the_oldest_are_forgotten() {
        let mut launches = Launches::default();
        for id in 0..=CAPACITY as u32 {
            launches.insert(Correlation::new(0, id + 1), launch(i64::from(id)));
        }

        assert_eq!(launches.of(Correlation::new(0, 1)), None);
        assert_eq!(launches.of(Correlation::new(0, 2)).map(|(_, first)| first), Some(true));
        assert_eq!(launches.of(Correlation::new(0, 2)).map(|(_, first)| first), Some(false));
        assert_eq!(launches.of(Correlation::NONE), None);
    }
}
