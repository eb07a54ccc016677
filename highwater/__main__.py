"""The command `highwater`, after a look whether our packages are ours."""

import sys

from highwater.packages import check_places


def main() -> None:
    """Run the command line. Packages of others under our names are bad input: exit code 2."""
    try:
        check_places()
    except ImportError as mistaken:
        sys.stderr.write(f"Error: {mistaken}\n")
        sys.exit(2)
    from refimpl.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
