"""A packed row is exact: its log-probs are those of one row for each answer."""

import pytest
import torch

from dph.lab.worlds.small_model import NO_TARGET, Block, new_model, pack_blocks, packed_logprobs

BLOCKS = [
    Block((1, 20, 21, 22, 23), ((30, 31, 2), (32, 2), (33, 34, 35, 36, 2))),
    Block((1, 40, 41), ((50, 2),)),
    Block((1, 60, 61, 62, 63, 64, 65), ((70, 71, 72, 73, 2), (74, 2))),
]


@pytest.fixture(scope="module")
def model(world_tokenizer):
    return new_model(world_tokenizer, seed=0).eval()


def plain_logprobs(model, block):
    """One forward pass for each answer, nothing packed."""
    result = []
    for answer in block.answers:
        logits = model(torch.tensor([block.prompt + answer])).logits[0, len(block.prompt) - 1 : -1]
        result += logits.log_softmax(-1)[torch.arange(len(answer)), list(answer)].tolist()
    return result


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_logprobs_equal_those_of_the_plain_forward(model, attention):
    model.set_attn_implementation(attention)
    with torch.no_grad():
        packed = packed_logprobs(model, pack_blocks(BLOCKS, pad_id=0))
        # Rows are filled by falling length: the last block first, then the first, then the second.
        ordered = sorted(BLOCKS, key=len, reverse=True)
        plain = [value for block in ordered for value in plain_logprobs(model, block)]
    torch.testing.assert_close(packed, torch.tensor(plain), rtol=0, atol=2e-5)


def test_packed_gradients_equal_those_of_the_plain_forward(model):
    def gradient(logprob_sum):
        model.zero_grad()
        logprob_sum.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    packed = gradient(packed_logprobs(model, pack_blocks(BLOCKS, pad_id=0)).sum())
    total = torch.zeros(())
    for block in BLOCKS:
        for answer in block.answers:
            lone = pack_blocks([Block(block.prompt, (answer,))], pad_id=0)
            total = total + packed_logprobs(model, lone).sum()
    for one, other in zip(packed, gradient(total), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_row_shares_its_prompt_and_restarts_positions():
    rows = pack_blocks([BLOCKS[0]], pad_id=0)
    assert rows.input_ids.tolist() == [[1, 20, 21, 22, 23, 30, 31, 23, 32, 23, 33, 34, 35, 36]]
    assert rows.positions.tolist() == [[0, 1, 2, 3, 4, 5, 6, 4, 5, 4, 5, 6, 7, 8]]
    assert rows.targets.tolist() == [[-1] * 4 + [30, 31, 2, 32, 2, 33, 34, 35, 36, 2]]


def test_short_blocks_share_a_row_and_no_row_is_longer_than_the_longest_block():
    short = Block((1, 5), ((6, 2),))
    rows = pack_blocks([short, BLOCKS[0], short, short], pad_id=0)
    assert rows.input_ids.shape == (2, len(BLOCKS[0]))
    assert len(short) == 3
    assert int((rows.targets != NO_TARGET).sum()) == 10 + 3 * 2


def test_every_token_may_look_somewhere_and_never_ahead():
    allowed = pack_blocks(BLOCKS, pad_id=0).attention[:, 0] == 0
    assert allowed.diagonal(dim1=1, dim2=2).all()
    assert not allowed.triu(1).any()
