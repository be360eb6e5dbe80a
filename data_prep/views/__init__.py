"""Auxiliary views (CVSBench 4.4, 0.A.4): a second picture that is computed or imagined from the one shown."""
