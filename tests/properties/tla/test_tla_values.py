"""TLA+ values: equal values are equal, and every way of writing one can be read again."""

import pickle

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties.tla import ModelValue, Rec, Value, from_json, parse, to_json, to_tla
from properties.tla.values import order

names = st.from_regex(r"[a-z][a-zA-Z0-9_]{0,5}", fullmatch=True)
plain = st.one_of(
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
    st.text(max_size=8),
    st.builds(ModelValue, names),
)


def _containers(inner: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.frozensets(inner, max_size=4),
        st.dictionaries(
            st.one_of(names, st.just("set"), st.integers(-2, 4)), inner, max_size=4
        ).map(lambda pairs: Rec.function(pairs.items())),
    )


values: st.SearchStrategy[Value] = st.recursive(plain, _containers, max_leaves=12)


@given(values)
def test_what_is_written_as_tla_is_read_as_the_same_value(value: Value) -> None:
    assert parse(to_tla(value)) == value


@given(values)
def test_what_is_written_in_an_event_is_read_as_the_same_value(value: Value) -> None:
    assert from_json(orjson.loads(orjson.dumps(to_json(value)))) == value


@given(st.lists(values, max_size=6))
def test_values_of_any_kind_can_be_put_in_order(several: list[Value]) -> None:
    several.sort(key=order)
    again = [*several[len(several) // 2 :], *several[: len(several) // 2]]
    again.sort(key=order)
    assert again == several


def test_equal_tla_values_are_equal_however_they_are_written() -> None:
    assert parse("1..3") == parse("{3, 1, 2}") == frozenset({1, 2, 3})
    assert parse("(1 :> 7 @@ 2 :> 8)") == parse("<<7, 8>>") == (7, 8)
    assert parse('("a" :> 1 @@ "b" :> 2)') == parse("[b |-> 2, a |-> 1]") == Rec.of(a=1, b=2)


def test_a_record_is_not_the_sequence_of_its_fields() -> None:
    assert Rec.of(a=1) != ("a", 1)
    assert Rec.of(a=1) != (("a", 1),)


def test_a_record_is_a_mapping_that_can_be_hashed_and_pickled() -> None:
    record = Rec.of(offset=3, epoch=1)
    assert dict(record.items()) == {"epoch": 1, "offset": 3}
    assert list(record) == ["epoch", "offset"]
    assert record["offset"] == 3
    assert "leader" not in record
    assert len(record) == 2
    assert record.replace(epoch=2) == Rec.of(epoch=2, offset=3)
    assert {record: "seen"}[pickle.loads(pickle.dumps(record))] == "seen"
    with pytest.raises(KeyError, match="leader"):
        record["leader"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<<1, 2", "ends too early"),
        ("{1 2}", "expected ','"),
        ("[a |- 1]", "not a TLA"),
        ("1 2", "more than one"),
        ("@", "not a TLA"),
        ("]", "unexpected"),
        ("", "ends too early"),
    ],
)
def test_text_that_is_no_value_is_refused_and_shown(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


@pytest.mark.parametrize("data", [1.5, None, {"set": 1}, {"set": 1, "fun": None}, {"model": 3}])
def test_json_that_is_no_value_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"value|marks"):
        from_json(data)
