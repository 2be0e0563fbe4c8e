"""The statements of a file that a job reaches, as far as they can be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from binders.common.python_reach import reached_code
from speck.core.code import PartChangeKind, code_change
from tests.support.properties import tries

AIR = '''"""Jobs about air."""

import json
from math import floor, sqrt
import side_effects

LIMIT = 30
UNUSED = 4
TABLE = {}


def helper(value):
    """Scale."""
    return value * LIMIT


def register(function):
    TABLE[function.__name__] = function
    return function


@register
def plugin(messages):
    return messages


def dirty(messages, most=UNUSED):
    # the dirty ones
    return messages.filter(helper(2))


def clean(messages):
    return json.dumps(floor(messages))


def tabled(messages):
    return TABLE["plugin"](messages)


clean.output_mode = "update"

if __name__ == "__main__":
    print(dirty([]))
'''


def names(source: str, entry: str) -> list[str]:
    found = reached_code(source.encode(), entry, "air.py")
    assert found.whole == ""
    return [each.name for each in found.parts]


ALWAYS = ["side_effects"]  # nobody uses its name, so it is imported for what it does


def test_names_are_followed_through_functions_defaults_decorators_and_imports() -> None:
    registry = ["TABLE", "register", "plugin"]  # the decorator of `plugin` changes a name of the module
    assert sorted(names(AIR, "dirty")) == sorted([*ALWAYS, *registry, "LIMIT", "UNUSED", "helper", "dirty"])
    assert sorted(names(AIR, "clean")) == sorted([*ALWAYS, *registry, "json", "floor", "clean", "clean"])
    assert sorted(names(AIR, "tabled")) == sorted([*ALWAYS, *registry, "tabled"])


EQUAL = {
    "comment": ("# the dirty ones", "# another remark\n    # of two lines"),
    "docstring": ('"""Scale."""', '"""Scale a value by the limit."""'),
    "docstring of the module": ('"""Jobs about air."""\n', ""),
    "formatting": ("return value * LIMIT", "return (\n        value\n        * LIMIT\n    )"),
    "another function": ("json.dumps(floor(messages))", "json.dumps(messages)"),
    "another import of the same module": (
        "from math import floor, sqrt",
        "from math import floor, sqrt, ceil",
    ),
    "its lines elsewhere": ("def clean(messages):", "def more():\n    pass\n\n\ndef clean(messages):"),
    "an attribute of another function": ('clean.output_mode = "update"', ""),
    "what runs as a script": ("print(dirty([]))", "print('no')"),
}
DIFFERENT = {
    "itself": ("messages.filter(helper(2))", "messages.filter(helper(3))"),
    "a function that it uses": ("value * LIMIT", "value + LIMIT"),
    "a constant that a function that it uses uses": ("LIMIT = 30", "LIMIT = 31"),
    "a default": ("UNUSED = 4", "UNUSED = 5"),
    "an import for its effect": ("import side_effects", "import other_effects"),
    "a function that registers itself": (
        "@register\ndef plugin(messages):\n    return messages",
        "@register\ndef plugin(messages):\n    return None",
    ),
    "a statement that runs at the import": ('clean.output_mode = "update"', "print(1)"),
}


@pytest.mark.parametrize("case", EQUAL)
def test_it_does_not_reach(case: str) -> None:
    old, new = EQUAL[case]
    assert old in AIR
    before, after = (reached_code(each.encode(), "dirty", "air.py") for each in (AIR, AIR.replace(old, new)))
    change = code_change("air.py", before, after)
    assert change.same and str(change) == "air.py changed, but nothing that the job uses"


@pytest.mark.parametrize("case", DIFFERENT)
def test_it_reaches(case: str) -> None:
    old, new = DIFFERENT[case]
    assert old in AIR
    before, after = (reached_code(each.encode(), "dirty", "air.py") for each in (AIR, AIR.replace(old, new)))
    change = code_change("air.py", before, after)
    assert not change.same and change.parts


DYNAMIC = {
    "globals()": "    return globals()['clean'](messages)",
    "exec": "    exec('x = 1')",
    "eval": "    return eval('clean(messages)')",
    "its own module": "    import sys\n    return getattr(sys.modules[__name__], 'clean')(messages)",
    "its own module by name": "    from importlib import import_module\n    return import_module(__name__)",
    "the globals of a function": "    return helper.__globals__['clean'](messages)",
}


@pytest.mark.parametrize("case", DYNAMIC)
def test_with_names_looked_up_at_run_time_the_whole_file_counts(case: str) -> None:
    source = AIR.replace("    return messages.filter(helper(2))", DYNAMIC[case])
    found = reached_code(source.encode(), "dirty", "air.py")
    assert found.whole.startswith("`dirty` uses ")
    edited = reached_code(source.replace("json.dumps(floor", "json.dumps(sqrt").encode(), "dirty", "air.py")
    change = code_change("air.py", found, edited)
    assert not change.same and "the whole file counts: `dirty` uses" in str(change)
    comment = reached_code(source.replace("# the dirty ones", "# x").encode(), "dirty", "air.py")
    assert code_change("air.py", found, comment).same
    assert names(source, "clean")  # another function of the file is as before


def test_a_star_import_and_a_script_count_as_a_whole() -> None:
    star = reached_code(("from os.path import *\n" + AIR).encode(), "dirty", "air.py")
    assert star.whole == "it imports * from os.path"
    assert reached_code(AIR.encode(), None, "air.py").whole == "it runs as a script"
    bound_late = "if True:\n    def late(messages): return messages\n"
    assert reached_code(bound_late.encode(), "late", "air.py").whole.startswith(
        "'late' is bound by a condition"
    )


@pytest.mark.parametrize("reads", ["dirty.__doc__", "open(__file__)", "__import__('inspect')"])
def test_to_code_that_reads_its_own_text_a_comment_matters(reads: str) -> None:
    source = AIR.replace("messages.filter(helper(2))", reads)
    before, after = (
        reached_code(each.encode(), "dirty", "air.py")
        for each in (source, source.replace('"""Scale."""', '"""Enlarge."""'))
    )
    assert code_change("air.py", before, after).same is (reads == "__import__('inspect')")
    assert before.whole


def test_inspect_reads_the_text_too() -> None:
    source = "import inspect\ndef work(messages):\n    # one\n    return inspect.getsource(work)\n"
    before, after = (
        reached_code(each.encode(), "work", "a.py") for each in (source, source.replace("# one", "# two"))
    )
    assert not code_change("a.py", before, after).same


def test_a_change_names_the_statements_and_shows_their_lines() -> None:
    edited = AIR.replace("LIMIT = 30", "LIMIT = 31").replace(
        "    return messages.filter(helper(2))", "    more = helper(3)\n    return messages.filter(more)"
    )
    before, after = (reached_code(each.encode(), "dirty", "air.py") for each in (AIR, edited))
    change = code_change("air.py", before, after)
    assert str(change) == "air.py: `LIMIT` changed (1 line), `dirty` changed (2 lines)"
    assert change.parts[0].diff == ("-LIMIT = 30", "+LIMIT = 31")
    assert change.parts[1].diff == (
        "     # the dirty ones",
        "-    return messages.filter(helper(2))",
        "+    more = helper(3)",
        "+    return messages.filter(more)",
    )


def test_another_order_of_statements_is_a_change() -> None:
    one, other = (
        reached_code(f"A = 1\n{each}def work(m): return A, B\n".encode(), "work", "a.py")
        for each in ("B = A\nA = 2\n", "A = 2\nB = A\n")
    )
    change = code_change("a.py", one, other)
    assert not change.same
    assert [each.kind for each in change.parts] == [PartChangeKind.REORDERED]


_NAMES = ("a", "b", "c", "d", "e")
_uses = some.fixed_dictionaries({name: some.lists(some.sampled_from(_NAMES), max_size=2) for name in _NAMES})


@tries(100)
@given(uses=_uses, edited=some.sampled_from(_NAMES), entry=some.sampled_from(_NAMES))
def test_a_change_counts_exactly_for_the_functions_that_call_what_changed(
    uses: dict[str, list[str]], edited: str, entry: str
) -> None:
    def source(changed: str) -> bytes:
        text = ""
        for name, called in uses.items():
            calls = ", ".join(f"{each}(x)" for each in called)
            text += f"def {name}(x):\n    return [{calls}], {int(name == changed)}\n"
        return text.encode()

    reached, waiting = {entry}, [entry]
    while waiting:
        new = set(uses[waiting.pop()]) - reached
        reached |= new
        waiting += new
    before, after = (reached_code(source(each), entry, "a.py") for each in ("", edited))
    assert code_change("a.py", before, after).same is (edited not in reached)


# Statements that bind, use and change names in all ways; {n} is the number that an edit changes.
_STATEMENTS = (
    "T = [{n}]",
    "A = {n}",
    "A += {n}",
    "B = A + {n}",
    "T.append({n})",
    "T[0] = {n}",
    "def f(x=A):\n    return x + {n}",
    "def g():\n    return f() + B + {n}",
    "def register(function):\n    T.append(function() + {n})\n    return function",
    "@register\ndef h():\n    return {n}",
    "def setter():\n    global A\n    A = {n}\n    return A",
    "C = setter() + {n}",
    "def keep(number):\n    T.append(number)\n    return number",
    "D = [keep(each) for each in (A, {n})]",
    "class K:\n    v = keep({n})\n    def m(self):\n        return B + self.v + {n}",
    "class L(K):\n    w = {n}",
    "f.mode = {n}",
    "K.v = {n}",
    "E = (lambda x: T.append(x) or {n})",
    "F = E({n})",
    "from math import pi as P{n}",
    "if A > {n}:\n    B = {n}",
    "for each in (1, {n}):\n    T.append(each)",
    "G, (A, *H) = {n}, (1, {n})",
    "J = (A := {n})",
    "def unused():\n    return g() + {n}",
)
_BEFORE = """T = [0]
A = B = C = D = F = G = J = 1
H = []
def keep(number): return number
def register(function): return function
def setter(): return 1
def f(): return 1
def g(): return 1
def h(): return 1
def E(number): return number
class K:
    v = 1
    def m(self): return self.v
L = K
L.w = f.mode = 1
"""
_ENTRIES = (
    *("T", "T", "T", "T", "A", "A", "B", "C", "D", "F", "G", "H", "J"),  # most change T
    *("f.mode", "K.v", "K().m()", "L.w", "g()", "h()", "f()", "L().m()"),
)


def _outcome(source: str) -> object:
    """The result of a module's entry, or the error of its import or its call."""
    names: dict[str, object] = {}
    try:
        exec(compile(source, "a.py", "exec", dont_inherit=True), names)  # noqa: S102 - of the statements above
        entry = names["entry"]
        assert callable(entry)
        return str([each if isinstance(each, int | list | tuple) else "" for each in entry()])
    except (NameError, AttributeError, TypeError) as error:
        return type(error)


_lines = some.lists(some.tuples(some.sampled_from(_STATEMENTS), some.integers(1, 3)), min_size=1, max_size=5)


@tries(300)
@given(lines=_lines, place=some.integers(0, 4), used=some.sampled_from(_ENTRIES))
def test_an_edit_that_changes_what_a_function_returns_is_never_passed_over(
    lines: list[tuple[str, int]], place: int, used: str
) -> None:
    def source(edited: int) -> str:
        texts = (
            text.replace("{n}", str(n + 10 * (index == edited))) for index, (text, n) in enumerate(lines)
        )
        return "\n".join((_BEFORE, *texts, f"def entry():\n    return [{used}]\n"))

    before, after = source(-1), source(place % len(lines))
    codes = (reached_code(each.encode(), "entry", "a.py") for each in (before, after))
    if _outcome(before) != _outcome(after):
        assert not code_change("a.py", *codes).same


# Forms in which code takes effect on a job that does not name it.  {n} is the number that an edit changes;
# the job returns RESULT.
_IDIOMS = {
    "subclasses of a base": (
        "class Base:\n    pass\nclass Child(Base):\n    number = {n}\n",
        "[each.number for each in Base.__subclasses__()]",
    ),
    "a registry by __init_subclass__": (
        "KINDS = []\nclass Base:\n    def __init_subclass__(cls):\n        KINDS.append(cls)\n"
        "class Child(Base):\n    number = {n}\n",
        "[each.number for each in KINDS]",
    ),
    "a metaclass": (
        "KINDS = []\nclass Meta(type):\n    def __init__(cls, *given):\n        KINDS.append(cls)\n"
        "class Child(metaclass=Meta):\n    number = {n}\n",
        "[each.number for each in KINDS]",
    ),
    "singledispatch by an annotation": (
        "from functools import singledispatch\n@singledispatch\ndef f(value):\n    return 0\n"
        "@f.register\ndef _(value: int):\n    return {n}\n",
        "[f(1)]",
    ),
    "singledispatch by a type": (
        "from functools import singledispatch\n@singledispatch\ndef f(value):\n    return 0\n"
        "@f.register(int)\ndef whole(value):\n    return {n}\n",
        "[f(1)]",
    ),
    "an attribute through an alias": (
        "class Limits:\n    step = 0\nlimits = Limits\nlimits.step = {n}\n",
        "[Limits.step]",
    ),
    "a decorator with a registry of a local name": (
        "TABLE = {}\ndef add(function):\n    table = TABLE\n    table['f'] = function\n    return function\n"
        "@add\ndef f():\n    return {n}\n",
        "[TABLE['f']()]",
    ),
    "a class that is configured by a call": (
        "class Limits:\n    step = 0\n    @classmethod\n    def configure(cls, step):\n"
        "        cls.step = step\n_ready = Limits.configure({n})\n",
        "[Limits.step]",
    ),
    "a default that is evaluated with an effect": (
        "T = []\ndef add(number):\n    T.append(number)\ndef unused(x=add({n})):\n    pass\n",
        "T",
    ),
    "an annotation that is evaluated with an effect": (
        "T = []\ndef add(number):\n    T.append(number)\ndef unused(x: add({n})):\n    pass\n",
        "T",
    ),
    "an annotated name that is evaluated with an effect": (
        "T = []\ndef add(number):\n    T.append(number)\nunused: add({n}) = 1\n",
        "T",
    ),
    "a value that learns its name": (
        "T = []\nclass Named:\n    def __init__(self, number):\n        self.number = number\n"
        "    def __set_name__(self, owner, name):\n        T.append(self.number)\n"
        "made = Named({n})\nclass Unused:\n    field = made\n",
        "T",
    ),
    "a subscript with an effect": (
        "T = []\nclass Box:\n    def __class_getitem__(cls, item):\n        T.append(item)\n"
        "def unused(x: Box[{n}]):\n    pass\n",
        "T",
    ),
    "an operator with an effect": (
        "T = []\nclass Box:\n    def __or__(self, other):\n        T.append(other)\nbox = Box()\n"
        "unused = box | {n}\n",
        "T",
    ),
    "an augmented alias": ("T = [0]\nother = T\nother += [{n}]\n", "T"),
    "a comprehension": ("T = []\nunused = [T.append(each) for each in ({n},)]\n", "T"),
    "a name of the file in a string": (
        "import sys, operator\ndef f():\n    return {n}\nsys.modules['m'] = 1\n"
        "def find(name):\n    return operator.itemgetter(name)(find.__globals__)\n",
        "[find('f')()]",
    ),
    "globals imported by another name": (
        "from builtins import globals as names\ndef f():\n    return {n}\n",
        "[names()['f']()]",
    ),
    "a dictionary of the frame": (
        "from sys import _getframe\ndef f():\n    return {n}\n",
        "[_getframe(0).f_globals['f' + '']()]",
    ),
    "a hook of an exit from a with": (
        "T = []\nclass Add:\n    def __enter__(self):\n        T.append({n})\n"
        "    def __exit__(self, *given):\n        pass\nwith Add():\n    pass\n",
        "T",
    ),
    "a docstring that a decorator reads": (
        'T = []\ndef add(function):\n    T.append(getattr(function, "__d" + "oc__"))\n    return function\n'
        '@add\ndef f():\n    """{n}"""\n',
        "[int(each) for each in T]",
    ),
    "a docstring of a function that is passed on": (
        'def f():\n    """{n}"""\n'
        'def read(function, name):\n    return int(getattr(function, "__d" + name))\n',
        "[read(f, 'oc__')]",
    ),
    "a name that shadows a builtin": ("def abs(x):\n    return {n}\n", "[abs(1)]"),
    "__getattr__ of a module": (
        "import types\ndef __getattr__(name):\n    return {n}\nmodule = types.ModuleType('m')\n"
        "module.__dict__['__getattr__'] = __getattr__\n",
        "[module.anything]",
    ),
    "a name that is deleted": ("A = 1\ndel A\ndef unused(x=({n} - 1 and A)):\n    pass\n", "[1]"),
    "all classes": (
        # Classes of earlier examples may not be collected yet.
        "HERE = object()\nclass Unused:\n    here = HERE\n    rule = {n}\n",
        "[each.rule for each in object.__subclasses__() if each.__dict__.get('here') is HERE]",
    ),
    "an attribute that is named by a text": (
        "def f():\n    return {n}\ndef find():\n    return getattr(find, '__globals__')['f' + '']()\n",
        "[find()]",
    ),
    "a name of the module that is changed": (
        "T = []\n__name__ = '__main__'\nif __name__ == '__main__':\n    T.append({n})\n",
        "T",
    ),
    "an error of an unused default": ("def unused(x=({n} - 1 and nowhere)):\n    pass\n", "[1]"),
    "a literal that cannot be hashed": ("unused = {{(1, [])[{n} - 1]: 1}}\n", "[1]"),
}


@pytest.mark.parametrize("idiom", _IDIOMS)
def test_code_that_takes_effect_without_its_name_counts(idiom: str) -> None:
    text, result = _IDIOMS[idiom]
    before, after = (
        text.replace("{n}", n).replace("{{", "{").replace("}}", "}") + f"def entry():\n    return {result}\n"
        for n in ("1", "2")
    )
    assert _outcome(before) != _outcome(after)
    codes = (reached_code(each.encode(), "entry", "a.py") for each in (before, after))
    assert not code_change("a.py", *codes).same


@tries(100)
@given(
    chosen=some.lists(some.sampled_from(sorted(_IDIOMS)), min_size=1, max_size=3, unique=True),
    place=some.integers(0, 2),
    used=some.integers(0, 2),
)
def test_idioms_beside_each_other_hide_no_change(chosen: list[str], place: int, used: int) -> None:
    def source(edited: int) -> str:
        texts = (_IDIOMS[name][0].replace("{n}", str(1 + (at == edited))) for at, name in enumerate(chosen))
        result = _IDIOMS[chosen[used % len(chosen)]][1]
        joined = "".join(texts).replace("{{", "{").replace("}}", "}")
        return f"{joined}def entry():\n    return {result}\n"

    before, after = source(-1), source(place % len(chosen))
    codes = (reached_code(each.encode(), "entry", "a.py") for each in (before, after))
    if _outcome(before) != _outcome(after):
        assert not code_change("a.py", *codes).same


IMPORTS = {
    "from rules import extra": False,
    "import rules": False,
    "import pyspark.pandas": False,
    "from pyspark import pandas": False,
    "import antigravity": False,
    "from . import rules": False,
    "from pyspark.sql.functions import lower": True,
    "from collections import deque": True,
    "import xml.dom": True,
    "from a import work": False,  # the file itself
}


@pytest.mark.parametrize("line", IMPORTS)
def test_an_import_that_nobody_uses_counts_unless_it_only_defines_names(line: str) -> None:
    rest = "def work(messages):\n    return messages\n"
    before, after = (reached_code(each.encode(), "work", "a.py") for each in (rest, f"{line}\n{rest}"))
    assert code_change("a.py", before, after).same is IMPORTS[line]


def test_an_import_counts_if_it_completes_a_package_that_the_job_uses() -> None:
    rest = "import xml\ndef work(messages):\n    return xml.dom.Node(messages)\n"
    before, after = (
        reached_code(each.encode(), "work", "a.py") for each in (rest, f"{rest}from xml import dom\n")
    )
    assert not code_change("a.py", before, after).same


WORK = "LIMIT = 1\ndef work(messages):\n    return messages, LIMIT\n"


@pytest.mark.parametrize(
    "other",
    [WORK.replace("\n", "\r\n"), WORK.replace("\n", "\r"), "\ufeff" + WORK, WORK.rstrip("\n"), WORK + "\n\n"],
    ids=["CRLF", "CR", "BOM", "no line end", "more line ends"],
)
def test_the_form_of_the_text_does_not_count(other: str) -> None:
    before, after = (reached_code(each.encode(), "work", "a.py") for each in (WORK, other))
    assert code_change("a.py", before, after).same
    edited = reached_code(other.replace("LIMIT = 1", "LIMIT = 2").encode(), "work", "a.py")
    assert str(code_change("a.py", after, edited)) == "a.py: `LIMIT` changed (1 line)"


@pytest.mark.parametrize(
    ("one", "another"),
    [(b"# \xe9\n", b"# \xe8\n"), (b"# a\n", b"# a\r\n"), (b"# a\x0c\n", b"# a\n")],
    ids=["characters", "line ends", "form feeds"],
)
def test_to_code_that_reads_its_own_text_every_byte_matters(one: bytes, another: bytes) -> None:
    source = b"# coding: latin-1\n%sdef work(messages):\n    return open(__file__, 'rb').read()\n"
    before, after = (reached_code(source % each, "work", "a.py") for each in (one, another))
    assert not code_change("a.py", before, after).same


INERT = (
    "def unused(x: int = 1, *, y: list[int] | None = None) -> dict[str, int]:\n    return print(x)\n",
    "def unused(x='work'):\n    pass\n",
    "def unused(x='a dir of modules'):\n    pass\n",
    "async def unused(x=len):\n    pass\n",
    "class Unused(object):\n    '''Text.'''\n    a: int = 3\n    b = [1, {'c': 2}]\n"
    "    @property\n    def c(self):\n        return self.a\n",
    "UNUSED = 60 * 60 - 1\n",
    "UNUSED: dict[str, int] = {'a': 1}\n",
    "UNUSED = LIMIT\n",
    "UNUSED = lambda x, y=LIMIT: print(x)\n",
    "work2 = work\n",
    "def other(messages):\n    pass\nother.output_mode = 'update'\n",
)


@pytest.mark.parametrize("text", INERT)
def test_what_is_proven_inert_does_not_count(text: str) -> None:
    rest = "LIMIT = 3\ndef work(messages):\n    return messages, LIMIT\n"
    before, after = (reached_code(each.encode(), "work", "a.py") for each in (rest, rest + text))
    assert code_change("a.py", before, after).same
