//! One session for all steps of a job.

use headwater_tests::harness::{Output, headwater_binary};

use crate::site::Site;
use crate::slurm::{args, with_slurm};

/// Words as a shell reads them.
pub fn in_shell(words: &[String]) -> String {
    let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quoted).collect::<Vec<String>>().join(" ")
}

/// The output of a job of four nodes: its session's name, and what the script prints.
pub fn in_job(site: &Site, script: &str) -> Output {
    let jobs = site.directory("jobs");
    let start = format!("{} start --shared {}", headwater_binary().display(), site.shared().display());
    let script = format!("export HEADWATER_JOB_DIR={}; {start} || exit 1; {script}", jobs.display());
    let output = site.plain(&[args("salloc -Q -N4 -n8 sh -c"), vec![script]].concat());
    assert_eq!(output.status, 0, "{output:?}");
    output
}

#[test]
fn steps_share_the_session_of_their_job() {
    with_slurm(|site| {
        let run = format!("{} run", headwater_binary().display());
        let steps = format!("{run} -- srun -N4 -n8 {0}; {run} -- srun -N2 -n2 {0}", in_shell(&site.program()));
        let shown = "sh -c 'echo session $HEADWATER_SESSION'";
        site.forget();
        let output = in_job(site, &format!("{steps}; {run} -- srun -N1 -n1 {shown}; {run} -- {shown}"));
        let session = output.stdout.lines().next().unwrap_or_default().to_owned();
        assert_eq!(output.stdout.lines().filter(|line| line.starts_with("36100 ")).count(), 10, "{output:?}");
        assert!(output.stdout.ends_with(&format!("session {session}\n").repeat(2)), "{output:?}");
        assert_eq!((site.repeated(), output.stderr.as_str()), (vec![], ""));
        // The session ends with its job.
        site.assert_clean();
    });
}

#[test]
fn a_launch_that_asks_for_more_has_a_session_of_its_own() {
    with_slurm(|site| {
        let other = site.directory("other");
        let run = format!("{} run --shared {}", headwater_binary().display(), other.display());
        let shown = "sh -c 'echo session $HEADWATER_SESSION'";
        let output = in_job(
            site,
            &format!(
                "{run} -- srun -N1 -n1 {shown}; {} stop $(ls $HEADWATER_JOB_DIR | grep -v -)",
                headwater_binary().display()
            ),
        );
        let session = output.stdout.lines().next().unwrap_or_default().to_owned();
        let line = output.stdout.lines().find(|line| line.starts_with("session ")).unwrap_or_default();
        assert!(line.len() > "session ".len() && !line.ends_with(&session), "{output:?}");
        assert!(output.stdout.contains("processes on 4 nodes"), "{output:?}");
        site.assert_clean();
    });
}
