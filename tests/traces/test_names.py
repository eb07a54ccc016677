"""Numbers of names: the same for every reader, and never the same for two names."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces.fixture import Line, meta, write
from traces.ingest.run import read_trace
from traces.model.context import UNSET, same, setting
from traces.model.names import Names
from traces.model.problems import BadInput


def test_readers_that_know_nothing_of_each_other_agree() -> None:
    one, two = Names.seeded({"topics": ["a", "b"]}), Names.seeded({"topics": ["a", "b"]})
    words = ["b", "new", "a", "other"]
    numbers = {word: one.fresh().topics.number(word) for word in words}
    assert numbers == {word: two.fresh().topics.number(word) for word in reversed(words)}
    assert (numbers["a"], numbers["b"]) == (0, 1)
    assert min(numbers["new"], numbers["other"]) >= 2**30
    assert max(numbers.values()) < 2**31


def test_a_reader_tells_only_of_names_that_it_met() -> None:
    mine = Names.seeded({"topics": ["a", "b"]}).fresh()
    mine.topics.number("b")
    assert mine.met()["topics"] == {"b": 1}
    assert mine.topics.name(1) == "b"


def always_seven(text: str) -> int:
    return 7


def sends(*topics: str, ids: tuple[Any, ...] = (1, 2)) -> list[Line]:
    base = {"process": "p0#0", "op": "send", "outcome": "ok"}
    return [
        base | {"seq": n, "records": [{"topic": topic, "partition": 0, "offset": n, "id": id}]}
        for n, (topic, id) in enumerate(zip(topics, ids, strict=True))
    ]


def test_two_names_with_one_number_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traces.model.names.hashed", always_seven)
    folder = write(tmp_path, {"p0#0": sends("u", "v")}, meta())
    with pytest.raises(BadInput) as caught:
        read_trace(folder)
    assert str(caught.value) == (
        "meta.json: topics: 'u' and 'v' have the same number here: name one of them in meta.json"
    )
    named = meta()
    named["topics"]["v"] = {}
    assert read_trace(write(tmp_path, {"p0#0": sends("u", "v")}, named)).calls == 2


def test_two_ids_with_one_number_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traces.model.names.hashed", always_seven)
    with pytest.raises(BadInput, match="ids: 'x' and 'y' have the same number"):
        read_trace(write(tmp_path, {"p0#0": sends("t", "t", ids=("x", "y"))}, meta()))


def test_a_setting_is_looked_up_by_number() -> None:
    some = setting([3, 9], [True, None])
    assert some[np.array([9, 3, 4, -1, 3])].tolist() == [UNSET, 1, UNSET, UNSET, 1]
    assert int(some[np.int64(3)]) == 1
    assert same(5)[np.array([0, -1])].tolist() == [5, 5]
