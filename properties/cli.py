"""The verbs that this room brings to `highwater`."""

from properties.conformance.command import conform
from properties.explain.command import explain
from properties.mutants.command import mutants
from properties.proofs.command import prove
from properties.tla.spec_command import spec
from properties.tla.validate_command import validate
from properties.verify import verify

__all__ = ["conform", "explain", "mutants", "prove", "spec", "validate", "verify"]
