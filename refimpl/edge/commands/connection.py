"""The connection of the verbs that ask a cluster: their common options, and kafka-python's
AdminClient.

Settings have Kafka's names (`security.protocol`), or kafka-python's for what Kafka has none.
"""

import functools
import logging
import re
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from refimpl.edge.server.properties import PropertiesError, properties_of

BAD_INPUT = 2
TLS, CHECK_HOSTNAME = "ssl.", "ssl_check_hostname"
JAAS, MECHANISM = "sasl.jaas.config", "sasl.mechanism"


class CommandRefused(click.ClickException):
    """A mistake of the user, or a cluster that does not answer or refuses."""

    exit_code = BAD_INPUT


@frozen
class AskedCluster:
    """The cluster that a verb asks, and how long it waits for each answer."""

    bootstrap: str
    settings: Mapping[str, str]
    timeout_s: float

    @contextmanager
    def client(self, kind: str = "KafkaAdminClient", **more: Any) -> Generator[Any]:
        """A client of kafka-python; whatever the cluster refuses is one line."""
        make, errors = getattr(library("kafka"), kind), library("kafka.errors")
        timeout_ms = max(1, round(self.timeout_s * 1000))
        timeouts: dict[str, Any] = {"bootstrap_timeout_ms": timeout_ms}
        if kind != "KafkaConsumer":  # whose time-out must be above that of its session
            timeouts["request_timeout_ms"] = timeout_ms
        defaults: dict[str, Any] = {"client_id": "highwater", **timeouts}
        defaults = {name: value for name, value in defaults.items() if name in make.DEFAULT_CONFIG}
        configured = configured_as(self.settings, make.DEFAULT_CONFIG)
        client = None
        try:
            client = make(
                bootstrap_servers=self.bootstrap.split(","), **{**defaults, **configured, **more}
            )
            yield client
        except errors.KafkaTimeoutError:
            reason = f"no answer from {self.bootstrap} in {self.timeout_s:g} s"
            raise CommandRefused(reason) from None
        except errors.KafkaError as refused:
            raise CommandRefused(said(refused)) from None
        except (OSError, ValueError) as refused:
            if client is not None:
                raise
            raise CommandRefused(f"{self.bootstrap}: {refused}") from None
        finally:
            if client is not None:
                client.close()


def library(module: str) -> Any:
    """A module of kafka-python, which is silent; its own use of deprecated names is no concern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = import_module(module)
    logging.getLogger("kafka").addHandler(logging.NullHandler())
    return found


def said(error: Any) -> str:
    """Kafka's name of an error of kafka-python, instance or class, and what it means."""
    if isinstance(getattr(error, "errno", None), int) and hasattr(error, "description"):
        return f"{_name(error)}: {error.description}"
    return " ".join(str(error).split())


def _name(error: Any) -> str:
    """Kafka's own name, where the library has another."""
    from kio.schema.errors import ErrorCode

    return ErrorCode(error.errno).name.upper() if error.errno in list(ErrorCode) else error.message


def refused(what: str, code: int, message: str | None = None) -> CommandRefused:
    """The refusal of a cluster by its error code; its own sentence comes before the library's."""
    error = library("kafka.errors").for_code(code)
    return CommandRefused(
        f"{what}: {_name(error)}: {message}" if message else f"{what}: {said(error)}"
    )


def configured_as(settings: Mapping[str, str], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under kafka-python's names, as values of the types of its defaults."""
    from refimpl.configs import CONSUMER, ConfigError
    from refimpl.edge.clients.securing import tls_of

    found: dict[str, Any] = {}
    tls = {key: value for key, value in settings.items() if key[:4] == TLS and key in CONSUMER}
    try:
        for key, value in settings.items():
            if key == JAAS:
                found |= _login(value, settings.get(MECHANISM, ""))
            elif key not in tls:
                name = key.replace(".", "_")
                if name not in defaults:
                    raise CommandRefused(_unknown(key, [*CONSUMER, *defaults]))
                found[name] = _typed(key, value, defaults[name])
        if tls:
            found["ssl_context"] = tls_of(tls)
    except ConfigError as mistake:
        raise CommandRefused(str(mistake)) from None
    if tls and not found.get(CHECK_HOSTNAME, True):
        found["ssl_context"].check_hostname = False
    return found


def _login(value: str, mechanism: str) -> dict[str, Any]:
    """The login of JAAS's one line, for kafka-python. Raises ConfigError."""
    from refimpl.edge.clients.securing import login_options
    from refimpl.security.sasl import OAUTHBEARER

    options = login_options(mechanism, value)
    if mechanism == OAUTHBEARER:
        return {"sasl_oauth_token_provider": _tokens(options)}
    user, password = options["username"], options["password"]
    return {"sasl_plain_username": user, "sasl_plain_password": password}


def _tokens(options: Mapping[str, str]) -> Any:
    """Makes tokens for kafka-python."""
    from refimpl.security.logins import unsecured_token

    kind: Any = library("kafka.net.sasl.oauth").AbstractTokenProvider

    def token(_: Any) -> str:
        return unsecured_token(options, int(time.time()))

    made: dict[str, Any] = {"token": token}
    return type("Tokens", (kind,), made)()


def _unknown(key: str, names: Iterable[str]) -> str:
    near = get_close_matches(key, [one.replace("_", ".") for one in names], n=1)
    return f"{key}: unknown setting" + (f"; did you mean {near[0]}?" if near else "")


def _typed(key: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise CommandRefused(f"{key}: expected true or false, found {value!r}")
        return value.lower() == "true"
    if isinstance(default, int):
        if not re.fullmatch(r"-?\d+", value):
            raise CommandRefused(f"{key}: expected a number, found {value!r}")
        return int(value)
    return value


def address(ctx: click.Context, option: click.Parameter, value: str) -> str:
    """HOST:PORT, or several with commas between."""
    for one in value.split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise click.BadParameter(f"{one!r} is no HOST:PORT", ctx, option)
    return value


def pairs(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE, several times."""
    for one in values:
        if "=" not in one:
            raise click.BadParameter(f"{one!r} is no KEY=VALUE", ctx, option)
    return dict(one.split("=", 1) for one in values)


def _file(ctx: click.Context, option: click.Parameter, value: Path | None) -> dict[str, str]:
    """The settings of a file in Java's syntax."""
    if value is None:
        return {}
    try:
        return properties_of(value.read_text(errors="backslashreplace"), str(value))
    except PropertiesError as mistake:
        raise click.BadParameter(str(mistake), ctx, option) from None
    except OSError as unreadable:
        raise click.BadParameter(f"{value}: {unreadable.strerror}", ctx, option) from None


OPTIONS = (
    click.option(
        "--bootstrap-server",
        "bootstrap",
        required=True,
        metavar="HOST:PORT",
        callback=address,
        help="Where the cluster is.",
    ),
    click.option(
        "--command-config",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        callback=_file,
        metavar="FILE",
        help="A file of the client's settings, as for TLS and SASL.",
    ),
    click.option(
        "--command-property",
        multiple=True,
        callback=pairs,
        metavar="KEY=VALUE",
        help="One setting of the client; comes before the file's.",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=30.0,
        show_default=True,
        help="Wait so many s for each answer.",
    ),
)


def asks_a_cluster(verb: Callable[..., None]) -> Callable[..., None]:
    """The options by which a cluster is reached; the verb is handed a `AskedCluster` first."""

    @functools.wraps(verb)
    def asking(
        bootstrap: str,
        command_config: dict[str, str],
        command_property: dict[str, str],
        timeout_s: float,
        **more: Any,
    ) -> None:
        verb(AskedCluster(bootstrap, {**command_config, **command_property}, timeout_s), **more)

    for option in reversed(OPTIONS):
        asking = option(asking)
    return asking
