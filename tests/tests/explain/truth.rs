//! Counts agree with those that the loader and Python name themselves.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{compare, text};

const PYTHON: &str = "/usr/bin/python3";

/// Returns how many modules of each top-level module Python imports from files, by its own account. A package's `.pth` file
/// can make a module whose file is not read (matplotlib's does); such a module lacks the `__builtins__` that running adds.
fn imported(code: &str, path: &str) -> BTreeMap<String, u64> {
    let listed = format!(
        "{code}\nimport sys\nfor name, module in list(sys.modules.items()):\n    \
         file = getattr(module, '__cached__', None) or getattr(module, '__file__', None)\n    \
         frozen = type(getattr(module, '__spec__', None) and module.__spec__.loader) is type and \
         'Frozen' in module.__spec__.loader.__name__\n    \
         run = str(file).endswith('.so') or hasattr(module, '__builtins__')\n    \
         if file and run and name == (module.__spec__.name if module.__spec__ else '') and not frozen: print(name)"
    );
    let output = Command::new(PYTHON).args(["-c", &listed]).env("PYTHONPATH", path).output().unwrap();
    let mut modules = BTreeMap::new();
    for name in String::from_utf8_lossy(&output.stdout).lines() {
        *modules.entry(name.split('.').next().unwrap_or(name).to_owned()).or_default() += 1;
    }
    modules
}

#[test]
fn modules_are_those_that_python_names() {
    if Command::new(PYTHON).arg("--version").output().is_err() {
        println!("skipped: there is no {PYTHON}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let parts = directory.path().join("without_init/part");
    fs::create_dir_all(&parts).unwrap();
    fs::write(parts.join("__init__.py"), "").unwrap();
    fs::write(parts.join("one.py"), "x = 1\n").unwrap();
    fs::write(directory.path().join("without_init/two.py"), "y = 2\n").unwrap();
    let path = text(directory.path());
    for code in [
        "import json",
        "import asyncio, ssl",
        "import xml.etree.ElementTree, sqlite3",
        "import without_init.part.one, without_init.two",
    ] {
        let expected = imported(code, path);
        let report = compare(&[PYTHON, "-c", code], |command| {
            command.env("PYTHONPATH", path);
        });
        let rows = report["imports"].as_array().unwrap();
        let counted: BTreeMap<String, u64> = rows
            .iter()
            .filter_map(|row| Some((row["module"].as_str()?.to_owned(), row["modules"].as_u64()?)))
            .filter(|(_, modules)| *modules > 0)
            .collect();
        for (module, modules) in &expected {
            let found = counted.get(module).copied().unwrap_or(0);
            assert!(found >= *modules, "{code}: {module} has {modules} modules, not {found}: {counted:?}");
        }
        assert!(!counted.contains_key("part"), "{code}: {counted:?}");
    }
}

#[test]
fn failing_look_ups_are_those_that_python_makes() {
    let directory = tempfile::tempdir().unwrap();
    let (empty, used) = (directory.path().join("empty"), directory.path().join("used"));
    for made in [&empty, &used] {
        fs::create_dir(made).unwrap();
    }
    for number in 0..12 {
        fs::write(used.join(format!("ours{number}.py")), "").unwrap();
    }
    let path = format!("{}:{}", text(&empty), text(&used));
    let names: Vec<String> = (0..12).map(|number| format!("ours{number}")).collect();
    let fruitless = |imports: &str| -> u64 {
        let report = compare(&[PYTHON, "-S", "-c", imports], |command| {
            command.env("PYTHONPATH", &path).env("PYTHONDONTWRITEBYTECODE", "1");
        });
        let searches = report["searches"].as_array().unwrap().clone();
        let found = searches.iter().find(|search| search["directory"] == text(&empty));
        found.and_then(|search: &Value| search["fruitless"].as_u64()).unwrap_or(0)
    };
    // Each module is searched once more in the entry that lacks it.
    assert_eq!(fruitless(&format!("import {}", names.join(", "))) - fruitless("pass"), 12);
}
