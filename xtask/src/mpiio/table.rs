//! The tables of functions that the library interposes: prototypes, and what a call does to memory.

use std::mem;

use anyhow::{Context, Result, bail, ensure};

/// How a call uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It reads or writes it.
    Used,
    /// It gives it to the program.
    Allocated,
    /// It takes it back.
    Freed,
}

/// Of which processes there is a part of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Only what is counted.
    One,
    /// One for each process of the communicator, or of the other group.
    Each,
    /// One for each process of the communicator's own group.
    Local,
    /// One for each neighbour that the caller receives from.
    Sources,
    /// One for each neighbour that it sends to.
    Destinations,
    /// Those of all processes, one behind the other.
    Sum,
    /// As many times as this parameter's value.
    Times(String),
}

/// At which processes the arguments mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Everywhere.
    All,
    /// At the root.
    Root,
    /// At those that the root sends to or receives from.
    UnderRoot,
}

/// The effect of a call on the memory that a parameter points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub usage: Use,
    /// How much: count and type, or counts, displacements and type; for made memory its size.
    pub extent: Vec<String>,
    pub share: Share,
    pub ranks: Ranks,
}

/// A parameter: `kind name suffix`, as in `const int` `counts` `[]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub kind: String,
    pub name: String,
    pub suffix: String,
    pub role: Option<Role>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub returns: String,
    pub name: String,
    pub parameters: Vec<Parameter>,
    /// How many parameters precede the variable ones, if it has such.
    pub fixed: Option<usize>,
    /// It communicates, synchronises or does something to a file.
    pub is_sync: bool,
    /// The core has a function of its own.
    pub is_hand: bool,
    /// The memory stays in use after the call.
    pub is_persistent: bool,
    /// It has a twin `NAME_c`.
    pub is_large: bool,
    /// The core has that one, too.
    pub is_hand_c: bool,
    /// Not every MPI has it.
    pub is_new: bool,
    /// Calls of the core before the original and after it, without their prefix `hwio_`.
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// The core's function of this name serves it, too.
    pub same_as: Option<String>,
}

impl Parameter {
    /// As C declares it.
    pub fn declared(&self) -> String {
        let space = if self.kind.ends_with('*') { "" } else { " " };
        format!("{}{space}{}{}", self.kind, self.name, self.suffix)
    }
}

impl Function {
    /// The parameters as C declares them.
    pub fn declared(&self) -> String {
        declared(&self.parameters)
    }

    /// `returns prefixNAME(parameters)`.
    pub fn prototype(&self, prefix: &str) -> String {
        let space = if self.returns.ends_with('*') { "" } else { " " };
        format!("{}{space}{prefix}{}({})", self.returns, self.name, self.declared())
    }

    /// The arguments' names.
    pub fn arguments(&self) -> String {
        let names: Vec<&str> = self.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        names.join(", ")
    }

    /// The parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }
}

/// Parameters as C declares them.
pub fn declared(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return "void".into();
    }
    parameters.iter().map(Parameter::declared).collect::<Vec<_>>().join(", ")
}

/// The functions of a table's text, in its order.
pub fn parse(text: &str) -> Result<Vec<Function>> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('\t') {
            None => lines.push(line.to_owned()),
            Some(rest) => {
                let last = lines.last_mut().context("the first line continues nothing")?;
                *last = format!("{last} {rest}");
            }
        }
    }
    let functions: Vec<Function> =
        lines.iter().map(|line| function(line).with_context(|| line.clone())).collect::<Result<_>>()?;
    for (at, one) in functions.iter().enumerate() {
        ensure!(functions[..at].iter().all(|other| other.name != one.name), "`{}` occurs twice", one.name);
    }
    Ok(functions)
}

fn function(line: &str) -> Result<Function> {
    let (head, rest) = line.split_once('(').context("no `(`")?;
    let (inside, mut words) = rest.split_once(')').context("no `)`")?;
    let (returns, name) = named(head).context("no name")?;
    let mut made = Function {
        returns,
        name,
        parameters: Vec::new(),
        fixed: None,
        is_sync: false,
        is_hand: false,
        is_persistent: false,
        is_large: false,
        is_hand_c: false,
        is_new: false,
        before: Vec::new(),
        after: Vec::new(),
        same_as: None,
    };
    let mut is_after = false;
    while !words.trim_start().is_empty() {
        words = words.trim_start();
        let end = words.find([' ', '(']).unwrap_or(words.len());
        if words[end..].starts_with('(') {
            let end = words.find(')').context("no `)`")? + 1;
            let calls = if is_after { &mut made.after } else { &mut made.before };
            calls.push(words[..end].to_owned());
            words = &words[end..];
            continue;
        }
        let word = &words[..end];
        words = &words[end..];
        match word {
            "then" => is_after = true,
            "as" => made.same_as = Some(mem::take(&mut words).trim().to_owned()),
            "sync" => made.is_sync = true,
            "hand" => made.is_hand = true,
            "persistent" => made.is_persistent = true,
            "large" => made.is_large = true,
            "hand_c" => made.is_hand_c = true,
            "new" => made.is_new = true,
            _ => bail!("`{word}` is unknown"),
        }
    }
    for part in inside.split(',').map(str::trim).filter(|part| *part != "void") {
        if part == "..." {
            made.fixed = Some(made.parameters.len());
        } else {
            made.parameters.push(parameter(part).with_context(|| format!("`{part}`"))?);
        }
    }
    check(&made)?;
    Ok(made)
}

/// Splits `const char *name` or `const int counts[]`.
pub fn parameter(text: &str) -> Result<Parameter> {
    let (text, role) = match text.split_once('[') {
        Some((before, after)) if !after.trim_start().starts_with(']') => {
            let (words, after) = after.split_once(']').context("no `]`")?;
            ensure!(after.trim().is_empty(), "`{after}` behind a role");
            (before.trim(), Some(role(words)?))
        }
        _ => (text, None),
    };
    let (text, suffix) = match text.find('[') {
        Some(at) => (text[..at].trim(), text[at..].replace(' ', "")),
        None => (text, String::new()),
    };
    let (kind, name) = named(text).context("no name")?;
    Ok(Parameter { kind, name, suffix, role })
}

/// Splits the last word from what precedes it.
fn named(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    let at = text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')? + 1;
    let (kind, name) = (text[..at].trim(), &text[at..]);
    (!kind.is_empty() && !name.is_empty()).then(|| (kind.to_owned(), name.to_owned()))
}

fn role(text: &str) -> Result<Role> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let usage = match words.first() {
        Some(&"allocated") => Use::Allocated,
        Some(&"freed") => Use::Freed,
        _ => Use::Used,
    };
    words.drain(..usize::from(usage != Use::Used));
    let mut ranks = Ranks::All;
    if let [before @ .., preposition @ ("at" | "under"), "root"] = words.as_slice() {
        ranks = if *preposition == "at" { Ranks::Root } else { Ranks::UnderRoot };
        words = before.to_vec();
    }
    let (share, rest) = match words.as_slice() {
        [rest @ .., "each"] => (Share::Each, rest),
        [rest @ .., "local"] => (Share::Local, rest),
        [rest @ .., "sources"] => (Share::Sources, rest),
        [rest @ .., "destinations"] => (Share::Destinations, rest),
        [rest @ .., "sum"] => (Share::Sum, rest),
        [rest @ .., "times", count] => (Share::Times((*count).to_owned()), rest),
        rest => (Share::One, rest),
    };
    let extent_words = match (usage, &share) {
        (Use::Freed, _) => 0..=0,
        (Use::Allocated, _) => 1..=1,
        (_, Share::Each | Share::Sources | Share::Destinations) => 2..=3,
        _ => 2..=2,
    };
    ensure!(extent_words.contains(&rest.len()), "`{text}` has too many or too few words");
    let extent = rest.iter().map(|word| (*word).to_owned()).collect();
    Ok(Role { usage, extent, share, ranks })
}

/// Whether the roles name parameters that are there.
fn check(function: &Function) -> Result<()> {
    for role in function.parameters.iter().filter_map(|parameter| parameter.role.as_ref()) {
        let count = match &role.share {
            Share::Times(count) => Some(count),
            _ => None,
        };
        for name in role.extent.iter().chain(count) {
            let is_literal = name == "1" || name.starts_with("MPI_");
            ensure!(is_literal || function.parameter(name).is_some(), "no parameter `{name}`");
        }
        ensure!(role.ranks == Ranks::All || function.parameter("root").is_some(), "no parameter `root`");
        let needs_comm = !matches!(role.share, Share::One | Share::Times(_)) || role.ranks != Ranks::All;
        ensure!(!needs_comm || function.parameter("comm").is_some(), "no parameter `comm`");
    }
    ensure!(function.is_large || !function.is_hand_c, "`hand_c` without `large`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Of these:\n\
        int MPI_Bcast(void *buffer [count datatype], int count,\n\tMPI_Datatype datatype, int root, MPI_Comm comm)\n\
        \tsync large\n\
        int MPI_Iscatterv(const void *sendbuf [counts displs sendtype each at root], const int counts[],\n\
        \tconst int displs[], MPI_Datatype sendtype, int root, MPI_Comm comm) sync\n\
        \nint open(const char *path, int flags, ..., mode_t mode) as openat\n\
        FILE *popen(char *const a[]) settle(a, 1) note() then forget(a)\nint MPI_Finalize(void)";

    #[test]
    fn tables() {
        let functions = parse(TABLE).unwrap();
        let prototypes: Vec<String> = functions.iter().map(|function| function.prototype("hwio_")).collect();
        assert_eq!(
            prototypes,
            [
                "int hwio_MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm)",
                "int hwio_MPI_Iscatterv(const void *sendbuf, const int counts[], const int displs[], \
                 MPI_Datatype sendtype, int root, MPI_Comm comm)",
                "int hwio_open(const char *path, int flags, mode_t mode)",
                "FILE *hwio_popen(char *const a[])",
                "int hwio_MPI_Finalize(void)",
            ]
        );
        assert!(functions[0].is_sync && functions[0].is_large && !functions[0].is_hand && !functions[1].is_large);
        assert_eq!(functions[2].fixed, Some(2));
        assert_eq!((functions[2].before.as_slice(), functions[2].same_as.as_deref()), ([].as_slice(), Some("openat")));
        assert_eq!(functions[3].before, ["settle(a, 1)", "note()"]);
        assert_eq!(functions[3].after, ["forget(a)"]);
        assert_eq!(functions[0].arguments(), "buffer, count, datatype, root, comm");
        let role = functions[1].parameters[0].role.clone().unwrap();
        assert_eq!((role.usage, role.share, role.ranks), (Use::Used, Share::Each, Ranks::Root));
        assert_eq!(role.extent, ["counts", "displs", "sendtype"]);
        assert!(functions[1].parameters[1].role.is_none());
    }

    #[test]
    fn mistakes_are_found() {
        let check = |line: &str, part: &str| {
            let error = format!("{:#}", parse(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        };
        check("int f(void *b [count type], int count)", "no parameter `type`");
        check("int f(void *b [count MPI_BYTE each], int count)", "no parameter `comm`");
        check("int f(void *b [count MPI_BYTE at root], int count, MPI_Comm comm)", "no parameter `root`");
        check("int f(void *b [count], int count)", "too few words");
        check("int f(int) sync", "no name");
        check("int f(int a) snyc", "`snyc` is unknown");
        check("int f(int a) hand_c", "`hand_c` without `large`");
        check("int f(int a) g(a", "no `)`");
        check("int f(int a)\nint f(int a)", "twice");
        check("\tint f(int a)", "continues nothing");
    }
}
