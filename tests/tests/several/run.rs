//! A plan is carried out without Headwater and with it, each from the same start.

use std::fs::{self, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headwater_tests::harness::{Fixture, Mechanism, Program};

use super::plan::{Plan, Tree};

/// Under audit, open files show a moment later what others write.
const LATER_S: &str = "10";
/// When the tree was made. What the plan has not changed shows it.
const MADE_S: u64 = 1_000_000_500;

pub struct Ground {
    fixture: Fixture,
    via: Mechanism,
    several: PathBuf,
    without_loader: PathBuf,
}

impl Ground {
    pub fn new(via: Mechanism) -> Ground {
        let fixture = Fixture::new("several");
        let programs = headwater_tests::workspace().join("tests/programs/several");
        let part = |name: &str| programs.join(name).display().to_string();
        let build = |name: &str, more: &[&str]| {
            let (worker, calls) = (part("worker.c"), part("calls.c"));
            let flags = [&[&worker, &calls, "-std=c11"][..], more].concat();
            let built = fixture.build("several/main.c", name, &flags);
            let moved = fixture.outside(name);
            fs::rename(built, &moved).expect("an own directory");
            moved
        };
        let (several, without_loader) = (build("several", &[]), build("several-static", &["-static"]));
        Ground { fixture, via, several, without_loader }
    }

    /// A tree and a plan, of which this is the program.
    fn prepare(&self, plan: &Plan) -> Program {
        let file = self.fixture.outside("plan");
        fs::write(&file, plan.operations.join("\n") + "\n").expect("an own directory");
        self.make(&plan.tree);
        let tree = self.fixture.path("tree");
        Program::new(&self.several).args([&tree, &file]).env("SEVERAL_STATIC", &self.without_loader)
    }

    /// Whether it is a plan without Headwater, and something differs with it.
    pub fn differs(&self, plan: &Plan) -> bool {
        self.prepare(plan).run().status == 0 && self.compare(plan).is_err()
    }

    /// # Errors
    /// What differs.
    pub fn compare(&self, plan: &Plan) -> Result<(), String> {
        let program = self.prepare(plan);
        let plain = program.run();
        assert_eq!(plain.status, 0, "{plain:?}");
        let left = self.what_is_left();
        let expected = self.fixture.outside("expected");
        fs::write(&expected, &plain.stdout).expect("an own directory");
        self.make(&plan.tree);
        let later = if self.via == Mechanism::Audit { LATER_S } else { "0" };
        let mut headwater = self.fixture.headwater().via(self.via);
        if plan.is_in_blocks {
            headwater = headwater.option("--whole-file-max").option("64K");
        }
        let output = headwater.run(&program.arg(&expected).arg(later)).output;
        if output.status != 0 {
            return Err(output.stderr);
        }
        let ours = self.what_is_left();
        if ours == left { Ok(()) } else { Err(differences(&left, &ours)) }
    }

    fn make(&self, tree: &Tree) {
        let (root, out) = (self.fixture.path("tree"), self.fixture.outside("out"));
        let _ = (fs::remove_dir_all(&root), fs::remove_file(out));
        let made = SystemTime::UNIX_EPOCH + Duration::from_secs(MADE_S);
        let at = |path: &Path| {
            let file = fs::File::open(path).expect("an own file");
            file.set_times(FileTimes::new().set_accessed(made).set_modified(made)).expect("an own file");
        };
        for name in Tree::DIRS {
            fs::create_dir_all(root.join(name)).expect("an own directory");
        }
        for (number, &(name, size, mode)) in tree.files.iter().enumerate() {
            let path = root.join(name);
            let content: Vec<u8> = (0..size).map(|n| (n * 7 + n / 251 + number * 31) as u8).collect();
            fs::write(&path, content).expect("an own directory");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("an own file");
            at(&path);
        }
        for (name, target) in &tree.links {
            symlink(target, root.join(name)).expect("an own directory");
        }
        if tree.is_shared {
            fs::hard_link(root.join("a"), root.join("e/n")).expect("an own directory");
        }
        Tree::DIRS.into_iter().chain([""]).for_each(|name| at(&root.join(name)));
    }

    fn what_is_left(&self) -> String {
        let script = "cd \"$0\" && find . -type d -printf '%p %y %m\\n' -o -printf '%p %y %s %n %m %U %G %l\\n' | sort && \
                      find . -type f -print0 | sort -z | xargs -0r cksum";
        Program::new("sh").args(["-c", script]).arg(self.fixture.path("tree")).run().stdout
    }
}

fn differences(plain: &str, ours: &str) -> String {
    let only = |sign: &str, from: &str, other: &str| -> String {
        from.lines().filter(|line| !other.lines().any(|o| o == *line)).map(|line| format!("{sign}{line}\n")).collect()
    };
    format!("left without Headwater (-) and with it (+):\n{}{}", only("-", plain, ours), only("+", ours, plain))
}
