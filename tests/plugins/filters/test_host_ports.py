"""Ports of the node: who gets in whose way."""

import pytest

from tests.neighbours import labelled, zoned
from tests.scenario import decide, place, reasons, scenario, session
from tonnage.cluster.task import make_task
from tonnage.model.pod import ContainerPort


def port(number, address=None, protocol=None):
    return ContainerPort(hostPort=number, hostIP=address, protocol=protocol)


@pytest.mark.parametrize(
    ("used", "wanted", "fits"),
    [
        (port(80), port(80), False),
        (port(80), port(81), True),
        (port(80), port(80, protocol="UDP"), True),
        (port(80, protocol="TCP"), port(80), False),
        (port(80), port(80, "10.0.0.1"), False),
        (port(80, "10.0.0.1"), port(80), False),
        (port(80, "10.0.0.1"), port(80, "0.0.0.0"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), True),
        (port(80, "::"), port(80, "10.0.0.2"), True),
        (ContainerPort(containerPort=80), port(80), True),
        (port(80), ContainerPort(containerPort=80), True),
    ],
)
def test_a_port_is_one_pods_per_address_and_protocol_and_no_address_means_all(used, wanted, fits):
    cluster = scenario(zoned("n"), labelled("user", on="n", ports=[used]))
    decision = decide(cluster, labelled("p", ports=[wanted]))
    assert (decision.node == "n") == fits
    assert reasons(decision) == ({} if fits else {"HostPortConflict": 1})


def test_the_sentence_names_the_port_and_the_pod():
    cluster = scenario(zoned("n"), labelled("other", on="n"), labelled("user", on="n", ports=[port(80, "10.0.0.1")]))
    decision = decide(cluster, labelled("p", ports=[port(90), port(80)]))
    assert decision.rejected[0].message == "n: port 80/TCP of 10.0.0.1 is in use by default/user"
    assert decision.rejected[0].plugin == "predicates"


def test_sidecars_keep_their_ports_and_init_containers_do_not():
    cluster = scenario(zoned("n"), labelled("user", on="n", sidecar_ports=[port(80)], init_ports=[port(81)]))
    assert decide(cluster, labelled("p", ports=[port(80)])).node is None
    assert decide(cluster, labelled("p", ports=[port(81)])).node == "n"
    assert decide(cluster, labelled("p", init_ports=[port(80)])).node == "n"
    assert decide(cluster, labelled("p", sidecar_ports=[port(80)])).node is None


def test_on_the_hosts_network_every_port_is_one_of_the_node():
    cluster = scenario(zoned("n"), labelled("user", on="n", ports=[ContainerPort(containerPort=80)], host_network=True))
    assert decide(cluster, labelled("p", ports=[port(80)])).node is None


def test_a_port_is_free_again_when_its_pod_is_gone_or_undone():
    cluster = scenario(zoned("a"), zoned("b"))
    open_session = session(cluster)
    wanted = [make_task(labelled(f"p{n}", ports=[port(80)]), cluster.vendors) for n in range(3)]
    assert [open_session.place(task).node for task in wanted] == ["a", "b", None]
    open_session.unplace("default/p0")
    assert open_session.place(wanted[2]).node == "a"
    cluster.remove_pod("default/p1")
    assert open_session.place(wanted[0]).node == "b"


def test_a_node_that_comes_later_has_its_ports_free():
    cluster = scenario(zoned("b"), labelled("user", on="b", ports=[port(80)]))
    wanted = labelled("p", ports=[port(80)])
    open_session = session(cluster)
    assert open_session.decide(make_task(wanted, cluster.vendors)).node is None
    cluster.upsert_node(zoned("a"))
    assert open_session.decide(make_task(wanted, cluster.vendors)).node == "a"
    assert place(cluster, wanted).node == "a"
