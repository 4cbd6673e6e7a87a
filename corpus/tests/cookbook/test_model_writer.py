from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.torch.sampler import TorchSampler
from dph_corpus.cookbook.writers import ModelWriter
from tiny_models import build_model, build_tokenizer

PARAMETERS = SamplingParameters(max_tokens=12, stop_token_ids=(1,))
PROMPTS = ["abc", "hello", "abc", "x y z"]
SEEDS = [11, 12, 13, 14]


def writer():
    tokenizer = build_tokenizer()
    sampler = TorchSampler(build_model(), tokenizer)
    return ModelWriter(
        sampler, lambda text: tuple(tokenizer.encode(text)), PARAMETERS, {"model": "tiny"}
    )


def test_an_answer_hangs_on_its_prompt_and_its_seed_alone():
    write = writer()
    together = write(PROMPTS, SEEDS)
    alone = [write([prompt], [seed])[0] for prompt, seed in zip(PROMPTS, SEEDS, strict=True)]
    assert together == alone
    assert together[0] != together[2]  # the same prompt with another seed


def test_what_answers_depend_on_is_told():
    assert writer().identity == {
        "model": "tiny",
        "max_tokens": 12,
        "temperature": 1.0,
        "top_p": 1.0,
    }
