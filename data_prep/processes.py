"""How many worker processes there may be, and their end."""

import os
from multiprocessing import connection, parent_process
from threading import Thread


def cores() -> int:
    """Cores that this process may use; a scheduler may have given it fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Workers wait for work on a pipe that outlives a parent killed with -9; watch the parent instead."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()
