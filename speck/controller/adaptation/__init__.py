"""The adaptation loop: has the placement of compositions with the mode ``auto`` follow what is measured."""

from speck.controller.adaptation.adaptation import AUTHOR, Adaptation
from speck.controller.adaptation.mover import Advised, Mover, Present
from speck.controller.adaptation.observations import Observations

__all__ = ["AUTHOR", "Adaptation", "Advised", "Mover", "Observations", "Present"]
