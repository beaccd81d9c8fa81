//! Names of runs. A name is known to the run's client alone, so that nobody else's feedback counts, and it counts once.
//!
//! `REVISION-START-NUMBER` and a seal of 16 digits: the revision, the start of the pod's process and the number of the
//! run in it. Nothing is kept of a run that nobody judges: the seal says that its name was given here.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{access::Tenant, clock::Timestamp};

/// Hexadecimal digits of a seal.
const SEAL_DIGITS: usize = 16;
/// How many runs may begin after a run whose feedback still counts. It bounds the memory of what was judged.
pub const KEPT_RUNS: u64 = 65_536;

/// Turns the number of a run into digits that nobody else can compute.
#[derive(Clone)]
pub struct Seal(Arc<dyn Fn(u64) -> u64 + Send + Sync>);

impl Seal {
    /// With a key that the system draws for this process, and that leaves it never.
    pub fn random() -> Self {
        let keyed = RandomState::new();
        Self::new(move |number| keyed.hash_one(number))
    }

    /// Digits that nobody can tell who knows others.
    pub(crate) fn draw(&self, number: u64) -> u64 {
        (self.0)(number)
    }

    /// The seal of a function, so that a test knows the names.
    pub fn new(seal: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(seal))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal")
    }
}

/// Why feedback on a run of this name does not count here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// It is not the name of a run.
    NoName,
    /// The run was one of another revision.
    OtherRevision {
        /// The revision.
        revision: String,
    },
    /// The run was one of another pod of this revision, or of this one before its process restarted.
    OtherPod,
    /// No run here was given this name.
    Unknown,
    /// More than [`KEPT_RUNS`] runs have begun since.
    Forgotten,
    /// It has counted.
    Repeated,
}

/// Gives names to the runs of a process, and says which of them may be judged.
#[derive(Debug)]
pub struct RunNames {
    revision: String,
    started_at: Timestamp,
    seal: Seal,
    next: AtomicU64,
    /// Numbers of the runs that were judged, of the latest [`KEPT_RUNS`].
    judged: Mutex<BTreeSet<u64>>,
}

impl RunNames {
    /// The names of a process that began then.
    pub fn new(revision: &str, started_at: Timestamp, seal: Seal) -> Self {
        Self {
            revision: revision.to_owned(),
            started_at,
            seal,
            next: AtomicU64::new(0),
            judged: Mutex::new(BTreeSet::new()),
        }
    }

    /// The name of the next run, unique across the agent's pods. The seal is its tenant's.
    pub fn next(&self, tenant: Option<&Tenant>) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seal = self.seal(number, tenant);
        format!("{}-{:x}-{number:x}{seal:016x}", self.revision, self.started_at.as_micros())
    }

    /// Takes note that a run is judged now, by its tenant.
    ///
    /// # Errors
    /// When the judgement is not to count here; see [`NotCounted`].
    pub fn judge(&self, name: &str, tenant: Option<&Tenant>) -> Result<(), NotCounted> {
        let number = self.number(name, tenant)?;
        let next = self.next.load(Ordering::Relaxed);
        if number >= next {
            return Err(NotCounted::Unknown);
        }
        let oldest = next.saturating_sub(KEPT_RUNS);
        if number < oldest {
            return Err(NotCounted::Forgotten);
        }
        // No code panics while it holds the lock.
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        while judged.first().is_some_and(|first| *first < oldest) {
            judged.pop_first();
        }
        if judged.insert(number) { Ok(()) } else { Err(NotCounted::Repeated) }
    }

    /// The seal of a number. To other tenants it is that of a number that no run has.
    fn seal(&self, number: u64, tenant: Option<&Tenant>) -> u64 {
        let of_tenant = tenant.map_or(0, |tenant| {
            let mut hasher = DefaultHasher::new();
            tenant.hash(&mut hasher);
            hasher.finish()
        });
        (self.seal.0)(number ^ of_tenant)
    }

    /// The number of a run of this tenant that has this name here.
    fn number(&self, name: &str, tenant: Option<&Tenant>) -> Result<u64, NotCounted> {
        let parts = name.rsplit_once('-').and_then(|(rest, run)| Some((rest.rsplit_once('-')?, run)));
        let Some(((revision, started_at), run)) = parts.filter(|((revision, _), _)| !revision.is_empty()) else {
            return Err(NotCounted::NoName);
        };
        if revision != self.revision {
            return Err(NotCounted::OtherRevision { revision: revision.to_owned() });
        }
        if started_at != format!("{:x}", self.started_at.as_micros()) {
            return Err(NotCounted::OtherPod);
        }
        let (number, seal) = run
            .len()
            .checked_sub(SEAL_DIGITS)
            .and_then(|at| run.split_at_checked(at))
            .and_then(|(number, seal)| Some((hexadecimal(number)?, hexadecimal(seal)?)))
            .ok_or(NotCounted::Unknown)?;
        if self.seal(number, tenant) == seal { Ok(number) } else { Err(NotCounted::Unknown) }
    }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use rstest::rstest;

    use super::*;

    const START: Timestamp = Timestamp::from_micros(0x61f);

    fn names() -> RunNames {
        RunNames::new("abc", START, Seal::new(|number| 0xfeed_0000_0000_0000 + number))
    }

    #[test]
    fn a_run_counts_once() {
        let names = names();
        let (first, second) = (names.next(None), names.next(None));
        assert_eq!((first.as_str(), second.as_str()), ("abc-61f-0feed000000000000", "abc-61f-1feed000000000001"));
        assert_eq!(
            [&second, &first, &second].map(|name| names.judge(name, None)),
            [Ok(()), Ok(()), Err(NotCounted::Repeated)]
        );
    }

    #[test]
    fn who_writes_a_name_in_another_way_does_not_count_twice() {
        let names = names();
        let _ = names.next(None);
        assert_eq!(names.judge("abc-61f-0feed000000000000", None), Ok(()));
        let again = ["abc-61f-00feed000000000000", "abc-61f-+0feed000000000000", "abc-61f-0FEED000000000000"];
        assert_eq!(again.map(|name| names.judge(name, None)), [const { Err(NotCounted::Repeated) }; 3]);
    }

    #[rstest]
    #[case::no_parts("42", NotCounted::NoName)]
    #[case::no_revision("-61f-0feed000000000000", NotCounted::NoName)]
    #[case::other_revision("abd-61f-0feed000000000000", NotCounted::OtherRevision { revision: "abd".to_owned() })]
    #[case::other_pod("abc-62f-0feed000000000000", NotCounted::OtherPod)]
    #[case::guessed_seal("abc-61f-0feed000000000001", NotCounted::Unknown)]
    #[case::no_seal("abc-61f-0", NotCounted::Unknown)]
    #[case::seal_alone("abc-61f-feed000000000000", NotCounted::Unknown)]
    #[case::beyond_ascii("abc-61f-0éééééééé", NotCounted::Unknown)]
    #[case::within_a_character("abc-61f-0é000000000000000", NotCounted::Unknown)]
    #[case::not_begun("abc-61f-1feed000000000001", NotCounted::Unknown)]
    fn what_was_not_served_here_does_not_count(#[case] name: &str, #[case] expected: NotCounted) {
        let names = names();
        let _ = names.next(None);
        assert_eq!(names.judge(name, None), Err(expected));
    }

    #[test]
    fn a_run_of_another_tenant_is_unknown() {
        let names = RunNames::new("abc", START, Seal::random());
        let [acme, other] = ["acme", "other"].map(|name| Tenant::new(name).unwrap());
        let run = names.next(Some(&acme));
        assert_eq!(
            [None, Some(&other)].map(|tenant| names.judge(&run, tenant)),
            [const { Err(NotCounted::Unknown) }; 2]
        );
        assert_eq!(names.judge(&run, Some(&acme)), Ok(()));
    }

    #[test]
    fn the_memory_is_bounded() {
        let names = names();
        let first = names.next(None);
        for _ in 0..2 * KEPT_RUNS {
            assert_eq!(names.judge(&names.next(None), None), Ok(()));
        }
        assert_eq!(names.judge(&first, None), Err(NotCounted::Forgotten));
        assert!(names.judged.lock().unwrap().len() as u64 <= KEPT_RUNS);
    }

    #[test]
    fn no_two_processes_seal_alike() {
        let seals =
            [Seal::random(), Seal::random()].map(|seal| (0..4).map(|number| (seal.0)(number)).collect::<Vec<_>>());
        assert_ne!(seals[0], seals[1]);
    }
}
