"""`highwater broker`: brokers in this process, for whatever speaks Kafka's protocol."""

import asyncio
import errno
import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from click.core import ParameterSource

from refimpl.outputs import FolderToWrite

if TYPE_CHECKING:
    from refimpl.edge.server.layout import Layout
    from refimpl.edge.server.properties import Properties
    from refimpl.edge.server.stored_broker import StoredBroker
    from refimpl.edge.testing.cluster import Cluster

BAD_INPUT = 2
#: How many brokers one process is for
MOST = 64


class Serving(Protocol):
    """One broker or several, from their start to their end."""

    @property
    def host(self) -> str:
        """The host at which they listen for clients."""
        ...

    @property
    def port(self) -> int:
        """The port of the first one."""
        ...

    @property
    def brokers(self) -> int:
        """The number of brokers, on ports one after the other."""
        ...

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: bootstrap.servers."""
        ...

    async def start(self) -> Any:
        """Return when they serve."""
        ...

    async def stop_all(self) -> None:
        """Hand leadership over, and end."""
        ...


@click.command(short_help="Serve Kafka's protocol: brokers in one process, or in one each.")
@click.option("--brokers", type=click.IntRange(1, MOST), default=1, show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="What to bind to.")
@click.option("--data", type=FolderToWrite(), help="Keep everything here.")
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="A file."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="One setting.")
@click.option("--processes", is_flag=True, help="A process for each broker, to be killed.")
@click.option("--id", "broker_id", type=click.IntRange(1), help="This broker alone.")
@click.option("--client-telemetry", metavar="MODULE:FUNCTION", help="Takes clients' metrics.")
@click.option("--zookeeper", metavar="HOST:PORT[/PATH]", help="Where its cluster's metadata are.")
def broker(
    brokers: int,
    port: int,
    host: str,
    data: Path | None,
    config: Path | None,
    settings: tuple[str, ...],
    processes: bool,
    broker_id: int | None,
    client_telemetry: str | None,
    zookeeper: str | None,
) -> None:
    """Serve Kafka's protocol with brokers 1 to N on consecutive ports.

    Prints `ready` and the addresses when all of them serve. SIGTERM hands leadership over and stops
    them cleanly. Without --data nothing is kept; with it the logs are Kafka's files in
    DIR/broker-1 and so on, or in those of `log.dirs`, of which one may fail. --config is a
    server.properties file, which --set comes before.

    With --processes each broker is a process, of which a line on standard error names the id, and
    this one is their controller. A broker that was killed is started again by SIGUSR1 to this
    process, on its port and with its logs. --data is the same with and without --processes.

    With --id N and --zookeeper the process is one broker of a cluster whose metadata are in
    ZooKeeper, where Kafka 3.9 has them; start as many as there shall be, and any of them may be
    controller. Their logs are in DIR itself.

    --client-telemetry names a Python function that is called with each push of clients' metrics
    (KIP-714); clients are asked for them only then.
    """
    with _no_collection():
        values, file = _configured(config, settings)
        if broker_id is None and "zookeeper.connect" in file.lines:
            _ignored(file, "zookeeper.connect", "the metadata are kept here, without --id N")
            del values["zookeeper.connect"]
        host, port, data, more = _served_at(values, host, port, data, file)
        take = None if client_telemetry is None else _function(client_telemetry)
        zookeeper = zookeeper or values.get("zookeeper.connect")
        cluster: Any
        if processes and (zookeeper is not None or broker_id is not None):
            raise click.UsageError("--processes is for the brokers of --brokers, without --id")
        if processes and take is not None:
            raise click.UsageError("--client-telemetry is for brokers in this process alone")
        if zookeeper is not None:
            cluster = _stored_broker(broker_id, zookeeper, port, host, data, values, more)
            cluster.client_telemetry = take
        elif broker_id is not None:
            raise click.UsageError("--id is for one broker of a cluster: name its --zookeeper")
        else:
            cluster = _cluster(brokers, port, host, data, values, more)
            cluster.client_telemetry = take
        code = run(_serve_processes(cluster.layout) if processes else serve(cluster))
    if code:
        sys.exit(code)


def _function(text: str) -> Callable[..., Any]:
    """The function of a module that a user names: MODULE:FUNCTION, below the working directory."""
    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(import_module(module), name)
    except (ValueError, ImportError, AttributeError) as missing:
        raise click.UsageError(f"--client-telemetry {text}: {missing}") from None
    finally:
        sys.path.pop(0)
    if not callable(found):
        raise click.UsageError(f"--client-telemetry {text}: a function is expected")
    return found


def _cluster(
    brokers: int,
    port: int,
    host: str,
    data: Path | None,
    values: Mapping[str, str],
    more: Sequence[Path],
) -> "Cluster":
    """Brokers in this process; a mistake in their settings is one of usage."""
    from refimpl.edge.server.arguments import NoEffectWarning
    from refimpl.edge.testing.cluster import Cluster

    with warnings.catch_warnings(action="ignore", category=NoEffectWarning):
        try:
            return Cluster(brokers, port, host, data, values, more_data=more)
        except ValueError as mistake:
            raise click.UsageError(str(mistake)) from None


@contextmanager
def _no_collection() -> Generator[None]:
    """No search for garbage until the brokers serve, nor while they stop: a fifth of the time would
    go into it.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _stored_broker(
    broker_id: int | None,
    zookeeper: str,
    port: int,
    host: str,
    data: Path | None,
    values: Mapping[str, str],
    more: Sequence[Path],
) -> "StoredBroker":
    """One broker of a cluster whose metadata are in ZooKeeper."""
    try:
        from refimpl.edge.server.stored_broker import StoredBroker
    except ModuleNotFoundError as missing:
        raise click.UsageError(
            f"--zookeeper needs {missing.name}: pip install 'highwatermark[broker]'"
        ) from None
    id = str(broker_id or values.get("node.id") or values.get("broker.id") or "")
    if not id.isdigit():
        raise click.UsageError("a broker of a cluster in ZooKeeper has a number of its own: --id N")
    return StoredBroker(int(id), zookeeper, port, host, data, values, more_data=more)


def _configured(
    config: Path | None, settings: tuple[str, ...]
) -> tuple[dict[str, str], "Properties"]:
    """Settings of the file, and of the command line, which come first; and the file alone."""
    from refimpl.configs import ConfigError
    from refimpl.edge.server.properties import (
        Properties,
        PropertiesError,
        read_properties,
        setting,
    )

    values: dict[str, str] = {}
    found = Properties(str(config), {}, (), {})
    try:
        if config is not None:
            found = read_properties(config.read_text(errors="backslashreplace"), str(config))
            values |= found.values
            for warning in found.warnings:
                click.echo(f"Warning: {warning}", err=True)
        given = dict(setting(text) for text in settings)
    except (PropertiesError, ConfigError) as mistake:
        raise click.UsageError(str(mistake)) from None
    of_file = {name: line for name, line in found.lines.items() if name not in given}
    return {**values, **given}, Properties(found.file, found.values, (), of_file)


def _ignored(file: "Properties", name: str, why: str) -> None:
    """Warn of a setting in the file that changes nothing."""
    click.echo(f"Warning: {file.file}:{file.lines[name]}: {name} has no effect: {why}", err=True)


def _served_at(
    values: dict[str, str], host: str, port: int, data: Path | None, file: "Properties"
) -> tuple[str, int, Path | None, Sequence[Path]]:
    """The address to listen on, and the log directories, the first of them apart: by the options,
    then by the file.

    With an option the first listener is there, and it is the only one.
    """
    from refimpl.configs import ConfigError
    from refimpl.edge.server.addresses import advertised_listeners_of, listeners_of
    from refimpl.edge.server.properties import directories_of
    from refimpl.edge.server.security import check_security

    given = click.get_current_context().get_parameter_source
    try:
        listeners, directories = listeners_of(values), directories_of(values)
        advertised_listeners_of(values)
        check_security(values)
    except ConfigError as mistake:
        raise click.UsageError(file.placed(str(mistake), values)) from None
    if listeners:
        first, by_option = listeners[0], False
        if given("host") is ParameterSource.DEFAULT:
            host = first.host or host
        else:
            by_option = True
        if given("port") is ParameterSource.DEFAULT:
            port = first.port
        else:
            by_option = True
        others = listeners[:0] if by_option else listeners[1:]
        if len(others) < len(listeners) - 1:
            values.pop("advertised.listeners", None)
        places = [(first.name, host, port), *((one.name, one.host, one.port) for one in others)]
        values["listeners"] = ",".join(f"{name}://{at}:{number}" for name, at, number in places)
    more: list[Path] = []
    if data is None and directories:
        data, *more = map(Path, dict.fromkeys(directories))
    return host, port, data, more


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run it in uvloop's event loop where that is installed, else in asyncio's."""
    try:
        runner: Callable[[Coroutine[Any, Any, int]], int] = import_module("uvloop").run
    except ModuleNotFoundError:
        runner = asyncio.run
    return runner(main)


async def _serve_processes(layout: "Layout") -> int:
    from refimpl.edge.server.process_cluster import NotStarted, ProcessCluster

    cluster = ProcessCluster(layout, lambda line: click.echo(line, err=True))
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, cluster.restart)
    try:
        return await serve(cluster)
    except NotStarted:  # the process itself has said why
        return BAD_INPUT


async def serve(cluster: "Serving") -> int:
    """From the start to the signal that ends it; answers the exit code."""
    from refimpl.edge.server.log_directory import UnusableDirectory

    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, take_signal, ended, number)
    try:
        await cluster.start()
    except UnusableDirectory as unusable:
        click.echo(f"Error: {unusable}", err=True)
        return BAD_INPUT
    except TimeoutError as late:
        click.echo(f"Error: {late}", err=True)
        return BAD_INPUT
    except OSError as refused:
        if refused.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            reason = _port_refused(cluster, refused)
        elif (refused.errno or 0) < 0:  # of looking up a name
            reason = refused.strerror
        else:
            raise
        click.echo(f"Error: {reason}", err=True)
        return BAD_INPUT
    gc.freeze()  # what is there by now stays, and is not looked at again
    gc.enable()
    click.echo(f"ready {cluster.bootstrap}")
    sys.stdout.flush()
    await ended.wait()
    with _no_collection():
        await cluster.stop_all()
    return 0


def take_signal(ended: asyncio.Event, number: signal.Signals) -> None:
    """Take a signal: stop cleanly at the first one, and end at the next one, whatever is going on.

    The logs are recovered at the next start then, as after a kill.
    """
    if ended.is_set():
        os._exit(128 + number)
    ended.set()
    for each in (signal.SIGTERM, signal.SIGINT):  # even while a disk is waited for
        signal.signal(each, lambda again, _: os._exit(128 + again))


def _port_refused(cluster: "Serving", refused: OSError) -> str:
    last = cluster.port + cluster.brokers - 1
    ports = f"port {last}" if cluster.brokers == 1 else f"one of the ports {cluster.port} to {last}"
    reason = "is in use" if refused.errno == errno.EADDRINUSE else f"({refused.strerror})"
    return f"{cluster.host}: {ports} {reason}; name others with --port"
