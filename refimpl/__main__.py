"""`highwater`: one command, whose verbs the rooms bring.

Each room registers its verbs as entry points of the group `highwatermark.commands`. A room is
imported only when one of its verbs is called, so `highwater --help` answers at once and the core
installs without Spark, TLC or Hypothesis.
"""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points, version
from typing import Any

import click

DISTRIBUTION = "highwatermark"
COMMANDS = "highwatermark.commands"
ROOMS = ("refimpl", "properties", "chaos", "traces")

#: Said by `--help` without importing the room; a test holds it to what the command says of itself.
SHORT_HELP = {
    "chaos": "Break a simulated cluster, by seed, and judge every step.",
    "check": "Judge recorded client histories, promise by promise.",
    "conform": "Prove the Python machines equal to the specs, edge by edge.",
    "mutants": "Put known bugs in and show which check kills each.",
    "spec": "Run the TLA+ models and compare with the expected verdicts.",
    "validate": "Ask TLC whether recorded protocol events obey the spec.",
    "verify": "Run everything, in order, with one summary at the end.",
}


class MissingExtraError(click.ClickException):
    """A verb's room is here, but not the packages it stands on."""

    exit_code = 2

    def __init__(self, verb: str, extra: str, package: str) -> None:
        super().__init__(
            f"`highwater {verb}` needs the package {package!r}, which is not installed; "
            f"install it with: pip install '{DISTRIBUTION}[{extra}]'"
        )


class Verbs(click.Group):
    """The verbs that the installed rooms offer, each loaded when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_offers())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        offer = _offers().get(cmd_name)
        return None if offer is None else _load(offer)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, SHORT_HELP.get(verb, "")) for verb in sorted(_offers())])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a package that it imports late may be missing just as well."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as missing:
            verb = ctx.invoked_subcommand
            offer = _offers().get(verb or "")
            if offer is None:
                raise
            raise _explained(offer, missing) from missing


def _offers() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=COMMANDS)}


def _load(offer: EntryPoint) -> click.Command:
    try:
        return offer.load()
    except ModuleNotFoundError as missing:
        raise _explained(offer, missing) from missing


def _explained(offer: EntryPoint, missing: ModuleNotFoundError) -> Exception:
    """A missing package is the user's to install; a missing module of ours is our own bug."""
    package = (missing.name or "").partition(".")[0]
    if not package or package in ROOMS:
        return missing
    return MissingExtraError(offer.name, extra=offer.module.partition(".")[0], package=package)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version(DISTRIBUTION), prog_name="highwater")
def highwater() -> None:
    """Kafka's promises, written down three times and held together by machines.

    Exit codes: 0 all is well, 1 a promise is broken or two things differ, 2 bad input or a
    missing tool.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. Interrupted is neither a verdict nor bad input: it exits 130."""
    try:
        highwater.main(args=arguments, prog_name="highwater", standalone_mode=True)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
