"""``dph corpus transform``: notices away, personal data and secrets to placeholders."""

from dph.cli.corpus.options import EngineOption, InputOption, OutOption, open_workers
from dph.cli.options import JsonOption, WorkersOption


def transform(
    source: InputOption,
    out: OutOption,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Take leading copyright notices away and put placeholders for what is private.

    E-mail addresses, public IP addresses, keys and passwords become <email>, <ip>, <key> and
    <password>; changes.parquet says how many in which document.
    """
    from dph.cli.corpus.summary import print_corpus
    from dph.cli.display.progress import open_progress
    from dph.corpus.opening import open_input
    from dph.corpus.stage_run import run_stage
    from dph.corpus.transform.stage import transform_spec

    number = open_workers(engine, workers)
    corpus = open_input(source, out, workers=number)
    with open_progress().task("transform", len(corpus.shards), "shards") as advance:
        made = run_stage(transform_spec(), corpus, out, workers=number, on_progress=advance)
    print_corpus(made, as_json=as_json)
