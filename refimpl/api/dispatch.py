"""From the bytes of a request to those of its response, by the handler of its API."""

from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import Any, TypeAlias

from refimpl.api import api_versions, share_version
from refimpl.api.call import Answer, Call, Handling, Served, Session, Spent
from refimpl.api.table import APIS, Api
from refimpl.wire.errors import UnsupportedVersion
from refimpl.wire.framing import Buffer, frame
from refimpl.wire.headers import read_api, read_client_id, response_header
from refimpl.wire.messages import API_VERSIONS, is_flexible, read_request, write_response

THROTTLE_TIME = "throttle_time"
"""The field of responses, where they have it, by kio's name."""

Respond: TypeAlias = Callable[[list[Buffer] | None], None]
"""Takes the parts of a response's frame, or None where the client expects no response."""


def served(data: Buffer) -> Api:
    """The API of a request. Raises UnsupportedVersion, MalformedRequest."""
    key, version, _ = read_api(data)
    api = APIS.get(key)
    if api is None or not (api.first <= version <= api.last or key == API_VERSIONS):
        raise UnsupportedVersion(key, version)
    return api


def dispatch(
    broker: Served,
    api: Api,
    data: Buffer,
    session: Session,
    respond: Respond,
    mute: Callable[[int], None],
    change: Callable[[Answer], Answer] | None = None,
    connection: int = 0,
) -> None:
    """Handle one request; `respond` is called once, now or later.

    Before that `mute` is, with a time in ms, if the client is above a quota. A fault may `change`
    the answer. Where there is an authorizer, the permissions of the API come before its handler.

    Raises MalformedRequest before anything is done.
    """
    key, version, correlation_id = read_api(data)
    if version > api.last or version < 0:
        respond(from_the_future(correlation_id))
        return
    flexible = is_flexible(key, version)
    client_id, body = read_client_id(data, flexible=flexible)
    codec = api.codec
    if codec is None:
        request = read_request(key, version, data, body)
    else:
        request = codec(data, body, version)
    call = Call(broker, key, version, request, client_id, session, size=len(data))
    call.connection = connection
    if broker.node.metadata.quotas:
        call.spent = Spent(broker.elapsed_ns)
        call.spent.begin()
    head = response_header(correlation_id, flexible=flexible and key != API_VERSIONS)

    def done(answer: Answer) -> None:
        if codec is None and call.spent is not None:  # codecs of our own have said it by now
            call.count_request()
        if call.throttle_ms:
            mute(call.throttle_ms)
            if isinstance(answer, Mapping):
                answer = {**answer, THROTTLE_TIME: call.throttle_ms}
        if change is not None:
            answer = change(answer)
        if answer is None:
            respond(None)
        elif isinstance(answer, list):
            respond(frame(head, answer))
        else:
            respond(frame(head, [write_response(key, version, answer)]))

    try:
        handle = api.handle if broker.node.authorizer is None else api.authorized
        result: Answer | Handling = share_version.refused(call) or handle(call)
        if isinstance(result, GeneratorType):
            _advance(call, result, None, done)
        else:
            done(result)  # type: ignore[arg-type]
    finally:
        if call.spent is not None:
            call.spent.end()


def _advance(call: Call, handling: Handling, heard: Any, done: Callable[[Answer], None]) -> None:
    """Let a handler go on to its next question to the node, or to its end."""
    try:
        body = handling.send(heard)
    except StopIteration as end:
        done(end.value)
        return
    call.broker.ask(body, lambda answer: _resume(call, handling, answer, done))


def _resume(call: Call, handling: Handling, heard: Any, done: Callable[[Answer], None]) -> None:
    """Go on with a handler, whose time counts again if it had to wait."""
    begins = call.spent is not None and call.spent.begin()
    try:
        _advance(call, handling, heard, done)
    finally:
        if begins and call.spent is not None:
            call.spent.end()


def from_the_future(correlation_id: int) -> list[Buffer]:
    """The one answer whose version is not that of the request (KIP-511)."""
    body = write_response(API_VERSIONS, api_versions.UNSUPPORTED_BODY, api_versions.unsupported())
    return frame(response_header(correlation_id, flexible=False), [body])
