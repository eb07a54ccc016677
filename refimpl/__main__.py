"""`highwater`: one command, whose verbs the rooms bring.

Each room registers its verbs as entry points of the group `highwatermark.commands`. A room is
imported only when one of its verbs is called, so `highwater --help` answers at once and the core
installs without Spark, TLC or Hypothesis.
"""

import errno
import sys
import traceback
from importlib.metadata import EntryPoint, entry_points
from os import devnull, dup2
from typing import Any

import click

from refimpl.extras import BAD_INPUT, missing_extra_named

DISTRIBUTION = "highwatermark"
COMMANDS = "highwatermark.commands"

# Exit codes. A verb itself ends with 0 or, when a promise is broken or two things differ, with 1.
# Bad input is 2.
OUR_OWN_BUG = 3
INTERRUPTED = 130

# What an operating system refuses: a full disk, a folder without permission. No bug of ours.
OF_THE_MACHINE = frozenset(
    [
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR),
        *(errno.EISDIR, errno.EIO, errno.EFBIG, errno.ENAMETOOLONG, errno.ELOOP, errno.EMFILE),
    ]
)

#: What `--help` says of a verb without importing its room; a test holds both to the same words.
SHORT_HELP = {
    "broker": "Serve Kafka's protocol: brokers in one process, or in one each.",
    "chaos": "Break a simulated cluster, by seed, and judge every step.",
    "check": "Judge recorded client histories, promise by promise.",
    "configs": "Describe and alter settings of topics, brokers, groups.",
    "conform": "Prove the Python machines equal to the specs, edge by edge.",
    "consume": "Print the records of a topic of any Kafka; --record a trace.",
    "dump-log": "Print what is in the files of a partition, as Kafka does.",
    "elect": "Elect leaders in any Kafka: preferred ones, or unclean.",
    "explain": "Say all that is known of a check, or of a property of the specs.",
    "faults": "Break real brokers under real clients, and record both.",
    "generate": "Make a trace of any size with known anomalies.",
    "groups": "Print the consumer groups of any Kafka: offsets, lag, readers.",
    "import": "Make a run of what somebody else recorded.",
    "ingest": "Make the table of operations of large recordings.",
    "mutants": "Put known bugs in and show that each is found.",
    "offsets": "Print offsets of partitions of any Kafka, by time.",
    "produce": "Write lines to a topic of any Kafka; --record a trace.",
    "prove": "Show with z3 that invariants are inductive, within stated bounds.",
    "proxy": "Break what passes between any client and any broker.",
    "reassign": "Move partitions of any Kafka to other brokers.",
    "record-scan": "End a recording by reading everything that the log holds.",
    "spec": "Run the TLA+ models and compare with the expected verdicts.",
    "topics": "List, create, describe, alter and delete topics of any Kafka.",
    "validate": "Ask TLC whether recorded protocol events obey the spec.",
    "verify": "Run everything, two stages at once, with one summary at the end.",
}


class Verbs(click.Group):
    """The verbs that the installed rooms offer, each loaded when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_offers())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        offer = _offers().get(cmd_name)
        if offer is None:
            return None
        with missing_extra_named(offer):
            return offer.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, which would look for a similar verb only among those already loaded."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:
            raise click.NoSuchCommand(
                unknown.command_name, possibilities=self.list_commands(ctx), ctx=ctx
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, SHORT_HELP.get(verb, "")) for verb in sorted(_offers())])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb, and let no failure pass for a verdict: only a verb itself exits with 1."""
        try:
            return super().invoke(ctx)
        except click.ClickException as refusal:
            refusal.show()
            ctx.exit(max(refusal.exit_code, BAD_INPUT))
        except ModuleNotFoundError:
            if ctx.invoked_subcommand is None:
                raise
            with missing_extra_named(_offers()[ctx.invoked_subcommand]):
                raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except OSError as refused:
            if refused.errno not in OF_THE_MACHINE:
                raise
            place = f"{refused.filename}: " if refused.filename else ""
            click.echo(f"Error: {place}{refused.strerror or refused}", err=True)
            ctx.exit(BAD_INPUT)


def _offers() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=COMMANDS)}


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION, prog_name="highwater")
def highwater() -> None:
    """Kafka's promises, written down three times and held together by machines.

    Exit codes: 0 all is well; 1 a promise is broken or two things differ; 2 bad input, or a
    missing tool; 3 a bug in this program.
    """


class Lasting:
    """A standard stream whose reader may go: the work goes on, and the exit code is the verdict's.

    Nor does a name that no encoding can show (a file's, of bytes that are no UTF-8) end anything.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop what nobody reads."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._reader_has_gone()
            return len(text)

    def flush(self) -> None:
        """Flush, or drop what nobody reads."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._reader_has_gone()

    def _reader_has_gone(self) -> None:
        with open(devnull, "wb") as nothing:
            dup2(nothing.fileno(), self._stream.fileno())


def main() -> None:
    """Run the command line; a traceback is for our own bugs alone, and says so."""
    sys.stdout, sys.stderr = Lasting(sys.stdout), Lasting(sys.stderr)
    try:
        highwater.main(prog_name="highwater")
    except Exception:
        traceback.print_exc()
        click.echo("highwater: this is a bug in highwater itself, not a verdict", err=True)
        sys.exit(OUR_OWN_BUG)
    finally:
        sys.stdout.flush()


if __name__ == "__main__":
    main()
