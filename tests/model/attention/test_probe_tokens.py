from transformers import LlamaConfig

from dph.model.attention.probing import COUNT, probe_tokens

CONFIG = LlamaConfig(vocab_size=1000, bos_token_id=1, eos_token_id=[2, 3], pad_token_id=None)


def test_they_are_the_first_of_the_prompts_without_those_that_frame_a_text():
    prompts = [[1, 50, 60, 50, 2], [50, 70, 3, *range(80, 100)]]
    assert probe_tokens(CONFIG, prompts) == [50, 60, 70, *range(80, 87)]


def test_what_prompts_lack_comes_from_the_vocabulary_the_same_each_time():
    found = probe_tokens(CONFIG, [[1, 50]])
    assert found[0] == 50
    assert len(set(found)) == COUNT
    assert not {1, 2, 3} & set(found)
    assert found == probe_tokens(CONFIG, [[50]])
    assert len(set(probe_tokens(CONFIG, []))) == COUNT


def test_a_vocabulary_of_fewer_tokens_is_used_again():
    tiny = LlamaConfig(vocab_size=5, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    assert sorted(set(probe_tokens(tiny, []))) == [3, 4]
    assert len(probe_tokens(tiny, [])) == COUNT
    assert probe_tokens(LlamaConfig(vocab_size=3, pad_token_id=0), [[1]]) == [0] * COUNT
