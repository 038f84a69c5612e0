"""The power of the test of released counts: the least number of records at which a wrong release is refused.

``python benchmarks/margins.py`` prints the table of docs/verification.md; counts are rounded expectations.
"""

import numpy as np

from postrand.mechanism.margins import Table, impossible
from postrand.mechanism.matrix import TransitionMatrix, randomised_response

CASES = [
    (2, 1.0, None, (0.9, 0.1), "not perturbed"),
    (2, 1.0, None, (0.75, 0.25), "not perturbed"),
    (5, 1.0, None, (0.6, 0.2, 0.1, 0.05, 0.05), "not perturbed"),
    (5, 3.0, None, (0.6, 0.2, 0.1, 0.05, 0.05), "not perturbed"),
    (5, 3.0, None, (0.9, 0.04, 0.03, 0.02, 0.01), "not perturbed"),
    (5, 1.0, 2.0, (0.6, 0.2, 0.1, 0.05, 0.05), "ε = 2"),
    (5, 1.0, 2.0, (0.9, 0.04, 0.03, 0.02, 0.01), "ε = 2"),
    (5, 1.0, 1.2, (1.0, 0.0, 0.0, 0.0, 0.0), "ε = 1.2"),
    (20, 1.0, None, tuple(np.arange(20, 0, -1) / 210), "not perturbed"),
]
MOST = 10**9


def least_refused(law: TransitionMatrix, share: np.ndarray) -> int | None:
    """Return the least n (to three digits) at which counts of these shares are refused; None where 10^9 are not."""

    def refused(n: int) -> bool:
        return bool(impossible([Table("", (law,), np.rint(n * share).astype(np.int64))]))

    if not refused(MOST):
        return None
    low, high = 1, MOST
    while high - low > max(1, low // 200):
        middle = int((low * high) ** 0.5) if high > 2 * low else (low + high) // 2
        low, high = (low, middle) if refused(middle) else (middle, high)
    return high


def main() -> None:
    for size, epsilon, used, shares, text in CASES:
        law, true = randomised_response(size, epsilon), np.array(shares)
        released = true if used is None else randomised_response(size, used).array.T @ true
        n = least_refused(law, released)
        seen = "never" if n is None else f"{float(f'{n:.2g}'):,.0f}"
        told = ", ".join(f"{x:g}" for x in shares) if size <= 5 else "20 to 1, falling evenly"
        print(f"| {size} categories, ε = {epsilon:g} | {text} | {told} | {seen} |")


if __name__ == "__main__":
    main()
