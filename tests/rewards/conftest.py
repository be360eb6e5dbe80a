"""Hypothesis profiles: `ci` repeats itself; `HYPOTHESIS_PROFILE=long` draws a million new cases."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("ci", max_examples=1_000, deadline=None, database=None, derandomize=True)
settings.register_profile(
    "long", max_examples=55_000, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
