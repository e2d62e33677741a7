//! Loads the workload and the model from names and files.

use std::fs;

use anyhow::{Context, Result, bail};
use headwater_model::{FileSystem, Machine, Network, Trace};

use super::options::SetupOptions;

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
    let file_system = match FileSystem::named(&options.fs) {
        Some(system) => system,
        None => FileSystem::parse(&read("--fs", &options.fs, "lustre, nfs and gpfs are built in")?),
    };
    let file_system = file_system.with_context(|| format!("--fs {}", options.fs))?;
    let built_in = "import-numpy, import-scipy-stats and pynamic:MODULES:UTILITIES are built in";
    let trace = match Trace::named(&options.trace) {
        Some(trace) => trace,
        None => Trace::parse(&read("--trace", &options.trace, built_in)?),
    };
    let mut trace = trace.with_context(|| format!("--trace {}", options.trace))?;
    if !options.shared.is_empty() {
        let directory = |text: &String| {
            let path = headwater_abi::Path::new(text.as_bytes());
            path.with_context(|| format!("--shared {text}: give an absolute path"))
        };
        trace.retain_within(&options.shared.iter().map(directory).collect::<Result<Vec<_>>>()?);
        if trace.lookups.is_empty() {
            bail!("--trace {} has no look-up in {}", options.trace, options.shared.join(":"));
        }
    }
    let machine = Machine { network, file_system, processes: options.ppn, seed: options.seed };
    Ok((trace, machine))
}

fn read(option: &str, path: &str, built_in: &str) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("{option} {path} can't be read; {built_in}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
