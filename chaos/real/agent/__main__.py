"""`make agent`: build the jar and say how to give it to a broker."""

from chaos.real.agent.build import agent_jar
from chaos.real.kafka.judge import print_built

if __name__ == "__main__":
    print_built(agent_jar, 'export KAFKA_OPTS="-javaagent:{jar}=DIR"')
