"""SpecK composes one streaming application out of jobs on different engines at different sites."""

from pathlib import Path

__version__ = "0.2.0.dev0"

# Binders of other packages import speck.model and speck.inventory: version 0.1 had the nouns there.
__path__.append(str(Path(__file__).parent / "binder" / "names_0_1"))
