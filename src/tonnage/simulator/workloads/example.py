"""The commented example of a workload file."""

EXAMPLE = """\
# A workload for `tonnage simulate --workload FILE`: which nodes there are, which pods come, and how long they stay.
# Durations: 90s, 15m, 8h, 2d, or a number of seconds. Memory of GPUs is in MiB.

duration: 24h            # how long pods come; the replay goes on until all have run
seed: 1                  # the same seed invents the same again; --seed overrules it

nodes:                   # pools of nodes that are alike
- name: a100
  count: 10
  gpus: 8
  model: A100
  gpuMemory: 81920
  cpu: 128
  memory: 1024Gi
- name: t4
  count: 10
  gpus: 2
  model: T4
  gpuMemory: 15360
  cpu: 32
  memory: 128Gi
- name: cpu
  count: 4
  cpu: 64
  memory: 256Gi

queues:                  # may be left out; shares count if the policy has the plugin `proportion`
- name: research
  weight: 2
- name: products
  weight: 1

arrivals:                # the time between two pods, or gangs
  distribution: exponential   # or fixed, uniform (low, high), lognormal (median, sigma)
  mean: 60s

pods:                    # classes of pods; share says how many of all, in relation to the others
- name: notebook
  share: 5
  gpus: 1
  gpuMemory: [4000, 8000, 16000]   # of several numbers each pod draws one
  gpuCores: 20
  cpu: 2
  memory: 8Gi
  queue: research
  duration: {distribution: lognormal, median: 40m, sigma: 0.8, high: 12h}
- name: inference
  share: 3
  gpus: 1
  gpuMemory: 7000
  cpu: 2
  memory: 8Gi
  models: [T4]
  queue: products
  priority: 1000
  duration: {distribution: exponential, mean: 2h}
- name: training
  share: 2
  gpus: [1, 2, 4]
  cpu: 8
  memory: 64Gi
  queue: research
  preemptible: true      # may be stopped for others, if the policy's actions do so
  duration: {distribution: lognormal, median: 1h, sigma: 0.9, high: 24h}
- name: pretraining
  share: 0.2
  gang: 2                # pods that start together or not at all
  gpus: 8
  models: [A100]
  cpu: 64
  memory: 512Gi
  queue: research
  duration: {distribution: uniform, low: 1h, high: 4h}
- name: batch
  share: 3
  cpu: 4
  memory: 16Gi
  duration: {distribution: fixed, mean: 20m}
"""
