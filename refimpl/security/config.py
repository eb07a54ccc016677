"""Security by the settings of a broker: whether there is an authorizer, and for whom not."""

from refimpl.configs import AUTHORIZER, ConfigError, Configs
from refimpl.security.acls import Acls
from refimpl.security.authorizer import Authorizer
from refimpl.security.principals import super_users

STANDARD = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",  # Kafka's before KRaft, by the same rules
)


def authorizer_of(configs: Configs | None, acls: Acls) -> Authorizer | None:
    """The authorizer that `authorizer.class.name` asks for. Raises ConfigError for another one."""
    name = None if configs is None else configs["authorizer.class.name"]
    if configs is None or not name:
        return None
    if name not in STANDARD:
        reason = f"The authorizer that is here is {STANDARD[0]}"
        raise ConfigError.of("authorizer.class.name", name, reason)

    def setting(key: str) -> str:
        return configs.static.get(key, "")

    everyone = "allow.everyone.if.no.acl.found"
    try:
        privileged = super_users(setting("super.users"))
    except ValueError as mistake:
        raise ConfigError(str(mistake)) from None
    allows = AUTHORIZER[everyone].value(setting(everyone) or "false")
    return Authorizer(acls, privileged, allows)
