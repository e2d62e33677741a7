//! Loads the workload and the model from names and files.

use std::fs;

use anyhow::{Context, Result, bail};
use headwater_abi::Path;
use headwater_model::{Machine, Network, Trace};

use super::inputs::{directories, file_system};
use super::options::SetupOptions;
use crate::explain::{self, recorded};

/// Loads the trace and the model that the options name.
///
/// # Errors
/// A file can't be read or is malformed.
pub fn load(options: &SetupOptions) -> Result<(Trace, Machine)> {
    let network = match &options.network {
        Some(path) => {
            let text =
                fs::read_to_string(path).with_context(|| format!("--network {} can't be read", path.display()))?;
            Network::parse(&text).with_context(|| format!("--network {}", path.display()))?
        }
        None => Network::default(),
    };
    let file_system = file_system(&options.fs)?;
    let shared = directories(&options.shared)?;
    let trace = trace(&options.trace, &shared)?;
    if trace.lookups.is_empty() {
        bail!("--trace {} has no look-up in {}", options.trace, options.shared.join(":"));
    }
    let machine = Machine { network, file_system, processes: options.ppn, seed: options.seed };
    Ok((trace, machine))
}

/// Loads a trace: a built-in one, a record, or a trace's file; with the part in these directories, if there are any.
fn trace(named: &str, shared: &[Path]) -> Result<Trace> {
    let built_in = "import-numpy, import-scipy-stats and pynamic:MODULES:UTILITIES are built in";
    if let Some(trace) = Trace::named(named) {
        let mut trace = trace.with_context(|| format!("--trace {named}"))?;
        if !shared.is_empty() {
            trace.retain_within(shared);
        }
        return Ok(trace);
    }
    let bytes = fs::read(named).with_context(|| format!("--trace {named} can't be read; {built_in}"))?;
    if recorded::is_record(&bytes) {
        let (record, _) = recorded::read(named.as_ref())?;
        return Ok(explain::trace_of(record, shared));
    }
    Trace::parse_within(&String::from_utf8_lossy(&bytes), shared).with_context(|| format!("--trace {named}"))
}
