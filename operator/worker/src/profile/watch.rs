//! Decides between chunks whether a level goes on. Pure.

use slipway_analysis::slo::{self, RateTest, Side};
use slipway_worker_contract::Objective;

use super::{judge::analysis_percentile, records::Chunk};

/// Chance of ending a level wrongly, over all its looks.
const ALPHA: f64 = 0.05;
/// What a request counts in the evidence that accepts: requests that share a batch are slow together, and a wrong accept
/// costs a confirm run. In the evidence that rejects it counts in full, for a wrong rejection only costs optimality.
const ACCEPT_WEIGHT: f64 = 0.3;
/// Requests without which no level ends as shown: p99 has no bound below 299.
const LEAST_REQUESTS: u64 = 300;

/// Whether another chunk is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is shown yet.
    GoOn,
    /// The level is over, and why.
    Stop(String),
}

/// The evidence of one level.
#[derive(Clone, Debug)]
pub struct Watch {
    objectives: Vec<Watched>,
    seen: u64,
}

#[derive(Clone, Debug)]
struct Watched {
    objective: Objective,
    above: RateTest,
    below: RateTest,
}

impl Watch {
    /// Watches a level against its objectives.
    pub fn new(objectives: &[Objective]) -> Self {
        let watched = |objective: &Objective| {
            let allowed = analysis_percentile(objective.percentile).exceedance();
            Watched {
                objective: objective.clone(),
                above: RateTest::new(Side::Above, allowed),
                below: RateTest::new(Side::Below, allowed),
            }
        };
        Self { objectives: objectives.iter().map(watched).collect(), seen: 0 }
    }

    /// Adds a chunk's requests.
    pub fn observe(&mut self, chunk: &Chunk) {
        self.seen += chunk.requests.len() as u64;
        for watched in &mut self.objectives {
            let limit = watched.objective.max_micros as f64;
            let exceeding = chunk.requests.iter().filter(|r| r.latency_micros() > limit).count() as u64;
            let meeting = chunk.requests.len() as u64 - exceeding;
            watched.above.observe(exceeding, meeting);
            watched.below.observe(exceeding, meeting);
        }
    }

    /// Decides on what was added so far; valid at every look, for the tests are sequential.
    pub fn decide(&self) -> Decision {
        let reject_at = (self.objectives.len() as f64 / ALPHA).ln();
        if self.objectives.iter().any(|w| w.above.log_evidence() >= reject_at) {
            // Which objective is missed, and by how much, is the row's verdict to say.
            return Decision::Stop("stopped early".to_owned());
        }
        let met = |w: &Watched| {
            let least = analysis_percentile(w.objective.percentile).least_sample(slo::CONFIDENCE);
            w.below.samples() >= least && w.below.discounted_log_evidence(ACCEPT_WEIGHT) >= -ALPHA.ln()
        };
        if self.seen >= LEAST_REQUESTS && self.objectives.iter().all(met) {
            return Decision::Stop(format!("shown by {} requests", self.seen));
        }
        Decision::GoOn
    }
}

#[cfg(test)]
mod tests {
    use slipway_worker_contract::{Metric, Percentile};

    use super::*;
    use crate::profile::records::Request;

    fn chunk(count: u64, slow: u64) -> Chunk {
        let request = |i| Request { sent: 0, answered: if i < slow { 200_000_000 } else { 50_000_000 } };
        Chunk { window_nanos: 1, requests: (0..count).map(request).collect() }
    }

    fn decision(chunks: &[(u64, u64)]) -> Decision {
        let objective = Objective {
            name: "fast".into(),
            metric: Metric::RequestLatency,
            percentile: Percentile::P95,
            max_micros: 100_000,
        };
        let mut watch = Watch::new(&[objective]);
        chunks.iter().for_each(|(count, slow)| watch.observe(&chunk(*count, *slow)));
        watch.decide()
    }

    #[test]
    fn a_hopeless_level_ends_after_its_first_chunk() {
        assert_eq!(decision(&[(60, 30)]), Decision::Stop("stopped early".to_owned()));
    }

    #[test]
    fn a_level_at_its_limit_goes_on_and_a_clear_one_ends() {
        assert_eq!(decision(&[(60, 3)]), Decision::GoOn);
        assert_eq!(decision(&[(60, 0)]), Decision::GoOn, "too few for a p99");
        let reason = "shown by 420 requests".to_owned();
        assert_eq!(decision(&[(60, 0), (120, 0), (240, 0)]), Decision::Stop(reason));
    }

    #[test]
    fn without_objectives_a_level_ends_once_its_percentiles_have_bounds() {
        let mut watch = Watch::new(&[]);
        watch.observe(&chunk(299, 0));
        assert_eq!(watch.decide(), Decision::GoOn);
        watch.observe(&chunk(1, 0));
        assert_eq!(watch.decide(), Decision::Stop("shown by 300 requests".into()));
    }
}
