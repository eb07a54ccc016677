"""The page of all settings, built from the tables that the broker itself reads."""

from collections.abc import Callable, Iterable, Mapping

from refimpl.configs import BROKER, BROKER_NAME, QUOTA, TOPIC, Definition, show
from refimpl.configs.synonyms import chain

_HEAD = """\
# Settings

Every setting of Kafka 4.3 that this broker honours, with Kafka's names, defaults and valid values;
`zookeeper.*` are those of Kafka before 4.0. Built by `make docs` from the tables in
`refimpl/configs`.

`server.properties` is read in Java's syntax. A setting that Kafka does not know, or a value that it
would refuse, is named with its file and line, and the broker does not start. One that Kafka knows
and that has no effect here is accepted with a warning.

A topic's own setting comes before the broker's; a dynamic one of the broker before a dynamic one of
all brokers, before the file's, before the default (KIP-226). Where a setting exists in several
units, the finest that is given counts, and a dynamic one puts out the file's in every unit.
"""
_SILENT = """\
{brokers} settings of brokers and {topics} of topics are accepted, kept and answered as Kafka
answers them, and change nothing here: transport security, tiered storage, KRaft's own quorum,
thread pools, and whatever else is not built.
"""
_NUMBERS: Mapping[str, str] = {str(2**63 - 1): "no limit", str(2**31 - 1): "no limit"}


def page() -> str:
    """The whole page."""
    brokers, others = _parted(BROKER)
    topics, of_topics = _parted(TOPIC)
    parts = [
        _HEAD,
        "## Brokers\n",
        *_table(brokers, "changes", lambda one: one.update),
        "\n## Topics\n",
        "*Broker's name* is what a topic without its own value falls back to.\n",
        *_table(topics, "broker's name", _broker_names),
        "\n## Quotas\n",
        "Set for users, clients and addresses, not in a file.\n",
        *_table(QUOTA.values(), "kind", lambda one: one.update),
        "\n## Without effect\n",
        _SILENT.format(brokers=len(others), topics=len(of_topics)),
        f"Of brokers: {_names(others)}.\n",
        f"Of topics: {_names(of_topics)}.\n",
    ]
    return "\n".join(parts)


def _parted(table: Mapping[str, Definition]) -> tuple[list[Definition], list[Definition]]:
    """Those that are supported, and the others."""
    supported = [one for one in table.values() if one.supported]
    return supported, [one for one in table.values() if not one.supported]


def _table(
    definitions: Iterable[Definition], head: str, last: Callable[[Definition], str]
) -> list[str]:
    rows = [
        f"| setting | type | default | valid | {head} | what it does |",
        "|---|---|---|---|---|---|",
    ]
    for one in definitions:
        cells = (f"`{one.name}`", one.type.name, _default(one), _valid(one), last(one), one.summary)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _broker_names(one: Definition) -> str:
    names = chain(BROKER_NAME[one.name]) if one.name in BROKER_NAME else ()
    return ", ".join(f"`{name}`" for name in names)


def _names(definitions: Iterable[Definition]) -> str:
    return ", ".join(f"`{one.name}`" for one in definitions)


def _default(one: Definition) -> str:
    text = show(one.default)
    return "" if not text else _NUMBERS.get(text, f"`{text}`")


def _valid(one: Definition) -> str:
    text = str(one.valid)
    return f"`{text}`" if text.startswith("[") else ""
