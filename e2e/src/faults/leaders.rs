//! Whether only leaders wrote, as the API server's audit log has it. Pure.
//!
//! Writes name the pod that asked for them. A process that is started again in its pod is the same candidate.

use crate::operator::Write;

/// Seconds for which a claim is good for writing, in milliseconds (`operator/src/leader`).
const DEADLINE_MILLIS: i64 = 10_000;
/// Longest time from the operator to the API server, on a busy machine.
const ON_ITS_WAY_MILLIS: i64 = 2_000;
/// How long what was sent to a silent API server keeps arriving once it goes on.
const ARREARS_MILLIS: i64 = 5_000;

/// A time, in milliseconds of the Unix epoch, in which the API server accepted requests and read none.
pub type Silence = (i64, i64);

/// Lines about writes of pods whose claim was another's by then, or too old.
pub fn writes_without_a_claim(writes: &[Write], silences: &[Silence]) -> Vec<String> {
    let mut writes: Vec<&Write> = writes.iter().filter(|write| write.is_committed()).collect();
    writes.sort_by_key(|write| write.received_unix_millis());
    let mut claim: Option<(&str, i64)> = None;
    let mut lines = Vec::new();
    for write in writes {
        if write.is_of_lease() {
            claim = Some((write.pod(), write.received_unix_millis()));
            continue;
        }
        // Before the first claim nobody knows.
        let Some((holder, since)) = claim else { continue };
        let age = sent(write, silences) - since;
        let object = write.object_ref.clone().unwrap_or_default();
        let what = format!("{} writes {} {}", write.pod(), object.resource, object.name);
        if write.pod() != holder {
            lines.push(format!("{what}, {age} ms after {holder} has claimed the lease"));
        } else if age > DEADLINE_MILLIS + ON_ITS_WAY_MILLIS {
            lines.push(format!("{what} by a claim that is {age} ms old"));
        }
    }
    lines
}

/// When a write was sent, at the latest: what arrives right after a silence was sent before it.
fn sent(write: &Write, silences: &[Silence]) -> i64 {
    let received = write.received_unix_millis();
    let is_in_arrears = |(_, to): &&Silence| (*to..*to + ARREARS_MILLIS).contains(&received);
    silences.iter().find(is_in_arrears).map_or(received, |(from, _)| *from)
}

/// The longest time without a renewal, in milliseconds.
pub fn longest_pause(writes: &[Write]) -> i64 {
    let renewals = writes.iter().filter(|write| write.is_of_lease() && write.is_committed());
    let mut renewals: Vec<i64> = renewals.map(Write::received_unix_millis).collect();
    renewals.sort_unstable();
    renewals.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// The pods that have claimed the lease, one after the other.
pub fn holders(writes: &[Write]) -> Vec<&str> {
    let mut claims: Vec<&Write> = writes.iter().filter(|write| write.is_of_lease() && write.is_committed()).collect();
    claims.sort_by_key(|write| write.received_unix_millis());
    let mut holders: Vec<&str> = claims.into_iter().map(Write::pod).collect();
    holders.dedup();
    holders
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// A write of a pod at a second, as the audit log has it.
    fn write(pod: &str, second: u32, resource: &str, code: u16) -> Write {
        let name = if resource == "leases" { "slipway-operator" } else { "waiter" };
        let write = json!({
            "verb": "patch", "objectRef": {"resource": resource, "namespace": "team", "name": name},
            "requestReceivedTimestamp": format!("2026-01-01T00:00:{second:02}.000000Z"),
            "responseStatus": {"metadata": {}, "code": code},
            "user": {"username": "operator", "extra": {"authentication.kubernetes.io/pod-name": [pod]}},
        });
        serde_json::from_value(write).unwrap()
    }

    #[test]
    fn who_lost_the_lease_may_not_write() {
        let writes = [
            write("one", 0, "leases", 200),
            write("one", 2, "jobs", 201),
            write("two", 20, "leases", 200),
            write("one", 21, "jobs", 409),
            write("one", 22, "jobs", 201),
            write("two", 23, "jobs", 201),
        ];
        let expected = ["one writes jobs waiter, 2000 ms after two has claimed the lease"];
        assert_eq!(writes_without_a_claim(&writes, &[]), expected);
        assert_eq!((holders(&writes), longest_pause(&writes)), (vec!["one", "two"], 20_000));
    }

    #[test]
    fn an_old_claim_is_no_claim_but_for_what_was_sent_before_a_silence() {
        let writes = [write("one", 0, "leases", 200), write("one", 41, "jobs", 201)];
        let began = writes[0].received_unix_millis() + 1_000;
        assert_eq!(writes_without_a_claim(&writes, &[]), ["one writes jobs waiter by a claim that is 41000 ms old"]);
        assert_eq!(writes_without_a_claim(&writes, &[(began, began + 39_500)]), Vec::<String>::new());
    }
}
