"""`make agent`: build the jar and say how to give it to a broker."""

import sys

from chaos.real.agent.build import agent_jar
from chaos.real.kafka.judge import NoMavenError


def main() -> None:
    """Build, and print the option."""
    try:
        jar = agent_jar()
    except NoMavenError as missing:
        print(missing, file=sys.stderr)
        raise SystemExit(2) from None
    print(f'export KAFKA_OPTS="-javaagent:{jar}=DIR"')


if __name__ == "__main__":
    main()
