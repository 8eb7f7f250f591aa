"""KubeletNode: a real kubelet with containerd, joined to the lab's control plane.

Its pods run as containers on this machine, from the images of `tonnage.lab.images`, in a namespace and a control group
of their own. Everything ends with the process that started it.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tonnage.lab import cgroups, parts
from tonnage.lab.api import Api, ApiError
from tonnage.lab.control_plane import PATIENCE, ControlPlane
from tonnage.lab.images import PAUSE, WORKLOAD, write_image
from tonnage.lab.nodespace import TOOLS, NodeSpace, tool
from tonnage.lab.program import HOST, LabError, Program, answers, free_ports

CONTAINERD, RUNC, CTR = "containerd", "runc", "ctr"
NAME = "real-1"
_SYSCTLS = {"vm/overcommit_memory": 1, "kernel/panic": 10, "kernel/panic_on_oops": 1}
"""Settings of the kernel that the kubelet would change, with the values that it wants."""
_NETWORK = """#!/bin/sh
# A network plugin for pods that talk to nobody: it says that there is an address.
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion":"0.4.0","supportedVersions":["0.3.1","0.4.0"]}' ;;
ADD) printf '{"cniVersion":"0.4.0","interfaces":[{"name":"%s"}],' "$CNI_IFNAME"
     echo '"ips":[{"version":"4","address":"192.0.2.1/32","interface":0}]}' ;;
esac
"""


def missing() -> str | None:
    """Why no real node can run here now, as a sentence; None if one can."""
    lacking = missing_here()
    if lacking:
        return lacking
    try:
        parts.find(parts.node())
    except parts.PartsError as error:
        return str(error)
    return None


def missing_here() -> str | None:
    """What this machine lacks for a real node, apart from parts that are built, as a sentence; None if nothing."""
    if sys.platform != "linux":
        return "a kubelet needs Linux"
    if os.geteuid() != 0:
        return "a kubelet needs root"
    lacking = [name for name in (CONTAINERD, CTR, RUNC, *TOOLS) if tool(name) is None]
    if lacking:
        return (
            f"{', '.join(lacking)} is not installed; a kubelet needs the packages containerd and runc, and util-linux"
        )
    return cgroups.missing()


class KubeletNode:
    """A running node; a context manager that ends it."""

    def __init__(
        self,
        plane: ControlPlane,
        name: str = NAME,
        *,
        programs: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`settings` are further fields of the kubelet's configuration."""
        self._programs = programs or parts.find(parts.node())
        self._plane = plane
        self._tell = tell
        self.name = name
        self.folder = plane.folder / name
        self.plugins = self.folder / "plugins"
        """The kubelet's folder of device plugins."""
        self.pod_resources = self.folder / "kubelet/pod-resources/kubelet.sock"
        self.host = self.folder / "host"
        """Has the folders of the node that containers mount: `usr/local` and `tmp`."""
        self._containerd_socket = self.folder / "containerd.sock"
        self._port, self._health = free_ports(2)
        self.running: list[Program] = []
        self._space: NodeSpace | None = None
        self._kubelet: Program | None = None
        self._cgroup = cgroups.CgroupRoot(name)
        try:
            self._start(settings or {})
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> "KubeletNode":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all processes, those of containers too."""
        for program in self.running:
            program.stop()
        self.running.clear()
        self._space = self._kubelet = None
        self._cgroup.remove()

    def check(self) -> None:
        """LabError if a program has exited."""
        for program in self.running:
            program.check()

    # -- starting

    def _start(self, settings: Mapping[str, Any]) -> None:
        self._space = self._made_space()
        self.running.append(self._space.holder)
        self._start_containerd()
        self._write_kubelet_configuration(settings)
        self.start_kubelet()
        assert self._kubelet is not None
        self._kubelet.wait_until(self._is_ready, "its node is not Ready", PATIENCE)

    def _made_space(self) -> NodeSpace:
        replaced = {
            "/usr/local": self.host / "usr/local",
            "/tmp": self.host / "tmp",
            "/var/lib": self.folder / "var-lib",
            "/var/log": self.folder / "var-log",
            "/run": self.folder / "run",
        }
        for folder in (*replaced.values(), self.plugins, self.folder / "var-lib/kubelet/device-plugins"):
            folder.mkdir(parents=True, exist_ok=True)
        replaced["/var/lib/kubelet/device-plugins"] = self.plugins
        for path, value in _SYSCTLS.items():
            file = self.folder / path.replace("/", ".")
            file.write_text(f"{value}\n")
            replaced[f"/proc/sys/{path}"] = file
        shown = [self._plane.folder, self._programs, *(one for one in Path("/usr/local").iterdir() if one.is_dir())]
        return NodeSpace(self._programs / "pause", replaced, shown, self.folder / "namespace.log")

    def _start_containerd(self) -> None:
        self._tell(f"starting {CONTAINERD}")
        network = self.folder / "network"
        (network / "bin").mkdir(parents=True)
        for plugin in ("loopback", "lab"):
            (network / "bin" / plugin).write_text(_NETWORK)
            (network / "bin" / plugin).chmod(0o755)
        (network / "10-lab.conflist").write_text(
            json.dumps({"cniVersion": "0.4.0", "name": "lab", "plugins": [{"type": "lab"}]})
        )
        config = self.folder / "containerd.toml"
        config.write_text(_containerd_configuration(self.folder, self._containerd_socket, network))
        program = self._run(CONTAINERD, [tool(CONTAINERD), "--config", config])
        program.wait_until(lambda: self.ctr("version") is not None, "does not answer", PATIENCE)
        for image, name in (("pause", PAUSE), ("workload", WORKLOAD)):
            archive = self.folder / f"{image}.tar"
            write_image(self._programs / image, name, archive)
            if self.ctr("images", "import", "--snapshotter", "native", str(archive)) is None:
                raise LabError(f"{CONTAINERD} does not take the image {name}")

    def ctr(self, *words: str) -> str | None:
        """What containerd answers to a command; None if it fails."""
        client = tool(CTR)
        assert client is not None
        command = [client, "--address", str(self._containerd_socket), "-n", "k8s.io", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else None

    def start_kubelet(self) -> None:
        """Start the kubelet; returns when it is healthy."""
        self._tell("starting kubelet")
        flags = {
            "config": self.folder / "kubelet.json",
            "kubeconfig": self._plane.kubeconfig(),
            "hostname-override": self.name,
            "root-dir": self.folder / "kubelet",
            "cert-dir": self.folder / "certificates",
        }
        command = [self._programs / "kubelet", *(f"--{name}={value}" for name, value in flags.items())]
        self._kubelet = self._run("kubelet", command)
        self._kubelet.wait_until(lambda: answers(self._health, "/healthz"), "not healthy", PATIENCE)

    def stop_kubelet(self) -> None:
        """Kill the kubelet; containers run on."""
        assert self._kubelet is not None
        self._kubelet.stop()
        self.running.remove(self._kubelet)
        # It dies a moment after the process that entered the namespace for it.
        self._space_holder().wait_until(lambda: not answers(self._health, "/healthz"), "the kubelet lives", PATIENCE)
        self._kubelet = None

    def _space_holder(self) -> Program:
        assert self._space is not None
        return self._space.holder

    def _run(self, name: str, command: list[Any]) -> Program:
        assert self._space is not None
        started = Program(self._space.command(command), self.folder / f"{name}.log", name)
        self.running.append(started)
        return started

    def _write_kubelet_configuration(self, settings: Mapping[str, Any]) -> None:
        content = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": HOST,
            "port": self._port,
            "readOnlyPort": 0,
            "healthzBindAddress": HOST,
            "healthzPort": self._health,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self._containerd_socket}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._cgroup.name,
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,
            "resolvConf": "",
            "podLogsDir": str(self.folder / "pod-logs"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            "enableControllerAttachDetach": False,
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "maxPods": 250,
            "kubeAPIQPS": 500,
            "kubeAPIBurst": 1000,
            "nodeStatusUpdateFrequency": "1s",
            "syncFrequency": "10s",
            **settings,
        }
        (self.folder / "kubelet.json").write_text(json.dumps(content, indent=2))

    # -- looking

    @property
    def _api(self) -> Api:
        return self._plane.api

    def node(self) -> dict[str, Any]:
        """The node as the API server shows it."""
        shown: dict[str, Any] = self._api.get(f"/api/v1/nodes/{self.name}")
        return shown

    def _is_ready(self) -> bool:
        try:
            conditions = self.node()["status"].get("conditions", ())
        except ApiError:
            return False
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def logs(self, pod: Mapping[str, Any], container: str) -> str:
        """What a container of a pod, as the API server shows it, has printed: all its starts."""
        meta = pod["metadata"]
        folder = self.folder / "pod-logs" / f"{meta['namespace']}_{meta['name']}_{meta['uid']}" / container
        text = ""
        for file in sorted(folder.glob("*.log")):
            for line in file.read_text(errors="replace").splitlines():
                _, _, tag, said = line.split(" ", 3)
                text += said if tag == "P" else f"{said}\n"
        return text


def _containerd_configuration(folder: Path, socket: Path, network: Path) -> str:
    section = 'plugins."io.containerd.grpc.v1.cri"'
    unused = ("snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.aufs", "snapshotter.v1.devmapper")
    disabled = ", ".join(f'"io.containerd.{name}"' for name in (*unused, "internal.v1.opt", "internal.v1.tracing"))
    # A process of this machine may not lower its score for the killer of processes; runc fails if it is made to.
    return f"""version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"
oom_score = 0
disabled_plugins = [{disabled}]
[grpc]
  address = "{socket}"
[{section}]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "{HOST}"
  stream_server_port = "0"
  [{section}.cni]
    bin_dir = "{network}/bin"
    conf_dir = "{network}"
  [{section}.containerd]
    snapshotter = "native"
    [{section}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{section}.containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{tool(RUNC)}"
"""
