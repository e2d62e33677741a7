//! The launchers' options.

mod flux;
mod hydra;
mod jsrun;
mod openmpi;
mod pals;
mod pbs;
mod prrte;
mod slurm;
mod wrappers;

pub use flux::{FLUX, FLUX_ALLOC, FLUX_PROXY, FLUX_RUN, FLUX_START};
pub use hydra::HYDRA;
pub use jsrun::JSRUN;
pub use openmpi::OPEN_MPI;
pub use pals::{APRUN, PALS};
pub use pbs::PBSDSH;
pub use prrte::PRRTE;
pub use slurm::{CONTAINERS, SALLOC, SRUN};
pub use wrappers::{WRAPPERS, Wrapper};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::grammar::Grammar;
    use super::*;

    fn check(grammar: &Grammar) {
        let lists = [grammar.flags, grammar.values, grammar.joined, grammar.twos, grammar.pairs, grammar.perhaps];
        let mut names = BTreeSet::new();
        for name in lists.into_iter().flatten().flat_map(|names| names.split(' ')) {
            assert!(!name.is_empty() && !name.starts_with('-'), "{name}");
            assert!(names.insert(name), "{name} occurs twice");
        }
    }

    #[test]
    fn no_option_occurs_twice() {
        [SRUN, SALLOC, OPEN_MPI, PRRTE, HYDRA, PALS, APRUN, JSRUN, PBSDSH].iter().for_each(check);
        [FLUX, FLUX_RUN, FLUX_ALLOC, FLUX_START, FLUX_PROXY].iter().for_each(check);
        WRAPPERS.iter().for_each(|wrapper| check(&wrapper.grammar));
    }
}
