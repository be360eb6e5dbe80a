"""Every table that a grid may name: the papers' and their titles."""

from recipes import tables_monosr, tables_published
from recipes.tables_published import Published

TITLES = {**tables_published.TITLES, **tables_monosr.TITLES}


def known_tables() -> dict[str, Published]:
    """The published tables of all benchmarks by their names."""
    return {**tables_published.published_tables(), **tables_monosr.monosr_tables()}
