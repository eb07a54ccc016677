"""A broker's registration, heartbeats and controlled shutdown (KIP-631, KIP-841)."""

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.metadata import Metadata
from refimpl.messages.broker import Response
from refimpl.messages.controller import (
    NO_ADDRESS,
    BrokerAddress,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Stopped,
)
from refimpl.messages.observations import Refused


@define(eq=False)
class Lifecycle:
    """The registration of this process, and its wish to end."""

    context: Context
    metadata: Metadata
    previous_broker_epoch: int
    address: BrokerAddress = NO_ADDRESS
    registering: int = 0
    wants_to_stop: bool = False
    stopped: bool = False

    @property
    def registered(self) -> bool:
        """True if the controller has registered this process."""
        return self.context.broker_epoch >= 0

    def register(self) -> None:
        """Register this process with the controller, which ends the session of the last one."""
        context = self.context
        self.registering = context.request(
            context.controller,
            BrokerRegistrationRequest(
                *(context.id, context.incarnation_id, self.previous_broker_epoch),
                *(self.address.endpoints, self.address.rack, self.address.log_dirs),
            ),
        )

    def answered(self, response: Response) -> bool:
        """Take the answer to a registration; True if it registers this process."""
        body: BrokerRegistrationResponse = response.body
        if self.registered:
            return False
        if body.error is not None:
            self.context.outputs.append(Refused("BrokerRegistration", body.error))
            return False
        self.context.broker_epoch = body.broker_epoch
        return True

    def heartbeat(self) -> None:
        """Send a heartbeat with our metadata version and the partitions whose logs have failed.

        Failed logs are in every heartbeat: an earlier one may have been lost, or the controller may
        have changed.
        """
        context = self.context
        context.request(
            context.controller,
            BrokerHeartbeatRequest(
                *(context.id, context.broker_epoch),
                *(self.metadata.metadata_version, self.wants_to_stop),
                *(self.metadata.controller_epoch, tuple(context.offline)),
            ),
        )

    def heard(self, response: Response) -> None:
        """Take the answer to a heartbeat; the process may end once the controller agrees.

        An unregistered broker (UnregisterBroker, KIP-631) leads nothing, and nobody has to agree.
        """
        body: BrokerHeartbeatResponse = response.body
        if body.error is not None:
            self.context.outputs.append(Refused("BrokerHeartbeat", body.error))
        agreed = body.error == "BROKER_ID_NOT_REGISTERED" or (
            body.error is None and body.should_shut_down
        )
        if agreed and self.wants_to_stop and not self.stopped:
            self.stopped = True
            self.context.outputs.append(Stopped())
