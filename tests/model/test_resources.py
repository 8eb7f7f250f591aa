import pytest

from tonnage.model.meta import ObjectMeta
from tonnage.model.pod import Container, Pod, PodSpec, ResourceRequirements
from tonnage.model.quantity import LARGEST
from tonnage.model.resources import NegativeAmountError, effective_request, show


def container(cpu=None, *, limits=None, sidecar=False, **requests):
    asked = {"cpu": cpu, **requests} if cpu is not None else requests
    return Container(
        name="c",
        resources=ResourceRequirements(requests=asked or None, limits=limits),
        restartPolicy="Always" if sidecar else None,
    )


def request_of(*containers, init=(), overhead=None):
    spec = PodSpec(containers=list(containers), initContainers=list(init) or None, overhead=overhead)
    return effective_request(Pod(metadata=ObjectMeta(name="p"), spec=spec))


def test_containers_add_up_and_the_pod_takes_a_slot():
    assert request_of(container("500m", memory="1Gi"), container("1", memory="512Mi")) == {
        "cpu": 1500,
        "memory": 1536 * 2**20,
        "pods": 1,
    }


def test_a_pod_that_asks_for_nothing_takes_a_slot():
    assert request_of(container()) == {"pods": 1}
    assert request_of() == {"pods": 1}
    assert request_of(container("0")) == {"pods": 1}


def test_init_containers_count_by_their_largest():
    assert request_of(container("1"), init=[container("3"), container("2")])["cpu"] == 3000
    assert request_of(container("4"), init=[container("3"), container("2")])["cpu"] == 4000


def test_the_peak_is_taken_per_resource():
    request = request_of(container("1", memory="8"), init=[container("3", memory="2")])
    assert (request["cpu"], request["memory"]) == (3000, 8)


def test_a_sidecar_runs_beside_the_init_containers_after_it():
    assert request_of(container("1"), init=[container("1", sidecar=True), container("3")])["cpu"] == 4000


def test_a_sidecar_does_not_run_beside_the_init_containers_before_it():
    assert request_of(container("1"), init=[container("3"), container("1", sidecar=True)])["cpu"] == 3000


def test_sidecars_run_beside_the_containers():
    sidecars = [container("1", sidecar=True), container("2", sidecar=True)]
    assert request_of(container("1"), init=sidecars)["cpu"] == 4000


def test_overhead_comes_on_top_of_the_peak():
    request = request_of(container("1"), init=[container("3")], overhead={"cpu": "250m", "memory": 7})
    assert (request["cpu"], request["memory"]) == (3250, 7)


def test_a_limit_stands_in_for_a_missing_request_only():
    both = container("1", limits={"cpu": "4", "nvidia.com/gpu": "2"})
    assert request_of(both) == {"cpu": 1000, "nvidia.com/gpu": 2, "pods": 1}


@pytest.mark.parametrize("pod", [{"cpu": "-1"}, {"limits": {"memory": -1}}])
def test_a_negative_request_is_refused(pod):
    with pytest.raises(NegativeAmountError, match="container 'c'"):
        request_of(container(**pod))


def test_a_negative_overhead_is_refused():
    with pytest.raises(NegativeAmountError, match="overhead"):
        request_of(container("1"), overhead={"cpu": "-1m"})


def test_sums_stay_within_64_bits():
    assert request_of(container(memory="100Ei"), container(memory="100Ei"))["memory"] == LARGEST


def test_amounts_for_people():
    assert (show("cpu", 1500), show("memory", 2**30), show("nvidia.com/gpu", 8)) == ("1500m", "1Gi", "8")
