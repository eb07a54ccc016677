"""The levels of features: what the controller refuses, keeps, and tells all brokers."""

import pytest

from refimpl.configs import Configs
from refimpl.controller.state import ControllerConfig
from refimpl.messages import controller as c
from refimpl.messages.cluster import SHARE_VERSION, FeaturesUpdated
from refimpl.messages.cluster import TRANSACTION_VERSION as TV
from tests.refimpl.controller.asking import Asking

ALL = "The update failed for all features since the following feature had an error: "
DOWN = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe "
    "or unsafe downgrade."
)


def update(asking: Asking, *updates: c.FeatureUpdate, **of: bool) -> c.ControlResponse:
    return asking.ask(c.UpdateFeaturesRequest(updates, **of))


def at(level: int) -> Asking:
    """A controller whose setting is this level."""
    return Asking(ControllerConfig(configs=Configs({TV: str(level)})))


REFUSED = [
    ("of no type", c.FeatureUpdate(TV, 2, 0), "The controller does not support the given upgrade "),
    ("of a type to come", c.FeatureUpdate(TV, 2, 4), "The controller does not support the given "),
    ("below nothing", c.FeatureUpdate(TV, -1), "A feature version cannot be less than 0."),
    ("above all", c.FeatureUpdate(TV, 3), "Local controller 0 only supports versions 0-2"),
    (
        "above all of another",
        c.FeatureUpdate(SHARE_VERSION, 2),
        "Local controller 0 only supports ",
    ),
    ("down of another", c.FeatureUpdate(SHARE_VERSION, 0), DOWN),
    ("of nothing", c.FeatureUpdate("x", 1), "Local controller 0 does not support this feature."),
    ("to nothing", c.FeatureUpdate("x", 0), "Feature x not found."),
    ("down by an upgrade", c.FeatureUpdate(TV, 0, c.UPGRADE), DOWN),
    ("up by a downgrade", c.FeatureUpdate(TV, 2, c.SAFE_DOWNGRADE), "Can't downgrade to a newer"),
    ("up by force", c.FeatureUpdate(TV, 2, c.UNSAFE_DOWNGRADE), "Can't downgrade to a newer"),
]


@pytest.mark.parametrize(
    ("one", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_an_update_is_refused_in_kafkas_words_and_with_it_all_others(
    one: c.FeatureUpdate, why: str
) -> None:
    asking = at(1)
    told = len(asking.news)
    answer = update(asking, one)
    assert answer.error == "INVALID_UPDATE_VERSION"
    start = f"{ALL}Invalid update version {one.level} for feature {one.name}. {why}"
    assert str(answer.message).startswith(start)
    if one.name != TV:
        assert update(asking, c.FeatureUpdate(TV, 2), one) == answer
    assert asking.controller.metadata.features == FeaturesUpdated(0, {})
    assert len(asking.news) == told, "no broker hears of it"


def test_each_update_reaches_every_broker_in_an_epoch_of_its_own() -> None:
    asking = at(1)
    steps = [(2, c.UPGRADE), (2, c.UPGRADE), (1, c.SAFE_DOWNGRADE), (0, c.UNSAFE_DOWNGRADE)]
    for epoch, (level, kind) in enumerate(steps, 1):
        asking.news.clear()
        assert update(asking, c.FeatureUpdate(TV, level, kind)) == c.ControlResponse(None)
        updated = FeaturesUpdated(epoch, {TV: level})
        assert [list(one.changes) for one in asking.news] == [[updated]] * 3
        assert asking.controller.metadata.features == updated


def test_a_validation_and_an_update_of_nothing_change_nothing() -> None:
    asking = at(1)
    asking.news.clear()
    assert update(asking, c.FeatureUpdate(TV, 2), validate_only=True) == c.ControlResponse(None)
    assert update(asking) == c.ControlResponse(None)
    refused = update(asking, c.FeatureUpdate(TV, 3), validate_only=True)
    assert refused.error == "INVALID_UPDATE_VERSION"
    assert (asking.news, asking.controller.metadata.features.epoch) == ([], 0)


def test_the_last_update_of_a_feature_counts() -> None:
    asking = at(0)
    update(asking, c.FeatureUpdate(TV, 9), c.FeatureUpdate(TV, 1))
    assert asking.controller.metadata.features == FeaturesUpdated(1, {TV: 1})
