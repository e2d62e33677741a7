//! The workloads' software: the interpreter with its packages, and Pynamic's libraries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::options::Options;
use crate::bench::torch::environment;
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

/// Of an environment with torch, an interpreter as above with what `import torch` reads alone.
/// `PYTHON -c SCRIPT DIRECTORY`
const TORCH: &str = r#"
import importlib.util, os, shutil, sys, sysconfig
opened, destination = set(), sys.argv[1]
sys.addaudithook(lambda event, args: opened.add(args[0]) if event == 'open' and isinstance(args[0], str) else None)
import torch
with open('/proc/self/maps') as maps: opened.update(line.split(maxsplit=5)[5].rstrip() for line in maps if '/' in line)
sources = [importlib.util.source_from_cache(path) for path in opened if path.endswith('.pyc')]
standard, packages = sysconfig.get_path('stdlib'), sysconfig.get_path('purelib')
# It is looked up, not opened.
used = opened.union(sources, [os.path.join(packages, 'torch/bin/torch_shm_manager')])
names = shutil.ignore_patterns('site-packages', 'dist-packages', 'test', 'config-*')
shutil.rmtree(destination, ignore_errors=True)
shutil.copytree(standard, os.path.join(destination, 'lib', os.path.basename(standard)), ignore=names)
os.mkdir(os.path.join(destination, 'bin'))
shutil.copy2(os.path.realpath(sys.executable), os.path.join(destination, 'bin/python3'))
for path in used:
    if os.path.commonpath([packages, os.path.abspath(path)]) == packages and os.path.isfile(path):
        to = os.path.join(destination, 'packages', os.path.relpath(path, packages))
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy2(path, to)
open(os.path.join(destination, 'complete'), 'w').close()
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
        if options.workloads.contains(&"torch") {
            directories.push(torch(directory)?);
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
            "torch" => {
                let [python, packages] = ["bin/python3", "packages"].map(|name| root.join("torch").join(name));
                let script =
                    format!("import sys; sys.path.insert(1, {:?}); import torch", packages.display().to_string());
                vec![python.display().to_string(), "-c".into(), script]
            }
            module => vec![python, "-c".into(), format!("import {module}")],
        }
    }
}

/// Makes the directory of torch below `directory`, unless it is there.
fn torch(directory: &Path) -> Result<PathBuf, String> {
    let torch = directory.join("torch");
    if !torch.join("complete").exists() {
        println!("copying what torch reads to {}", torch.display());
        let mut command = Command::new(environment()?.join("bin/python3"));
        let output = command.args(["-c", TORCH]).arg(&torch).output().map_err(|e| format!("python3: {e}"))?;
        if !output.status.success() {
            return Err(format!("{}: {}", torch.display(), String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(torch)
}

/// The variables of all programs, when what is needed lies below `root`.
pub(super) fn variables(root: &Path) -> [(&'static str, String); 3] {
    let packages = root.join("python/packages").display().to_string();
    // A library of numpy's starts threads otherwise, as many as there are processors.
    [("PYTHONPATH", packages), ("PYTHONDONTWRITEBYTECODE", "1".into()), ("OPENBLAS_NUM_THREADS", "1".into())]
}
