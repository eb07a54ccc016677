"""The features that the controller finalizes, and their levels (KIP-584, KIP-778): pure functions.

A feature is at the level of its setting until an operator updates it.
"""

from collections.abc import Mapping, Sequence

from refimpl.configs import Configs
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import SHARE_VERSION, TRANSACTION_VERSION, FeaturesUpdated
from refimpl.messages.controller import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
)

SUPPORTED: Mapping[str, tuple[int, int]] = {TRANSACTION_VERSION: (0, 2), SHARE_VERSION: (0, 1)}
"""The first and the last level of each feature, at every broker and controller."""


def plan_features(
    updates: Sequence[FeatureUpdate], now: FeaturesUpdated, configs: Configs, controller_id: int
) -> FeaturesUpdated:
    """The features after these updates. Raises ApiError if one of them is refused."""
    levels: dict[str, int] = {}
    for name, one in {one.name: one for one in updates}.items():
        reason = _refused(one, level_of(name, now, configs), controller_id)
        if reason is not None:
            raise ApiError(
                "INVALID_UPDATE_VERSION",
                "The update failed for all features since the following feature had an error: "
                f"Invalid update version {one.level} for feature {name}. {reason}",
            )
        levels[name] = one.level
    if not levels:
        return now
    return FeaturesUpdated(now.epoch + 1, {**now.levels, **levels})


def level_of(name: str, now: FeaturesUpdated, configs: Configs) -> int:
    """The level at which a feature is finalized; 0 for one that nobody supports."""
    if name not in SUPPORTED:
        return 0
    return now.levels.get(name, int(str(configs[name])))


def _refused(one: FeatureUpdate, current: int, controller_id: int) -> str | None:
    """The reason to refuse an update, in the words of Kafka's FeatureControlManager."""
    if one.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if one.level < 0:
        return "A feature version cannot be less than 0."
    first, last = SUPPORTED.get(one.name, (0, 0))
    here = f"Local controller {controller_id}"
    if not first <= one.level <= last:
        return f"{here} only supports versions {first}-{last}" if last else _UNKNOWN.format(here)
    if one.level < current and one.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if one.level > current and one.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None if one.name in SUPPORTED else f"Feature {one.name} not found."


_UNKNOWN = "{} does not support this feature."
