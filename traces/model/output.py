"""Files and lines for others: whole or not at all, and of characters that every reader accepts."""

import errno
import os
import re
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import click
import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

# What XML 1.0 has no way to write, not even escaped. Ids and names of a trace may hold it.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# What a folder answers to whoever writes there.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_PADDING = re.compile(" +$", re.MULTILINE)
_WIDE = 100_000


class Refusal(click.ClickException):
    """A mistake of the user, or a source or a cluster that is not what it is said to be."""

    exit_code = 2


class _Unpadded:
    """A stream for tables that are not padded to the width of their widest line."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._stream.write(_PADDING.sub("", text))
        return len(text)


def standard_output() -> Console:
    """The console of a verb: lines are wrapped for a terminal, and for nobody else."""
    console = Console()
    return (
        console
        if console.is_terminal
        else Console(file=cast("IO[str]", _Unpadded(sys.stdout)), width=_WIDE)
    )


def number_of(number: int, noun: str) -> str:
    """A number and its noun: 1 topic, 2 topics."""
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def writable(text: str) -> str:
    """The text with each character that XML cannot hold spelt out."""
    return _UNWRITABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def write_whole(path: Path, content: bytes) -> None:
    """Write the file beside its place and move it there, so that nobody ever reads half of it."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a terminal is written to and never replaced
        return
    target = path.resolve()  # a link keeps pointing to the file
    try:
        handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:  # the system names a file that nobody has heard of
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(beside).chmod(0o666 & ~_umask())
        Path(beside).replace(target)
    except OSError as error:  # of a full disk the system names no file
        Path(beside).unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


class _FileToWrite(click.Path):
    """A file that may be written: its folder is there, and permits it."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False, writable=True)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"there is no folder {path.parent}", param, ctx)
        if not path.exists():
            if not os.access(path.parent, os.W_OK):
                self.fail(f"{path.parent} may not be written to", param, ctx)
            try:  # a folder may permit it and take no files, like /proc, or a link lead nowhere
                with tempfile.TemporaryFile(dir=path.resolve().parent):
                    pass
            except OSError as refused:
                self.fail(f"{path}: {refused.strerror}", param, ctx)
        return path


def result(name: str, help: str) -> Any:
    """An option for a file that the command writes: `--json FILE` is `json_file`."""
    return click.option(f"--{name}", f"{name}_file", type=_FileToWrite(), metavar="FILE", help=help)


def write_result(path: Path, content: bytes) -> None:
    """Write a file that the user asked for; one that cannot be written is no bug of ours.

    Its folder was there before the work, and may be gone since.
    """
    try:
        write_whole(path, content)
    except OSError as refused:
        raise Refusal(f"{path}: {refused.strerror}") from refused


def write_json(path: Path, content: Any) -> None:
    """The result of a command, for programs."""
    write_result(path, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


@contextmanager
def staying(folder: Path, name: Path | None = None) -> Generator[None]:
    """Refuse, by a name that the user knows, a folder that is removed or full while written to.

    A file that is missing in a folder which is still there is a bug of ours, and stays one.
    """
    try:
        yield
    except FileNotFoundError as missing:
        if folder.is_dir():
            raise
        raise Refusal(f"{name or folder}: {missing.strerror}") from missing
    except OSError as full:  # of a full disk neither the system nor Arrow names a file
        if full.filename is not None or full.errno not in UNWRITABLE:
            raise
        raise Refusal(f"{name or folder}: {os.strerror(full.errno)}") from full


def _umask() -> int:
    """The mask of new files, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@contextmanager
def progress() -> Generator[Progress]:
    """A line on stderr that says what is being done, gone when it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        yield bar
