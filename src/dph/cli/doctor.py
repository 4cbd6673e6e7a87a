"""``dph doctor``: what is installed here, and what each engine lacks."""

from typing import Any

import typer

from dph.cli.options import JsonOption


def doctor(as_json: JsonOption = False) -> None:
    """Print versions and devices, and for every engine and extra what is there and what is missing.

    The exit code is 1 where what every run needs is missing or too old.
    """
    from dph.cli.display.installed import parts
    from dph.cli.display.output import json_text
    from dph.cli.failure import FAILED

    found = parts()
    here = _machine(torch_there=found[0].ready)
    if as_json:
        typer.echo(json_text({**here, "parts": {part.name: part.as_json() for part in found}}))
    else:
        for name, value in here.items():
            typer.echo(f"{name}: {value if isinstance(value, str) else '; '.join(value)}")
        for part in found:
            typer.echo(part.line())
    if not found[0].ready:
        raise typer.Exit(FAILED)


def _machine(*, torch_there: bool) -> dict[str, Any]:
    import os
    import platform

    from dph import __version__

    return {
        "dph": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        "devices": _devices() if torch_there else [f"{os.cpu_count()} CPU cores"],
        "hub": _hub() if torch_there else "huggingface_hub is missing",
    }


def _devices() -> list[str]:
    import os

    import torch

    devices = [f"{os.cpu_count()} CPU cores, {torch.get_num_threads()} threads of torch"]
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        devices.append(f"cuda:{index} {about.name}, {about.total_memory / 2**30:.0f} GiB")
    if not torch.cuda.is_available():
        built = torch.version.cuda
        devices.append(f"no CUDA device (torch is built {f'for {built}' if built else 'without'})")
    return devices


def _hub() -> str:
    from huggingface_hub import constants, get_token

    offline = ", offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else ""
    login = "logged in" if get_token() else "not logged in"
    return f"{constants.ENDPOINT}, {login}{offline}, cache {constants.HF_HUB_CACHE}"
