"""The plan: all decisions of a curator, in one TOML file."""

from postrand.plan.plan import load_plan
from postrand.plan.values import Plan

__all__ = ["Plan", "load_plan"]
