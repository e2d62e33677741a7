//! Generated trees and operations: the results that the reference model predicts, those of a plain directory and those
//! of the mount are the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use headwater_tests::harness::{Fixture, Mounting, Program};
use headwater_tests::model::{Action, Expected, Operation, Reference, Tree, strategy};
use headwater_tests::{harness::Mechanism, sibling_binary};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use headwater_tests::needs_root;

const NODES_MAX: usize = 30;
const OPERATIONS_MAX: usize = 80;
/// A tree that is changed lies this many directories below one of its own: a path that leads through a link and then
/// upwards leaves the tree, and finds there the same as it does in the other copy.
const DIRECTORIES_ABOVE: usize = 6;

/// Each case is a session or a mount of its own.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() }
}

/// `operate` with these operations.
fn operate(fixture: &Fixture, root: &Path, operations: &[Operation]) -> Program {
    let file = fixture.outside("operations");
    let lines = operations.iter().map(|operation| serde_json::to_string(operation).expect("plain data"));
    fs::write(&file, lines.map(|line| line + "\n").collect::<String>()).expect("an own directory");
    Program::new(sibling_binary("operate")).arg(root).arg(file)
}

fn made(fixture: &Fixture, name: &str, tree: &Tree) -> PathBuf {
    let root = fixture.dir(name);
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).expect("an own directory");
    tree.make(&root).expect("a fresh directory");
    root
}

/// The tree [`DIRECTORIES_ABOVE`] directories below `name`.
fn below_own_directories(fixture: &Fixture, name: &str, tree: &Tree) -> PathBuf {
    made(fixture, &(name.to_owned() + &"/around".repeat(DIRECTORIES_ABOVE)), tree)
}

/// Compares line by line, so that a failure names the operation.
fn compare(operations: &[Operation], ours: &str, plain: &str) -> Result<(), TestCaseError> {
    let lines = |text| -> Vec<String> { str::lines(text).map(str::to_owned).collect() };
    let (ours, plain) = (lines(ours), lines(plain));
    for (number, operation) in operations.iter().enumerate() {
        let (ours, plain) = (ours.get(number), plain.get(number));
        prop_assert_eq!(ours, plain, "operation {}, {}: mounted (left), plain (right)", number, operation);
    }
    Ok(())
}

/// A read-only file system denies it when a program queries whether something may be written.
fn without_writing(operation: Operation) -> Operation {
    let action = match operation.action {
        Action::Access { mode } => Action::Access { mode: mode & 5 },
        other => other,
    };
    Operation { action, ..operation }
}

#[test]
fn what_is_read_is_what_was_predicted() {
    needs_root!();
    proptest!(config(24), |((tree, operations) in strategy::reading(NODES_MAX, OPERATIONS_MAX))| {
        let fixture = Fixture::new("reading");
        let root = made(&fixture, "tree", &tree);
        let reference = Reference::new(&tree);
        // The kernel can answer some of what is drawn alone, and not this.
        let unknown = Operation::new("never drawn", Action::Stat { follows: true });
        let operations: Vec<_> = operations
            .into_iter()
            .chain([unknown])
            .filter(|operation| reference.expect(operation) != Expected::Anything)
            .map(without_writing)
            .collect();
        let plain = operate(&fixture, &root, &operations).run();
        prop_assert_eq!(plain.status, 0, "{:?}", plain);
        let view = Mounting::of(&root).option("--whole-file-max").option("64K").mount();
        // Twice: sent to the server, and answered by the kernel as far as it can.
        for _ in 0..2 {
            let mounted = operate(&fixture, view.path(), &operations).run();
            prop_assert_eq!(mounted.status, 0, "{:?}", mounted);
            compare(&operations, &mounted.stdout, &plain.stdout)?;
            for (operation, line) in operations.iter().zip(mounted.stdout.lines()) {
                if let Expected::Line(expected) = reference.expect(operation) {
                    prop_assert_eq!(line, expected.replace('\n', "\\n"), "predicted (right) of {}", operation);
                }
            }
        }
        prop_assert!(view.fuse_requests() > 0);
        view.unmount();
    });
}

#[test]
fn what_is_changed_is_changed_as_in_a_plain_directory() {
    needs_root!();
    let all = vec![Operation::new("", Action::List)];
    proptest!(config(24), |((tree, mut operations) in strategy::changing(NODES_MAX, OPERATIONS_MAX))| {
        operations.retain(is_alike_in_copies);
        let fixture = Fixture::new("changing");
        let (root, copy) = (below_own_directories(&fixture, "tree", &tree), below_own_directories(&fixture, "copy", &tree));
        let mut checked = operations.clone();
        checked.extend(all.clone());
        let plain = operate(&fixture, &copy, &checked).run();
        prop_assert_eq!(plain.status, 0, "{:?}", plain);
        let session = fixture.headwater().via(Mechanism::Namespace).run(&operate(&fixture, &root, &checked));
        prop_assert_eq!(session.output.status, 0, "{:?}", session.output);
        session.assert_served();
        compare(&checked, &without_times(&session.output.stdout), &without_times(&plain.stdout))?;
        let digest = |name: &str| {
            let script = "cd \"$0\" && find . -printf '%p %y %s %n %m %U %G %l\\n' | sort && \
                          find . -type f -print0 | sort -z | xargs -0r cksum";
            Program::new("sh").args(["-c", script]).arg(fixture.dir(name)).run()
        };
        digest("tree").assert_same(&digest("copy"));
    });
}

/// Whether it has the same result in two copies of a tree. The numbers of their files differ, and the sizes of their
/// directories.
fn is_alike_in_copies(operation: &Operation) -> bool {
    !matches!(operation.action, Action::Identity | Action::Seek { .. }) && stays_inside(operation)
}

/// Two copies are changed at two times.
fn without_times(text: &str) -> String {
    text.lines().map(|line| line.split(" changed ").next().unwrap_or(line).to_owned() + "\n").collect()
}

/// Whether its paths can't lead out of the directories above the tree, and what it changes is not the tree as a whole.
fn stays_inside(operation: &Operation) -> bool {
    let changes = matches!(operation.action, Action::Change(_));
    let is_inside = |path: &[u8]| {
        let (mut depth, mut least, mut upwards) = (0i32, 0i32, 0);
        for word in path.split(|&byte| byte == b'/') {
            depth += match word {
                b"" | b"." => 0,
                b".." => -1,
                _ => 1,
            };
            least = least.min(depth);
            upwards += usize::from(word == b"..");
        }
        least >= 0 && upwards <= DIRECTORIES_ABOVE && (depth > 0 || !changes)
    };
    is_inside(&operation.path) && (is_inside(&operation.other) || operation.other.is_empty() && !changes)
}
