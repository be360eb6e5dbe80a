"""Lets verl 0.9.1 run beside a newer trl; loaded by verl in all its processes (`VERL_USE_EXTERNAL_MODULES`).

Where trl is installed verl patches its value-head model, which trl 1.13 took away, and fails. GRPO has no
value head, so verl is told that there is no trl.
"""

from verl.utils import import_utils

import_utils.is_trl_available = lambda: False
