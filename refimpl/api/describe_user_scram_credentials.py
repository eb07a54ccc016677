"""DescribeUserScramCredentials: there are none, for nobody logs in (KIP-554)."""

from refimpl.api.call import Call, Values


def handle(call: Call) -> Values:
    """Nobody, and of each user who is asked for by name that there is no such one."""
    says = "Attempt to describe a user credential that does not exist: "
    return {
        "error_code": None,
        "error_message": "",
        "results": [
            {"user": one.name, "error_code": "RESOURCE_NOT_FOUND", "error_message": says + one.name}
            for one in call.request.users or ()
        ],
    }
