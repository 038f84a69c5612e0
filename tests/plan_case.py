"""A plan from its texts, as many tests need one in a folder that has the records already."""

from pathlib import Path

from postrand import Plan, load_plan


def written(folder: Path, codebook: str, plan: str) -> Plan:
    """Write codebook and plan into a folder, and return the plan."""
    (folder / "codebook.toml").write_text(codebook, "utf-8")
    (folder / "plan.toml").write_text(plan, "utf-8")
    return load_plan(folder / "plan.toml")
