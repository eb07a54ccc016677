"""Holds `highwater dump-log` against DumpLogSegments, byte by byte."""

from pathlib import Path

from click.testing import CliRunner

from chaos.real.kafka.judge import Judge, ToolOutput
from refimpl.dump.command import dump_log


def ours(*files: Path, options: tuple[str, ...] = ()) -> ToolOutput:
    """The output of our tool; a traceback is left to the test."""
    arguments = [*options, *map(str, files)]
    result = CliRunner().invoke(dump_log, arguments, catch_exceptions=False)
    return ToolOutput(result.exit_code, result.stdout_bytes.decode(), result.stderr_bytes.decode())


def assert_same(judge: Judge, *files: Path, options: tuple[str, ...] = ()) -> ToolOutput:
    """Both tools say the same; a difference is shown by its first line."""
    theirs, said = judge.dump(*files, options=options), ours(*files, options=options)
    lines = zip(theirs.out.split("\n"), said.out.split("\n"), strict=False)
    for kafka, highwater in lines:
        assert highwater == kafka, f"\nours:  {highwater[:900]}\nKafka: {kafka[:900]}"
    assert said.out == theirs.out
    assert said.complaints == theirs.complaints, (said.complaints, theirs.complaints)
    return theirs
