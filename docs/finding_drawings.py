"""Draws the reports on Kafka: the model checker's counterexample of each as a sequence diagram.

`make drawings` writes those that are missing, or whose row has changed; with `--all` every one. TLC
searches for each, so it takes two minutes.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

import click

FINDINGS = Path(__file__).parent / "findings"
SPECS = Path(__file__).parents[1] / "spec" / "tla"


def rows() -> dict[str, str]:
    """By report, the row of a module's `verdicts.toml` whose counterexample draws it."""
    return tomllib.loads((FINDINGS / "drawings.toml").read_text(encoding="utf-8"))


def title(row: str) -> str:
    """The title of a row's drawing: its promise and length, as `verdicts.toml` pins them."""
    module, cfg = row.split("/")
    table = (SPECS / module / "verdicts.toml").read_text(encoding="utf-8")
    (pinned,) = (one for one in tomllib.loads(table)["verdict"] if one["cfg"] == cfg)
    return f"{row} violates {pinned['property']} in {pinned['length']} states"


def is_drawn(report: str, row: str) -> bool:
    """True if a report's drawing is there, and is of the row as it is."""
    drawing = FINDINGS / f"{report}.svg"
    return drawing.exists() and title(row) in drawing.read_text(encoding="utf-8")


@click.command(help=__doc__)
@click.option("--all", "every", is_flag=True, help="Draw each report anew.")
def main(every: bool) -> None:
    """Draw the reports."""
    for report, row in rows().items():
        if every or not is_drawn(report, row):
            drawing = FINDINGS / f"{report}.svg"
            click.echo(f"{drawing.name}: {row}")
            command = [sys.executable, "-m", "refimpl", "spec", row, "--svg", drawing]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                raise click.ClickException(f"{row} is not what is pinned:\n{done.stdout}")


if __name__ == "__main__":
    main()
