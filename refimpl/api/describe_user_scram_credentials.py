"""DescribeUserScramCredentials: mechanisms and iterations of users, and no secret (KIP-554)."""

from collections import Counter

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Values
from refimpl.api.permissions import DESCRIBE, with_message
from refimpl.security.scram import BY_NAME

ABSENT = "Attempt to describe a user credential that does not exist: "
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "


def handle(call: Call) -> Values:
    """The users that a request names, or all of them."""
    known = call.broker.node.metadata.scram
    times = Counter(one.name for one in call.request.users or ())
    return {
        "error_code": None,
        "error_message": "",
        "results": [_result(call, user, times[user]) for user in times or known],
    }


def _result(call: Call, user: str, times: int) -> Values:
    credentials = call.broker.node.metadata.scram.get(user)
    if times > 1:
        return {
            "user": user,
            "error_code": "DUPLICATE_RESOURCE",
            "error_message": f"{TWICE}{user}",
        }
    if not credentials:
        return {
            "user": user,
            "error_code": "RESOURCE_NOT_FOUND",
            "error_message": f"{ABSENT}{user}",
        }
    return {
        "user": user,
        "error_code": None,
        "credential_infos": [
            {"mechanism": BY_NAME[name].number, "iterations": one.iterations}
            for name, one in sorted(credentials.items())
        ],
    }


def _no_described_users(call: Call, error: str) -> Values:
    refusal = with_message(call, error)
    users = call.request.users or ()
    return {**refusal, "results": [{"user": one.name, **refusal} for one in users]}


PERMISSIONS = (OnCluster((DESCRIBE,), _no_described_users),)
