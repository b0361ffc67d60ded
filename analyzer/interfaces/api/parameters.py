"""The parameters that listings share, and what each endpoint may answer beside its document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from analyzer.interfaces.api.cursor import LENGTH_MAX, PATTERN
from analyzer.interfaces.api.when import When
from analyzer.reports.document import Class, Model, Status
from analyzer.states import BOOKINGS, STATES

_LIMIT, LIMIT_MAX = 100, 1000
VALUES_MAX = 50
_CAUSES = tuple(sorted({each.cause for each in BOOKINGS if each.cause}))

Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Texts = Annotated[list[Text], Field(max_length=VALUES_MAX)]
State = Literal[STATES]  # type: ignore[valid-type]  # the table of states, once
Cause = Literal[_CAUSES]  # type: ignore[valid-type]
Opt = SkipJsonSchema[None]  # left out of an address, never written there as null


class Parameters(BaseModel):
    """The parameters of a request; one that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Paged(Parameters):
    """Of a listing."""

    limit: int = Field(_LIMIT, ge=1, le=LIMIT_MAX, description="The most items on one page.")
    cursor: Annotated[str, StringConstraints(pattern=PATTERN, max_length=LENGTH_MAX)] | Opt = Field(
        None, description="`next_cursor` of the page before; only with the same other parameters."
    )


class Spanned(Parameters):
    """Of a reading of a period."""

    since: When | Opt = Field(
        None,
        description="The period, or where it begins: without `until` a day, a week or a month is that one alone; 7d, "
        "monday or a time goes on until the ledger ends. Without both, the last complete week of the ledger.",
    )
    until: When | Opt = Field(
        None, description="Where it ends instead: a day, a week or a month is included, a time is not."
    )


class Selected(Spanned):
    """Of a reading of a part of the ledger. Several values of one parameter are alternatives."""

    team: Texts = Field([])
    project: Texts = Field([])
    model: Texts = Field([])
    queue: Texts = Field([])
    stage: Texts = Field([])
    node_group: Texts = Field([])
    run: Texts = Field([], description="A run's id, any unique end of it, its name, or `last`.")
    state: Annotated[list[State], Field(max_length=VALUES_MAX)] = Field([])
    cause: Annotated[list[Cause], Field(max_length=VALUES_MAX)] = Field([])
    klass: Annotated[list[Class], Field(max_length=VALUES_MAX)] = Field([], alias="class")
    held: bool | Opt = Field(None, description="Whether a run held the GPU.")
    status: Annotated[list[Status], Field(max_length=VALUES_MAX)] = Field(
        [], description="Only hours that are settled so far: closed and final ones do not change."
    )


class Fault(Model):
    """One parameter that cannot be read."""

    in_: str = Field(serialization_alias="in")
    name: str
    says: str


class Problem(Model):
    """RFC 9457. `detail` is a sentence for a person."""

    type: str
    title: str
    status: int
    detail: str
    reason: str = Field("", description="A word for programs, such as `usage`: what was asked is wrong in itself.")
    errors: list[Fault] = Field([], description="Of 422: what is wrong with which parameter.")


_WORDS = {
    400: "A parameter cannot be read.",
    401: "Who asks is not known: no token, or none that is good.",
    403: "Who asks may not read this.",
    404: "There is no such thing, period or page.",
    408: "It took too long to arrive.",
    409: "It contradicts what is there.",
    412: "It has been changed since it was read.",
    413: "It is too large.",
    415: "It is of another type than is taken.",
    421: "It belongs to another collector; Location says which.",
    422: "A parameter is unknown, or has a value that cannot be.",
    426: "It needs a newer collector.",
    428: "If-Match must say what is to be replaced.",
    429: "Too much at once: come again after Retry-After seconds.",
    500: "A mistake of ours.",
    503: "The store cannot be read now.",
}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems that an endpoint may answer with, for its OpenAPI document."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": _WORDS[status], "content": content} for status in statuses}


READS: dict[int | str, dict[str, Any]] = {
    304: {"description": "If-None-Match names this state of the ledger: what who asks has is current."},
    **refusals(400, 401, 403, 404, 422, 429, 500, 503),
}
