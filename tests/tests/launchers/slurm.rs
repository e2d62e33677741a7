//! Slurm's steps, and sessions of several of them.

use headwater_tests::harness::services::Slurm;
use headwater_tests::harness::{has_program, skipped};

use crate::site::{Site, in_any_order};

fn with_slurm(test: impl Fn(&Site)) {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("slurm");
    match Slurm::start(&site.cluster, &directory) {
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
        if has_program("mpirun.openmpi") {
            let launcher = "salloc -Q -N4 -n8 mpirun.openmpi --allow-run-as-root";
            site.check_words(
                &launcher.split(' ').map(String::from).chain(site.program_with_variables()).collect::<Vec<_>>(),
                4,
            );
        }
    });
}

#[test]
fn launches_of_a_session_find_what_the_ones_before_have_brought() {
    with_slurm(|site| {
        let words = site.words("srun -N4 -n8");
        let expected = site.plain(&words);
        site.forget();
        let session = site.start(&[]);
        for _ in 0..3 {
            let output = site.run(&["--session", &session], &words);
            assert_eq!(in_any_order(output), in_any_order(expected.clone()));
            assert_eq!(site.repeated(), [""; 0]);
        }
        // On fewer nodes, and without a launcher.
        let output = site.run(&["--session", &session], &site.words("srun -N2 -n2"));
        assert_eq!(output.status, 0, "{output:?}");
        let output = site.run(&["--session", &session], &site.program());
        assert_eq!(output.status, 0, "{output:?}");
        assert_eq!(site.repeated(), [""; 0]);
        let told = site.stop(&session);
        assert!(told.stdout.contains("27 processes on 4 nodes"), "{told:?}");
        site.assert_clean();
        // What has ended is no reason to fail.
        let output = site.run(&["--session", &session], &words);
        assert_eq!(in_any_order(output.clone()).stdout, in_any_order(expected).stdout);
        assert!(output.stderr.contains("has ended"), "{output:?}");
    });
}
