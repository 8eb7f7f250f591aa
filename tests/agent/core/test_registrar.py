"""When the agent registers again: a new kubelet, a lost stream, and a rival that came and left."""

from tonnage.agent.core.registrar import Registrar


def connected() -> Registrar:
    made = Registrar()
    made.socket_seen((1, 1))
    made.trying(0.0)
    made.stream_opened()
    return made


def test_a_kubelet_that_hangs_up_is_told_again() -> None:
    registrar = connected()
    assert not registrar.is_due(10.0)
    assert registrar.stream_ended(10.0) == ""
    assert registrar.is_due(10.0)
    registrar.trying(10.0)
    registrar.stream_opened()
    assert "another plugin" in registrar.stream_ended(20.0)


def test_a_rival_is_named_and_its_place_taken_when_it_has_left() -> None:
    registrar = connected()
    assert registrar.amount_seen(0, 80) == "", "the status lags behind at first"
    assert registrar.amount_seen(80, 80) == ""
    assert "offers 3 devices and not 80" in registrar.amount_seen(3, 80)
    assert registrar.amount_seen(3, 80) == "", "it is said once"
    assert not registrar.is_due(10.0), "the newest plugin has the resource"
    assert "came and left" in registrar.amount_seen(0, 80)
    assert registrar.is_replaced
    assert registrar.is_due(10.0)
    registrar.trying(10.0)
    assert not registrar.is_replaced


def test_the_agents_own_changes_are_no_rival() -> None:
    registrar = connected()
    registrar.amount_seen(80, 80)
    registrar.offer_changed()
    assert registrar.amount_seen(80, 70) == ""
    assert registrar.amount_seen(70, 70) == ""
    assert registrar.is_connected
