"""The mutants of a source text: each is the text with one small change that a test should notice. Pure.

Texts that people read are left alone, and so is what only the type checker or nobody would notice: annotations,
decorators, docstrings, the arguments of exceptions, calls of a logger.
"""

import ast
import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
ORDERING = {"sorted", "min", "max", "sort", "nsmallest", "nlargest", "groupby"}
LOGGERS = {"log", "_log", "logger", "_logger", "logging"}

Change = ast.AST | None
"""What stands in the place of a node; None drops a statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change. ``function``, ``before`` and ``after`` name it however the lines around it move."""

    line: int
    function: str
    before: str
    after: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of a module that still compiles, in the order of its lines."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return list(_numbered(sorted(finder.found, key=lambda mutant: mutant.line)))


def _comparisons(node: ast.AST) -> Iterator[Change]:
    for index, operator in enumerate(node.ops if isinstance(node, ast.Compare) else ()):
        ops = [*node.ops[:index], COMPARISONS[type(operator)](), *node.ops[index + 1 :]]
        yield _with(node, ops=ops)


def _logic(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BoolOp(op=ast.And()):
            yield _with(node, op=ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield _with(node, op=ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
                yield _with(node, test=ast.UnaryOp(op=ast.Not(), operand=test))


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    match node:
        case ast.BinOp(left=left, right=right, op=op) if type(op) in ARITHMETIC:
            if not any(isinstance(side, texts) or _is_text(side) for side in (left, right)):
                yield _with(node, op=ARITHMETIC[type(op)]())
        case ast.AugAssign(value=value, op=op) if type(op) in ARITHMETIC:
            if not (isinstance(value, texts) or _is_text(value)):
                yield _with(node, op=ARITHMETIC[type(op)]())


def _constants(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)


def _statements(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Return(value=value) if value is not None and not _is_empty(value):
            yield ast.Return(value=ast.Constant(None))
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name in LOGGERS:
            return
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield None


def _orderings(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Call(func=ast.Name(id=("min" | "max") as name)):
            yield _with(node, func=ast.Name(id="max" if name == "min" else "min"))
    if not isinstance(node, ast.Call) or _called(node) not in ORDERING:
        return
    for index, keyword in enumerate(node.keywords):
        if keyword.arg != "key":
            continue
        yield _with(node, keywords=node.keywords[:index] + node.keywords[index + 1 :])
        if isinstance(keyword.value, ast.Lambda) and isinstance(keyword.value.body, ast.Tuple):
            for shorter in _shorter(keyword.value.body):
                changed = _with(keyword, value=_with(keyword.value, body=shorter))
                yield _with(node, keywords=[*node.keywords[:index], changed, *node.keywords[index + 1 :]])


def _fields(node: ast.AST) -> Iterator[Change]:
    """What ``replace`` would have changed stays as it was."""
    if isinstance(node, ast.Call) and _called(node) == "replace":
        for index, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                yield _with(node, keywords=node.keywords[:index] + node.keywords[index + 1 :])


def _filters(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for index, loop in enumerate(node.generators):
            for condition in loop.ifs:
                kept = _with(loop, ifs=[other for other in loop.ifs if other is not condition])
                yield _with(node, generators=[*node.generators[:index], kept, *node.generators[index + 1 :]])


OPERATORS: tuple[Callable[[ast.AST], Iterator[Change]], ...] = (
    _comparisons,
    _logic,
    _arithmetic,
    _constants,
    _statements,
    _orderings,
    _fields,
    _filters,
)


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Mutant] = []
        self._source = source.encode()
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line.encode()))
        self._inside: list[str] = []
        self._sort_keys = {
            keyword.value.id
            for call in ast.walk(ast.parse(source))
            if isinstance(call, ast.Call)
            for keyword in call.keywords
            if keyword.arg == "key" and isinstance(keyword.value, ast.Name)
        }

    def visit(self, node: ast.AST) -> None:
        """Collect what can be changed here, then go deeper."""
        for operator in OPERATORS:
            for change in operator(node):
                self._note(node, change)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Defaults and body; neither decorators nor annotations."""
        self._inside.append(node.name)
        defaults = [each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None]
        for each in (*defaults, *node.body):
            self.visit(each)
        self._inside.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """The body, unless it only promises."""
        if any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            return
        self._inside.append(node.name)
        for each in node.body:
            self.visit(each)
        self._inside.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value, not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        """Everything but imports for the type checker."""
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """A function that others sort by may forget a part of its key."""
        if self._inside and self._inside[-1] in self._sort_keys and isinstance(node.value, ast.Tuple):
            for shorter in _shorter(node.value):
                self._note(node, _with(node, value=shorter))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Whether ``zip`` insists on equal lengths is a check of ours, not a choice."""
        self.visit(node.func)
        for each in node.args:
            self.visit(each)
        for keyword in node.keywords:
            if keyword.arg != "strict":
                self.visit(keyword.value)

    def _skip(self, node: ast.AST) -> None:
        """Texts, and places whose position Python 3.11 does not know."""

    visit_JoinedStr = visit_Raise = visit_Assert = visit_Import = visit_ImportFrom = _skip

    def _note(self, node: ast.AST, change: Change) -> None:
        line = node.lineno
        if isinstance(node, ast.If | ast.While):
            node, change = node.test, change.test
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        after = _text(change)
        source = (self._source[:start] + after.encode() + self._source[end:]).decode()
        before = " ".join(self._source[start:end].decode().split())
        if _compiles(source):
            inside = ".".join(self._inside)
            self.found.append(Mutant(line=line, function=inside, before=before, after=after, source=source))


def _numbered(found: list[Mutant]) -> Iterator[Mutant]:
    """Tell apart what changes alike at several places of one function."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for mutant in found:
        name = (mutant.function, mutant.before, mutant.after)
        seen[name] += 1
        yield mutant if seen[name] == 1 else replace(mutant, after=f"{mutant.after}  # {seen[name]}")


def _text(change: Change) -> str:
    if change is None:
        return "pass"
    text = ast.unparse(change)
    return f"({text})" if isinstance(change, ast.expr) and not isinstance(change, ast.Constant) else text


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _shorter(key: ast.Tuple) -> Iterator[ast.Tuple]:
    for index in range(len(key.elts)):
        yield ast.Tuple(elts=key.elts[:index] + key.elts[index + 1 :], ctx=ast.Load())


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_empty(node: ast.expr) -> bool:
    """Whether returning nothing at all would be the same to most callers."""
    match node:
        case ast.Constant(value=value):
            return not value or value is True
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(keys=parts):
            return not parts
    return False


def _compiles(source: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "mutant", "exec")
        except (SyntaxError, ValueError):
            return False
    return True
