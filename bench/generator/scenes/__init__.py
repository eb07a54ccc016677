"""Topics of their own, where what is rare is done; `scene` tells what a scene is."""

from bench.generator.scenes.copied import Copied
from bench.generator.scenes.copying import Copying
from bench.generator.scenes.exactly import Exactly
from bench.generator.scenes.handover import HandOver
from bench.generator.scenes.keyed import Keyed
from bench.generator.scenes.logs import Compacted, Deleted
from bench.generator.scenes.placing import Placing
from bench.generator.scenes.remade import Remade
from bench.generator.scenes.scene import SPOTS, Scene
from bench.generator.scenes.sharing import Sharing
from bench.generator.scenes.spot import Spot

__all__ = ["SCENES", "SPOTS", "Scene", "Spot"]

SCENES: tuple[type[Scene], ...] = (
    *(Sharing, HandOver, Placing, Exactly, Compacted, Deleted, Keyed, Remade, Copied, Copying),
)
