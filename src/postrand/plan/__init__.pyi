from .plan import load_plan
from .values import Plan

__all__ = ["Plan", "load_plan"]
