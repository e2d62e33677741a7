//! Slurm with the plugin: `srun --headwater`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use headwater_tests::harness::services::{SLURM_CONF, Slurm, succeeds};
use headwater_tests::harness::{Output, Running, headwater_binary, skipped, wait_until};
use serde_json::Value;

use crate::allocations::{in_job, in_shell};
use crate::site::{Site, in_any_order};

/// How long programs may take to be up, and steps to end.
const STEP_MAX: Duration = Duration::from_secs(30);
/// Prints a line once it has its modules, and continues.
const SLEEPER: &str = "import pkg.m0, pkg.m1, time; print('up', flush=True); time.sleep(300)";
/// A Python that every user may run.
const PYTHON: &str = "/usr/bin/python3";
/// Variables that differ from step to step, or that the plugin sets.
const OWN: [&str; 6] = ["HEADWATER_", "SLURM_JOB", "SLURM_TASK_PID", "SLURM_SRUN", "SLURM_STEP_LAUNCHER", "LD_AUDIT"];

struct Plugged<'a> {
    site: &'a Site,
    directory: PathBuf,
    library: PathBuf,
}

/// The arguments of a line, and further ones.
fn args(line: &str, more: &[&str]) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).chain(more.iter().copied()).map(String::from).collect()
}

#[test]
fn steps_with_the_plugin() {
    let library = headwater_binary().with_file_name("../lib/slurm/headwater_spank.so");
    if !library.is_file() {
        return skipped("the plugin is not built (package libslurm-dev)");
    }
    let Some(site) = Site::new() else { return };
    let directory = site.directory("slurm");
    let plugged = Plugged { site: &site, directory, library };
    plugged.configure(&headwater_binary().display().to_string(), "");
    let _slurm = match Slurm::start(&site.cluster, &plugged.directory) {
        Ok(slurm) => slurm,
        Err(reason) => return skipped(reason),
    };
    plugged.files_are_read_once();
    plugged.variables_are_those_that_are_documented();
    plugged.users_and_sites_choose();
    plugged.keys_are_in_credentials_of_munge();
    plugged.levels_come_from_variables_and_files();
    plugged.a_programs_io_has_its_library();
    plugged.batch_scripts_pass_it_on();
    plugged.steps_share_the_jobs_session();
    plugged.programs_of_several_kinds_and_users();
    plugged.what_is_missing_is_reported();
    plugged.ends_leave_nothing();
}

impl Plugged<'_> {
    /// Has the plugin start this binary.
    fn configure(&self, binary: &str, more: &str) {
        let line = format!("optional {} headwater={binary} {more}\n", self.library.display());
        fs::write(self.directory.join("plugstack.conf"), line).expect("an own directory");
    }

    /// `--headwater` with the shared directory, and these options too.
    fn option(&self, more: &str) -> String {
        format!("--headwater=shared={}{more}", self.site.shared().display())
    }

    /// The arguments of srun with these options, before the site's program.
    fn srun(&self, options: &str) -> Vec<String> {
        self.site.args(&format!("srun {options}"))
    }

    /// Runs it; nothing is left afterwards.
    fn run(&self, args: &[String]) -> Output {
        let output = self.site.plain(args);
        self.site.assert_clean();
        in_any_order(output)
    }

    fn sh(&self, options: &str, script: &str) -> Output {
        self.run(&args(&format!("srun {options} /bin/sh -c"), &[script]))
    }

    fn files_are_read_once(&self) {
        let expected = self.run(&self.srun("-N4 -n8"));
        assert_eq!(expected.status, 0, "{expected:?}");
        assert!(!self.site.repeated().is_empty(), "without the plugin nodes read what others have read");
        for via in ["", ",via=audit"] {
            self.site.forget();
            let output = self.run(&self.srun(&format!("-N4 -n8 {}", self.option(via))));
            assert_eq!(output, expected, "{via}");
            assert_eq!(self.site.repeated(), [""; 0], "{via}");
        }
        let printed = self.run(&self.srun(&format!("-N4 -n8 {}", self.option(",verbose"))));
        assert!(printed.stderr.contains("8 processes on 4 nodes"), "{printed:?}");
    }

    fn variables(&self, options: &str) -> BTreeMap<String, String> {
        let output = self.sh(options, "env");
        assert_eq!(output.status, 0, "{output:?}");
        output.stdout.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
    }

    fn variables_are_those_that_are_documented(&self) {
        let others = |all: &BTreeMap<String, String>| -> Vec<String> {
            let is_other = |name: &&String| !OWN.iter().any(|own| name.starts_with(own));
            all.keys().filter(is_other).map(|name| format!("{name}={}", all[name])).collect()
        };
        let plain = self.variables("-N1 -n1");
        for via in ["", ",via=audit"] {
            let served = self.variables(&format!("-N1 -n1 {}", self.option(via)));
            assert_eq!(others(&served), others(&plain));
            let is_new = |name: &&String| name.contains("HEADWATER") && !plain.contains_key(*name);
            let own: Vec<&str> = served.keys().filter(is_new).map(String::as_str).collect();
            let known = ["HEADWATER_NODE", "HEADWATER_NODES", "HEADWATER_RANK", "HEADWATER_RANKS", "HEADWATER_SESSION"];
            match served.get("LD_AUDIT") {
                Some(library) => {
                    assert!(library.ends_with("/libheadwater-audit.so"), "{library}");
                    assert_eq!(own, [&known[..], &["HEADWATER_TABLE"]].concat());
                }
                None => assert_eq!((own, via), (known.to_vec(), ""), "in a namespace nothing else is needed"),
            }
            assert_eq!(served["HEADWATER_NODES"], "1");
        }
    }

    fn users_and_sites_choose(&self) {
        let session = "echo session=$HEADWATER_SESSION";
        let is_served = |options: &str| !self.sh(options, session).stdout.contains("session=\n");
        let without = |options: &str| {
            let output = self.sh(options, session);
            assert_eq!((output.stdout.trim(), output.status), ("session=", 0), "{output:?}");
            output.stderr
        };
        assert_eq!(without("-n1"), "");
        assert_eq!(without("-n1 --headwater=off"), "");
        let printed = without(&format!("-n1 {}", self.option(",shraed=/x")));
        assert!(printed.contains("--shraed") && printed.lines().count() == 1, "{printed}");
        // The site's PYTHONPATH is on a network file system.
        assert!(is_served("-n1 --headwater"));
        let nothing = format!("exclude={}", self.site.shared().display());
        let printed = without(&format!("-n1 --headwater={nothing}"));
        assert!(printed.contains("shared=DIR") && printed.lines().count() == 1, "{printed}");
        // The site's options are the defaults.
        let binary = headwater_binary().display().to_string();
        self.configure(&binary, "default=on");
        assert!(is_served("-n1 --export=NONE"));
        assert_eq!(without("-n1 --headwater=off"), "");
        self.configure(&binary, &format!("default={nothing}"));
        assert_eq!(without("-n1"), "", "without options there is no message");
        self.configure(&binary, "");
    }

    /// The job is the first line of the front end's output.
    fn keys_are_in_credentials_of_munge(&self) {
        let expected = self.run(&self.srun("-N4 -n8"));
        let (shown, binary) = (self.directory.join("job"), headwater_binary().display().to_string());
        let front = format!("if [ $1 = front ]; then {binary} \"$@\" | tee {}; exit; fi", shown.display());
        let shows = self.directory.join("shows");
        fs::write(&shows, format!("#!/bin/sh\n{front}\nexec {binary} \"$@\"\n")).expect("an own directory");
        fs::set_permissions(&shows, fs::Permissions::from_mode(0o755)).expect("an own file");
        self.configure(&shows.display().to_string(), "");
        let key = |options: &str| -> Value {
            self.site.forget();
            assert_eq!(self.run(&self.srun(&format!("-N4 -n8 {}", self.option(options)))), expected);
            assert_eq!(self.site.repeated(), [""; 0]);
            let job = fs::read_to_string(&shown).expect("the front end has answered");
            serde_json::from_str::<Value>(&job).expect("a job")["key"].clone()
        };
        assert_eq!(key("").as_str().map(str::len), Some(64));
        for via in ["", ",via=audit"] {
            let key = key(&format!(",key-protection=munge{via}"));
            assert!(key["munge"].as_str().is_some_and(|credential| credential.starts_with("MUNGE:")), "{key}");
        }
        self.configure(&binary, "");
    }

    /// At the level low, each node reads the site's modules, which are Python's.
    fn levels_come_from_variables_and_files(&self) {
        let file = self.directory.join("headwater.toml");
        fs::write(&file, "level = \"low\"\n").expect("an own directory");
        let defaults = format!("HEADWATER_CONFIG={}", file.display());
        for (variable, more, is_low) in [
            ("HEADWATER_LEVEL=low", "", true),
            ("HEADWATER_SERVE=libraries,data", "", true),
            ("HEADWATER_LEVEL=medium", "", false),
            (&defaults, "", true),
            (&defaults, ",serve=libraries+python", false),
            (&defaults, ",level=high", false),
        ] {
            self.site.forget();
            let srun = format!("env {variable} srun -N4 -n4 {}", self.option(more));
            let output = self.run(&self.site.args(&srun));
            assert_eq!((output.status, &*output.stderr), (0, ""), "{srun}: {output:?}");
            let read_again = self.site.repeated().iter().filter(|path| path.contains("pkg/m")).count();
            assert_eq!(read_again > 0, is_low, "{srun}: {:?}", self.site.repeated());
        }
    }

    /// A library that does nothing replaces the one that is to be loaded.
    fn a_programs_io_has_its_library(&self) {
        let libraries = self.directory.join("lib");
        fs::create_dir(&libraries).expect("an own directory");
        let audit = "libheadwater-audit.so";
        fs::copy(headwater_binary().with_file_name("../lib").join(audit), libraries.join(audit)).expect("it is there");
        let (source, library) = (self.directory.join("nothing.c"), libraries.join("libheadwater-mpiio.so"));
        fs::write(&source, "int hw_nothing;\n").expect("an own directory");
        let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).status();
        assert!(compiled.is_ok_and(|status| status.success()));
        let script = "echo $HEADWATER_IO $HEADWATER_IO_EVERYWHERE ${LD_PRELOAD##*/} $HEADWATER_IO_REPORT\n\
                      grep -q libheadwater-mpiio /proc/self/maps";
        let run = |options: &str| {
            let srun = format!("env HEADWATER_LIBDIR={} srun -N2 -n4 {options} /bin/sh -c", libraries.display());
            self.run(&args(&srun, &[script]))
        };
        let nothing = format!("--headwater=exclude={},io=auto,io-report=none", self.site.shared().display());
        for options in
            [self.option(",io=auto,io-report=none"), self.option(",via=audit,io=auto,io-report=none"), nothing]
        {
            let output = run(&options);
            let lines: Vec<&str> = output.stdout.lines().collect();
            assert_eq!(lines, ["auto yes libheadwater-mpiio.so none"; 4], "{options}: {output:?}");
            assert_eq!((output.status, &*output.stderr), (0, ""), "{options}");
        }
        let output = run(&self.option(""));
        assert_eq!((output.stdout.trim(), output.status), ("", 1), "{output:?}");
    }

    fn batch_scripts_pass_it_on(&self) {
        let (script, result) = (self.directory.join("script"), self.directory.join("result"));
        let text = "#!/bin/sh\necho \"batch=$HEADWATER_SESSION\"\nfor step in 1 2; do\n\
                    srun -N2 -n2 sh -c 'echo session=$HEADWATER_SESSION' &\ndone\nwait\n\
                    srun -n1 sh -c 'echo session=$HEADWATER_SESSION'\n\
                    srun --headwater=off -n1 sh -c 'echo off=$HEADWATER_SESSION'\n";
        fs::write(&script, text).expect("an own directory");
        let sbatch = format!("sbatch --wait -N2 -n4 {} --output", self.option(""));
        let output = self.run(&args(&sbatch, &[&result.to_string_lossy(), &script.to_string_lossy()]));
        let printed = fs::read_to_string(&result).unwrap_or_default();
        assert_eq!(output.status, 0, "{output:?}\n{printed}");
        let mut sessions: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("session=")).collect();
        assert_eq!(sessions.len(), 5, "{printed}");
        sessions.sort_unstable();
        sessions.dedup();
        assert!(sessions.len() == 3 && !sessions[0].is_empty(), "each step has a session: {printed}");
        assert!(printed.contains("batch=\n") && printed.contains("off=\n"), "{printed}");
    }

    fn steps_share_the_jobs_session(&self) {
        self.site.forget();
        let step = format!("srun -N4 -n4 --headwater {}", in_shell(&self.site.program()));
        let shown = "srun -N1 -n1 --headwater sh -c 'echo session $HEADWATER_SESSION'";
        let output = in_job(self.site, &format!("{step}; {step}; {shown}"));
        self.site.assert_clean();
        assert_eq!(output.stdout.lines().filter(|line| line.starts_with("36100 ")).count(), 8, "{output:?}");
        let session = output.stdout.lines().next().unwrap_or_default();
        assert!(output.stdout.ends_with(&format!("session {session}\n")), "{output:?}");
        assert_eq!(self.site.repeated(), [""; 0]);
        // Where a site says so, without an option.
        self.configure(&headwater_binary().display().to_string(), "default=job");
        let shown = "srun -N4 -n4 sh -c 'echo session $HEADWATER_SESSION'";
        let output = in_job(self.site, shown);
        let session = output.stdout.lines().next().unwrap_or_default();
        assert!(output.stdout.ends_with(&format!("session {session}\n").repeat(4)), "{output:?}");
        self.site.assert_clean();
        let alone = self.sh("-n1", "echo session $HEADWATER_SESSION");
        assert_eq!((alone.stdout.trim(), alone.stderr.as_str()), ("session", ""), "a job without a session");
        self.configure(&headwater_binary().display().to_string(), "");
    }

    fn programs_of_several_kinds_and_users(&self) {
        let file = self.directory.join("programs");
        fs::write(&file, format!("0 {PYTHON} -c 'import pkg.m1'\n1-3 echo %t $HEADWATER_NODES\n")).expect("own");
        let srun = format!("srun {} -N2 -n4 --multi-prog {}", self.option(",verbose"), file.display());
        let output = self.run(&args(&srun, &[]));
        assert!(output.stderr.contains("4 processes on 2 nodes"), "{output:?}");
        assert!(output.stderr.contains("python3"), "the scope is that of the first program: {output:?}");
        // Two users at once, on the same nodes.
        let script = "import os, pkg.m1; print(os.getuid(), os.environ['HEADWATER_NODES'])";
        let start = |uid: &str| -> Running {
            let srun = format!("srun --overcommit -N4 -n4 --uid={uid} {} {PYTHON} -c", self.option(""));
            self.site.on_first(&args(&srun, &[script])).in_dir("/").start()
        };
        let users = ["1", "7"].map(|uid| (uid, start(uid)));
        for (uid, running) in users {
            let output = running.finish_within(STEP_MAX);
            assert_eq!(output.stdout, format!("{uid} 4\n").repeat(4), "{output:?}");
        }
        self.site.assert_clean();
    }

    fn what_is_missing_is_reported(&self) {
        let expected = self.run(&self.srun("-N2 -n2")).stdout;
        let check = |binary: &str| {
            self.configure(binary, "");
            let output = self.run(&self.srun(&format!("-N2 -n2 {}", self.option(""))));
            assert_eq!((&output.stdout, output.status), (&expected, 0), "{output:?}");
            assert!(output.stderr.contains(binary) && output.stderr.lines().count() == 1, "{output:?}");
        };
        check("/nonexistent/headwater");
        // It is loaded into srun, and not on the step's nodes.
        let first = "[ \"$(hostname)\" = node001 ] && [ \"$1\" = front ]";
        let only_front = self.directory.join("headwater");
        let binary = headwater_binary().display().to_string();
        fs::write(&only_front, format!("#!/bin/sh\nif {first}; then exec {binary} \"$@\"; fi\nexit 1\n")).expect("own");
        assert!(succeeds(self.site.cluster.on(1), &format!("chmod 755 {}", only_front.display())));
        self.configure(&only_front.display().to_string(), "");
        let output = self.run(&self.srun(&format!("-N2 -n2 {}", self.option(""))));
        assert_eq!((&output.stdout, output.status), (&expected, 0), "{output:?}");
        assert!(output.stderr.contains("headwater:") && output.stderr.lines().count() == 1, "{output:?}");
        self.configure(&binary, "");
    }

    /// A step of the first two nodes that has begun.
    fn sleeper(&self, more: &str) -> Running {
        let srun = format!("srun -w node001,node002 -N2 -n2 {} python3 -c", self.option(more));
        let running = self.site.on_first(&args(&srun, &[SLEEPER])).start();
        assert!(wait_until(STEP_MAX, || running.stdout() == "up\nup\n"), "{}", running.stdout());
        running
    }

    fn on(&self, node: usize, script: &str) {
        let done = succeeds(self.site.cluster.on(node), &format!("export SLURM_CONF={SLURM_CONF}; {script}"));
        assert!(done, "{script}");
    }

    fn ends_leave_nothing(&self) {
        let cancel = "scancel --user=root";
        for via in ["", ",via=audit"] {
            let running = self.sleeper(via);
            self.on(1, cancel);
            running.finish_within(STEP_MAX);
            self.site.assert_clean();

            // A process that Slurm starts beside it cancels the job then.
            let running = self.sleeper(via);
            self.on(1, "pkill -KILL -x -o srun");
            running.finish_within(STEP_MAX);
            self.site.assert_clean();
        }
        // The tasks of a step whose daemon was killed are orphans, and Slurm does not notice.
        let running = self.sleeper("");
        self.on(2, "pkill -KILL slurmstepd; pkill -KILL python");
        self.on(1, cancel);
        self.on(1, "pkill -KILL -x srun");
        running.finish_within(STEP_MAX);
        self.site.assert_clean();
        // As with a control group that is killed: what they leave is removed with the step.
        let running = self.sleeper(",via=audit");
        self.on(1, "pkill -KILL headwater");
        self.on(2, "pkill -KILL headwater");
        self.on(1, cancel);
        running.finish_within(STEP_MAX);
        self.site.assert_clean();
        // Remains that not even slurmstepd could remove are removed with the user's next job there.
        self.on(2, "mkdir -m 700 /dev/shm/headwater-0 && mkdir /dev/shm/headwater-0/00000000000000aa");
        assert_eq!(self.run(&args("srun -w node002 -n1 /bin/true", &[])).status, 0);
    }
}
