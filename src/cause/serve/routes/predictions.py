"""Predictions and evaluations."""

import json
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool

from cause.serve import schemas as s
from cause.serve.access import allowed
from cause.serve.inputs import schema
from cause.serve.problems import documented
from cause.serve.routes.pages import Before, Limit
from cause.serve.service import Service
from cause.serve.shown import moment, reply
from cause.serve.tokens import Token

SMALL = 65_536
"""Bodies up to this size are read where they arrive: a thread would take longer to begin."""


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["predictions"])
    reader = service.reader

    @routes.post(
        "/v1/predictions",
        response_model=s.Predictions,
        responses=documented(409, 415, 422),
        openapi_extra={"requestBody": schema(reader.form, labels=False)},
    )
    async def predict(
        request: Request,
        token: Annotated[Token, allowed("user", "predict", "operator")],
        probabilities: Annotated[bool, Query(description="Also the mean of the voters' probabilities")] = False,
    ) -> Response:
        """The label that the heads agree on, for each input."""
        kind, body = request.headers.get("content-type", ""), await request.body()
        small = len(body) <= SMALL
        x: NDArray[Any] = reader.inputs(kind, body) if small else await run_in_threadpool(reader.inputs, kind, body)
        answer = await service.batches.predict(x)
        told: dict[str, Any] = {"labels": answer.labels.tolist(), "voters": len(answer.voters), "probabilities": None}
        if probabilities:
            told["probabilities"] = answer.probabilities.mean(axis=0).astype(np.float64).tolist()
        return Response(json.dumps(told), media_type="application/json")

    @routes.post(
        "/v1/evaluations",
        status_code=201,
        response_model=s.Evaluation,
        responses=documented(409, 415, 422),
        openapi_extra={"requestBody": schema(reader.form, labels=True)},
    )
    async def evaluate(
        request: Request,
        token: Annotated[Token, allowed("operator")],
        label: Annotated[int | None, Query(ge=0, le=service.device.classes - 1, description="Of a picture")] = None,
    ) -> Response:
        """How many labelled samples are answered right. Only the result is kept."""
        kind, body = request.headers.get("content-type", ""), await request.body()
        x, y = await run_in_threadpool(reader.labelled, kind, body, label)
        done = await run_in_threadpool(_evaluated, service, x, y)
        return reply(request, done, 201)

    @routes.get("/v1/evaluations", response_model=s.Evaluations, responses=documented(422))
    def evaluations(
        request: Request,
        token: Annotated[Token, allowed("operator", "auditor")],
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """Those made so far, newest first."""
        rows = service.home.database.rows(
            "SELECT id, at, round, told FROM evaluations WHERE id < ? ORDER BY id DESC LIMIT ?",
            [2**62 if before is None else before, limit + 1],
        )
        items = [
            s.Evaluation(id=id_, at=moment(at), round=round_, **json.loads(told))
            for id_, at, round_, told in rows[:limit]
        ]
        return reply(request, s.Evaluations(items=items, next=rows[limit - 1][0] if len(rows) > limit else None))

    return routes


def _evaluated(service: Service, x: NDArray[Any], y: NDArray[np.int64]) -> s.Evaluation:
    answer = service.heads.predict(x)
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
    database, at, round_ = service.home.database, service.home.clock(), service.device.ledger.round
    with database.transaction():
        row = [at, round_, json.dumps(told)]
        id_ = database.run("INSERT INTO evaluations (at, round, told) VALUES (?, ?, ?)", row).lastrowid
    done = s.Evaluation(id=id_, at=moment(at), round=round_, **told)  # type: ignore[arg-type]
    service.events.tell("evaluation.made", **done.model_dump())
    return done
