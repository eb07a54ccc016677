"""The permissions of each API: operations on resources, and the answers that refuse (KIP-11).

The table at the end has a row for each API that is announced. Its rules are those of Kafka 4.3's
KafkaApis and ControllerApis, in their order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from refimpl.api.authorization import (
    FAILED,
    AccessRule,
    Changed,
    Denied,
    Each,
    OnCluster,
    Proceed,
    Resource,
    Result,
    Seen,
    Whole,
    advanced,
    chained,
    may,
    may_cluster,
    operations_on,
)
from refimpl.api.call import Call, Handling, Values
from refimpl.api.errors import code
from refimpl.api.fetch import fetched_topic
from refimpl.api.groups import NOT_ASKED, name_of
from refimpl.api.table import APIS
from refimpl.messages.broker import CONSUMER
from refimpl.messages.cluster import INTERNAL_TOPICS
from refimpl.security.acls import CLUSTER_NAME, Operation, ResourceType
from refimpl.storage.format.batch import FLAGS_AT, TRANSACTIONAL
from refimpl.wire import produce as wire

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    *(ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER),
    ResourceType.TRANSACTIONAL_ID,
)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    *(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE,
)
CLUSTER_ACTION, IDEMPOTENT_WRITE = Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC_FAILED, TRANSACTIONAL_FAILED = FAILED[TOPIC], FAILED[TRANSACTIONAL_ID]
MESSAGES: Mapping[str, str] = {
    TOPIC_FAILED: "Topic authorization failed.",
    FAILED[GROUP]: "Group authorization failed.",
    FAILED[CLUSTER]: "Cluster authorization failed.",
    TRANSACTIONAL_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's words where a refusal has any."""

BY_CONFIG_TYPE: Mapping[int, ResourceType] = {
    **{2: TOPIC, 32: GROUP},
    **dict.fromkeys((4, 8, 16), CLUSTER),
}
"""The resource that protects configurations; the cluster for brokers, loggers, client metrics."""


# Resources


def _group(call: Call) -> str:
    return call.request.group_id


def _transactional_id(call: Call) -> str | None:
    return call.request.transactional_id


def _topic(call: Call, element: Any) -> Resource:
    return TOPIC, element.name


def _topic_of_epochs(call: Call, element: Any) -> Resource:
    return TOPIC, element.topic


def _topic_by_id(call: Call, element: Any) -> Resource | None:
    """A topic that may be named by its id; None for an id that no topic has."""
    topic_id = getattr(element, "topic_id", None)
    name = getattr(element, "name", None) if topic_id is None else name_of(call, topic_id)
    return None if name is None else (TOPIC, name)


def _creatable(call: Call, element: Any) -> Resource | None:
    names = [one.name for one in call.request.topics]
    return None if names.count(element.name) > 1 else (TOPIC, element.name)


def _deletable(call: Call, element: Any) -> Resource | None:
    """None as well for a topic that is known not to be there to who may know it."""
    resource = (TOPIC, element) if isinstance(element, str) else _topic_by_id(call, element)
    if resource is None or resource[1] in call.broker.node.metadata.topics:
        return resource
    return None if may(call, DESCRIBE, *resource) else resource


def _group_itself(call: Call, element: str) -> Resource:
    return GROUP, element


def _transactional_itself(call: Call, element: str) -> Resource:
    return TRANSACTIONAL_ID, element


def _configured(call: Call, element: Any) -> Resource | None:
    kind = BY_CONFIG_TYPE.get(element.resource_type)
    if kind is None:
        return None
    return kind, CLUSTER_NAME if kind is CLUSTER else element.resource_name


# Answers that refuse


def _error(call: Call, error: str) -> Values:
    return {"error_code": error}


def _with_message(call: Call, error: str) -> Values:
    return {"error_code": error, "error_message": MESSAGES[error]}


def _element(*fields: str, message: str | None = None, named: bool = False) -> Any:
    """An element's answer: its error, and fields that it has in common with the element."""

    def refused(call: Call, element: Any, error: str) -> Values:
        text = MESSAGES[error] if named else message
        same = {one: getattr(element, one, None) for one in fields}
        return {**same, "error_code": error, "error_message": text}

    return refused


def _itself(field: str, **more: Any) -> Any:
    """The answer to an element that is a name."""

    def refused(call: Call, element: str, error: str) -> Values:
        return {field: element, "error_code": error, **more}

    return refused


def _partitions(
    within: str = "partitions",
    index: str = "partition_index",
    error_code: str = "error_code",
    results: str = "partitions",
    named: bool = False,
    **more: Any,
) -> Any:
    """A topic's answer, in which each of its partitions has the error."""

    def refused(call: Call, topic: Any, error: str) -> Values:
        numbers = (getattr(one, index, one) for one in getattr(topic, within))
        told = {error_code: error, **more}
        if named:
            told["error_message"] = MESSAGES[error]
        same = {one: getattr(topic, one, None) for one in ("name", "topic", "topic_id")}
        return {**same, results: [{index: number, **told} for number in numbers]}

    return refused


def _all_of(field: str, answers: str, one: Any, **more: Any) -> Any:
    """A refusal of the whole request, told of each of its elements."""

    def refused(call: Call, error: str) -> Values:
        elements = getattr(call.request, field) or ()
        return {**more, answers: [one(call, element, error) for element in elements]}

    return refused


def _and_error(refused: Any, *, message: bool = True) -> Any:
    """The same, and the error of the request itself."""

    def both(call: Call, error: str) -> Values:
        return {**(_with_message if message else _error)(call, error), **refused(call, error)}

    return both


# Produce and Fetch, whose codecs are ours


def _produced_topics(call: Call) -> Iterable[str]:
    names = call.broker.node.metadata.topic_names
    data = call.request.data
    if len(data) == 1 and isinstance(data[0][0], str):  # most requests, for which it has to be fast
        return (data[0][0],)
    topics = dict.fromkeys([topic for topic, _, _ in data])
    found = [names.get(one) if isinstance(one, bytes) else one for one in topics]
    return [one for one in found if one is not None]


def _produce_transaction(call: Call, proceed: Proceed) -> Result:
    """Records of a transaction need WRITE on its id, which must be named."""
    request = call.request
    for _, _, records in request.data:
        if len(records) > FLAGS_AT and records[FLAGS_AT] & TRANSACTIONAL:
            break
    else:
        return proceed(call)
    name = request.transactional_id
    if name is not None and may(call, WRITE, TRANSACTIONAL_ID, name):
        return proceed(call)
    if request.acks == 0:
        return None
    topics: dict[str | bytes, list[wire.ProducedData]] = {}
    for topic, number, _ in request.data:
        refused = wire.ProducedData(number, code(TRANSACTIONAL_FAILED), -1, -1, -1)
        topics.setdefault(topic, []).append(refused)
    return [wire.write_produced(call.version, list(topics.items()))]


def _fetched_topics(call: Call) -> Iterable[str]:
    """The topics that a fetch asks for, those of its session among them."""
    request, node = call.request, call.broker.node
    by_id = node.metadata.topic_names
    names: dict[str | None, None] = {}
    for topic in request.topics:
        names[fetched_topic(topic, call.version, by_id)] = None
    session = node.fetches.sessions.sessions.get(getattr(request, "session_id", 0))
    if session is not None:
        names |= dict.fromkeys(one.topic for one in session.partitions)
    return [one for one in names if one is not None]


_FETCHED_BY_CONSUMER = Denied(_fetched_topics, READ)


def _fetch(call: Call, proceed: Proceed) -> Result:
    """Followers need CLUSTER_ACTION, consumers READ on each topic."""
    state = getattr(call.request, "replica_state", None)
    replica = getattr(call.request, "replica_id", CONSUMER) if state is None else state.replica_id
    if replica <= CONSUMER:
        return _FETCHED_BY_CONSUMER(call, proceed)
    if not may_cluster(call, CLUSTER_ACTION):
        call.denied = frozenset(_fetched_topics(call))
    return proceed(call)


# Metadata


WITH_IDS = 12


def _metadata(call: Call, proceed: Proceed) -> Handling:
    """DESCRIBE on each topic; CREATE on it, or on the cluster, to have it made."""
    request, asked = call.request, call.request.topics
    is_all = asked is None or (call.version == 0 and not asked)
    kept: list[Any] = []
    refused: list[Values] = []
    if not is_all:
        for one in asked or ():
            hidden = _hidden(call, one)
            if hidden is None:
                kept.append(one)
            else:
                refused.append(hidden)
        if refused and (kept or call.version > 0):  # none asks for all in version 0
            call.request = replace(request, topics=tuple(kept))
    answer = cast("Values", (yield from advanced(proceed(call))))
    topics: Iterable[Values] = answer["topics"] if kept or is_all else ()
    if is_all:
        topics = [one for one in topics if may(call, DESCRIBE, TOPIC, one["name"])]
    told = [_with_operations(call, one) for one in topics]
    return _cluster_operations(call, {**answer, "topics": [*told, *refused]})


def _hidden(call: Call, one: Any) -> Values | None:
    """The answer to who may not describe a topic, or not have it made; None if all is well."""
    if call.version < WITH_IDS:
        name, topic_id = one.name, None
    else:
        topic_id = one.topic_id
        name = one.name if topic_id is None else name_of(call, topic_id)
    if name is None or (may(call, DESCRIBE, TOPIC, name) and _may_have_it_made(call, name)):
        return None
    if topic_id is not None:
        return {"error_code": TOPIC_FAILED, "name": None, "topic_id": topic_id}
    return {"error_code": TOPIC_FAILED, "name": name, "is_internal": False}


def _may_have_it_made(call: Call, name: str) -> bool:
    """False if asking for a topic that is not there would make it, which the client may not."""
    node = call.broker.node
    makes = getattr(call.request, "allow_auto_topic_creation", True)
    if not makes or not node.auto_topics.config.auto_create_topics_enable:
        return True
    if name in node.metadata.topics or may_cluster(call, CREATE):
        return True
    return may(call, CREATE, TOPIC, name)


TOPIC_BITS, CLUSTER_BITS = "topic_authorized_operations", "cluster_authorized_operations"
GROUP_BITS = "authorized_operations"


def _with_operations(call: Call, topic: Values) -> Values:
    asks = getattr(call.request, "include_topic_authorized_operations", TOPIC_BITS in topic)
    if not asks or not topic["name"]:
        return topic
    return {**topic, TOPIC_BITS: operations_on(call, TOPIC, topic["name"])}


def _cluster_operations(call: Call, answer: Values) -> Values:
    if CLUSTER_BITS not in answer:
        return answer
    told = 0
    if may_cluster(call, DESCRIBE):
        told = operations_on(call, CLUSTER, CLUSTER_NAME)
    return {**answer, CLUSTER_BITS: told}


def _group_operations(call: Call, answer: Values) -> Values:
    def told(group: Values) -> Values:
        if group.get(GROUP_BITS, NOT_ASKED) == NOT_ASKED:
            return group
        return {**group, GROUP_BITS: operations_on(call, GROUP, group["group_id"])}

    return {**answer, "groups": [told(one) for one in answer["groups"]]}


def _described_pages(call: Call, proceed: Proceed) -> Result:
    """Of all topics those alone that the client may describe, so that no cursor names another."""
    if not call.request.topics:
        known = call.broker.node.metadata.topics
        call.denied = frozenset(one for one in known if not may(call, DESCRIBE, TOPIC, one))
    return proceed(call)


def _topic_operations(call: Call, answer: Values) -> Values:
    return {**answer, "topics": [_with_operations(call, one) for one in answer["topics"]]}


# Offsets of groups


BATCHED, GROUP_ERROR = 8, 2


def _offset_fetch(call: Call, proceed: Proceed) -> Handling:
    """DESCRIBE on each group, and on each topic."""
    request, is_batched = call.request, call.version >= BATCHED
    answers: list[Values] = []
    wanted: list[tuple[int, Any, list[Values]]] = []  # place, group, and what it may not see
    for place, group in enumerate(request.groups if is_batched else (request,)):
        answers.append({})
        if may(call, DESCRIBE, GROUP, group.group_id):
            wanted.append((place, *_without_unseen(call, group)))
        else:
            answers[place] = _refused_group(call, group)
    if wanted:
        groups = tuple(group for _, group, _ in wanted)
        call.request = replace(request, groups=groups) if is_batched else groups[0]
        answer = cast("Values", (yield from advanced(proceed(call))))
        told = answer["groups"] if is_batched else (answer,)
        for (place, group, unseen), one in zip(wanted, told, strict=True):
            answers[place] = _shown(call, group, one, unseen)
    return {"groups": answers} if is_batched else answers[0]


def _without_unseen(call: Call, group: Any) -> tuple[Any, list[Values]]:
    """A group with the topics alone that the client may describe, and answers for the others."""
    seen: list[Any] = []
    unseen: list[Values] = []
    for one in group.topics or ():
        resource = _topic_by_id(call, one)
        if resource is None or may(call, DESCRIBE, *resource):
            seen.append(one)
        else:
            unseen.append(_unseen(call, one, TOPIC_FAILED))
    return (replace(group, topics=tuple(seen)) if unseen else group), unseen


_unseen = _partitions("partition_indexes", committed_offset=-1, metadata="")


def _refused_group(call: Call, group: Any) -> Values:
    error = FAILED[GROUP]
    told: Values = {"group_id": group.group_id, "error_code": error}
    if call.version >= GROUP_ERROR or group.topics is None:
        return told
    return {**told, "topics": [_unseen(call, one, error) for one in group.topics]}


def _shown(call: Call, group: Any, answer: Values, unseen: list[Values]) -> Values:
    """A group's answer with the topics that the client may see, and errors for the others."""
    if answer.get("error_code") is not None:
        return answer
    topics = answer["topics"]
    if group.topics is None:
        topics = [one for one in topics if may(call, DESCRIBE, TOPIC, one["name"])]
    return {**answer, "topics": [*topics, *unseen]}


COORDINATORS: Mapping[int, ResourceType] = {0: GROUP, 1: TRANSACTIONAL_ID}
NOBODY: Values = {"node_id": -1, "host": "", "port": -1}
KEYS = 4


def _find_coordinator(call: Call, proceed: Proceed) -> Result:
    """DESCRIBE on each group or transactional id; CLUSTER_ACTION for those of share groups."""
    kind = COORDINATORS.get(getattr(call.request, "key_type", 0))
    if kind is None:
        return _SHARE_COORDINATORS(call, proceed)
    if call.version < KEYS:
        return Whole(DESCRIBE, kind, lambda call: call.request.key, _no_coordinator)(call, proceed)
    refused = _itself("key", error_message="", **NOBODY)
    return Each(
        "coordinator_keys", DESCRIBE, lambda call, key: (kind, key), refused, "coordinators"
    )(call, proceed)


def _no_coordinator(call: Call, error: str) -> Values:
    return {**_with_message(call, error), **NOBODY}


_SHARE_COORDINATORS = OnCluster((CLUSTER_ACTION,), _no_coordinator)


def _no_member(call: Call, error: str) -> Values:
    nothing = None if call.version >= 7 else ""
    return {"error_code": error, "generation_id": -1, "protocol_name": nothing, "members": ()}


def _subscribed(call: Call, proceed: Proceed) -> Result:
    """DESCRIBE on each topic that a member of a consumer group subscribes to."""
    names = call.request.subscribed_topic_names or ()
    if all(may(call, DESCRIBE, TOPIC, one) for one in names):
        return proceed(call)
    return {"error_code": TOPIC_FAILED}


_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def _described_members(call: Call, answer: Values) -> Values:
    """A group one of whose members has a topic that the client may not describe is not shown."""

    def told(group: Values) -> Values:
        topics = {
            topic["topic_name"]
            for member in group.get("members", ())
            for kind in ("assignment", "target_assignment")
            for topic in member.get(kind, {}).get("topic_partitions", ())
        }
        if all(may(call, DESCRIBE, TOPIC, one) for one in topics):
            return group
        hidden = {"error_code": TOPIC_FAILED, "error_message": _HIDDEN_TOPICS, "members": ()}
        return {**group, **hidden}

    return {**answer, "groups": [told(one) for one in answer["groups"]]}


# Topics that are made


def _made_configs(call: Call, answer: Values) -> Values:
    """Hide the resolved defaults from clients that may not describe configurations (KIP-525)."""

    def told(topic: Values) -> Values:
        if topic["error_code"] or may(call, DESCRIBE_CONFIGS, TOPIC, topic["name"]):
            return topic
        return {
            **{one: topic[one] for one in ("name", "topic_id", "error_code", "error_message")},
            "topic_config_error_code": code(TOPIC_FAILED),
        }

    return {**answer, "topics": [told(one) for one in answer["topics"]]}


# Transactions


def _init_producer_id(call: Call, proceed: Proceed) -> Result:
    """WRITE on a transactional id; IDEMPOTENT_WRITE, or WRITE on any topic, without (KIP-679)."""
    refused = {"producer_id": -1, "producer_epoch": -1}
    name = call.request.transactional_id
    if name is not None:
        if may(call, WRITE, TRANSACTIONAL_ID, name):
            return proceed(call)
        return {**refused, "error_code": TRANSACTIONAL_FAILED}
    authorizer, session = call.broker.node.authorizer, call.session
    if may_cluster(call, IDEMPOTENT_WRITE) or (
        authorizer is not None
        and authorizer.authorize_by_resource_type(
            session.principal, session.host, WRITE.value, TOPIC.value
        )
    ):
        return proceed(call)
    return {**refused, "error_code": FAILED[CLUSTER]}


BROKERS_ADD = 4


def _add_partitions(call: Call, proceed: Proceed) -> Result:
    """WRITE on the transactional id and each topic; CLUSTER_ACTION from brokers (KIP-890)."""
    if call.version >= BROKERS_ADD:
        return OnCluster((CLUSTER_ACTION,), _error)(call, proceed)
    request, known = call.request, call.broker.node.metadata.partitions
    topics = request.v3_and_below_topics
    if not may(call, WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return {_ADDED: [_not_added(call, one, TRANSACTIONAL_FAILED) for one in topics]}
    denied = {
        one.name
        for one in topics
        if one.name in INTERNAL_TOPICS or not may(call, WRITE, TOPIC, one.name)
    }
    if not denied:
        return proceed(call)

    def error(topic: str, number: int) -> str:
        if topic in denied:
            return TOPIC_FAILED
        exists = (topic, number) in known
        return "OPERATION_NOT_ATTEMPTED" if exists else "UNKNOWN_TOPIC_OR_PARTITION"

    return {
        _ADDED: [
            {
                "name": one.name,
                "results_by_partition": [
                    {"partition_index": n, "partition_error_code": error(one.name, n)}
                    for n in one.partitions
                ],
            }
            for one in topics
        ]
    }


_ADDED = "results_by_topic_v3_and_below"
_not_added = _partitions(error_code="partition_error_code", results="results_by_partition")


def _no_marker(call: Call, error: str) -> Values:
    of = _partitions("partition_indexes")
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [of(call, topic, error) for topic in marker.topics],
            }
            for marker in call.request.markers
        ]
    }


def _transaction_topics(call: Call, answer: Values) -> Values:
    """The topics of a transaction that the client may not describe are left out."""

    def told(state: Values) -> Values:
        topics = [o for o in state.get("topics", ()) if may(call, DESCRIBE, TOPIC, o["topic"])]
        return {**state, "topics": topics}

    return {**answer, "transaction_states": [told(one) for one in answer["transaction_states"]]}


# Requests about brokers and replicas


def _no_move(call: Call, error: str) -> Values:
    moved = _partitions(named=True)
    return {"responses": [moved(call, topic, error) for topic in call.request.topics]}


def _no_election(call: Call, error: str) -> Values:
    of = _partitions(index="partition_id", results="partition_result", named=True)
    topics = call.request.topic_partitions or ()
    return {"replica_election_results": [of(call, topic, error) for topic in topics]}


def _no_log_dir(call: Call, error: str) -> Values:
    of = _partitions()
    topics = [topic for one in call.request.dirs for topic in one.topics]
    return {"results": [{**of(call, one, error), "topic_name": one.name} for one in topics]}


def _no_quota(call: Call, one: Any, error: str) -> Values:
    entity = [{"entity_type": o.entity_type, "entity_name": o.entity_name} for o in one.entity]
    return {**_with_message(call, error), "entity": entity}


def _no_users(call: Call, error: str) -> Values:
    request = call.request
    users = [*request.deletions, *request.upsertions]
    return {"results": [{"user": one.name, **_with_message(call, error)} for one in users]}


def _no_described_users(call: Call, error: str) -> Values:
    told = _with_message(call, error)
    users = call.request.users or ()
    return {**told, "results": [{"user": one.name, **told} for one in users]}


def _no_acl(call: Call, element: Any, error: str) -> Values:
    return _with_message(call, error)


# Share groups (KIP-932)


def _group_of(call: Call, element: Any) -> Resource:
    return GROUP, element.group_id


def _topic_named(call: Call, element: Any) -> Resource:
    return TOPIC, element.topic_name


_shared = _partitions()
_no_state = _all_of("topics", "results", _partitions(index="partition", named=True))


def _offsets_of_shares(call: Call, topic: Any, error: str) -> Values:
    return {**_partitions(named=True)(call, topic, error), "topic_name": topic.topic_name}


def _share_offsets(call: Call, answer: Values) -> Values:
    """The offsets of topics that the client may describe; others that it named are refused."""
    named = {one.group_id: one.topics for one in call.request.groups}

    def told(group: Values) -> Values:
        topics = group.get("topics", ())
        seen = [one for one in topics if may(call, DESCRIBE, TOPIC, one["topic_name"])]
        wanted = () if group.get("error_code") else named[group["group_id"]] or ()
        refused = [
            _offsets_of_shares(call, one, "TOPIC_AUTHORIZATION_FAILED")
            for one in wanted
            if not may(call, DESCRIBE, TOPIC, one.topic_name)
        ]
        return {**group, "topics": [*seen, *refused]}

    return {**answer, "groups": [told(one) for one in answer["groups"]]}


def on_group(operation: Operation, refused: Any = _error) -> Whole:
    """An operation on the group of a request."""
    return Whole(operation, GROUP, _group, refused)


def on_transaction(refused: Any = _error) -> Whole:
    """WRITE on the transactional id of a request."""
    return Whole(WRITE, TRANSACTIONAL_ID, _transactional_id, refused)


def _name(field: str) -> Callable[[Any], str]:
    return lambda one: one[field]


_topics = _all_of("topics", "topics", _partitions())
_deleted = _element("name", "topic_id", named=True)


def _deleted_topic(call: Call, element: Any, error: str) -> Values:
    """Of a topic by id the name is told only to who may describe it."""
    if isinstance(element, str):
        return {"name": element, **_with_message(call, error)}
    name = element.name
    if name is None:
        resource = _topic_by_id(call, element)
        if resource is not None and may(call, DESCRIBE, *resource):
            name = resource[1]
    return {**_deleted(call, element, error), "name": name}


NOTHING: Sequence[AccessRule] = ()
"""The rules of an API that everybody may ask."""

RULES: Mapping[str, Sequence[AccessRule]] = {
    "Produce": (_produce_transaction, Denied(_produced_topics, WRITE)),
    "Fetch": (_fetch,),
    "ListOffsets": (
        Each("topics", DESCRIBE, _topic, _partitions(timestamp=-1, offset=-1), "topics"),
    ),
    "Metadata": (_metadata,),
    "OffsetCommit": (
        on_group(READ, _topics),
        Each("topics", READ, _topic_by_id, _partitions(), "topics"),
    ),
    "OffsetFetch": (_offset_fetch,),
    "FindCoordinator": (_find_coordinator,),
    "JoinGroup": (on_group(READ, _no_member),),
    "Heartbeat": (on_group(READ),),
    "LeaveGroup": (on_group(READ),),
    "SyncGroup": (on_group(READ),),
    "DescribeGroups": (
        Each("groups", DESCRIBE, _group_itself, _itself("group_id"), "groups"),
        Changed(_group_operations),
    ),
    "ListGroups": (Seen("groups", DESCRIBE, GROUP, _name("group_id"), or_cluster=DESCRIBE),),
    "SaslHandshake": NOTHING,
    "ApiVersions": NOTHING,
    "CreateTopics": (
        Each(
            "topics",
            CREATE,
            _creatable,
            _element("name", message="Authorization failed."),
            "topics",
            or_cluster=CREATE,
        ),
        Changed(_made_configs),
    ),
    "DeleteTopics": (
        Each("topic_names", DELETE, _deletable, _deleted_topic, "responses", or_cluster=DELETE),
        Each("topics", DELETE, _deletable, _deleted_topic, "responses", or_cluster=DELETE),
    ),
    "DeleteRecords": (Each("topics", DELETE, _topic, _partitions(low_watermark=-1), "topics"),),
    "InitProducerId": (_init_producer_id,),
    "OffsetForLeaderEpoch": (
        Each(
            "topics",
            DESCRIBE,
            _topic_of_epochs,
            _partitions(index="partition", leader_epoch=-1, end_offset=-1),
            "topics",
            or_cluster=CLUSTER_ACTION,
        ),
    ),
    "AddPartitionsToTxn": (_add_partitions,),
    "AddOffsetsToTxn": (on_transaction(), on_group(READ)),
    "EndTxn": (on_transaction(),),
    "WriteTxnMarkers": (OnCluster((ALTER, CLUSTER_ACTION), _no_marker),),
    "TxnOffsetCommit": (
        on_transaction(_topics),
        on_group(READ, _topics),
        Each("topics", READ, _topic, _partitions(), "topics"),
    ),
    "DescribeAcls": (OnCluster((DESCRIBE,), _with_message),),
    "CreateAcls": (OnCluster((ALTER,), _all_of("creations", "results", _no_acl)),),
    "DeleteAcls": (OnCluster((ALTER,), _all_of("filters", "filter_results", _no_acl)),),
    "DescribeConfigs": (
        Each(
            "resources",
            DESCRIBE_CONFIGS,
            _configured,
            _element("resource_type", "resource_name", named=True),
            "results",
        ),
    ),
    "AlterConfigs": (
        Each(
            "resources",
            ALTER_CONFIGS,
            _configured,
            _element("resource_type", "resource_name", named=True),
            "responses",
        ),
    ),
    "AlterReplicaLogDirs": (OnCluster((ALTER,), _no_log_dir),),
    "DescribeLogDirs": (OnCluster((DESCRIBE,), _error),),
    "SaslAuthenticate": NOTHING,
    "CreatePartitions": (Each("topics", ALTER, _topic, _element("name"), "results"),),
    "DeleteGroups": (Each("groups_names", DELETE, _group_itself, _itself("group_id"), "results"),),
    "ElectLeaders": (OnCluster((ALTER,), _and_error(_no_election, message=False)),),
    "IncrementalAlterConfigs": (
        Each(
            "resources",
            ALTER_CONFIGS,
            _configured,
            _element("resource_type", "resource_name", named=True),
            "responses",
        ),
    ),
    "AlterPartitionReassignments": (OnCluster((ALTER,), _and_error(_no_move)),),
    "ListPartitionReassignments": (OnCluster((DESCRIBE,), _with_message),),
    "OffsetDelete": (
        on_group(DELETE),
        Each("topics", READ, _topic, _partitions(), "topics"),
    ),
    "DescribeClientQuotas": (OnCluster((DESCRIBE_CONFIGS,), _with_message),),
    "AlterClientQuotas": (OnCluster((ALTER_CONFIGS,), _all_of("entries", "entries", _no_quota)),),
    "DescribeUserScramCredentials": (OnCluster((DESCRIBE,), _no_described_users),),
    "AlterUserScramCredentials": (OnCluster((ALTER,), _no_users),),
    "DescribeQuorum": (OnCluster((DESCRIBE,), _error),),
    "UpdateFeatures": (OnCluster((ALTER,), _with_message),),
    "DescribeCluster": (Changed(_cluster_operations),),
    "DescribeProducers": (
        Each("topics", READ, _topic, _partitions("partition_indexes", named=True), "topics"),
    ),
    "UnregisterBroker": (OnCluster((ALTER,), _with_message),),
    "DescribeTransactions": (
        Each(
            "transactional_ids",
            DESCRIBE,
            _transactional_itself,
            _itself("transactional_id"),
            "transaction_states",
        ),
        Changed(_transaction_topics),
    ),
    "ListTransactions": (
        Seen("transaction_states", DESCRIBE, TRANSACTIONAL_ID, _name("transactional_id")),
    ),
    "ConsumerGroupHeartbeat": (on_group(READ), _subscribed),
    "ConsumerGroupDescribe": (
        Each("group_ids", DESCRIBE, _group_itself, _itself("group_id"), "groups"),
        Changed(_described_members),
        Changed(_group_operations),
    ),
    "GetTelemetrySubscriptions": NOTHING,
    "PushTelemetry": NOTHING,
    "ShareGroupHeartbeat": (on_group(READ), _subscribed),
    "ShareGroupDescribe": (
        Each("group_ids", DESCRIBE, _group_itself, _itself("group_id"), "groups"),
        Changed(_described_members),
        Changed(_group_operations),
    ),
    "ShareFetch": (
        on_group(READ),
        Each("topics", READ, _topic_by_id, _shared, "responses", whole_first=True),
    ),
    "ShareAcknowledge": (
        on_group(READ),
        Each("topics", READ, _topic_by_id, _shared, "responses", whole_first=True),
    ),
    "InitializeShareGroupState": (OnCluster((CLUSTER_ACTION,), _no_state),),
    "ReadShareGroupState": (OnCluster((CLUSTER_ACTION,), _no_state),),
    "WriteShareGroupState": (OnCluster((CLUSTER_ACTION,), _no_state),),
    "DeleteShareGroupState": (OnCluster((CLUSTER_ACTION,), _no_state),),
    "ReadShareGroupStateSummary": (OnCluster((CLUSTER_ACTION,), _no_state),),
    "DescribeShareGroupOffsets": (
        Each("groups", DESCRIBE, _group_of, _element("group_id", named=True), "groups"),
        Changed(_share_offsets),
    ),
    "AlterShareGroupOffsets": (
        on_group(READ),
        Each("topics", READ, _topic_named, _offsets_of_shares, "responses", whole_first=True),
    ),
    "DeleteShareGroupOffsets": (
        on_group(DELETE),
        Each(
            *("topics", READ, _topic_named, _element("topic_name", named=True), "responses"),
            whole_first=True,
        ),
    ),
    "ListConfigResources": (OnCluster((DESCRIBE_CONFIGS,), _error),),
    "DescribeTopicPartitions": (
        Each("topics", DESCRIBE, _topic, _element("name"), "topics"),
        _described_pages,
        Changed(_topic_operations),
    ),
}
"""By the name of each API."""


@cache
def authorized(key: int) -> Proceed:
    """The handler of an API behind its rules; by its key, which is hashed at once."""
    api = APIS[key]
    return chained(RULES[api.name], api.handle)
