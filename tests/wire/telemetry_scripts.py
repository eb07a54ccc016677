"""Scripts about clients' metrics (KIP-714) and brokers' loggers (KIP-412)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from refimpl.storage.format.compression import Codec, compress
from tests.wire.asking import Ask

LOGGER, METRICS = 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
ROOT, MOST = "root", 1_000
#: A pattern that the script does not match, and some that it does
LOOPBACK = "client_source_address=127.*"
JAVA, SCRIPT = "client_software_name=apache-kafka-java", "client_id=scr.*"


def describe(ask: Ask, kind: int, name: str, *keys: str, version: int = 4, **more: Any) -> None:
    """DescribeConfigs of one resource."""
    one = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    ask("DescribeConfigs", version, resources=[one], **more)


def alter(ask: Ask, kind: int, name: str, *changes: tuple[str, int, str | None], **of: Any) -> None:
    """IncrementalAlterConfigs of one resource."""
    listed = [{"name": n, "config_operation": op, "value": value} for n, op, value in changes]
    one = {"resource_type": kind, "resource_name": name, "configs": listed}
    ask("IncrementalAlterConfigs", of.pop("version", 1), resources=[one], **of)


def replace(ask: Ask, kind: int, name: str, version: int = 2, **values: str | None) -> None:
    """AlterConfigs of one resource."""
    listed = [{"name": key.replace("_", "."), "value": one} for key, one in values.items()]
    resource = {"resource_type": kind, "resource_name": name, "configs": listed}
    ask("AlterConfigs", version, resources=[resource])


def subscriptions(ask: Ask) -> None:
    """Subscriptions to clients' metrics: made, described, altered, listed, deleted."""
    describe(ask, METRICS, "s")
    describe(ask, METRICS, "")
    for change in (
        *(("interval.ms", SET, "99"), ("interval.ms", SET, "3600001"), ("interval.ms", SET, "x")),
        *(("interval.ms", SET, None), ("interval.ms", APPEND, "1"), ("interval.mz", SET, "100")),
        *(("match", SET, "client_id"), ("match", SET, "client=a"), ("match", SET, "client_id=(")),
        *(("match", SET, "client_id=a=b"), ("match", SET, "client_id="), ("match", SET, "=a")),
        *(("metrics", 9, "a"), ("interval.mz", DELETE, None), ("interval.ms", DELETE, None)),
    ):
        alter(ask, METRICS, "s", change)
    alter(ask, METRICS, "", ("interval.ms", SET, "100"))
    alter(ask, METRICS, "s", ("interval.ms", SET, "200"), validate_only=True)
    ask("ListConfigResources", 0)
    alter(ask, METRICS, "s", ("interval.ms", SET, "200"), ("interval.ms", SET, "300"))
    alter(ask, METRICS, "a/b c", ("interval.ms", SET, "100"), ("match", SET, ""), version=0)
    alter(ask, METRICS, "s", ("metrics", SET, "a.,b."), ("match", SET, f"{JAVA},client_id=j"))
    for version in range(1, 5):
        describe(ask, METRICS, "s", version=version, include_synonyms=True)
    describe(ask, METRICS, "s", "metrics", "nonsense", include_documentation=True)
    ask("ListConfigResources", 0)
    for kinds in ([], [METRICS], [METRICS, LOGGER]):
        ask("ListConfigResources", 1, resource_types=kinds)
    alter(ask, METRICS, "s", ("metrics", APPEND, "c."), ("match", SUBTRACT, "client_id=j"))
    alter(ask, METRICS, "s", ("match", APPEND, "nobody=x"))
    describe(ask, METRICS, "s")
    for version in range(3):
        replace(ask, METRICS, "s", version, interval_ms="500", match=JAVA)
    replace(ask, METRICS, "s", interval_mz="1")
    replace(ask, METRICS, "s", interval_ms="1")
    replace(ask, METRICS, "")
    describe(ask, METRICS, "s")
    for name in ("s", "a/b c"):
        alter(
            ask,
            METRICS,
            name,
            *((key, DELETE, None) for key in ("metrics", "interval.ms", "match")),
        )
    alter(ask, METRICS, "never", ("metrics", DELETE, None))
    ask("ListConfigResources", 0)


def telemetry(ask: Ask) -> None:
    """GetTelemetrySubscriptions and PushTelemetry, granted and refused."""
    known = subscribed(ask, 0)
    push(ask, known, b"")
    push(ask, known, b"")
    subscribed(ask, known)
    alter(ask, METRICS, "s", ("metrics", SET, "a.,b."), ("match", SET, JAVA))
    alter(ask, METRICS, "t", ("metrics", SET, "b.,c."), ("interval.ms", SET, "60000"))
    known = subscribed(ask, known)
    alter(
        ask,
        METRICS,
        "u",
        ("metrics", SET, "d."),
        ("match", SET, f"{SCRIPT},{LOOPBACK}"),
    )
    known = subscribed(ask, known)
    push(ask, known, b"as they are")
    push(ask, known, b"again")
    push(ask, known, b"last", terminating=True)
    push(ask, known, b"behind the last", terminating=True)
    known = subscribed(ask, known)
    for codec in Codec:
        push(ask, subscribed(ask, 0), compress(codec, b"some"), codec)
        push(ask, subscribed(ask, 0), compress(codec, bytes(MOST + 1)), codec)
        push(ask, subscribed(ask, 0), b"no such data", codec)
    for number in (5, -1):
        push(ask, subscribed(ask, 0), b"", number)
    push(ask, subscribed(ask, 0), bytes(MOST + 1))
    push(ask, subscribed(ask, 0), bytes(MOST))
    other = subscribed(ask, 0)
    push(ask, {**other, "subscription_id": 0}, b"")
    push(ask, subscribed(ask, other), b"")
    for number in (0, 1):
        push(ask, {"client_instance_id": UUID(int=number), "subscription_id": 0}, b"")
    push(ask, {"client_instance_id": UUID(int=7), "subscription_id": 0}, b"", terminating=True)
    push(ask, {"client_instance_id": UUID(int=7), "subscription_id": 0}, b"")
    subscribed(ask, {"client_instance_id": UUID(int=7)})
    subscribed(ask, {"client_instance_id": UUID(int=1)})
    alter(ask, METRICS, "v", ("metrics", SET, "*"))
    subscribed(ask, 0)
    for metrics in ("", " a , a"):
        alter(ask, METRICS, "v", ("metrics", SET, metrics), ("match", SET, f" {SCRIPT} "))
        subscribed(ask, 0)
    for match in ("client_id=scr", "client_id=SCRIPT", "client_software_name=unknown"):
        alter(ask, METRICS, "v", ("metrics", SET, "e."), ("match", SET, match))
        subscribed(ask, 0)


def subscribed(ask: Ask, who: Mapping[str, Any] | int) -> Mapping[str, Any]:
    """The answer to an instance's question for its subscription; 0 for a new instance."""
    known = UUID(int=who) if isinstance(who, int) else who["client_instance_id"]
    answer = ask("GetTelemetrySubscriptions", 0, client_instance_id=UUID(str(known)))
    return answer if answer["error_code"] == "NONE" else {"client_instance_id": known, **answer}


def push(
    ask: Ask, who: Mapping[str, Any], metrics: bytes, compression_type: int = 0, **more: Any
) -> None:
    """PushTelemetry."""
    ask(
        *("PushTelemetry", 0),
        client_instance_id=UUID(str(who["client_instance_id"])),
        subscription_id=who["subscription_id"],
        compression_type=int(compression_type),
        metrics=metrics,
        **{"terminating": False, **more},
    )


def broker_loggers(ask: Ask) -> None:
    """DescribeConfigs and IncrementalAlterConfigs of a broker's loggers."""
    for name in ("", "9", "one"):
        describe(ask, LOGGER, name)
        alter(ask, LOGGER, name, (ROOT, SET, "INFO"))
    for version in range(1, 5):
        describe(ask, LOGGER, "1", ROOT, "nonsense", version=version, include_synonyms=True)
    for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"):
        alter(ask, LOGGER, "1", (ROOT, SET, level))
        describe(ask, LOGGER, "1", ROOT)
    for change in (
        *((ROOT, SET, "OFF"), (ROOT, SET, "info"), (ROOT, SET, ""), (ROOT, SET, None)),
        *(
            (ROOT, DELETE, None),
            (ROOT, APPEND, "INFO"),
            (ROOT, SUBTRACT, "INFO"),
            (ROOT, 9, "INFO"),
        ),
        *(("nonsense", SET, "INFO"), ("nonsense", DELETE, None), ("nonsense", APPEND, "INFO")),
    ):
        alter(ask, LOGGER, "1", change, version=0)
    alter(ask, LOGGER, "1", (ROOT, SET, "INFO"), ("nonsense", SET, "INFO"))
    alter(ask, LOGGER, "1", (ROOT, SET, "INFO"), (ROOT, SET, "WARN"))
    alter(ask, LOGGER, "1", (ROOT, SET, "INFO"), validate_only=True)
    describe(ask, LOGGER, "1", ROOT, include_documentation=True)
    alter(ask, LOGGER, "1", (ROOT, SET, "WARN"))
    replace(ask, LOGGER, "1", root="INFO")
    replace(ask, LOGGER, "", root="INFO")
    replace(ask, LOGGER, "9", nonsense="INFO")


SETTINGS: Mapping[str, dict[str, str]] = {
    "telemetry": {"metric.reporters": "Telemetry", "telemetry.max.bytes": str(MOST)}
}
"""Settings of Kafka's broker for a script; `Telemetry` is a plug-in of ours."""
