//! What is linked into the command: its bill of materials (CycloneDX), and the licences' texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use spdx::Expression;

use crate::roots::Root;
use crate::shell::Shell;
use crate::system::{Architecture, System};
use crate::{files, headwater};

/// Licences under which anyone may pass the command on. The C library's, which is linked too, is not among them: who
/// passes it on must let users link the command with another C library, which the sources allow.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// How the names of files with licences begin, in small letters.
const LICENCE_FILES: &[&str] = &["licence", "license", "copying", "copyright", "notice", "unlicense"];
const COMMAND: &str = "headwater";

/// A part of the command.
struct Component {
    name: String,
    version: String,
    licence: String,
    /// Its package URL; parts of this repository have none.
    url: Option<String>,
    texts: Vec<PathBuf>,
}

/// Parts, and which of them each uses, by their references.
#[derive(Default)]
struct Bill {
    components: BTreeMap<String, Component>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// Writes the bill of materials and the licences' texts into the directory.
///
/// # Errors
/// A part has a licence that a release may not have, or no text of it.
pub fn write(shell: &Shell, architecture: Architecture, directory: &Path) -> Result<()> {
    let target = architecture.rust_target();
    let mut bill = linked_crates(shell, &target)?;
    let builder = headwater::root(shell, architecture)?;
    let rust = rust_library(shell, builder.as_ref())?;
    let runtimes = [rust].into_iter().chain(c_libraries(shell, builder.as_ref(), architecture)?);
    let root = bill.components.keys().find(|name| name.starts_with("headwater@")).context("the command")?.clone();
    for component in runtimes {
        let name = component.reference();
        bill.uses.entry(root.clone()).or_default().insert(name.clone());
        bill.components.insert(name, component);
    }
    std::fs::create_dir_all(directory)?;
    let text = serde_json::to_string_pretty(&bill.cyclonedx(&root))?;
    std::fs::write(directory.join("headwater.cdx.json"), text + "\n")?;
    std::fs::write(directory.join("THIRD-PARTY-LICENSES"), bill.licences()?)?;
    Ok(())
}

impl Component {
    fn reference(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
}

impl Bill {
    fn cyclonedx(&self, root: &str) -> Value {
        let describe = |component: &Component, kind: &str| {
            let mut value = json!({
                "type": kind,
                "bom-ref": component.reference(),
                "name": component.name,
                "version": component.version,
                "licenses": [{"expression": component.licence}],
            });
            if let Some(url) = &component.url {
                value["purl"] = json!(url);
            }
            value
        };
        let parts = self.components.iter().filter(|(name, _)| *name != root);
        let depends = |name: &String| {
            let used = self.uses.get(name).into_iter().flatten().collect::<Vec<_>>();
            json!({"ref": name, "dependsOn": used})
        };
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": describe(&self.components[root], "application")},
            "components": parts.map(|(_, component)| describe(component, "library")).collect::<Vec<_>>(),
            "dependencies": self.components.keys().map(depends).collect::<Vec<_>>(),
        })
    }

    /// Each text once, below the names of those that have it.
    fn licences(&self) -> Result<String> {
        let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
        for component in self.components.values().filter(|component| component.url.is_some()) {
            let title = format!("{} ({})", component.reference(), component.licence);
            ensure!(!component.texts.is_empty(), "{title}: no file with its licence was found");
            for path in &component.texts {
                let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
                let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
                texts.entry(text).or_default().insert(title.clone());
            }
        }
        let mut all = "The command contains parts of others. These are their licences.\n".to_owned();
        for (text, titles) in texts {
            let titles = titles.into_iter().collect::<Vec<_>>().join("\n");
            write!(all, "\n{line}\n{titles}\n{line}\n\n{text}\n", line = "=".repeat(100))?;
        }
        Ok(all)
    }
}

/// The crates that are linked into the command for this target. Build scripts and macros are not.
fn linked_crates(shell: &Shell, target: &str) -> Result<Bill> {
    let metadata = shell.run(&mut shell.cargo(&["metadata", "--quiet", "--locked", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&metadata[metadata.find('{').context("cargo printed no JSON")?..])?;
    let packages = metadata["packages"].as_array().context("no packages in `cargo metadata`")?;
    let package = |name: &str| {
        packages.iter().find(|package| {
            format!(
                "{}@{}",
                package["name"].as_str().unwrap_or_default(),
                package["version"].as_str().unwrap_or_default()
            ) == name
        })
    };
    let mut tree = shell.cargo(&["tree", "--quiet", "--locked", "--package", COMMAND, "--target", target]);
    let tree = shell.run(tree.args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", " {p}"]))?;
    let mut bill = Bill::default();
    let mut above = Vec::<String>::new();
    for line in tree.lines() {
        let (depth, name) = tree_line(line).with_context(|| format!("`cargo tree` printed `{line}`"))?;
        above.truncate(depth);
        if let Some(user) = above.last() {
            bill.uses.entry(user.clone()).or_default().insert(name.clone());
        }
        if !bill.components.contains_key(&name) {
            let package = package(&name).with_context(|| format!("`cargo metadata` lacks {name}"))?;
            bill.components.insert(name.clone(), from_package(package)?);
        }
        above.push(name);
    }
    Ok(bill)
}

/// The depth in the tree, and the reference.
fn tree_line(line: &str) -> Option<(usize, String)> {
    let mut fields = line.split(' ');
    let depth = fields.next()?.parse().ok()?;
    Some((depth, format!("{}@{}", fields.next()?, fields.next()?.strip_prefix('v')?)))
}

fn from_package(package: &Value) -> Result<Component> {
    let field = |name: &str| package[name].as_str().map(str::to_owned);
    let (name, version) = (field("name").context("a crate has a name")?, field("version").context("and a version")?);
    let url = field("source").map(|_| format!("pkg:cargo/{name}@{version}"));
    let licence = allowed(&field("license").unwrap_or_default()).with_context(|| format!("{name} {version}"))?;
    let mut texts = Vec::new();
    if url.is_some() {
        let manifest = PathBuf::from(field("manifest_path").context("a crate has a manifest")?);
        texts = files::all(manifest.parent().context("in a directory")?)?;
        texts.retain(|path| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            LICENCE_FILES.iter().any(|start| file.starts_with(start)) && !file.ends_with(".rs")
        });
    }
    Ok(Component { name, version, licence, url, texts })
}

/// Returns the licence as SPDX writes it.
///
/// # Errors
/// No choice among its alternatives is permissive.
fn allowed(licence: &str) -> Result<String> {
    let canonical = Expression::canonicalize(licence).ok().flatten().unwrap_or_else(|| licence.to_owned());
    let Ok(expression) = Expression::parse(&canonical) else { bail!("`{licence}` is no licence that SPDX knows") };
    let is_permissive =
        |license: &spdx::LicenseReq| license.license.id().is_some_and(|id| PERMISSIVE.contains(&id.name));
    ensure!(
        expression.evaluate(is_permissive),
        "`{licence}` is not among the permissive licences: replace the crate, or allow it in {}",
        file!()
    );
    Ok(canonical)
}

fn rust_library(shell: &Shell, root: Option<&Root<'_>>) -> Result<Component> {
    let (version, text) = match root {
        None => {
            let text = headwater::rust_installation(shell)?.join("share/doc/rust/COPYRIGHT-library.html");
            (headwater::rust_version(shell, "release")?, text)
        }
        Some(root) => {
            let version = shell.run(root.command("rustc", Path::new("/")).arg("--version"))?;
            let number = version.split_whitespace().nth(1).context("`rustc --version` printed no version")?;
            (number.to_owned(), root.outside("/usr/share/doc/rustc/copyright"))
        }
    };
    Ok(Component {
        name: "rust-std".into(),
        licence: "MIT OR Apache-2.0".into(),
        url: Some(format!("pkg:generic/rust-std@{version}")),
        texts: vec![text],
        version,
    })
}

/// The static libraries of the C compiler, which Debian's packages describe.
fn c_libraries(shell: &Shell, root: Option<&Root<'_>>, architecture: Architecture) -> Result<Vec<Component>> {
    let ask = |program: &str, arguments: &[&str]| -> Result<String> {
        let mut command = root.map_or_else(|| shell.command(program), |root| root.command(program, Path::new("/")));
        Ok(shell.run(command.args(arguments))?.trim().to_owned())
    };
    let (compiler, _) = System::Released(architecture).compiler(&shell.root);
    let mut components = Vec::new();
    for (question, licence) in [
        ("-print-file-name=libc.a", "LGPL-2.1-or-later"),
        ("-print-libgcc-file-name", "GPL-3.0-or-later WITH GCC-exception-3.1"),
    ] {
        let file = ask("realpath", &[&ask(&compiler, &[question])?])?;
        let owner = ask("dpkg-query", &["--search", &file])?;
        let package = owner.split(": ").next().context("a package owns it")?;
        let version = ask("dpkg-query", &["--show", "--showformat=${Version}", package])?;
        let name = package.split(':').next().context("a package has a name")?;
        let text = Path::new("/usr/share/doc").join(name).join("copyright");
        components.push(Component {
            name: name.into(),
            licence: licence.into(),
            url: Some(format!("pkg:deb/debian/{name}@{}", version.replace('+', "%2B"))),
            texts: vec![root.map_or_else(|| text.clone(), |root| root.outside(&text))],
            version,
        });
    }
    Ok(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_must_be_permissive() {
        let check = |licence: &str, expected: Option<&str>| assert_eq!(allowed(licence).ok().as_deref(), expected);
        check("MIT", Some("MIT"));
        check("MIT/Apache-2.0", Some("MIT OR Apache-2.0"));
        check("GPL-3.0-only OR MIT", Some("GPL-3.0-only OR MIT"));
        check("Apache-2.0 WITH LLVM-exception AND ISC", Some("Apache-2.0 WITH LLVM-exception AND ISC"));
        check("MIT AND GPL-3.0-only", None);
        check("MPL-2.0", None);
        check("", None);
        check("mine", None);
        let error = allowed("GPL-2.0-only").unwrap_err().to_string();
        assert!(error.contains("`GPL-2.0-only`") && error.contains("components.rs"), "{error}");
    }

    #[test]
    fn lines_of_the_tree_are_read() {
        assert_eq!(tree_line("0 headwater v0.1.0 (/a b)"), Some((0, "headwater@0.1.0".into())));
        assert_eq!(tree_line("12 aead v0.5.2 (*)"), Some((12, "aead@0.5.2".into())));
        assert_eq!(tree_line(""), None);
    }

    #[test]
    fn all_that_is_linked_has_a_text() {
        let directory = tempfile::tempdir().unwrap();
        write(&Shell::new(false), Architecture::here().unwrap(), directory.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).unwrap();
        let bill: Value = serde_json::from_str(&read("headwater.cdx.json")).unwrap();
        let texts = read("THIRD-PARTY-LICENSES");
        let components = bill["components"].as_array().unwrap();
        for component in components.iter().filter(|component| component["purl"].is_string()) {
            assert!(texts.contains(component["bom-ref"].as_str().unwrap()), "{component}");
        }
        let has = |name: &str| components.iter().any(|component| component["name"] == name);
        assert!(has("ring") && has("headwater-proto") && has("rust-std") && !has("serde_derive") && !has("proptest"));
    }
}
