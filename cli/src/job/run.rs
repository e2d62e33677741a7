//! `headwater run` with a launcher.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use headwater_abi::wire;
use headwater_closure::program;
use headwater_closure::scope::Scope;
use headwater_launch::command::{Prepared, World, prepare};

use super::file::{Job, Service};
use super::front::Front;
use super::watch::Watch;
use crate::daemons::own_executable;
use crate::launch::{self, Processes};
use crate::message::{say, show};
use crate::opened::Opened;
use crate::options::RunOptions;
use crate::run::{discover, report, wait};
use crate::serving::WHOLE_FILE_BYTES_MAX;
use crate::session::Session;
use crate::signals;
use crate::summary::{Start, Summary};
use crate::via::{Choice, Mechanism, Program, Via};

/// Stands for the prefix while that is not known.
const PLACEHOLDER: &str = "headwater exec";

/// The command line of a launcher, if the command begins with one.
///
/// # Errors
/// It is a launcher's, and it is not clear where the program stands.
pub fn find(options: &RunOptions) -> Result<Option<Prepared>> {
    let prepared = prepare(&options.program, &[PLACEHOLDER.into()], options.marker.as_deref(), &Words)?;
    Ok(prepared.launcher.is_some().then_some(prepared))
}

/// Runs the launcher and gives its exit status.
pub fn run(options: &RunOptions, found: &Prepared) -> Result<u8> {
    let start = Start::now();
    let cwd = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let opened = Opened::default();
    let (scope, program) = look(options, found, &cwd, &opened);
    if options.show_scope {
        show(io::stdout(), format_args!("{}\n{scope}", found.explanation));
        return Ok(0);
    }
    if options.verbose {
        say(&found.explanation);
        show(io::stderr(), &scope);
    }
    let (sender, events) = channel();
    signals::watch(sender.clone())?;
    let choice = match &program {
        _ if options.via == Via::Off => Choice::off("--via off".into()),
        Some(_) if scope.entries.iter().any(|e| e.included) => {
            Choice { mechanism: Mechanism::Audit, reason: found.explanation.clone() }
        }
        _ => Choice::off("no directory of the program is on a network file system; name some with --shared".into()),
    };
    let mut summary = Summary::new(0, 0, &choice);
    let Some(program) = program.filter(|_| choice.mechanism != Mechanism::Off) else {
        summary.exit_status = wait(start_launcher(&options.program)?, &events, |_| {})?;
        report(options, &summary);
        return Ok(summary.exit_status);
    };
    let (session, key) = Session::draw()?;
    let front = Front::open(session, key.clone(), options.shape.clone(), sender)?;
    let service = service(options, &scope, program);
    let job = Job { version: wire::VERSION, session, key, front: front.addresses.clone(), service };
    let file = job.write(options.job_dir.as_deref())?;
    let mut prefix: Vec<OsString> = vec![own_executable().into(), "exec".into(), "--job".into(), file.path().into()];
    prefix.extend(options.store.iter().flat_map(|store| [OsString::from("--store"), store.into()]));
    prefix.push("--".into());
    let mut prepared = prepare(&options.program, &prefix, options.marker.as_deref(), &Words)?;
    let replaced = replace(&mut prepared, file.path())?;
    let mut watch = Watch::new(options.verbose);
    let launcher = start_launcher(&prepared.words)?;
    summary.exit_status = wait(launcher, &events, |news| watch.note(news, start))?;
    summary.timeline.program_exit = Some(start.elapsed_ms());
    front.end();
    watch.gather(&events, start);
    drop((file, replaced));
    watch.tell(&mut summary, start);
    report(options, &summary);
    Ok(summary.exit_status)
}

/// Runs the command as it is, and gives its exit status.
pub fn run_plainly(options: &RunOptions) -> Result<u8> {
    let (sender, events) = channel();
    signals::watch(sender)?;
    wait(start_launcher(&options.program)?, &events, |_| {})
}

/// The directories of all programs, and what is known of the first.
fn look(options: &RunOptions, found: &Prepared, cwd: &Path, opened: &Opened) -> (Scope, Option<Program>) {
    let behind = found.words.windows(2).filter(|pair| pair[0] == PLACEHOLDER).map(|pair| &pair[1]);
    let path = env::var_os("PATH");
    let files = behind.filter_map(|name| program::find(name, path.as_deref(), cwd).ok());
    let mut all = Scope::default();
    let mut first = None;
    for file in files {
        let scope = discover(options, &file, cwd, opened);
        if first.is_none() {
            let is_in_scope = file.canonicalize().is_ok_and(|canonical| scope.includes(&canonical));
            first = Some(Program::examine(&file, is_in_scope, &|path| opened.open(path)));
        }
        let known: Vec<PathBuf> = all.entries.iter().map(|entry| entry.path.clone()).collect();
        all.entries.extend(scope.entries.into_iter().filter(|entry| !known.contains(&entry.path)));
        all.refused.extend(scope.refused);
    }
    (all, first)
}

fn service(options: &RunOptions, scope: &Scope, program: Program) -> Service {
    Service {
        scope: scope.pairs(),
        program,
        via: options.via,
        policy: options.policy(),
        store: options.store.clone(),
        store_bytes_max: options.store_max,
        whole_file_bytes_max: options.whole_file_max.unwrap_or(WHOLE_FILE_BYTES_MAX),
        opening: options.opening.named(),
        verbose: options.verbose,
    }
}

/// Starts the launcher, which ends with this process.
fn start_launcher(words: &[OsString]) -> Result<Processes> {
    let mut command = Command::new(own_executable());
    command.args(["exec", "--parent", &std::process::id().to_string(), "--gently", "--"]).args(words);
    command.env_remove(launch::SESSION).env_remove(launch::TABLE).env_remove(launch::MOUNT);
    Ok(Processes::of(command.spawn().context("the launcher can't be started")?))
}

/// Writes the files that the launcher is to read in place of others, beside the job file. They go when this is
/// dropped.
fn replace(prepared: &mut Prepared, job: &Path) -> Result<Vec<Written>> {
    let mut written = Vec::new();
    for (number, replacement) in prepared.files.clone().into_iter().enumerate() {
        let path = job.with_extension(number.to_string());
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.with_context(|| format!("{} can't be made", path.display()))?;
        written.push(Written(path.clone()));
        file.write_all(&replacement.text)?;
        replacement.put(&mut prepared.words, path.as_os_str());
    }
    Ok(written)
}

struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What words name, on this machine.
struct Words;

impl World for Words {
    fn executable(&self, word: &OsStr) -> Option<PathBuf> {
        let cwd = env::current_dir().ok()?;
        program::find(word, env::var_os("PATH").as_deref(), &cwd).ok()?.canonicalize().ok()
    }

    fn version(&self, file: &Path) -> Option<String> {
        let output = Command::new(file).arg("--version").stdin(std::process::Stdio::null()).output().ok()?;
        Some([output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        fs::read(file)
    }
}
