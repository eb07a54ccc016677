"""Topics of their own, where what is rare is done; `scenario` says what a scenario is."""

from traces.generate.scenarios.copied import Copied
from traces.generate.scenarios.copying import Copying
from traces.generate.scenarios.exactly import Exactly
from traces.generate.scenarios.grown import Grown
from traces.generate.scenarios.handover import HandOver
from traces.generate.scenarios.keyed import Keyed
from traces.generate.scenarios.logs import Compacted, Deleted
from traces.generate.scenarios.positions import Positions
from traces.generate.scenarios.processed import Processed
from traces.generate.scenarios.remade import Remade
from traces.generate.scenarios.renewed import Renewed
from traces.generate.scenarios.scenario import SCENARIO_PARTITIONS, Scenario
from traces.generate.scenarios.sharing import Sharing
from traces.generate.scenarios.slot import ScenarioSlot
from traces.generate.scenarios.waiting import Waiting

__all__ = ["SCENARIOS", "SCENARIO_PARTITIONS", "Scenario", "ScenarioSlot"]

SCENARIOS: tuple[type[Scenario], ...] = (
    *(Sharing, HandOver, Positions, Exactly, Compacted, Deleted, Keyed, Grown, Remade, Renewed),
    *(Copied, Copying, Waiting, Processed),
)
