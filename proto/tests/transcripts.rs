//! Plays the transcripts in `tests/transcripts` to a node and compares what comes out.
//!
//! A transcript is a series of blocks: inputs, a line `----`, the outputs that they cause, an empty
//! line. `node RANK RANKS …` makes the node, `time MS` sets the clock and `timeout` lets a due
//! timeout happen; the other inputs are described in `notation`. Lines beginning with `#` are comments.
//! With `HEADWATER_UPDATE_TRANSCRIPTS=1` the outputs are written into the files instead; read the
//! difference before you commit it.

mod notation;

use std::path::Path;

use headwater_proto::{Node, Time};

#[derive(Default)]
struct Player {
    node: Option<Node>,
    now: Time,
}

impl Player {
    fn play(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("node ") {
            let mut node = Node::new(notation::config(rest.split_whitespace()), 1);
            // Its first parents are dialled; the transcript decides which come up.
            while node.poll_output().is_some() {}
            self.node = Some(node);
            return;
        }
        if let Some(rest) = line.strip_prefix("time ") {
            self.now = rest.parse().unwrap();
            return;
        }
        let node = self.node.as_mut().expect("a transcript starts with a node");
        if line == "timeout" {
            assert!(node.poll_timeout().is_some_and(|due| due <= self.now), "no timeout is due");
            node.handle_timeout(self.now);
        } else {
            node.handle(self.now, notation::input(line));
        }
    }

    fn outputs(&mut self) -> Vec<String> {
        let node = self.node.as_mut().expect("a transcript starts with a node");
        std::iter::from_fn(|| node.poll_output()).map(|output| notation::show(&output)).collect()
    }
}

/// Returns the transcript with the node's outputs.
fn replay(text: &str) -> String {
    let (mut player, mut expected, mut replayed) = (Player::default(), false, String::new());
    for line in text.lines() {
        match line {
            "----" => {
                expected = true;
                replayed += "----\n";
                for output in player.outputs() {
                    replayed += &format!("{output}\n");
                }
            }
            "" => {
                expected = false;
                replayed += "\n";
            }
            _ if expected => {}
            input => {
                replayed += &format!("{input}\n");
                if !input.starts_with('#') {
                    player.play(input);
                }
            }
        }
    }
    replayed
}

#[test]
fn transcripts() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let replayed = replay(&text);
        if std::env::var_os("HEADWATER_UPDATE_TRANSCRIPTS").is_some() {
            std::fs::write(&file, &replayed).unwrap();
        } else if let Some((number, (is, should))) =
            replayed.lines().zip(text.lines()).enumerate().find(|(_, (is, should))| is != should)
        {
            panic!("{}:{}: expected\n  {should}\nbut got\n  {is}\n", file.display(), number + 1);
        } else {
            assert_eq!(replayed, text, "{}", file.display());
        }
    }
}
