"""AlterUserScramCredentials: keep and forget credentials of users (KIP-554)."""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import refused
from refimpl.api.permissions import ALTER, with_message
from refimpl.messages.controller import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
)


def handle(call: Call) -> Handling:
    """Have the controller keep them."""
    request = call.request
    body = AlterUserScramCredentialsRequest(
        [ScramDeletion(one.name, one.mechanism) for one in request.deletions],
        [
            ScramUpsertion(
                *(one.name, one.mechanism, one.iterations),
                *(bytes(one.salt), bytes(one.salted_password)),
            )
            for one in request.upsertions
        ],
    )
    answer: Any = yield body
    if failure := refused(answer):
        users = dict.fromkeys(one.user for one in (*body.deletions, *body.upsertions))
        answer = AlterUserScramCredentialsResponse([ScramResult(one, *failure) for one in users])
    return {
        "results": [
            {"user": one.user, "error_code": one.error, "error_message": one.message}
            for one in answer.users
        ]
    }


def _no_users(call: Call, error: str) -> Values:
    request = call.request
    users = [*request.deletions, *request.upsertions]
    return {"results": [{"user": one.name, **with_message(call, error)} for one in users]}


PERMISSIONS = (OnCluster((ALTER,), _no_users),)
