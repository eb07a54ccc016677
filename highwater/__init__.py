"""The public names of Highwater, each imported when it is asked for.

    >>> import highwater
    >>> with highwater.BlockingCluster(brokers=3) as cluster:
    ...     cluster.create_topic("orders", replicas=3)
    ...     len(cluster.isr("orders", 0))
    3

Brokers for tests: `Cluster` and `BlockingCluster`; with what a test asks for, `Kafka` and `Trace`,
and for unittest `KafkaTest` and `KafkaTraceTest`. Clients: `Producer` and `AsyncProducer`, with
`ProducerRecord`, `RecordMetadata`, `SendError`, `TransactionError` and `GroupMetadata`; `Consumer`
and `AsyncConsumer`, with `ConsumerRecord` and `ConsumerError`. Recordings of clients: `recorded`,
`fault` and `settle`. Verdicts: `load`, `check` and, for Spark, `violations`. A name whose packages
are not installed says which extra brings them.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from highwater.packages import check_places, extra_named

if TYPE_CHECKING:
    from refimpl.api.call import ClientTelemetry as ClientTelemetry
    from refimpl.clients import assignors
    from refimpl.configs import ConfigError as ConfigError
    from refimpl.edge import BlockingCluster as BlockingCluster
    from refimpl.edge import Cluster as Cluster
    from refimpl.edge import ClusterError as ClusterError
    from refimpl.edge import NoEffectWarning as NoEffectWarning
    from refimpl.edge import NotRunning as NotRunning
    from refimpl.edge import Rule as Rule
    from refimpl.edge import Security as Security
    from refimpl.edge import UnknownBroker as UnknownBroker
    from refimpl.edge import UnknownPartition as UnknownPartition
    from refimpl.edge.clients import AsyncConsumer as AsyncConsumer
    from refimpl.edge.clients import AsyncProducer as AsyncProducer
    from refimpl.edge.clients import Consumer as Consumer
    from refimpl.edge.clients import ConsumerError as ConsumerError
    from refimpl.edge.clients import ConsumerRecord as ConsumerRecord
    from refimpl.edge.clients import GroupMetadata as GroupMetadata
    from refimpl.edge.clients import Producer as Producer
    from refimpl.edge.clients import ProducerRecord as ProducerRecord
    from refimpl.edge.clients import RecordMetadata as RecordMetadata
    from refimpl.edge.clients import SendError as SendError
    from refimpl.edge.clients import TransactionError as TransactionError
    from refimpl.edge.server.cues import Cue as Cue
    from refimpl.edge.server.cues import Event as Event
    from refimpl.edge.testing.kafka import Kafka as Kafka
    from refimpl.edge.testing.kafka import KafkaTest as KafkaTest
    from refimpl.edge.testing.kafka import UnmetError as UnmetError
    from traces import Result as Result
    from traces import check as check
    from traces import load as load
    from traces import violations as violations
    from traces.engines.precheck import spark as prechecks
    from traces.engines.spark import read_ops as read_ops
    from traces.ingest.source import OpsSource as OpsSource
    from traces.model.problems import BadInput as BadInput
    from traces.record import NotAClientError as NotAClientError
    from traces.record import StillRunningError as StillRunningError
    from traces.record import fault as fault
    from traces.record import recorded as recorded
    from traces.record import settle as settle
    from traces.testing import KafkaTraceTest as KafkaTraceTest
    from traces.testing import PromiseBrokenError as PromiseBrokenError
    from traces.testing import Trace as Trace

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "BadInput",
    "BlockingCluster",
    "ClientTelemetry",
    "Cluster",
    "ClusterError",
    "ConfigError",
    "Consumer",
    "ConsumerError",
    "ConsumerRecord",
    "Cue",
    "Event",
    "GroupMetadata",
    "Kafka",
    "KafkaTest",
    "KafkaTraceTest",
    "NoEffectWarning",
    "NotAClientError",
    "NotRunning",
    "OpsSource",
    "Producer",
    "ProducerRecord",
    "PromiseBrokenError",
    "RecordMetadata",
    "Result",
    "Rule",
    "Security",
    "SendError",
    "StillRunningError",
    "Trace",
    "TransactionError",
    "UnknownBroker",
    "UnknownPartition",
    "UnmetError",
    "assignors",
    "check",
    "fault",
    "load",
    "prechecks",
    "read_ops",
    "recorded",
    "settle",
    "violations",
]

_MODULES: Mapping[str, tuple[str, ...]] = {
    "refimpl.api.call": ("ClientTelemetry",),
    "refimpl.configs": ("ConfigError",),
    "refimpl.edge": (
        *("BlockingCluster", "Cluster", "ClusterError", "NoEffectWarning", "NotRunning"),
        *("Rule", "Security", "UnknownBroker", "UnknownPartition"),
    ),
    "refimpl.edge.clients": (
        *("AsyncConsumer", "AsyncProducer", "Consumer", "ConsumerError", "ConsumerRecord"),
        *("GroupMetadata", "Producer", "ProducerRecord", "RecordMetadata", "SendError"),
        "TransactionError",
    ),
    "refimpl.edge.server.cues": ("Cue", "Event"),
    "refimpl.edge.testing.kafka": ("Kafka", "KafkaTest", "UnmetError"),
    "traces": ("Result", "check", "load", "violations"),
    "traces.ingest.source": ("OpsSource",),
    "traces.model.problems": ("BadInput",),
    "traces.record": ("NotAClientError", "StillRunningError", "fault", "recorded", "settle"),
    "traces.engines.spark": ("read_ops",),
    "traces.testing": ("KafkaTraceTest", "PromiseBrokenError", "Trace"),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
#: Names that are modules
_WHOLE = {"assignors": "refimpl.clients.assignors", "prechecks": "traces.engines.precheck.spark"}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _WHERE and name not in _WHOLE:
        raise AttributeError(f"module 'highwater' has no attribute {name!r}")
    check_places()
    with extra_named(name, _WHOLE.get(name) or _WHERE[name]):
        if name in _WHOLE:
            return import_module(_WHOLE[name])
        return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
