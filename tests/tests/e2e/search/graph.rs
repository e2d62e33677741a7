//! Random graphs of libraries in random directories with random search paths: the loader must end
//! with the same objects in the same order.

use std::fmt::Write;

use headwater_tests::harness::{Fixture, Program};

const LIBRARIES: u64 = 7;
const DIRECTORIES: u64 = 5;

/// Numbers drawn from a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }

    /// A search path over some of the directories, in some spelling.
    fn search_path(&mut self, fixture: &Fixture) -> String {
        let mut path = String::new();
        for number in 0..=self.below(4) {
            let directory = self.below(DIRECTORIES + 1);
            let shared = fixture.shared();
            let spelling = match self.below(5) {
                0 => format!("$ORIGIN/../d{directory}"),
                1 => format!("${{ORIGIN}}/../d0/../d{directory}"),
                2 => format!("{}/./d{directory}/", shared.display()),
                3 => format!("{}/l{directory}", shared.display()),
                _ => format!("{}/d{directory}", shared.display()),
            };
            let _ = write!(path, "{}{spelling}", if number > 0 { ":" } else { "" });
        }
        path
    }
}

/// Library k may need only those above it, so that each can be linked when it is built.
fn build(draw: &mut Draw, fixture: &Fixture) -> Program {
    let subdirectories = ["", "", "", "glibc-hwcaps/x86-64-v2/", "glibc-hwcaps/x86-64-v3/"];
    for directory in 0..DIRECTORIES {
        fixture.dir(&format!("d{directory}"));
        fixture.link(format!("d{directory}"), &format!("l{directory}"));
    }
    let link = "-L{shared}/d0";
    for number in (0..LIBRARIES).rev() {
        let name = format!("lib{}{number}.so", 'g');
        for copy in 0..=draw.below(3) {
            let needed: Vec<String> =
                (number + 1..LIBRARIES).filter(|_| draw.chance(3)).map(|n| format!("-lg{n}")).collect();
            let rpath = format!("-Wl,-rpath,{}", draw.search_path(fixture));
            let tags = draw.one_of(&["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"]);
            let mut flags = vec![link, "-Wl,--allow-shlib-undefined", tags];
            flags.extend(needed.iter().map(String::as_str));
            if !draw.chance(3) {
                flags.push(&rpath);
            }
            let directory = match copy {
                0 => "d0/".to_string(),
                _ => format!("d{}/{}", draw.below(DIRECTORIES), draw.one_of(&subdirectories)),
            };
            fixture.library(&format!("{directory}{name}"), &directory, &flags);
        }
    }
    let rpath = format!("-Wl,-rpath,{}:{}/d0", draw.search_path(fixture), fixture.shared().display());
    let tags = draw.one_of(&["-Wl,--enable-new-dtags", "-Wl,--disable-new-dtags"]);
    let flags = [link, "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", "-lg0", "-lg1", "-lg2", tags, &rpath];
    Program::new(fixture.build("loader.c", "bin/app", &flags))
}

#[test]
fn random_graphs_resolve_alike() {
    let first = std::env::var("HEADWATER_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(1..=6, |seed: u64| seed..=seed);
    let (mut loaded, mut all) = (0, 0);
    for seed in seeds {
        println!("seed {seed}: repeat with HEADWATER_TEST_SEED={seed}");
        let mut draw = Draw(seed);
        let fixture = Fixture::new("graph");
        let app = build(&mut draw, &fixture).args(["call=g0", "objects", "links", "open=libg5.so", "origin"]);
        loaded += usize::from(fixture.headwater().same_output(&app).output.status == 0);
        all += 1;
        let path =
            format!("LD_LIBRARY_PATH={}", draw.search_path(&fixture).replace("$ORIGIN", ".").replace("${ORIGIN}", "."));
        fixture.headwater().same_output(&app.in_dir(fixture.path("d0")).behind(["env", &path]));
    }
    assert!(loaded * 2 >= all, "most graphs are complete: {loaded} of {all}");
}
