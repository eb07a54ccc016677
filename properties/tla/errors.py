"""What can go wrong around TLA+ that is the user's to mend."""


class InputError(Exception):
    """Something the user wrote, or a tool the user has to install; its text is all they see.

    The commands print it and exit with 2, so it names the file, the line or field, and what was
    expected.
    """


class MissingToolError(InputError):
    """A program that this needs is not installed, or too old."""
