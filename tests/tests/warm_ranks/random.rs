//! Random numbers: ranks draw what executed processes would have drawn, by every method.

use std::collections::{BTreeMap, BTreeSet};

use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Fixture, Program, Session, skipped};

use crate::{fixture, from_zygotes, mechanisms, python, warm};

const RANKS: usize = 3;

/// Modules that draw as they are imported: an expression, and the source that the report names.
const METHODS: &[(&str, &str, &str)] = &[
    ("os", "__import__('os').urandom(8)", "getrandom"),
    ("own", "__import__('random').Random().random()", "getrandom"),
    ("shared", "__import__('random').random()", "random"),
    ("seeds", "__import__('random').seed(__import__('time').time_ns()) or __import__('random').random()", "random"),
    ("secret", "__import__('secrets').token_hex()", "getrandom"),
    ("identifier", "__import__('uuid').uuid4().hex", "getrandom"),
    ("name", "next(__import__('tempfile')._get_candidate_names())", "getpid"),
    ("file", "open('/dev/urandom', 'rb', 0).read(8)", "/dev/urandom"),
    ("kernel", "open('/proc/sys/kernel/random/uuid').read()", "/proc/sys/kernel/random"),
    ("openssl", "__import__('ssl').RAND_bytes(8)", "RAND_bytes"),
    ("pid", "__import__('os').getpid()", "getpid"),
    ("c_getrandom", "library('draws').by_getrandom()", "getrandom"),
    ("c_getentropy", "library('draws').by_getentropy()", "getentropy"),
    ("c_syscall", "library('draws').by_syscall()", "getrandom"),
    ("c_arc4random", "library('draws').by_arc4random()", ""),
    ("c_open", "library('draws').by_open()", "/dev/urandom"),
    ("c_fopen", "library('draws').by_fopen()", "/dev/urandom"),
    ("c_srand", "library('draws').by_srand()", "srand"),
    ("c_srand48", "library('draws').by_srand48()", "srand48"),
    ("cpp", "library('device').by_random_device()", "std::random_device"),
];

/// Modules that draw, or seed a generator, with the same outcome in every process.
const FIXED: &[(&str, &str, Option<&str>)] = &[
    ("seeded", "__import__('random').seed(5) or __import__('random').random()", Some("random")),
    ("c_unseeded", "library('draws').without_seed()", None),
    ("c_fixed", "library('draws').by_fixed_seed()", Some("srand")),
    ("none", "hash(5)", None),
];

fn modules(fixture: &Fixture) {
    fixture.build("spawn/draws.c", "libdraws.so", &["-shared", "-fPIC"]);
    fixture.build("spawn/random_device.cpp", "libdevice.so", &["-shared", "-fPIC"]);
    let all = METHODS.iter().map(|(name, draw, _)| (name, draw));
    for (name, draw) in all.chain(FIXED.iter().map(|(name, draw, _)| (name, draw))) {
        let shared = fixture.shared().display().to_string();
        let library = format!(
            "def library(name):\n    import ctypes\n    found = ctypes.CDLL(f'{shared}/lib{{name}}.so')\n    \
             for method in 'getrandom getentropy syscall arc4random open fopen srand srand48 random_device'.split():\n        \
             try:\n            getattr(found, 'by_' + method).restype = ctypes.c_uint64\n        \
             except AttributeError:\n            pass\n    return found\n"
        );
        let draw = format!("def draw():\n    global value\n    value = {draw}\n    return value\nfirst = draw()\n");
        fixture.file(&format!("modules/method_{name}.py"), format!("{library}{draw}"), 0o644);
    }
}

fn names(of: impl Iterator<Item = &'static str>) -> Vec<String> {
    of.map(|name| format!("method_{name}")).collect()
}

fn program(fixture: &Fixture, names: &[String]) -> Program {
    let args: Vec<&str> = ["draws.py"].into_iter().chain(names.iter().map(String::as_str)).collect();
    // Not beside the program, where it would find them first.
    python(fixture, &args).env("PYTHONPATH", fixture.path("modules"))
}

/// The ranks' report of each module: whether it was warm, what it drew first, and what it has now.
fn draws_of(session: &Session) -> BTreeMap<String, Vec<[String; 3]>> {
    let mut all: BTreeMap<String, Vec<[String; 3]>> = BTreeMap::new();
    for line in session.output.stdout.lines() {
        let (name, rest) = line.split_once(' ').expect("a name");
        let mut fields = rest.splitn(3, ' ').map(str::to_owned);
        let mut word = || fields.next().expect("three words");
        all.entry(name.into()).or_default().push([word(), word(), word()]);
    }
    assert!(all.values().all(|ranks| ranks.len() == RANKS), "{:?} {}", session.output, session.messages);
    all
}

fn distinct(ranks: &[[String; 3]], field: usize) -> usize {
    ranks.iter().map(|fields| &fields[field]).collect::<BTreeSet<_>>().len()
}

#[test]
fn modules_that_draw_are_imported_by_each_rank() {
    let Some(fixture) = fixture() else { return };
    modules(&fixture);
    let all = names(METHODS.iter().map(|&(name, ..)| name));
    for via in mechanisms() {
        let session = warm(&fixture, &format!("json,{},stat", all.join(","))).via(via).on(1, RANKS);
        let session = session.run(&program(&fixture, &all));
        assert_eq!(from_zygotes(&session), RANKS as u64, "{}", session.messages);
        let draws = draws_of(&session);
        for (name, _, what) in METHODS {
            let ranks = &draws[&format!("method_{name}")];
            assert!(ranks.iter().all(|fields| fields[0] == "own"), "{name} is warm: {}", session.messages);
            assert_eq!(distinct(ranks, 1), RANKS, "{name}: {ranks:?}");
            let start = format!("headwater: warning: method_{name} is not imported warm: method_{name} ");
            let lines: Vec<&str> = session.messages.lines().filter(|line| line.starts_with(&start)).collect();
            assert!(lines.len() == 1 && lines[0].contains(&format!("({what}")), "{name}: {}", session.messages);
        }
    }
}

#[test]
fn modules_of_the_table_are_reseeded() {
    let Some(fixture) = fixture() else { return };
    modules(&fixture);
    let all = names(METHODS.iter().map(|&(name, ..)| name));
    let table: String = all.iter().map(|name| format!("{name}:\n    module.draw()\n")).collect();
    let table = fixture.file("table", format!("# How ranks draw anew.\n\n{table}"), 0o644);
    let session = warm(&fixture, &all.join(",")).option("--warm-reseed").option(table.display().to_string());
    let session = session.on(1, RANKS).run(&program(&fixture, &all));
    assert_eq!((from_zygotes(&session), session.messages.as_str()), (RANKS as u64, ""));
    for (name, ranks) in draws_of(&session) {
        assert!(ranks.iter().all(|fields| fields[0] == "warm" && fields[1] == ranks[0][1]), "{name}: {ranks:?}");
        // Neither the zygote's nor another rank's.
        assert_eq!(distinct(&ranks, 2), RANKS, "{name}: {ranks:?}");
        assert!(ranks.iter().all(|args| args[2] != args[1]), "{name}: {ranks:?}");
    }
}

#[test]
fn what_is_the_same_in_every_process_stays_so() {
    let Some(fixture) = fixture() else { return };
    modules(&fixture);
    let all = names(FIXED.iter().map(|&(name, ..)| name));
    let program = program(&fixture, &all);
    let exec = draws_of(&fixture.headwater().on(1, RANKS).run(&program));
    let session = warm(&fixture, &all.join(",")).on(1, RANKS).run(&program);
    assert_eq!(from_zygotes(&session), RANKS as u64, "{}", session.messages);
    for (name, ranks) in draws_of(&session) {
        let (_, _, what) = FIXED.iter().find(|(known, ..)| name == format!("method_{known}")).expect("one of them");
        assert_eq!(ranks[0][1..], exec[&name][0][1..], "{name}");
        assert_eq!(distinct(&ranks, 1), 1, "{name}: {ranks:?}");
        assert_eq!(
            session.messages.contains(&format!("warning: {name} is not")),
            what.is_some(),
            "{}",
            session.messages
        );
    }
}

#[test]
fn a_part_of_a_package_is_named() {
    let Some(fixture) = fixture() else { return };
    fixture.file("modules/package/__init__.py", "from . import outer\n", 0o644);
    fixture.file("modules/package/outer.py", "from . import inner\nfirst = value = inner.value\n", 0o644);
    fixture.file("modules/package/inner.py", "import os\nvalue = os.urandom(8)\n", 0o644);
    let session = warm(&fixture, "package.outer").on(2, 2).run(&program(&fixture, &["package.outer".into()]));
    let line = "headwater: warning: package.outer is not imported warm: package.inner draws random numbers as it is \
                imported (getrandom). Each rank imports it itself\n";
    assert_eq!((from_zygotes(&session), session.messages.as_str()), (4, &*line.repeat(2)));
}

#[test]
fn generators_are_seeded_anew() {
    let Some(fixture) = fixture() else { return };
    let draw = |program: &Program, imports: &str| {
        let session = warm(&fixture, imports).on(1, 4).run(program);
        let ended = (from_zygotes(&session), session.output.status, session.messages.as_str());
        assert_eq!(ended, (4, 0, ""), "{:?}", session.output);
        let numbers: BTreeSet<&str> = session.output.stdout.split_whitespace().collect();
        assert_eq!(numbers.len(), 4, "{numbers:?}");
    };
    let own = |script: &str| python(&fixture, &["-c", script]);
    draw(&own("import os, random; os.write(1, b'%r\\n' % random.random())"), "random");
    draw(&own("import os, ssl; os.write(1, b'%s\\n' % ssl.RAND_bytes(8).hex().encode())"), "ssl");
    let key =
        "import os, multiprocessing; os.write(1, multiprocessing.current_process().authkey.hex().encode() + b'\\n')";
    draw(&own(key), "multiprocessing");
    match environment("numpy", &["numpy"]) {
        Err(reason) => skipped(reason),
        Ok(environment) => {
            let script = "import os, numpy; os.write(1, b'%r\\n' % float(numpy.random.random()))";
            let python = Program::new(environment.join("bin/python3")).args(["-c", script]);
            draw(&python.env("PYTHONDONTWRITEBYTECODE", "1"), "numpy");
        }
    }
}
