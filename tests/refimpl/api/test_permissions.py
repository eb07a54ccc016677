"""The table of permissions has a row for each API that is announced."""

from refimpl.api.permissions import NOTHING, RULES
from refimpl.api.table import APIS


def test_every_announced_api_says_what_it_asks_of_whom() -> None:
    assert {one.name for one in APIS.values()} - RULES.keys() == set()


def test_anybody_may_ask_for_a_login_and_what_is_served_alone() -> None:
    open_ = {name for name, rules in RULES.items() if rules is NOTHING}
    logins = {"SaslHandshake", "SaslAuthenticate", "ApiVersions"}
    assert open_ == logins | {"GetTelemetrySubscriptions", "PushTelemetry"}
