import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.selection import (
    UNSCHEDULABLE,
    Expression,
    SelectionError,
    SelectorTerm,
    Taint,
    Toleration,
    check,
    holds,
    integer,
    term_holds,
    tolerates,
    untolerated,
)


@pytest.mark.parametrize(
    ("operator", "values", "value", "answer"),
    [
        ("In", ["a", "b"], "b", True),
        ("In", ["a", "b"], "c", False),
        ("In", ["a"], None, False),
        ("NotIn", ["a"], "b", True),
        ("NotIn", ["a"], "a", False),
        ("NotIn", ["a"], None, True),
        ("Exists", None, "", True),
        ("Exists", None, None, False),
        ("DoesNotExist", None, None, True),
        ("DoesNotExist", None, "", False),
        ("Gt", ["5"], "6", True),
        ("Gt", ["5"], "5", False),
        ("Gt", ["-5"], "+1", True),
        ("Gt", ["5"], "six", False),
        ("Gt", ["5"], None, False),
        ("Lt", ["5"], "4", True),
        ("Lt", ["5"], "5", False),
        ("Lt", ["5"], "", False),
    ],
)
def test_operators(operator, values, value, answer):
    expression = Expression(key="k", operator=operator, values=values)
    check(expression)
    assert holds(expression, value) is answer


@pytest.mark.parametrize(
    ("operator", "values", "words"),
    [
        ("in", ["a"], "none of In, NotIn"),
        ("", None, "none of"),
        ("In", [], "needs values"),
        ("NotIn", None, "needs values"),
        ("Gt", ["a"], "one whole number"),
        ("Lt", ["1", "2"], "one whole number"),
        ("Gt", None, "one whole number"),
        ("Lt", ["5.5"], "one whole number"),
    ],
)
def test_expressions_without_meaning_are_refused_and_hold_for_nothing(operator, values, words):
    expression = Expression(key="k", operator=operator, values=values)
    with pytest.raises(SelectionError, match=words):
        check(expression)
    if operator != "NotIn":
        assert not holds(expression, "1")


@given(st.text(max_size=8), st.none() | st.lists(st.text(max_size=5), max_size=3), st.none() | st.text(max_size=5))
def test_any_expression_gets_an_answer(operator, values, value):
    assert holds(Expression(key="k", operator=operator, values=values), value) in (True, False)


@given(st.text(max_size=25))
def test_any_text_is_an_integer_or_nothing(text):
    number = integer(text)
    assert number is None or number == int(text)


def term(*expressions, fields=()):
    return SelectorTerm(
        matchExpressions=[Expression(*e) for e in expressions] or None,
        matchFields=[Expression(*e) for e in fields] or None,
    )


def test_every_requirement_of_a_term_must_hold():
    both = term(("pool", "In", ["h100"]), ("zone", "Exists"))
    assert term_holds(both, {"pool": "h100", "zone": "a"}, "n")
    assert not term_holds(both, {"pool": "h100"}, "n")


def test_an_empty_term_holds_nowhere():
    assert not term_holds(SelectorTerm(), {"a": "b"}, "n")
    assert not term_holds(SelectorTerm(matchExpressions=[], matchFields=[]), {}, "n")


def test_fields_select_by_node_name():
    by_name = term(fields=[("metadata.name", "In", ["n"])])
    assert term_holds(by_name, {}, "n")
    assert not term_holds(by_name, {"metadata.name": "n"}, "m")
    assert not term_holds(term(fields=[("spec.other", "In", ["n"])]), {}, "n")


TAINT = Taint(key="dedicated", value="inference", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "answer"),
    [
        (Toleration(key="dedicated", operator="Equal", value="inference", effect="NoSchedule"), True),
        (Toleration(key="dedicated", value="inference"), True),
        (Toleration(key="dedicated", operator="", value="inference", effect=""), True),
        (Toleration(key="dedicated", value="training"), False),
        (Toleration(key="dedicated"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="dedicated", operator="Exists"), True),
        (Toleration(key="dedicated", operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(key="", operator="Exists", effect="NoSchedule"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Equal", value="inference"), False),
        (Toleration(key="dedicated", operator="Like", value="inference"), False),
    ],
)
def test_tolerations(toleration, answer):
    assert tolerates([toleration], TAINT) is answer


def test_a_taint_without_a_value_equals_an_empty_value():
    taint = Taint(key="k", effect="NoSchedule")
    assert tolerates([Toleration(key="k", value="")], taint)
    assert tolerates([Toleration(key="k")], taint)


def test_any_of_the_tolerations_is_enough():
    assert tolerates([Toleration(key="x", operator="Exists"), Toleration(operator="Exists")], TAINT)
    assert not tolerates([], TAINT)


def test_only_taints_that_keep_pods_away_count():
    soft = Taint(key="soft", effect="PreferNoSchedule")
    hard = Taint(key="hard", effect="NoExecute")
    assert untolerated([], [soft]) is None
    assert untolerated([], [Taint(key="none")]) is None
    assert untolerated([], [soft, hard, TAINT]) is hard
    assert untolerated([Toleration(key="hard", operator="Exists")], [soft, hard, TAINT]) is TAINT
    assert untolerated([Toleration(operator="Exists")], [soft, hard, TAINT, UNSCHEDULABLE]) is None
