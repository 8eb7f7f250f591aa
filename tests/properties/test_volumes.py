"""Whatever is placed and undone, no free volume is reserved for two claims, and the fast choice equals the slow one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.neighbours import labelled, zoned
from tests.properties.worlds import examples, phases
from tests.scenario import scenario, session
from tests.storage import capacity, claim, driver, local_class, storage_class, volume
from tonnage.framework.statement import Statement
from tonnage.model.quantity import whole

ZONES = {"a1": "a", "a2": "a", "b1": "b", "c1": None}
CLASSES = ["local", "fast"]
SIZES = ["1Gi", "2Gi", "4Gi"]
PODS = [f"p{number}" for number in range(6)]
CLAIMS = [f"c{number}" for number in range(6)]


@st.composite
def worlds(draw):
    """Nodes in zones, free volumes, claims that wait, pools of storage, and pods that use one to three claims."""
    volumes = [
        volume(f"v{number}", draw(st.sampled_from(CLASSES)), zone=draw(st.sampled_from(["a", "b", None])), size=size)
        for number, size in enumerate(draw(st.lists(st.sampled_from(SIZES), max_size=6)))
    ]
    claims = [claim(name, None, draw(st.sampled_from(CLASSES)), size=draw(st.sampled_from(SIZES))) for name in CLAIMS]
    pools = [capacity(zone, zone, draw(st.sampled_from(["0", "3Gi", "6Gi"]))) for zone in "ab"]
    users = [
        labelled(name, claims=draw(st.lists(st.sampled_from(CLAIMS), min_size=1, max_size=3, unique=True)))
        for name in PODS
    ]
    cluster = scenario(*(zoned(name, zone) if zone else zoned(name) for name, zone in ZONES.items()), *users)
    reports = draw(st.booleans())
    for thing in (*volumes, *claims, *pools, local_class(), storage_class(), driver(reports=reports)):
        cluster.upsert_surrounding(thing)
    return cluster


def size_of(found):
    return whole(found.spec.resources.requests["storage"])


def reaches(found, node):
    affinity = found.spec.nodeAffinity
    return affinity is None or ZONES[node] in affinity.required.nodeSelectorTerms[0].matchExpressions[0].values


def reserved(cluster):
    """By volume, the claims that it is reserved for."""
    found = {}
    for volumes in cluster.volumes.all().values():
        for one in volumes:
            if one.volume:
                found.setdefault(one.volume, set()).add(one.claim)
    return found


def made(cluster):
    """The claims for which volumes are to be provisioned, each with the node of its first user."""
    found = {}
    for key, volumes in cluster.volumes.all().items():
        for one in volumes:
            if not one.volume:
                found.setdefault(one.claim, cluster.holders[key])
    return found


def fits(cluster, task, node):
    """Whether the claims of a pod get volumes on a node, worked out claim by claim."""
    known, taken, before = cluster.surroundings, {v: c for v, (c,) in reserved(cluster).items()}, 0
    provisioned = made(cluster)
    for key in sorted(task.rules.claims, key=lambda key: (size_of(known.claims[key]), key)):
        wanted, size = known.claims[key], size_of(known.claims[key])
        if key in taken.values():
            if not any(reaches(known.volumes[name], node) for name, owner in taken.items() if owner == key):
                return False
            continue
        if key in provisioned:
            continue
        free = sorted(
            (whole(one.spec.capacity["storage"]), name)
            for name, one in known.volumes.items()
            if name not in taken and one.spec.storageClassName == wanted.spec.storageClassName and reaches(one, node)
        )
        name = next((name for there, name in free if there >= size), None)
        if name is not None:
            taken[name] = key
            continue
        if wanted.spec.storageClassName == "local":
            return False
        if known.drivers["csi.example.com"]:
            if ZONES[node] is None:
                return False
            left = whole(known.capacities[f"kube-system/{ZONES[node]}"].capacity) - before
            left -= sum(size_of(known.claims[c]) for c, where in provisioned.items() if ZONES[where] == ZONES[node])
            if size > left:
                return False
            before += size
    return True


def check(cluster):
    known = cluster.surroundings
    for name, claims in reserved(cluster).items():
        assert len(claims) == 1, f"{name} is reserved for {claims}"
    for key, volumes in cluster.volumes.all().items():
        assert [one.claim for one in volumes] == sorted(
            cluster.reserved[key].rules.claims, key=lambda key: (size_of(known.claims[key]), key)
        )
        for one in volumes:
            if one.volume:
                found = known.volumes[one.volume]
                assert whole(found.spec.capacity["storage"]) >= size_of(known.claims[one.claim])
                assert found.spec.storageClassName == known.claims[one.claim].spec.storageClassName
                assert reaches(found, cluster.holders[key])


@settings(max_examples=examples(80), deadline=None, phases=phases())
@given(worlds(), st.data())
def test_no_volume_is_reserved_twice_and_undoing_restores_everything(cluster, data):
    with session(cluster) as open_session:
        for _ in range(3):
            before = cluster.volumes.all()
            keep = data.draw(st.booleans())
            with Statement(open_session) as statement:
                marks = []
                for _ in range(data.draw(st.integers(1, 6))):
                    step = data.draw(st.sampled_from(["place", "place", "pipeline", "mark", "back"]))
                    if step in ("place", "pipeline") and cluster.waiting:
                        task = cluster.waiting[data.draw(st.sampled_from(sorted(cluster.waiting)))]
                        possible = {name for name in ZONES if fits(cluster, task, name)}
                        node = getattr(statement, step)(task).node
                        assert (node in possible) if node is not None else not possible
                    if step == "mark":
                        marks.append((len(statement), cluster.volumes.all()))
                    if step == "back" and marks:
                        mark, then = marks.pop()
                        statement.undo(mark)
                        assert cluster.volumes.all() == then
                    check(cluster)
                if keep:
                    statement.commit()
            if not keep:
                assert cluster.volumes.all() == before
            placed = sorted(cluster.reserved)
            if placed and data.draw(st.booleans()):
                open_session.unplace(data.draw(st.sampled_from(placed)))
            check(cluster)
