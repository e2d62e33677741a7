//! File systems and traces that come with Headwater.

use crate::{FileSystem, ParameterError, Trace, TraceError};

const FILE_SYSTEMS: [(&str, &str); 3] = [
    ("lustre", include_str!("../data/lustre.toml")),
    ("nfs", include_str!("../data/nfs.toml")),
    ("gpfs", include_str!("../data/gpfs.toml")),
];
const TRACES: [(&str, &str); 2] = [
    ("import-numpy", include_str!("../data/import-numpy.trace")),
    ("import-scipy-stats", include_str!("../data/import-scipy-stats.trace")),
];

impl FileSystem {
    /// Returns the file system with this name: `lustre`, `nfs` or `gpfs`.
    pub fn named(name: &str) -> Option<Result<FileSystem, ParameterError>> {
        FILE_SYSTEMS.iter().find(|(known, _)| *known == name).map(|(_, text)| FileSystem::parse(text))
    }
}

impl Trace {
    /// Returns the trace with this name: `import-numpy`, `import-scipy-stats`, or one that is generated, such
    /// as `pynamic:280:215`.
    pub fn named(name: &str) -> Option<Result<Trace, TraceError>> {
        let recorded = TRACES.iter().find(|(known, _)| *known == name).map(|(_, text)| Trace::parse(text));
        recorded.or_else(|| Trace::generate(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_can_be_used() {
        for (name, _) in FILE_SYSTEMS {
            assert!(FileSystem::named(name).is_some_and(|system| system.is_ok()), "{name}");
        }
        for (name, _) in TRACES {
            let trace = Trace::named(name).unwrap().unwrap();
            assert!(trace.files() > 50 && crate::without_headwater(&trace, &machine(), 1).is_ok(), "{name}");
        }
        assert!(Trace::named("pynamic:x").is_some_and(|trace| trace.is_err()));
        assert!(Trace::named("other").is_none() && FileSystem::named("other").is_none());
    }

    fn machine() -> crate::Machine {
        crate::Machine { network: crate::Network::default(), file_system: FileSystem::default(), processes: 1, seed: 1 }
    }
}
