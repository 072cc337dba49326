"""The error that a person at the command line can mend."""


class UserError(ValueError):
    """Something outside the program is wrong: a path, a port, a file, a name.

    The message is one sentence that says what was wrong, what was received and what to do. The
    command line prints it and exits with code 2; wrong arguments to layers and functions raise
    plain `ValueError`.
    """
