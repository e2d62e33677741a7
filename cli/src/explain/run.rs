//! A run as its events describe it: programs that were executed, one behind another in each process, with their calls.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use headwater_closure::recorded::{Call, CallKind, Event};

/// A run.
#[derive(Debug, Default)]
pub struct Run {
    /// Programs in the order in which they were executed.
    pub images: Vec<Image>,
    /// The time of the last event.
    pub end_ns: u64,
    /// The most bytes of each mapped file that a process had in memory at its end.
    pub used: BTreeMap<PathBuf, u64>,
    /// Parents of processes.
    pub parents: HashMap<u32, u32>,
}

/// A program from its execution to its end.
#[derive(Debug, Default)]
pub struct Image {
    /// The PID.
    pub process: u32,
    /// The program's file.
    pub file: PathBuf,
    /// The arguments, separated by spaces.
    pub command: Vec<u8>,
    /// It was executed; otherwise it is a fork of its parent.
    pub is_executed: bool,
    /// Variables by which files are found.
    pub variables: HashMap<Vec<u8>, Vec<u8>>,
    /// When it was executed.
    pub start_ns: u64,
    /// When the loader had loaded its libraries.
    pub loaded_ns: Option<u64>,
    /// When it ended or executed another program.
    pub end_ns: u64,
    /// Its calls, in the order of their beginnings.
    pub calls: Vec<Call>,
}

impl Run {
    /// Puts events in order.
    pub fn new(events: Vec<Event>) -> Run {
        let mut run = Run::default();
        let mut current = HashMap::<u32, usize>::new();
        for event in events {
            run.end_ns = run.end_ns.max(moment(&event));
            run.add(event, &mut current);
        }
        for (process, image) in current {
            let parent_has_ended = run.images[image].end_ns == 0;
            if parent_has_ended {
                run.images[image].end_ns = run.end_ns;
            }
            debug_assert_eq!(run.images[image].process, process);
        }
        for image in &mut run.images {
            image.settle();
        }
        run
    }

    fn add(&mut self, event: Event, current: &mut HashMap<u32, usize>) {
        match event {
            Event::Begin { process, parent, at_ns } => {
                self.parents.insert(process, parent);
                // A copy of its parent, until it executes a program.
                let copied = current.get(&parent).map(|&parent| &self.images[parent]);
                let copy = copied.map(|parent| Image {
                    process,
                    file: parent.file.clone(),
                    command: parent.command.clone(),
                    variables: parent.variables.clone(),
                    start_ns: at_ns,
                    loaded_ns: Some(at_ns),
                    ..Image::default()
                });
                if let Some(copy) = copy {
                    self.push(copy, current);
                }
            }
            Event::Image { at_ns, process, path } => {
                if let Some(&before) = current.get(&process) {
                    self.images[before].end_ns = at_ns;
                }
                let image = Image { process, file: path, start_ns: at_ns, is_executed: true, ..Image::default() };
                self.push(image, current);
            }
            Event::Command { process, text } => {
                self.with(process, current, |image| image.command = text.as_bytes().to_vec());
            }
            Event::Variable { process, text } => {
                if let Some((name, value)) = split(text.as_bytes()) {
                    self.with(process, current, |image| drop(image.variables.insert(name.into(), value.into())));
                }
            }
            Event::Loaded { at_ns, process } => {
                self.with(process, current, |image| image.loaded_ns = image.loaded_ns.or(Some(at_ns)));
            }
            Event::Call(call) => {
                if !current.contains_key(&call.process) {
                    // Of a process that has not executed anything, or whose execution was not recorded.
                    let start_ns = call.at_ns;
                    self.push(Image { process: call.process, start_ns, ..Image::default() }, current);
                }
                self.with(call.process, current, |image| image.calls.push(call));
            }
            Event::Used { bytes, path, .. } => {
                let most = self.used.entry(path).or_default();
                *most = bytes.max(*most);
            }
            Event::End { at_ns, process, .. } => {
                self.with(process, current, |image| image.end_ns = at_ns);
                current.remove(&process);
            }
        }
    }

    fn push(&mut self, image: Image, current: &mut HashMap<u32, usize>) {
        current.insert(image.process, self.images.len());
        self.images.push(image);
    }

    fn with(&mut self, process: u32, current: &HashMap<u32, usize>, change: impl FnOnce(&mut Image)) {
        if let Some(&image) = current.get(&process) {
            change(&mut self.images[image]);
        }
    }

    /// Returns all calls.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.images.iter().flat_map(|image| &image.calls)
    }
}

impl Image {
    /// Returns a variable's directories, in order.
    pub fn directories(&self, variable: &str) -> Vec<PathBuf> {
        let value = self.variables.get(variable.as_bytes()).map_or(&[][..], Vec::as_slice);
        let parts = value.split(|&byte| byte == b':').filter(|part| part.starts_with(b"/"));
        parts.map(|part| Path::new(OsStr::from_bytes(part)).components().collect()).collect()
    }

    /// Returns whether it is a Python interpreter.
    pub fn is_python(&self) -> bool {
        let is_python = |name: &[u8]| name.starts_with(b"python");
        let named = self.command.split(|&byte| byte == b' ').next().unwrap_or_default();
        let named = named.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        is_python(self.file.file_name().unwrap_or_default().as_bytes()) || is_python(named)
    }

    /// Derives what no event has said.
    fn settle(&mut self) {
        self.calls.sort_by_key(|call| call.at_ns);
        if self.loaded_ns.is_none() {
            // The loader's calls are the first ones: on libraries and on its own files.
            let is_own = |call: &&Call| {
                let checks = matches!(call.kind, CallKind::Stat | CallKind::Execute);
                checks || is_library(&call.path) || is_of_loader(&call.path)
            };
            let own = self.calls.iter().take_while(is_own);
            let last = own.filter(|call| call.kind == CallKind::Load).last();
            self.loaded_ns = last.map(|call| call.end_ns());
        }
        let loads = self.calls.iter().any(|call| call.kind == CallKind::Load);
        if !loads {
            self.loaded_ns = None;
        }
        self.end_ns = self.end_ns.max(self.start_ns);
    }
}

/// Returns whether a path is of a library, by its name.
pub fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.ends_with(b".so") || name.windows(4).any(|window| window == b".so.")
}

/// Returns whether a path is of a file that the loader reads for itself.
pub fn is_of_loader(path: &Path) -> bool {
    let files = ["/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/ld.so.nohwcap"];
    files.iter().any(|file| path == Path::new(file))
}

fn moment(event: &Event) -> u64 {
    match event {
        Event::Begin { at_ns, .. } | Event::Image { at_ns, .. } | Event::Loaded { at_ns, .. } => *at_ns,
        Event::End { at_ns, .. } => *at_ns,
        Event::Call(call) => call.end_ns(),
        Event::Command { .. } | Event::Variable { .. } | Event::Used { .. } => 0,
    }
}

fn split(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == b'=')?;
    Some((&text[..at], &text[at + 1..]))
}
