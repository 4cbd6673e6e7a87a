"""Token ids for other trainers, read back by their own layouts and, where installed, readers."""

import json
import struct

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dph.errors import DataError, SettingsError
from dph_corpus.cli import main
from dph_corpus.documents import Document
from dph_corpus.token_shards import tokenize
from small_corpora import numbered, small_corpus

END = "<|end|>"
TEXTS = ["a = 1\n", "", "naïve <|end|> text, 漢字", "def f(x):\n    return x\n" * 30]


def corpus_of(directory, shards=2):
    documents = [Document.of(text, id=f"t{n}", path=f"{n}.py") for n, text in enumerate(TEXTS)]
    return small_corpus(directory, documents + numbered(100), shards=shards)


def tokenizer_in(directory, vocabulary=300):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.enable_truncation(5)
    directory.mkdir()
    made.save(str(directory / "tokenizer.json"))
    config = {"eos_token": {"content": END}}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    made.no_truncation()
    made.encode_special_tokens = True
    return made


def megatron(prefix):
    """Documents of a pair of files by the published layout."""
    index = prefix.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert (version, documents) == (1, sequences + 1)
    kind = {8: np.uint16, 4: np.int32}[code]
    at = 9 + 8 + 1 + 8 + 8
    lengths = np.frombuffer(index, np.int32, sequences, at)
    pointers = np.frombuffer(index, np.int64, sequences, at + 4 * sequences)
    begins = np.frombuffer(index, np.int64, documents, at + 12 * sequences)
    assert len(index) == at + 12 * sequences + 8 * documents
    assert begins.tolist() == list(range(documents))
    ids = np.memmap(prefix.with_suffix(".bin"), mode="r", dtype=np.uint8)
    return [
        np.frombuffer(ids, kind, n, start).tolist()
        for n, start in zip(lengths.tolist(), pointers.tolist(), strict=True)
    ]


def datatrove(path):
    """Documents of a file by the ends in its index."""
    name, count, _ = path.with_name(f"{path.name}.metadata").read_text().split("\n")
    width = int(name.rpartition("|")[2])
    ids = np.fromfile(path, {2: np.uint16, 4: np.uint32}[width])
    ends = np.fromfile(path.with_name(f"{path.name}.index"), np.uint64).tolist()
    assert len(ids) == int(count) == ends[-1]
    return [ids[a:b].tolist() for a, b in zip([0, *ends], ends, strict=False)]


READERS = {
    "megatron": lambda out, name: megatron(out / name),
    "datatrove": lambda out, name: datatrove(out / f"{name}.ds"),
}


@pytest.mark.parametrize("form", READERS)
def test_ids_read_back_by_the_published_layout_decode_to_the_texts(form, tmp_path):
    corpus = corpus_of(tmp_path / "in")
    tokenizer = tokenizer_in(tmp_path / "tokens")
    made = tokenize(corpus, tmp_path / "out", tokenizer=tmp_path / "tokens", form=form, workers=2)
    end = tokenizer.token_to_id(END)
    found = [
        ids for shard in made["shards"] for ids in READERS[form](tmp_path / "out", shard["name"])
    ]
    assert [ids[-1] for ids in found] == [end] * len(found)
    # A text that spells the end token out has no second end.
    assert not any(end in ids[:-1] for ids in found)
    assert [tokenizer.decode(ids[:-1]) for ids in found] == [d.text for d in corpus.documents()]
    assert (made["documents"], made["tokens"]) == (104, sum(map(len, found)))


def test_wide_vocabularies_take_four_bytes_a_token(tmp_path):
    corpus = corpus_of(tmp_path / "in")
    words = {f"w{n}": n for n in range(70_000)} | {END: 70_000}
    made = Tokenizer(models.WordLevel(words, unk_token="w69999"))
    (tmp_path / "wide").mkdir()
    made.save(str(tmp_path / "wide" / "tokenizer.json"))
    for form, read in READERS.items():
        out = tmp_path / form
        manifest = tokenize(corpus, out, tokenizer=tmp_path / "wide", form=form, end=END)
        assert manifest["bytes_per_token"] == 4
        found = [ids for shard in manifest["shards"] for ids in read(out, shard["name"])]
        assert sorted({tuple(ids) for ids in found}) == [(69_999, 70_000), (70_000,)]


def test_the_same_bytes_again_and_no_files_of_other_shards(tmp_path):
    tokenizer_in(tmp_path / "tokens")
    out, given = tmp_path / "out", {"tokenizer": tmp_path / "tokens", "form": "megatron"}
    first = tokenize(corpus_of(tmp_path / "three", 3), out, **given)
    stays = (out / "part-00001-of-00003.bin").stat().st_mtime_ns
    (out / "part-00000-of-00003.bin").write_bytes(b"damaged")
    assert tokenize(corpus_of(tmp_path / "three", 3), out, **given) == first
    assert (out / "part-00001-of-00003.bin").stat().st_mtime_ns == stays
    tokenize(corpus_of(tmp_path / "one", 1), out, **given)
    found = {path.name for path in out.iterdir() if path.name[0] != "."}
    assert found == {"part-00000-of-00001.bin", "part-00000-of-00001.idx", "manifest.json"}


def test_what_cannot_be_used_is_told(tmp_path):
    corpus = corpus_of(tmp_path / "in")
    (tmp_path / "empty").mkdir()
    given = {"tokenizer": tmp_path / "empty", "form": "megatron"}
    with pytest.raises(DataError, match=r"cannot read the tokenizer .*tokenizer.json"):
        tokenize(corpus, tmp_path / "out", **given)
    tokenizer_in(tmp_path / "tokens")
    given["tokenizer"] = tmp_path / "tokens"
    with pytest.raises(DataError, match="has no token '</s>'"):
        tokenize(corpus, tmp_path / "out", **given, end="</s>")
    with pytest.raises(SettingsError, match="format must be one of megatron, datatrove, got 'x'"):
        tokenize(corpus, tmp_path / "out", **given | {"form": "x"})
    (tmp_path / "tokens" / "tokenizer_config.json").unlink()
    with pytest.raises(DataError, match=r"names no eos_token; name the token .* --end"):
        tokenize(corpus, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_the_verb_says_what_it_wrote(tmp_path, capsys):
    corpus_of(tmp_path / "in")
    tokenizer_in(tmp_path / "tokens")
    words = ["tokenize", "--input", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    assert main([*words, "--tokenizer", str(tmp_path / "tokens"), "--workers", "1"]) == 0
    assert "tokenize: 104 documents, " in capsys.readouterr().out


def test_megatron_reads_what_was_written_for_it(tmp_path):
    reader = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    tokenizer_in(tmp_path / "tokens")
    corpus = corpus_of(tmp_path / "in", 1)
    tokenize(corpus, tmp_path / "out", tokenizer=tmp_path / "tokens", form="megatron")
    prefix = tmp_path / "out" / "part-00000-of-00001"
    found = reader.IndexedDataset(str(prefix))
    assert [found[n].tolist() for n in range(len(found))] == megatron(prefix)


def test_datatrove_reads_what_was_written_for_it(tmp_path):
    reader = pytest.importorskip("datatrove.utils.dataset")
    tokenizer_in(tmp_path / "tokens")
    corpus = corpus_of(tmp_path / "in", 1)
    tokenize(corpus, tmp_path / "out", tokenizer=tmp_path / "tokens", form="datatrove")
    path = tmp_path / "out" / "part-00000-of-00001.ds"
    found = reader.DatatroveFileDataset(str(path), seq_len=15, return_positions=True)
    rows = [found[n] for n in range(len(found))]
    ids = [token for ids in datatrove(path) for token in ids]
    places = [n for ids in datatrove(path) for n in range(len(ids))]
    for number, row in enumerate(rows):
        window = slice(16 * number, 16 * number + 16)
        assert row["input_ids"].tolist() == ids[window]
        # A document that began in an earlier window counts from the window's beginning.
        expected = [min(n, place) for place, n in enumerate(places[window])]
        assert row["positions"].tolist() == expected
