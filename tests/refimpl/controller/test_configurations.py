"""Configurations that may be set, on which resources, and the errors for all others."""

import pytest

from refimpl.configs import Configs
from refimpl.controller.config_schema import KafkaConfigSchema
from refimpl.controller.configs import LONGEST_VALUE, MIN_ISR
from refimpl.controller.errors import ApiError, unknown_topic_or_partition
from refimpl.controller.state import ControllerConfig
from refimpl.messages import controller as c
from refimpl.messages.cluster import BROKER, CLUSTER_DEFAULT, GROUP, TOPIC, ConfigResource
from tests.refimpl.controller.asking import Asking

T = ConfigResource(TOPIC, "t")
ALL, ONE = ConfigResource(BROKER, CLUSTER_DEFAULT), ConfigResource(BROKER, "1")
ELR, NO_ELR = (ControllerConfig(eligible_leader_replicas=elr) for elr in (True, False))
Alterations = tuple[tuple[str, int, str | None], ...]


def asking(config: ControllerConfig = ELR) -> Asking:
    """A controller with the topic t."""
    found = Asking(config)
    found.create("t", (1,))
    return found


def alter(of: Asking, resource: ConfigResource, *alterations: tuple[str, int, str | None]) -> str:
    """The error of single changes, empty if there is none."""
    changes = tuple(c.ConfigAlteration(*one) for one in alterations)
    (result,) = of.ask(c.IncrementalAlterConfigsRequest(((resource, changes),))).resources
    return "" if result.error is None else f"{result.error}: {result.message}"


def replace(of: Asking, resource: ConfigResource, values: dict[str, str | None]) -> str:
    (result,) = of.ask(c.AlterConfigsRequest(((resource, values),))).resources
    return "" if result.error is None else f"{result.error}: {result.message}"


def configured(of: Asking, resource: ConfigResource = T) -> dict[str, str]:
    return dict(of.controller.metadata.configs.get(resource, {}))


# What stays, what goes


def test_single_changes_leave_the_others_alone() -> None:
    of = asking()
    assert alter(of, T, ("flush.ms", c.SET, "5"), ("retention.ms", c.SET, "6")) == ""
    assert alter(of, T, ("flush.ms", c.DELETE, None), ("segment.ms", c.DELETE, None)) == ""
    assert configured(of) == {"retention.ms": "6"}
    assert alter(of, T, ("retention.ms", c.SET, None)) == ""
    assert configured(of) == {}


def test_a_replacement_leaves_nothing_of_what_was() -> None:
    of = asking()
    alter(of, T, ("flush.ms", c.SET, "5"), ("retention.ms", c.SET, "6"))
    assert replace(of, T, {"flush.ms": "7", "segment.ms": None}) == ""
    assert configured(of) == {"flush.ms": "7"}


def test_lists_grow_and_shrink_by_their_parts_from_what_holds() -> None:
    of = asking()
    policy = "cleanup.policy"
    assert alter(of, T, (policy, c.APPEND, "compact,delete")) == ""
    assert configured(of) == {policy: "delete,compact"}, "delete is the default"
    assert alter(of, T, (policy, c.SUBTRACT, "delete,compact"), (policy, c.APPEND, "compact")) == ""
    assert configured(of) == {policy: "compact"}
    assert alter(of, T, (policy, c.SUBTRACT, "delete")) == ""
    assert configured(of) == {policy: "compact"}
    assert alter(of, T, ("flush.ms", c.APPEND, "1")) == (
        "INVALID_CONFIG: Can't APPEND to key flush.ms because its type is not LIST."
    )
    assert alter(of, T, ("flush.ms", c.SUBTRACT, "1")) == (
        "INVALID_CONFIG: Can't SUBTRACT to key flush.ms because its type is not LIST."
    )


# What is refused


@pytest.mark.parametrize(
    ("resource", "says"),
    [
        (ConfigResource(TOPIC, ""), "INVALID_REQUEST: Default topic resources are not allowed."),
        (ConfigResource(GROUP, ""), "INVALID_REQUEST: Default group resources are not allowed."),
        (ConfigResource(TOPIC, "a/b"), "INVALID_TOPIC_EXCEPTION: "),
        (ConfigResource(TOPIC, "u"), "UNKNOWN_TOPIC_OR_PARTITION: The topic 'u' does not exist."),
        (ConfigResource(BROKER, "-1"), "INVALID_REQUEST: Invalid negative broker ID."),
        (
            ConfigResource(BROKER, "x"),
            "INVALID_REQUEST: Unable to parse broker name as a base 10 number.",
        ),
        (ConfigResource(BROKER, "9"), "BROKER_ID_NOT_REGISTERED: No node with id 9 found."),
    ],
)
def test_a_resource_that_cannot_be_there_is_refused(resource: ConfigResource, says: str) -> None:
    of = asking()
    assert alter(of, resource).startswith(says)
    assert replace(of, resource, {}).startswith(says)


def test_a_broker_named_zero_and_all_brokers_are_resources() -> None:
    of = asking()
    of.register(0, 1)
    for resource in (ConfigResource(BROKER, "0"), ONE, ALL):
        assert alter(of, resource, ("log.cleaner.threads", c.SET, "2")) == ""
        assert configured(of, resource) == {"log.cleaner.threads": "2"}


def test_values_are_judged_by_the_kind_of_resource() -> None:
    of, group = asking(), ConfigResource(GROUP, "g")
    assert alter(of, T, ("flush.ms", c.SET, "soon")).startswith("INVALID_CONFIG: ")
    assert alter(of, group, ("consumer.session.timeout.ms", c.SET, "soon")).startswith(
        "INVALID_CONFIG: "
    )
    assert alter(of, group, ("consumer.session.timeout.ms", c.SET, "50000")) == ""
    assert alter(of, T, ("consumer.session.timeout.ms", c.SET, "50000")).startswith(
        "INVALID_CONFIG: "
    )
    assert alter(of, ONE, ("flush.ms", c.SET, "the broker has checked it")) == ""


def test_a_value_may_be_so_long_and_no_longer() -> None:
    of = asking()
    assert alter(of, ONE, ("ssl.keystore.location", c.SET, "a" * LONGEST_VALUE)) == ""
    assert alter(of, ONE, ("ssl.keystore.location", c.SET, "a" * (LONGEST_VALUE + 1))).startswith(
        "INVALID_CONFIG: The configuration value cannot be added"
    )


def test_with_elr_min_insync_replicas_are_for_all_brokers_alike() -> None:
    """KIP-966: an ELR counts on how large the ISR was."""
    of = asking()
    assert alter(of, ONE, (MIN_ISR, c.SET, "2")) == (
        f"INVALID_CONFIG: Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
    )
    removed = f"INVALID_CONFIG: Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
    assert alter(of, ALL, (MIN_ISR, c.DELETE, None)) == removed
    assert alter(of, ALL, (MIN_ISR, c.SET, "2")) == ""
    assert replace(of, ALL, {}) == replace(of, ALL, {"log.cleaner.threads": "2"}) == removed
    assert replace(of, ALL, {MIN_ISR: "1"}) == ""
    assert alter(of, ONE, ("log.cleaner.threads", c.SET, "2")) == ""
    assert alter(of, T, (MIN_ISR, c.SET, "1")) == ""
    without = asking(NO_ELR)
    assert alter(without, ONE, (MIN_ISR, c.SET, "2")) == ""
    assert replace(without, ONE, {}) == ""


# What holds where nothing is set


def test_defaults_are_the_controllers_own_by_the_kind_of_resource() -> None:
    schema = KafkaConfigSchema(
        Configs({"log.retention.ms": "5", "group.consumer.session.timeout.ms": "50000"})
    )
    assert schema.default(TOPIC, "retention.ms") == "5"
    assert schema.default(GROUP, "consumer.session.timeout.ms") == "50000"
    assert schema.default(BROKER, "log.retention.ms") == "5"
    assert {schema.default(kind, "no.such.key") for kind in (TOPIC, GROUP, BROKER)} == {None}
    assert schema.default(TOPIC, "log.retention.ms") is None
    assert schema.default(GROUP, "retention.ms") is None
    assert schema.is_list(TOPIC, "cleanup.policy")
    assert not schema.is_list(TOPIC, "retention.ms")


# Errors


def test_an_error_is_told_with_its_message_if_it_has_one() -> None:
    assert str(ApiError("INVALID_CONFIG")) == "INVALID_CONFIG"
    assert str(ApiError("INVALID_CONFIG", "too long")) == "INVALID_CONFIG: too long"
    assert str(unknown_topic_or_partition()) == (
        "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."
    )
    assert unknown_topic_or_partition("No such topic").message == "No such topic"
