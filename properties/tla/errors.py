"""What can go wrong around TLA+ that is the user's to mend."""

import click


class InputError(Exception):
    """Something the user wrote, or a tool the user has to install; its text is all they see.

    The commands print it and exit with 2, so it names the file, the line or field, and what was
    expected.
    """


class Unusable(click.ClickException):
    """The same at the command line: one clear message, exit code 2."""

    exit_code = 2


class MissingToolError(InputError):
    """A program that this needs is not installed, or too old."""
