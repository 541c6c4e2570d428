"""`cause serve`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from cause.cli import homes as h


def serve(
    home: h.HomeFolder,
    name: Annotated[
        str | None, typer.Option(help="What the page calls the device. [default: the folder's name]")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="On which port. [default: 8470]")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with a table \\[serve].")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that train. [default: 1]")] = None,
    ray: h.RayAddress = None,
    per_worker: h.PerWorker = None,
    other_environments: h.OtherEnvironments = None,
    lease: h.Lease = None,
    close_every: Annotated[str | None, typer.Option(help="Close a round so often, as 1h.")] = None,
    close_samples: Annotated[int | None, typer.Option(help="Close a round at so many staged samples.")] = None,
    repair: Annotated[
        str | None, typer.Option(help="Repair now, when idle, by deadline or never. [default: as the home says]")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    plain: Annotated[
        bool | None,
        typer.Option("--plain", help="Do not warn of plain HTTP for other machines: a proxy or a tunnel encrypts it."),
    ] = None,
    hosts: Annotated[str | None, typer.Option(help="Host headers to answer to, as device.local,10.0.0.5.")] = None,
    calibration: h.CalibrationFile = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log no requests.")] = False,
) -> None:
    """Serve a device over HTTP until stopped: upload, predict, erase, look, prove. Tokens: `cause token`."""
    h.config_of(home)
    for package in ("fastapi", "uvicorn", "httptools"):
        h.need(package, "serve")
    from cause.service.server import serve as run
    from cause.service.settings import ServeSettings, read_settings

    texts = {"tls_cert": tls_cert, "tls_key": tls_key, "calibration": calibration}
    files: dict[str, Any] = {name: None if path is None else str(path) for name, path in texts.items()}
    options: dict[str, Any] = {
        "name": name, "host": host, "port": port, "workers": workers, "ray": ray,
        "per_worker": per_worker, "other_environments": other_environments, "lease": lease, "close_every": close_every,
        "close_samples": close_samples, "repair": repair, "plain": plain, "hosts": hosts, **files,
    }  # fmt: skip

    def read() -> ServeSettings:
        return read_settings(config, **options)

    run(home, read(), quiet=quiet, reread=read)
