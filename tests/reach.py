"""What no command, page, route or daemon reaches: `python -m tests.reach` prints it, tests/test_reach.py holds it.

From `gpuledger.main` outwards, by names: code that is reached reaches the definitions that its names stand for, the
modules that it imports or names in a text (`"simulator"` for a child, `"analyzer.interfaces.cli.analyze:analyze"` for a
command), and every method whose name it reads of anything. What is found is in no way reached; what is not found may
still be dead: two methods of one name are one here, and a branch that is never taken is a branch.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

from bench.house import PACKAGES, product
from tests.test_architecture import ROOT, name_of, nodes_of, tree_of

ENTRY = "gpuledger:main"  # pyproject.toml, and .ci/installed_main.py
# What wraps a definition and calls it nowhere; whatever else stands above one hands it to somebody who will.
PASSIVE = {
    "abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod", "contextmanager", "dataclass",
    "final", "lru_cache", "overload", "override", "property", "runtime_checkable", "setter", "staticmethod",
    "total_ordering", "wraps",
}  # fmt: skip
DATA = {".css", ".csv", ".html", ".js", ".json", ".sql", ".svg", ".toml", ".txt", ".yml"}
TEXTS = {".html", ".txt", ".sql"}  # those that name each other, and, but for SQL, what they read of Python's things

Found = tuple[str, int]  # what, and its lines
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Module:
    """One file: what its names stand for, what it defines, and what runs because it is imported, or run."""

    name: str
    path: Path
    aliases: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    definitions: dict[str, list[ast.stmt]] = field(default_factory=lambda: defaultdict(list))
    at_import: list[ast.AST] = field(default_factory=list)
    as_main: list[ast.AST] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, root: Path = ROOT) -> "Module":
        """Return the module of a file below a root."""
        parts = path.relative_to(root).with_suffix("").parts
        module = cls(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)
        for node in nodes_of(path):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, target in _bound(node):
                    module.aliases[name].add(target)
        for statement in tree_of(path).body:
            module._take(statement)
        return module

    def _take(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.If) and "__main__" in ast.unparse(statement.test):
            self.as_main.append(statement)
        elif isinstance(statement, (ast.If, ast.Try)):
            for inner in ast.iter_child_nodes(statement):
                if isinstance(inner, ast.stmt):
                    self._take(inner)
                else:
                    self.at_import.append(inner)
        elif isinstance(statement, (*_FUNCTION, ast.ClassDef)):
            self.definitions[statement.name].append(statement)
            if _is_registered(statement):
                self.at_import.append(statement)
        elif names := _assigned(statement):
            for name in names:
                self.definitions[name].append(statement)
        else:
            self.at_import.append(statement)


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, and what it stands for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield alias.name.partition(".")[0], alias.name.partition(".")[0]


def _assigned(statement: ast.stmt) -> list[str]:
    """Return the names of `NAME = value` or `A, B = values`, none of any other statement."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    flat = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
    names = [one.id for one in flat if isinstance(one, ast.Name)]
    return names if len(names) == len(flat) else []


def _is_registered(node: ast.AST) -> bool:
    """Say whether a decorator may hand the definition to somebody who calls it."""
    names = {ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in getattr(node, "decorator_list", [])}
    return bool(names - PASSIVE)


class Reach:
    """What of some modules is reached from the entry point: `module`, `module:name`, `module:Class.method`."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self.reached: set[str] = set()
        self.attributes = set(_words_of_templates())  # names that are read of anything
        self.texts: set[str] = set()  # of the code that is reached
        self._members: dict[str, list[tuple[str, Module, ast.stmt]]] = defaultdict(list)  # of reached classes, by name
        self._waiting: list[tuple[Module, ast.AST]] = []
        self._named(ENTRY)
        while self._waiting:
            module, code = self._waiting.pop()
            self._use(module, code, _local(code))

    def is_called_by_others(self, module: Module, node: ast.ClassDef, method: ast.AST) -> bool:
        """Say whether a method is a dunder, handed on by a decorator, or one that a foreign base class has."""
        name = str(getattr(method, "name", ""))
        is_dunder = name.startswith("__") and name.endswith("__")
        return is_dunder or _is_registered(method) or any(hasattr(b, name) for b in self._foreign_bases(module, node))

    def _foreign_bases(self, module: Module, node: ast.ClassDef) -> Iterator[object]:
        for base in map(_chain, node.bases):
            for target in module.aliases.get(base[0], {f"{module.name}.{base[0]}"}) if base else ():
                owner, _, name = ".".join((target, *base[1:])).rpartition(".")
                if owner in self.modules:
                    for own in self.modules[owner].definitions.get(name, ()):
                        if isinstance(own, ast.ClassDef):
                            yield from self._foreign_bases(self.modules[owner], own)
                elif owner.partition(".")[0] not in PACKAGES and name in vars(import_module(owner)):
                    yield getattr(import_module(owner), name)

    def _named(self, text: str) -> None:
        """Reach what a text names: a module that is run, or a function of one."""
        name, _, definition = text.partition(":")
        if name not in self.modules:
            return
        self._import(name)
        if definition:
            self._define(name, definition)
        elif f"{name} run" not in self.reached:
            self.reached.add(f"{name} run")
            self._import(f"{name}.__main__")
            for module in (self.modules[name], self.modules.get(f"{name}.__main__")):
                self._waiting += [(module, code) for code in module.as_main] if module else []

    def _import(self, name: str) -> None:
        """Reach a module, and the packages that it lies in: what they do when they are imported runs."""
        while name:
            if name in self.modules and name not in self.reached:
                self.reached.add(name)
                self._waiting += [(self.modules[name], code) for code in self.modules[name].at_import]
            name = name.rpartition(".")[0]

    def _define(self, module: str, name: str) -> None:
        if (key := f"{module}:{name}") in self.reached:
            return
        self.reached.add(key)
        self._import(module)
        for node in self.modules[module].definitions.get(name, ()):
            if isinstance(node, ast.ClassDef):
                self._class(self.modules[module], node)
            else:
                self._waiting.append((self.modules[module], node))

    def _class(self, module: Module, node: ast.ClassDef) -> None:
        """Reach a class: what its body does and what others call; any other method waits to be named."""
        code: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
        for statement in node.body:
            if not isinstance(statement, _FUNCTION) or self.is_called_by_others(module, node, statement):
                code.append(statement)
            else:
                key = f"{module.name}:{node.name}.{statement.name}"
                if statement.name in self.attributes:
                    self._method(key, module, statement)
                else:
                    self._members[statement.name].append((key, module, statement))
        self._waiting += [(module, one) for one in code]

    def _method(self, key: str, module: Module, method: ast.stmt) -> None:
        self.reached.add(key)
        self._waiting.append((module, method))

    def _attributes(self, names: Iterable[str]) -> None:
        """Reach what is read of anything: each method of these names."""
        for name in names:
            if name not in self.attributes:
                self.attributes.add(name)
                for key, module, method in self._members.pop(name, ()):
                    self._method(key, module, method)

    def _dotted(self, dotted: str) -> bool:
        """Reach what a dotted name of ours stands for; say whether it is one."""
        owner, _, name = dotted.rpartition(".")
        module = self.modules.get(owner)
        if module is None:
            self._import(dotted)
            return dotted in self.modules
        self._import(owner)
        # A package hands out what lies behind it, often by the name of the module that has it.
        others = module.aliases.get(name, set()) - {dotted}
        if name in module.definitions:
            self._define(owner, name)
        elif others:
            for other in others:
                self._dotted(other)
        else:
            self._import(dotted)
        return True

    def _use(self, module: Module, node: ast.AST, local: frozenset[str]) -> None:
        """Reach what one piece of code names. `local` are the names that stand for something of its own."""
        if isinstance(node, ast.Name):
            self._read(module, node.id, local)
        elif isinstance(node, ast.Attribute):
            if not self._through_module(module, node, local):
                self._attributes([node.attr] if isinstance(node.ctx, ast.Load) else ())
                self._use(module, node.value, local)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.texts.add(node.value)
            self._named(node.value)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                self._import(f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name)
        else:
            self._attributes(node.kwd_attrs if isinstance(node, ast.MatchClass) else ())
            for text in _quoted_types(node):
                self._use(module, text, frozenset())
            for child in ast.iter_child_nodes(node):
                self._use(module, child, local)

    def _read(self, module: Module, name: str, local: frozenset[str]) -> None:
        if name in local:
            return
        if name in module.definitions:
            self._define(module.name, name)
        for target in module.aliases.get(name, ()):
            self._dotted(target)

    def _through_module(self, module: Module, node: ast.Attribute, local: frozenset[str]) -> bool:
        """Reach `module.name` of a module that is imported whole; say whether it is that."""
        parts = _chain(node)
        if not parts or parts[0] in local:
            return False
        found = False
        for target in module.aliases.get(parts[0], ()):
            dotted = ".".join((target, *parts[1:]))
            if dotted.rpartition(".")[0] in self.modules:
                found |= self._dotted(dotted)
        return found


def _chain(node: ast.expr) -> list[str]:
    """Return `a.b.c[…]` in parts, nothing where it begins with anything but a name."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        parts = [node.attr, *parts] if isinstance(node, ast.Attribute) else []
        node = node.value
    return [node.id, *parts] if isinstance(node, ast.Name) else []


def _local(code: ast.AST) -> frozenset[str]:
    """Return the names that a function binds: in it they stand for nothing of the module."""
    if not isinstance(code, _FUNCTION):
        return frozenset()
    bound, of_others = set[str](), set[str]()
    for node in ast.walk(code):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (*_FUNCTION, ast.ClassDef)) and node is not code:
            bound.add(node.name)
        elif isinstance(node, ast.Global):
            of_others.update(node.names)
    return frozenset(bound - of_others)


def _quoted_types(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the types that one piece of code names in quotes: "Session", cast("Session", …)."""
    named = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    if isinstance(node, ast.Call) and _chain(node.func)[-1:] == ["cast"]:
        named.append(node.args[0])
    for part in named:
        for inner in ast.walk(part) if isinstance(part, ast.AST) else ():
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                with suppress(SyntaxError):  # the words of Annotated[…, Field(description="…")]
                    yield ast.parse(inner.value, mode="eval").body


@cache
def _data() -> tuple[Path, ...]:
    files = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*")))
    return tuple(path for path in files if path.suffix in DATA and "__pycache__" not in path.parts)


@cache
def _words_of_templates() -> frozenset[str]:
    texts = (path.read_text("utf-8") for path in _data() if path.suffix in TEXTS - {".sql"})
    return frozenset(word for text in texts for word in re.findall(r"\.([A-Za-z_]\w*)", text))


def unreached(reach: Reach) -> Iterator[Found]:
    """Yield each module, definition and method that is not reached; of what is not, nothing within."""
    for module in reach.modules.values():
        if module.name not in reach.reached:
            yield module.name, len(module.path.read_text("utf-8").splitlines())
            continue
        for name, nodes in module.definitions.items():
            if f"{module.name}:{name}" not in reach.reached and name != "__all__":
                yield f"{module.name}:{name}", sum(map(_lines, nodes))
            elif isinstance(nodes[0], ast.ClassDef):
                yield from _members(reach, module, nodes[0])


def _members(reach: Reach, module: Module, node: ast.ClassDef) -> Iterator[Found]:
    for method in node.body:
        key = f"{module.name}:{node.name}.{getattr(method, 'name', '')}"
        if not isinstance(method, _FUNCTION) or reach.is_called_by_others(module, node, method):
            continue
        if key not in reach.reached:
            yield key, _lines(method)


def unread_settings(reach: Reach) -> Iterator[Found]:
    """Yield each setting and each flag of a command whose value nobody asks for."""
    for module in reach.modules.values():
        for node in nodes_of(module.path):
            if isinstance(node, ast.AnnAssign):
                name = _setting(node)
            elif isinstance(node, ast.Call):
                name = _flag(node)
            else:
                continue
            if name is not None and name not in reach.attributes:
                yield f"{module.name}: {name}", _lines(node)


def _setting(node: ast.AnnAssign) -> str | None:
    """Return the name of a field that has a help."""
    has_help = isinstance(node.value, ast.Call) and any(each.arg == "metadata" for each in node.value.keywords)
    return node.target.id if has_help and isinstance(node.target, ast.Name) else None


def _flag(call: ast.Call) -> str | None:
    """Return the name that a flag has among the options; None where it is put together, and of any other call."""
    if getattr(call.func, "attr", "") != "add_argument":
        return None
    for keyword in call.keywords:
        if keyword.arg == "dest":
            return str(keyword.value.value) if isinstance(keyword.value, ast.Constant) else None
    names = [str(one.value) for one in call.args if isinstance(one, ast.Constant)]
    longest = [name for name in names if name.startswith("--")] or names
    return longest[0].lstrip("-").replace("-", "_") if longest else None


def unnamed_files(reach: Reach) -> Iterator[Found]:
    """Yield each file beside the code that neither reached code nor another such file names."""
    texts = {path: path.read_text("utf-8", errors="replace") for path in _data()}
    naming = {path: text for path, text in texts.items() if path.suffix in TEXTS} | {ROOT: "\n".join(reach.texts)}
    words = {path: frozenset(re.findall(r"\w+", text)) for path, text in naming.items()}
    for path in _data():
        parts = re.findall(r"\w+", path.stem)
        named = re.compile(rf"\b{re.escape(path.stem)}\b")
        if not any(words[other].issuperset(parts) and named.search(naming[other]) for other in naming if other != path):
            yield name_of(path), len(texts[path].splitlines())


def _lines(node: ast.stmt | ast.Call) -> int:
    starts: list[int] = [node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]
    return (node.end_lineno or node.lineno) - min(starts) + 1


def all_unreached() -> list[Found]:
    """Return everything, in the order of the files."""
    reach = Reach(map(Module.read, product()))
    return [*unreached(reach), *unread_settings(reach), *unnamed_files(reach)]


if __name__ == "__main__":
    for what, lines in all_unreached():
        print(f"{lines:5} {what}")
