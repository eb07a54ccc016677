"""`make fuzz` for readers of traces: a few hundred inputs, and a fault that it has to find."""

from pathlib import Path

import pytest

from chaos.real.fuzz import guided
from tests.traces.fuzz import __main__ as fuzz
from tests.traces.fuzz import readers
from traces.ingest import lines
from traces.model.arrow import ArrowException


def test_good_recordings_are_read_by_their_readers() -> None:
    for name, reader in readers.READERS.items():
        for content in reader.seeds:
            assert readers.feed(name, content), name


def campaign(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> int:
    monkeypatch.setattr(guided, "FOLDER", folder)
    monkeypatch.setattr("sys.argv", ["fuzz", "--plain", *arguments])
    return fuzz.main()


def test_whatever_is_changed_in_them_is_read_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert campaign(monkeypatch, tmp_path, "--inputs", "300", "--seed", "5") == 0
    assert not list(tmp_path.iterdir())


def test_what_a_reader_lets_through_is_kept_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As before, when names of columns that are no UTF-8 were nobody's refusal."""
    damaged = readers.parquet().replace(b"process", b"\x84rocess")
    number = list(readers.READERS).index("parquet")
    (file := tmp_path / "damaged").write_bytes(bytes([number]) + damaged)
    assert campaign(monkeypatch, tmp_path, "--replay", str(file)) == 0
    monkeypatch.setattr(lines, "UNREADABLE", (ArrowException, OSError))
    assert campaign(monkeypatch, tmp_path, "--replay", str(file)) == 1
    (kept,) = tmp_path.glob("failure-parquet-*.bytes")
    assert kept.read_bytes() == file.read_bytes()
    assert "UnicodeDecodeError" in capsys.readouterr().err
