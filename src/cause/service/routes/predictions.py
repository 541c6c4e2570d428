"""Predictions and evaluations."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool

from cause.service import schemas as s
from cause.service.access import allowed
from cause.service.batching import Predicted
from cause.service.inputs import JSON, TENSORS, schema
from cause.service.predictor_cache import Answer
from cause.service.problems import documented
from cause.service.responses import InPieces, moment, reply
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

QUICK = (JSON, TENSORS)
"""What does not unpack to much more than was sent."""
PART = 512
"""Samples whose answers are written at once: others come in between."""


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["predictions"])
    reader = service.reader

    @routes.post(
        "/v1/predictions",
        response_model=s.Predictions,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": schema(reader.form, labels=False)},
    )
    async def predict(
        request: Request,
        token: Annotated[Token, allowed("user", "predict", "operator")],
        probabilities: Annotated[bool, Query(description="Also the mean of the voters' probabilities")] = False,
    ) -> Response:
        """The label that the heads agree on, for each input."""
        kind = request.headers.get("content-type", "")
        quick = kind.startswith(QUICK)
        x = await service.bodies.unpacked(request, partial(reader.inputs, kind), quick=quick)
        done = await service.batches.predict(x, token.id)
        try:
            work = partial(_text, done, probabilities)
            text = work() if len(x) <= PART else await service.bodies.apart(work)
            done.share.hold(len(text))  # it is what is left, however slowly it is read
        except BaseException:
            done.share.let_go()
            raise
        return InPieces(text, done.share)

    @routes.post(
        "/v1/evaluations",
        status_code=201,
        response_model=s.Evaluation,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": schema(reader.form, labels=True)},
    )
    async def evaluate(
        request: Request,
        token: Annotated[Token, allowed("operator")],
        label: Annotated[int | None, Query(ge=0, le=service.device.classes - 1, description="Of a picture")] = None,
    ) -> Response:
        """How many labelled samples are answered right. Only the result is kept."""
        kind = request.headers.get("content-type", "")
        x, y = await service.bodies.unpacked(request, lambda body: reader.labelled(kind, body, label))
        done = await service.batches.predict(x, token.id)
        try:
            told = await run_in_threadpool(_evaluated, service, done.answer, y)
        finally:
            done.share.let_go()
        return reply(request, told, 201)

    @routes.get("/v1/evaluations", response_model=s.Evaluations, responses=documented(422))
    def evaluations(
        request: Request,
        token: Annotated[Token, allowed("operator", "auditor")],
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """Those made so far, newest first."""
        rows = service.home.queries.evaluations(before, limit + 1)
        items = [
            s.Evaluation(id=row.id, at=moment(row.at), round=row.round, **json.loads(row.text)) for row in rows[:limit]
        ]
        return reply(request, s.Evaluations(items=items, next=rows[limit - 1].id if len(rows) > limit else None))

    return routes


def _text(done: Predicted, probabilities: bool) -> bytes:
    answer, parts = done.answer, range(0, len(done.answer.labels), PART)
    labels = _listed(answer.labels[start : start + PART] for start in parts)
    shown = "null"
    if probabilities:
        of = answer.probabilities
        shown = _listed(of[:, start : start + PART].mean(axis=0).astype(np.float64) for start in parts)
    return f'{{"labels": {labels}, "voters": {len(answer.voters)}, "probabilities": {shown}}}'.encode()


def _listed(parts: Iterable[NDArray[Any]]) -> str:
    return "[" + ", ".join(json.dumps(part.tolist())[1:-1] for part in parts) + "]"


def _evaluated(service: Service, answer: Answer, y: NDArray[np.int64]) -> s.Evaluation:
    right = answer.labels == y
    chosen = answer.probabilities.argmax(axis=2) == y
    told = {
        "samples": len(y),
        "accuracy": float(right.mean()),
        "voters": len(answer.voters),
        "classes": [
            {"label": int(each), "samples": int((y == each).sum()), "accuracy": float(right[y == each].mean())}
            for each in np.unique(y)
        ],
        "heads": [
            {"shard": voter.sub_model.key.shard, "segment": list(voter.sub_model.key), "accuracy": float(own.mean())}
            for voter, own in zip(answer.voters, chosen, strict=True)
        ],
    }
    home, at, round_ = service.home, service.home.clock(), service.device.ledger.round
    with home.database.transaction():
        id_ = home.queries.add_evaluation(at, round_, json.dumps(told))
    done = s.Evaluation(id=id_, at=moment(at), round=round_, **told)  # type: ignore[arg-type]
    service.events.tell("evaluation.made", **done.model_dump())
    return done
