"""The journal of the recorder for Go is that of the Python recorder, byte for byte."""

import os
from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.record import journals
from tests.traces.record.go.building import writer
from tests.traces.record.journals import LIMITED, PAGE, WRITTEN, Writer, begin

pytestmark = [
    pytest.mark.kafka,  # it needs Go, and modules through its proxy
    pytest.mark.xdist_group("go-recorder"),
]


def process(journal: Path, **more: Any) -> AbstractContextManager[Writer]:
    about = {"HIGHWATER_JOURNAL": str(journal), "HIGHWATER_WINDOW": str(PAGE)}
    return Writer.of([writer()], env={**os.environ, **about}, **more)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> Generator[Writer]:
    with process(tmp_path_factory.mktemp("first") / "x.journal") as go:
        yield go


@given(st.lists(WRITTEN, max_size=40))
def test_go_writes_what_python_writes(
    tmp_path_factory: pytest.TempPathFactory, one_process: Writer, written: list[tuple[str, Any]]
) -> None:
    journals.assert_that_both_write_the_same(one_process, tmp_path_factory.mktemp("j"), written)


def test_killing_the_process_loses_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with process(journal) as go:
        journals.assert_that_killing_loses_nothing(go, journal)


def test_a_process_that_is_killed_while_it_writes_leaves_a_whole_beginning(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with process(journal) as go:
        journals.assert_that_killing_amid_writes_leaves_a_whole_beginning(go, journal)


def test_a_journal_whose_process_lives_is_left_alone(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with process(journal) as go:
        begin(go, 5)
        journals.assert_that_its_journal_is_left_alone(go, journal, 5)


def test_a_disk_that_is_full_stops_the_recording_and_not_the_process(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with process(journal, **LIMITED) as go:
        said = begin(go, 500)
        assert go.answer("sync") == "done"  # it goes on
    assert said.endswith("WARN p#0.journal: recording has stopped: file too large")
    journals.assert_that_it_was_cut_off(journal)


def test_both_recorders_read_one_clock(tmp_path: Path) -> None:
    with process(tmp_path / "x.journal") as go:
        journals.assert_that_both_read_one_clock(go)
