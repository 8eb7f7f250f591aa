"""A day on a node: thousands of pods come and go, and nothing of them is left over."""

import os
from pathlib import Path

from tests.agent.scenes import VENDOR, Kubelet, card, no_registration, pod, use
from tonnage.agent.core.agentcore import AgentCore
from tonnage.agent.core.answers import folder_name
from tonnage.agent.core.instructions import GiveDevices
from tonnage.agent.core.nodesettings import AnswerSettings
from tonnage.agent.foldertree import remove_folder
from tonnage.agent.hostfiles import NodeFiles
from tonnage.agent.monitor.folders import KEPT, FolderCleaner, pods_with_folders

PODS, AT_ONCE = 10_000, 40


def test_of_ten_thousand_pods_nothing_is_left(tmp_path: Path) -> None:
    core = AgentCore(VENDOR, no_registration)
    core.cards_seen([card(index) for index in range(8)])
    kubelet, files, cleaner = Kubelet(core), NodeFiles(AnswerSettings(), tmp_path), FolderCleaner()
    files.containers.mkdir(parents=True)
    descriptors = len(os.listdir("/proc/self/fd"))
    now, most = 0.0, 0
    for first in range(0, PODS, AT_ONCE):
        names = [f"p{number}" for number in range(first, first + AT_ONCE)]
        for number, name in enumerate(names):
            [answer] = kubelet.admit(pod(name, [use(number % 8, 100, 1)]))
            assert isinstance(answer, GiveDevices)
            files.prepare(folder_name(answer.pod, answer.container), keep=False)
        for name in names:
            core.pod_gone(f"uid-{name}")
        kubelet.listed.clear()
        kubelet.checkpoint.clear()
        kubelet.told.clear()
        now += KEPT / 2
        found = os.listdir(files.containers)
        most = max(most, len(found))
        for name in cleaner.due(found, pods_with_folders(core.pods.values()), now):
            assert remove_folder(files.containers / name)
    for name in cleaner.due(os.listdir(files.containers), frozenset(), now + KEPT):
        remove_folder(files.containers / name)
    assert os.listdir(files.containers) == []
    assert most <= 4 * AT_ONCE
    left = {name: value for name, value in vars(core).items() if isinstance(value, dict | set) and value}
    assert set(left) <= {"cards"}
    assert len(os.listdir("/proc/self/fd")) == descriptors
