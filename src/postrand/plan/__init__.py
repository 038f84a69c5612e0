"""The plan: all decisions of a curator, in one TOML file."""

from postrand.plan.plan import Plan, load_plan

__all__ = ["Plan", "load_plan"]
