"""Fingerprints: two models or tokenizers have the same one if and only if they are the same."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

_MIB = 2**20


def weight_fingerprint(model: PreTrainedModel) -> str:
    """SHA-256, in hex, over names, shapes, dtypes and bytes of the weights.

    Tied weights count once, under the first of their names. The same before and after a model is
    saved and loaded, and on every device.
    """
    digest = hashlib.sha256()
    seen: set[tuple[Any, ...]] = set()
    for name, tensor in sorted(model.state_dict().items()):
        place = (tensor.device, tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if tensor.numel() and place in seen:
            continue
        seen.add(place)
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def directory_fingerprint(directory: Path) -> str:
    """SHA-256, in hex, over the config and the ends of every weight file of a model directory.

    Tells models apart without reading them whole: names, sizes, the first and the last MiB.
    """
    digest = hashlib.sha256()
    for path in [directory / "config.json", *sorted(directory.glob("*.safetensors"))]:
        size = path.stat().st_size
        digest.update(f"{path.name} {size}\n".encode())
        with path.open("rb") as file:
            digest.update(file.read(_MIB))
            file.seek(max(0, size - _MIB))
            digest.update(file.read())
    return digest.hexdigest()


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256, in hex, over everything that decides how text becomes tokens.

    That is the vocabulary, the merges and the other rules of the backend, the special tokens and
    the chat template; not the directory, and neither padding nor truncation.
    """
    content = {
        "vocabulary": tokenizer.get_vocab(),
        "backend": _backend(tokenizer),
        "special_tokens": {key: str(token) for key, token in tokenizer.special_tokens_map.items()},
        "chat_template": tokenizer.chat_template,
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _backend(tokenizer: PreTrainedTokenizerBase) -> Any:
    if not tokenizer.is_fast:
        return type(tokenizer).__name__
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    return {key: value for key, value in backend.items() if key not in ("padding", "truncation")}
