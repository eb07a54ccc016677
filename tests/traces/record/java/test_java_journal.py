"""The Java recorder's journal is that of the Python recorder, byte for byte."""

from collections.abc import Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.record import journals
from tests.traces.record.java.building import COMPILED, FORMER, java
from tests.traces.record.journals import LIMITED, PAGE, WRITTEN, Writer, begin
from traces.record import StillRunningError, settle
from traces.record.process import now

pytestmark = [
    pytest.mark.kafka,  # its clients come through Maven
    pytest.mark.xdist_group("java-recorder"),
]


def jvm(journal: Path, version: str = COMPILED, **more: Any) -> AbstractContextManager[Writer]:
    command = java("highwater.recorder.Journals", journal, str(PAGE), version=version)
    return Writer.of(command, **more)


@pytest.fixture(scope="module")
def one_jvm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Writer]:
    with jvm(tmp_path_factory.mktemp("first") / "x.journal") as java:
        yield java


@given(st.lists(WRITTEN, max_size=40))
def test_java_writes_what_python_writes(
    tmp_path_factory: pytest.TempPathFactory, one_jvm: Writer, written: list[tuple[str, Any]]
) -> None:
    journals.assert_that_both_write_the_same(one_jvm, tmp_path_factory.mktemp("j"), written)


def test_killing_the_jvm_loses_nothing(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with jvm(journal) as java:
        journals.assert_that_killing_loses_nothing(java, journal)


def test_a_jvm_that_is_killed_while_it_writes_leaves_a_whole_beginning(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with jvm(journal) as java:
        journals.assert_that_killing_amid_writes_leaves_a_whole_beginning(java, journal)


def test_a_journal_whose_jvm_lives_is_left_alone(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with jvm(journal) as java:
        begin(java, 5)
        with pytest.raises(StillRunningError):
            settle(journal)
        java.ask("interrupt")  # which would close a channel, and let the lock go
        for seq in range(5, 500):
            java.ask("send", 1, seq, seq, "-", now())
        java.answer("sync")
        journals.assert_that_its_journal_is_left_alone(java, journal, 500)


def test_a_disk_that_is_full_stops_the_recording_and_not_the_jvm(tmp_path: Path) -> None:
    journal = tmp_path / "p#0.journal"
    with jvm(journal, **LIMITED) as java:
        begin(java, 500)
        said = java.answer("sync")
        while said == "done" or not said.startswith("WARNING"):
            said = java.answer("sync")
    assert said == "WARNING: p#0.journal: recording has stopped: File too large"
    journals.assert_that_it_was_cut_off(journal)


@pytest.mark.parametrize("version", [COMPILED, FORMER])
def test_both_recorders_read_one_clock(tmp_path: Path, version: str) -> None:
    with jvm(tmp_path / "x.journal", version=version) as java:
        journals.assert_that_both_read_one_clock(java)
