"""What every node of a run can reach: time, the network, the oracles, and who writes down."""

from collections import Counter
from random import Random

from attrs import define

from chaos.group_oracle import GroupOracle
from chaos.history import History
from chaos.network import Network, Timeline
from chaos.partition_oracle import PartitionOracle
from chaos.protocol_events import Recorder
from chaos.swarm import Swarm


@define(eq=False)
class World:
    """One run's surroundings. The recorder and the history are there only when somebody asked."""

    swarm: Swarm
    dice: Random
    timeline: Timeline
    network: Network
    partitions: list[PartitionOracle]
    groups: list[GroupOracle]
    counts: Counter[str]
    recorder: Recorder | None = None
    history: History | None = None
