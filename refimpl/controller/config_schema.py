"""The controller's configuration schema: Kafka's settings, by the tables of `refimpl.configs`."""

from collections.abc import Mapping

from attrs import field, frozen

from refimpl.configs import BROKER as BROKER_SETTINGS
from refimpl.configs import CLIENT_METRICS as SUBSCRIPTION_SETTINGS
from refimpl.configs import GROUP as GROUP_SETTINGS
from refimpl.configs import TOPIC as TOPIC_SETTINGS
from refimpl.configs import ConfigError, Configs, is_list, show, validate_group, validate_topic
from refimpl.controller.client_metrics import check_subscription
from refimpl.controller.errors import ApiError
from refimpl.controller.topics import check_name
from refimpl.messages.cluster import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource

SETTINGS = {
    TOPIC: TOPIC_SETTINGS,
    BROKER: BROKER_SETTINGS,
    GROUP: GROUP_SETTINGS,
    CLIENT_METRICS: SUBSCRIPTION_SETTINGS,
}


@frozen
class KafkaConfigSchema:
    """Every setting of topics, groups, brokers and client metrics of Kafka 4.3; `configs` are the
    controller's own.
    """

    configs: Configs = field(factory=Configs)

    def is_list(self, resource_type: str, key: str) -> bool:
        """True if values of this key may be appended to, separated by commas."""
        # Those of subscriptions are lists as well, and Kafka appends to none of them.
        return resource_type != CLIENT_METRICS and is_list(SETTINGS[resource_type], key)

    def default(self, resource_type: str, key: str) -> str | None:
        """The value of a key that is not set."""
        if resource_type == TOPIC:
            return show(self.configs.topic_value(key, {})) if key in TOPIC_SETTINGS else None
        if resource_type == GROUP:
            return show(self.configs.group_value(key, {})) if key in GROUP_SETTINGS else None
        return show(self.configs[key]) if key in BROKER_SETTINGS else None

    def validate(
        self, resource: ConfigResource, values: Mapping[str, str], existing: Mapping[str, str]
    ) -> None:
        """Raise ApiError if these cannot be the configuration of a resource.

        A broker has checked its own values before it asked.
        """
        if resource.type == BROKER:
            _check_broker_name(resource.name)
            return
        if resource.type == CLIENT_METRICS:
            check_subscription(resource.name, values)
            return
        if not resource.name:
            message = f"Default {resource.type} resources are not allowed."
            raise ApiError("INVALID_REQUEST", message)
        try:
            if resource.type == GROUP:
                validate_group(values, self.configs)
            else:
                check_name(resource.name)
                validate_topic(values, self.configs)
        except ConfigError as error:
            raise ApiError("INVALID_CONFIG", str(error)) from None


def _check_broker_name(name: str) -> None:
    if not name:
        return
    try:
        number = int(name)
    except ValueError:
        message = "Unable to parse broker name as a base 10 number."
        raise ApiError("INVALID_REQUEST", message) from None
    if number < 0:
        raise ApiError("INVALID_REQUEST", "Invalid negative broker ID.")
