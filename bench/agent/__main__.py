"""`python -m bench.agent`: the agent on a real kubelet and a real API server: start, 40 pods at once, faults, memory.

It needs what the tests on a real kubelet need: root, containerd, runc and a C compiler.
"""

import asyncio
import shutil
import sys

from bench.agent.day import for_a_day
from bench.agent.faults import after_faults
from bench.agent.pods import starts_and_pods
from bench.agent.sizes import FULL, QUICK
from bench.report import BenchmarkError, Report, argument_parser, publish
from tests.e2e.kubelet.realnode import GpuNode
from tonnage.lab import kubelet_node
from tonnage.lab.control_plane import ControlPlane
from tonnage.lab.kubelet_node import KubeletNode


def main() -> int:
    parser = argument_parser("bench.agent", __doc__)
    parser.add_argument("--day", action="store_true", help="only memory and idleness, without a real kubelet")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else FULL

    def measure(report: Report) -> None:
        missing = None if arguments.day else kubelet_node.missing()
        missing = missing or (None if shutil.which("cc") else "there is no C compiler for a fake NVML")
        if missing:
            raise BenchmarkError(missing)
        with ControlPlane() as plane:
            if not arguments.day:
                with KubeletNode(plane) as kubelet:
                    node = GpuNode(plane, kubelet)
                    starts_and_pods(report, node, sizes)
                    after_faults(report, node, sizes)
            asyncio.run(for_a_day(report, plane, sizes))

    return publish(arguments, measure)


if __name__ == "__main__":
    sys.exit(main())
