//! How many libraries, and how large.

/// How many libraries, and how large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Python's extension modules.
    pub modules: usize,
    /// Libraries that they are linked with.
    pub utilities: usize,
    /// Functions of each.
    pub functions: usize,
    /// Bytes of code of each.
    pub code_bytes: usize,
    /// Bytes of each that nothing loads.
    pub unloaded_bytes: usize,
}

impl Plan {
    /// As SPINDLE's paper has it (4.2, 4.3), the sizes divided by `divisor`: 495 libraries, 1.1 GB, of which
    /// 488 MB are loaded.
    pub fn paper(divisor: usize) -> Plan {
        let (modules, utilities) = (280, 215);
        let libraries = modules + utilities;
        let (loaded, all) = (488_000_000 / libraries / divisor, 1_100_000_000 / libraries / divisor);
        Plan { modules, utilities, functions: 96, code_bytes: loaded, unloaded_bytes: all - loaded }
    }

    /// All libraries.
    pub fn libraries(&self) -> usize {
        self.modules + self.utilities
    }
}
