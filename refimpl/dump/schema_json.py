"""Messages of Kafka's schemas as JSON, as its tools print them."""

import base64
from typing import Any

from refimpl.records.schema import ID, Field, fields_of


def as_json(message: Any, version: int) -> dict[str, Any]:
    """The message as Kafka's tools print it: fields of this version, bytes and ids in base 64."""
    shown: dict[str, Any] = {}
    for field in fields_of(message.__class__):
        value = getattr(message, field.name)
        there = field.versions.first <= version <= field.versions.last
        if field.versions.is_own:
            continue
        if there and (field.versions.tag is None or value != field.default):
            shown[field.json_name] = _json_field(field, value, version)
    return shown


def _json_field(field: Field, value: Any, version: int) -> Any:
    if value is None or not field.is_array:
        return _json_value(field, value, version)
    return [_json_value(field, item, version) for item in value]


def _json_value(field: Field, value: Any, version: int) -> Any:
    match value:
        case bytes() if field.kind is ID:
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        case bytes():
            return base64.b64encode(value).decode()
        case None | int() | float() | str():
            return value
        case _:
            return as_json(value, version)
