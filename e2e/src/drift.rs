//! Drift as scenarios see it: the blocks in which it is counted, what the operator remembers, and what the status says.
//! Reads the clock; reads and writes IO. What is read from a memory is pure.

use std::{collections::BTreeMap, fmt, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde::Deserialize;
use serde_json::{Value, json};
use slipway_crds::v1alpha1::{AgentDeployment, agent_deployment::DriftStatus};
use tokio::time::{Instant, sleep};

use crate::{
    load::client::unix_millis,
    namespace::{Namespace, Outcome, ScenarioError, refused},
};

/// Seconds of a block; blocks end at multiples of it.
pub const BLOCK_SECONDS: u64 = 600;
/// Seconds of a first day.
const DAY_SECONDS: u64 = 86_400;
/// Seconds after its end within which an agent counts a block: it has a place of its own in the next one, and is looked
/// at every half a minute.
const COUNTED_WITHIN: u64 = BLOCK_SECONDS + 120;
/// Key of the memory in its ConfigMap.
const KEY: &str = "memory.json";
/// Time between two looks; a block lasts many of them.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the operator remembers of an agent between two blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The second at which the first day ended; absent while it lasts.
    pub ended_seconds: Option<u64>,
    /// The end of the last block that was counted.
    pub counted_to: u64,
    /// Runs of the first day.
    pub runs: u64,
}

impl Remembered {
    /// Blocks that were compared with the first day.
    pub fn blocks(&self) -> u64 {
        self.ended_seconds.map_or(0, |ended| self.counted_to.saturating_sub(ended) / BLOCK_SECONDS)
    }

    fn read(text: &str) -> Result<Self, serde_json::Error> {
        let Stored { frozen_seconds, counted_to, counts } = serde_json::from_str(text)?;
        // Counts are texts that begin with how many finished, in hexadecimal.
        let finished = |text: &String| u64::from_str_radix(text.split(' ').next().unwrap_or_default(), 16).unwrap_or(0);
        let runs = counts.values().map(|strata| strata.values().map(finished).sum()).max().unwrap_or(0);
        Ok(Self { ended_seconds: frozen_seconds, counted_to, runs })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(default)]
    frozen_seconds: Option<u64>,
    counted_to: u64,
    counts: BTreeMap<String, BTreeMap<String, String>>,
}

/// The text of a memory whose first day began a day earlier; all else is as it was.
fn a_day_earlier(text: &str) -> Result<String, serde_json::Error> {
    let mut memory: Value = serde_json::from_str(text)?;
    let begun = memory["begunSeconds"].as_u64().unwrap_or_default();
    memory["begunSeconds"] = json!(begun.saturating_sub(DAY_SECONDS));
    serde_json::to_string(&memory)
}

/// What was seen of an agent at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Blocks that were compared with the first day by then.
    pub blocks: u64,
    /// What the status said.
    pub drift: DriftStatus,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DriftStatus { verdict, message, signals, risk, .. } = &self.drift;
        let risk = risk.as_ref().map_or("none", |risk| risk.message.as_str());
        write!(f, "{} blocks: {verdict:?} {signals:?}, at risk: {risk}; {message}", self.blocks)
    }
}

/// Waits for the end of a block that is at least so far away, and gives its second.
pub async fn wait_for_block_end(at_least: Duration) -> u64 {
    let now = unix_millis();
    let end = block_end(now, at_least);
    // The end of a block is a time, of which nothing else tells.
    sleep(Duration::from_millis((end * 1_000).saturating_sub(now))).await;
    end
}

fn block_end(now_millis: u64, at_least: Duration) -> u64 {
    (now_millis / 1_000 + at_least.as_secs()).div_ceil(BLOCK_SECONDS) * BLOCK_SECONDS
}

impl Namespace {
    /// Ends an agent's first day with the block that has ended at a second, and gives the runs that it had by then.
    ///
    /// Once the operator has counted that block, the ConfigMap of its memory is changed in one figure: the beginning of
    /// the first day, which becomes a day earlier. The operator finds with the next block that the day is over.
    ///
    /// # Errors
    /// When the block is not counted in time, another was meanwhile, or the API server refuses.
    pub async fn end_first_day(&self, agent: &str, at: u64) -> Outcome<u64> {
        let name = object_name(agent);
        let has_counted = |object: &ConfigMap| {
            let text = text_of(object)?;
            let remembered = Remembered::read(text).map_err(|error| format!("{error}: {text}"))?;
            let found = (a_day_earlier(text).map_err(|error| error.to_string())?, remembered.runs, object.clone());
            if remembered.counted_to == at { Ok(found) } else { Err(format!("{remembered:?}")) }
        };
        let waited = (at + COUNTED_WITHIN).saturating_sub(unix_millis() / 1_000);
        let what = format!("blocks counted up to {at}");
        let (text, runs, mut object) = self.wait(&name, &what, Duration::from_secs(waited), has_counted).await?;
        object.data = Some([(KEY.to_owned(), text)].into());
        // With the version that was read, so that a block which was counted meanwhile is not lost.
        let replaced = self.api::<ConfigMap>().replace(&name, &PostParams::default(), &object).await;
        replaced.map_err(|source| refused(format!("replace {name}"), source))?;
        Ok(runs)
    }

    /// Watches what the status says of drift, block by block, and prints it, until it is as it should be.
    ///
    /// # Errors
    /// When that does not come true within so many blocks after the first day, or they are not counted in time.
    pub async fn watch_drift(
        &self,
        agent: &str,
        (what, most): (&str, u64),
        is_over: impl Fn(&Seen) -> bool,
    ) -> Outcome<Vec<Seen>> {
        let limit = Duration::from_secs((most + 1) * BLOCK_SECONDS + COUNTED_WITHIN);
        let (begun, mut history) = (Instant::now(), Vec::<Seen>::new());
        loop {
            let seen = self.look_at_drift(agent).await?;
            let is_late = |last: &Seen| last.blocks > most || begun.elapsed() > limit;
            match seen {
                Some(seen) if history.last() != Some(&seen) => {
                    println!("{} after {} s: {seen}", self.name(), begun.elapsed().as_secs());
                    history.push(seen);
                }
                Some(_) | None => {}
            }
            match history.last() {
                Some(last) if is_over(last) => return Ok(history),
                Some(last) if is_late(last) => return Err(self.not_seen(what, begun, last.to_string())),
                None if begun.elapsed() > limit => return Err(self.not_seen(what, begun, "nothing".to_owned())),
                Some(_) | None => {}
            }
        }
    }

    fn not_seen(&self, what: &str, begun: Instant, last: String) -> ScenarioError {
        let what = format!("drift of {}: {what}", self.name());
        ScenarioError::TimedOut { what, seconds: begun.elapsed().as_secs(), last }
    }

    async fn look_at_drift(&self, agent: &str) -> Outcome<Option<Seen>> {
        let name = object_name(agent);
        let object =
            self.api::<ConfigMap>().get_opt(&name).await.map_err(|source| refused(format!("get {name}"), source))?;
        let remembered = object.as_ref().and_then(|object| text_of(object).ok()).map(Remembered::read).transpose();
        let remembered = remembered.map_err(|source| ScenarioError::Answer { text: name, source })?;
        // The status is written after the memory.
        sleep(LOOK_EVERY).await;
        let agent = self.api::<AgentDeployment>().get(agent).await;
        let status = agent.map_err(|source| refused("get the agent".to_owned(), source))?.status;
        let blocks = remembered.map_or(0, |remembered| remembered.blocks());
        Ok(status.and_then(|status| status.drift).map(|drift| Seen { blocks, drift }))
    }
}

fn object_name(agent: &str) -> String {
    format!("{agent}-drift")
}

fn text_of(object: &ConfigMap) -> Result<&str, String> {
    object.data.iter().find_map(|data| data.get(KEY)).map(String::as_str).ok_or_else(|| format!("no key {KEY}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// As the operator writes it; see its golden text.
    fn memory(begun: u64, frozen: &str) -> String {
        format!(r#"{{"version":1,"revision":"7c","identity":{{}},"begunSeconds":{begun},{frozen}"countedTo":180600,"#)
            + r#""read":{"pod@t":70},"counts":{"ModelTime":{"miss/p9/f0":"4b0 2d 10:384,ff"},"#
            + r#""RunSuccess":{"miss/p9/f0":"4b0 2d ","miss/p9/f1":"10 0 "}}}"#
    }

    #[test]
    fn a_memory_tells_its_runs_and_its_blocks() {
        let remembered = Remembered::read(&memory(90_000, "")).unwrap();
        assert_eq!(remembered, Remembered { ended_seconds: None, counted_to: 180_600, runs: 1_216 });
        assert_eq!(remembered.blocks(), 0);
        let frozen = Remembered::read(&memory(90_000, r#""frozenSeconds":177000,"#)).unwrap();
        assert_eq!((frozen.ended_seconds, frozen.blocks()), (Some(177_000), 6));
    }

    #[test]
    fn a_day_earlier_changes_nothing_but_the_beginning() {
        let changed: Value = serde_json::from_str(&a_day_earlier(&memory(90_000, "")).unwrap()).unwrap();
        assert_eq!(changed, serde_json::from_str::<Value>(&memory(3_600, "")).unwrap());
    }

    #[test]
    fn a_block_ends_at_a_multiple_of_its_length_that_is_far_enough_away() {
        let ends = [(1_200_000, 0), (1_200_001, 1), (1_799_999, 400), (1_801_000, 600)];
        let ends = ends.map(|(now, at_least)| block_end(now, Duration::from_secs(at_least)));
        assert_eq!(ends, [1_200, 1_800, 2_400, 2_400 + 600]);
    }
}
