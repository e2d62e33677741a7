//! Work on several things at a time.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

const NICENESS_MAX: i32 = 19;

/// The results of `work` for each item, in the items' order; as many at a time as there are processors.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (queue, done) = (Mutex::new(items.iter().enumerate()), Mutex::new(Vec::new()));
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no worker panics with the lock").next();
                    let Some((number, item)) = next else { break };
                    let result = work(item);
                    done.lock().expect("no worker panics with the lock").push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics with the lock");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// From now on this thread, and what it starts, has only processors that are otherwise idle.
pub fn lower_priority() {
    // If this fails, it is scheduled like any other.
    let _ = rustix::process::setpriority_process(None, NICENESS_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_items_order() {
        let items: Vec<u32> = (0..1000).collect();
        assert_eq!(map(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(map(&[], |item: &u32| *item).is_empty());
    }
}
