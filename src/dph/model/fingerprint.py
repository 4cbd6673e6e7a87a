"""Fingerprints: two models or tokenizers have the same one if and only if they are the same."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph._base.files import sha256
from dph.model.adapter import CONFIG_FILE, adapter_config, has_adapter


def weight_fingerprint(model: PreTrainedModel) -> str:
    """SHA-256, in hex, over names, shapes, dtypes and bytes of the weights.

    Tied weights count once, under the first of their names. The same before and after a model is
    saved and loaded, and on every device. An adapter counts, and how much of it.
    """
    digest = hashlib.sha256()
    if has_adapter(model):
        config = adapter_config(model)
        digest.update(f"adapter {config.use_dora} {config.r} {config.lora_alpha}\n".encode())
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
    """SHA-256, in hex, over the configs and the whole of every weight file of a model directory.

    The configs say the shape of the model and which tokens end an answer. A file that has not
    changed since it was last read in this process is not read again.
    """
    digest = hashlib.sha256()
    names = ("config.json", "generation_config.json", CONFIG_FILE)
    configs = [directory / name for name in names]
    weights = sorted(directory.glob("*.safetensors")) + sorted(directory.glob("*.index.json"))
    for path in [path for path in configs if path.exists()] + weights:
        status = path.stat()
        changed = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        digest.update(f"{path.name} {_file_digest(path, changed)}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _file_digest(path: Path, _changed: tuple[int, ...]) -> str:
    """SHA-256 of a file; ``_changed`` tells the file of now from one that was there before."""
    return sha256(path)


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
