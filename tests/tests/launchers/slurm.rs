//! Slurm's steps.

use headwater_tests::harness::services::Slurm;
use headwater_tests::harness::skipped;

use crate::site::Site;

#[test]
fn steps_of_slurm() {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("slurm");
    let _slurm = match Slurm::start(&site.cluster, &directory) {
        Ok(slurm) => slurm,
        Err(reason) => return skipped(reason),
    };
    site.check("srun -N4 -n8", 4);
    site.check("srun -N2 --ntasks-per-node=2", 2);
    site.check("salloc -Q -N4 srun -n4", 4);
    site.check("srun --label -N3 -n3 --kill-on-bad-exit=1", 3);
}
