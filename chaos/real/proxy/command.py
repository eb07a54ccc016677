"""`highwater proxy`: requests of any client to any broker, held, delayed, dropped, cut off."""

import asyncio
import signal
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from chaos.real.proxy.addresses import Upstream
    from chaos.real.proxy.proxy import Proxy
    from chaos.real.proxy.recording.recorder import Recorder

Some = TypeVar("Some")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


class ProxyRefused(click.ClickException):
    """A mistake of the user."""

    exit_code = 2


@click.command(short_help="Break what passes between any client and any broker.")
@click.option(
    "--target", required=True, metavar="HOST:PORT[,…]", help="Some brokers of the cluster."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the first listener.")
@click.option("--fault", "faults", multiple=True, metavar="RULE", help="As often as you like.")
@click.option("--faults-from", type=_FILE, help="A file of rules, one a line.")
@click.option(
    "--control", type=click.IntRange(0, 65535), help="Serve the rules by HTTP on this port."
)
@click.option(
    "--record",
    "run",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="RUN",
    help="Write what passes down as a trace in this folder.",
)
@click.option(
    "--finish",
    is_flag=True,
    help="With --record: only end a recording, after a crash or a refusal.",
)
@click.option("--target-ca", type=_FILE, help="TLS to the brokers: who may sign for them (PEM).")
@click.option(
    "--target-config", type=_FILE, help="TLS to the brokers by settings of Kafka's own tools."
)
@click.option("--target-cert", type=_FILE, help="The proxy's certificate and key for them (PEM).")
@click.option("--cert", type=_FILE, help="TLS to clients: certificate and key (PEM).")
def proxy(
    target: str,
    port: int,
    faults: Sequence[str],
    faults_from: Path | None,
    control: int | None,
    run: Path | None,
    finish: bool,
    target_ca: Path | None,
    target_config: Path | None,
    target_cert: Path | None,
    cert: Path | None,
) -> None:
    """Stand between clients and brokers, and break what passes by rule.

    Clients of any language connect to the address that is printed. Addresses of brokers in what
    they are answered become the proxy's own, so that everything passes here. A rule names a fault,
    an API, and which requests:

    \b
        hold Produce after=3 count=1      until the rule ends
        delay Fetch by_ms=500             handled so much later
        copy AlterPartition by_ms=2000    handled, and so much later once more
        drop EndTxn client_id=billing     neither handled nor answered
        drop-response Produce broker=2    handled and not answered
        disconnect OffsetCommit           handled, and closed in place of an answer
        disconnect-unhandled Heartbeat    closed in place of handling

    With --control, `GET /rules` lists them, `POST /rules` adds one, `DELETE /rules/N` ends one.

    With --record, what clients send, are answered, fetch and commit becomes a trace, for `highwater
    check`. When the proxy is told to end (Ctrl-C, SIGTERM), it reads all partitions once more.
    """
    from chaos.real.proxy.addresses import Upstream
    from chaos.real.proxy.proxy import Proxy
    from chaos.real.proxy.words import refuse_copies, rule_of, rules_in, words_of
    from refimpl.configs import ConfigError
    from refimpl.edge.clients.connections import addresses

    try:
        rules = [rule_of(one) for one in faults]
        rules += [] if faults_from is None else rules_in(faults_from)
        if run is not None:
            refuse_copies(rule for _, rule in rules)
        targets = [Upstream(*one) for one in addresses(target.split(","))]
        to_brokers = _to_brokers(target_ca, target_cert)
        if target_config is not None:
            to_brokers = _by_settings(target_config)
        to_clients = _to_clients(cert)
    except (ValueError, ConfigError) as error:
        raise ProxyRefused(str(error)) from None
    if finish:
        if run is None or not run.is_dir():
            raise ProxyRefused("--finish: expected --record and the folder of a run")
        _finish(run, targets, to_brokers, target_config)
        return
    recorder = None if run is None else _recorder(run)
    made = Proxy(targets, port, to_clients, to_brokers, recorder)
    told = [(words_of(*one), one[1]) for one in rules]
    for broker, rule in rules:
        made.add(rule, broker)
    try:
        asyncio.run(_serve(made, control))
    except OSError as error:
        if recorder is not None:
            recorder.end()
        raise ProxyRefused(f"cannot listen: {error}") from None
    for words, rule in told:
        click.echo(f"{words}: met {rule.met} of {rule.seen} requests")
    if run is not None and recorder is not None:
        from chaos.real.proxy.recording.faults import note_faults

        recorder.end()
        note_faults(run, [(words_of(one.broker, one.rule), one) for one in made.given.values()])
        for api, count in sorted(recorder.unread.items()):
            click.echo(f"{api}: {count} not recorded, for they could not be read")
        _finish(run, targets, to_brokers, target_config)


def _recorder(run: Path) -> "Recorder":
    from chaos.real.proxy.recording.journals import NotOursError
    from chaos.real.proxy.recording.recorder import Recorder

    try:
        return Recorder(run)
    except (NotOursError, OSError) as error:
        raise ProxyRefused(str(error)) from None


def _finish(
    run: Path,
    targets: "Sequence[Upstream]",
    to_brokers: ssl.SSLContext | None,
    config: Path | None,
) -> None:
    """End a recording, and say what it lacks; then the exit code is 2."""
    from chaos.real.proxy.recording.finishing import NotFinishedError, finish

    try:
        done = finish(run, targets, to_brokers, config)
    except NotFinishedError as error:
        raise ProxyRefused(f"{run} is not complete: {error}; once more: --finish") from None
    for line in done.lines():
        click.echo(line)
    if not done.complete:
        raise click.exceptions.Exit(2)


def _to_brokers(ca: Path | None, cert: Path | None) -> ssl.SSLContext | None:
    if ca is None:
        if cert is not None:
            raise ValueError("--target-cert: expected --target-ca beside it")
        return None
    context = _loaded(ca, lambda: ssl.create_default_context(cafile=str(ca)))
    if cert is not None:
        _loaded(cert, lambda: context.load_cert_chain(cert))
    return context


def _by_settings(file: Path) -> ssl.SSLContext | None:
    """TLS by `security.protocol` and `ssl.` of a file; logins pass through from the clients.
    Raises ConfigError, PropertiesError.
    """
    from refimpl.configs import CONSUMER
    from refimpl.edge.clients.securing import client_values, tls_of
    from refimpl.edge.server.properties import properties_of

    found = properties_of(file.read_text(errors="backslashreplace"), str(file))
    given = {key: text for key, text in found.items() if key in CONSUMER}
    is_tls = client_values(given)["security.protocol"].upper().endswith("SSL")
    return tls_of(given) if is_tls else None


def _to_clients(cert: Path | None) -> ssl.SSLContext | None:
    if cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _loaded(cert, lambda: context.load_cert_chain(cert))
    return context


def _loaded(file: Path, load: Callable[[], Some]) -> Some:
    try:
        return load()
    except ssl.SSLError as error:
        raise ValueError(f"{file}: {error.reason or error}: expected PEM") from None


async def _serve(made: "Proxy", control: int | None) -> None:
    """Until SIGTERM or Ctrl-C."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with made:
        with ExitStack() as stack:
            if control is not None:
                from chaos.real.proxy.control import controlled

                stack.enter_context(
                    controlled(
                        made,
                        control,
                        lambda port: click.echo(f"Rules: http://localhost:{port}/rules"),
                    )
                )
            click.echo(f"Clients connect to {made.bootstrap}")
            await ended.wait()
