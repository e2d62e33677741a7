//! The workloads' software: the interpreter with its packages, and Pynamic's libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use crate::pynamic::Plan;

const PACKAGES: [&str; 5] = ["numpy", "scipy", "pandas", "mpich", "mpi4py"];
/// An interpreter as if it were installed there: its program, its standard library and packages, without what is never
/// imported. `sh -euc SCRIPT sh DIRECTORY PACKAGE…`
const INSTALL: &str = r#"
directory=$1
shift
system=python3
if [ -x /usr/bin/python3 ]; then system=/usr/bin/python3; fi
rm -rf "$directory"
$system -m venv --copies "$directory"
"$directory/bin/python3" -m pip install --quiet --disable-pip-version-check "$@"
standard=$("$directory/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
cd "$directory"
rm -r pyvenv.cfg lib/python3*/site-packages/pip*
tar -C "$standard" --exclude=./site-packages --exclude=./dist-packages --exclude=./test --exclude='./config-*' -cf - . |
    tar -C lib/python3* -xf -
mv lib/python3*/site-packages packages
find . -depth -type d -name tests -exec rm -r {} +
PYTHONPATH=$directory/packages bin/python3 -c 'import numpy, scipy.stats, pandas, mpi4py.MPI, sys; assert sys.prefix == sys.argv[1]' "$directory"
echo "$@" >complete
"#;

/// The software, in directories that are copied to the volume and into memory.
pub(super) struct Software {
    /// The directories.
    pub(super) directories: Vec<PathBuf>,
    /// The last line of Pynamic.
    pub(super) checksum: String,
    pynamic: Plan,
}

impl Software {
    /// Makes what these workloads need in `directory`, unless it is there.
    pub(super) fn prepare(options: &Options, directory: &Path) -> Result<Software, String> {
        let python = directory.join("python");
        let complete = fs::read_to_string(python.join("complete")).unwrap_or_default();
        if complete.split_whitespace().ne(PACKAGES) {
            println!("installing Python with {} in {}", PACKAGES.join(", "), python.display());
            let mut command = Command::new("sh");
            command.args(["-euc", INSTALL, "sh"]).arg(&python).args(PACKAGES);
            let output = command.output().map_err(|e| format!("sh: {e}"))?;
            if !output.status.success() {
                return Err(format!("{}: {}", python.display(), String::from_utf8_lossy(&output.stderr)));
            }
        }
        let mut directories = vec![python.clone()];
        let pynamic = Plan::paper(options.divisor);
        if options.workloads.iter().any(|workload| workload.starts_with("pynamic")) {
            let libraries = directory.join("pynamic");
            println!("building {} libraries in {}, unless they are there", pynamic.libraries(), libraries.display());
            // The copied interpreter has the path where its headers would be if they had been copied too.
            let named = |path: &&str| Path::new(path).is_file();
            let system = ["/usr/bin/python3"].into_iter().find(named).unwrap_or("python3");
            pynamic.build(&libraries, Path::new(system))?;
            directories.push(libraries);
        }
        Ok(Software { directories, checksum: pynamic.checksum(), pynamic })
    }

    /// The arguments of a workload's program, when what is needed lies below `root`.
    pub(super) fn args(&self, workload: &str, root: &Path) -> Vec<String> {
        let python = root.join("python/bin/python3").display().to_string();
        let driver = || root.join("pynamic/driver.py").display().to_string();
        match workload {
            "launch" => vec!["/bin/true".into()],
            "pynamic" => vec![python, driver(), self.pynamic.modules.to_string()],
            "pynamic-mpi" => vec![python, driver(), self.pynamic.modules.to_string(), "--mpi".into()],
            module => vec![python, "-c".into(), format!("import {module}")],
        }
    }
}

/// The variables of all programs, when what is needed lies below `root`.
pub(super) fn variables(root: &Path) -> [(&'static str, String); 3] {
    let packages = root.join("python/packages").display().to_string();
    // A library of numpy's starts threads otherwise, as many as there are processors.
    [("PYTHONPATH", packages), ("PYTHONDONTWRITEBYTECODE", "1".into()), ("OPENBLAS_NUM_THREADS", "1".into())]
}
