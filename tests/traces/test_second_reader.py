"""The second checker reads EDN by a reader of its own: it says what the first one says."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from traces.ingest.edn import forms
from traces.second_checker.forms import forms as plain_forms

EDN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.just(":k/w"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def as_edn(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "nil", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"[{' '.join(map(as_edn, cast('list[Any]', value)))}]"
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return "{" + ", ".join(f"{as_edn(k)} {as_edn(v)}" for k, v in pairs) + "}"
    if isinstance(value, int) or value == ":k/w":
        return str(value)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


@given(st.lists(EDN.filter(lambda value: not isinstance(value, list)), max_size=4), st.booleans())
def test_both_checkers_read_the_same_forms(values: list[Any], in_vector: bool) -> None:
    """Each has a reader of its own."""
    text = " #_ [1 {}] ".join(map(as_edn, values))
    text = f"[{text}] ; end" if in_vector else text
    assert list(plain_forms(text)) == values
    lines = text.encode("utf-8", "replace").splitlines(keepends=True)
    if "?" not in text and len(lines) == 1:
        assert [value for _, value in forms(lines)] == values
