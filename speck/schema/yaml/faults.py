"""What a YAML parser's complaints come to for who wrote the text: the line, and what is right."""

from __future__ import annotations

import yaml

from speck.errors import Fault

# By words of libyaml and of PyYAML's own parser; the first that fits.
_RIGHT = (
    ("tab character", "indent with spaces, not with tabs"),
    (r"'\t'", "indent with spaces, not with tabs"),
    (
        "cannot start any token",
        "indent with spaces, and put text that begins with it in quotes",
    ),
    ("could not find expected ':'", "expected KEY: VALUE, with a space after the colon"),
    (
        "mapping values are not allowed",
        "expected each key as deep as the first one beside it, and text with ': ' in quotes",
    ),
    ("expected key", "expected each key as deep as the first one beside it"),
    ("expected <block end>", "expected each key as deep as the first one beside it"),
    ("expected '-' indicator", "expected each '-' as deep as that of the first one"),
    ("end of stream", "expected the closing quote or bracket of what begins in this line"),
    ("expected ',' or", "expected a comma between two values, and the closing bracket"),
)


def syntax_fault(error: yaml.MarkedYAMLError) -> Fault:
    """The fault that an error of the parser tells."""
    problem = error.problem or ""
    right = next((right for words, right in _RIGHT if words in problem), None)
    # What is begun and not ended is noticed only further on.
    begun = "end of stream" in problem or "expected ':'" in problem
    mark = (error.context_mark if begun else None) or error.problem_mark or error.context_mark
    message = f"not valid YAML: {' '.join(filter(None, (error.context, error.problem)))}"
    if right is not None:
        message += f" ({right})"
    return Fault(message, line=mark.line + 1 if mark is not None else None)
