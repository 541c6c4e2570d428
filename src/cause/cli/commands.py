"""The commands of `cause` by name. Each is imported and built when it is used: a device starts one command, not all."""

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import typer

MODULES = {
    "demo": "demo",
    "advise": "advise",
    "simulate": "simulate",
    "compare": "compare",
    "ablate": "ablate",
    "balance": "balance",
    "reproduce": "reproduce",
    "workload": "workload",
    "systems": "systems",
    "calibrate": "calibrate",
    "doctor": "doctor",
    "init": "init",
    "config": "config",
    "learn": "learn",
    "samples": "samples",
    "forget": "forget",
    "drop": "drop",
    "expire": "expire",
    "repair": "repair",
    "predict": "predict",
    "evaluate": "predict",
    "accuracy": "accuracy",
    "backbone": "backbone",
    "status": "status",
    "export": "export",
    "trace": "trace",
    "backup": "backup",
    "restore": "backup",
    "verify": "evidence",
    "receipts": "evidence",
    "log": "evidence",
    "serve": "serve",
    "token": "token",
    "cluster": "cluster",
}
"""The module of `cause.cli` with the function of each command, which has its name; help shows them in this order."""


class Commands(Mapping[str, Any]):
    """Commands as typer builds them, each at its first use."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            module = importlib.import_module(f"cause.cli.{MODULES[name]}")
            single = typer.Typer(add_completion=False)
            single.command(name)(getattr(module, name))
            self._built[name] = typer.main.get_command(single)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


COMMANDS = Commands()


class CommandGroup(typer.core.TyperGroup):
    """The group `cause`, whose commands are built when they are used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = COMMANDS  # type: ignore[assignment]
