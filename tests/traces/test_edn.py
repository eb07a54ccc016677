"""EDN: plain lines fast, all others by the library, and both to the same values."""

from pathlib import Path
from typing import Any, cast

import edn_format  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.judging import judged
from traces.ingest import edn
from traces.ingest.history import Reading, read_history
from traces.problems import BadInput

library: Any = edn_format
WORDS = st.from_regex(r"[a-z][a-z0-9-]{0,8}\??", fullmatch=True)
PLAIN = st.none() | st.booleans() | st.integers(-(10**12), 10**12)
TEXTS = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Z"]), max_size=8).filter(
    lambda text: not text.startswith(":")
)
KEYWORDS = WORDS.map(lambda word: f":{word}")
VALUES: st.SearchStrategy[Any] = st.recursive(
    PLAIN | TEXTS | KEYWORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYWORDS | st.integers(0, 99), inner, max_size=4)
    ),
    max_leaves=12,
)


def written(value: Any) -> str:
    """A value as EDN; a string that begins with a colon is a keyword."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        if value.startswith(":"):
            return value
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + " ".join(written(x) for x in cast("list[Any]", value)) + "]"
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return "{" + ", ".join(f"{written(k)} {written(v)}" for k, v in items) + "}"
    return str(value)


@given(st.dictionaries(KEYWORDS, VALUES, max_size=5))
def test_a_line_is_read_back_as_it_was_written(value: dict[str, Any]) -> None:
    assert edn.read_line(written(value)) == value


@given(st.dictionaries(KEYWORDS, VALUES, max_size=5))
def test_the_fast_way_and_the_library_agree(value: dict[str, Any]) -> None:
    line = written(value)
    assert edn.read_line(line) == edn.unwrapped(library.loads(line))


@pytest.mark.parametrize(
    "line",
    [
        "#jepsen.history.Op{:index 0, :time 1, :type :ok, :process 0, :f :poll, :value nil}",
        "{:index 0, :time 1, :type :ok, :process 0, :f :poll, :value nil}",
        "{:index 0 :time 1 :type :ok :process 0 :f :poll :value nil ; a remark\n}",
    ],
)
def test_the_forms_that_jepsen_writes_are_one(line: str) -> None:
    read = edn.read_line(line)
    assert read[":f"] == ":poll"
    assert read[":value"] is None


def test_what_is_not_plain_goes_to_the_library() -> None:
    read = edn.read_line('{:error [:x "a \\"b\\""], :keys #{1 2}, :at 1.5}')
    assert read == {":error": [":x", 'a "b"'], ":keys": [1, 2], ":at": 1.5}


BAD: dict[str, tuple[list[str], str]] = {
    "no EDN": (["{:index 0, :process 1"], "bad.edn:1: expected EDN: "),
    "no map": (["42"], "bad.edn:1: expected a map, found 42"),
    "no process": (["{:index 0, :type :invoke, :f :poll}"], "bad.edn:1: :process: is missing"),
    "a type of its own": (
        ["{:index 0, :process 0, :type :done, :f :poll}"],
        "bad.edn:1: :type: expected :invoke, :ok, :fail or :info, found ':done'",
    ),
    "a completion of nothing": (
        ["{:index 0, :process 3, :type :ok, :f :poll, :value [[:poll {}]]}"],
        "bad.edn:1: :type: process 3 completes what it never invoked",
    ),
    "two operations of one process at once": (
        [
            "{:index 0, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 1, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
        ],
        "bad.edn:2: :type: process 3 has an operation open already",
    ),
    "an operation that Kafka's workload has not": (
        [
            "{:index 0, :process 3, :type :invoke, :f :cas, :value [1 2]}",
            "{:index 1, :process 3, :type :ok, :f :cas, :value [1 2]}",
        ],
        "bad.edn:2: :f: expected an operation of the Kafka workload, found :cas",
    ),
    "a step of its own": (
        [
            "{:index 0, :process 3, :type :invoke, :f :txn, :value [[:append 1 2]]}",
            "{:index 1, :process 3, :type :ok, :f :txn, :value [[:append 1 2]]}",
        ],
        "bad.edn:2: :value: expected :send or :poll, found ':append'",
    ),
    "an offset in words": (
        [
            "{:index 0, :process 3, :type :invoke, :f :send, :value [[:send 1 2]]}",
            '{:index 1, :process 3, :type :ok, :f :send, :value [[:send 1 ["five" 2]]]}',
        ],
        "bad.edn:2: :value: expected a whole number of at least 0 as offset, found 'five'",
    ),
    "a time in words": (
        [
            '{:index 0, :time "noon", :process 3, :type :invoke, :f :send, :value [[:send 1 2]]}',
            "{:index 1, :process 3, :type :ok, :f :send, :value [[:send 1 [0 2]]]}",
        ],
        "bad.edn:1: :time: expected a whole number of at least 0, found 'noon'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_line_is_named_by_file_line_and_key(case: str, tmp_path: Path) -> None:
    lines, message = BAD[case]
    path = tmp_path / "bad.edn"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInput) as caught:
        read_history(path, Reading())
    assert len(caught.value.problems) == 1
    assert str(caught.value.problems[0]).startswith(message)


def test_one_map_per_line_needs_no_vector_around_it(tmp_path: Path) -> None:
    """So Jepsen stores its histories, the nemesis among the clients."""
    path = tmp_path / "history.edn"
    path.write_text(
        "#jepsen.history.Op{:index 0, :time 0, :process 0, :type :invoke, :f :send, "
        ":value [[:send 1 7]]}\n"
        "#jepsen.history.Op{:index 1, :time 1, :process :nemesis, :type :info, :f :kill, "
        ':value {"n1" :killed}}\n'
        "#jepsen.history.Op{:index 2, :time 2, :process 0, :type :ok, :f :send, "
        ":value [[:send 1 [0 7]]]}\n"
        "#jepsen.history.Op{:index 3, :time 3, :process 1, :type :invoke, :f :poll, "
        ":value [[:poll]], :poll-ms 1000}\n"
        "#jepsen.history.Op{:index 4, :time 4, :process 1, :type :ok, :f :poll, "
        ":value [[:poll {1 [[0 7] [1 7]]}]]}\n"
    )
    assert judged(path).anomalies == ["duplicate"]


def test_an_operation_without_a_completion_is_undecided(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]}\n"
        "{:index 1, :time 1, :process 1, :type :invoke, :f :poll, :value [[:poll]]}\n"
        "{:index 2, :time 2, :process 1, :type :ok, :f :poll, :value [[:poll {}]]}\n"
    )
    assert judged(path).anomalies == []
