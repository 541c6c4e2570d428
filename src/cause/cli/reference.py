"""The command reference, generated from the help of the commands: `python -m cause.cli.reference > docs/cli.md`."""

from typing import Any

from cause.cli.commands import COMMANDS

HEAD = """# The command line

Made from `--help` by `make docs`. Every command that reports takes `--json`; a mistake is reported in one line and ends
with exit code 2. `cause --install-completion` teaches your shell the commands, options and names.
"""


def reference() -> str:
    """Return the page in Markdown."""
    return "\n".join([HEAD, *(_section(name, command) for name, command in COMMANDS.items())])


def _section(name: str, command: Any) -> str:
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    return f"## cause {name}\n\n{command.help}\n\n| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _row(parameter: Any) -> str:
    shown = parameter.default not in (None, False, [], ()) and "[default" not in parameter.help
    several = " …" if parameter.nargs == -1 else ""
    names = ", ".join(parameter.opts) if parameter.opts[0].startswith("-") else parameter.name.upper() + several
    default = f" [default: {parameter.default}]" if shown else ""
    return f"| `{names}` | {parameter.help}{default} |"


if __name__ == "__main__":
    print(reference(), end="")
