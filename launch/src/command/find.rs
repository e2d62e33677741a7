//! Finding the programs of a command.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::{Error, NESTED_MAX};
use super::family::{Kind, identify, is_launcher_name};
use super::files::{Format, rewrite};
use super::grammar::{Grammar, Scan, Span};
use super::line::Line;
use super::prepared::{Prepared, Replacement, list};
use super::table::{self, WRAPPERS, Wrapper};
use super::world::World;
use crate::Launcher;

/// Prepares a command as [`super::prepare`] without a marker.
pub fn find(arguments: &[OsString], prefix: &[OsString], world: &dyn World) -> Result<Prepared, Error> {
    let mut finder = Finder { prefix, ..Finder::default() };
    let line = Line { arguments, start: 0, end: arguments.len(), world };
    if !finder.command(line, 0)? {
        finder.programs.push(0);
    }
    Ok(finder.prepared(arguments))
}

/// Returns the error of a launcher whose programs are in a script.
fn script(launcher: String) -> Error {
    let has_plugin = Path::new(&launcher).file_name().is_some_and(|name| name == "sbatch");
    let instead = if has_plugin {
        "; where Slurm has Headwater's plugin, `sbatch --headwater` serves all steps of the script (docs/operate/slurm.md)"
    } else {
        ""
    };
    Error::Script { launcher, instead }
}

/// Returns the error of programs in a launcher's own containers: these may lack Headwater's files, without
/// which the programs would not start.
fn in_a_container(line: &Line<'_>, option: &'static str) -> Error {
    let why = "has the programs start inside of a container, where headwater need not be: start the container's \
               command with the launcher (as `srun apptainer exec IMAGE PROGRAM`), or, if the container has \
               headwater's and the job's directories, put @ right before the program and say `headwater run --marker @`";
    Error::Refused { launcher: line.launcher(), option, why }
}

#[derive(Default)]
struct Finder<'a> {
    prefix: &'a [OsString],
    /// The programs' numbers among the arguments, in order.
    programs: Vec<usize>,
    files: Vec<Replacement>,
    /// The innermost launcher, and the number of its argument.
    launcher: Option<(Launcher, usize)>,
    is_detached: bool,
    is_on_all_hosts: bool,
}

impl Finder<'_> {
    /// Examines a command. Returns whether it is a launcher; if not, it is a program.
    fn command(&mut self, line: Line<'_>, depth: usize) -> Result<bool, Error> {
        let Some(start) = behind_wrappers(line)? else { return Ok(false) };
        let line = Line { start, ..line };
        let Some(kind) = identify(&line, start)? else { return Ok(false) };
        if depth > NESTED_MAX {
            return Err(Error::Nested);
        }
        match kind {
            Kind::Srun => self.components(line, &table::SRUN, Launcher::Slurm, depth)?,
            Kind::OpenMpi => self.components(line, &table::OPEN_MPI, Launcher::OpenMpi, depth)?,
            Kind::Prrte => self.components(line, &table::PRRTE, Launcher::Prrte, depth)?,
            Kind::Hydra => self.components(line, &table::HYDRA, Launcher::Hydra, depth)?,
            Kind::Pals => self.components(line, &table::PALS, Launcher::Pals, depth)?,
            Kind::Aprun => self.components(line, &table::APRUN, Launcher::Pals, depth)?,
            Kind::Salloc => self.salloc(line, depth)?,
            Kind::Flux => self.flux(line, depth)?,
            Kind::Pbsdsh => self.pbsdsh(line, depth)?,
            Kind::Jsrun => self.jsrun(line, depth)?,
            Kind::Script => return Err(script(line.launcher())),
            Kind::Unsupported | Kind::Several => return Err(Error::Unsupported { launcher: line.launcher() }),
        }
        Ok(true)
    }

    /// Examines a launcher whose programs are separated by colons, each behind options.
    fn components(
        &mut self,
        line: Line<'_>,
        grammar: &'static Grammar,
        launcher: Launcher,
        depth: usize,
    ) -> Result<(), Error> {
        let mut at = line.start + 1;
        let (programs, files) = (self.programs.len(), self.files.len());
        while at < line.end {
            let component = line.component(at);
            let scan = grammar.scan(&component, at)?;
            if let Some(option) = table::CONTAINERS.into_iter().find(|name| scan.option(name).is_some()) {
                return Err(in_a_container(&line, option));
            }
            self.is_detached |= scan.option("async").is_some();
            let is_file = self.files_of(&component, &scan, grammar, launcher)?;
            if let Some(program) = scan.program.filter(|_| !is_file) {
                self.started(component, program, launcher, depth)?;
            }
            at = component.end + 1;
        }
        if self.programs.len() == programs && self.files.len() == files {
            return Err(Error::NoProgram { launcher: line.launcher() });
        }
        Ok(())
    }

    /// Examines a program that `launcher` starts, and that may itself be a launcher.
    fn started(&mut self, line: Line<'_>, program: usize, launcher: Launcher, depth: usize) -> Result<(), Error> {
        if !self.command(Line { start: program, ..line }, depth + 1)? {
            self.launcher = Some((launcher, line.start));
            self.programs.push(program);
        }
        Ok(())
    }

    /// Examines the files in which a launcher names programs. Returns whether one is in the program's
    /// position.
    fn files_of(
        &mut self,
        line: &Line<'_>,
        scan: &Scan,
        grammar: &'static Grammar,
        launcher: Launcher,
    ) -> Result<bool, Error> {
        let named = scan.option("app").or(scan.option("configfile"));
        let ranks = scan.option("multi-prog").is_some();
        if let Some(span) = named.and_then(|option| option.value) {
            let colons = matches!(launcher, Launcher::Prrte | Launcher::Hydra);
            let continues = launcher == Launcher::Hydra;
            self.replace(line, span, Format::Options { grammar, colons, continues })?;
            self.launcher = Some((launcher, line.start));
        }
        if let Some(argument) = scan.program.filter(|_| ranks) {
            self.replace(line, Span { argument, start: 0 }, Format::Ranks)?;
            self.launcher = Some((launcher, line.start));
        }
        Ok(ranks)
    }

    fn replace(&mut self, line: &Line<'_>, span: Span, format: Format) -> Result<(), Error> {
        let original = PathBuf::from(OsStr::from_bytes(&line.bytes(span.argument)[span.start..]));
        let failed = |cause| Error::File { launcher: line.launcher(), file: original.clone(), cause };
        let text = line.world.read(&original).map_err(failed)?;
        let text = rewrite(&text, format, self.prefix, &original, line.world)?;
        self.files.push(Replacement { original, text, argument: span.argument, start: span.start });
        Ok(())
    }

    /// Examines `salloc OPTIONS [: OPTIONS]… COMMAND`. A colon in the command is the command's.
    fn salloc(&mut self, line: Line<'_>, depth: usize) -> Result<(), Error> {
        let mut at = line.start + 1;
        let command = loop {
            match table::SALLOC.scan(&line, at)?.program {
                Some(colon) if line.bytes(colon) == b":" => at = colon + 1,
                command => break command,
            }
        };
        self.launchers_command(line, command, depth)
    }

    /// Examines the command of a launcher that makes an allocation: it must be a launcher.
    fn launchers_command(&mut self, line: Line<'_>, command: Option<usize>, depth: usize) -> Result<(), Error> {
        let command = command.ok_or_else(|| Error::NoProgram { launcher: line.launcher() })?;
        if self.command(Line { start: command, ..line }, depth + 1)? {
            return Ok(());
        }
        Err(Error::NoLauncher { launcher: line.launcher(), program: line.text(command) })
    }

    /// Examines `flux OPTIONS SUBCOMMAND …`.
    fn flux(&mut self, line: Line<'_>, depth: usize) -> Result<(), Error> {
        let nothing = || Error::NoProgram { launcher: line.launcher() };
        let mut at = table::FLUX.scan(&line, line.start + 1)?.program.ok_or_else(nothing)?;
        if line.bytes(at) == b"mini" {
            at += 1;
        }
        let subcommand = if at < line.end { line.bytes(at) } else { return Err(nothing()) };
        let behind = |grammar: &Grammar| grammar.scan(&line, at + 1).map(|scan| scan.program);
        match subcommand {
            b"run" | b"submit" | b"bulksubmit" => {
                let scan = table::FLUX_RUN.scan(&line, at + 1)?;
                let waits = subcommand == b"run" || ["wait", "watch"].iter().any(|name| scan.option(name).is_some());
                self.is_detached |= !waits;
                self.started(line, scan.program.ok_or_else(nothing)?, Launcher::Flux, depth)
            }
            b"alloc" => self.launchers_command(line, behind(&table::FLUX_ALLOC)?, depth),
            b"start" => self.launchers_command(line, behind(&table::FLUX_START)?, depth),
            b"proxy" => {
                let command = behind(&table::FLUX_PROXY)?.map(|job| job + 1).filter(|&command| command < line.end);
                self.launchers_command(line, command, depth)
            }
            b"batch" => Err(script(format!("{} batch", line.launcher()))),
            _ => Err(Error::Unsupported { launcher: format!("{} {}", line.launcher(), line.text(at)) }),
        }
    }

    fn jsrun(&mut self, line: Line<'_>, depth: usize) -> Result<(), Error> {
        let scan = table::JSRUN.scan(&line, line.start + 1)?;
        let refuse = |option, why| Err(Error::Refused { launcher: line.launcher(), option, why });
        if scan.option("appfile").is_some() {
            return refuse("--appfile", "names a file with programs, which is not examined: start each by itself");
        }
        match scan.program {
            Some(program) => self.started(line, program, Launcher::Jsm, depth),
            None if scan.option("erf_input").is_some() => refuse(
                "--erf_input",
                "names a file with programs, which is not examined: leave them out of it, and give the program \
                 behind the options",
            ),
            None if scan.option("allocate_only").is_some() => {
                refuse("--allocate_only", "starts nothing: put `headwater run --` before the jsrun that does")
            }
            None => Err(Error::NoProgram { launcher: line.launcher() }),
        }
    }

    fn pbsdsh(&mut self, line: Line<'_>, depth: usize) -> Result<(), Error> {
        let scan = table::PBSDSH.scan(&line, line.start + 1)?;
        self.is_detached |= scan.option("no_obit").is_some();
        self.is_on_all_hosts = ["copies", "host", "node"].iter().all(|name| scan.option(name).is_none());
        let program = scan.program.ok_or_else(|| Error::NoProgram { launcher: line.launcher() })?;
        self.started(line, program, Launcher::Pbs, depth)
    }

    fn prepared(self, arguments: &[OsString]) -> Prepared {
        let explanation = self.explanation(arguments);
        let mut prepared = Vec::with_capacity(arguments.len() + self.programs.len() * self.prefix.len());
        for (number, argument) in arguments.iter().enumerate() {
            if self.programs.binary_search(&number).is_ok() {
                prepared.extend_from_slice(self.prefix);
            }
            prepared.push(argument.clone());
        }
        let mut files = self.files;
        for file in &mut files {
            let before = self.programs.partition_point(|&program| program <= file.argument);
            file.argument += before * self.prefix.len();
        }
        let launcher = self.launcher.map(|(launcher, _)| launcher);
        Prepared {
            arguments: prepared,
            files,
            launcher,
            is_detached: self.is_detached,
            is_on_all_hosts: self.is_on_all_hosts && launcher == Some(Launcher::Pbs),
            explanation,
        }
    }

    fn explanation(&self, arguments: &[OsString]) -> String {
        let Some((launcher, argument)) = self.launcher else {
            return format!("{} is no launcher that is known here, so it is the program", arguments[0].display());
        };
        let mut named: Vec<&OsStr> = self.programs.iter().map(|&program| arguments[program].as_os_str()).collect();
        let files: Vec<OsString> = self.files.iter().map(|file| in_file(&file.original)).collect();
        named.extend(files.iter().map(OsString::as_os_str));
        format!("{} ({launcher}) starts {}", arguments[argument].display(), list(&named))
    }
}

fn in_file(file: &Path) -> OsString {
    format!("the programs in {}", file.display()).into()
}

/// Returns where the command behind wrappers begins; `None` if there is none.
///
/// # Errors
/// [`Error::Wrapper`] if that isn't clear and a launcher seems to stand there.
fn behind_wrappers(line: Line<'_>) -> Result<Option<usize>, Error> {
    let mut at = line.start;
    while let Some(wrapper) = wrapper(&line, at) {
        let here = Line { start: at, ..line };
        match behind(&here, wrapper) {
            Some(command) => at = command,
            None if (at + 1..line.end).any(|argument| mentions_launcher(line.bytes(argument))) => {
                return Err(Error::Wrapper { wrapper: here.launcher() });
            }
            None => return Ok(None),
        }
    }
    Ok((at < line.end).then_some(at))
}

fn wrapper(line: &Line<'_>, at: usize) -> Option<&'static Wrapper> {
    let name = line.arguments.get(at).filter(|_| at < line.end).map(Path::new)?.file_name()?;
    WRAPPERS.iter().find(|wrapper| OsStr::new(wrapper.name) == name)
}

/// Returns where a wrapper's command begins, if its options are known.
fn behind(line: &Line<'_>, wrapper: &Wrapper) -> Option<usize> {
    let mut at = wrapper.grammar.scan_known(line, line.start + 1)? + wrapper.operands;
    if wrapper.assigns {
        // `env -` is `env -i`.
        let is_passed = |argument: &[u8]| argument == b"-" || argument.contains(&b'=');
        while at < line.end && is_passed(line.bytes(at)) {
            at += 1;
        }
    }
    (at < line.end).then_some(at)
}

/// Returns whether an argument has a launcher's name, or is a command that has one.
fn mentions_launcher(argument: &[u8]) -> bool {
    argument.split(u8::is_ascii_whitespace).any(|part| is_launcher_name(OsStr::from_bytes(part)))
}
