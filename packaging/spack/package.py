# Headwater's recipe for Spack. `cargo xtask release` writes the version and the checksums into it.

import os
import platform

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *

# Of the archive for each architecture.
_sha256 = {
@CHECKSUMS@
}


class Headwater(Package):
    """Headwater starts parallel programs at scale. Each file that a job needs is read once from
    the shared file system, sent down trees of per-node daemons, and found by every process in
    node-local memory under its original path."""

    # The archive lies in the directory in which Spack is called, or in a mirror.
    manual_download = True

    license("Apache-2.0")

    _archive = f"headwater-@VERSION@-{platform.machine()}.tar.xz"
    if platform.machine() in _sha256:
        version(
            "@VERSION@",
            sha256=_sha256[platform.machine()],
            url=f"file://{os.getcwd()}/{_archive}",
        )

    requires("platform=linux", msg="Headwater needs Linux")
    requires("target=x86_64:", "target=aarch64:", policy="one_of", msg="no other archives exist")

    def install(self, spec, prefix):
        # It writes the prefix into the units, the line for Slurm, and the module file.
        which("sh", required=True)("install.sh", "--prefix", prefix)
