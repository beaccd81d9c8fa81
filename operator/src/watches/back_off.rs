//! How long a watch that has failed waits. A list that succeeds says nothing of the watch after it.

use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

/// Waiting time after a first failure; each further one doubles it.
const FIRST: Duration = Duration::from_millis(800);
/// Longest waiting time.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a watch without an event lives that works.
const LIVES: Duration = Duration::from_secs(60);

/// Waiting times of a watch.
#[derive(Debug)]
pub(super) struct BackOff {
    next: Duration,
    /// When the watch began after its list; absent before.
    watched_since: Option<Instant>,
}

impl Default for BackOff {
    fn default() -> Self {
        Self { next: FIRST, watched_since: None }
    }
}

impl BackOff {
    /// Takes in what the watch has shown.
    pub(super) fn seen<K>(&mut self, event: &Event<K>) {
        match event {
            Event::Init => self.end(),
            Event::InitApply(_) => {}
            Event::InitDone => self.watched_since = Some(Instant::now()),
            Event::Apply(_) | Event::Delete(_) => self.next = FIRST,
        }
    }

    /// The watch is over: one that has lived has worked.
    fn end(&mut self) {
        if self.watched_since.take().is_some_and(|since| since.elapsed() >= LIVES) {
            self.next = FIRST;
        }
    }

    /// How long to wait after a failure.
    pub(super) fn failed(&mut self) -> Duration {
        self.end();
        let wait = self.next;
        self.next = LONGEST.min(wait * 2);
        wait
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn seconds(back_off: &mut BackOff) -> f64 {
        back_off.failed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_fails_after_each_list_is_asked_for_less_and_less() {
        let mut back_off = BackOff::default();
        let mut waits = Vec::new();
        for _ in 0..8 {
            [Event::Init, Event::InitApply(()), Event::InitDone].iter().for_each(|event| back_off.seen(event));
            waits.push(seconds(&mut back_off));
        }
        assert_eq!(waits, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_showed_something_or_lived_begins_again_at_once() {
        let mut back_off = BackOff::default();
        assert_eq!([seconds(&mut back_off), seconds(&mut back_off)], [0.8, 1.6]);
        back_off.seen(&Event::Delete(()));
        assert_eq!([seconds(&mut back_off), seconds(&mut back_off)], [0.8, 1.6]);
        back_off.seen(&Event::<()>::InitDone);
        tokio::time::advance(LIVES).await;
        assert_eq!([seconds(&mut back_off), seconds(&mut back_off)], [0.8, 1.6]);
        back_off.seen(&Event::<()>::InitDone);
        tokio::time::advance(LIVES).await;
        back_off.seen(&Event::<()>::Init);
        assert_eq!(seconds(&mut back_off), 0.8, "a watch that was listed again had worked");
    }
}
