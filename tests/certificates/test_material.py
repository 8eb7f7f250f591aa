"""Certificates over years of virtual time: always valid, always of an authority that is known already."""

import base64

import pytest

from tonnage.certificates.material import CertificateUse, MaterialError, decode, fingerprints, joined, renewed

DAY = 24 * 3600.0
USE = CertificateUse("webhook", ("tonnage-scheduler.tonnage.svc",), False, 90 * DAY)
START = 1_800_000_000.0


def knows(bundle, material):
    """Whether a client with that bundle accepts the certificate."""
    return any(
        one.signed(material.serving)
        for one in material.authorities
        if fingerprints(one.certificate_pem) <= fingerprints(bundle)
    )


def test_for_years_every_certificate_is_valid_and_known_to_late_clients():
    step, now = DAY / 4, START
    kept = renewed(None, USE, now)
    told = [kept.bundle] * 2
    certificates, authorities = {kept.serving}, {*kept.authorities}
    while now < START + 3 * 365 * DAY:
        now += step
        kept = renewed(kept, USE, now, fingerprints(told[-1]))
        told.append(kept.bundle)
        assert kept.serving.ends - now > USE.lifetime / 4
        assert all(one.ends > now for one in kept.authorities)
        # A client has what was told a step ago.
        assert knows(told[-2], kept)
        certificates.add(kept.serving)
        authorities.update(kept.authorities)
    assert len(certificates) > 12
    assert len(authorities) >= 6


def test_a_new_authority_signs_nothing_before_it_is_trusted():
    kept = renewed(None, USE, START)
    late = START + 2.5 * USE.lifetime
    both = renewed(kept, USE, late)
    assert len(both.authorities) == 2
    assert both.authorities[1].signed(both.serving)
    again = renewed(both, USE, late + USE.lifetime, trusted=fingerprints(both.authorities[1].certificate_pem))
    assert both.authorities[1].signed(again.serving)
    settled = renewed(both, USE, late + USE.lifetime, trusted=fingerprints(both.bundle))
    assert both.authorities[0].signed(settled.serving)


def test_nothing_changes_before_its_time():
    kept = renewed(None, USE, START)
    assert renewed(kept, USE, START + USE.lifetime / 2) is kept


@pytest.mark.parametrize("years", [1, 10])
def test_what_has_expired_is_made_anew(years):
    kept = renewed(None, USE, START)
    now = START + years * 365 * DAY + 10 * USE.lifetime
    made = renewed(kept, USE, now)
    assert made.serving.ends > now
    assert made.authorities[0] not in kept.authorities


def test_other_names_need_another_certificate_of_the_same_authority():
    kept = renewed(None, USE, START)
    made = renewed(kept, USE._replace(names=("b.example", "127.0.0.1")), START + 1)
    assert made.authorities == kept.authorities
    assert made.serving.names == ("127.0.0.1", "b.example")


def test_a_secret_is_read_as_it_was_written():
    kept = renewed(renewed(None, USE, START), USE, START + 2.5 * USE.lifetime)
    assert decode(kept.encoded()).files() == kept.files()
    assert renewed(decode(kept.encoded()), USE, START + 2.5 * USE.lifetime).files() == kept.files()


BROKEN = {
    "no key": {"ca.key": None},
    "other key": {"tls.key": renewed(None, USE, START).encoded()["tls.key"]},
    "no base64": {"tls.crt": "%%"},
    "no certificate": {"tls.crt": base64.b64encode(b"hello").decode()},
    "authorities without keys": {"ca.key": base64.b64encode(b"x").decode()},
    "thousands of authorities": {
        name: base64.b64encode(base64.b64decode(text) * 1000).decode()
        for name, text in renewed(None, USE, START).encoded().items()
        if name.startswith("ca.")
    },
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_secret_is_told(broken):
    data = {**renewed(None, USE, START).encoded(), **broken}
    with pytest.raises(MaterialError):
        decode({name: text for name, text in data.items() if text is not None})


def test_what_others_serve_stays_trusted_until_it_ends():
    ours, others = renewed(None, USE, START), renewed(None, USE._replace(lifetime=10 * DAY), START)
    both = joined(ours.bundle, others.bundle, START + DAY)
    assert both == ours.bundle + others.bundle
    assert joined(ours.bundle, both, START + DAY) == both
    assert joined(ours.bundle, both, START + 41 * DAY) == ours.bundle
    assert joined(ours.bundle, b"nonsense", START) == ours.bundle
