"""The image of a release, built on a root folder of Debian's: what is in it, and both servers on a real API server."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.extending import Command
from tests.release.imaging import BuiltImage, make_release, run
from tests.scenario import node
from tonnage import __version__
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.program import free_ports

pytestmark = [pytest.mark.long, pytest.mark.image]
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuiltImage]:
    folder = tmp_path_factory.mktemp("image")
    make_release(folder / "dist")
    try:
        yield BuiltImage(folder / "dist" / f"tonnage-image-{__version__}.tar.gz", folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_it_is_small_runs_as_nobody_and_holds_nothing_that_installs(image: BuiltImage) -> None:
    assert image.compressed < 120 * MEGABYTE
    assert image.configuration["process"]["user"] == {"uid": 65534, "gid": 65534}
    installers = ("pip", "ensurepip", "setuptools", "wheel")
    modules = [path for path in image.root.rglob("*") if path.name in installers and "share/doc" not in str(path)]
    assert modules == []
    assert f"tonnage {__version__}" in run(*image.container("version", "--version"))


@pytest.mark.parametrize(
    ("server", "flags"), [("scheduler", ()), ("extender", ("--metrics-bind-address", "127.0.0.1:0"))]
)
def test_a_server_becomes_ready(
    image: BuiltImage, control_plane: ControlPlane, tmp_path: Path, server: str, flags: tuple[str, ...]
) -> None:
    control_plane.api.create_nodes([node(f"for-{server}", gpus=2)])
    (port,) = free_ports(1)
    access = tmp_path / "access"
    access.mkdir(mode=0o755)
    authority = Path(shutil.copy(control_plane.authority, access))
    text = control_plane.kubeconfig().read_text().replace(str(control_plane.authority), str(authority))
    (access / "kubeconfig").write_text(text)
    arguments = (server, "--kubeconfig", str(access / "kubeconfig"), "--http-bind", f"127.0.0.1:{port}", *flags)
    container = image.container(server, *arguments, mounted=access)
    running = Command(container, tmp_path / "log", f"http://127.0.0.1:{port}")
    try:
        assert running.get("/readyz").startswith("ok")
    finally:
        running.stop()
    assert "Traceback" not in running.log.read_text()
