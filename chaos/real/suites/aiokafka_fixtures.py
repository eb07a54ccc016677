"""Fixtures of aiokafka's tests for a broker that runs already, at KAFKA_URI; aiokafka's own start
containers."""

import asyncio
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlparse

import pytest

#: aiokafka's tests know brokers up to this one; newer ones behave as it does
VERSION = "2.8.1"


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop for each class, as their own fixture makes it."""
    made = asyncio.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    made.close()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    """For tests that need no broker."""
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: Any, loop: asyncio.AbstractEventLoop) -> None:
    """For tests that need one."""
    where = urlparse(os.environ["KAFKA_URI"])
    cls = request.cls
    cls.loop, cls.kafka_version = loop, VERSION
    cls.kafka_host, cls.kafka_port = where.hostname, where.port
    cls.hosts = [f"{where.hostname}:{where.port}"]
    for missing in ("kafka_ssl_port", "kafka_sasl_plain_port", "kafka_sasl_ssl_port"):
        setattr(cls, missing, 1)
    cls.ssl_folder = cls.acl_manager = cls.kerberos_utils = cls.kafka_config = None
