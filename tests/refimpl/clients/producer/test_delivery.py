"""The batches of one partition in flight, without the sequences of idempotence."""

import pytest

from properties.modules.producer import OneRecord
from refimpl.clients.producer.batch import ProducerBatch
from refimpl.clients.producer.delivery import Delivery
from refimpl.clients.producer.errors import TooManyInFlight
from refimpl.messages.broker import TopicPartition

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_is_in_flight_than_the_setting_permits(most: int) -> None:
    delivery = Delivery(idempotent=False, most_in_flight=most)
    delivery.enqueue(ProducerBatch(T0, OneRecord(), 1, 0, handles=[None]))
    assert delivery.may_drain(T0, most - 1) is None
    assert isinstance(delivery.may_drain(T0, most), TooManyInFlight)
