"""CVSBench: cross-view questions on CVUSA and University-1652 (FOV) pictures, as released."""

from data_prep.cvsbench.categories import normalise as normalise_category
from data_prep.cvsbench.layout import SourceFile, find_files
from data_prep.cvsbench.reader import read_release

__all__ = ["SourceFile", "find_files", "normalise_category", "read_release"]
