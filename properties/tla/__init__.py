"""The TLA+ side: run the checkers, build state graphs, show counterexamples, judge traces."""

from properties.tla.checker import Checker, CounterexampleStep, Outcome, Status
from properties.tla.errors import InputError, MissingToolError
from properties.tla.event_values import from_json, to_json
from properties.tla.graph import Graph, Label, load_graph
from properties.tla.names import spec_actions, spec_names, spec_variables
from properties.tla.specs import SpecTree
from properties.tla.syntax import parse, to_tla
from properties.tla.tlc import Tlc
from properties.tla.values import ModelValue, Rec, Value

__all__ = [
    "Checker",
    "CounterexampleStep",
    "Graph",
    "InputError",
    "Label",
    "MissingToolError",
    "ModelValue",
    "Outcome",
    "Rec",
    "SpecTree",
    "Status",
    "Tlc",
    "Value",
    "from_json",
    "load_graph",
    "parse",
    "spec_actions",
    "spec_names",
    "spec_variables",
    "to_json",
    "to_tla",
]
