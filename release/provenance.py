"""The provenance of a release: which files were made from which commit, as an in-toto statement of SLSA's kind."""

import json
from collections.abc import Mapping
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:tonnage:make-release:1"
"""`make release` of a checkout; docs/releasing.md says what it does."""


def provenance(
    subjects: Mapping[str, str], commit: str, version: str, is_tagged: bool, inputs: Mapping[str, str]
) -> str:
    """The statement about files by their hashes; inputs are the committed files that name all that went in beside."""
    statement: dict[str, Any] = {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "version": version, "rehearsal": not is_tagged},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *({"name": name, "digest": {"sha256": digest}} for name, digest in sorted(inputs.items())),
                ],
            },
            # Whoever signs the statement says with that who built it.
            "runDetails": {"builder": {"id": BUILD_TYPE}},
        },
    }
    return json.dumps(statement, indent=2) + "\n"
