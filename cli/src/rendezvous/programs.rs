//! The programs that a command starts, and what nodes serve for them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use headwater_closure::program;
use headwater_closure::scope::Scope;
use headwater_daemon::Fabric;
use headwater_launch::command::{Prepared, World, prepare};

use super::file::Service;
use super::paths;
use crate::discover::discover;
use crate::io::options::IoOptions;
use crate::options::run::ServiceOptions;
use crate::preload;
use crate::session::opened::Opened;
use crate::session::records::Records;
use crate::via::Program;

/// A program.
#[derive(Debug, Default)]
pub struct Found {
    /// Its file, on this machine.
    pub file: PathBuf,
    /// Its properties.
    pub program: Program,
}

/// Placeholder of the prefix while that is not known; also in a launcher's files of programs.
const PLACEHOLDER: &str = "headwater-exec-here";

/// Returns the command line of a launcher, if the command begins with one, with a placeholder before each program.
///
/// # Errors
/// The command is a launcher's, and the position of the program is not clear.
pub fn find(command: &[OsString], marker: Option<&OsStr>) -> Result<Option<Prepared>> {
    let prepared = with_prefix(command, &[PLACEHOLDER.into()], marker)?;
    Ok(prepared.launcher.is_some().then_some(prepared))
}

/// Returns the command with a prefix before each program.
pub fn with_prefix(command: &[OsString], prefix: &[OsString], marker: Option<&OsStr>) -> Result<Prepared> {
    Ok(prepare(command, prefix, marker, &LocalCommands)?)
}

/// Returns the names of the programs that were found.
pub fn programs(found: &Prepared) -> Vec<OsString> {
    let behind = found.arguments.windows(2).filter(|pair| pair[0] == PLACEHOLDER).map(|pair| pair[1].clone());
    let in_files = found.files.iter().flat_map(|file| programs_in(&file.text));
    behind.chain(in_files).collect()
}

/// Returns the first program with all that follows it in the command line.
pub fn first_command(found: &Prepared) -> Vec<OsString> {
    let behind = found.arguments.iter().skip_while(|word| *word != PLACEHOLDER).skip(1);
    behind.take_while(|word| *word != PLACEHOLDER).cloned().collect()
}

fn programs_in(text: &[u8]) -> Vec<OsString> {
    let text = String::from_utf8_lossy(text);
    let behind =
        text.lines().filter_map(|line| line.split_once(PLACEHOLDER)?.1.split_whitespace().next().map(OsString::from));
    behind.collect()
}

/// Returns the scope of all programs, and the first program.
pub fn discover_all(options: &ServiceOptions, programs: &[OsString], opened: &Opened) -> (Scope, Option<Found>) {
    let cwd = working_directory();
    let path = env::var_os("PATH");
    let here = |name: &OsString| paths::here(&options.map, Path::new(name)).into_os_string();
    let files = programs.iter().filter_map(|name| program::find(&here(name), path.as_deref(), &cwd).ok());
    let mut all = Scope::default();
    let mut first = None;
    for file in files {
        let scope = discover(options, &file, &cwd, opened);
        if first.is_none() {
            let is_in_scope = file.canonicalize().is_ok_and(|canonical| scope.includes(&canonical));
            let program = Program::examine(&file, is_in_scope, &|path| opened.open(path));
            first = Some(Found { file: file.clone(), program });
        }
        let known: Vec<PathBuf> = all.entries.iter().map(|entry| entry.path.clone()).collect();
        all.entries.extend(scope.entries.into_iter().filter(|entry| !known.contains(&entry.path)));
        all.refused.extend(scope.refused);
    }
    (all, first)
}

/// Returns the service that nodes get, with paths as nodes see them.
pub fn service(
    options: &ServiceOptions,
    scope: &Scope,
    Found { file, program }: Found,
    io: Option<&IoOptions>,
) -> Service {
    let on_nodes = |(is_included, path): (bool, String)| {
        (is_included, paths::on_nodes(&options.map, Path::new(&path)).display().to_string())
    };
    let fabric = options.transport.fabric().map(|fabric| {
        let carrier = paths::on_nodes(&options.map, &fabric.carrier);
        Fabric { carrier, ..fabric }
    });
    Service {
        scope: scope.pairs().into_iter().map(on_nodes).collect(),
        program,
        via: options.via,
        policy: options.policy(),
        store: options.storage.store.clone(),
        store_bytes_max: options.storage.store_max,
        numa_replicas: options.numa_replicas,
        numa_replicas_for: options.numa_replicas_for.clone(),
        whole_file_bytes_max: options.storage.whole_file_max,
        stored_file_bytes_max: options.storage.stored_file_max,
        serve: options.served.kinds(),
        follows_fork: options.served.follow_fork,
        cache: options.storage.cache(),
        opening: options.opening.mode(),
        preload: preload::prepare(
            &options.served.preload(),
            &paths::on_nodes(&options.map, &file),
            &working_directory(),
        ),
        records: Records::None,
        reports: false,
        nodes: None,
        ports: options.ports,
        interfaces: options.interfaces.clone(),
        fabric,
        link_protection: options.link_protection,
        io: io
            .filter(|io| io.is_wanted())
            .map(|io| io.absolute(&working_directory(), &|path| paths::on_nodes(&options.map, path))),
        verbose: options.verbose,
    }
}

fn working_directory() -> PathBuf {
    env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
}

/// Looks commands up on this machine.
struct LocalCommands;

impl World for LocalCommands {
    fn executable(&self, word: &OsStr) -> Option<PathBuf> {
        let cwd = env::current_dir().ok()?;
        program::find(word, env::var_os("PATH").as_deref(), &cwd).ok()?.canonicalize().ok()
    }

    fn version(&self, file: &Path) -> Option<String> {
        let output = Command::new(file).arg("--version").stdin(Stdio::null()).output().ok()?;
        Some([output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
    }

    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        fs::read(file)
    }
}
