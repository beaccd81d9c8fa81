//! Runs a function over items on a fixed number of threads.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Returns how many threads to hash and copy with: the cores this container may use, at most 16 (beyond that the
/// store, not the processor, is the limit).
pub fn default_threads() -> usize {
    thread::available_parallelism().map_or(2, usize::from).min(16)
}

/// Applies `work` to each item and returns the results in the items' order.
///
/// # Errors
/// The first error; items not begun by then are left out.
pub fn map<T, R, E, F>(items: &[T], threads: usize, work: F) -> Result<Vec<R>, E>
where
    T: Sync,
    R: Send,
    E: Send,
    F: Fn(&T) -> Result<R, E> + Sync,
{
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let failed: Mutex<Option<E>> = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    match work(item) {
                        Ok(result) => lock(&done).push((index, result)),
                        Err(error) => {
                            lock(&failed).get_or_insert(error);
                            next.store(items.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut results = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// A poisoned lock means that `work` panicked on another thread; the scope passes that panic on by itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_items_order() {
        let items: Vec<u32> = (0..500).collect();
        let squares: Result<Vec<u32>, ()> = map(&items, 8, |i| Ok(i * i));
        assert_eq!(squares.unwrap(), items.iter().map(|i| i * i).collect::<Vec<_>>());
    }

    #[test]
    fn one_failing_item_fails_the_whole() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(map(&items, 4, |i| if *i == 37 { Err("item 37") } else { Ok(*i) }), Err("item 37"));
    }

    #[test]
    fn no_items_are_no_work() {
        assert_eq!(map(&[] as &[u8], 4, |b| Ok::<u8, ()>(*b)), Ok(Vec::new()));
    }
}
