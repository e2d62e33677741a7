//! Python programs are the same from a zygote as by exec.

mod harness;

use std::cell::Cell;

use headwater_tests::harness::{has_program, skipped};

use harness::{Bench, Run, interpreters, version};

/// Runs it with each interpreter.
fn each(test: impl Fn(&Bench, &std::path::Path)) {
    let bench = Bench::new();
    let all = interpreters();
    if all.is_empty() {
        return skipped("no python3 of version 3.8 to 3.15");
    }
    for python in all {
        test(&bench, &python);
    }
}

const REPORT: &str = include_str!("programs/report.py");

#[test]
fn a_report_of_itself() {
    each(|bench, python| {
        let dir = bench.dir();
        std::fs::create_dir_all(dir.join("directory")).expect("an own directory");
        bench.program("directory/__main__.py", REPORT);
        let link = dir.join("link.py");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("directory/__main__.py", link).expect("an own directory");
        let commands: &[&[&str]] = &[
            &["report.py", "a", "-c", "b"],
            &["./report.py"],
            &["--", "report.py"],
            &["link.py"],
            &["directory", "x"],
            &["-m", "report", "1", "-u"],
            &["-mreport"],
            &["-"],
            &["-", "x"],
            &[],
        ];
        for args in commands {
            bench.compare(python, &Run { args, input: REPORT, ..Run::default() });
        }
        bench.compare(python, &Run { args: &["-c", REPORT, "x"], ..Run::default() });
    });
}

/// Since 3.13 tracebacks show lines of the text after `-c`, and since 3.14 its indentation is removed.
#[test]
fn the_text_of_a_command_is_known() {
    let programs = [
        "def f(x):\n    1 / x\n\nf(0)",
        "import sys; print(sys._getframe().f_code.co_filename, sorted(sys.modules))",
        "def f():\n    return 'text'\ntry:\n    import inspect; print(inspect.getsource(f))\nexcept OSError as e:\n    print(e)",
        "import linecache; print(linecache.cache, getattr(linecache, '_interactive_cache', None))",
        "import sys; sys.addaudithook(lambda event, values: print(event) if event in ('exec', 'compile') else None); exec('1')",
        "from __future__ import annotations\ndef f(x: nothing): pass\nprint(f.__annotations__)",
        "# coding: latin-1\nprint(ascii('\u{e9}'))",
        "\u{e9} = 1; print(ascii([*globals()]))",
        "if True:\nprint(1)",
        "",
        " \n\t\n",
        "\n\nx = 1\nraise ValueError(x)",
        "\n    def f(x):\n        1 / x\n\n    f(0)\n",
    ];
    each(|bench, python| {
        for program in programs {
            bench.compare(python, &Run { args: &["-c", program], made: "", ..Run::default() });
        }
    });
}

/// The kernel calls a process by the script that was executed, not by its interpreter.
#[test]
fn scripts_are_called_by_their_names() {
    each(|bench, python| {
        let script = bench.script("a-script-by-name.py", &format!("#!{}\n{REPORT}", python.display()));
        bench.compare(&script, &Run { args: &["x"], ..Run::default() });
    });
}

#[test]
fn options_and_variables() {
    each(|bench, python| {
        let args = &["report.py", "x"];
        for options in [&["-u"][..], &["-s", "-B"], &["-bb", "-Wignore", "-W", "error::UserWarning"], &["-OO", "-q"]] {
            bench.compare(python, &Run { options, args, ..Run::default() });
        }
        for options in [&["-Xutf8"][..], &["-X", "faulthandler"]] {
            bench.compare(python, &Run { options, args, ..Run::default() });
        }
        // Before, such an interpreter does not survive a fork.
        if version(python) >= Some(10) {
            bench.compare(python, &Run { options: &["-X", "dev"], args, ..Run::default() });
        }
        for variables in [
            [("PYTHONIOENCODING", "latin-1:replace")],
            [("PYTHONUNBUFFERED", "1")],
            [("LC_ALL", "C")],
            // The interpreter sets LC_CTYPE.
            [("LANG", "C")],
            [("LANG", "")],
            [("TZ", "Asia/Tokyo")],
            [("PYTHONHASHSEED", "5")],
            [("PYTHONPATH", ".:")],
        ] {
            bench.compare(python, &Run { args, variables: &variables, ..Run::default() });
        }
        // Without the directory of modules in the path it is not recorded.
        bench.program("isolated.py", "import sys\nprint(sys.path, sys.flags, sys.argv)\n");
        for options in [&["-I"][..], &["-E", "-S"]] {
            bench.compare(python, &Run { options, args: &["isolated.py"], made: "", ..Run::default() });
        }
        // Others than the zygote's: the process has those that were meant.
        bench.compare(python, &Run { args: &["-u", "report.py"], made: "exec", ..Run::default() });
        bench.compare(python, &Run { args: &["-X", "tracemalloc=5", "report.py"], made: "exec", ..Run::default() });
    });
}

#[test]
fn standard_files() {
    each(|bench, python| {
        for shell in ["\"$@\" 0<&-", "\"$@\" 2>&-", "\"$@\" 0<&- 1>&- 2>&-", "\"$@\" </dev/null", "\"$@\" | cat"] {
            bench.compare(python, &Run { args: &["report.py"], shell, ..Run::default() });
        }
        if !has_program("script") {
            return skipped("no program `script`");
        }
        let terminal = "script -qec \"$*\" /dev/null </dev/null";
        bench.compare(python, &Run { args: &["report.py"], shell: terminal, ..Run::default() });
    });
}

#[test]
fn signals() {
    each(|bench, python| {
        for shell in ["trap '' INT HUP PIPE; \"$@\"", "trap '' INT HUP PIPE XFSZ; DEFAULT_SIGNALS=1 \"$@\""] {
            bench.compare(python, &Run { args: &["report.py"], shell, ..Run::default() });
        }
        let variables = &[("DEFAULT_SIGNALS", "1")];
        bench.compare(python, &Run { args: &["report.py"], variables, ..Run::default() });
        // The interpreter's signal actions must not reach the program that replaces it.
        let shell = "trap '' HUP; \"$@\"";
        bench.compare(python, &Run { args: &["-u", "report.py"], shell, made: "exec", ..Run::default() });
    });
}

#[test]
fn refusals() {
    let bench = Bench::new();
    let check = |program: &str, run: &Run, reason: &str| {
        let (output, _) = bench.spawn("zygote", program.as_ref(), run, 1);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), printed.trim_end()), (Some(92), reason), "{program}");
    };
    let other = std::fs::canonicalize("/bin/true").expect("every machine has it").display().to_string();
    let reason = format!("no zygote: what runs is {other}, no Python of version 3.8 to 3.15");
    check("/bin/true", &Run::default(), &reason);
    let Some(python) = interpreters().first().map(|path| path.display().to_string()) else {
        return skipped("no python3 of version 3.8 to 3.15");
    };
    bench.program("threads.py", "import threading, time\nthreading.Thread(target=time.sleep, args=[60]).start()\n");
    bench.program("wraps.py", "import io, sys\nsys.stdout = io.StringIO()\n");
    let imports = |imports| Run { imports, ..Run::default() };
    check(&python, &imports("threads"), "no zygote: during its imports, it has started threads");
    check(&python, &imports("wraps"), "no zygote: its imports replace standard files");
    let inspect = Run { variables: &[("PYTHONINSPECT", "1")], ..Run::default() };
    check(&python, &inspect, "no zygote: the environment has PYTHONINSPECT, which is for one interpreter");
    let command = Run { options: &["-i"], ..Run::default() };
    check(&python, &command, "no zygote: the interpreter does not start with these options");
}

/// A driver that was used before a fork can't be used after it. One that is only loaded can.
#[test]
fn imports_that_use_a_gpu() {
    let bench = Bench::new();
    let Some(python) = interpreters().into_iter().next() else {
        return skipped("no python3 of version 3.8 to 3.15");
    };
    bench.library("spawn/gpu_driver.c", "libcuda.so.1");
    bench.program("loads.py", "import ctypes, os\ndriver = ctypes.CDLL(os.path.dirname(__file__) + '/libcuda.so.1')\n");
    bench.program("starts.py", "import loads\nassert loads.driver.cuInit(0) == 0\n");
    bench.program("below/train.py", "import made, starts, sys\nprint(sys.argv)\n");
    bench.compare(&python, &Run { args: &["below/train.py"], imports: "loads", ..Run::default() });
    let (output, _) = bench.spawn("zygote", &python, &Run { imports: "starts", ..Run::default() }, 1);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(printed.trim_end(), "no zygote: during its imports, it has opened /dev/zero");
}

#[test]
fn ends() {
    let programs = [
        "import made, sys\nsys.exit(3)\n",
        "import made, sys\nsys.exit('why')\n",
        "import made, sys\nsys.exit()\n",
        "import made, os\nprint('lost', end='')\nos._exit(5)\n",
        "import made, os\nos.abort()\n",
        "import made\ndef f(n):\n    return 1 / n\ntry:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise KeyError(1) from e\n",
        "import made\ndef f():\n    f()\nf()\n",
        "import made, os, signal\nprint('out')\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass\n",
        "import made, sys, atexit\natexit.register(lambda: 1 / 0)\nprint('x')\n",
        "import made, sys\nsys.excepthook = lambda *a: print('hook', a[0])\nraise ValueError\n",
        "import made, warnings\nwarnings.warn('twice', stacklevel=2)\nwarnings.warn('deep', stacklevel=5)\n",
        "import made, sys\nsys.stdout.write('x')\nsys.stdout.close()\nsys.stderr.close()\n",
        "import made, os\nprint('x')\nos.close(1)\n",
        "import made, faulthandler, os, signal\nfaulthandler.enable()\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "import made\nasync def f(): pass\nf()\n",
    ];
    let first = interpreters().into_iter().next().unwrap_or_default();
    each(|bench, python| {
        for program in programs {
            bench.program("ends.py", program);
            bench.compare(python, &Run { args: &["ends.py"], ..Run::default() });
            bench.compare(python, &Run { args: &["-c", program], ..Run::default() });
            // The rest is the same in all versions.
            if python == first {
                bench.compare(python, &Run { args: &["-m", "ends"], ..Run::default() });
                bench.compare(python, &Run { args: &[], input: program, ..Run::default() });
            }
        }
        bench.program("broken.py", "print(\n");
        for args in [&["broken.py"][..], &["absent.py"], &["-m", "absent"], &["-m", "broken"], &["-c", "1 +"]] {
            bench.compare(python, &Run { args, made: "", ..Run::default() });
        }
    });
}

#[test]
fn what_programs_use() {
    each(|bench, python| {
        let imports = "asyncio,multiprocessing,concurrent.futures,absent";
        for (imports, args) in [("none", &["uses.py"][..]), (imports, &["-m", "uses"])] {
            // The processes that it makes note something, too, some of them by exec.
            bench.compare(python, &Run { args, imports, input: "a line\n", made: "", ..Run::default() });
        }
    });
}

#[test]
fn imports_are_there() {
    each(|bench, python| {
        bench.program(
            "slow.py",
            "import os\nprint('imported', flush=True)\nos.environ.setdefault('SET_BY', 'import')\n",
        );
        bench.program(
            "uses_slow.py",
            "import made, sys\nprint('slow' in sys.modules)\nimport slow, os\nprint(os.environ['SET_BY'])\n",
        );
        let run = Run { args: &["uses_slow.py"], imports: "slow, random", ..Run::default() };
        let output = |run: &Run| {
            let (output, made) = bench.spawn("zygote", python, run, 2);
            (String::from_utf8(output.stdout).expect("text"), made)
        };
        // The directory of the program hides the imported module, and by exec it would be another file.
        assert_eq!(output(&run).1, "exec\nexec\n");
        std::fs::create_dir_all(bench.dir().join("elsewhere")).expect("an own directory");
        bench.program("elsewhere/uses_slow.py", &std::fs::read_to_string(bench.dir().join("uses_slow.py")).unwrap());
        let run = Run { args: &["elsewhere/uses_slow.py"], ..run };
        assert_eq!(output(&run), ("imported\nTrue\nimport\nTrue\nimport\n".into(), "zygote\nzygote\n".into()));
        let own = [("SET_BY", "caller")];
        let run = Run { variables: &own, ..run };
        assert_eq!(output(&run).0, "imported\nTrue\ncaller\nTrue\ncaller\n");
    });
}

#[test]
fn siblings_draw_other_numbers() {
    let has_numpy = Cell::new(false);
    each(|bench, python| {
        let differ = |imports: &str, program: &str| {
            bench.program("draw/draws.py", program);
            let run = Run { args: &["draw/draws.py"], imports, ..Run::default() };
            let (output, made) = bench.spawn("zygote", python, &run, 2);
            let text = String::from_utf8(output.stdout).expect("text");
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!((lines.len(), &*made), (2, "zygote\nzygote\n"), "{}", String::from_utf8_lossy(&output.stderr));
            assert_ne!(lines[0], lines[1], "{program}");
        };
        differ("random", "import made, random\nprint(random.getrandbits(64))\n");
        differ("multiprocessing", "import made, multiprocessing as m\nprint(bytes(m.current_process().authkey))\n");
        let numpy = std::process::Command::new(python).args(["-c", "import numpy"]).output().expect("it was found");
        if numpy.status.success() {
            differ("numpy", "import made, numpy\nprint(numpy.random.rand(4))\n");
            has_numpy.set(true);
        }
    });
    if !has_numpy.get() {
        skipped("no interpreter has numpy");
    }
}
