"""A controller whose write is refused by surprise reads everything again, in its own epoch."""

import pytest

from chaos.sim.settings import Settings
from chaos.sim.synchronous import CLIENT, StoredCluster
from chaos.simulator import build
from properties.mutants.catalogue import Edit, Mutant, applied
from refimpl.controller.controller import Controller
from refimpl.controller.state import ControllerConfig
from refimpl.messages import controller as c
from refimpl.metadata import contract
from refimpl.metadata.embedded import Connect, Frame, SessionConnection

QUOTA = (("producer_byte_rate", 5.0),)


def cluster() -> StoredCluster:
    made = StoredCluster(ControllerConfig(leader_imbalance_check_interval_ms=0))
    for broker in (1, 2, 3):
        made.start(broker)
    return made


def acting(made: StoredCluster) -> Controller:
    assert made.acting is not None
    assert made.acting.controller is not None
    return made.acting.controller


def alter_quota(made: StoredCluster, client: str | None) -> object:
    entity = (("user", "user-1"), ("client-id", client))
    return made.ask(c.AlterClientQuotasRequest((c.QuotaAlteration(entity, QUOTA),)))


def intrude(made: StoredCluster, path: str) -> None:
    """Somebody else writes what only the controller should."""
    connection = SessionConnection(9 * CLIENT, 1)
    write = contract.Create(path, b"")
    for number, body in enumerate((Connect(0, 600_000), contract.StoreRequest(1, write)), 1):
        made.store.handle(made.now, Frame(connection, number, body))


def keeps_quotas_of_several_clients() -> None:
    made = cluster()
    before = acting(made)
    for client in (None, "app", "another"):
        alter_quota(made, client)
    assert acting(made) is before
    assert len(made.candidates[3].metadata.quotas) == 3


def goes_on_above_what_it_told() -> None:
    made = cluster()
    for name in ("t", "u"):
        made.ask(c.CreateTopicsRequest((c.CreatableTopic(name, 1, 2),)))
    before = acting(made)
    told = before.metadata.metadata_version
    intrude(made, "/config/users/user-1")
    alter_quota(made, None)
    after = acting(made)
    assert after is not before
    assert after.controller_epoch == before.controller_epoch
    assert after.metadata.metadata_version > told


def a_pinned_run_ends_well() -> None:
    """Quotas of a user's clients, again and again, while topics come and go."""
    run = build(Settings.draw(1041, transactions=False, share_members=0)).go()
    assert run.violation is None, run.violation


RULES = keeps_quotas_of_several_clients, goes_on_above_what_it_told, a_pinned_run_ends_well


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_controller(rule: object) -> None:
    assert callable(rule)
    rule()


@pytest.mark.parametrize(
    ("rule", "edit"),
    [
        (
            keeps_quotas_of_several_clients,
            Edit(
                "refimpl.controller.store_writes:StoreWrites._of",
                'self._put(one, b"")',
                "Create(one)",
            ),
        ),
        (
            goes_on_above_what_it_told,
            Edit(
                "refimpl.controller.stored_controller:StoredController._take_over",
                "epoch == held.controller_epoch",
                "False",
            ),
        ),
    ],
)
def test_what_was_wrong_is_seen(rule: object, edit: Edit) -> None:
    assert callable(rule)
    with applied(Mutant("scratch", "put back", (edit,), ())), pytest.raises(AssertionError):
        rule()
