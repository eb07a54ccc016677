"""The settings of one run: the cluster's setup, and the kinds of faults that hit it.

Each seed draws its own mix. A run without message loss and with many crashes reaches states that an
even mixture of everything reaches rarely (swarm testing).
"""

from collections.abc import Mapping
from random import Random
from typing import Any, cast

from attrs import asdict, evolve, fields_dict, frozen

from refimpl.clients.assignors import ASSIGNORS
from refimpl.groups.assignors import ASSIGNORS as SERVER_ASSIGNORS
from refimpl.machines.group import CommitWhen

DAY_MS = 86_400_000


@frozen
class Settings:
    """One run's configuration, complete: together with its script of faults it is the run."""

    seed: int = 0

    # Topic
    partitions: int = 2
    min_isr: int = 2
    elr: bool = False
    unclean: bool = False

    # Brokers
    tick_ms: int = 20
    fetch_timeout_ms: int = 80
    fetch_wait_ms: int = 40
    fetch_limit: int = 10
    lag_ms: int = 200
    heartbeat_ms: int = 60
    session_ms: int = 300
    checkpoint_ms: int = 200
    lossy: bool = False
    files: bool = True
    segment_bytes: int = 4096

    # True if consumers read from any replica, not only from leaders
    follower_reads: bool = False

    # Whether the metadata are in a store, and every broker may be controller; and how often
    # operators ask for something
    store: bool = False
    operate_ms: int = 100
    flush_ms: int = 100

    # Network, when nothing is wrong
    delay_ms: int = 1
    jitter_ms: int = 4
    drop: float = 0.0
    duplicate: float = 0.0
    stray: float = 0.0

    # Producers: one for each entry of `acks`
    acks: tuple[str, ...] = ("all",)
    idempotence: bool = False
    max_in_flight: int = 5
    batch_records: int = 1
    produce_ms: int = 20
    request_timeout_ms: int = 150
    delivery_timeout_ms: int = 1500
    # True if producers and consumers are the project's own, with max_in_flight Produce requests to
    # each broker
    reference_clients: bool = False

    # Consumers
    consumers: int = 2
    commit_when: CommitWhen = "after"
    work_ms: int = 25
    commit_ms: int = 100
    member_session_ms: int = 300

    # The group, whose coordinator is one of the brokers: a classic one's members assign, a consumer
    # group's coordinator does (KIP-848)
    group_protocol: str = "classic"
    assignor: str = "range"
    server_assignor: str = "uniform"
    assignment_interval_ms: int = 0
    read_limit: int = 8

    # True if members have instance ids (KIP-345): they leave for a while, and come back
    static_members: bool = False

    # True if members name the topic in different ways: alone, beside one that there is not, or by
    # regular expressions of their own
    several_subscriptions: bool = False

    # True if a broker may go down while another one is not back in sync
    overlap: bool = True

    # True if a client deletes the group's committed records
    deletes: bool = False

    # True if the topic gets more partitions during the run
    adds_partitions: bool = False

    # True if configurations of topics and of the group change during the run
    reconfigures: bool = False

    # Producers and applications write within transactions. Versions: the cluster's, and those that
    # clients draw from. Times: between two transactions, until they are aborted, until unused ids
    # expire, and until partitions forget silent producers. `lone`: a partition has one replica.
    # `clocks`: a broker that starts again may have another time
    transactions: bool = False
    transaction_version: int = 2
    transactional_clients: tuple[str, ...] = ("2",)
    transactional_ids: int = 2
    applications: int = 2
    transaction_ms: int = 60
    transaction_timeout_ms: int = 600
    id_expiration_ms: int = 3000
    producer_expiration_ms: int = DAY_MS
    lone: bool = False
    clocks: bool = False

    # Members of a share group that reads the same topic, and those of transactions; none if 0. The
    # group's isolation, locks, delivery limit and records in flight; the members' manner to
    # acknowledge, and their time for a record; the updates of its state between two snapshots, and
    # the time between two looks at what can be pruned
    share_members: int = 0
    share_isolation: str = "read_uncommitted"
    share_lock_ms: int = 400
    share_delivery_limit: int = 3
    share_locks: int = 40
    share_acknowledge: str = "explicit"
    share_work_ms: int = 30
    share_snapshot_updates: int = 20
    share_prune_ms: int = 300_000

    # True if faults are few and last so long that the cluster must settle in spite of them
    lasting: bool = False

    # How long, and how wild
    fault_ms: int = 6000
    calm_ms: int = 40000
    gap_ms: int = 300
    faults: tuple[str, ...] = ()
    events: int = 200_000

    @classmethod
    def draw(cls, seed: int, **fixed: Any) -> "Settings":
        """The configuration that belongs to a seed, with some of it held fixed."""
        rng = Random(seed)
        drawn = evolve(cls(**_drawn(seed, rng), **_of_kinds(seed)), **fixed)
        if drawn.transactions:
            drawn = drawn._made_transactional(fixed)
        if drawn.share_members:
            drawn = drawn._made_sharing(seed, fixed)
        if drawn.reference_clients and drawn.idempotence and "acks" not in fixed:
            drawn = evolve(drawn, acks=("all",) * len(drawn.acks))  # Kafka's are idempotent so
        if drawn.lasting and "store" not in fixed:
            drawn = evolve(drawn, store=False)
        if drawn.store:
            faults = drawn.faults if "faults" in fixed else drawn.faults + STORE_FAULTS
            drawn = evolve(drawn, faults=faults)
        if drawn.deletes:  # deleted records cannot be judged as lost
            lossy, unclean = drawn.lossy and drawn.elr, drawn.unclean and "unclean" in fixed
            drawn = evolve(drawn, unclean=unclean, lossy=lossy)
        return drawn._made_to_last() if drawn.lasting else drawn

    def _made_transactional(self, fixed: Mapping[str, Any]) -> "Settings":
        """The same settings, such that nothing committed may be lost.

        Draws of a seed give way to other kinds of runs that are asked for.
        """
        if "transactions" not in fixed and (self.lasting or self.deletes):
            return evolve(self, transactions=False)
        return evolve(
            self,
            unclean=self.unclean and "unclean" in fixed,
            lossy=self.lossy and (self.elr or "lossy" in fixed),
            lone=self.lone and not self.elr,
            events=fixed.get("events", 2 * self.events),
        )

    def _made_sharing(self, seed: int, fixed: Mapping[str, Any]) -> "Settings":
        """The same settings, such that nothing committed may be lost; some runs delete records."""
        if self.lasting and "share_members" not in fixed:
            return evolve(self, share_members=0)
        deletes = not self.transactions and Random(seed * 2 + 1303).random() < DELETES
        return evolve(
            self,
            unclean=self.unclean and "unclean" in fixed,
            lossy=self.lossy and (self.elr or "lossy" in fixed),
            deletes=fixed.get("deletes", deletes),
            events=fixed.get("events", self.events + 200_000),
        )

    def _made_to_last(self) -> "Settings":
        """The same settings, with time for faults that last.

        Only the faults lose messages. Producers never give up, and followers keep pace with them
        and with their retries.
        """
        calm = {"drop": 0.0, "stray": 0.0, "produce_ms": 50, "fetch_limit": 50, "fetch_wait_ms": 20}
        lasting = evolve(self, request_timeout_ms=150, reconfigures=False, **calm)
        fault_ms = 3 * LASTING_FAULTS * lasting.settle_ms
        return evolve(
            lasting,
            faults=tuple(one for one in self.faults if one in LASTING) or ("crash",),
            fault_ms=fault_ms,
            delivery_timeout_ms=fault_ms,
            events=25 * fault_ms,
        )

    @property
    def settle_ms(self) -> int:
        """The longest time that the cluster takes to settle after a change around it.

        In that time a session ends, lagging replicas leave the ISR, and unanswered requests are
        repeated.
        """
        asked_again = self.heartbeat_ms + self.fetch_timeout_ms + self.fetch_wait_ms
        on_the_way = 20 * (self.delay_ms + self.jitter_ms)
        over = self.session_ms + 3 * self.lag_ms + 8 * self.request_timeout_ms
        return over + 4 * asked_again + on_the_way

    @classmethod
    def parse(cls, name: str, text: str) -> Any:
        """The value of one field from the user's text.

        Raises ValueError with the expected form.
        """
        known = {field: of for field, of in fields_dict(cls).items() if field != "seed"}
        if name not in known:
            raise ValueError(f"there is no setting {name!r}; known are {', '.join(sorted(known))}")
        default = known[name].default
        if isinstance(default, bool):
            if text not in ("true", "false"):
                raise ValueError(f"{name}: expected true or false, found {text!r}")
            return text == "true"
        if isinstance(default, int | float):
            try:
                return type(default)(text)
            except ValueError:
                kind = "a whole number" if isinstance(default, int) else "a number"
                raise ValueError(f"{name}: expected {kind}, found {text!r}") from None
        return tuple(filter(None, text.split(","))) if isinstance(default, tuple) else text

    @staticmethod
    def written(value: Any) -> str:
        """A setting as a user writes it: what `parse` reads."""
        if isinstance(value, bool):
            return str(value).lower()
        return ",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)

    def check(self) -> None:
        """Raise ValueError, with the expected values, for a senseless setting."""
        for name, known in (
            ("acks", ("0", "1", "all")),
            ("faults", FAULTS),
            ("transactional_clients", ("1", "2")),
        ):
            for value in getattr(self, name):
                _one_of(name, value, known)
        _one_of("commit_when", self.commit_when, ("after", "before", "polled"))
        _one_of("group_protocol", self.group_protocol, ("classic", "consumer"))
        _one_of("assignor", self.assignor, tuple(ASSIGNORS))
        _one_of("server_assignor", self.server_assignor, tuple(SERVER_ASSIGNORS))
        if self.lasting and self.reconfigures:
            raise ValueError("lasting: expected without reconfigures, found reconfigures=true")
        if self.lasting and self.store:
            raise ValueError("lasting: expected without store, found store=true")
        if self.reference_clients and self.idempotence and {*self.acks} != {"all"}:
            raise ValueError("idempotence: expected acks=all alone with reference_clients")
        if self.transactions and (self.lasting or self.deletes):
            raise ValueError("transactions: expected without lasting and deletes")
        if self.transactions and self.producer_expiration_ms <= self.delivery_timeout_ms:
            raise ValueError(
                f"producer_expiration_ms: expected more than delivery_timeout_ms, "
                f"{self.delivery_timeout_ms}, found {self.producer_expiration_ms}"
            )
        if self.lasting and self.share_members:
            raise ValueError("lasting: expected without share_members")
        _one_of("share_members", self.share_members, (0, 1, 2, 3))
        _one_of("share_isolation", self.share_isolation, ("read_uncommitted", "read_committed"))
        _one_of("share_acknowledge", self.share_acknowledge, ("explicit", "implicit"))
        for name in ("share_delivery_limit", "share_locks"):
            _at_least(name, getattr(self, name), 1)
        _one_of("transaction_version", self.transaction_version, (0, 1, 2))
        _one_of("transactional_ids", self.transactional_ids, (1, 2))
        _one_of("applications", self.applications, (0, 1, 2))
        if not self.transactional_clients:
            raise ValueError("transactional_clients: expected 1, 2 or both, found none")
        _one_of("min_isr", self.min_isr, (1, 2, 3))
        _one_of("consumers", self.consumers, (1, 2, 3))
        _one_of("partitions", self.partitions, tuple(range(1, 10)))
        for name, field in fields_dict(Settings).items():
            value = getattr(self, name)
            if name.endswith("_ms") and name not in MAY_BE_ZERO:
                _at_least(name, value, 1)
            elif isinstance(field.default, int | float):
                _at_least(name, value, 0)

    def as_json(self) -> dict[str, Any]:
        """The configuration as a script file holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Settings":
        """Read what `as_json` wrote."""
        known = fields_dict(cls)
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"there is no setting {name!r}")
            _of_type(name, value, known[name].default)
        lists: dict[str, Any] = {n: tuple(values[n]) for n in LISTS if n in values}
        settings = cls(**(values | lists))
        settings.check()
        return settings


SWARM = (
    *("crash", "stop", "pause", "cut", "slow", "noise", "elect", "lag"),
    *("member_crash", "member_pause"),
)
LISTS = ("acks", "faults", "transactional_clients")
MAY_BE_ZERO = ("delay_ms", "jitter_ms", "assignment_interval_ms")
STORE_FAULTS = ("expire", "depose", "reassign", "store")
GROUP_FAULTS = ("member_leave",)
# Faults that no seed draws by itself
NAMED_FAULTS = ("disk",)
# Faults that the setting `transactions` adds to a script, beside those that the seed draws
TRANSACTION_FAULTS = ("client_crash", "client_pause", "client_takeover", "markers")
# Faults that the setting `share_members` adds to a script
SHARE_FAULTS = ("share_crash", "share_pause", "share_leave", "share_moves")
FAULTS = SWARM + STORE_FAULTS + GROUP_FAULTS + NAMED_FAULTS + TRANSACTION_FAULTS + SHARE_FAULTS
LASTING = ("crash", "stop", "pause", "cut", "lag")
"""The faults on brokers that last; so many of them follow each other."""
LASTING_FAULTS = 3
ADD_PARTITION = "add_partition"
"""The faults that `adds_partitions` puts into a script, beside those that the seed draws."""
CLOCK = "clock"
"""The fault that the setting `clocks` puts into a script."""
CONFIGURE = "configure"
"""The fault that the setting `reconfigures` puts into a script."""


SHARE = SHARING = 0.2
"""The share of seeds that draw transactions, and of those that have a share group."""
DELETES = 0.3
"""The share of those with a share group that delete records."""
STATIC = RECONFIGURES = 0.2
"""The shares of seeds whose members are static, and in which configurations change."""


def _of_type(name: str, value: object, like: object) -> None:
    expected = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    kind = "list" if isinstance(like, tuple) else type(like).__name__
    if type(value).__name__ not in ((kind, "int") if kind == "float" else (kind,)):
        words = expected.get(kind, "a list" if kind == "list" else "a string")
        raise ValueError(f"{name}: expected {words}, found {value!r}")


def _one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name}: expected {', '.join(map(str, known))}, found {value}")


def _at_least(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int | float) or value < least:
        raise ValueError(f"{name}: expected at least {least}, found {value}")


def _drawn(seed: int, rng: Random) -> dict[str, Any]:
    choice, chance = rng.choice, rng.random
    session_ms = choice((120, 200, 300, 600))
    kinds = tuple(kind for kind in SWARM if chance() < 0.7) or ("crash",)
    acks = ("all",) if chance() < 0.5 else ("all", choice(("all", "1", "1", "0")))
    return {
        "seed": seed,
        "min_isr": choice((2, 2, 2, 1)),
        "elr": chance() < 0.4,
        "unclean": chance() < 0.15,
        "tick_ms": choice((10, 20, 30)),
        "fetch_timeout_ms": choice((40, 80, 160)),
        "fetch_wait_ms": choice((1, 20, 20, 100)),
        "fetch_limit": choice((1, 1, 3, 10, 50)),
        "lag_ms": choice((60, 150, 300, 600)),
        "session_ms": session_ms,
        "heartbeat_ms": session_ms // choice((2, 3, 4)),
        "segment_bytes": 1 << 24 if chance() < 0.2 else 4096,
        "checkpoint_ms": choice((50, 200, 1000)),
        "lossy": chance() < 0.4,
        "flush_ms": choice((100, 400, 1500, 5000)),
        "delay_ms": choice((0, 1, 2, 5)),
        "jitter_ms": choice((1, 3, 10, 40)),
        "drop": choice((0.0, 0.0, 0.01, 0.05)),
        "duplicate": choice((0.0, 0.0, 0.02, 0.1)),
        "stray": choice((0.0, 0.0, 0.01, 0.05)),
        "acks": acks,
        "idempotence": chance() < 0.4,
        "produce_ms": choice((15, 25, 50)),
        "request_timeout_ms": choice((60, 150, 400)),
        "delivery_timeout_ms": choice((500, 1500, 5000)),
        "consumers": choice((1, 2, 2, 3)),
        "commit_when": choice(("after", "after", "before", "polled")),
        "work_ms": choice((10, 15, 25)),
        "commit_ms": choice((40, 100, 300)),
        "member_session_ms": choice((150, 300, 600)),
        "overlap": chance() < 0.7,
        "gap_ms": choice((60, 120, 250, 500)),
        "faults": kinds + GROUP_FAULTS,
        "batch_records": choice((1, 1, 2, 5)),
        "store": chance() < 0.25,
        "operate_ms": choice((40, 100, 300)),
        "assignor": choice(tuple(ASSIGNORS)),
        "group_protocol": choice(("classic", "consumer")),
        "server_assignor": choice(("uniform", "range")),
        "assignment_interval_ms": choice((0, 0, 100, 500)),
    }


def _of_kinds(seed: int) -> dict[str, Any]:
    """The settings of the kinds of runs that only some seeds draw."""
    return {**_transactional(seed), **_changing(seed), **_sharing(seed)}


def _sharing(seed: int) -> dict[str, Any]:
    """A seed's share group; its other settings do not depend on it."""
    rng = Random(seed * 2 + 1301)
    choice = rng.choice
    return {
        "share_members": choice((1, 2, 2, 3)) if rng.random() < SHARING else 0,
        "share_isolation": choice(("read_uncommitted", "read_committed")),
        "share_lock_ms": choice((100, 300, 1000)),
        "share_delivery_limit": choice((2, 3, 5, 50)),
        "share_locks": choice((10, 40, 40, 2000)),
        "share_acknowledge": choice(("explicit", "explicit", "implicit")),
        "share_work_ms": choice((10, 30, 100)),
        "share_snapshot_updates": choice((2, 20, 500)),
        "share_prune_ms": choice((100, 400, 300_000)),
    }


def _changing(seed: int) -> dict[str, Any]:
    """A seed's static members and changes; its other settings do not depend on them."""
    return {
        "static_members": Random(seed * 2 + 1173).random() < STATIC,
        "reconfigures": Random(seed * 2 + 1175).random() < RECONFIGURES,
    }


def _transactional(seed: int) -> dict[str, Any]:
    """A seed's transactions; its other settings do not depend on them."""
    rng = Random(seed * 2 + 1007)
    choice, chance = rng.choice, rng.random
    return {
        "transactions": chance() < SHARE,
        "transaction_version": choice((2, 2, 2, 1, 0)),
        "transactional_clients": choice((("2",), ("2",), ("1",), ("1", "2"))),
        "transactional_ids": choice((1, 2)),
        "applications": choice((0, 1, 2, 2)),
        "transaction_ms": choice((20, 60, 200)),
        "transaction_timeout_ms": choice((150, 400, 1500)),
        "id_expiration_ms": choice((600, 2000, 600_000)),
        "lone": chance() < 0.4,
        "producer_expiration_ms": choice((8000, DAY_MS, DAY_MS, DAY_MS)),
        "clocks": chance() < 0.4,
    }
