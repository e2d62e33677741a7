//! A trace's files: the kind of each path, what a look-up needs, and what a reader finds.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use headwater_abi::attr::mode;
use headwater_abi::listing::{Builder, Name, d_type};
use headwater_abi::wire::{Fact, FileHead, Message};
use headwater_abi::{Attr, Listing, Path, Want};

use crate::storage::Operation;
use crate::trace::{Kind, Trace, TraceError};

/// A path that exists, by its number.
pub(crate) type ObjectId = u32;

/// A part of an object that a node can know: one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Fact = 0,
    Names = 1,
    Content = 2,
}

/// One look-up of the program.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) before_ns: u64,
    pub(crate) path: Path,
    pub(crate) kind: Kind,
    pub(crate) want: Want,
    /// The bit that answers it without a request.
    pub(crate) bit: u32,
    pub(crate) size: u64,
    /// Whether no earlier step had the same path and kind.
    pub(crate) is_first: bool,
}

impl Step {
    /// Returns whether it needs a file's bytes.
    pub(crate) fn is_content(&self) -> bool {
        matches!(self.kind, Kind::Open | Kind::Load)
    }

    /// Returns what it asks of the shared file system.
    pub(crate) fn operation(&self) -> Operation {
        match self.kind {
            Kind::Stat | Kind::Absent => Operation::Stat,
            Kind::List => Operation::List(self.size),
            Kind::Open | Kind::Load => Operation::Open,
        }
    }
}

/// An existing file, directory or link.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) fact: Fact,
    /// Set for a file.
    pub(crate) head: Option<FileHead>,
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) steps: Vec<Step>,
    pub(crate) after_ns: u64,
    /// The directories that Headwater serves.
    pub(crate) scope: Vec<Path>,
    pub(crate) objects: Vec<Object>,
    by_path: HashMap<Path, ObjectId, BuildHasherDefault<PathHasher>>,
}

/// Uses a path's hash as it is.
#[derive(Debug, Default)]
struct PathHasher(u64);

impl Hasher for PathHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a path writes its hash");
    }
}

/// The trace's information about one path.
#[derive(Clone, Debug, Default)]
struct Mention {
    is_file: bool,
    is_directory: bool,
    size: u64,
    names: Vec<Path>,
}

impl Program {
    pub(crate) fn new(trace: &Trace) -> Result<Program, TraceError> {
        let scope = scope(trace);
        let mentions = mentions(trace, &scope)?;
        let by_path: HashMap<Path, ObjectId, _> = mentions.keys().cloned().zip(0..).collect();
        let objects = mentions.iter().map(|(path, mention)| object(mention, &mentions, by_path[path])).collect();
        let mut program = Program { steps: Vec::new(), after_ns: trace.after_ns, scope, objects, by_path };
        let mut seen = std::collections::HashSet::new();
        for lookup in &trace.lookups {
            let (want, part) = match lookup.kind {
                Kind::Stat => (Want::ATTR, Part::Fact),
                Kind::Absent => (Want::ATTR, Part::Names),
                Kind::List => (Want::LISTING, Part::Names),
                Kind::Open => (Want::WHOLE, Part::Content),
                Kind::Load => (Want::LOADABLE, Part::Content),
            };
            // An absent name is answered by the names of its directory.
            let known = std::iter::successors(Some(lookup.path.clone()), Path::parent).find_map(|p| program.find(&p));
            let Some(object) = known else { continue };
            let is_first = seen.insert((lookup.path.clone(), lookup.kind as u8));
            program.steps.push(Step {
                before_ns: lookup.before_ns,
                path: lookup.path.clone(),
                kind: lookup.kind,
                want,
                bit: bit(object, part),
                size: lookup.size,
                is_first,
            });
        }
        Ok(program)
    }

    /// Returns a copy that shares no memory with this one.
    pub(crate) fn copied(&self) -> Program {
        let path = |path: &Path| Path::new(path.as_bytes()).expect("a path is one");
        let by_path: HashMap<Path, ObjectId, _> = self.by_path.iter().map(|(at, &object)| (path(at), object)).collect();
        let object = |object: &Object| Object {
            fact: match &object.fact {
                Fact::Listing(attr, listing) => Fact::Listing(*attr, listing.iter().collect()),
                fact => fact.clone(),
            },
            head: object.head.clone().map(|head| FileHead { ranges: Arc::from(&head.ranges[..]), ..head }),
        };
        let step = |step: &Step| {
            let known = by_path.get_key_value(&step.path).map(|(path, _)| path.clone());
            Step { path: known.unwrap_or_else(|| path(&step.path)), ..step.clone() }
        };
        Program {
            steps: self.steps.iter().map(step).collect(),
            after_ns: self.after_ns,
            scope: self.scope.iter().map(path).collect(),
            objects: self.objects.iter().map(object).collect(),
            by_path,
        }
    }

    /// Replaces what a message shares with a copy of the program by this program's own.
    pub(crate) fn make_own(&self, message: &mut Message) {
        let (path, fact, head) = match message {
            Message::Want { path, .. } | Message::Unavailable { path, .. } | Message::Details { path, .. } => {
                (path, None, None)
            }
            Message::Known { path, fact } => (path, Some(fact), None),
            Message::File { path, head, .. } | Message::Large { path, head, .. } => (path, None, Some(head)),
            _ => return,
        };
        let Some((own, &object)) = self.by_path.get_key_value(path) else { return };
        *path = own.clone();
        let object = &self.objects[object as usize];
        if let Some(fact) = fact.filter(|fact| **fact == object.fact) {
            *fact = object.fact.clone();
        }
        if let (Some(head), Some(own)) = (head, &object.head)
            && head.ranges == own.ranges
        {
            head.ranges = own.ranges.clone();
        }
    }

    pub(crate) fn find(&self, path: &Path) -> Option<ObjectId> {
        self.by_path.get(path).copied()
    }

    /// Returns the number of words of a node's bits.
    pub(crate) fn words(&self) -> usize {
        (self.objects.len() * 3).div_ceil(64)
    }

    /// Returns the fact about a path on the shared file system.
    pub(crate) fn fact(&self, path: &Path) -> Fact {
        self.find(path).map_or(Fact::Absent, |object| self.objects[object as usize].fact.clone())
    }
}

pub(crate) fn bit(object: ObjectId, part: Part) -> u32 {
    object * 3 + part as u32
}

/// Returns the directories that contain everything: for each first component the deepest one.
fn scope(trace: &Trace) -> Vec<Path> {
    let mut tops: BTreeMap<Vec<u8>, Path> = BTreeMap::new();
    for lookup in &trace.lookups {
        let directory = match lookup.kind {
            Kind::List => lookup.path.clone(),
            _ => lookup.path.parent().unwrap_or_else(Path::root),
        };
        let top = directory.components().next().unwrap_or_default().to_vec();
        let common = tops.entry(top).or_insert_with(|| directory.clone());
        while !directory.is_within(common) {
            *common = common.parent().unwrap_or_else(Path::root);
        }
    }
    match tops.contains_key(&Vec::new()) {
        true => vec![Path::root()],
        false => tops.into_values().collect(),
    }
}

fn mentions(trace: &Trace, scope: &[Path]) -> Result<BTreeMap<Path, Mention>, TraceError> {
    let mut all: BTreeMap<Path, Mention> = BTreeMap::new();
    for top in scope {
        all.entry(top.clone()).or_default().is_directory = true;
    }
    for lookup in trace.lookups.iter().filter(|lookup| lookup.kind != Kind::Absent) {
        let mention = all.entry(lookup.path.clone()).or_default();
        match lookup.kind {
            Kind::List => mention.is_directory = true,
            Kind::Open | Kind::Load => mention.is_file = true,
            Kind::Stat | Kind::Absent => {}
        }
        mention.size = mention.size.max(lookup.size);
        let mut path = lookup.path.clone();
        while let Some(directory) = path.parent().filter(|_| !scope.contains(&path)) {
            let above = all.entry(directory.clone()).or_default();
            above.is_directory = true;
            above.names.push(path);
            path = directory;
        }
    }
    for (path, mention) in &mut all {
        if mention.is_file && mention.is_directory {
            return Err(TraceError::Contradiction { path: path.clone() });
        }
        mention.names.sort_unstable();
        mention.names.dedup();
    }
    Ok(all)
}

fn object(mention: &Mention, all: &BTreeMap<Path, Mention>, number: ObjectId) -> Object {
    let ino = u64::from(number) + 2;
    let attr = |mode, size, nlink| Attr { mode, size, nlink, ino, dev_major: 8, ..Attr::default() };
    if !mention.is_directory {
        let attr = attr(mode::FILE | 0o755, mention.size, 1);
        let ranges: &[(u64, u64)] = if mention.size > 0 { &[(0, mention.size)] } else { &[] };
        let head = FileHead { attr, format: 0, ranges: Arc::from(ranges), whole: true };
        return Object { fact: Fact::Attr(attr), head: Some(head) };
    }
    Object { fact: Fact::Listing(attr(mode::DIR | 0o755, 4096, 2), listing(mention, all)), head: None }
}

/// Returns the names in the trace, and as many more as the directory's size requires.
fn listing(mention: &Mention, all: &BTreeMap<Path, Mention>) -> Listing {
    let mut builder = Builder::default();
    for (path, ino) in mention.names.iter().zip(2..) {
        let is_directory = all.get(path).is_some_and(|mention| mention.is_directory);
        let d_type = if is_directory { d_type::DIR } else { d_type::FILE };
        builder.push(Name { ino, d_type, name: path.name() });
    }
    for filler in mention.names.len() as u64..mention.size.min(headwater_abi::listing::LISTING_NAMES_MAX as u64) {
        builder.push(Name { ino: filler, d_type: d_type::FILE, name: format!("a-name-{filler}").as_bytes() });
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(text: &str) -> Program {
        Program::new(&Trace::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn the_files_are_those_of_the_trace() {
        let program = program(
            "0 absent - /sw/lib64/libx.so\n0 load 1000 /sw/lib/libx.so\n0 list 40 /sw/py\n0 stat - /sw/py/a/b\n\
             0 open 5 /opt/app/run\n",
        );
        let scope: Vec<String> = program.scope.iter().map(Path::to_string).collect();
        assert_eq!(scope, ["/opt/app", "/sw"]);
        let names = |path: &str| match program.fact(&Path::new(path.as_bytes()).unwrap()) {
            Fact::Listing(_, listing) => listing.len(),
            other => panic!("{path}: {other:?}"),
        };
        assert_eq!((names("/sw"), names("/sw/py"), names("/sw/py/a"), names("/opt/app")), (2, 40, 1, 1));
        // An absent name is known with the names of the directory above.
        let sw = program.find(&program.scope[1]).unwrap();
        assert_eq!(program.steps[0].bit, bit(sw, Part::Names));
        assert_eq!(program.fact(&program.steps[0].path), Fact::Absent);
    }

    #[test]
    fn a_file_is_no_directory() {
        let trace = Trace::parse("0 open 1 /sw/a\n0 open 1 /sw/a/b\n").unwrap();
        assert!(matches!(Program::new(&trace), Err(TraceError::Contradiction { .. })));
    }

    #[test]
    fn everything_at_the_top_is_the_root_directory() {
        assert_eq!(program("0 open 1 /a\n0 open 1 /sw/b\n").scope, [Path::root()]);
    }
}
