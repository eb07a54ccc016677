"""The id that the recorder puts into a header, also of a message that is forwarded."""

from typing import Any

import pytest

from traces.record.ids import HEADER, id_in, with_header

READ = [("trace", b"t"), (HEADER, (7).to_bytes(8, "big"))]


@pytest.mark.parametrize("headers", [None, [], {}, [("trace", b"t")], {"trace": b"t"}, READ])
def test_a_message_has_one_id_and_the_application_s_own_headers(headers: Any) -> None:
    sent = with_header(headers, 9)
    assert id_in(sent) == 9
    assert [name for name, _ in sent].count(HEADER) == 1
    others = [("trace", b"t")] if headers else []
    assert sent[:-1] == others


def test_a_forwarded_message_is_another_one_and_what_was_read_stays_as_it_is() -> None:
    assert id_in(with_header(READ, 9)) == 9
    assert id_in(READ) == 7


def test_of_two_ids_the_last_one_counts() -> None:
    assert id_in([*READ, (HEADER, (9).to_bytes(8, "big"))]) == 9


@pytest.mark.parametrize("headers", [None, (), [("trace", b"t")], [(HEADER, None)]])
def test_a_message_of_others_has_none(headers: Any) -> None:
    assert id_in(headers) is None
