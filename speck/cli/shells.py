"""The completion scripts of bash, zsh and fish, which replace those of click.

All three pass the line as typed up to the cursor.  Click's scripts pass the shell's words, which does not
complete a line with an address or ``--option=VALUE``: bash splits words at ``:`` and ``=``, so that
``--server http://HOST:PORT`` becomes five, and fish is offered no value after ``--option=``.
"""

from __future__ import annotations

import os

from click.shell_completion import (
    BashComplete,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

_BASH = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null ||
    complete -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a answer names described
    local kind value text line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    answer=("${(@f)$(COMP_LINE=$line %(complete_var)s=zsh_complete $words[1] 2>/dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='  # candidates come after the option's name
    for kind value text in $answer; do
        case $kind:$text in
            plain:_) names+=("$value") ;;
            plain:*) described+=("$value:$text") ;;
            dir:*) _path_files -/ ;;
            file:*) _path_files ;;
        esac
    done
    (( $#described )) && _describe -V %(prog_name)s described
    (( $#names )) && compadd -V names -a names
}

# From a directory of $fpath, all of this is the function _%(prog_name)s, and is run at each completion.
if [[ $funcstack[1] == _%(prog_name)s ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l typed (commandline -ct | string collect)
    set -l option (string match -r -- '^--[^=]*=' $typed)
    set -l value (string replace -r -- '^--[^=]*=' '' $typed)
    set -l line (commandline -cp | string collect)
    for candidate in (COMP_LINE=$line %(complete_var)s=fish_complete %(prog_name)s 2>/dev/null)
        set -l parts (string split -m 1 -- , $candidate)
        switch $parts[1]
            case plain
                echo "$option$parts[2]"
            case dir
                __fish_complete_directories "$value" '' | string replace -r -- '^' "$option"
            case file
                __fish_complete_path "$value" '' | string replace -r -- '^' "$option"
        end
    end
end

complete --no-files --command %(prog_name)s --arguments '(%(complete_func)s)'
"""


class _Line(ShellComplete):
    """Reads the line from the variable COMP_LINE."""

    def source(self) -> str:
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)
        last = words.pop() if words and not line[-1].isspace() else ""
        return words[1:], last


class Bash(_Line, BashComplete):
    """Bash 4 and later."""

    source_template = _BASH


class Zsh(_Line, ZshComplete):
    """Zsh, by its completion system."""

    source_template = _ZSH


class Fish(_Line, FishComplete):
    """Fish 3 and later."""

    source_template = _FISH


SHELLS: dict[str, type[ShellComplete]] = {each.name: each for each in (Bash, Zsh, Fish)}


def register() -> None:
    """Register these instead of click's own."""
    for shell in SHELLS.values():
        add_completion_class(shell)
