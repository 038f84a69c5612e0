"""Compute the numbers and draw the pictures: ``python -m benchmarks.pictures [--draw]``.

Writes docs/pictures/numbers.json, and an SVG beside it for each picture. About two minutes of one processor; with
``--draw`` at once, from the numbers of the last run.
"""

import json
import sys

from benchmarks.pictures import FOLDER
from benchmarks.pictures.numbers import quick, release, worth
from benchmarks.pictures.ten import PICTURES

if __name__ == "__main__":
    held = FOLDER / "numbers.json"
    if "--draw" not in sys.argv:
        found = quick() | {"worth": worth()} | release()
        held.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    numbers = json.loads(held.read_text(encoding="utf-8"))
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(numbers), encoding="utf-8")
