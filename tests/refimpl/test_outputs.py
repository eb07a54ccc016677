"""Output files of verbs: a bad path is refused before the work, and every verb writes JSON."""

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from refimpl import __main__ as command_line
from refimpl.outputs import FileToWrite, FolderToWrite

#: `broker` serves until it is stopped.
WITHOUT = {"broker", "proxy"}


def written(kind: click.Path, value: Path) -> str:
    """The output of a verb with such an option that is given this path."""

    def work(to: Path) -> None:
        click.echo("worked")

    verb = click.Command("verb", params=[click.Option(["--to"], type=kind)], callback=work)
    result = CliRunner().invoke(verb, ["--to", str(value)])
    assert result.exit_code == (0 if "worked" in result.output else 2)
    return result.output.splitlines()[-1]


def test_a_file_whose_folder_is_missing_is_refused_before_the_work(tmp_path: Path) -> None:
    said = written(FileToWrite(), tmp_path / "no" / "file.json")
    assert said == f"Error: Invalid value for '--to': {tmp_path / 'no'}: No such file or directory"
    assert not (tmp_path / "no").exists()


def test_a_file_in_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = written(FileToWrite(parents=True), tmp_path / "file" / "x")
    assert "Error: Invalid value for '--to'" in said
    assert "worked" not in written(FolderToWrite(), tmp_path / "file" / "folder")


def test_a_file_that_can_be_written_is_not_touched_before_the_work(tmp_path: Path) -> None:
    assert written(FileToWrite(), tmp_path / "file.json") == "worked"
    assert list(tmp_path.iterdir()) == []
    assert written(FileToWrite(), Path("/dev/null")) == "worked"


def test_a_folder_is_made(tmp_path: Path) -> None:
    assert written(FolderToWrite(), tmp_path / "a" / "b") == "worked"
    assert (tmp_path / "a" / "b").is_dir()


def verbs() -> list[EntryPoint]:
    return sorted(entry_points(group=command_line.COMMANDS), key=lambda offer: offer.name)


@pytest.mark.parametrize("offer", verbs(), ids=lambda offer: offer.name)
def test_every_verb_tells_programs_what_it_found(offer: EntryPoint) -> None:
    verb = offer.load()
    of = list(verb.commands.values()) if isinstance(verb, click.Group) else [verb]
    for one in of:
        names = [name for option in one.params for name in option.opts]
        assert ("--json" in names) == (offer.name not in WITHOUT), one.name
