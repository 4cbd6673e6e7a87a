"""Pools that an earlier version wrote: what they did not say is not made up."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph._base.files import sha256
from dph.errors import PoolError
from dph.runs.presample.pool import load_pool, require_fit
from dph.runs.presample.presample import presample
from dph.runs.presample.splitting import StoredForm, split_again


@pytest.fixture
def pools(make_model, make_draw, make_source, make_reference, rule, problems, tmp_path):
    """The same samples as a pool of format 1, and as a pool of today."""
    model = make_model()
    draw = make_draw(model)
    for name in ("earlier", "today"):
        presample(
            problems,
            tmp_path / name,
            draw=draw,
            reference=make_reference(model),
            source=make_source(model, verifier_settings={"timeout": 5.0}),
            rule=rule,
        )
    _as_format_1(tmp_path / "earlier")
    scored = StoredForm(encode=draw.encode, reference=make_reference(model), temperature=1.0)
    return tmp_path / "earlier", tmp_path / "today", scored


def _as_format_1(path):
    """What the version before wrote of the same samples."""
    (path / "ungradable.parquet").unlink()
    samples = pq.read_table(path / "samples.parquet")
    outcomes = ["OVER_LIMIT" if o == "CUT_OFF" else o for o in samples["outcome"].to_pylist()]
    place = samples.schema.get_field_index("outcome")
    column = pa.array(outcomes, pa.string())
    pq.write_table(samples.set_column(place, "outcome", column), path / "samples.parquet")
    content = json.loads((path / "manifest.json").read_text())
    content["format"] = 1
    del content["source"]["verifier_settings"]
    del content["counts"]["ungradable"], content["counts"]["outcomes"]
    content["files"] = {
        name: sha256(path / name) for name in content["files"] if name != "ungradable.parquet"
    }
    (path / "manifest.json").write_text(json.dumps(content))


def test_it_is_read_and_says_what_it_does_not_know(pools):
    earlier, today, _ = pools
    pool = load_pool(earlier)
    assert (pool.exploration, pool.rehearsal) == (
        load_pool(today).exploration,
        load_pool(today).rehearsal,
    )
    assert pool.manifest.source.verifier_settings is None
    assert (pool.ungradable, pool.manifest.counts.outcomes) == ((), {})


def test_it_fits_with_a_warning_and_is_refused_for_what_it_says(
    pools, make_source, make_model, rule, caplog
):
    earlier, _, _ = pools
    found = load_pool(earlier).manifest
    wanted = make_source(make_model(), verifier_settings={"timeout": 5.0})
    require_fit(earlier, found, wanted, rule)
    assert "is of format 1, which does not record the verifier's settings" in caplog.text
    with pytest.raises(PoolError, match="seed was 0, this run has 1"):
        require_fit(earlier, found, wanted.model_copy(update={"seed": 1}), rule)


def test_split_again_it_becomes_a_pool_of_today_but_for_what_nobody_knows(pools, problems, rule):
    earlier, today, scored = pools
    found = load_pool(earlier).manifest
    again = split_again(problems, earlier, found, scored=scored, rule=rule)
    expected = load_pool(today)
    assert again.format == 2
    assert again.source.verifier_settings is None
    assert again.counts == expected.manifest.counts
    assert load_pool(earlier).rehearsal == expected.rehearsal
    samples = [pq.read_table(path / "samples.parquet") for path in (earlier, today)]
    assert samples[0] == samples[1]
