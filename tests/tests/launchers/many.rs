//! Each launcher once on sixteen nodes.

use headwater_tests::harness::services::Slurm;
use headwater_tests::harness::{has_program, skipped};

use crate::mpi::{Launch, hydra, open_mpi, prrte};
use crate::site::Site;
use crate::ssh::{self, names, with_ssh};

const NODES: usize = 16;

#[test]
fn sixteen_nodes() {
    with_ssh(Site::of(NODES), |site, ssh| {
        let nodes: Vec<usize> = (1..=NODES).collect();
        ssh::check(site, ssh, &nodes);
        for launch in [open_mpi, hydra, prrte] as [Launch; 3] {
            match launch(site, ssh, &names(site, &nodes)) {
                Ok(launcher) => site.check_words(&[launcher, site.program_with_variables()].concat(), NODES as u64),
                Err(reason) => skipped(reason),
            }
        }
        match Slurm::start(&site.cluster, &site.directory("slurm")) {
            Ok(_slurm) => steps_of_slurm(site),
            Err(reason) => skipped(reason),
        }
    });
}

fn steps_of_slurm(site: &Site) {
    site.check("srun -N16 -n16", NODES as u64);
    if has_program("mpirun.openmpi") {
        let launcher = "salloc -Q -N16 -n16 mpirun.openmpi --allow-run-as-root";
        let launcher = launcher.split(' ').map(String::from).collect();
        site.check_words(&[launcher, site.program_with_variables()].concat(), NODES as u64);
    }
}
