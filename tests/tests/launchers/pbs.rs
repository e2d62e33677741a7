//! OpenPBS: jobs whose scripts start programs by `pbsdsh`.

use std::fs;

use headwater_tests::harness::services::openpbs::{OpenPbs, PBS_CONF};
use headwater_tests::harness::{Output, headwater_binary, skipped};

use crate::allocations::in_shell;
use crate::site::Site;

fn with_openpbs(test: impl Fn(&Site, &OpenPbs)) {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("pbs");
    match OpenPbs::start(&site.cluster, &directory) {
        Ok(pbs) => test(&site, &pbs),
        Err(reason) => skipped(reason),
    }
}

/// Runs a job of four nodes. Its output is what the script prints; what tasks print is not in it.
fn in_job(site: &Site, pbs: &OpenPbs, script: &str) -> Output {
    let (file, log) = (site.directory("pbs").join("script"), site.directory("pbs").join("log"));
    let text = format!(
        "#!/bin/sh\nexec >{} 2>&1\nexport PATH={}:$PATH HEADWATER_JOB_DIR={} PBS_CONF_FILE={PBS_CONF}\n{script}\n",
        log.display(),
        pbs.commands(),
        site.directory("jobs").display()
    );
    fs::write(&file, text).expect("an own directory");
    site.forget();
    let qsub = format!("{}/qsub -W block=true -l select=4:ncpus=1 -l place=scatter", pbs.commands());
    let options = "-V -o /dev/null -e /dev/null";
    let line = format!("PBS_CONF_FILE={PBS_CONF} {qsub} {options} {}", file.display());
    let mut output = site.plain(&["sh", "-c", &line].map(String::from));
    output.stdout = fs::read_to_string(&log).unwrap_or_default();
    output
}

/// The program, which writes to a file for each node, as a shell reads it; and what they wrote, by node.
fn program(site: &Site) -> (String, impl Fn() -> Vec<usize>) {
    let directory = site.directory("pbs/out");
    let words =
        [["/bin/sh", "-c", "out=$1/$(hostname); shift; exec \"$@\" >> $out", "sh"].map(String::from).to_vec(), {
            let directory = directory.display().to_string();
            [vec![directory], site.program_with_variables()].concat()
        }]
        .concat();
    let line = format!("36100 {}/pkg/m0.py", site.shared().display());
    let names: Vec<String> = site.cluster.nodes().iter().map(|node| node.name.clone()).collect();
    let counts = move || {
        let lines = |name: &String| fs::read_to_string(directory.join(name)).unwrap_or_default();
        let count = |text: String| {
            assert!(text.lines().all(|other| other == line), "{text}");
            text.lines().count()
        };
        names.iter().map(|name| count(lines(name))).collect()
    };
    (in_shell(&words), counts)
}

#[test]
fn tasks_of_pbsdsh() {
    with_openpbs(|site, pbs| {
        let (program, counts) = program(site);
        let run = format!("{} run --shared {}", headwater_binary().display(), site.shared().display());
        let output = in_job(site, pbs, &format!("{run} --summary -- pbsdsh -- {program}"));
        assert_eq!((output.status, counts()), (0, vec![1; 4]), "{output:?}");
        assert!(output.stdout.starts_with("headwater: 4 processes on 4 nodes"), "{output:?}");
        assert_eq!(site.repeated(), [""; 0], "{output:?}");
        site.assert_clean();
        // Its tasks go on when it has ended.
        let output = in_job(site, pbs, &format!("{run} -- pbsdsh -o -- {program}"));
        assert!(output.stdout.contains("does not wait for its programs"), "{output:?}");
    });
}

#[test]
fn launches_share_the_session_of_their_job() {
    with_openpbs(|site, pbs| {
        let (program, counts) = program(site);
        let headwater = headwater_binary().display().to_string();
        let script = format!(
            "{headwater} start --shared {} || exit 1\n\
             for node in 1 3; do {headwater} run -- pbsdsh -n $node -- {program}; done\n\
             {headwater} run -- pbsdsh -- {program}",
            site.shared().display()
        );
        let output = in_job(site, pbs, &script);
        assert_eq!((output.status, counts()), (0, vec![1, 2, 1, 2]), "{output:?}");
        // The session's name, and nothing else.
        assert_eq!(output.stdout.lines().count(), 1, "{output:?}");
        assert_eq!(site.repeated(), [""; 0], "{output:?}");
        // The session ends with its job.
        site.assert_clean();
    });
}
