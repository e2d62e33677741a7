//! Command lines of all launchers. An `@` marks the position of the prefix.

pub(super) mod fixture;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use self::fixture::{Fake, PREFIX};
use super::{Prepared, prepare};
use crate::Launcher;

const OPEN_MPI_4: &str = "mpirun (Open MPI) 4.1.4\n";
const OPEN_MPI_5: &str = "mpirun (Open MPI) 5.0.11\n";
const MPICH: &str = "HYDRA build details:\n    Version:      5.0.2\n";
const INTEL: &str = "Intel(R) MPI Library for Linux* OS, Version 2021.13\n";
const CRAY: &str = "mpiexec version 1.2.12\n";

#[test]
fn srun() {
    let check = |line| Fake::default().check(line);
    check("srun @ ./a");
    check("srun -n 4 -N2 @ ./a -n 2");
    check("srun -n4 -lv -o out.txt @ ./a");
    check("srun --ntasks=4 --nodes 2 @ python3 -u x.py --nodes 3");
    check("srun -lvn4 @ ./a");
    check("srun -lvn 4 @ ./a");
    check("srun -- @ ./a");
    check("srun -n4 -- @ -odd-name");
    check("srun -K -k -I -l @ ./a");
    check("srun -K0 -I5 @ ./a");
    check("srun -K @ 0 ./a");
    check("srun --exclusive --mpi pmi2 @ ./a");
    check("srun --exclusive=user --pty --x11 --overlap @ bash -l");
    check("srun --part debug --exclus --lab --overc @ ./a");
    check("srun --cpu-bind=map_cpu:0,1 --cpu_bind v,rank -c 4 --hint nomultithread @ ./a");
    check("srun --mem=0 -t 10 -p debug -A me -J job --export ALL,A=1 -w n[1-4] @ ./a");
    check("srun --propagate --kill-on-bad-exit=1 --wait 0 --label --unbuffered @ ./a b");
    check("/opt/slurm/bin/srun -N 2048 @ python train.py");
    check("srun --oom-kill-step=1 --segment 4 --stepmgr --treewidth 32 --tres-per-task cpu:2 @ ./a");
    check("srun @ - x");
}

#[test]
fn srun_with_components() {
    let check = |line| Fake::default().check(line);
    check("srun -n1 @ ./a x : -n2 @ ./b y");
    check("srun --het-group=0,1 @ ./a");
    check("srun -n1 : -n2 @ ./b");
    check("srun -n1 -- @ ./a : -n 2 -- @ ./b : -n3 @ ./c");
    check("srun @ ./a : @ ./a");
}

#[test]
fn srun_with_options_of_plugins() {
    let fake = Fake::default().file("/images/x.sqsh", None).file("./tool", None);
    fake.check("srun --plugged-image=/images/x.sqsh @ ./a");
    fake.check("srun --plugged-image /images/x.sqsh -n2 @ ./a");
    fake.check("srun --plugged-image /images/x.sqsh --plugged-mounts /a:/b @ ./a /images");
    fake.check("srun --plugged-writable @ ./a data");
    fake.check("srun --plugged-writable -n2 @ ./a");
    fake.check("srun --plugged-writable -- @ ./tool");
    fake.check("srun --plugged-name x -- @ ./tool");
    fake.check("srun --plugged-writable @ ./a --input data");
    fake.check("srun --plugged-writable @ A data");
    let check = |line, part| fake.check_error(line, part);
    check("srun --plugged-writable ./tool data", "--plugged-writable of srun is not known");
    check("srun --plugin ./a ./b", "`./a` may be its value or the program");
    check("srun --plugin ./a --other ./b", "--plugin");
    check("srun --plug 1 -n2 x", "--plug");
    check("srun --plugin A -n2 x", "`A` may be its value or the program");
    check("srun --plugin x", "@ right before the program");
}

#[test]
fn containers() {
    let fake = Fake::mpirun(OPEN_MPI_4);
    fake.check("srun -N2 @ apptainer exec --bind /sw image.sif ./a -n 2");
    fake.check("srun -N2 @ singularity run --nv image.sif");
    fake.check("srun -n2 --mpi=pmi2 @ shifter --image=docker:x/y:latest ./a");
    fake.check("srun -n2 @ podman-hpc run --rm --mpi x/y:latest ./a");
    fake.check("srun -n2 @ sarus run --mpi x/y ./a");
    fake.check("mpirun -n 2 @ apptainer exec image.sif ./a : -n 1 @ ./b");
    fake.check("@ apptainer exec image.sif mpirun -n 4 ./a");
    Fake::mpirun(CRAY).check("mpiexec -n 4 --ppn 2 @ apptainer exec --fakeroot -B /lus image.sif ./a");
    fake.check("jsrun -n2 @ singularity exec image.sif ./a");
    fake.check("flux run -N2 @ apptainer exec image.sif ./a");
    for line in [
        "srun --container-image=x.sqsh ./a",
        "srun -N2 --container-mounts /a:/b --container-image x.sqsh --no-container-mount-home ./a",
        "srun --container-name=x --container-writable ./a",
        "srun --container /oci/bundle ./a",
        "srun ./a : --container /oci/bundle ./b",
    ] {
        fake.check_error(line, "inside of a container");
    }
}

#[test]
fn wrapper_scripts() {
    let fake = Fake::mpirun(CRAY);
    fake.check("srun -n2 @ ./set_gpu.sh ./a -n 2");
    fake.check("mpiexec -n 4 --ppn 4 @ ./gpu_affinity.sh ./a : -n 1 @ ./monitor.sh");
    fake.check("jsrun -n6 -a1 -g1 @ ./bind.sh ./a");
    fake.check("flux run -n2 @ ./bind.sh ./a");
    fake.check("aprun -n 4 @ bash -c A");
}

#[test]
fn srun_with_several_programs() {
    let fake = Fake::default().text("multi.conf", "0 ./a %t\n1-3 ./b %o\n");
    let prepared = fake.prepare("srun -n4 --multi-prog multi.conf x").unwrap();
    assert_eq!(prepared.arguments, ["srun", "-n4", "--multi-prog", "multi.conf", "x"]);
    assert_eq!(prepared.launcher, Some(Launcher::Slurm));
    assert_eq!(prepared.explanation, "srun (Slurm) starts the programs in multi.conf");
    let [file] = &prepared.files[..] else { panic!("{:?}", prepared.files) };
    assert_eq!((file.original.as_path(), file.argument, file.start), (Path::new("multi.conf"), 3, 0));
    assert_eq!(file.text, b"0 hw exec -- ./a %t\n1-3 hw exec -- ./b %o\n");
    let mut arguments = prepared.arguments;
    file.put(&mut arguments, OsStr::new("/tmp/x"));
    assert_eq!(arguments, ["srun", "-n4", "--multi-prog", "/tmp/x", "x"]);
    fake.check_error("srun --multi-prog gone.conf", "gone.conf, which srun is to read");
    fake.check_error("srun --multi-prog", "given no program");
    let mixed = fake.prepare("srun -n1 ./a : -n4 --multi multi.conf").unwrap();
    assert_eq!(mixed.arguments, "srun -n1 hw exec -- ./a : -n4 --multi multi.conf".split(' ').collect::<Vec<_>>());
    assert_eq!(mixed.files[0].argument, 9);
}

#[test]
fn salloc_and_scripts() {
    let fake = Fake::mpirun(OPEN_MPI_4);
    fake.check("salloc -N2 srun @ ./a");
    fake.check("salloc -N2 -K --no-bell -t 10 mpirun -n 4 @ ./a");
    fake.check("salloc -N1 : -N2 -C gpu srun -n1 @ ./a : -n2 @ ./b");
    fake.check("salloc -N2 -- env A=1 srun @ ./a");
    fake.check_error("salloc -N2", "salloc is given no program");
    fake.check_error("salloc -N2 ./job.sh", "put `headwater run --` before the launcher that ./job.sh uses");
    fake.check_error("sbatch job.sh", "sbatch starts a script, which is not examined");
    fake.check_error("sbatch --wrap hostname", "in that script");
    fake.check_error("/opt/slurm/bin/sbatch job.sh", "`sbatch --headwater` serves all steps");
    fake.check_error("bsub -n 4 mpirun ./a", "bsub");
    fake.check_error("salloc -N2 sbatch x", "sbatch");
}

#[test]
fn open_mpi_4() {
    let fake = Fake::mpirun(OPEN_MPI_4);
    fake.check("mpirun @ ./a");
    fake.check("mpirun -np 4 @ ./a -np 2");
    fake.check("mpirun --np 4 -H a:2,b:2 --host c @ ./a");
    fake.check("mpiexec -n 4 -x PATH -x A=1 --mca btl tcp,self -mca pml ob1 -gmca a b @ ./a");
    fake.check("mpirun -c 4 --map-by ppr:2:node:PE=4 --bind-to core --report-bindings @ ./a");
    fake.check("mpirun --oversubscribe --allow-run-as-root -hostfile h -q -v -d @ ./a");
    fake.check("mpirun -qv -N 2 -npernode 2 @ ./a");
    fake.check("mpirun -n 1 -- @ ./a");
    fake.check("mpirun -n 1 @ ./a : -n 2 --host x @ ./b y : @ ./c");
    fake.check("mpirun --prefix /opt/mpi --wdir /tmp -path /x --tune f -am g @ A");
    fake.check("mpirun -tag-output --output-filename out @ ./a");
    fake.check_error("mpirun --new-option x", "--new-option of mpirun is not known");
    fake.check_error("mpirun -np 4", "mpirun is given no program");
    fake.check_error("mpirun -np 4 :", "mpirun is given no program");
    let fake = fake.text("contexts", "# two\n-np 1 ./a\n-np 2 ./b\n");
    for (line, with_file) in [
        ("mpirun --app contexts", "mpirun --app /tmp/x"),
        ("mpirun -app contexts", "mpirun -app /tmp/x"),
        ("mpirun --app=contexts", "mpirun --app=/tmp/x"),
    ] {
        let mut prepared = fake.prepare(line).unwrap();
        assert_eq!(prepared.arguments, line.split(' ').collect::<Vec<_>>());
        assert_eq!(prepared.files[0].text, b"# two\n-np 1 hw exec -- ./a\n-np 2 hw exec -- ./b\n");
        assert_eq!(prepared.launcher, Some(Launcher::OpenMpi));
        prepared.files[0].put(&mut prepared.arguments, OsStr::new("/tmp/x"));
        assert_eq!(prepared.arguments, with_file.split(' ').collect::<Vec<_>>());
    }
}

#[test]
fn open_mpi_5() {
    let fake = Fake::mpirun(OPEN_MPI_5);
    fake.check("mpirun @ ./a");
    fake.check("mpirun -n 4 -np 4 --np=4 @ ./a -np 2");
    fake.check("mpirun --mca btl self -mca a b --prtemca c d --pmixmca e f --omca g h @ ./a");
    fake.check("mpirun --map-by ppr:2:node --rank-by=slot -x A --runtime-options x -H a @ ./a");
    fake.check("mpirun --allow-run --over --tag-output -s -v @ ./a");
    fake.check("mpirun --output-proctable -n 1 @ ./a : -n 2 @ ./b");
    fake.check("mpirun -n 2 -- @ ./a");
    let prte = Fake::default();
    prte.check("prterun --map-by :OVERSUBSCRIBE -n 4 @ ./a");
    prte.check("prterun --personality ompi --display map @ ./a");
    fake.file("prun", Some("/opt/prrte/bin/prun"))
        .with_version("prun (PRRTE) 3.0.6")
        .check("prun --dvm-uri file:x -n 2 @ ./a");
}

#[test]
fn hydra() {
    let fake = Fake::mpirun(MPICH);
    fake.check("mpiexec @ ./a");
    fake.check("mpiexec -n 4 -ppn 2 @ ./a -n 2");
    fake.check("mpiexec -n=4 --ppn=2 -NP 4 @ ./a");
    fake.check("mpiexec -genv A 1 -genv B=2 -genv=C=3 -genv=D 4 -env E 5 @ ./a");
    fake.check("mpiexec -genvlist A,B -genvnone -envall -f hosts -hosts a,b -l @ ./a");
    fake.check("mpiexec -launcher ssh -iface eth0 -bind-to core -map-by socket @ ./a");
    fake.check("mpiexec -n 1 @ ./a x : -env A 1 -n 2 @ ./b");
    fake.check("mpiexec.hydra -bootstrap slurm @ ./a");
    let fake = fake.text("cfg", "-n 1 ./a\n-n 2 ./b : -n 3 ./c\n");
    let prepared = fake.prepare("mpiexec -genvall -configfile=cfg").unwrap();
    assert_eq!(prepared.files[0].text, b"-n 1 hw exec -- ./a\n-n 2 hw exec -- ./b : -n 3 hw exec -- ./c\n");
    assert_eq!((prepared.files[0].argument, prepared.files[0].start), (2, 12));
    let fake = Fake::mpirun(INTEL);
    fake.check("mpirun -perhost 2 -gtool x -print-rank-map -trace @ ./a");
    fake.check("mpirun -trace libVT.so -n 2 @ ./a");
    fake.check("mpirun -trace=libVT.so -check_mpi -n 2 @ ./a");
    fake.check_error("mpirun -trace libVT.so a.out", "-trace of mpirun");
}

#[test]
fn pals_and_aprun() {
    let fake = Fake::mpirun(CRAY);
    fake.check("mpiexec -n 4 --ppn 2 --depth=8 --cpu-bind depth --env A=1 -env B 2 @ ./a");
    fake.check("mpiexec -np 4 -ppn 2 -l --line-buffer --no-abort-on-failure --pmi=pmix @ ./a");
    fake.check("mpiexec -n2 -d 4 --hosts a,b --mem-bind local @ ./a : -n 4 @ ./b");
    fake.check("mpiexec -n 2 --wdir /tmp -- @ ./a");
    fake.check("mpiexec -n 2 --label @ ./a");
    let fake = Fake::default();
    fake.check("aprun -n 4 -N 2 -d 8 -cc depth -j 1 -e A=1 @ ./a");
    fake.check("aprun -n4 -B -ss -q @ ./a");
    fake.check("aprun -n 4 @ ./a : -n 8 -N 4 @ ./b");
    fake.check("aprun --pes=4 --cpu-binding none @ ./a");
}

#[test]
fn flux() {
    let fake = Fake::default();
    fake.check("flux run @ ./a");
    fake.check("flux run -N2 -n 4 -c2 -o cpu-affinity=per-task --env=A=1 @ ./a -n 3");
    fake.check("flux submit --cc=1-4 --watch --setopt x --tasks-per-node 2 @ ./a");
    fake.check("flux --parent run -vvv -x -N2 @ ./a");
    fake.check("flux mini run --nodes 2 @ ./a");
    fake.check("flux bulksubmit -n1 @ ./a {} ::: 1 2");
    fake.check("flux alloc -N2 -t 1h flux run -n2 @ ./a");
    fake.check("flux start -s 4 -o,-Slog-stderr-level=6 flux run -n4 @ ./a");
    fake.check("flux proxy f12 flux run @ ./a");
    fake.check("srun -N2 --pty flux start flux run -n 2 @ ./a");
    for (line, is_detached) in [
        ("flux run ./a", false),
        ("flux submit ./a --wait", true),
        ("flux submit --wait ./a", false),
        ("flux bulksubmit --watch ./a", false),
        ("flux alloc -N2 flux submit ./a", true),
        ("srun --async ./a", true),
        ("srun ./a", false),
    ] {
        assert_eq!(fake.prepare(line).unwrap().is_detached, is_detached, "{line}");
    }
    fake.check_error("flux batch -N2 job.sh", "flux batch starts a script");
    fake.check_error("flux alloc -N2 ./job.sh", "flux starts ./job.sh, which is no launcher");
    fake.check_error("flux exec -r all ./a", "flux exec is not known here");
    fake.check_error("flux run", "given no program");
    fake.check_error("flux", "given no program");
    fake.check_error("flux mini", "given no program");
}

#[test]
fn pbsdsh() {
    let fake = Fake::default();
    fake.check("pbsdsh -- @ ./a x -o : y");
    fake.check("pbsdsh -c 4 -v @ ./a");
    fake.check("pbsdsh -n2 -s -- @ ./a");
    fake.check("pbsdsh -u -h n1 @ /bin/sh -c ./a");
    fake.check_error("pbsdsh -v", "given no program");
    for (line, expected) in [("pbsdsh -v -- ./a", true), ("pbsdsh -n 2 ./a", false), ("srun ./a", false)] {
        assert_eq!(fake.prepare(line).unwrap().is_on_all_hosts, expected, "{line}");
    }
}

#[test]
fn jsrun() {
    let fake = Fake::default();
    fake.check("jsrun -n2 -a1 -c42 -g6 -r1 -dpacked -brs @ ./a");
    fake.check("jsrun --nrs 8 --tasks_per_rs 16 --latency_priority GPU-CPU --smpiargs=-gpu @ stdbuf -o0 ./a x");
    fake.check("jsrun -E A=1 -E B=2 -M -gpu --stdio_mode prepended @ ./a");
    fake.check("jsrun --erf_input file @ ./a");
    fake.check("jsrun -n1 -i @ ./a");
    fake.check_error("jsrun --erf_input file", "--erf_input of jsrun names a file with programs");
    fake.check_error("jsrun -f apps", "--appfile of jsrun");
    fake.check_error("jsrun -A 2 -n1", "--allocate_only of jsrun starts nothing");
    fake.check_error("jsrun -n1", "given no program");
}

#[test]
fn wrappers_in_front() {
    let fake = Fake::mpirun(OPEN_MPI_4);
    fake.check("env A=1 B= srun -n2 @ ./a");
    fake.check("env -i -u X --chdir=/tmp - A=1 srun @ ./a");
    fake.check("time -p srun @ ./a");
    fake.check("/usr/bin/time -f %e -o t srun @ ./a");
    fake.check("nice -n 5 srun @ ./a");
    fake.check("nice -10 mpirun @ ./a");
    fake.check("numactl -N 0 --membind=0 -l mpirun -n 2 @ ./a");
    fake.check("stdbuf -oL timeout -k 5 --signal=INT 10 nohup srun @ ./a");
    fake.check("taskset -c 0-3 mpirun @ ./a");
    fake.check("srun -n2 @ env A=1 ./a");
    fake.check("srun -n2 @ numactl -l ./a");
    fake.check("srun -n1 timeout 10 mpirun -n 4 @ ./a");
    fake.check("@ env A=1 ./a");
    fake.check("@ timeout 10 ./a");
    fake.check("@ time");
    fake.check("@ env");
    fake.check("@ env --unknown ./a");
    fake.check_error("env -S srun ./a", "put `headwater run --` behind env");
    fake.check_error("timeout --new 3 srun ./a", "timeout");
    let mut arguments: Vec<OsString> = ["env", "-S", "srun -n2 ./a"].map(OsString::from).into();
    assert!(prepare(&arguments, &PREFIX.map(OsString::from), None, &fake).is_err());
    arguments[2] = "python -u".into();
    assert!(prepare(&arguments, &PREFIX.map(OsString::from), None, &fake).is_ok());
}

#[test]
fn what_is_no_launcher() {
    let fake = Fake::default();
    fake.check("@ ./a -n 2");
    fake.check("@ ssh host srun ./a");
    fake.check("@ ./srun.sh");
    fake.check("@ -");
    let prepared = fake.prepare("./a x").unwrap();
    assert_eq!(prepared.launcher, None);
    assert_eq!(prepared.explanation, "./a is no launcher that is known here, so it is the program");
    fake.check_error("mpirun_rsh -np 2 a b ./a", "mpirun_rsh is not known here");
    fake.check_error("mpirun -n 2 ./a", "mpirun is not found");
    assert!(prepare(&[], &[], None, &fake).unwrap_err().to_string().contains("there is no command"));
}

#[test]
fn launchers_in_launchers() {
    let fake = Fake::mpirun(OPEN_MPI_4);
    fake.check("srun -N1 -n1 mpirun -n 4 @ ./a");
    fake.check("srun -n1 mpirun -n 1 @ ./a : -n 2 @ ./b");
    fake.check_error(&format!("{}./a", "srun ".repeat(20)), "are nested more than");
    let launcher = |line| fake.prepare(line).unwrap().launcher;
    assert_eq!(launcher("salloc srun ./a"), Some(Launcher::Slurm));
    assert_eq!(launcher("salloc mpirun ./a"), Some(Launcher::OpenMpi));
    assert_eq!(launcher("srun mpirun ./a"), Some(Launcher::OpenMpi));
}

#[test]
fn explanations() {
    let check = |line: &str, expected: &str| {
        assert_eq!(Fake::mpirun(OPEN_MPI_4).prepare(line).unwrap().explanation, expected);
    };
    check("/usr/bin/srun ./a x", "/usr/bin/srun (Slurm) starts ./a");
    check("mpirun -n 1 ./a : -n 1 ./b", "mpirun (Open MPI) starts ./a and ./b");
    check("srun A : B : C : D : E : A : F", "srun (Slurm) starts A, B, C, D and 2 more");
    check("salloc -N2 srun ./a", "srun (Slurm) starts ./a");
}

#[test]
fn a_marker_decides() {
    let fake = Fake::default();
    let run = |line: &str| {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        prepare(&arguments, &PREFIX.map(OsString::from), Some(OsStr::new("@")), &fake)
    };
    let check = |line: &str, launcher, explanation: &str| {
        let Prepared { arguments, files, launcher: found, is_detached, explanation: explained, .. } =
            run(line).unwrap();
        let expected = line.replace('@', "hw exec --");
        assert_eq!(arguments, expected.split(' ').collect::<Vec<_>>());
        assert!(files.is_empty() && !is_detached);
        assert_eq!((found, explained.as_str()), (launcher, explanation));
    };
    let marked = Some(Launcher::Marked);
    check("mylauncher -x @ ./app", marked, "mylauncher starts ./app, at the marker");
    check("sbatch @ ./a : @ ./b", marked, "sbatch starts ./a and ./b, at the marker");
    check("@ ./a", None, "./a is the program, at the marker");
    assert!(run("srun ./a").unwrap_err().to_string().contains("the marker @ is not in the command"));
    assert!(run("srun @").unwrap_err().to_string().contains("no argument follows"));
    assert!(run("srun @ @ ./a").unwrap_err().to_string().contains("no argument follows"));
}
