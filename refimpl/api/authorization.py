"""The authorization of a request, in one place between its bytes and the handler of its API.

Each API's module names the rules below that a request passes. A rule gets the call and what is to
follow. It refuses the request as a whole, or takes out of it what the client may not touch and puts
that into the answer with an error, or leaves out of the answer what the client may not see. Without
an authorizer no rule is asked.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from types import GeneratorType
from typing import Any, Protocol, TypeAlias, cast

from attrs import frozen

from refimpl.api.call import Answer, Call, Handling, Values
from refimpl.named import named
from refimpl.security.acls import CLUSTER_NAME, Operation, ResourceType
from refimpl.security.authorizer import Asked, Authorizer

_TOPIC = ResourceType.TOPIC
"""Looked up once: each look-up of an enumeration's member costs as much as a call."""

Result: TypeAlias = Answer | Handling
Proceed: TypeAlias = Callable[[Call], Result]
"""The rules that follow, and the handler behind them."""


class AccessRule(Protocol):
    """A part of what an API asks for."""

    def __call__(self, call: Call, proceed: Proceed) -> Result:
        """Answer, or proceed with what is allowed."""
        ...


FAILED: Mapping[ResourceType, str] = {
    ResourceType.TOPIC: "TOPIC_AUTHORIZATION_FAILED",
    ResourceType.GROUP: "GROUP_AUTHORIZATION_FAILED",
    ResourceType.CLUSTER: "CLUSTER_AUTHORIZATION_FAILED",
    ResourceType.TRANSACTIONAL_ID: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}
"""The error of a resource on which something is not allowed."""


def authorizer_of(call: Call) -> Authorizer:
    """The authorizer, which there is wherever a rule is asked."""
    authorizer = call.broker.node.authorizer
    assert authorizer is not None
    return authorizer


def may(call: Call, operation: Operation, type: ResourceType, name: str) -> bool:
    """True if the client may do that."""
    session = call.session
    asked = session.principal, session.host, operation, type, name
    return authorizer_of(call).authorize(named(Asked, asked))


def may_cluster(call: Call, operation: Operation) -> bool:
    """True if the client may do that to the cluster."""
    return may(call, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def operations_on(call: Call, type: ResourceType, name: str) -> int:
    """The operations on a resource that the client may do, as bits (KIP-430)."""
    session = call.session
    return authorizer_of(call).operations(session.principal, session.host, type, name)


def advanced(result: Result) -> Generator[Any, Any, Answer]:
    """The answer of what may still have to ask its node."""
    if isinstance(result, GeneratorType):
        return (yield from cast("Handling", result))
    return cast("Answer", result)


def chained(rules: Sequence[AccessRule], handle: Proceed) -> Proceed:
    """A handler behind the rules of its API, the first of which is asked first."""
    for rule in reversed(rules):
        handle = _before(rule, handle)
    return handle


def _before(rule: AccessRule, proceed: Proceed) -> Proceed:
    return lambda call: rule(call, proceed)


# Rules of the request as a whole

Refused: TypeAlias = Callable[[Call, str], Answer]
"""The answer to a request that is refused with this error."""


@frozen
class Whole:
    """One operation on one resource, or the request is refused."""

    operation: Operation
    type: ResourceType
    name: Callable[[Call], str | None]
    refused: Refused

    def __call__(self, call: Call, proceed: Proceed) -> Result:
        """Refuse, or proceed; a resource without a name is none."""
        name = self.name(call)
        if name is None or may(call, self.operation, self.type, name):
            return proceed(call)
        return self.refused(call, FAILED[self.type])


@frozen
class OnCluster:
    """One of these operations on the cluster, or the request is refused."""

    operations: tuple[Operation, ...]
    refused: Refused

    def __call__(self, call: Call, proceed: Proceed) -> Result:
        """Refuse, or proceed."""
        if any(may_cluster(call, one) for one in self.operations):
            return proceed(call)
        return self.refused(call, FAILED[ResourceType.CLUSTER])


# Rules of parts of the request

Resource: TypeAlias = tuple[ResourceType, str]


@frozen
class Each:
    """One operation on the resource of each element of a field; the others get an error.

    An element without a resource passes, for the handler has an error for it. If nothing is left,
    the handler is not asked.
    """

    field: str
    operation: Operation
    resource: Callable[[Call, Any], Resource | None]
    refused: Callable[[Call, Any, str], Values]
    answers: str
    #: An operation on the cluster that allows all of it
    or_cluster: Operation | None = None
    #: The handler is always asked, and an error of the whole request is told alone
    whole_first: bool = False

    def __call__(self, call: Call, proceed: Proceed) -> Result:
        """Proceed with what is allowed."""
        elements = getattr(call.request, self.field, None)
        if not elements or (self.or_cluster and may_cluster(call, self.or_cluster)):
            return proceed(call)
        kept: list[Any] = []
        refused: list[Values] = []
        for one in elements:
            resource = self.resource(call, one)
            if resource is None or may(call, self.operation, *resource):
                kept.append(one)
            else:
                refused.append(self.refused(call, one, FAILED[resource[0]]))
        if not refused:
            return proceed(call)
        if not kept and not self.whole_first:
            return {self.answers: refused}
        call.request = replace(call.request, **{self.field: tuple(kept)})
        return self._merged(call, proceed, refused)

    def _merged(self, call: Call, proceed: Proceed, refused: list[Values]) -> Handling:
        answer = cast("Values", (yield from advanced(proceed(call))))
        if self.answers not in answer or (self.whole_first and answer.get("error_code")):
            return answer  # refused as a whole
        return {**answer, self.answers: (*answer[self.answers], *refused)}


@frozen
class Seen:
    """A rule that leaves elements out of the answer that the client may not see."""

    field: str
    operation: Operation
    type: ResourceType
    name: Callable[[Any], str]
    or_cluster: Operation | None = None

    def __call__(self, call: Call, proceed: Proceed) -> Result:
        """Leave it out."""
        if self.or_cluster and may_cluster(call, self.or_cluster):
            return proceed(call)
        return self._filtered(call, proceed)

    def _filtered(self, call: Call, proceed: Proceed) -> Handling:
        answer = cast("Values", (yield from advanced(proceed(call))))
        seen = [
            one
            for one in answer.get(self.field, ())
            if may(call, self.operation, self.type, self.name(one))
        ]
        return {**answer, self.field: seen}


@frozen
class Changed:
    """A function of the answer, for what an answer tells of what the client may do."""

    change: Callable[[Call, Values], Values]

    def __call__(self, call: Call, proceed: Proceed) -> Handling:
        """Change the answer."""
        answer = yield from advanced(proceed(call))
        return self.change(call, cast("Values", answer))


@frozen
class Denied:
    """The topics of records that may not be touched: handlers with codecs of their own answer."""

    topics: Callable[[Call], Iterable[str]]
    operation: Operation

    def __call__(self, call: Call, proceed: Proceed) -> Result:
        """Name them in the call."""
        operation = self.operation
        denied: list[str] = []
        for name in self.topics(call):
            if not may(call, operation, _TOPIC, name):
                denied.append(name)
        if denied:
            call.denied = frozenset(denied)
        return proceed(call)
