"""Small faults for functions and constants of a module: what is changed, where, and how.

A mutant is one change of the syntax tree. Words are not changed (text, messages, names), nor what is no statement of a
function or constant of a module: decorators, annotations, default values. Neither are assertions: ``strict`` of zip.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

COMPARED: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.MatMult: ast.Mult,
}
PAIRS = (
    ("min", "max"),
    ("any", "all"),
    ("ceil", "floor"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("ROUND_CEILING", "ROUND_FLOOR"),
    ("next_minus", "next_plus"),
    ("exp_lower", "exp_upper"),
    ("zeros", "ones"),
)
TURNED = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])} | {"inf": "-inf"}
WORDS = {"sentence", "shown", "warn", "format_upper", "cast"}
"""Calls whose arguments are words for people, or types."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change: in which function (or constant), on which lines, and the edit of the tree."""

    path: str
    function: str
    what: str
    lines: Span
    edit: Callable[[], object]

    @property
    def name(self) -> str:
        """The name in lists, which does not change with the lines above."""
        return f"{self.path} {self.function}: {self.what}"


@dataclass
class Module:
    """A module's tree, and its mutants; an edit changes this tree for good, so it is made in a fork."""

    path: str
    tree: ast.Module
    mutants: list[Mutant]

    @classmethod
    def read(cls, root: Path, path: str) -> "Module":
        """Read a file of the package."""
        tree = ast.parse((root / path).read_text("utf-8"))
        seen: Counter[str] = Counter()
        found = []
        for function, what, lines, edit in _sites(tree):
            seen[f"{function}: {what}"] += 1
            again = seen[f"{function}: {what}"]
            found.append(Mutant(path, function, what + f" (no. {again})" * (again > 1), lines, edit))
        return cls(path, tree, found)


def _sites(tree: ast.Module) -> Iterator[tuple[str, str, Span, Callable[[], object]]]:
    for name, node in _units(tree.body, ""):
        body = node.body if isinstance(node, ast.FunctionDef) else [node]
        for statement, block, place in _statements(body):
            for what, lines, edit in [*_deleted(statement, block, place), *_inside(statement)]:
                yield name, what, lines, edit


def _units(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the functions and methods, and the constants of the module."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name != "__repr__":
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef) and not any("Protocol" in ast.unparse(base) for base in node.bases):
            yield from _units(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign) and not prefix and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def _statements(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, list[ast.stmt], int]]:
    for place, node in enumerate(body):
        yield node, body, place
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, field, []))
        for handler in getattr(node, "handlers", []):
            yield from _statements(handler.body)


def _deleted(node: ast.stmt, block: list[ast.stmt], place: int) -> Iterator[tuple[str, Span, Callable[[], object]]]:
    """Yield a statement that is left out: a call, a refusal, a sum that is added to, a jump."""
    call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Yield | ast.YieldFrom)
    if call or isinstance(node, ast.Raise | ast.AugAssign | ast.Continue | ast.Break):
        gone: ast.stmt = ast.copy_location(ast.Pass(), node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.YieldFrom):
            empty = ast.YieldFrom(ast.Tuple([], ast.Load()))  # still a generator
            gone = ast.fix_missing_locations(ast.copy_location(ast.Expr(empty), node))
        yield f"{_short(node)} => left out", _span(node, node), lambda: block.__setitem__(place, gone)
    if isinstance(node, ast.Return) and node.value is not None and not _is(node.value, None):
        nothing = ast.copy_location(ast.Constant(None), node.value)
        yield f"{_short(node)} => return None", _span(node, node), lambda: setattr(node, "value", nothing)


def _inside(statement: ast.stmt) -> Iterator[tuple[str, Span, Callable[[], object]]]:
    """Yield the changes of the expressions of one statement, without those of its blocks."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Raise | ast.Import | ast.ImportFrom | ast.Assert):
        return
    for parent, field, node in _expressions(statement, statement):
        for what, new in _changes(node):
            ast.fix_missing_locations(ast.copy_location(new, node))
            yield f"{_short(node)} => {what}", _span(statement, node), partial(_put, parent, field, new)
        if field == "test" and not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp):
            turned = ast.fix_missing_locations(ast.copy_location(ast.UnaryOp(ast.Not(), node), node))
            yield (
                f"if {_short(node)} => if not",
                _span(statement, node),
                partial(_put, parent, field, turned),
            )


def _expressions(parent: ast.AST, top: ast.stmt) -> Iterator[tuple[ast.AST, Any, ast.expr]]:
    for field, value in ast.iter_fields(parent):
        if field in ("annotation", "targets", "target", "ctx", "format_spec"):
            continue
        for key, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            place = field if key is None else (field, key)
            if isinstance(node, ast.stmt | ast.JoinedStr | ast.ExceptHandler) or not isinstance(node, ast.AST):
                continue
            if isinstance(node, ast.Call) and _called(node) in WORDS:
                continue
            if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion that lengths agree
                continue
            if isinstance(node, ast.expr):
                yield parent, place, node
            yield from _expressions(node, top)


def _changes(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    made: list[ast.expr] = []
    match node:
        case ast.Compare(left, ops, others):
            for k, op in enumerate(ops):
                for kind in COMPARED[type(op)]:
                    made.append(ast.Compare(left, [*ops[:k], kind(), *ops[k + 1 :]], others))
        case ast.BinOp(left, op, right) if not any(isinstance(x, ast.JoinedStr) or _is_text(x) for x in (left, right)):
            made.append(ast.BinOp(left, COMPUTED[type(op)](), right))
        case ast.BoolOp(op, values):
            made.append(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            rest = (values[:k] + values[k + 1 :] for k in range(len(values)))
            made += [ast.BoolOp(op, left) if len(left) > 1 else left[0] for left in rest]
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            made.append(operand)
        case ast.Constant(bool(value)):
            made.append(ast.Constant(not value))
        case ast.Constant(int(value)):
            made += [ast.Constant(value + 1), *([ast.Constant(value - 1)] if value else [])]
        case ast.Constant(float(value)):
            made.append(ast.Constant(2 * value or 1.0))
        case ast.IfExp(_, body, orelse):
            made += [body, orelse]
        case ast.Name(name) if name in TURNED and name != "inf":
            made.append(ast.Name(TURNED[name], ast.Load()))
        case ast.Attribute(value, "inf", _):
            made.append(ast.UnaryOp(ast.USub(), node))
        case ast.Attribute(value, name, _) if name in TURNED:
            made.append(ast.Attribute(value, TURNED[name], ast.Load()))
        case ast.ListComp(elt, [*kept, ast.comprehension(t, i, [_, *_], a)]):
            made.append(ast.ListComp(elt, [*kept, ast.comprehension(t, i, [], a)]))
        case ast.GeneratorExp(elt, [*kept, ast.comprehension(t, i, [_, *_], a)]):
            made.append(ast.GeneratorExp(elt, [*kept, ast.comprehension(t, i, [], a)]))
    for new in made:
        yield _short(new), new


def _put(parent: ast.AST, place: Any, new: ast.expr) -> None:
    if isinstance(place, tuple):
        getattr(parent, place[0])[place[1]] = new
    else:
        setattr(parent, place, new)


def _span(statement: ast.stmt, node: ast.stmt | ast.expr) -> Span:
    """Return the lines that a test must reach: the statement's, without its blocks."""
    first = min(statement.lineno, node.lineno)
    compound = isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Try | ast.FunctionDef)
    last = node.end_lineno if compound else statement.end_lineno
    return first, last or first


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:55]} ... {text[-10:]}"
