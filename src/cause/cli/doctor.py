"""`cause doctor`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cause.cli import homes as h
from cause.cli import options as o
from cause.cli.output import print_json, print_table


def doctor(
    home: Annotated[
        Path | None, typer.Option("--home", help="Look at a device's home instead: exit code 1 if it has a problem.")
    ] = None,
    json: o.AsJson = False,
) -> None:
    """Show what was found on this machine: software, processor, memory, energy meters; or whether a home is whole."""
    if home is not None:
        _home(home, json)
        return
    from cause.common.machine import hardware
    from cause.common.machine import software as installed
    from cause.device.energy.find import found_meters

    report: dict[str, Any] = {
        "machine": hardware(),
        "software": installed(),
        "meters": [meter.as_dict() for meter in found_meters()],
    }
    if json:
        print_json(report)
        return
    print_table("This machine", ["", ""], [[name, str(value)] for name, value in report["machine"].items()], names=2)
    software = [
        [package["name"], package["version"] or f"missing: {package['remedy']}", package["purpose"]]
        for package in report["software"]
    ]
    print_table("Software", ["", "version", "for"], software, names=3)
    meters = [[meter["kind"], meter["source"] or f"not there: {meter['unavailable']}"] for meter in report["meters"]]
    print_table("Energy meters", ["", ""], meters, names=2)


def _home(home: Path, json: bool) -> None:
    h.need("cryptography", "home")
    from cause.device.fsck import examine_home

    health = examine_home(home)
    if json:
        print_json({"home": str(home), **health.as_dict()})
    else:
        for problem in health.problems:
            print(f"problem: {problem.what}\n  way out: {problem.remedy}")
        if not health.problems:
            print(f"{home} is whole: {health.blocks:,} blocks of samples, {health.sub_models:,} sub-models, all open")
        for note in health.notes:
            print(f"note: {note}")
    if health.problems:
        sys.exit(1)
