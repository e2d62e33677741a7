//! The program's time: without the tracer's work, as long as the program waits for that.

use std::time::{Duration, Instant};

pub(crate) struct Clock {
    start: Instant,
    /// When the present stop began, by the system's clock.
    stopped: Duration,
    /// What is left out.
    left_out: Duration,
    /// When the present stop began, in nanoseconds of the program's time.
    pub(crate) at_stop_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { start: Instant::now(), stopped: Duration::ZERO, left_out: Duration::ZERO, at_stop_ns: 0 }
    }

    /// Returns the time since the start, by the system's clock.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the program's time, in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        (self.elapsed() - self.left_out).as_nanos() as u64
    }

    /// Begins a stop.
    pub(crate) fn stop(&mut self) {
        self.stopped = self.elapsed();
        self.at_stop_ns = (self.stopped - self.left_out).as_nanos() as u64;
    }

    /// Ends a stop, for which all of the program has waited.
    pub(crate) fn leave_out(&mut self) {
        self.left_out += self.elapsed() - self.stopped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_left_out() {
        let mut clock = Clock::start();
        clock.stop();
        let before_ns = clock.at_stop_ns;
        std::thread::sleep(Duration::from_millis(20));
        clock.leave_out();
        clock.stop();
        let left_out = clock.elapsed() - Duration::from_nanos(clock.at_stop_ns);
        assert!(clock.at_stop_ns >= before_ns && left_out >= Duration::from_millis(20));
    }
}
