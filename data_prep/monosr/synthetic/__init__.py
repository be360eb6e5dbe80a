"""Pictures with 3D boxes in Omni3D's form and exact geometry, made here: for a laptop and for tests.

Nothing behind the reader can tell them from the real sources, whose names they bear.
"""

from data_prep.monosr.synthetic.release import write_release
from data_prep.monosr.synthetic.world import scenes

__all__ = ["scenes", "write_release"]
