"""One Slurm for all tests of this folder; without root, packages or namespaces they are skipped."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import cluster
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    """The cluster, with its commands first on PATH. The tests' temporary folders, this checkout and the
    interpreter are shared by the nodes."""
    if reason := cluster.missing():
        pytest.skip(reason)
    shared = (ROOT, Path(sys.prefix), Path(sys.base_prefix), tmp_path_factory.getbasetemp())
    # Sockets stand below it, and their paths must be short.
    started = cluster.Cluster(Path(tempfile.mkdtemp(prefix="slurm-")), shared)
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(cluster.without_slurm(os.environ)):
            patch.delenv(name)
        try:
            started.start()
            for name, value in started.environment.items():
                patch.setenv(name, value)
            yield started
        finally:
            started.stop()


@pytest.fixture
def shared(slurm: cluster.Cluster) -> Iterator[Path]:
    """A folder that all nodes share and that is not below /tmp, as runs must stand in one."""
    folder = Path(tempfile.mkdtemp(prefix=".slurm-tests-", dir=Path.home()))
    yield folder
    slurm.run("scancel", "--user=root")
    shutil.rmtree(folder, ignore_errors=True)
