//! What is measured, as the command line says it.

use std::path::PathBuf;

/// What there is to measure.
const PARTS: [&str; 4] = ["node", "nodes", "matrix", "quiet"];

/// `bench io [--part NAME,…] [--mpi NAME,…] [--rounds N] [--bytes-max BYTES] [--markdown FILE]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) parts: Vec<String>,
    /// All that are installed, if empty.
    pub(super) mpis: Vec<String>,
    pub(super) rounds: usize,
    /// Of a file.
    pub(super) bytes_max: u64,
    pub(super) markdown: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options {
            parts: PARTS.map(String::from).to_vec(),
            mpis: Vec::new(),
            rounds: 7,
            bytes_max: 1 << 30,
            markdown: None,
        };
        for pair in words.chunks(2) {
            let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
            let list = || value.split(',').map(String::from).collect::<Vec<_>>();
            let number = || value.parse::<u64>().map_err(|error| format!("{name} {value}: {error}"));
            match name.as_str() {
                "--part" => options.parts = list(),
                "--mpi" => options.mpis = list(),
                "--rounds" => options.rounds = number()?.max(1) as usize,
                "--bytes-max" => options.bytes_max = number()?.max(1024),
                "--markdown" => options.markdown = Some(value.into()),
                _ => {
                    return Err(format!(
                        "no option {name}; there are --part, --mpi, --rounds, --bytes-max, --markdown"
                    ));
                }
            }
        }
        match options.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
            Some(part) => Err(format!("no part {part}; there are {}", PARTS.join(", "))),
            None => Ok(options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_options() {
        let parse = |line: &str| Options::parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>());
        let options = parse("--part node,quiet --mpi mpich4 --rounds 3 --bytes-max 4096").unwrap();
        assert_eq!((options.parts.len(), &*options.mpis[0], options.rounds, options.bytes_max), (2, "mpich4", 3, 4096));
        for (wrong, part) in [("--part x", "no part x"), ("--rounds", "needs a value"), ("--x 1", "no option --x")] {
            assert!(parse(wrong).unwrap_err().contains(part), "{wrong}");
        }
    }
}
