"""Prompts shared in TRL's forward: its loss and gradient, its rows in another order, refusals."""

from types import SimpleNamespace

import pytest
import torch
from accelerate import DistributedType, ParallelismConfig
from peft import IA3Config, LoraConfig, PromptTuningConfig
from torch import nn

from dph.engines.trl import shared
from dph.engines.trl.shared import refuse_trainer, regrouped
from dph.errors import SettingsError
from dph.model.forward.logprobs import completion_scores
from engines.trl.by_hand import error_of, record, relative_error
from engines.trl.small import RECOMPUTE, make_config, make_small_model, make_trainer, plain
from tiny_models import build_model, build_tokenizer

EXACT = 1e-5  # float32 forwards that round differently
CAUSAL = {"task_type": "CAUSAL_LM"}
LORA = LoraConfig(**CAUSAL, r=4, target_modules=["q_proj", "v_proj"])


@pytest.fixture
def packed(monkeypatch):
    """Rows of this small world run packed too; gives (tokens computed, rows) of each forward."""
    seen = []

    def scores(*arguments, **keywords):
        found = completion_scores(*arguments, sharing="always", **keywords)
        seen.append((found.computed, len(found.mask)))
        return found

    monkeypatch.setattr(shared, "completion_scores", scores)
    return seen


def loss_and_gradient(trainer, inputs):
    trainer.model.zero_grad()
    loss = trainer.compute_loss(trainer.model, inputs)
    loss.backward()
    named = trainer.model.named_parameters()
    return loss.item(), {n: p.grad.clone() for n, p in named if p.grad is not None}


def require_same_update(trainer, *, exact=EXACT):
    """The first micro-batch's loss and gradient, with prompts shared and by TRL's own forward."""
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = trainer.args.gradient_accumulation_steps
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    with torch.no_grad():  # away from the weights that drew the rows: ratios and KL are at work
        for parameter in trainer.model.parameters():
            if parameter.requires_grad:
                parameter += 0.02 * torch.randn(parameter.shape)
    ours, gradient = loss_and_gradient(trainer, inputs)
    trainer.shared_prompts = False
    theirs, expected = loss_and_gradient(trainer, inputs)
    assert any(value.any() for value in expected.values())
    assert gradient.keys() == expected.keys()
    assert ours == pytest.approx(theirs, rel=exact, abs=exact)
    assert relative_error(gradient, expected) < exact
    return inputs


@pytest.mark.parametrize(
    "changes",
    [
        *({"loss_type": t} for t in ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "vespo")),
        {"loss_type": "luspo", "importance_sampling_level": "sequence"},
        {"temperature": 0.5, "entropy_coef": 0.2},
        {"top_entropy_quantile": 0.5},
        {"mask_truncated_completions": True},
        {"num_iterations": 2, "off_policy_mask_threshold": 0.01, "delta": 1.5},
        {"steps_per_generation": 4, "per_device_train_batch_size": 4},
        {"pad_to_multiple_of": 8, RECOMPUTE: True},
    ],
    ids=str,
)
def test_loss_and_gradient_are_trls(directory, packed, changes):
    trainer = make_trainer(plain(directory, **changes), shared_prompts=True)
    inputs = require_same_update(trainer)
    assert packed
    padded = inputs["prompt_ids"].numel() + inputs["completion_ids"].numel()
    assert packed[-1][0] < padded


@pytest.mark.parametrize("family", ["gemma2", "qwen2", "granite", "mixtral"])
def test_what_a_model_does_to_its_logits_is_done(directory, packed, family):
    model = build_model(family, initializer_range=0.1)
    args = plain(directory, router_aux_loss_coef=0.0)
    require_same_update(make_trainer(args, model=model, shared_prompts=True))
    assert packed


def test_a_penalty_to_the_model_below_an_adapter_or_to_a_reference_model(directory, packed):
    trainer = make_trainer(plain(directory, beta=0.3), peft_config=LORA, shared_prompts=True)
    require_same_update(trainer)
    assert len(packed) == 2
    make_small_model().save_pretrained(directory / "model")
    args = plain(directory, beta=0.3)
    require_same_update(make_trainer(args, model=str(directory / "model"), shared_prompts=True))
    assert len(packed) == 4


@pytest.mark.parametrize("trains", [{"bf16": True}, {"dtype": torch.bfloat16}], ids=str)
def test_bfloat16_differs_by_its_rounding(directory, packed, trains):
    model = make_small_model().to(trains.pop("dtype", torch.float32))
    trainer = make_trainer(plain(directory, **trains), model=model, shared_prompts=True)
    require_same_update(trainer, exact=2e-2)  # eight bits
    assert packed


def test_rows_that_trl_masks_are_worth_nothing(directory, packed):
    trainer = make_trainer(plain(directory), shared_prompts=True)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    inputs["completion_mask"] = torch.zeros_like(inputs["completion_mask"])
    loss, gradient = loss_and_gradient(trainer, inputs)
    assert loss == 0
    assert gradient
    assert not any(value.any() for value in gradient.values())
    assert packed


@pytest.mark.usefixtures("packed")
def test_the_correction_for_vllm_is_made_of_the_packed_log_probs(directory, monkeypatch):
    ratios = []
    for sharing in (True, False):
        trainer = make_trainer(plain(directory), shared_prompts=sharing)
        trainer.use_vllm = True
        monkeypatch.setattr(
            trainer,
            "_generate_single_turn",
            lambda prompts, *_, **__: ([[4, 5, 6, 1]] * len(prompts), [[-2.0] * 4] * len(prompts)),
        )
        trainer.model.train()
        batch = trainer._generate_and_score_completions(next(iter(trainer.get_train_dataloader())))
        ratios.append(batch["importance_sampling_ratio"])
    assert ratios[0].std() > 0
    torch.testing.assert_close(*ratios, rtol=EXACT, atol=0)


def test_a_run_takes_the_steps_of_trls_own(directory, packed):
    ends = []
    for sharing in (True, False):
        args = make_config(
            directory,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=4,
            per_device_eval_batch_size=16,
        )
        trainer = make_trainer(args, shared_prompts=sharing)
        steps = record(trainer)
        trainer.evaluate(trainer.train_dataset.select(range(4)))
        ends.append(steps[-1].gradient)
        if sharing:
            for step in steps:
                assert [len(set(map(tuple, b["prompt_ids"].tolist()))) for b in step.batches] == [
                    1
                ] * 4
                assert error_of(step, directory) < EXACT
            assert {rows for _, rows in packed} == {4, 16}
    assert relative_error(*ends) < 10 * EXACT  # three steps apart


def test_rows_of_a_prompt_are_together_and_stay_in_their_optimizer_step():
    prompts = torch.tensor([[0, 7], [8, 9], [0, 7], [5, 5], [8, 9], [5, 5], [0, 7], [0, 7]])
    rows = torch.arange(8.0)
    batches = [
        {"prompt_ids": p, "advantages": a, "num_items_in_batch": torch.tensor(3), "none": None}
        for p, a in zip(prompts.split(2), rows.split(2), strict=True)
    ]
    found = regrouped(batches, 2)
    assert [b["advantages"].tolist() for b in found] == [[0, 2], [3, 1], [6, 7], [5, 4]]
    for batch in found:
        assert torch.equal(batch["prompt_ids"], prompts[batch["advantages"].long()])
        assert batch["num_items_in_batch"] == 3
        assert batch["none"] is None
    assert [b["advantages"].tolist() for b in regrouped(batches, 4)][:2] == [[0, 2], [6, 7]]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"use_liger_kernel": True}, "use_liger_kernel=True"),
        ({"cast_lm_head_to_fp32": True}, "cast_lm_head_to_fp32=True"),
        ({"fp16": True}, "fp16=True"),
        ({"torch_compile": True}, "torch_compile=True"),
        ({"neftune_noise_alpha": 5.0}, r"neftune_noise_alpha=5\.0"),
    ],
)
def test_a_setting_is_refused_before_a_model_is_loaded(directory, changes, what):
    with pytest.raises(SettingsError, match=f"shared_prompts=True does not work with {what}: "):
        make_trainer(plain(directory, **changes), model="no such model", shared_prompts=True)


@pytest.mark.parametrize(
    ("keywords", "what"),
    [
        ({"model": build_model("mixtral")}, "the loss of routers"),
        ({"model": build_model("bloom")}, "BloomForCausalLM"),
        ({"model": build_model("mamba")}, "MambaForCausalLM"),
        (
            {
                "peft_config": IA3Config(
                    task_type="CAUSAL_LM", target_modules=["k_proj"], feedforward_modules=[]
                )
            },
            "peft_config of IA3",
        ),
        (
            {"peft_config": PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)},
            "peft_config of PROMPT_TUNING",
        ),
    ],
)
def test_a_model_is_refused_by_name(directory, keywords, what):
    with pytest.raises(SettingsError, match=f"does not work with {what}: "):
        make_trainer(plain(directory), shared_prompts=True, **keywords)


def test_how_a_model_is_spread_or_stored_is_refused_by_name():
    def trainer(kind="NO", tokenizer=None, parallel=None, **known):
        (model := nn.Linear(1, 1)).__dict__.update(known)
        accelerator = SimpleNamespace(
            distributed_type=DistributedType(kind), parallelism_config=parallel
        )
        return SimpleNamespace(
            accelerator=accelerator,
            processing_class=tokenizer or build_tokenizer(),
            model=model,
            args=SimpleNamespace(n_gpu=1 + ("module" in known)),
            aux_loss_enabled=False,
        )

    class UnslothGRPOTrainer(SimpleNamespace):
        """Has the name that Unsloth gives to the trainer that it puts in the place of TRL's."""

    for found, what in [
        (UnslothGRPOTrainer(**vars(trainer())), "Unsloth"),
        (trainer("FSDP"), "FSDP"),
        (trainer("DEEPSPEED"), "DEEPSPEED"),
        (trainer("MULTI_GPU", parallel=ParallelismConfig(cp_size=2)), "parallelism_config"),
        (trainer(tokenizer=object()), "object: only text"),
        (trainer(module=None), "nn.DataParallel"),
        (trainer(is_quantized=True), "quantized weights"),
        (trainer(hf_device_map={"a": 0, "b": 1}), "device_map"),
    ]:
        with pytest.raises(SettingsError, match=f"does not work with {what}"):
            refuse_trainer(found)


def test_dropout_is_refused_at_the_first_step(directory):
    adapter = LoraConfig(**CAUSAL, r=4, target_modules=["q_proj"], lora_dropout=0.5)
    args = plain(directory, disable_dropout=False)
    trainer = make_trainer(args, peft_config=adapter, shared_prompts=True)
    assert any(isinstance(m, nn.Dropout) for m in trainer.model.modules())
    with pytest.raises(SettingsError, match="LlamaForCausalLM: it trains with dropout"):
        trainer.train()
