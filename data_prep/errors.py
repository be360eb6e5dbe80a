"""The error a user can act on."""


class UserError(Exception):
    """Something the user can mend. The message names what is wrong, where, and the way out.

    The command line prints the message alone and exits with status 2; any other exception is a
    fault of ours and keeps its traceback.
    """
