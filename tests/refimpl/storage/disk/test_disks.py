"""Files and memory do the same; what is kept open is bounded; a short write is finished."""

import errno
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refimpl.storage.disk import files
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.disk.interface import Disk, MemoryDisk, replace_file

names = st.sampled_from(("a", "b", "f/a", "f/b"))
blobs = st.binary(max_size=30)
steps = st.one_of(
    st.tuples(st.just("append"), names, st.lists(blobs, max_size=3)),
    st.tuples(st.just("overwrite"), names, blobs),
    st.tuples(st.just("read"), names, st.integers(0, 40), st.integers(0, 40)),
    st.tuples(st.just("size"), names),
    st.tuples(st.just("flush"), names),
    st.tuples(st.just("truncate"), names, st.integers(0, 20)),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("list_files"), st.sampled_from(("", "f", "missing"))),
    st.tuples(st.just("folders")),
    st.tuples(st.just("make_folder"), st.just("f")),
    st.tuples(st.just("flush_folder"), st.sampled_from(("", "f", "missing"))),
    st.tuples(
        *(st.just("flush_together"), st.lists(names, max_size=3)),
        st.lists(st.sampled_from(("", "f", "missing")), max_size=2),
    ),
    st.tuples(st.just("replace"), names, blobs),
)


def outcome(disk: Disk, step: tuple[object, ...]) -> object:
    """The result of a step; for a failure only that it failed."""
    operation, *arguments = step
    try:
        match operation:
            case "append":
                path, parts = arguments
                return disk.append(path, *parts)  # type: ignore[arg-type, misc]
            case "replace":
                return replace_file(disk, *arguments)  # type: ignore[arg-type]
            case _:
                return getattr(disk, str(operation))(*arguments)
    except OSError as failure:
        return isinstance(failure, FileNotFoundError) or failure.errno


@settings(max_examples=150)
@given(st.lists(steps, max_size=30))
@example([("append", "a", []), ("truncate", "a", 1), ("size", "a")])
def test_files_memory_and_the_crashing_disk_do_the_same(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[object, ...]]
) -> None:
    disk = FileDisk(tmp_path_factory.mktemp("disk"), open_files=2)
    memory, crashing = MemoryDisk(), CrashDisk()
    for step in story:
        expected = outcome(disk, step)
        assert outcome(memory, step) == expected, step
        assert outcome(crashing, step) == expected, step
    disk.close()


def open_files() -> int:
    """The number of open descriptors. /dev/fd names them, but not without /proc."""

    def is_open(number: int) -> bool:
        with suppress(OSError):
            os.fstat(number)
            return True
        return False

    return sum(map(is_open, range(1024)))


def test_few_files_are_open_however_many_are_written(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path, open_files=8)
    before = open_files()
    for _ in range(2):
        for number in range(50):
            disk.append(f"{number}", b"ab")
    assert before < open_files() <= before + 8
    assert all(disk.read(f"{number}", 0, 9) == b"abab" for number in range(50))
    disk.close()


def test_more_parts_than_one_write_takes(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    disk.append("a", *(b"%d " % number for number in range(3_000)))
    assert disk.read("a", 0, 1 << 20) == b"".join(b"%d " % number for number in range(3_000))
    disk.close()


def test_many_files_and_folders_are_flushed_by_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def yes(path: str) -> bool:
        return True

    def each(path: str) -> None:
        calls.append("each")

    monkeypatch.setattr(files, "is_flushed_as_a_whole", yes)
    monkeypatch.setattr(files, "flush_file", each)
    flush_all = files.flush_file_system

    def counted(path: str) -> None:
        calls.append("all")
        flush_all(path)

    monkeypatch.setattr(files, "flush_file_system", counted)
    disk = FileDisk(tmp_path)
    for number in range(files.MANY):
        disk.append(f"{number}", b"a")
    disk.flush_together([f"{number}" for number in range(files.MANY)], [""])
    assert calls == ["all"]
    disk.flush_together(["1", "2"], [""])
    assert calls == ["all", "each", "each", "each"]
    disk.close()


def test_where_one_call_does_not_tell_of_failures_each_file_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [""]

    def kind_of(path: str) -> str:
        return found[0]

    monkeypatch.setattr(files, "kind_of_file_system", kind_of)
    kinds = {"ext4": True, "xfs": True, "overlay": False, "": False}
    for found[0], as_a_whole in kinds.items():
        files.is_flushed_as_a_whole.cache_clear()
        assert files.is_flushed_as_a_whole(str(tmp_path)) is (
            as_a_whole and sys.platform == "linux"
        )
    files.is_flushed_as_a_whole.cache_clear()
    monkeypatch.undo()
    told = Path("/proc/self/mountinfo").exists()
    assert (files.kind_of_file_system(str(tmp_path)) != "") is told


def test_a_failure_of_the_one_call_is_a_failure_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        files.flush_file_system(str(tmp_path / "missing"))


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_three(handle: int, parts: list[bytes]) -> int:
        return os.write(handle, b"".join(parts)[:3])

    disk = FileDisk(tmp_path)
    monkeypatch.setattr("refimpl.storage.disk.files.os.writev", write_three)
    disk.append("a", b"hello", b" world")
    assert disk.read("a", 0, 100) == b"hello world"
    disk.close()


def test_a_limit_of_the_operating_system_is_a_failure(tmp_path: Path) -> None:
    """A file-size limit stands in for a full disk: the write stops in the middle."""
    import signal

    disk = FileDisk(tmp_path)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            disk.append("a", bytes(600), bytes(600))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert disk.size("a") == 1_000
    disk.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the version is that of Linux")
@pytest.mark.parametrize(
    ("release", "as_a_whole"),
    [("5.7.19-1", False), ("5.8.0", True), ("5.10.0", True), ("4.19", False)],
)
def test_before_linux_5_8_each_file_is_flushed(
    release: str, as_a_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its syncfs does not tell of failures."""
    monkeypatch.setattr(files, "kind_of_file_system", Mock(return_value="ext4"))
    monkeypatch.setattr(files.os, "uname", Mock(return_value=Mock(release=release)))
    files.is_flushed_as_a_whole.cache_clear()
    assert files.is_flushed_as_a_whole(str(tmp_path)) is as_a_whole
    files.is_flushed_as_a_whole.cache_clear()


def test_a_folder_that_is_made_anew_has_nothing_in_common_with_the_one_that_was_renamed(
    tmp_path: Path,
) -> None:
    """As where a topic is deleted and created again: its files may still be open."""
    disk = FileDisk(tmp_path)
    disk.make_folder("orders-0")
    disk.append("orders-0/log", b"before")
    disk.rename("orders-0", "orders-0-delete")
    disk.make_folder("orders-0")
    disk.append("orders-0/log", b"after")
    assert disk.read("orders-0/log", 0, 10) == b"after"
    assert disk.read("orders-0-delete/log", 0, 10) == b"before"
    disk.close()


@pytest.mark.parametrize(("position", "length"), [(-1, 2), (0, -1), (-3, -1)])
def test_what_the_system_refuses_to_read_the_disk_in_memory_refuses_too(
    position: int, length: int, tmp_path: Path
) -> None:
    for disk in (MemoryDisk(), FileDisk(tmp_path)):
        disk.append("a", b"abc")
        with pytest.raises(OSError, match="Invalid argument") as refused:
            disk.read("a", position, length)
        assert refused.value.errno == errno.EINVAL
