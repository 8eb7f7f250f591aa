import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.pod import Pod
from tonnage.model.wire import Envelope, MalformedError, WireError, convert, decode, encode, texts


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (b"{}", "", "missing required field `metadata`"),
        (b'{"metadata":{"name":5}}', "metadata.name", "Expected `str`, got `int`"),
        (b'{"metadata":{"labels":{"a":5}}}', "metadata.labels[...]", "Expected `str`, got `int`"),
        (b'{"metadata":{},"spec":{"containers":[{},[]]}}', "spec.containers[1]", "Expected `object`, got `array`"),
        (b"[]", "", "Expected `object`, got `array`"),
    ],
)
def test_data_of_the_wrong_type_is_an_error_with_its_path(text, path, words):
    with pytest.raises(WireError, match=words) as caught:
        decode(text, Pod)
    assert caught.value.path == path
    assert not isinstance(caught.value, MalformedError)


def test_a_key_of_the_wrong_type_is_an_error_with_the_path_of_its_map():
    with pytest.raises(WireError) as caught:
        convert({"metadata": {"labels": {5: "a"}}}, Pod)
    assert caught.value.path == "metadata.labels"


@pytest.mark.parametrize(("text", "offset"), [(b'{"a":1,,}', 7), (b'{"a": x}', 6), (b"\xff", 0)])
def test_malformed_text_says_where(text, offset):
    with pytest.raises(MalformedError) as caught:
        decode(text, Envelope)
    assert caught.value.offset == offset
    assert not caught.value.is_cut_off


def test_text_that_ends_too_early_is_cut_off():
    with pytest.raises(MalformedError) as caught:
        list(texts(b'{"a": [1, 2'))
    assert caught.value.is_cut_off
    assert caught.value.offset == 11


def test_nesting_without_end_is_an_error():
    with pytest.raises(WireError):
        decode(b'{"items":' + b"[" * 100_000, Envelope)


def test_several_texts_in_one_stream():
    stream = b' {"a":1}\n\n[2]{"b":3} 4 '
    assert [(start, bytes(raw)) for start, raw in texts(stream)] == [
        (1, b'{"a":1}'),
        (10, b"[2]"),
        (13, b'{"b":3}'),
        (21, b"4"),
    ]
    assert list(texts(b" \n")) == []


def test_a_bad_text_after_good_ones_says_where_in_the_stream():
    with pytest.raises(MalformedError) as caught:
        list(texts(b'{"a":1}\n{"b":?}'))
    assert caught.value.offset == 13


@given(
    st.lists(st.dictionaries(st.text(), st.integers(-(2**53), 2**53) | st.text() | st.none(), max_size=3), max_size=4)
)
def test_a_stream_of_objects_reads_back(objects):
    stream = b"\n".join(encode(thing) for thing in objects)
    assert [decode(raw, dict) for _, raw in texts(stream)] == objects


@given(st.binary(max_size=40) | st.text('{}[]",:0e-.tn \\u', max_size=30).map(str.encode))
def test_any_bytes_are_decoded_or_a_wire_error(data):
    for kind in (Pod, Envelope, object):
        with contextlib.suppress(WireError):
            decode(data, kind)
