//! Each launcher once on sixteen nodes.

use headwater_tests::harness::services::Slurm;
use headwater_tests::harness::skipped;

use crate::mpi::{Launch, hydra, open_mpi, prrte};
use crate::site::Site;
use crate::ssh::{marked, names, with_ssh};

const NODES: usize = 16;

#[test]
fn sixteen_nodes() {
    with_ssh(Site::of(NODES), |site, ssh| {
        let nodes: Vec<usize> = (1..=NODES).collect();
        site.check_output(&["--marker", "@"], &marked(site, ssh, &nodes), NODES);
        for launch in [open_mpi, hydra, prrte] as [Launch; 3] {
            match launch(site, ssh, &names(site, &nodes)) {
                Ok(launcher) => {
                    site.check_output(&[], &[launcher, site.program_with_variables()].concat(), NODES);
                }
                Err(reason) => skipped(reason),
            }
        }
        match Slurm::start(&site.cluster, &site.directory("slurm")) {
            Ok(_slurm) => {
                site.check_output(&[], &site.args("srun -N16 -n16"), NODES);
            }
            Err(reason) => skipped(reason),
        }
    });
}
