"""A scenario with a broker of two log directories, which reports to the controller by a relay."""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field

from examples.brokers import CONTROLLER, Node, laid_out, started, until
from examples.control_plane import ControlPlane
from examples.relay import Header, Relay, Stall, relay

ASSIGN_REPLICAS_TO_DIRS = 73


def assigns(header: Header) -> bool:
    """A broker reports to the controller in which directory a replica is."""
    return header.api_key == ASSIGN_REPLICAS_TO_DIRS


def directories(node: Node) -> tuple[Path, Path]:
    """The two log directories of a broker."""
    return node.folder / "data1", node.folder / "data2"


def give_two_directories(node: Node) -> None:
    """Before the node is formatted."""
    first, second = directories(node)
    node.settings += f"log.dirs={first},{second}\n"


def take_second_directory_out(node: Node) -> None:
    """Of log.dirs, while the broker is down."""
    first, second = directories(node)
    properties = node.folder / "server.properties"
    properties.write_text(properties.read_text().replace(f"{first},{second}", str(first)))


@define
class Directories(ControlPlane):
    """One broker has two log directories; its AssignReplicasToDirs can be held up."""

    controller: Relay = field(kw_only=True)
    owner: int = field(kw_only=True)
    """The broker with two directories."""

    def create_and_report(self, assignment: list[list[int]], **config: object) -> None:
        """The controller knows the directories of all replicas of the owner."""
        reported = self.controller.stall(assigns, at_most=1)
        self.create(assignment, **config)
        until("the directories to be reported", 60, lambda: bool(reported.caught))
        reported.end()

    def hold_up_the_next(self) -> Stall:
        """The next AssignReplicasToDirs, which is caught when it is sent."""
        return self.controller.stall(assigns, at_most=1)


def with_two_directories(
    folder: Path, classpath: str, stack: ExitStack, owner: int, brokers: Iterable[int]
) -> Mapping[str, Any]:
    """Brokers that run for as long as the stack lasts, as the fields of a scenario."""
    nodes = laid_out(folder, classpath, tuple(brokers))
    controller = stack.enter_context(relay(nodes[CONTROLLER].port))
    nodes[CONTROLLER].reached_at = controller.port
    give_two_directories(nodes[owner])
    running = stack.enter_context(started(nodes))
    return {"brokers": running, "controller": controller, "owner": owner}
