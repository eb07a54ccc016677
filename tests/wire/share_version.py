"""Share groups switched off and on again by UpdateFeatures, of any broker."""

from typing import Any

from tests.wire.asking import TIMEOUT
from tests.wire.client import Client

SHARE_VERSION, REFUSED = "share.version", "UNSUPPORTED_VERSION"
MEMBER = "A" * 22
OF_MEMBER: dict[str, Any] = {
    "group_id": "g",
    "member_id": MEMBER,
    "share_session_epoch": 0,
    "topics": [],
}
REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "ShareGroupHeartbeat": (
        1,
        {
            **{"group_id": "g", "member_id": MEMBER, "member_epoch": 0, "rack_id": None},
            "subscribed_topic_names": ["t"],
        },
    ),
    "ShareGroupDescribe": (
        1,
        {"group_ids": ["g", "h"], "include_authorized_operations": True},
    ),
    "ShareFetch": (1, {**OF_MEMBER, "forgotten_topics_data": [], "max_records": 1}),
    "ShareAcknowledge": (1, {**OF_MEMBER, "share_session_epoch": 1}),
    "DescribeShareGroupOffsets": (
        0,
        {"groups": [{"group_id": one, "topics": None} for one in ("g", "h")]},
    ),
    "AlterShareGroupOffsets": (0, {"group_id": "g", "topics": []}),
    "DeleteShareGroupOffsets": (0, {"group_id": "g", "topics": []}),
}


def without_share_groups(port: int, controller: int) -> dict[str, Any]:
    """Errors and messages of each API at level 0, the levels announced, and a heartbeat after."""
    with Client.connect(port) as client, Client.connect(controller) as changing:

        def update(level: int, kind: int) -> None:
            one = {"feature": SHARE_VERSION, "max_version_level": level, "upgrade_type": kind}
            asked = {"timeout": TIMEOUT, "feature_updates": [one], "validate_only": False}
            assert changing.ask("UpdateFeatures", 2, asked)["error_code"] == "NONE"

        def is_on() -> bool:
            asked = {"client_software_name": "x", "client_software_version": "1"}
            answer = client.ask("ApiVersions", 4, asked)
            return SHARE_VERSION in {one["name"] for one in answer["finalized_features"]}

        levels = [is_on()]
        update(0, 2)
        while is_on():
            pass
        levels.append(is_on())
        found: dict[str, Any] = {}
        for name, (version, values) in REQUESTS.items():
            answer = client.ask(name, version, values)
            parts = answer.get("groups", [answer])
            found[name] = [(one["error_code"], one.get("error_message")) for one in parts]
        update(1, 1)
        while not is_on():
            pass
        version, values = REQUESTS["ShareGroupHeartbeat"]
        error = client.ask("ShareGroupHeartbeat", version, values)["error_code"]
        while error in (
            "COORDINATOR_NOT_AVAILABLE",
            "COORDINATOR_LOAD_IN_PROGRESS",
            "NOT_COORDINATOR",
        ):
            client.ask("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})
            error = client.ask("ShareGroupHeartbeat", version, values)["error_code"]
        return {**found, "levels": [*levels, is_on()], "served again": error}
