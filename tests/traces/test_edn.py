"""EDN: a stream of forms from which nothing is dropped; the library reads one form the same."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import edn_format  # pyright: ignore[reportMissingTypeStubs]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.judging import judged
from traces.ingest import edn, history
from traces.ingest.history import Reading, read_history
from traces.model.problems import BadInput

library: Any = edn_format


def unwrapped(value: Any) -> Any:
    """The library's value as plain Python: keywords as strings, sets as lists."""
    if isinstance(value, (library.Keyword, library.Symbol)):
        return str(value)
    if isinstance(value, (dict, library.ImmutableDict)):
        items = cast("dict[Any, Any]", value).items()
        return {unwrapped(k): unwrapped(v) for k, v in items}
    if isinstance(value, (list, tuple, library.ImmutableList, frozenset)):
        return [unwrapped(v) for v in cast("list[Any]", value)]
    return value


def read(text: str, *, split: bool = True) -> list[Any]:
    return [form for _, form in edn.forms(text.encode().splitlines(keepends=True), split=split)]


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
    assert read(written(value), split=False) == [value]


@given(st.dictionaries(KEYWORDS, VALUES, max_size=5))
def test_the_library_reads_the_same(value: dict[str, Any]) -> None:
    line = written(value)
    assert read(line, split=False) == [unwrapped(library.loads(line))]


@pytest.mark.parametrize(
    "line",
    [
        "#jepsen.history.Op{:index 0, :time 1, :type :ok, :process 0, :f :poll, :value nil}",
        "{:index 0, :time 1, :type :ok, :process 0, :f :poll, :value nil}",
        "{:index 0 :time 1 :type :ok :process 0 :f :poll :value nil ; a remark\n}",
    ],
)
def test_the_forms_that_jepsen_writes_are_one(line: str) -> None:
    (form,) = read(line, split=False)
    assert form[":f"] == ":poll"
    assert form[":value"] is None


def test_what_is_not_plain_is_read_as_well() -> None:
    found = read('{:error [:x "a \\"b\\""], :keys #{1 2}, :at 1.5}', split=False)
    assert found == [{":error": [":x", 'a "b"'], ":keys": [1, 2], ":at": 1.5}]


MANY = st.lists(st.dictionaries(KEYWORDS, VALUES, max_size=3), max_size=4)
SPACES = st.sampled_from(["", " ", "\n", ", ", " ; a remark }\n", " #_ {:gone [1]} "])


@given(MANY, SPACES, st.sampled_from(["", "[]", "()"]))
def test_every_form_is_read_wherever_the_lines_end(
    values: list[dict[str, Any]], between: str, around: str
) -> None:
    """Clojure prints a history on one line; only the first map of it was read."""
    text = between.join(written(value) for value in values)
    assert read(f"{around[:1]}{text}{around[1:]}") == values


@given(VALUES.map(written).map(lambda text: f"[{{:a {text}}}]"), st.data())
def test_what_is_cut_off_is_not_taken_for_whole(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(edn.NotEdn):
        read(text[:cut])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(edn.NotEdn):
        list(edn.forms(content.splitlines(keepends=True)))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[{:a 1}\n{:b 2}", 1, "expected ], found the end of the file: what follows is missing"),
        ("{:a 1}\n{:b", 2, "expected }, found the end of the file: what follows is missing"),
        ("{:a 1}}", 1, "unexpected }"),
        ("{:a 1}\n{:b [1}", 2, "unexpected }, expected ] for line 2"),
        ("{:a 1 :a 2}", 1, "a map with the key :a twice"),
        ("{:a " + "9" * 5000 + "}", 1, "a number of 5,000 digits"),
        ('{:a "\\ud800"}', 1, "a lone surrogate: \\ud800"),
        ('{:a 1}\n{:b "x\ny}', 3, "a string is not closed"),
        ("{:a 1} @x", 1, "column 8: no token of EDN"),
        ("[1 #_]", 1, "unexpected ]"),
    ],
)
def test_what_is_no_edn_is_told_by_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(edn.NotEdn) as caught:
        read(text)
    assert (caught.value.line, str(caught.value)) == (line, message)


def test_bytes_that_are_no_utf8_are_told_by_their_line() -> None:
    with pytest.raises(edn.NotEdn) as caught:
        list(edn.forms([b"{:a 1}\n", b'{:a "\xff"}\n']))
    assert (caught.value.line, str(caught.value)) == (2, "expected UTF-8, found byte 0xff")


def test_a_form_of_any_depth_needs_no_stack_of_ours() -> None:
    deep = 100_000
    value = read("[" * deep + "]" * deep)[0]
    for _ in range(deep - 3):
        (value,) = value
    assert value == [[]]


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
    "a process in words": (
        ['{:index 0, :process "c0", :type :invoke, :f :poll, :value [[:poll]]}'],
        "bad.edn:1: :process: expected a whole number of at least 0, or :nemesis, found 'c0'",
    ),
    "an index that goes back": (
        [
            "{:index 5, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 4, :process 3, :type :ok, :f :poll, :value [[:poll {}]]}",
        ],
        "bad.edn:2: :index: expected more than 5, found 4",
    ),
    "an act after the end": (
        [
            "{:index 0, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 1, :process 3, :type :info, :f :poll, :value [[:poll]]}",
            "{:index 2, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
        ],
        "bad.edn:3: :process: 3 acts after an operation that ended :info",
    ),
    "a completion before its invocation": (
        [
            "{:index 0, :time 7, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 1, :time 6, :process 3, :type :ok, :f :poll, :value [[:poll {}]]}",
        ],
        "bad.edn:2: :time: expected at least 7, as on a line above, found 6",
    ),
    "a process that steps back": (
        [
            "{:index 0, :time 7, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 1, :time 9, :process 3, :type :ok, :f :poll, :value [[:poll {}]]}",
            "{:index 2, :time 8, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
        ],
        "bad.edn:3: :time: expected at least 9, as on a line above, found 8",
    ),
    "a clock that goes back between two processes": (
        [
            "{:index 0, :time 7, :process 3, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 1, :time 9, :process 3, :type :ok, :f :poll, :value [[:poll {}]]}",
            "{:index 2, :time 8, :process 4, :type :invoke, :f :poll, :value [[:poll]]}",
            "{:index 3, :time 9, :process 4, :type :ok, :f :poll, :value [[:poll {}]]}",
        ],
        "bad.edn:3: :time: expected at least 9, as on a line above, found 8",
    ),
    "an epoch that is none": (
        [f"{{:index 0, :process 3, :producer-epoch {2**40}, :type :invoke, :f :poll}}"],
        "bad.edn:1: :producer-epoch: expected a whole number, found 1099511627776",
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


ONE_LINE = (
    "[{:index 0, :time 0, :process 0, :type :invoke, :f :send, :value [[:send 1 7]]} "
    "{:index 1, :time 1, :process 0, :type :ok, :f :send, :value [[:send 1 [0 7]]]} "
    "{:index 2, :time 2, :process 1, :type :invoke, :f :poll, :value [[:poll]]} "
    "{:index 3, :time 3, :process 1, :type :ok, :f :poll, :value [[:poll {1 [[0 7] [1 7]]}]]}]"
)


def test_a_history_on_one_line_is_judged_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(ONE_LINE)
    assert judged(path).anomalies == ["duplicate"]


def test_an_unclosed_history_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(ONE_LINE[:-1])
    with pytest.raises(BadInput, match=r"^history.edn:1: expected EDN: expected ], found the end"):
        read_history(path, Reading())


def test_a_history_without_indices_counts_its_operations(tmp_path: Path) -> None:
    """On one line the number of the line told nothing apart."""
    path = tmp_path / "history.edn"
    path.write_text(re.sub(r":index \d, ", "", ONE_LINE))
    assert judged(path).anomalies == ["duplicate"]
    assert read_history(path, Reading()).columns["seq"].tolist() == [1, 3, 3]


def test_a_long_poll_keeps_its_order_over_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(ONE_LINE.replace("[0 7] [1 7]", " ".join(f"[{n} {n}]" for n in range(20))))
    whole = read_history(path, Reading()).columns
    monkeypatch.setattr(history, "_CHUNK", 3)
    pieces = read_history(path, Reading()).columns
    assert {name: column.tolist() for name, column in pieces.items()} == {
        name: column.tolist() for name, column in whole.items()
    }
    assert whole["idx"].tolist() == [0, *range(20)]
