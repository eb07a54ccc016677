"""Faults of links: rules of the proxies, for clients' requests and between the nodes."""

from attrs import evolve

from chaos.real.campaign.effects import Effect
from chaos.real.campaign.plan import BROKERS, CONTROLLER, Step
from chaos.real.campaign.proxies import Given
from chaos.real.campaign.stage import Stage
from chaos.real.proxy.words import LATE, rule_of

MEETS_S = 45.0
"""So much longer a rule stays, if it has met nothing yet."""
CLIENTS_DELAY_MS = 700


def requests(stage: Stage, step: Step) -> Effect:
    """A rule on an API of clients, wherever they ask."""
    delay = f" by_ms={CLIENTS_DELAY_MS}" if step.how.startswith("delay") else ""
    _, rule = rule_of(step.how + delay)
    with stage.beside.others():
        return _while_given(stage, step, stage.target.proxies.of_clients(rule))


def cut(stage: Stage, step: Step) -> Effect:
    """Followers' fetches are held, of one or all of them."""
    return _of_followers(stage, step, "hold Fetch")


def slow(stage: Stage, step: Step) -> Effect:
    """Followers' fetches come late."""
    return _of_followers(stage, step, f"delay Fetch by_ms={step.value * 300}")


def lag(stage: Stage, step: Step) -> Effect:
    """A broker learns late what the controller has decided: several epochs at once."""
    node = stage.victim(step)
    return _at(stage, step, CONTROLLER, f"hold Fetch client_id=raft-client-{node}")


def expire(stage: Stage, step: Step) -> Effect:
    """The controller takes a broker for dead that is alive."""
    node = stage.victim(step)
    return _at(stage, step, CONTROLLER, f"drop BrokerHeartbeat client_id={node}")


def isr(stage: Stage, step: Step) -> Effect:
    """A leader's change of the ISR goes astray; a follower is held, so that there is one."""
    node = stage.victim(step)
    delay = f" by_ms={step.value * 1_500}" if step.how in LATE else ""
    words = f"{step.how} AlterPartition client_id={node}{delay}"
    lag_ms = int(stage.plan.brokers["replica.lag.time.max.ms"])
    proxies = stage.target.proxies
    with stage.beside.others():
        given = proxies.of_node(CONTROLLER, rule_of(words)[1])
        held = proxies.of_node(node, rule_of(_fetches("hold Fetch", step, node))[1])
        try:
            stage.until(3 * lag_ms / 1000 + 5, lambda: given.met() > 0)
        finally:
            held.end()
        return _while_given(stage, step, given)


def _of_followers(stage: Stage, step: Step, words: str) -> Effect:
    node = stage.victim(step)
    wanted = step if step.how == "one" else evolve(step, value=0)
    return _at(stage, step, node, _fetches(words, wanted, node))


def _fetches(words: str, step: Step, node: int) -> str:
    """The rule for all followers, or for one of them."""
    followers = [one for one in BROKERS if one != node]
    one = followers[step.value % len(followers)]
    return f"{words} client_id=broker-{one}-fetcher-0" if step.value else words


def _at(stage: Stage, step: Step, node: int, words: str) -> Effect:
    with stage.beside.others():
        return _while_given(stage, step, stage.target.proxies.of_node(node, rule_of(words)[1]))


def _while_given(stage: Stage, step: Step, given: Given) -> Effect:
    try:
        stage.wait(step.for_ms)
        stage.until(MEETS_S, lambda: given.met() > 0)
    finally:
        given.end()
    met = given.met()
    why = f"nobody sent {given.rule.api} within {step.for_ms / 1000 + MEETS_S:.0f} s"
    return Effect(met, why * (not met), f"{given.rule.api}")
