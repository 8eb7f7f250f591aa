"""The output of manifests: documents as YAML that people read and kubectl applies."""

from collections.abc import Sequence
from typing import Any

import yaml


def as_yaml(documents: Sequence[dict[str, Any]]) -> str:
    """The documents with their keys in order, and with expressions of several lines as blocks."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=1000)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
