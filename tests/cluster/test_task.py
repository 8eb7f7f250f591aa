"""Tasks: requirements worked out once for pods of one template equal those worked out for each pod."""

import msgspec
import pytest

from tests.scenario import pod
from tonnage.cluster.task import TaskMaker, make_task
from tonnage.devices.catalog import default_vendors
from tonnage.model.pod import Container, Pod, ResourceRequirements

VENDORS = default_vendors()
USE = "nvidia.com/use-gputype"


def like(template: Pod, name: str, annotations: dict[str, str] | None = None) -> Pod:
    """Another pod with the very same specification."""
    return msgspec.structs.replace(
        template, metadata=msgspec.structs.replace(template.metadata, name=name, annotations=annotations)
    )


@pytest.mark.parametrize("annotations", [None, {USE: "A100"}, {"note": "x"}])
def test_pods_of_one_template_need_what_each_needs_alone(annotations):
    template, maker = pod("first", 2, cpu=3, memory=1000), TaskMaker(VENDORS)
    second = like(template, "second", annotations)
    assert maker.make(template) == make_task(template, VENDORS)
    made = maker.make(second)
    assert made == make_task(second, VENDORS)
    assert (made.key, made.pod, made.annotations) == ("default/second", second, second.annotations)


def test_what_is_wrong_with_a_template_is_wrong_with_all_its_pods():
    template, maker = pod("first", cpu="many"), TaskMaker(VENDORS)
    assert maker.make(template).fault
    assert maker.make(like(template, "second")) == make_task(like(template, "second"), VENDORS)


@pytest.mark.parametrize(
    "change",
    [
        {"on": "a"},
        {"on": "a", "annotations": {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1000,10:;"}},
        {"on": "a", "cpu": 4},
        {"cpu": 4},
        {"annotations": {USE: "A100"}},
        {"annotations": {"metax-tech.com/sgpu-app-class": "online"}},
        {"annotations": {"gpu-fraction": "0.5"}},
        {"labels": {"a": "b"}},
        {},
    ],
)
def test_a_pod_that_changes_needs_what_it_needs_now(change):
    maker = TaskMaker(VENDORS)
    before = maker.make(pod("p", 2, cpu=3, memory=1000))
    now = pod("p", 2, **{"cpu": 3, "memory": 1000, **change})
    assert maker.make(now, before) == make_task(now, VENDORS)


def test_what_could_not_be_read_of_a_pod_is_read_again():
    maker, one = TaskMaker(VENDORS), pod("p", 2)
    unread = msgspec.structs.replace(make_task(one, VENDORS), fault="it cannot be read")
    assert maker.make(pod("p", 2), unread) == make_task(one, VENDORS)


@pytest.mark.parametrize("after", [None, "other"])
def test_a_pod_that_asks_for_a_part_of_a_card_is_read_again_whatever_changes(after):
    def sharing(**more: str) -> Pod:
        return pod("p", None, annotations={"gpu-fraction": "0.5", **more})

    maker = TaskMaker(VENDORS)
    before = maker.make(sharing(**{"gpu-fraction-container-name": "main"}))
    now = sharing(**({"gpu-fraction-container-name": after} if after else {}))
    assert maker.make(now, before) == make_task(now, VENDORS)


class ReadKeys(dict[str, str]):
    """Annotations that know which keys were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def get(self, key, default=None):
        self.read.add(key)
        return default

    def __contains__(self, key):
        self.read.add(key)
        return False


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_a_request_depends_on_no_annotations_but_those_about_which_cards_will_do(vendor):
    container, annotations = Container("main", ResourceRequirements(limits={vendor.count_resource: 1})), ReadKeys()
    assert vendor.request(container, annotations) is not None
    assert annotations.read <= set(vendor.policy_annotations)
