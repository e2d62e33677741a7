//! CPython, Perl and Lua start and import from a directory in the scope.

use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, skipped};

/// A Python environment in `shared/venv` with a package of modules, data and an extension.
fn python(fixture: &Fixture) -> Result<PathBuf, String> {
    let venv = fixture.path("venv");
    let made = Command::new("python3").args(["-m", "venv", "--copies", "--without-pip"]).arg(&venv).output();
    let made = made.map_err(|e| format!("python3: {e}"))?;
    if !made.status.success() {
        return Err(format!("python3 -m venv: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let site = first_below(&venv.join("lib")).join("site-packages");
    let site = site.strip_prefix(fixture.shared()).expect("made there").display().to_string();
    fixture.file(&format!("{site}/pkg/__init__.py"), "from . import leaf\nname = __name__\n", 0o644);
    fixture.file(&format!("{site}/pkg/leaf.py"), "value = 42\n", 0o644);
    fixture.file(&format!("{site}/pkg/data/text.txt"), "text\n", 0o644);
    fixture.file(&format!("{site}/space/one/mod.py"), "where = __file__\n", 0o644);
    fixture.library(&format!("{site}/pkg/libnative.so"), "native", &[]);
    Ok(venv.join("bin/python3"))
}

fn first_below(dir: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(dir).expect("the environment has it").flatten();
    entries.next().expect("the environment has it").path()
}

pub fn python_imports(via: Mechanism) {
    let fixture = Fixture::new("python");
    let python = match python(&fixture) {
        Ok(python) => python,
        Err(reason) => return skipped(reason),
    };
    let script = r#"
import sys, os, ctypes, importlib.resources, pkgutil, glob, subprocess
import pkg, space.one.mod, json, decimal
print(sys.executable, sys.prefix, sys.argv, os.path.realpath(sys.executable))
print(pkg.__file__, pkg.leaf.value, space.one.mod.where, pkg.__cached__)
print(sorted(m.name for m in pkgutil.iter_modules(pkg.__path__)))
print(importlib.resources.files(pkg).joinpath("data/text.txt").read_text())
native = ctypes.CDLL(os.path.join(os.path.dirname(pkg.__file__), "libnative.so"))
native.native.restype = ctypes.c_char_p
print(native.native(), native._name)
for name in ["nope", "pkg.nope"]:
    try:
        __import__(name)
    except ImportError as error:
        print(error)
try:
    ctypes.CDLL(os.path.join(os.path.dirname(pkg.__file__), "absent.so"))
except OSError as error:
    print(error)
print(sorted(os.path.basename(p) for p in glob.glob(os.path.dirname(pkg.__file__) + "/*")))
for root, dirs, files in os.walk(os.path.dirname(pkg.__file__)):
    print(root, sorted(dirs), sorted(files))
for entry in sorted(os.scandir(os.path.dirname(pkg.__file__)), key=lambda e: e.name):
    print(entry.name, entry.is_dir(), entry.stat().st_size, entry.inode())
for close in [True, False]:
    child = subprocess.run([sys.executable, "-c", "import pkg.leaf, sys; print(pkg.leaf.value, sys.executable)"],
                           close_fds=close, capture_output=True, text=True)
    print(child)
os.closerange(3, 1000)
import pkg.data if False else None
"#
    .replace("import pkg.data if False else None\n", "import fractions; print(open(pkg.__file__).read())\n");
    let program = Program::new(&python).args(["-c", &script, "argument"]);
    program.run();
    fixture.headwater().via(via).same(&program);
    let multiprocessing = "import multiprocessing as m, pkg.leaf\ndef f(x): return x * pkg.leaf.value\nif __name__ == '__main__':\n  for k in ['fork', 'spawn', 'forkserver']:\n    with m.get_context(k).Pool(2) as p: print(p.map(f, range(4)))\n";
    let file = fixture.file("job.py", multiprocessing, 0o644);
    fixture.headwater().via(via).same(&Program::new(&python).arg(&file));
    fixture.headwater().via(via).same(&Program::new(&python).args([
        "-S",
        "-c",
        "import sys; print(sys.path, sys.flags)",
    ]));
    fixture.headwater().via(via).same(&Program::new(&python).args(["-m", "no_such_module"]));
}

pub fn python_scripts_with_an_interpreter_line(via: Mechanism) {
    let fixture = Fixture::new("shebang");
    let python = match python(&fixture) {
        Ok(python) => python,
        Err(reason) => return skipped(reason),
    };
    let body =
        format!("#!{}\nimport sys, pkg\nprint(sys.argv, __file__, sys.executable, pkg.__file__)\n", python.display());
    let script = fixture.file("bin/run", body, 0o755);
    fixture.link("run", "bin/alias");
    fixture.headwater().via(via).same(&Program::new(&script).args(["a", "b c"]));
    fixture.headwater().via(via).same(&Program::new("bin/alias").arg("a").in_dir(fixture.shared()));
    fixture.headwater().via(via).same(&Program::shell(&format!(
        "{0}; PATH={1}:$PATH run x",
        script.display(),
        fixture.path("bin").display()
    )));
}

pub fn perl_imports(via: Mechanism) {
    if !has_program("perl") {
        return skipped("perl is not installed");
    }
    let fixture = Fixture::new("perl");
    fixture.file("perl/Deep/Down.pm", "package Deep::Down;\nsub where { return __FILE__ }\n1;\n", 0o644);
    fixture.file("perl/Top.pm", "package Top;\nuse Deep::Down;\nour $value = 7;\n1;\n", 0o644);
    let script = "use POSIX; use List::Util qw(sum); use Top; print Deep::Down::where(), \" $Top::value $INC{'Top.pm'}\\n\"; \
                  opendir(my $d, $ENV{PERL5LIB}) or die $!; print join(' ', sort readdir $d), \"\\n\"; \
                  print join(' ', (stat \"$ENV{PERL5LIB}/Top.pm\")[1..7, 9, 10]), \"\\n\"; \
                  print -e \"$ENV{PERL5LIB}/none\" ? 'yes' : \"no $!\", \"\\n\"; print `cat $ENV{PERL5LIB}/Top.pm`; require Nope;";
    let program = Program::new("perl").args(["-e", script]).env("PERL5LIB", fixture.path("perl"));
    let session = fixture.headwater().via(via).same(&program);
    assert!(session.output.stdout.contains(" 7 "), "{:?}", session.output);
}

pub fn lua_imports(via: Mechanism) {
    let Some(lua) = ["lua5.4", "lua5.3", "lua"].into_iter().find(|name| has_program(name)) else {
        return skipped("lua is not installed");
    };
    let fixture = Fixture::new("lua");
    fixture.file("lua/top.lua", "local deep = require('deep.down')\nreturn { value = deep.value + 1 }\n", 0o644);
    fixture.file("lua/deep/down.lua", "return { value = 6, where = ... }\n", 0o644);
    let shared = fixture.shared();
    let path = format!("{0}/none/?.lua;{0}/lua/?.lua;{0}/lua/?/init.lua", shared.display());
    let script = "print(require('top').value, package.searchpath('deep.down', package.path)) \
                  for line in io.lines(package.searchpath('top', package.path)) do print(line) end \
                  print(io.open(package.path)) print(pcall(require, 'nope'))";
    let program =
        Program::new(lua).args(["-e", script]).env("LUA_PATH", path).env("LUA_CPATH", shared.join("lua/?.so"));
    let session = fixture.headwater().via(via).same(&program);
    assert!(session.output.stdout.starts_with('7'), "{:?}", session.output);
}

pub fn shells(via: Mechanism) {
    let fixture = Fixture::new("shells");
    fixture.file("lib/functions", "greet() { echo \"hello $1 from $0\"; }\n", 0o644);
    fixture.file("data/lines", "one\ntwo\nthree\n", 0o644);
    let body = "cd \"$(dirname \"$0\")\" && . ../lib/functions && greet \"$1\"; while read -r line; do echo \"<$line>\"; \
                done < ../data/lines; for f in ../*/*; do echo \"$f\"; done; test -x \"$0\" && echo runs; \
                cat <<END\nhere $(cat ../data/lines | wc -l)\nEND\n[ -e ../none ] || echo absent; exit 3\n";
    for shell in ["sh", "bash", "dash"].into_iter().filter(|shell| has_program(shell)) {
        let script = fixture.file(&format!("bin/with-{shell}"), format!("#!/usr/bin/env {shell}\n{body}"), 0o755);
        let session = fixture.headwater().via(via).same(&Program::new(&script).arg("you"));
        assert_eq!(session.output.status, 3, "{:?}", session.output);
        // And a shell that lies in the scope itself.
        let found = Command::new("sh").args(["-c", &format!("command -v {shell}")]).output().expect("there is a shell");
        let own = fixture.path(&format!("bin/{shell}"));
        std::fs::copy(String::from_utf8_lossy(&found.stdout).trim(), &own).expect("an own directory");
        fixture.headwater().via(via).same(&Program::new(own).arg(&script).arg("you"));
    }
}

pub fn node_modules(via: Mechanism) {
    if !has_program("node") {
        return skipped("node is not installed");
    }
    let fixture = Fixture::new("node");
    fixture.file("app/node_modules/leaf/index.js", "exports.value = 6;\n", 0o644);
    fixture.file("app/node_modules/leaf/package.json", "{\"name\": \"leaf\", \"version\": \"1.2.3\"}\n", 0o644);
    fixture.file("app/lib/inner.js", "exports.where = __filename;\n", 0o644);
    fixture.file("app/lib/module.mjs", "export const value = 8;\n", 0o644);
    fixture.link("../lib", "app/node_modules/linked");
    let script = "const fs = require('fs'), path = require('path');\n\
        console.log(__filename, require.resolve('leaf'), require('leaf/package.json').version);\n\
        console.log(require('leaf').value + 1, require('linked/inner').where);\n\
        console.log(fs.readdirSync(__dirname, {withFileTypes: true}).map(e => e.name + e.isDirectory()).sort());\n\
        try { require('nope'); } catch (error) { console.log(error.code, error.message); }\n\
        try { fs.readFileSync(path.join(__dirname, 'none')); } catch (error) { console.log(error.code); }\n\
        fs.promises.readFile(__filename).then(text => console.log(text.length))\n\
        .then(() => import('./lib/module.mjs')).then(module => console.log(module.value));\n";
    let file = fixture.file("app/main.js", script, 0o644);
    fixture.headwater().via(via).same_output(&Program::new("node").arg(&file));
    fixture.headwater().via(via).same_output(&Program::new("node").arg("app/main.js").in_dir(fixture.shared()));
}

pub fn java_classes(via: Mechanism) {
    if !has_program("javac") {
        return skipped("javac is not installed");
    }
    let fixture = Fixture::new("java");
    let source = "import java.nio.file.*; import java.util.*;\n\
        public class Main {\n\
          static class Inner { static int value = 7; }\n\
          public static void main(String[] arguments) throws Exception {\n\
            Path dir = Path.of(arguments[0]);\n\
            System.out.println(Main.class.getProtectionDomain().getCodeSource().getLocation() + \" \" + Inner.value);\n\
            System.out.println(new String(Main.class.getResourceAsStream(\"/data/text\").readAllBytes()));\n\
            try (var names = Files.walk(dir)) { names.sorted().forEach(System.out::println); }\n\
            System.out.println(Files.readAttributes(dir.resolve(\"data/text\"), \"size,isRegularFile\"));\n\
            try { Class.forName(\"Nope\"); } catch (ClassNotFoundException e) { System.out.println(e.getMessage()); }\n\
            System.out.println(Files.exists(dir.resolve(\"none\")));\n\
            try (var f = new java.io.RandomAccessFile(dir.resolve(\"data/text\").toFile(), \"r\")) {\n\
              var map = f.getChannel().map(java.nio.channels.FileChannel.MapMode.READ_ONLY, 0, 4);\n\
              System.out.println((char) map.get(1)); }\n\
          }\n\
        }\n";
    let file = fixture.file("src/Main.java", source, 0o644);
    let classes = fixture.dir("classes");
    fixture.file("classes/data/text", "text of a resource", 0o644);
    let made = Command::new("javac").arg("-d").arg(&classes).arg(&file).output().expect("javac is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let jar = fixture.path("lib/app.jar");
    std::fs::create_dir(fixture.path("lib")).expect("an own directory");
    let made = Command::new("jar").arg("cf").arg(&jar).arg("-C").arg(&classes).arg(".").output().expect("with javac");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for path in [&classes, &jar] {
        // Its files that other runs share lie in no directory of the tests.
        let java = Program::new("java").args(["-Xshare:auto", "-XX:-UsePerfData", "-Xmx64m", "-cp"]).arg(path);
        fixture.headwater().via(via).same_output(&java.arg("Main").arg(&classes));
    }
}
