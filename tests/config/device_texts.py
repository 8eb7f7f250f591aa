"""Device configurations as people write them, and what loading one says."""

from textwrap import dedent

from tonnage.config.deviceconfig import load_devices
from tonnage.config.notes import ConfigError

FULL = """\
nvidia:
  resourceCountName: acme.com/gpu
  resourceMemoryName: acme.com/gpumem
  resourceMemoryPercentageName: acme.com/gpumem-percentage
  resourceCoreName: acme.com/gpucores
  resourcePriorityName: acme.com/priority
  overwriteEnv: true
  defaultMemory: 512
  defaultCores: 10
  defaultGPUNum: 2
  memoryFactor: 4
  gpuCorePolicy: force
  runtimeClassName: nvidia
  deviceSplitCount: 10
  deviceMemoryScaling: 1
  deviceCoreScaling: 1.5
  preConfiguredDeviceMemory: 0
  enableNumaTopology: false
  libCudaLogLevel: 1
  disableCoreLimit: false
  migProfileAllowlist:
  - models: [A30]
    profiles: [1g.6gb, 2g.12gb, 4g.24gb]
cambricon:
  resourceCountName: acme.com/mlu
  resourceMemoryName: acme.com/mlu-memory
  resourceCoreName: acme.com/mlu-core
hygon:
  resourceCountName: acme.com/dcu
  resourceMemoryName: acme.com/dcu-memory
  resourceCoreName: acme.com/dcu-core
  memoryFactor: 2
metax:
  resourceCountName: metax-tech.com/gpu
  resourceVCountName: metax-tech.com/sgpu
  resourceVMemoryName: metax-tech.com/vmemory
  resourceVCoreName: metax-tech.com/vcore
  sgpuTopologyAware: false
enflame:
  resourceNameGCU: enflame.com/gcu
  resourceNameDRSGCU: enflame.com/drs-gcu
  resourceNameGCUMemory: enflame.com/gcu-memory
  resourceNameGCUCore: enflame.com/gcu-core
mthreads:
  resourceCountName: mthreads.com/vgpu
  resourceMemoryName: mthreads.com/sgpu-memory
  resourceCoreName: mthreads.com/sgpu-core
  memoryPerCard: [96]
iluvatars:
- chipName: MR-V100
  commonWord: MR-V100
  resourceCountName: acme.com/mr
  resourceMemoryName: acme.com/mr-memory
  resourceCoreName: acme.com/mr-core
kunlun:
  resourceCountName: kunlunxin.com/xpu
  resourceVCountName: kunlunxin.com/vxpu
  resourceVMemoryName: kunlunxin.com/vxpu-memory
awsneuron:
  resourceCountName: aws.amazon.com/neuron
  resourceCoreName: aws.amazon.com/neuroncore
amd:
  resourceCountName: amd.com/gpu
  resourceCoreName: amd.com/gpucores
  resourceMemoryName: amd.com/gpumem
vastai:
  resourceCountName: vastaitech.com/va
biren:
  resourceCountName: birentech.com/gpu
vnpus:
  hamiVnpuCore: false
  configs:
  - chipName: 310
    commonWord: Ascend310X
    resourceName: acme.com/npu
    resourceMemoryName: acme.com/npu-memory
    resourceCoreName: acme.com/npu-core
    memoryAllocatable: 20000
    memoryCapacity: 24000
    memoryFactor: 4
    aiCore: 8
    aiCPU: 7
    runtimeClassName: ascend
    overwriteEnv: true
    templates:
    - {name: large, memory: 12001, aiCore: 4, aiCPU: 4}
    - {name: small, memory: 3000, aiCore: 1, aiCPU: 1}
"""

OLD_LIST = """\
vnpus:
- chipName: 910B3
  commonWord: Ascend910B3
  resourceName: huawei.com/Ascend910B3
  resourceMemoryName: huawei.com/Ascend910B3-memory
  memoryAllocatable: 65536
  memoryCapacity: 65536
  aiCore: 20
  templates:
  - name: vir05_1c_16g
    memory: 16384
    aiCore: 5
- chipName: Ascend910
  commonWord: Ascend910C
  resourceName: huawei.com/Ascend910C
  resourceMemoryName: huawei.com/Ascend910C-memory
  memoryAllocatable: 65536
  memoryCapacity: 65536
"""

NVIDIA = """\
nvidia:
  resourceCountName: nvidia.com/gpu
  defaultGPUNum: 1
"""


def vendors(text: str) -> dict[str, object]:
    """The vendors of a valid configuration by their names."""
    return {vendor.name: vendor for vendor in load_devices(dedent(text), "FILE").vendors}


def warnings(text: str) -> list[str]:
    return [note.shown("FILE") for note in load_devices(dedent(text), "FILE").warnings]


def errors(text: str) -> list[str]:
    """What is wrong with a configuration; empty if nothing is."""
    try:
        load_devices(dedent(text), "FILE")
    except ConfigError as error:
        return [note.shown("FILE") for note in error.errors]
    return []
