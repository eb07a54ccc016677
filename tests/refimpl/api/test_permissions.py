"""Each API that is announced says what it asks of whom."""

import pytest

from refimpl.api.permissions import NOTHING
from refimpl.api.table import APIS, Api


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_every_announced_api_says_what_it_asks_of_whom(api: Api) -> None:
    assert all(callable(rule) for rule in api.permissions)


def test_anybody_may_ask_for_a_login_and_what_is_served_alone() -> None:
    open_ = {api.name for api in APIS.values() if api.permissions is NOTHING}
    logins = {"SaslHandshake", "SaslAuthenticate", "ApiVersions"}
    assert open_ == logins | {"GetTelemetrySubscriptions", "PushTelemetry"}
    assert all(api.permissions for api in APIS.values() if api.name not in open_)
