//! Options of how a node's ranks are made.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::reseed;
use crate::options::headings::RANKS;

/// Limit of the list of modules, in bytes.
const IMPORTS_BYTES_MAX: usize = 900;

/// How a node's ranks are made.
#[derive(Clone, Debug, Default, Args)]
pub struct RankOptions {
    /// How the processes of a node are made: exec, or zygote: the program is started once on each node, and its
    /// processes are forked from that [default: exec, or zygote with --warm-imports]
    #[arg(long, value_name = "HOW", env = "HEADWATER_RANKS_FROM", value_enum, hide_possible_values = true,
          help_heading = RANKS)]
    pub ranks_from: Option<RanksFrom>,

    /// What a Python program imports once on each node, such as numpy,torch: its processes begin with that, and with
    /// random numbers of their own. The seed of hash() is the same in all, unless PYTHONHASHSEED sets it
    #[arg(long, value_name = "MODULES", env = "HEADWATER_WARM_IMPORTS", value_parser = parse_imports,
          help_heading = RANKS)]
    pub warm_imports: Option<String>,

    /// How each process reseeds modules that draw random numbers as they are imported: lines MODULE: STATEMENT. Those
    /// that are neither named here nor known are imported by each process itself
    #[arg(long, value_name = "FILE", env = "HEADWATER_WARM_RESEED", value_parser = reseed::parse,
          value_hint = ValueHint::FilePath, help_heading = RANKS)]
    pub warm_reseed: Option<PathBuf>,
}

/// How a node's ranks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RanksFrom {
    /// Each executes the program.
    Exec,
    /// They are forked from one process that has done the program's start.
    Zygote,
}

impl RankOptions {
    /// Returns these options as arguments of `headwater exec`.
    pub fn arguments(&self) -> Vec<OsString> {
        let is_wanted = self.ranks_from.map_or(self.warm_imports.is_some(), |from| from == RanksFrom::Zygote);
        let imports = self.warm_imports.iter().flat_map(|imports| [OsString::from("--imports"), imports.into()]);
        let table = self.warm_reseed.iter().filter(|_| self.warm_imports.is_some());
        let table = table.flat_map(|table| [OsString::from("--reseed"), table.into()]);
        let arguments = [OsString::from("--zygote")].into_iter().chain(imports).chain(table);
        if is_wanted { arguments.collect() } else { Vec::new() }
    }
}

/// Names of modules, separated by commas.
fn parse_imports(text: &str) -> Result<String, String> {
    let is_part = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_module = |name: &str| name.split('.').all(is_part);
    if !text.split(',').all(is_module) {
        Err("name modules, separated by commas, such as numpy,torch.nn".into())
    } else if text.len() > IMPORTS_BYTES_MAX {
        Err(format!("the names have more than {IMPORTS_BYTES_MAX} bytes together: name fewer modules"))
    } else {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Ranks {
        #[command(flatten)]
        options: RankOptions,
    }

    #[test]
    fn imports_want_a_zygote_unless_exec_is_named() {
        let arguments = |arguments: &[&str]| {
            let all = ["ranks"].iter().chain(arguments);
            Ranks::parse_from(all).options.arguments()
        };
        assert_eq!(arguments(&[]), [""; 0]);
        assert_eq!(arguments(&["--ranks-from", "zygote"]), ["--zygote"]);
        assert_eq!(arguments(&["--warm-imports", "numpy,a_b.c"]), ["--zygote", "--imports", "numpy,a_b.c"]);
        assert_eq!(arguments(&["--warm-imports", "numpy", "--ranks-from", "exec"]), [""; 0]);
        for wrong in ["", "numpy,", "numpy torch", "a..b", "os;x", &"a".repeat(901)] {
            assert!(parse_imports(wrong).is_err(), "{wrong}");
        }
    }
}
