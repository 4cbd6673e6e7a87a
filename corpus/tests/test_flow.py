import pytest

from dph_corpus.documents import Document
from dph_corpus.shards import Flow
from dph_corpus.stage import DocumentOutcome, Drop, StageSpec


def flow_of(documents):
    flow = Flow()
    for number, document in enumerate(documents):
        drops = [Drop("odd")] if number % 2 else []
        drops += [Drop("third")] if number % 3 == 0 else []
        outcome = (
            DocumentOutcome(None, drops) if drops else DocumentOutcome(document, counts={"kept": 1})
        )
        flow.record(document, outcome)
    return flow


def documents(count, start=0):
    return [
        Document.of("x" * 10, id=str(n), path="a", language="python", doc_type="code")
        for n in range(start, start + count)
    ]


def test_hits_solo_hits_and_bytes_are_counted_by_reason():
    flow = flow_of(documents(12))
    # odd: 1 3 5 7 9 11; third: 0 3 6 9; both: 3 9
    assert (flow.reasons["odd"].documents, flow.reasons["odd"].solo) == (6, 4)
    assert (flow.reasons["third"].documents, flow.reasons["third"].solo) == (4, 2)
    assert flow.reasons["odd"].bytes == 60
    total = flow.total()
    assert (total.documents, total.kept_documents, total.kept_bytes) == (12, 4, 40)
    assert flow.counts["kept"] == 4


def test_flows_of_shards_add_up_to_the_flow_of_the_whole_whatever_the_order():
    parts = [flow_of(documents(12, start)) for start in (0, 12, 24)]
    sums = []
    for order in ((0, 1, 2), (2, 0, 1)):
        total = Flow()
        for index in order:
            total.add(Flow.of(parts[index].json()))
        sums.append(total.json())
    assert sums[0] == sums[1] == flow_of(documents(36)).json()
    assert len(sums[0]["reasons"]["odd"]["examples"]) == 5


def test_a_document_is_kept_or_dropped_for_a_reason_and_never_both():
    document = documents(1)[0]
    for wrong in ((None, ()), (document, [Drop("odd")])):
        with pytest.raises(ValueError, match="either kept or dropped"):
            DocumentOutcome(*wrong)


def test_a_file_that_a_stage_reads_needs_a_digest():
    with pytest.raises(ValueError, match="digests are missing"):
        StageSpec(name="a", entry="b:c", settings={}, files={"index": "/x"})
    spec = StageSpec(
        name="a", entry="b:c", settings={"d": 1}, inputs={"index": "0"}, files={"index": "/x"}
    )
    assert spec.given() == {"d": 1, "files": {"index": "/x"}}
    assert "/x" not in str(spec.key())
