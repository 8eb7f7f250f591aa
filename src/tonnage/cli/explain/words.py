"""The words of a question: what kind of thing, and its name; a pod if no kind is given."""

import click

from tonnage.explain.record import ExplainedKind

_SHORT = {"pods": "pod", "po": "pod", "jobs": "job", "podgroup": "job", "pg": "job", "queues": "queue", "q": "queue"}
_SHORT |= {"nodes": "node", "no": "node", "gpus": "gpu", "card": "gpu"}


def question(words: tuple[str, ...]) -> tuple[ExplainedKind, str]:
    """Kind and name of what is asked about: NAME, KIND NAME or, as kubectl takes it, KIND/NAME."""
    kinds = [*ExplainedKind]
    if len(words) == 1:
        kind, slash, name = words[0].partition("/")
        if slash and name and _known(kind) in kinds:
            return ExplainedKind(_known(kind)), name
        if _known(words[0]) in kinds:
            raise click.UsageError(f"which {_known(words[0])}? Give its name after the kind.")
        return ExplainedKind.POD, words[0]
    if len(words) == 2:
        kind = _known(words[0])
        if kind not in kinds:
            from tonnage.config.notes import advice

            raise click.UsageError(f"{words[0]!r} is not one of {', '.join(kinds)}{advice(words[0], kinds)}")
        return ExplainedKind(kind), words[1]
    said = "give the name of a pod, or a kind and a name, before -f"
    raise click.UsageError(f"{said}: tonnage explain [pod|job|queue|node|gpu] NAME")


def _known(kind: str) -> str:
    kind = kind.lower()
    return _SHORT.get(kind, kind)


def complete_words(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """The kinds, where none is given yet."""
    return [] if context.params.get("words") else [kind.value for kind in ExplainedKind if kind.startswith(incomplete)]
