"""`cause doctor`."""

from cause.cli import options as o
from cause.cli.output import print_json, print_table


def doctor(json: o.AsJson = False) -> None:
    """Show what was found on this machine: software, processor, memory, energy meters."""
    from cause.machine import examine

    found = examine()
    if json:
        print_json(found)
        return
    print_table("This machine", ["", ""], [[name, str(value)] for name, value in found["machine"].items()], names=2)
    software = [
        [each["name"], each["version"] or f"missing: {each['remedy']}", each["purpose"]] for each in found["software"]
    ]
    print_table("Software", ["", "version", "for"], software, names=3)
    meters = [[each["kind"], each["source"] or f"not there: {each['unavailable']}"] for each in found["meters"]]
    print_table("Energy meters", ["", ""], meters, names=2)
