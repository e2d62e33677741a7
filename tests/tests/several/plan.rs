//! Plans: a tree, and what processes do with its files, one operation at a time.

/// Numbers from a seed (SplitMix64: Steele, Lea and Flood, *Fast splittable pseudorandom number generators*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// True so many times of a hundred.
    fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// The files that there may be, and where links may be.
const FILES: [&str; 12] = ["a", "b", "c", "big", "d/a", "d/b", "d/f/a", "e/a", "e/n", "n", "d/n", "x"];
const DIRS: [&str; 5] = ["d", "e", "d/f", "g", "d/g"];
const LINKS: [&str; 4] = ["l", "d/l", "k", "dl"];
const SIZES: [usize; 9] = [0, 1, 100, 4095, 4096, 5000, 12288, 70000, 300_000];

/// The tree at the start: directories, files with their sizes and modes, links.
#[derive(Clone, Debug)]
pub struct Tree {
    pub files: Vec<(&'static str, usize, u32)>,
    pub links: Vec<(&'static str, &'static str)>,
    /// `e/n` is another name of `a`.
    pub is_shared: bool,
}

impl Tree {
    /// The directories that there are.
    pub const DIRS: [&'static str; 4] = ["d", "d/f", "e", "g"];

    fn known() -> Tree {
        Tree {
            files: vec![("a", 70000, 0o600), ("b", 5000, 0o444), ("e/a", 4095, 0o755), ("d/f/a", 12288, 0o644)],
            links: vec![("l", "a"), ("k", "l"), ("dl", "e"), ("../../out", "shared/tree")],
            is_shared: true,
        }
    }

    fn drawn(random: &mut Random) -> Tree {
        let present: Vec<&str> = FILES.into_iter().filter(|_| random.is(70)).collect();
        let is_shared = present.contains(&"a") && !present.contains(&"e/n") && random.is(60);
        let files = present.iter().map(|&name| (name, random.pick(&SIZES), random.pick(&[0o644, 0o600, 0o444, 0o755])));
        let files = files.collect();
        let targets = [
            ["a", "d/a", "nowhere", "d"],
            ["../a", "b", "../e", "f"],
            ["l", "k", "e/a", "l"],
            ["d", "e", "./d/f", "g"],
        ];
        let mut links: Vec<_> =
            LINKS.into_iter().zip(targets).map(|(name, targets)| (name, random.pick(&targets))).collect();
        links.push(("../../out", "shared/tree"));
        Tree { files, links, is_shared }
    }
}

/// A tree and operations; `tests/programs/several` explains their syntax.
#[derive(Clone, Debug)]
pub struct Plan {
    pub tree: Tree,
    pub operations: Vec<String>,
    /// Files are sent in blocks.
    pub is_in_blocks: bool,
}

impl Plan {
    /// From operations with `;` between them.
    pub fn known(text: &str) -> Plan {
        let operations = text.split("; ").map(str::to_owned).collect();
        Plan { tree: Tree::known(), operations, is_in_blocks: false }
    }

    pub fn drawn(random: &mut Random, count: usize) -> Plan {
        let tree = Tree::drawn(random);
        let mut drawing = Drawing { process: vec![0, 1, 2], operations: Vec::new() };
        match random.below(10) {
            0..4 => drawing.process.extend([4, 5]),
            4 => drawing.process.truncate(1),
            _ => {}
        }
        let (writes, first) = (random.pick(&[10, 30, 50]), random.below(count / 2));
        for number in 0..count {
            if random.is(writes) && number > random.below(first + 1) {
                drawing.change(random, number);
            } else {
                drawing.check(random);
            }
        }
        Plan { tree, operations: drawing.operations, is_in_blocks: random.is(40) }
    }

    /// The plans that lack so many operations in a row.
    pub fn without_parts(&self, part: usize) -> impl Iterator<Item = Plan> {
        (0..self.operations.len()).step_by(part).map(move |from| {
            let rest = self.operations.iter().enumerate().filter(|(n, _)| *n < from || *n >= from + part);
            Plan { operations: rest.map(|(_, operation)| operation.clone()).collect(), ..self.clone() }
        })
    }
}

struct Drawing {
    process: Vec<usize>,
    operations: Vec<String>,
}

fn path(random: &mut Random) -> String {
    let all =
        [&FILES[..], &FILES[..], &FILES[..], &DIRS[..], &LINKS[..], &["dl/a", "dl/n", "l/a", "../../out/a"]].concat();
    let path = random.pick(&all);
    dressed(random, path)
}

fn directory(random: &mut Random) -> String {
    let path = random.pick(&DIRS);
    dressed(random, path)
}

/// The same path in another form.
fn dressed(random: &mut Random, path: &str) -> String {
    let path = match random.below(100) {
        0..6 => path.replace('/', "//"),
        6..10 => format!("./{path}"),
        10..14 => format!("d/../{path}"),
        14..17 => format!("dl/../{path}"),
        17..19 => format!("{path}/"),
        _ => path.to_owned(),
    };
    if random.is(30) { format!("%{path}") } else { path }
}

impl Drawing {
    fn add(&mut self, process: usize, operation: String) {
        self.operations.push(format!("{process} {operation}"));
    }

    fn change(&mut self, random: &mut Random, number: usize) {
        let (process, slot, other) = (random.pick(&self.process), random.below(6), random.below(6));
        let (size, length) = (random.pick(&[1, 100, 5000]), random.pick(&[0, 10, 4096, 5000, 20000]));
        let modes =
            ["rw", "wo", "rw+creat", "rw+creat+trunc", "wo+creat+excl", "wo+append", "rw+append+creat", "wo+trunc"];
        let mode = random.pick(&["644", "600", "755", "444"]);
        let operation = match random.below(33) {
            0..4 => format!("open {slot} {} {}", path(random), random.pick(&modes)),
            4..9 => format!("write {slot} {size} 0 {number}"),
            9..12 => format!("pwrite {slot} {size} {} {number}", random.pick(&[0, 50, 4090, 9000])),
            12 => format!("unlink {}", path(random)),
            13..16 if random.is(25) => format!("rename {} {}", directory(random), directory(random)),
            13..16 => format!("rename {} {}", path(random), path(random)),
            16 => format!("exchange {} {}", path(random), path(random)),
            17 => format!("mkdir {}", directory(random)),
            18 => format!("rmdir {}", directory(random)),
            19 => format!("link {} {}", path(random), path(random)),
            20 => format!("symlink {} {}", random.pick(&["a", "../a", "d", "b", "nowhere", "d/f"]), path(random)),
            21 => format!("chmod {} {mode}", path(random)),
            22 => format!("truncate {} {length}", path(random)),
            23 => format!("ftruncate {slot} {length}"),
            24 => format!("time {} {}", path(random), random.below(1000)),
            25 => format!("cp {} {}", path(random), path(random)),
            26 => format!("script {} {number}", random.pick(&["s1", "d/s2", "a", "e/n"])),
            27 => format!("map {} {slot} write {}", slot % 4, random.pick(&[4096, 12288])),
            28 => format!("poke {} {} 90 {number}", slot % 4, random.pick(&[0, 4000, 8000])),
            29 => format!("punch {slot} {} {}", random.pick(&[0, 100, 4096]), random.pick(&[100, 5000])),
            30 => format!("{} {slot} {other} {} 6000", random.pick(&["copy", "sendfile"]), random.pick(&[0, 100])),
            // Right behind the open: a file that has been renamed since can't be changed by a copy's descriptor.
            31 => {
                self.add(process, format!("open {slot} {} ro", path(random)));
                format!("fchmod {slot} {mode}")
            }
            _ => {
                self.add(process, format!("open {slot} {} ro", path(random)));
                format!("reopen {slot} {other} {}", random.pick(&["rw", "wo", "rw+trunc", "wo+append"]))
            }
        };
        self.add(process, operation);
    }

    fn check(&mut self, random: &mut Random) {
        let (process, slot, other) = (random.pick(&self.process), random.below(6), random.below(6));
        let offset = random.pick(&[0, 0, 50, 4090, 9000, 60000]);
        let operation = match random.below(42) {
            0..6 => format!(
                "open {slot} {} {}",
                path(random),
                random.pick(&["ro", "ro", "ro", "ro+nofollow", "ro+dir", "path"])
            ),
            6..11 => format!("pread {slot} {} {offset}", random.pick(&[10, 5000, 80000])),
            11 => format!("close {slot}"),
            12..15 => format!("whole {}", path(random)),
            15..18 => format!("{} {}", random.pick(&["stat", "lstat", "realpath"]), path(random)),
            18..20 => format!("fstat {slot}"),
            20..22 => format!("same {slot} {}", path(random)),
            22..24 => format!("list {}", random.pick(&["d", "e", "d/f", "g", ".", "dl", "l", "d/g"])),
            24..26 => format!(
                "map {} {slot} {} {}",
                slot % 4,
                random.pick(&["shared", "private"]),
                random.pick(&[4096, 12288])
            ),
            26..29 => format!("peek {} {} 90", slot % 4, random.pick(&[0, 4000, 8000])),
            29 => format!("access {} {}", path(random), random.pick(&[0, 2, 4, 1])),
            30 => format!("readlink {}", random.pick(&LINKS)),
            31 => format!("{} {slot} {}", random.pick(&["end", "hole", "seek"]), random.pick(&[0, 100, 5000])),
            32 => format!("close {slot}"),
            33 => format!("cat {}", path(random)),
            34 => format!("{} {}", random.pick(&["find", "glob"]), random.pick(&["d", "e", "d/f", "dl"])),
            35 => format!("glob {}", random.pick(&["*", "d/*", "*/a", "e/?", "*/*/*"])),
            36 => format!("chdir {}", random.pick(&["d", "e", "d/f", "dl", "%", "%", "%d"])),
            37 => format!("{} {} {}", random.pick(&["opendir", "names", "names"]), slot % 2, directory(random)),
            38 => format!("dup {slot} {other}"),
            39 => format!("{} {slot} {other} ro", random.pick(&["reopen", "reopen-pread"])),
            40 => format!("{} {slot} {}", random.pick(&["lock", "flock"]), random.pick(&[0, 1, 2, 5, 6, 8])),
            _ => {
                let to = random.pick(&self.process);
                self.add(to, "await 0".into());
                self.add(process, format!("send {slot}"));
                return self.add(to, format!("take {other}"));
            }
        };
        self.add(process, operation);
    }
}
