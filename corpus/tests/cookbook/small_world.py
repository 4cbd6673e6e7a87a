"""A world of few files for the tests of the pipeline, as `[world]` names one."""

from pathlib import Path

from dph._base.files import make_directory, sha256, write_json_lines
from dph_corpus.cookbook.stages import MadeWorld

REPORT = Path(__file__).with_name("report.sql.txt").read_text()


def make(settings, directory, *, seed, workers):  # noqa: ARG001 - the arguments of every world
    """Files of SQL, answers to questions, and problems of a train and a test set."""
    sql = make_directory(directory / "sql")
    for number in range(settings["files"]):
        (sql / f"report-{number}.sql").write_text(
            REPORT.format(number, number + seed, f"a{number}")
        )
    answers = [{"prompt": f"Port {n}?", "response": "ab"} for n in range(40)]
    problems = [
        {"problem_id": f"p{n}", "prompt": f"Port {n + 40}?", "answer": ""} for n in range(24)
    ]
    files = {"annotators": answers, "train": problems[:16], "in_domain": problems[16:]}
    places = {name: directory / f"{name}.jsonl" for name in files}
    for name, content in files.items():
        write_json_lines(places[name], content)
    test = places["in_domain"]
    return MadeWorld(
        files={"sql": sql, "annotators": places["annotators"]},
        tests={"in_domain": test},
        recipe={
            "data": {"train": str(places["train"]), "sets": {"in_domain": {"path": str(test)}}}
        },
        digests={name: sha256(place) for name, place in places.items()},
    )
