"""A broker and the controller: registration, heartbeats, controlled shutdown (KIP-631, KIP-841)."""

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.metadata import Metadata
from refimpl.messages.broker import (
    Response,
)
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
    """Whether this process is registered, and whether it wants to end."""

    context: Context
    metadata: Metadata
    previous_broker_epoch: int
    address: BrokerAddress = NO_ADDRESS
    registering: int = 0
    wants_to_stop: bool = False
    stopped: bool = False

    @property
    def registered(self) -> bool:
        """Whether the controller knows this process."""
        return self.context.broker_epoch >= 0

    def register(self) -> None:
        """Tell the controller that a process has started; it ends what the last one had."""
        context = self.context
        self.registering = context.request(
            context.controller,
            BrokerRegistrationRequest(
                *(context.id, context.incarnation_id, self.previous_broker_epoch),
                *(self.address.endpoints, self.address.rack, self.address.log_dirs),
            ),
        )

    def answered(self, response: Response) -> bool:
        """The controller has answered; whether this process is registered by that."""
        body: BrokerRegistrationResponse = response.body
        if self.registered:
            return False
        if body.error is not None:
            self.context.outputs.append(Refused("BrokerRegistration", body.error))
            return False
        self.context.broker_epoch = body.broker_epoch
        return True

    def heartbeat(self) -> None:
        """Say that we live, how much of the metadata we know, and which of our logs have failed:
        every time, for what was said may have been lost, or the controller is another one."""
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
        """The controller has answered a heartbeat; the process may end once it agrees."""
        body: BrokerHeartbeatResponse = response.body
        if body.error is not None:
            self.context.outputs.append(Refused("BrokerHeartbeat", body.error))
        elif body.should_shut_down and self.wants_to_stop and not self.stopped:
            self.stopped = True
            self.context.outputs.append(Stopped())
