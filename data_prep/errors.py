"""The error a user can act on."""

import errno
import os


class UserError(Exception):
    """Something the user can mend. The message names what is wrong, where, and the way out.

    The command line prints the message alone and exits with status 2; any other exception is a
    fault of ours and keeps its traceback.
    """


def full_disk(error: BaseException) -> str | None:
    """The sentence for a full disk when `error`, or what led to it, says so; else None.

    Libraries that write with native code wrap the operating system's error, so its text counts too.
    """
    current: BaseException | None = error
    while current is not None:
        number = current.errno if isinstance(current, OSError) else None
        if number in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(current):
            where = f" while writing {current.filename}" if getattr(current, "filename", None) else ""
            return f"the disk is full{where}. Free some space and give the same command again: it continues."
        current = current.__cause__ or current.__context__
    return None
