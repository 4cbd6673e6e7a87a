import json

import pytest
import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn
from transformers.utils import logging as transformers_logging

from dph.errors import ModelError, SettingsError
from dph.model import loading
from dph.model.forward.logprobs import completion_scores
from dph.model.loading import (
    autocast,
    computed_by,
    evaluating,
    load_model,
    load_tokenizer,
    longest_context,
    new_tokenizer,
    on_this_device,
    require_usable,
)
from dph.recipe import resolve_recipe
from tiny_models import FAMILIES, MORE_FAMILIES


@pytest.fixture
def directory(make_model, tokenizer, tmp_path):
    make_model().to(torch.bfloat16).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_weights_come_as_float32_in_evaluation_mode_with_gradients_on(directory):
    model = load_model(directory, device="cpu")
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(p.requires_grad for p in model.parameters())
    assert not model.training
    assert model.config._attn_implementation == "sdpa"
    assert load_model(directory, attention="eager").config._attn_implementation == "eager"
    assert len(load_tokenizer(str(directory))) == 48


def test_dropout_is_off_in_training_mode(make_model, tmp_path):
    make_model("gpt2", resid_pdrop=0.5, embd_pdrop=0.5, attn_pdrop=0.5).save_pretrained(tmp_path)
    model, ids = load_model(tmp_path, device="cpu").train(), torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, model(ids).logits, rtol=0, atol=0)
    assert model.config.resid_pdrop == 0


def test_gradient_checkpointing_is_off_unless_asked_for_and_changes_nothing(directory):
    rows = {"prompts": [[3, 4], [5]], "completions": [[6], [7, 8]]}
    scores, gradients = [], []
    for wanted in (False, True):
        model = load_model(directory, device="cpu", gradient_checkpointing=wanted).train()
        assert model.model.layers[0].gradient_checkpointing is wanted
        logprobs = completion_scores(model, **rows, temperature=1.0, pad_id=0).logprobs
        logprobs.sum().backward()
        scores.append(logprobs)
        gradients.append(model.model.embed_tokens.weight.grad)
    torch.testing.assert_close(*scores, rtol=0, atol=0)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("shown", [True, False])
def test_the_progress_bar_is_as_before(directory, shown, monkeypatch, capsys):
    monkeypatch.setattr(transformers_logging, "_tqdm_active", shown)
    load_model(directory, device="cpu")
    assert transformers_logging.is_progress_bar_enabled() is shown
    assert "Loading" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
def test_a_model_whose_pad_token_is_below_zero_can_be_saved_again(directory, name):
    stored = json.loads((directory / name).read_text()) | {"pad_token_id": -1}
    (directory / "generation_config.json").unlink()
    (directory / name).write_text(json.dumps(stored))
    load_model(directory, device="cpu").save_pretrained(directory / "again")
    assert "-1" not in (directory / "again" / "generation_config.json").read_text()


@pytest.mark.parametrize("load", [load_model, load_tokenizer])
def test_a_path_that_is_no_model_directory_is_refused(load, tmp_path):
    with pytest.raises(ModelError, match="absent is not a directory"):
        load(tmp_path / "absent")
    with pytest.raises(ModelError, match=r"has no config\.json"):
        load(tmp_path)


def test_a_tokenizer_pads_with_its_end_and_without_an_end_or_damaged_is_refused(
    directory, tokenizer
):
    ids, tokenizer.pad_token = tokenizer.encode("w3 w4"), None
    tokenizer.save_pretrained(directory)
    loaded = load_tokenizer(directory)
    assert loaded.pad_token_id == loaded.eos_token_id == 1
    assert loaded.encode("w3 w4") == ids
    tokenizer.eos_token = None
    tokenizer.save_pretrained(directory)
    with pytest.raises(ModelError, match="has no eos token, which answers need"):
        load_tokenizer(directory)
    (directory / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ModelError, match="cannot load a tokenizer from"):
        load_tokenizer(directory)


def test_a_model_without_sdpa_gets_eager_attention_and_says_so_once(make_model, tmp_path, caplog):
    make_model("bloom").save_pretrained(tmp_path / "bloom")
    loading._say_once.cache_clear()
    models = [load_model(tmp_path / "bloom", device="cpu") for _ in range(2)]
    assert {model.config._attn_implementation for model in models} == {"eager"}
    assert caplog.messages == ['bloom has no attention "sdpa": model.attention = "eager" is used']
    with pytest.raises(ModelError, match='bloom has no attention "flash_attention_2"; set model'):
        load_model(tmp_path / "bloom", device="cpu", attention="flash_attention_2")


DAMAGE = {
    "weights that were cut": ("model.safetensors", lambda whole: whole[:-100]),
    "no weights": ("model.safetensors", lambda _: b""),
    "a garbled config": ("config.json", lambda _: b"{"),
    "an unknown architecture": ("config.json", lambda _: b'{"model_type": "no_such_model"}'),
    "an encoder": ("config.json", lambda _: b'{"model_type": "vit"}'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_directory_is_refused_in_one_line(directory, damage):
    name, damaged = DAMAGE[damage]
    whole = (directory / name).read_bytes()
    (directory / name).unlink()
    if content := damaged(whole):
        (directory / name).write_bytes(content)
    with pytest.raises(ModelError, match="cannot load a causal model from") as caught:
        load_model(directory, device="cpu")
    assert "\n" not in str(caught.value)


def test_missing_weights_are_never_made_up_and_those_of_another_shape_are_named(directory):
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"vocab_size": 5}))
    wrong = r"do not have the shape .* lm_head\.weight: \(48, 32\), not \(5, 32\)"
    with pytest.raises(ModelError, match=wrong):
        load_model(directory, device="cpu")
    weights = load_file(directory / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"1 weights are missing .* model\.norm\.weight"):
        load_model(directory, device="cpu")


def test_a_device_that_is_not_there_is_refused(directory, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SettingsError, match="there is no CUDA device"):
        load_model(directory, device="cuda")
    with pytest.raises(SettingsError, match="got 'tpu'"):
        load_model(directory, device="tpu")
    assert load_model(directory, device="auto").device.type == "cpu"


def test_a_result_says_which_device_computed_it(monkeypatch):
    processor = torch.backends.cpu.get_cpu_capability()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert computed_by("cpu") == processor
    assert computed_by("auto") == f"{processor}, NVIDIA H100, CUDA 13.0"


@pytest.mark.parametrize(
    ("device", "here", "narrow", "dtype"),
    [
        ("cpu", True, True, "float32"),
        ("auto", True, True, "bfloat16"),
        ("auto", True, False, "float32"),  # a card older than Ampere
        ("auto", False, False, "float32"),
        ("cuda", False, False, "bfloat16"),  # the card is elsewhere
    ],
)
def test_a_recipe_is_decided_for_the_device_that_it_takes(monkeypatch, device, here, narrow, dtype):
    def supported(*, including_emulation):
        assert not including_emulation
        return narrow

    monkeypatch.setattr(torch.cuda, "is_available", lambda: here)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    model, data = {"path": "m", "device": device}, {"train": "t.jsonl", "verifier": "number"}
    decided = on_this_device(resolve_recipe({"model": model, "data": data}))
    assert decided.model.dtype == dtype
    assert decided.sampling.max_rows == (
        256 if device == "cpu" or (not here and device == "auto") else "auto"
    )


def test_every_module_is_in_its_own_mode_again_afterwards_also_after_an_error():
    model = nn.Sequential(nn.Dropout(), nn.Linear(1, 1)).train()
    model[0].eval()

    def fail():
        assert not any(module.training for module in model.modules())
        raise KeyError

    with pytest.raises(KeyError), evaluating(model):
        fail()
    assert [module.training for module in model.modules()] == [True, False, True]


def test_bfloat16_reaches_the_products_and_leaves_the_weights_alone(make_model):
    model = make_model()
    ids = torch.tensor([[3, 4, 5]])
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        with autocast(model, name):
            assert model(input_ids=ids).logits.dtype is dtype
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    with pytest.raises(SettingsError, match=r'"float32" or "bfloat16", got \'fp8\''):
        autocast(model, "fp8")


WORDS = {"<p>": 0, "<b>": 1, "<e>": 2, "<u>": 3, "one": 4, "two": 5}


@pytest.mark.parametrize("unknown", [None, "<u>"])
def test_a_new_tokenizer_pads_on_the_left_and_is_the_same_when_it_was_saved(tmp_path, unknown):
    backend = Tokenizer(models.WordLevel(WORDS, unk_token="<u>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = new_tokenizer(backend, pad="<p>", bos="<b>", eos="<e>", unknown=unknown)
    tokenizer.save_pretrained(tmp_path)
    again = tf.PreTrainedTokenizerFast.from_pretrained(tmp_path, local_files_only=True)
    for one in (tokenizer, again):
        rows = one(["one three two", "two"], padding=True)
        assert dict(rows) == {
            "input_ids": [[1, 4, 3, 5], [0, 0, 1, 5]],
            "attention_mask": [[1, 1, 1, 1], [0, 0, 1, 1]],
        }
        assert (one.pad_token, one.bos_token, one.eos_token) == ("<p>", "<b>", "<e>")
        assert (one.unk_token, one.padding_side) == (unknown, "left")


def test_rows_of_longrope_end_at_the_original_context():
    contexts = {"max_position_embeddings": 64, "original_max_position_embeddings": 32}
    rope = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48}
    assert longest_context(tf.Phi3Config(**contexts, rope_scaling=rope)) == 32
    assert longest_context(tf.Phi3Config(**contexts)) == 64


@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_sampled_is_refused_by_its_config():
    for config, message in (
        (tf.T5Config(), "org/m: t5 is an encoder-decoder, not a causal model"),
        (tf.ViTConfig(), "org/m: transformers has no causal language model of the kind vit"),
        (tf.MambaConfig(), "org/m: mamba is not supported: its layers keep a recurrent"),
        (tf.RwkvConfig(), "org/m: rwkv is not supported: its layers keep a recurrent"),
    ):
        with pytest.raises(ModelError, match=message):
            require_usable(config, "org/m")
    for family, (config_class, _, own) in (FAMILIES | MORE_FAMILIES).items():
        if family != "mamba":
            require_usable(config_class(**own), family)
