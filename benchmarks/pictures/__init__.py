"""The pictures of docs/ten-pictures.md and README.md, drawn from numbers that the package computes."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
