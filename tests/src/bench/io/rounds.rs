//! Rounds in which the variants of running a program alternate, and their results.

use std::process::Command;

use super::run::{Job, Times, Variant, library};
use crate::bench::statistics::Sample;

/// One round: each variant that could be run.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) plain: Times,
    pub(super) library: Option<Times>,
    pub(super) at_once: Option<Times>,
    pub(super) twin: Option<Times>,
}

/// Some rounds of one job.
#[derive(Debug, Default)]
pub(super) struct Rounds(Vec<Round>);

impl Rounds {
    /// Runs each variant of a job once; `before` is called before each run. The first variant changes from round to
    /// round.
    ///
    /// # Errors
    /// A run has failed, or its data differ from the plain ones.
    pub(super) fn once(
        &mut self,
        job: &Job<'_>,
        variants: &[Variant],
        start: &dyn Fn(&str) -> Command,
        before: &dyn Fn() -> Result<(), String>,
    ) -> Result<(), String> {
        let mut variants: Vec<Variant> = variants
            .iter()
            .copied()
            .filter(|variant| !matches!(variant, Variant::Library | Variant::AtOnce) || has_library(job))
            .collect();
        let shift = self.0.len() % variants.len();
        variants.rotate_left(shift);
        let (mut plain, mut with, mut at_once, mut twin) = (None, None, None, None);
        for variant in variants {
            before()?;
            let times = job.run(variant, start)?;
            match variant {
                Variant::Plain => plain = Some(times),
                Variant::Library => with = Some(times),
                Variant::AtOnce => at_once = Some(times),
                Variant::Twin => twin = Some(times),
            }
        }
        let plain = plain.ok_or("nothing was run plainly")?;
        let others = [("the library", &with), ("the library at once", &at_once), ("the twin", &twin)];
        for (name, times) in others.into_iter().filter_map(|(name, times)| Some((name, times.as_ref()?))) {
            if times.checksum != plain.checksum {
                return Err(format!(
                    "{name} has other data than the program: {} and {}",
                    times.checksum, plain.checksum
                ));
            }
        }
        self.0.push(Round { plain, library: with, at_once, twin });
        Ok(())
    }

    /// The last round.
    pub(super) fn last(&self) -> Option<&Round> {
        self.0.last()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Milliseconds of reading (0) or writing (1); `None` if this variant was not run.
    pub(super) fn milliseconds(&self, variant: Variant, pattern: usize) -> Option<Sample> {
        let of = |round: &Round| Some(times(round, variant)?.seconds[pattern] * 1e3);
        sample(self.0.iter().filter_map(of).collect())
    }

    /// How many times as fast as plainly, round by round.
    pub(super) fn speedup(&self, variant: Variant, pattern: usize) -> Option<Sample> {
        let of = |round: &Round| Some(round.plain.seconds[pattern] / times(round, variant)?.seconds[pattern]);
        sample(self.0.iter().filter_map(of).collect())
    }

    /// Operations that the ranks did together with the library, all rounds together.
    pub(super) fn transformed(&self) -> u64 {
        self.0.iter().filter_map(|round| Some(round.library.as_ref()?.transformed)).sum()
    }
}

fn has_library(job: &Job<'_>) -> bool {
    library(job.mpi).is_some()
}

pub(super) fn times(round: &Round, variant: Variant) -> Option<&Times> {
    match variant {
        Variant::Plain => Some(&round.plain),
        Variant::Library => round.library.as_ref(),
        Variant::AtOnce => round.at_once.as_ref(),
        Variant::Twin => round.twin.as_ref(),
    }
}

fn sample(values: Vec<f64>) -> Option<Sample> {
    (!values.is_empty()).then(|| Sample::new(values))
}

/// A median, or `-`.
pub(super) fn median(sample: Option<Sample>, decimals: usize) -> String {
    sample.map_or_else(|| "-".into(), |sample| format!("{:.decimals$}", sample.median()))
}

/// A median with its spread, or `-`.
pub(super) fn spread(sample: Option<Sample>) -> String {
    sample.map_or_else(|| "-".into(), |sample| format!("{:.2} ({})", sample.median(), sample.spread()))
}
