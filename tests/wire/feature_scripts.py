"""A script about the levels of features: UpdateFeatures in every version, granted and refused."""

from typing import Any

from tests.wire.asking import TIMEOUT, Ask

TV = "transaction.version"


def features(ask: Ask) -> None:
    """UpdateFeatures, granted and refused."""

    def update(version: int, level: int, name: str = TV, **more: Any) -> None:
        one = {"feature": name, "max_version_level": level, **more}
        validate = {"validate_only": more.pop("validate", False)} if version else {}
        one.pop("validate", None)
        ask("UpdateFeatures", version, timeout=TIMEOUT, feature_updates=[one], **validate)

    for allow in (False, True):
        update(0, 1, allow_downgrade=allow)
    update(0, 2, allow_downgrade=True)
    for version in (1, 2):
        for kind in (0, 1, 3, 4):
            update(version, 1, upgrade_type=kind, validate=True)
        for level, kind in ((1, 2), (2, 3), (2, 2), (2, 1), (-1, 1), (0, 3), (2, 1)):
            update(version, level, upgrade_type=kind)
        update(version, 0, "nonsense", upgrade_type=2)
        ask("UpdateFeatures", version, timeout=TIMEOUT, feature_updates=[], validate_only=False)
