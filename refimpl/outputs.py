"""The outputs of a verb: files and folders, refused before the work, and JSON for programs."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TypeVar

import click
import orjson

Verb = TypeVar("Verb", bound=Callable[..., Any])


class CannotBeWrittenError(click.ClickException):
    """A file that the user asked for and that cannot be written: no bug of ours."""

    exit_code = 2


class FileToWrite(click.Path):
    """A file to write: its folder must permit that, and be there or, with `parents`, is made."""

    def __init__(self, *, parents: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)
        self._parents = parents

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.exists():
            try:
                if self._parents:
                    path.parent.mkdir(parents=True, exist_ok=True)
                with TemporaryFile(dir=path.parent):
                    return path
            except OSError as refused:
                self.fail(f"{path.parent}: {refused.strerror}", param, ctx)
        return path


class FolderToWrite(click.Path):
    """A folder to write to, made if it is not there."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The path."""
        path = Path(str(super().convert(value, param, ctx)))
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as refused:
            self.fail(f"{refused.filename or path}: {refused.strerror}", param, ctx)
        return path


def json_option(what: str) -> Callable[[Verb], Verb]:
    """The option `--json FILE`, whose value is `json_file`."""
    return click.option(
        "--json", "json_file", type=FileToWrite(), metavar="FILE", help=f"{what}, as JSON."
    )


def write_json(path: Path | None, value: Any) -> None:
    """Write what a verb found to the file that `--json` names, if it names one."""
    if path is None:
        return
    content = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    try:
        path.write_bytes(content)
    except OSError as refused:  # its folder was there before the work, and may be gone since
        raise CannotBeWrittenError(f"{path}: {refused.strerror}") from refused
