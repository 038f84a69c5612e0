"""Time other programs on one column of 10 categories; nanoseconds for a released value, as each is meant to be used.

``python benchmarks/peers.py`` installs them in an environment of their own (a temporary one, or the folder that
POSTRAND_PEERS names), runs itself there, and returns what they took. Those that draw value by value get fewer values.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

SIZE, EPSILON = 10, 1.0
HERE = Path(__file__).parent


def opendp(values):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    keep = 2.718281828459045 / (2.718281828459045 + SIZE - 1)
    draw = dp.m.make_randomized_response(list(range(SIZE)), keep, T=int)
    return lambda: [draw(value) for value in values]


def diffprivlib(values):
    from diffprivlib.mechanisms import ExponentialCategorical

    names = [str(code) for code in range(SIZE)]
    utility = [(a, b, 1) for i, a in enumerate(names) for b in names[i + 1 :]]
    mechanism, texts = ExponentialCategorical(epsilon=EPSILON, utility_list=utility), [str(v) for v in values]
    return lambda: [mechanism.randomise(text) for text in texts]


def multi_freq_ldpy(values):
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

    return lambda: [GRR_Client(value, SIZE, EPSILON) for value in values]


def pure_ldp(values):
    from pure_ldp.frequency_oracles.direct_encoding import DEClient

    client = DEClient(EPSILON, SIZE)
    return lambda: [client.privatise(value + 1) for value in values]


def pram(values):
    import pandas as pd
    from pram import Pram

    frame = pd.DataFrame({"v": values})
    return lambda: Pram.pram(frame, m=0.2, alpha=0.5)


PEERS = {
    "opendp": (opendp, 20_000),
    "diffprivlib": (diffprivlib, 20_000),
    "multi-freq-ldpy": (multi_freq_ldpy, 50_000),
    "pure-ldp": (pure_ldp, 50_000),
    "pram (PyPI)": (pram, 20_000),
}


def run():
    """Time each peer in this process; one that fails says why."""
    import random
    from importlib.metadata import version

    rows = []
    for name, (prepare, count) in PEERS.items():
        package = name.partition(" ")[0]
        try:
            work = prepare([random.randrange(SIZE) for _ in range(count)])
            work()
            start = time.perf_counter()
            work()
            ns = (time.perf_counter() - start) / count * 1e9
            rows.append({"peer": name, "version": version(package), "ns": ns})
        except Exception as error:
            rows.append({"peer": name, "problem": f"{type(error).__name__}: {error}"[:200]})
    print(json.dumps(rows))


def markdown(rows, ours):
    """Yield the table, beside our kernel's time for a value."""
    yield f"| program | version | ns per value | times postrand's kernel ({ours:.2f} ns) |"
    yield "| --- | --- | ---: | ---: |"
    for r in rows:
        if "ns" in r:
            yield f"| {r['peer']} | {r['version']} | {r['ns']:,.0f} | {r['ns'] / ours:,.0f} |"
        else:
            yield f"| {r['peer']} | - | {r['problem']} | - |"


def measure():
    """Install the peers where they are not, and return a row for each."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(os.environ.get("POSTRAND_PEERS") or made) / "venv"
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "-r", str(HERE / "peers.txt")], check=True)
        command = [str(python), "-W", "ignore", __file__, "--run"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    if sys.argv[1:] == ["--run"]:
        run()
    else:
        print(json.dumps(measure(), indent=1))
