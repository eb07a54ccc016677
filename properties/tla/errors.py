"""Errors around TLA+ that the user can correct."""

import click


class InputError(Exception):
    """A mistake of the user, or a missing tool; its text is all that the user sees.

    The commands print it and exit with 2, so it names the file, the line or field, and the expected
    form.
    """


class Unusable(click.ClickException):
    """The same at the command line: one clear message, exit code 2."""

    exit_code = 2


class MissingToolError(InputError):
    """A program that this needs is not installed, or too old."""
