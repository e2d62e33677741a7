//! A reference model of a directory tree, and operations on trees that are drawn at random.
//!
//! A [`Tree`] describes what is made; from that alone, [`Reference`] predicts the result of each [`Operation`] that
//! only reads; `execute` executes operations on real directories by system calls. The three together check a file
//! system: the prediction, the result on a plain directory and the result on the file system under test are the same
//! lines.

mod change;
mod content;
mod execute;
mod line;
mod list;
mod operation;
mod reference;
pub mod strategy;
mod tree;

pub use content::Content;
pub use execute::execute;
pub use operation::{Action, Change, Operation};
pub use reference::{Expected, Reference};
pub use tree::{Kind, Node, Tree};

use std::path::Path;

/// Does all of these below `root`: a line for each.
pub fn execute_all(root: &Path, operations: &[Operation]) -> Vec<String> {
    operations.iter().map(|operation| execute(root, operation)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn plain_directories_are_as_predicted((tree, operations) in strategy::reading(30, 60)) {
            if !rustix::process::geteuid().is_root() {
                return Ok(());
            }
            let dir = crate::scratch("model");
            tree.make(dir.path()).expect("a fresh directory");
            let reference = Reference::new(&tree);
            for operation in &operations {
                if let Expected::Line(expected) = reference.expect(operation) {
                    prop_assert_eq!(execute(dir.path(), operation), expected, "{:?}", operation);
                }
            }
        }
    }
}
