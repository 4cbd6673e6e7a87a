"""The settings of ``[data]`` and its evaluation sets."""

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, create_model, field_validator, model_validator

from dph.recipe.places import SPELLING, LocalPath, ProblemsPath
from dph.recipe.section import Count, FilePath, Fraction, Phrase, Positive, Section, with_default
from dph.tasks.verifiers.table import TEXTS, VERIFIERS, VerifierSetting, verifier_settings

# The settings of ``[evaluate.during]``: what is measured while training runs.

Ks = Annotated[tuple[Positive, ...], Field(strict=False, min_length=1)]


def require_k(ks: tuple[int, ...], samples: int) -> None:
    if max(ks) > samples:
        raise ValueError(f"k is at most samples, got k={max(ks)}, samples={samples}")


class DuringSettings(Section):
    """Measurements every ``evaluate.every`` steps of training."""

    samples: Positive = Field(8, description="samples per problem")
    k: Ks = Field((1, 8), description="the k of Pass@k (default: those up to samples)")
    sets: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        (), description="evaluation sets, by name; default: all of data.sets"
    )
    problems: Positive = Field(
        64, description="problems of each set, drawn by evaluate.seed; all of a smaller set"
    )
    greedy: bool = Field(True, description="also draw the greedy answer")
    compared: Count = Field(
        1,
        description="samples per problem whose next-token distributions are compared with those of "
        "the initial policy, over the whole vocabulary; 0: none, and the initial policy is not "
        "loaded",
    )

    @model_validator(mode="before")
    @classmethod
    def _k_follows_samples(cls, data: Any) -> Any:
        return with_default(data, "k", "samples", lambda n: [k for k in (1, 8) if k <= n])

    @model_validator(mode="after")
    def _fits_the_samples(self) -> Self:
        require_k(self.k, self.samples)
        self._require_at_most("compared", "samples")
        return self


_SCORE = re.compile(r"(?:(?P<set>.+)/)?(?P<metric>greedy|mean|pass_at_(?P<k>[1-9]\d*))")


class EvaluationSettings(Section):
    """Measurements of a model."""

    samples: Positive = Field(32, description="samples per problem")
    k: Ks = Field((1, 8, 16, 32), description="the k of Pass@k (default: those up to samples)")
    temperature: float = Field(1.0, gt=0, description="softmax temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="mass of nucleus sampling")
    max_tokens: Positive | None = Field(
        None, description="longest completion; default: sampling.max_tokens"
    )
    retention_k: Positive = Field(8, description="k of keep and explore")
    seed: Count = Field(0, description="seed of the samples and of the bootstrap")
    token_details: Count = Field(
        0,
        description="samples per problem, with the greedy answer, whose log-probs and entropy "
        "per token are kept; 0: none",
    )
    every: Count = Field(
        0, description="training steps between evaluations during training; 0: none"
    )
    keep_best: str | None = Field(
        None,
        description="greedy, mean or pass_at_<k> (of all sets, or <set>/pass_at_<k>): the best "
        "checkpoint by this score, as measured during training, is kept in addition to the newest",
    )
    result: Literal["newest", "best"] = Field(
        "newest",
        description="checkpoint to evaluate and export at the end: the newest, or "
        "the best by keep_best",
    )
    during: DuringSettings = DuringSettings()

    @model_validator(mode="before")
    @classmethod
    def _k_follows_samples(cls, data: Any) -> Any:
        return with_default(data, "k", "samples", lambda n: [k for k in (1, 8, 16, 32) if k <= n])

    @field_validator("keep_best")
    @classmethod
    def _score_is_known(cls, score: str | None) -> str | None:
        if score is not None and not _SCORE.fullmatch(score):
            raise ValueError(
                f"should be greedy, mean or pass_at_<k>, alone or after '<set>/', got {score!r}"
            )
        return score

    @model_validator(mode="after")
    def _fits(self) -> Self:
        require_k(self.k, self.samples)
        self._require_at_most("token_details", "samples")
        return self

    @model_validator(mode="after")
    def _best_is_measured(self) -> Self:
        found, said = _SCORE.fullmatch(self.keep_best or ""), f"keep_best={self.keep_best!r}"
        if found is None:
            if self.result == "best":
                raise ValueError(
                    "result='best' needs keep_best, the score that decides which checkpoint is best"
                )
            return self
        if not self.every:
            raise ValueError(f"{said} needs every > 0, got every=0")
        if found["k"] and int(found["k"]) not in self.during.k:
            raise ValueError(f"{said} is not measured: during.k={list(self.during.k)}")
        if found["metric"] == "greedy" and not self.during.greedy:
            raise ValueError(f"{said} is not measured: during.greedy=false")
        return self

    @property
    def best_by(self) -> tuple[str | None, str] | None:
        """Set and metric of ``keep_best``; the set is None where the mean over all sets counts."""
        found = _SCORE.fullmatch(self.keep_best or "")
        return (found["set"], found["metric"]) if found else None

    def during_sets(self, known: Collection[str]) -> tuple[str, ...]:
        """The sets that are measured during training, of those that are ``known``."""
        return self.during.sets or tuple(known)


def wrong_during(settings: EvaluationSettings, known: Collection[str], *, steps: int) -> str:
    """The fault in evaluations during ``steps`` of training; '' if there is none."""
    if not settings.every:
        return ""
    if settings.result == "best" and settings.every > steps:
        return (
            f"evaluate.result='best' measures nothing with evaluate.every={settings.every}, which "
            f"is more than train.steps={steps}"
        )
    if not known:
        return f"evaluate.every={settings.every} measures nothing: name a set in [data.sets]"
    if unknown := [name for name in settings.during.sets if name not in known]:
        return f"evaluate.during.sets names {unknown[0]!r}; [data.sets] has: {', '.join(known)}"
    best = settings.best_by
    if best and best[0] is not None and best[0] not in (sets := settings.during_sets(known)):
        measured = ", ".join(sets)
        return f"evaluate.keep_best names the set {best[0]!r}; the measured sets are {measured}"
    return ""


PROMPT, ANSWER = "{prompt}", "{answer}"


class ShotSettings(Section):
    """Solved examples that stand before every prompt: how a base model is asked."""

    file: LocalPath | None = Field(
        None, description="problems to show, as parquet, jsonl or csv; default: of data.train"
    )
    count: Positive | None = Field(
        None, description="number of examples, drawn by the seed; default: the whole file, in order"
    )
    template: str | None = Field(
        None,
        description='text of an example, "{prompt}\\n{answer}\\n\\n" by default; a question ends '
        "where its answer would begin",
    )
    answer: str = Field("answer", min_length=1, description="field that holds an example's answer")
    seed: int = Field(0, description="seed of the draw")

    @field_validator("template")
    @classmethod
    def _has_both_places(cls, template: str | None) -> str | None:
        if template is None:
            return None
        places = [template.find(PROMPT), template.find(ANSWER)]
        if min(places) < 0 or places[0] > places[1]:
            raise ValueError(f"needs {PROMPT} and then {ANSWER}")
        if template.count(PROMPT) + template.count(ANSWER) > 2:
            raise ValueError(f"must have {PROMPT} and {ANSWER} exactly once each")
        return template

    @model_validator(mode="after")
    def _says_how_many(self) -> "ShotSettings":
        if self.file is None and self.count is None:
            raise ValueError("needs a file, or the count of training problems to show")
        return self


SHOTS = tuple(ShotSettings.model_fields)
"""The names of all of them."""


Columns = dict[str, Annotated[str, Field(min_length=1)]]


class SetSettings(Section):
    """One evaluation set."""

    path: ProblemsPath = Field(description=f"problems as parquet, jsonl or csv, or {SPELLING}")
    columns: Columns | None = Field(
        None, description="columns of this set's fields; default: data.columns"
    )
    verifier: str | None = Field(None, description="verifier of this set; default: data.verifier")
    styles: str | None = Field(
        None, description="style classifier of this set; default: data.styles"
    )


class GradedData(Section):
    """Problems, and settings of grading that every verifier has."""

    train: ProblemsPath = Field(
        description="problems as parquet, jsonl or csv (problem_id, prompt, answer ...), or "
        f"{SPELLING}"
    )
    columns: Columns = Field(
        {},
        description='columns of the files by field, {prompt = "question"}; '
        "rows without a problem_id are then numbered",
    )
    sets: dict[str, SetSettings] = Field({}, description="evaluation sets by name")
    verifier: str = Field("exact", description=f"{', '.join(VERIFIERS)}, or your module:function")
    modules: Annotated[tuple[FilePath, ...], Field(strict=False)] = Field(
        (),
        description="directories of your modules, searched first; default: where found, "
        "next to the recipe or in the working directory",
    )
    verifier_workers: Positive = Field(1, description="worker processes of the verifier")
    verifier_timeout: float = Field(
        5.0, gt=0, description="time limit of grading one answer, in seconds"
    )
    verifier_crash_limit: Fraction = Field(
        0.5,
        description="share of a step's graded answers that may crash; a larger share ends the run",
    )
    databases: FilePath | None = Field(
        None, description="base directory of relative database paths (sql)"
    )

    @property
    def verifier_settings(self) -> dict[str, Any]:
        """The settings of all verifiers, as ``make_verifier`` takes them."""
        return {key: getattr(self, key) for key in verifier_settings()}


def _verifier_field(setting: VerifierSetting) -> Any:
    texts = Annotated[tuple[Phrase, ...], Field(strict=False)] | None
    kind = texts if setting.kind is TEXTS else setting.kind
    bounds: dict[str, Any] = dict(setting.bounds)
    return kind, Field(setting.default, description=setting.meaning, **bounds)


if TYPE_CHECKING:
    VerifiedData = GradedData
else:
    VerifiedData = create_model(
        "VerifiedData",
        __base__=GradedData,
        __module__=__name__,
        **{key: _verifier_field(setting) for key, setting in verifier_settings().items()},
    )


class DataSettings(VerifiedData):
    """Problems, how they are graded, and how the prompt is written.

    The keys of verifiers stand in the rows of ``dph.tasks.verifiers.VERIFIERS``.
    """

    styles: str | None = Field(
        None, description="style classifier: sql, first_operation or module:function"
    )
    chat: bool | Literal["auto"] = Field(
        False,
        description="wrap a text prompt as a user message of the chat template; auto: where the "
        "tokenizer has one",
    )
    template: dict[
        Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], bool | int | float | str
    ] = Field({}, description="variables of the chat template, such as { enable_thinking = false }")
    system_prompt: str = Field("", description="system message of the chat template")

    shots: ShotSettings | None = Field(
        None, description="solved examples before every prompt; default: none"
    )

    def columns_of(self, name: str) -> Columns:
        """Columns of a set's fields: its own names, or else those of all files."""
        own = self.sets[name].columns
        return self.columns if own is None else own
