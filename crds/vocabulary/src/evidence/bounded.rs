//! Lists that are read no further than any pod can have counted: a forged one takes no memory beyond that.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

/// What is reserved before the first entry is read, whatever a list announces.
const RESERVED: usize = 16;

/// A list of at most so many entries, for `deserialize_with`.
pub(super) fn at_most<'de, const MOST: usize, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(AtMost::<T, MOST>(PhantomData))
}

struct AtMost<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for AtMost<T, MOST> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::with_capacity(list.size_hint().unwrap_or_default().min(RESERVED));
        while let Some(entry) = list.next_element()? {
            if entries.len() == MOST {
                return Err(A::Error::invalid_length(MOST.saturating_add(1), &self));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::evidence::{Evidence, RING_WINDOWS, plausible::MOST_METRICS};

    fn read(windows: &[Value]) -> Result<Evidence, String> {
        let answer = json!({"revision": "a", "pod": "p", "startedAt": "t", "windows": windows});
        serde_json::from_str(&answer.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_with_more_than_any_pod_counts_is_read_no_further() {
        let windows: Vec<Value> = (0..=RING_WINDOWS).map(|id| json!({"id": id, "metrics": []})).collect();
        assert_eq!(read(&windows[1..]).map(|evidence| evidence.windows.len()), Ok(RING_WINDOWS));
        let refused = read(&windows).unwrap_err();
        assert!(refused.starts_with("invalid length 361, expected a list of at most 360 entries"), "{refused}");

        let metric = json!({"metric": "AgentRunLatency", "unit": "Run", "count": 0, "errors": 0});
        let metrics = |number: usize| json!({"id": 1, "metrics": vec![metric.clone(); number]});
        assert_eq!(read(&[metrics(MOST_METRICS)]).map(|evidence| evidence.windows[0].metrics.len()), Ok(MOST_METRICS));
        let refused = read(&[metrics(MOST_METRICS + 1)]).unwrap_err();
        assert!(refused.starts_with("invalid length 4097, expected a list of at most 4096 entries"), "{refused}");
    }
}
