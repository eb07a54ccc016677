"""Draws the reports on Kafka: the model checker's counterexample of each as a sequence diagram.

`make drawings` writes those that are missing, or that `docs/findings/drawings.toml` names anew;
with `--all` every one. TLC searches for each, so it takes two minutes.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import click

FINDINGS = Path(__file__).parent / "findings"


def rows() -> dict[str, str]:
    """By report, the row of a module's `verdicts.toml` whose counterexample draws it."""
    return tomllib.loads((FINDINGS / "drawings.toml").read_text(encoding="utf-8"))


def is_of(drawing: Path, row: str) -> bool:
    """True if a drawing is there, and of this row."""
    return drawing.exists() and f"{row} violates" in drawing.read_text(encoding="utf-8")


@click.command(help=__doc__)
@click.option("--all", "every", is_flag=True, help="Draw each report anew.")
def main(every: bool) -> None:
    """Draw the reports."""
    for report, row in rows().items():
        drawing = FINDINGS / f"{report}.svg"
        if every or not is_of(drawing, row):
            click.echo(f"{drawing.name}: {row}")
            command = [sys.executable, "-m", "refimpl", "spec", row, "--svg", drawing]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                raise click.ClickException(f"{row} is not what is pinned:\n{done.stdout}")


if __name__ == "__main__":
    main()
