"""SpecK composes one streaming application out of jobs on different engines at different sites."""

from pathlib import Path

__version__ = "0.1.0"

# Binders of other packages import speck.model and speck.inventory, as version 0.1 named the nouns of speck.core.
__path__.append(str(Path(__file__).parent / "binder" / "names_0_1"))
