"""A verb that asks a cluster, in this process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result


def ask(verb: click.Command, bootstrap: str, *arguments: str, text: str | None = None) -> Result:
    """Whatever the verb answers."""
    options = ["--bootstrap-server", bootstrap, *arguments]
    return CliRunner().invoke(verb, options, input=text, catch_exceptions=False)


def told(verb: click.Command, bootstrap: str, *arguments: str, text: str | None = None) -> str:
    """The output of a verb that must succeed."""
    answer = ask(verb, bootstrap, *arguments, text=text)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def refused(verb: click.Command, bootstrap: str, *arguments: str) -> str:
    """Its one line of refusal, after the usage where the options are wrong."""
    answer = ask(verb, bootstrap, *arguments)
    assert answer.exit_code == 2, answer.output
    return answer.stderr.splitlines()[-1]


def alone(verb: click.Command, bootstrap: str, *arguments: str) -> tuple[int, str]:
    """The exit code and output of a verb in a process: kafka-python may leave sockets open."""
    assert verb.callback is not None
    program = f"import {verb.callback.__module__} as m; m.{verb.callback.__name__}()"
    options = ["--bootstrap-server", bootstrap, *arguments]
    command = [sys.executable, "-c", program, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def rows(verb: click.Command, bootstrap: str, file: Path, *arguments: str) -> Any:
    """The JSON that a verb writes."""
    told(verb, bootstrap, *arguments, "--json", str(file))
    return json.loads(file.read_bytes())
