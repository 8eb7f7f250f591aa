"""Problems: faults of single objects of the cluster, kept and shown, never fatal."""

import msgspec


class Problem(msgspec.Struct, frozen=True, omit_defaults=False):
    """What is wrong, where, and what was expected instead."""

    object: str
    """Kind and name, such as `Node/gpu-07` or `Pod/team-a/train-0`."""
    field: str
    """The annotation or field, such as `metadata.annotations[hami.io/node-nvidia-register]`."""
    position: str
    """Where inside the field: an element and a field name, a path, or a line of a file; empty for the whole field."""
    expected: str
    message: str

    def __str__(self) -> str:
        place = " at ".join(part for part in (self.field, self.position) if part)
        parts = [part for part in (self.object, place, self.message) if part]
        return ": ".join(parts) + (f" (expected {self.expected})" if self.expected else "")


def annotation_field(key: str) -> str:
    """The path of one annotation, as problems name it."""
    return f"metadata.annotations[{key}]"
