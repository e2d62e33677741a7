//! Tests of the front and of the generated wrappers: real programs of each installed MPI, with a core that prints each
//! call.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build::{Built, LIBRARY, SOURCES, TRACE, Tables, build_into};
use super::mpis::{self, Found};
use super::wrappers::Hand;
use crate::cc;
use crate::shell::{Shell, display};
use crate::test::Tally;

const SECONDS_MAX: u64 = 120;
/// Programs of other projects that run with the front.
const UNSUPPORTED: [(&str, &[&str]); 2] = [
    ("bash", &["-c", "x=$(echo 1 | cat); (exit 3); echo $x$?"]),
    (
        "python3",
        &["-c", "import subprocess as s; print(s.run('echo 1', shell=True, capture_output=True).stdout[0] - 36)"],
    ),
];

/// The tests' common state.
struct Bench<'a> {
    shell: &'a Shell,
    /// The build directory.
    directory: PathBuf,
    tally: Tally,
}

/// Builds the library with the tracing core, and runs everything with it.
pub fn run(shell: &Shell) -> Result<Tally> {
    let (found, notes) = mpis::find(shell)?;
    let directory = shell.path("target/mpiio-traced");
    let Built { front, .. } = build_into(shell, &directory, &found, (&TRACE, Hand::Traced, &[]), Vec::new())?;
    let mut bench = Bench { shell, directory, tally: Tally::default() };
    bench.check("jumps", jumps(shell, &front));
    bench.without_mpi(&front)?;
    for one in &found {
        bench.with_mpi(one, &front)?;
    }
    for note in notes {
        bench.tally.add(Tally::skipped(note));
    }
    Ok(bench.tally)
}

impl Bench<'_> {
    fn check(&mut self, name: &str, result: Result<()>) {
        self.tally.add(match result {
            Ok(()) => Tally::passed(),
            Err(error) => Tally { output: format!("{error:#}\n"), ..Tally::failed(format!("mpiio {name}")) },
        });
    }

    /// Compiles a test's source with these arguments.
    fn compile(&self, mut compiler: Command, source: &str, made: &str, args: &[&str]) -> Result<PathBuf> {
        let program = self.directory.join("tests").join(made);
        std::fs::create_dir_all(program.parent().context("a program lies in a directory")?)?;
        compiler.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g", "-O1"]).args(args);
        compiler.arg("-o").arg(&program).arg(format!("{SOURCES}/tests/{source}")).args(["-ldl", "-lpthread"]);
        self.shell.run(&mut compiler)?;
        Ok(program)
    }

    /// Runs a program to its end; its output must be exactly this.
    fn expect(&self, command: &mut Command, preload: &[&Path], output: &str) -> Result<()> {
        let scratch = self.directory.join("tests/scratch");
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch)?;
        }
        std::fs::create_dir_all(&scratch)?;
        let preload: Vec<String> = preload.iter().map(|path| path.display().to_string()).collect();
        command.env("LD_PRELOAD", preload.join(":")).env("HEADWATER_TRACE", scratch.join("trace"));
        let finished = self.shell.capture_limited(command, SECONDS_MAX)?;
        let shown = display(command, &self.shell.root);
        ensure!(finished.status.success(), "{}{}: {shown}", finished.output, finished.status);
        ensure!(finished.output == output, "it wrote {:?}, not {output:?}: {shown}", finished.output);
        Ok(())
    }

    fn without_mpi(&mut self, front: &Path) -> Result<()> {
        let plain = self.compile(cc::compiler(self.shell), "plain.c", "plain", &[])?;
        let scratch = self.directory.join("tests/scratch");
        let result = self.expect(self.shell.command(&plain).arg(&scratch), &[front], "");
        self.check("plain", result);
        for (program, args) in UNSUPPORTED {
            let result = self.expect(self.shell.command(program).args(args), &[front], "13\n");
            self.check(program, result);
        }
        Ok(())
    }

    fn with_mpi(&mut self, found: &Found, front: &Path) -> Result<()> {
        let name = found.mpi.name;
        let Some((directory, ending)) = &found.commands else {
            self.tally.add(Tally::skipped(format!("mpiio {name}: it is not installed, only its headers are there")));
            return Ok(());
        };
        let compiler = || self.shell.command(directory.join(format!("mpicc{ending}")));
        let made = |what: &str| format!("{name}-{what}");
        let calls = self.compile(compiler(), "calls.c", &made("calls"), &[])?;
        let alone = self.compile(compiler(), "alone.c", &made("alone"), &[])?;
        let tool = self.compile(compiler(), "tool.c", &made("tool.so"), &["-DTOOL", "-shared", "-fPIC"])?;
        let tooled = self.compile(compiler(), "tool.c", &made("tooled"), &[])?;
        let plugin = self.compile(compiler(), "plugin.c", &made("plugin.so"), &["-DPLUGIN", "-shared", "-fPIC"])?;
        let host = self.compile(cc::compiler(self.shell), "plugin.c", "host", &[])?;
        // A front that has no variants beside it.
        let lonely = self.directory.join("lonely").join(LIBRARY);
        crate::files::copy_if_changed(front, &lonely)?;
        let missing = self.directory.join(format!("lonely/headwater/mpiio-{name}.so"));
        let expected = format!(
            "headwater: this program's I/O is left as it is: no build for this MPI can be loaded: {}\n",
            missing.display()
        );
        let ran = |program: &Path| ready(self.shell.command(program), found);
        let set = |program: &Path, mode: &str, rank: &str| {
            let mut command = ran(program);
            command.env("HEADWATER_IO", mode).env("FLUX_TASK_RANK", rank);
            command
        };
        let results = [
            ("calls", self.expect(&mut ran(&calls), &[front], "")),
            ("plug-in", self.expect(ran(&host).arg(&plugin), &[front], "")),
            ("tool", self.expect(&mut ran(&tooled), &[front, &tool], "")),
            ("off", self.expect(&mut set(&alone, "off", "0"), &[front], "")),
            ("no variant", self.expect(&mut ran(&alone), &[&lonely], "")),
            ("no variant, on request", self.expect(&mut set(&alone, "auto", "0"), &[&lonely], &expected)),
            ("no variant, another rank", self.expect(&mut set(&alone, "auto", "1"), &[&lonely], "")),
        ];
        for (what, result) in results {
            self.check(&format!("{name} {what}"), result);
        }
        Ok(())
    }
}

/// A command of this MPI's, as a process that no launcher has started.
fn ready(mut command: Command, found: &Found) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["OMPI_COMM_", "PMIX_", "PMI_", "SLURM_", "PALS_", "FLUX_", "JSM_", "HEADWATER_"]
            .iter()
            .any(|p| text.starts_with(p))
        {
            command.env_remove(&name);
        }
    }
    if let Some((directory, "")) = &found.commands {
        command.env("LD_LIBRARY_PATH", directory.with_file_name("lib"));
    }
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT"] {
        command.env(name, "1");
    }
    command.env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // It complains where there is no such network.
    command.env("OMPI_MCA_osc", "^ucx");
    command
}

/// Every stub ends in a jump: the function behind sees the caller's return address.
fn jumps(shell: &Shell, front: &Path) -> Result<()> {
    if cfg!(not(target_arch = "x86_64")) {
        return Ok(());
    }
    let listing = shell.run(shell.command("objdump").args(["-d", "--no-show-raw-insn"]).arg(front))?;
    let tables = Tables::read(shell)?;
    for function in tables.mpi.iter().filter(|function| !function.is_new).chain(&tables.libc) {
        let start = format!(" <{}>:\n", function.name);
        let (_, body) = listing.split_once(&start).with_context(|| format!("no stub of {}", function.name))?;
        let body = body.split("\n\n").next().unwrap_or(body);
        ensure!(!body.contains("\tcall") && body.contains("jmp    *"), "the stub of {} calls:\n{body}", function.name);
    }
    Ok(())
}
