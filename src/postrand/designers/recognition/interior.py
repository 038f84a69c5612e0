"""A smooth objective on sparse linear rows, minimised by the interior point method IPOPT (through casadi)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from postrand.designers.recognition.curvature import MoveLoss, Vector
from postrand.designers.recognition.programme import Rows
from postrand.errors import DesignError, sentence
from postrand.support.extras import require


class NotConverged(DesignError):
    """The interior point method found no point that meets its tolerances, from where it was started."""


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A solution ``[y, z]`` with the multipliers of its rows (>= 0 where ``high`` binds) and what the solver says."""

    x: Vector
    multipliers: Vector
    iterations: int
    status: str


def minimise(
    objective: MoveLoss, rows: Rows, high: Vector, start: Vector, *, tolerance: float = 1e-9, limit: int = 1000
) -> Point:
    """Minimise ``objective(y)`` over ``0 <= y <= high`` and the rows, from ``start`` = ``[y, z]``.

    Raises
    ------
    NotConverged
        If IPOPT stops without a point that meets its tolerances.
    DesignError
        If casadi is not installed.
    """
    ca = _casadi()
    V, N = len(high), rows.A.shape[1]
    x = ca.MX.sym("x", N)
    jacobian = _sparse(ca, rows.A)
    value = _callback(ca, "value", [(N, 1)], [(1, 1)], lambda p: [objective.value(p[:V])])
    slope = _callback(ca, "slope", [(N, 1), (0, 0)], [(1, 1), (N, 1)], lambda p, _: _with_gradient(objective, p[:V], N))
    options: dict[str, Any] = {
        "grad_f": slope,
        "no_nlp_grad": True,  # the gradients below are all that is needed
        "error_on_fail": False,
        "print_time": False,
        "show_eval_warnings": False,  # a singular trial matrix has an infinite loss: IPOPT takes a shorter step
        "ipopt.print_level": 0,
        "ipopt.sb": "yes",
        "ipopt.tol": tolerance,
        "ipopt.max_iter": limit,
        "ipopt.bound_relax_factor": 0.0,
        "ipopt.linear_solver": "mumps",  # comes with casadi's wheel
        "ipopt.mu_strategy": "adaptive",
        "ipopt.jac_c_constant": "yes",
        "ipopt.jac_d_constant": "yes",
    }
    curvature = _hessian(ca, objective, V, N, rows.A.shape[0])
    options["hess_lag"] = curvature  # casadi keeps no reference to Python callbacks: these names do
    solver = ca.nlpsol("least_loss", "ipopt", {"x": x, "f": value(x), "g": ca.densify(jacobian @ x)}, options)
    found = solver(
        x0=start,
        lbx=np.concatenate([np.zeros(V), rows.z_low]),
        ubx=np.concatenate([high, rows.z_high]),
        lbg=rows.low,
        ubg=rows.high,
    )
    stats = solver.stats()
    status = str(stats["return_status"])
    if status not in ("Solve_Succeeded", "Solved_To_Acceptable_Level"):
        raise NotConverged(
            sentence(
                "the interior point method did not converge",
                got=status,
                fix="check the conditions with fewer of them, or start from another matrix",
            )
        )
    return Point(np.asarray(found["x"]).ravel(), np.asarray(found["lam_g"]).ravel(), int(stats["iter_count"]), status)


def _casadi() -> Any:
    require("casadi", "the least-loss designs need")
    import casadi

    return casadi


def _with_gradient(objective: MoveLoss, y: Vector, size: int) -> list[Any]:
    gradient = np.zeros(size)
    gradient[: len(y)] = objective.gradient(y)
    return [objective.value(y), gradient]


def _hessian(ca: Any, objective: MoveLoss, V: int, N: int, rows: int) -> Any:
    i, j = objective.pattern(N)
    order = np.lexsort((i, j))  # casadi stores by column
    pattern = ca.Sparsity.triplet(N, N, i[order].tolist(), j[order].tolist())

    def evaluate(p: Vector, _: Vector, scale: Vector, __: Vector) -> list[Any]:
        return [ca.DM(pattern, objective.hessian(p[:V])[order] * float(scale[0]))]

    return _callback(ca, "curvature", [(N, 1), (0, 0), (1, 1), (rows, 1)], [pattern], evaluate)


def _sparse(ca: Any, A: Any) -> Any:
    A = A.copy()
    A.sort_indices()
    pattern = ca.Sparsity(A.shape[0], A.shape[1], A.indptr.tolist(), A.indices.tolist())
    return ca.DM(pattern, A.data)


def _callback(ca: Any, name: str, inputs: list[Any], outputs: list[Any], function: Callable[..., list[Any]]) -> Any:
    """Return a casadi function that calls Python; shapes are (rows, columns) or a sparsity pattern."""

    def pattern(shape: Any) -> Any:
        return ca.Sparsity.dense(*shape) if isinstance(shape, tuple) else shape

    class Bridge(ca.Callback):  # type: ignore[misc]  # casadi carries no types
        def __init__(self) -> None:
            ca.Callback.__init__(self)
            self.construct(name, {})

        def get_n_in(self) -> int:
            return len(inputs)

        def get_n_out(self) -> int:
            return len(outputs)

        def get_sparsity_in(self, index: int) -> Any:
            return pattern(inputs[index])

        def get_sparsity_out(self, index: int) -> Any:
            return pattern(outputs[index])

        def eval(self, arguments: Any) -> Any:
            return function(*(np.asarray(a).ravel() for a in arguments))

    return Bridge()
