"""A crash keeps the first of the changes of names, as many as it is told, and never a later one."""

import pytest

from refimpl.storage.disk.crashing import CrashDisk


def disk() -> CrashDisk:
    """Three changes of names that are not flushed, and one file before them that is."""
    made = CrashDisk(files={"old": bytearray(b"o")})
    for path in ("a", "b"):
        made.append(path, b"x")
        made.flush(path)
    made.rename("old", "new")
    return made


@pytest.mark.parametrize(
    ("count", "names"),
    [
        (None, {"old"}),
        (0, {"old"}),
        (1, {"old", "a"}),
        (2, {"old", "a", "b"}),
        (3, {"new", "a", "b"}),
    ],
)
def test_so_many_changes_of_names_are_kept(count: int | None, names: set[str]) -> None:
    found = disk().crashed(count)
    assert set(found.list_files("")) == names
    assert all(found.size(name) == 1 for name in names)


def test_names_that_were_flushed_are_there_whatever_is_kept() -> None:
    made = disk()
    made.flush_folder("")
    made.append("late", b"x")
    assert set(made.crashed().list_files("")) == {"new", "a", "b"}
    assert set(made.crashed(1).list_files("")) == {"new", "a", "b", "late"}
