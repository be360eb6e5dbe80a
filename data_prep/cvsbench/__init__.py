"""CVSBench: cross-view questions on CVUSA and University-1652 (FOV) pictures, as released.

layout       which file holds which task            fields       keys of a question and what they may hold
pictures     where a row's pictures lie             categories   names of the question categories
vqa          g2s, s2g, gs_view                      grounding    gs_grounding
annotations  the paper's annotation files           boxes        grounding rows from box pairs
reader       all of it as one stream of rows
"""

from data_prep.cvsbench.annotations import Viewpoint, read_viewpoints
from data_prep.cvsbench.categories import normalise as normalise_category
from data_prep.cvsbench.layout import SourceFile, find_files
from data_prep.cvsbench.reader import read_release

__all__ = [
    "SourceFile",
    "Viewpoint",
    "find_files",
    "normalise_category",
    "read_release",
    "read_viewpoints",
]
