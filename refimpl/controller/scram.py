"""The plan for a request to keep and forget SCRAM credentials (KIP-554): pure.

Messages are those of Kafka 4.3's ScramControlManager.
"""

from collections.abc import Mapping

from refimpl.controller.errors import ApiError
from refimpl.messages.controller import (
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramResult,
    ScramUpsertion,
)
from refimpl.security.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

Credentials = Mapping[str, Mapping[str, ScramCredential]]
"""The credentials of each user, by the names of their mechanisms."""

_TWICE = "A user credential cannot be altered twice in the same request"


def plan_credentials(
    body: AlterUserScramCredentialsRequest, known: Credentials
) -> tuple[Credentials, list[ScramResult]]:
    """The credentials of the users that change, and the result for each user of the request."""
    wanted: dict[str, ScramDeletion | ScramUpsertion] = {}
    errors: dict[str, ApiError] = {}
    for one in (*body.deletions, *body.upsertions):
        if one.user in errors:
            continue
        if wanted.pop(one.user, None) is not None:
            errors[one.user] = ApiError("DUPLICATE_RESOURCE", _TWICE)
            continue
        try:
            _check(one, known)
            wanted[one.user] = one
        except ApiError as error:
            errors[one.user] = error
    changed: dict[str, Mapping[str, ScramCredential]] = {}
    for user, one in wanted.items():
        mechanism, credentials = MECHANISMS[one.mechanism], dict(known.get(user, {}))
        if isinstance(one, ScramDeletion):
            del credentials[mechanism.name]
        else:
            credentials[mechanism.name] = credential_of(
                mechanism, one.salt, one.salted_password, one.iterations
            )
        changed[user] = credentials
    refused = [ScramResult(user, one.error, one.message) for user, one in errors.items()]
    return changed, [*(ScramResult(user, None) for user in wanted), *refused]


def _check(one: ScramDeletion | ScramUpsertion, known: Credentials) -> None:
    if not one.user:
        raise ApiError("UNACCEPTABLE_CREDENTIAL", "Username must not be empty")
    mechanism = MECHANISMS.get(one.mechanism)
    if mechanism is None:
        raise ApiError("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism")
    if isinstance(one, ScramUpsertion):
        _check_iterations(one.iterations, mechanism)
        if not one.salted_password:
            raise ApiError("UNACCEPTABLE_CREDENTIAL", "Empty salted password")
    elif mechanism.name not in known.get(one.user, {}):
        message = "Attempt to delete a user credential that does not exist"
        raise ApiError("RESOURCE_NOT_FOUND", message)


def _check_iterations(iterations: int, mechanism: ScramMechanism) -> None:
    if iterations < mechanism.min_iterations:
        raise ApiError("UNACCEPTABLE_CREDENTIAL", "Too few iterations")
    if iterations > MAX_ITERATIONS:
        raise ApiError("UNACCEPTABLE_CREDENTIAL", "Too many iterations")
