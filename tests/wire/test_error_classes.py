"""Final or retriable: an error of the other class than Kafka's has no excuse."""

import pytest

from tests.wire.differences import Row
from tests.wire.generated_differences import Row as GeneratedRow
from tests.wire.recording import is_same_class

FINAL, OTHER_FINAL = "INVALID_REQUEST", "UNKNOWN_SERVER_ERROR"
RETRIABLE, OTHER_RETRIABLE = "NOT_COORDINATOR", "REQUEST_TIMED_OUT"
PATH = ".answer.error_code"


@pytest.mark.parametrize(
    ("theirs", "ours", "same"),
    [
        (FINAL, OTHER_FINAL, True),
        (RETRIABLE, OTHER_RETRIABLE, True),
        (FINAL, RETRIABLE, False),
        (RETRIABLE, FINAL, False),
        ("NONE", FINAL, True),
        (None, FINAL, True),
    ],
)
def test_no_row_covers_an_error_of_the_other_class(
    theirs: str | None, ours: str, same: bool
) -> None:
    assert is_same_class(PATH, theirs, ours) == same
    assert Row("A", "", "", "").covers({"api": "A"}, PATH, theirs, ours) == same
    assert GeneratedRow("A", "", "", "", "").covers("A", "x", PATH, theirs, ours) == same


def test_what_is_no_error_has_no_class() -> None:
    assert is_same_class(".answer.error_message", FINAL, RETRIABLE)
