//! Slurm's steps, alone, in batch scripts and at once, and sessions of several of them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use headwater_cluster::Cluster;
use headwater_tests::harness::services::Slurm;
use headwater_tests::harness::{Running, has_program, headwater_binary, skipped};
use serde_json::Value;

use crate::allocations::in_job;
use crate::site::{Site, in_any_order};

/// How long steps at once may take.
const STEPS_MAX: Duration = Duration::from_secs(60);

pub fn with_slurm(test: impl Fn(&Site)) {
    with(|cluster, directory| Slurm::start(cluster, directory), test);
}

fn with_slurm_that_kills(test: impl Fn(&Site)) {
    with(|cluster, directory| Slurm::start_that_kills(cluster, directory), test);
}

fn with(start: impl for<'a> Fn(&'a Cluster, &Path) -> Result<Slurm<'a>, String>, test: impl Fn(&Site)) {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("slurm");
    match start(&site.cluster, &directory) {
        Ok(_slurm) => test(&site),
        Err(reason) => skipped(reason),
    }
}

#[test]
fn steps_of_slurm() {
    with_slurm(|site| {
        site.check("srun -N4 -n8", 4);
        site.check("srun -N2 --ntasks-per-node=2", 2);
        site.check("salloc -Q -N4 srun -n4", 4);
        site.check("srun --label -N3 -n3 --kill-on-bad-exit=1", 3);
        let without_variables = args("srun --export=NONE -N4 -n4");
        site.check_args(&[without_variables, site.program_with_variables()].concat(), 4);
        programs_of_several_kinds(site);
        below_a_prefix(site);
        if has_program("mpirun.openmpi") {
            let launcher = args("salloc -Q -N4 -n8 mpirun.openmpi --allow-run-as-root");
            site.check_args(&[launcher, site.program_with_variables()].concat(), 4);
        }
    });
}

/// Starts Python once, or twice at once, and then as itself.
const RUN: &str = "#!/bin/sh
times=$1
shift
if [ $times = twice ]; then python3 \"$@\" & python3 \"$@\"; wait; fi
exec python3 \"$@\"
";

pub fn args(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

/// Several programs of one step, and programs that are scripts, which start others.
fn programs_of_several_kinds(site: &Site) {
    let directory = site.directory("slurm");
    let (several, run) = (directory.join("programs"), directory.join("run"));
    fs::write(&run, RUN).expect("an own directory");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).expect("an own file");
    let run = run.display();
    let script = "import pkg.m1, pkg.m2; print(pkg.m2.value)";
    let text = format!("0 {} twice -c '{script}'\n1-3 python3 -c '{script}'\n", run);
    fs::write(&several, text).expect("an own directory");
    site.check_args(&args(&format!("srun -N4 -n4 --multi-prog {}", several.display())), 4);
    let both = format!("srun -N1 -n1 {0} once -c : -N2 -n2 {0} twice -c", run);
    let both = args(&both).into_iter().flat_map(|word| match word.as_str() {
        "-c" => vec![word, script.into()],
        _ => vec![word],
    });
    site.check_args(&both.collect::<Vec<_>>(), 3);
}

/// By a view of its own on each node, which the program's paths lead to.
fn below_a_prefix(site: &Site) {
    let (output, summary) = site.served(&["--via", "mount"], &site.args("srun -N4 -n4"));
    assert_eq!((&summary["nodes"], &summary["via"]), (&4.into(), &"mount".into()), "{output:?}");
    let shown = format!("/view{}/pkg/m0.py", site.shared().display());
    assert_eq!(output.stdout.lines().filter(|line| line.ends_with(&shown)).count(), 4, "{output:?}");
    assert!(output.stdout.lines().all(|line| line.starts_with("36100 /dev/shm/headwater-")), "{output:?}");
}

/// The output of a step in a script of Slurm's.
fn summary(site: &Site, step: usize) -> Value {
    let text = fs::read_to_string(site.directory("steps").join(step.to_string()));
    serde_json::from_str(&text.expect("each step writes one")).expect("JSON")
}

#[test]
fn steps_of_a_batch_script() {
    with_slurm(|site| {
        let (script, result) = (site.directory("slurm").join("script"), site.directory("slurm").join("result"));
        let program = site.directory("slurm").join("program");
        fs::write(&program, &site.program()[2]).expect("an own directory");
        let run = format!(
            "{} run --shared {} --job-dir {} --summary-json {}/$1 -- srun $2 python3 {} {}",
            headwater_binary().display(),
            site.shared().display(),
            site.directory("jobs").display(),
            site.directory("steps").display(),
            program.display(),
            site.program()[3],
        );
        let steps =
            "step 0 '-N4 -n4'\nstep 1 '-N4 -n8'\nstep 2 '-N2 -n2 --exact' &\nstep 3 '-N2 -n2 --exact' &\nwait\n";
        let text = format!("#!/bin/sh\nstep() {{ {run}; }}\n{steps}");
        fs::write(&script, text).expect("an own directory");
        let sbatch = format!("sbatch --wait -N4 -n8 --output {} {}", result.display(), script.display());
        let output = site.plain(&args(&sbatch));
        let printed = fs::read_to_string(&result).unwrap_or_default();
        assert_eq!(output.status, 0, "{output:?}\n{printed}");
        assert_eq!(printed.lines().filter(|line| line.starts_with("36100 ")).count(), 16, "{printed}");
        for (step, nodes) in [4, 4, 2, 2].into_iter().enumerate() {
            let summary = summary(site, step);
            assert_eq!((&summary["nodes"], &summary["off"]), (&nodes.into(), &Value::Null), "{step}: {summary}");
        }
        site.assert_clean();
        // Its steps begin when the command has ended.
        let output = site.run(&[], &args(&sbatch));
        assert_eq!(output.status, 0, "{output:?}");
        let printed = &output.stderr;
        assert!(printed.contains("in that script") && printed.contains("docs/operate/slurm.md"), "{printed}");
    });
}

#[test]
fn users_and_their_jobs_on_the_same_nodes() {
    with_slurm(|site| {
        let start = |(number, user): (usize, u32)| -> (u32, Running) {
            let jobs = site.directory(&format!("jobs-{number}"));
            chown(&jobs, Some(user), Some(user)).expect("root changes the owner of its own file");
            let become_user = format!("setpriv --reuid={user} --regid={user} --clear-groups");
            let run = format!("{} run --job-dir {}", headwater_binary().display(), jobs.display());
            let line = format!("{become_user} {run} --shared {} -- srun --overcommit -N4 -n4", site.shared().display());
            let script = "import os, pkg.m1; print(os.getuid(), os.environ['HEADWATER_NODES'])";
            let program = ["/usr/bin/python3", "-c", script].map(String::from);
            (user, site.on_first(&[args(&line), program.into()].concat()).in_dir("/").start())
        };
        let jobs: Vec<_> = [0, 7, 7, 1].into_iter().enumerate().map(start).collect();
        for (user, running) in jobs {
            let output = in_any_order(running.finish_within(STEPS_MAX));
            assert_eq!(output.stdout, vec![format!("{user} 4"); 4].join("\n"), "{output:?}");
        }
        site.assert_clean();
    });
}

/// Slurm kills the node agents at once when the last tasks have ended.
#[test]
fn nodes_that_are_killed_with_their_step_have_reported() {
    with_slurm_that_kills(|site| {
        let imports = "import time, pkg.m1, pkg.m2; time.sleep(2); print(pkg.m2.value)";
        let launch = |tasks: &str| [args(&format!("srun {tasks} /usr/bin/python3 -c")), vec![imports.into()]].concat();
        for (tasks, processes) in [("-N2 -n2", 2), ("-N2 -n6 --ntasks-per-node=3", 6)] {
            let file = site.directory("steps").join(processes.to_string());
            let output = site.run(&["--summary-json", &file.display().to_string()], &launch(tasks));
            assert_eq!((output.status, output.stdout.lines().count()), (0, processes as usize), "{output:?}");
            let summary: Value = serde_json::from_slice(&fs::read(&file).expect("it writes one")).expect("JSON");
            assert_eq!(
                (&summary["processes"], &summary["daemons_lost"]),
                (&processes.into(), &0.into()),
                "{summary:#}"
            );
            assert!(summary["shared_fs"]["files_read"].as_u64() >= Some(2), "{summary:#}");
        }
        // In the session of a job, agents don't end with the tasks of a launch.
        let run =
            format!("{} run -- srun -N4 -n4 sh -c 'echo session $HEADWATER_SESSION'", headwater_binary().display());
        let output = in_job(site, &format!("{run}; {run}"));
        let session = output.stdout.lines().next().unwrap_or_default().to_owned();
        assert!(output.stdout.ends_with(&format!("session {session}\n").repeat(8)), "{output:?}");
        // An agent that has no daemon waits.
        let (jobs, ticks) = (
            site.directory("jobs"),
            "import glob, time; time.sleep(2); print(sum(int(n) \
            for path in glob.glob('/proc/[0-9]*/cmdline') if open(path, 'rb').read().startswith(b'headwater\\0node\\0') \
            for n in open(path[:-7] + 'stat').read().split()[13:15]))",
        );
        let run = format!("{} run -q --via audit --shared {}", headwater_binary().display(), site.shared().display());
        let run = args(&format!("{run} --job-dir {} -- srun -N1 -n1 /usr/bin/python3 -c", jobs.display()));
        let output = site.on_first(&[run, vec![ticks.into()]].concat()).env("HEADWATER_LIBDIR", "/nonexistent").run();
        assert!(output.stdout.trim().parse().is_ok_and(|ticks: u32| ticks < 20), "{output:?}");
    });
}

#[test]
fn ranks_of_a_step_come_from_zygotes() {
    with_slurm(|site| {
        let mut args = args("srun -N4 -n8");
        args.extend(site.program());
        // The interpreter may be a script.
        let program = args.iter().position(|word| word == "python3").expect("it is Python's");
        args[program] = "/usr/bin/python3".into();
        let expected = site.plain(&args);
        let (output, summary) = site.served(&["--warm-imports", "json,socket"], &args);
        assert_eq!(in_any_order(output.clone()), in_any_order(expected), "{summary}");
        assert_eq!((&summary["processes"], &summary["from_zygotes"]), (&8.into(), &8.into()), "{output:?}");
        // Each of the step's processes is killed together with its proxy.
        let mut fails = args[..program + 1].to_vec();
        fails.extend([
            "-c".into(),
            "import os, time; os.environ['SLURM_PROCID'] == '3' and os._exit(5); time.sleep(60)".into(),
        ]);
        fails.insert(1, "--kill-on-bad-exit=1".into());
        let (output, _) = site.served(&["--warm-imports", "json"], &fails);
        assert_ne!(output.status, 0, "{output:?}");
    });
}

#[test]
fn launches_of_a_session_find_what_earlier_ones_have_fetched() {
    with_slurm(|site| {
        let args = site.args("srun -N4 -n8");
        let expected = site.plain(&args);
        site.forget();
        let session = site.start(&[]);
        for _ in 0..3 {
            let output = site.run(&["--session", &session], &args);
            assert_eq!(in_any_order(output), in_any_order(expected.clone()));
            assert_eq!(site.repeated(), [""; 0]);
        }
        // On fewer nodes, and without a launcher.
        let output = site.run(&["--session", &session], &site.args("srun -N2 -n2"));
        assert_eq!(output.status, 0, "{output:?}");
        let output = site.run(&["--session", &session], &site.program());
        assert_eq!(output.status, 0, "{output:?}");
        assert_eq!(site.repeated(), [""; 0]);
        let printed = site.stop(&session);
        assert!(printed.stdout.contains("27 processes on 4 nodes"), "{printed:?}");
        site.assert_clean();
        // A process that has ended is no reason to fail.
        let output = site.run(&["--session", &session], &args);
        assert_eq!(in_any_order(output.clone()).stdout, in_any_order(expected).stdout);
        assert!(output.stderr.contains("has ended"), "{output:?}");
    });
}
