"""The words in which an API says its permissions: resources, operations, and answers that refuse.

Each module of this folder ends with its `PERMISSIONS`, the rules that a request passes before its
handler (KIP-11). They are those of Kafka 4.3's KafkaApis and ControllerApis, in their order.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from refimpl.api.authorization import (
    FAILED,
    AccessRule,
    Changed,
    Each,
    OnCluster,
    Proceed,
    Resource,
    Result,
    Whole,
    may,
    may_cluster,
    operations_on,
)
from refimpl.api.call import Call, Values
from refimpl.api.groups import NOT_ASKED, name_of
from refimpl.security.acls import CLUSTER_NAME, Operation, ResourceType

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

NOTHING: Sequence[AccessRule] = ()
"""The permissions of an API that everybody may ask."""


# Resources


def named_topic(call: Call, element: Any) -> Resource:
    """The topic that an element names."""
    return TOPIC, element.name


def topic_of_shares(call: Call, element: Any) -> Resource:
    """The topic that an element of a request about a share group names."""
    return TOPIC, element.topic_name


def topic_by_id(call: Call, element: Any) -> Resource | None:
    """A topic that may be named by its id; None for an id that no topic has."""
    topic_id = getattr(element, "topic_id", None)
    name = getattr(element, "name", None) if topic_id is None else name_of(call, topic_id)
    return None if name is None else (TOPIC, name)


def group_itself(call: Call, element: str) -> Resource:
    """The group of which an element is the id."""
    return GROUP, element


# Answers that refuse


def with_error(call: Call, error: str) -> Values:
    """The error of the whole request."""
    return {"error_code": error}


def with_message(call: Call, error: str) -> Values:
    """The same, with Kafka's words."""
    return {"error_code": error, "error_message": MESSAGES[error]}


def refused_element(*fields: str, message: str | None = None, named: bool = False) -> Any:
    """An element's answer: its error, and fields that it has in common with the element."""

    def refused(call: Call, element: Any, error: str) -> Values:
        text = MESSAGES[error] if named else message
        same = {one: getattr(element, one, None) for one in fields}
        return {**same, "error_code": error, "error_message": text}

    return refused


def refused_name(field: str, **more: Any) -> Any:
    """The answer to an element that is a name."""

    def refused(call: Call, element: str, error: str) -> Values:
        return {field: element, "error_code": error, **more}

    return refused


def refused_partitions(
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
        answer = {error_code: error, **more}
        if named:
            answer["error_message"] = MESSAGES[error]
        same = {one: getattr(topic, one, None) for one in ("name", "topic", "topic_id")}
        return {**same, results: [{index: number, **answer} for number in numbers]}

    return refused


def refused_offsets_of_shares(call: Call, topic: Any, error: str) -> Values:
    """The answer about a topic's offsets in a share group."""
    return {**refused_partitions(named=True)(call, topic, error), "topic_name": topic.topic_name}


def refused_all(field: str, answers: str, one: Any, **more: Any) -> Any:
    """A refusal of the whole request in the answer to each of its elements."""

    def refused(call: Call, error: str) -> Values:
        elements = getattr(call.request, field) or ()
        return {**more, answers: [one(call, element, error) for element in elements]}

    return refused


refused_topics = refused_all("topics", "topics", refused_partitions())
"""A refusal of the whole request in the answer to each partition."""


def refused_acl(call: Call, element: Any, error: str) -> Values:
    """The answer about one access control list."""
    return with_message(call, error)


def with_request_error(refused: Any, *, message: bool = True) -> Any:
    """A refusal of elements, and the error of the request itself."""

    def both(call: Call, error: str) -> Values:
        return {**(with_message if message else with_error)(call, error), **refused(call, error)}

    return both


# Rules of several APIs


def on_group(operation: Operation, refused: Any = with_error) -> Whole:
    """An operation on the group of a request."""
    return Whole(operation, GROUP, lambda call: call.request.group_id, refused)


def on_transaction(refused: Any = with_error) -> Whole:
    """WRITE on the transactional id of a request."""
    return Whole(WRITE, TRANSACTIONAL_ID, lambda call: call.request.transactional_id, refused)


ON_SHARE_STATE = OnCluster(
    (CLUSTER_ACTION,),
    refused_all("topics", "results", refused_partitions(index="partition", named=True)),
)
"""The state of share groups is for brokers alone (KIP-932)."""


def on_configs(operation: Operation, answers: str) -> Each:
    """An operation on the resources of configurations: topics and groups, or else the cluster."""
    refused = refused_element("resource_type", "resource_name", named=True)
    return Each("resources", operation, _configured, refused, answers)


_BY_CONFIG_TYPE: Mapping[int, ResourceType] = {
    **{2: TOPIC, 32: GROUP},
    **dict.fromkeys((4, 8, 16), CLUSTER),  # brokers, their loggers, client metrics
}


def _configured(call: Call, element: Any) -> Resource | None:
    kind = _BY_CONFIG_TYPE.get(element.resource_type)
    if kind is None:
        return None
    return kind, CLUSTER_NAME if kind is CLUSTER else element.resource_name


def sees_subscribed_topics(call: Call, proceed: Proceed) -> Result:
    """DESCRIBE on each topic that a member of a group subscribes to."""
    names = call.request.subscribed_topic_names or ()
    if all(may(call, DESCRIBE, TOPIC, one) for one in names):
        return proceed(call)
    return {"error_code": TOPIC_FAILED}


# Answers that say what a client may do, or leave out what it may not see


_TOPIC_BITS, _CLUSTER_BITS = "topic_authorized_operations", "cluster_authorized_operations"
_GROUP_BITS = "authorized_operations"
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


def with_topic_operations(call: Call, topic: Values) -> Values:
    """A topic's answer with the operations on it, where the client asks for them (KIP-430)."""
    asks = getattr(call.request, "include_topic_authorized_operations", _TOPIC_BITS in topic)
    if not asks or not topic["name"]:
        return topic
    return {**topic, _TOPIC_BITS: operations_on(call, TOPIC, topic["name"])}


def with_cluster_operations(call: Call, answer: Values) -> Values:
    """An answer with the operations on the cluster, where the client asks for them."""
    if _CLUSTER_BITS not in answer:
        return answer
    seen = may_cluster(call, DESCRIBE)
    return {**answer, _CLUSTER_BITS: operations_on(call, CLUSTER, CLUSTER_NAME) if seen else 0}


def _with_group_operations(call: Call, answer: Values) -> Values:
    def shown(group: Values) -> Values:
        if group.get(_GROUP_BITS, NOT_ASKED) == NOT_ASKED:
            return group
        return {**group, _GROUP_BITS: operations_on(call, GROUP, group["group_id"])}

    return {**answer, "groups": [shown(one) for one in answer["groups"]]}


def _without_hidden_topics(call: Call, answer: Values) -> Values:
    """A group one of whose members has a topic that the client may not describe is not shown."""

    def shown(group: Values) -> Values:
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

    return {**answer, "groups": [shown(one) for one in answer["groups"]]}


DESCRIBED_GROUPS = Changed(_with_group_operations)
"""Groups with the operations on each, where the client asks for them."""
DESCRIBED_MEMBERS = Changed(_without_hidden_topics)
"""Groups whose members have no topic that the client may not describe."""
