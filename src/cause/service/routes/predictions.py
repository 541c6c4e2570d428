"""Routes of predictions and evaluations."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool

from cause.service import schemas as s
from cause.service.access import require_scope
from cause.service.input_schemas import schema
from cause.service.inputs import JSON, TENSORS
from cause.service.predictor_cache import Prediction
from cause.service.problems import documented
from cause.service.responses import ChunkedResponse, json_response, timestamp
from cause.service.routes.pages import Before, Limit
from cause.service.service import Service
from cause.service.tokens import Token

QUICK = (JSON, TENSORS)
"""Media types that do not grow much when they are unpacked."""
PART = 512
"""Samples whose predictions are written in one step: other threads run in between."""


def router(service: Service) -> APIRouter:
    """Return the routes of predictions and evaluations."""
    routes = APIRouter(tags=["predictions"])
    reader = service.reader

    @routes.post(
        "/v1/predictions",
        response_model=s.Predictions,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": schema(reader.layout, labels=False)},
    )
    async def predict(
        request: Request,
        token: Annotated[Token, require_scope("user", "predict", "operator")],
        probabilities: Annotated[bool, Query(description="Also the mean of the voters' probabilities")] = False,
    ) -> Response:
        """The label that the heads agree on, for each input."""
        kind = request.headers.get("content-type", "")
        quick = kind.startswith(QUICK)
        x = await service.body_reader.unpack(request, partial(reader.read_inputs, kind), quick=quick)
        reserved = await service.batcher.predict(x, token.id)
        try:
            work = partial(_text, reserved.prediction, probabilities)
            text = work() if len(x) <= PART else await service.body_reader.run_in_slot(work)
            reserved.reservation.resize(len(text))  # only the text is left, however slowly the client reads
        except BaseException:
            reserved.reservation.release()
            raise
        return ChunkedResponse(text, reserved.reservation)

    @routes.post(
        "/v1/evaluations",
        status_code=201,
        response_model=s.Evaluation,
        responses=documented(408, 409, 415, 422),
        openapi_extra={"requestBody": schema(reader.layout, labels=True)},
    )
    async def evaluate(
        request: Request,
        token: Annotated[Token, require_scope("operator")],
        label: Annotated[int | None, Query(ge=0, le=service.device.classes - 1, description="Of a picture")] = None,
    ) -> Response:
        """The share of labelled samples that are predicted right. Only the result is kept."""
        kind = request.headers.get("content-type", "")
        x, y = await service.body_reader.unpack(request, lambda body: reader.read_labelled(kind, body, label))
        reserved = await service.batcher.predict(x, token.id)
        try:
            evaluation = await run_in_threadpool(_evaluate, service, reserved.prediction, y)
        finally:
            reserved.reservation.release()
        return json_response(request, evaluation, 201)

    @routes.get("/v1/evaluations", response_model=s.Evaluations, responses=documented(422))
    def evaluations(
        request: Request,
        token: Annotated[Token, require_scope("operator", "auditor")],
        before: Before = None,
        limit: Limit = 50,
    ) -> Response:
        """Evaluations so far, newest first."""
        rows = service.home.queries.evaluations(before, limit + 1)
        items = [
            s.Evaluation(id=row.id, at=timestamp(row.at), round=row.round, **json.loads(row.text))
            for row in rows[:limit]
        ]
        return json_response(
            request, s.Evaluations(items=items, next=rows[limit - 1].id if len(rows) > limit else None)
        )

    return routes


def _text(prediction: Prediction, with_probabilities: bool) -> bytes:
    parts = range(0, len(prediction.labels), PART)
    labels = _json_list(prediction.labels[start : start + PART] for start in parts)
    means = "null"
    if with_probabilities:
        of = prediction.probabilities
        means = _json_list(of[:, start : start + PART].mean(axis=0).astype(np.float64) for start in parts)
    return f'{{"labels": {labels}, "voters": {len(prediction.voters)}, "probabilities": {means}}}'.encode()


def _json_list(parts: Iterable[NDArray[Any]]) -> str:
    return "[" + ", ".join(json.dumps(part.tolist())[1:-1] for part in parts) + "]"


def _evaluate(service: Service, prediction: Prediction, y: NDArray[np.int64]) -> s.Evaluation:
    right = prediction.labels == y
    right_by_head = prediction.probabilities.argmax(axis=2) == y
    fields = {
        "samples": len(y),
        "accuracy": float(right.mean()),
        "voters": len(prediction.voters),
        "classes": [
            {"label": int(label), "samples": int((y == label).sum()), "accuracy": float(right[y == label].mean())}
            for label in np.unique(y)
        ],
        "heads": [
            {
                "shard": voter.sub_model.key.shard,
                "segment": list(voter.sub_model.key),
                "accuracy": float(right_of_head.mean()),
            }
            for voter, right_of_head in zip(prediction.voters, right_by_head, strict=True)
        ],
    }
    home, at, round_ = service.home, service.home.clock(), service.device.ledger.round
    with home.database.transaction():
        id_ = home.queries.add_evaluation(at, round_, json.dumps(fields))
    evaluation = s.Evaluation(id=id_, at=timestamp(at), round=round_, **fields)  # type: ignore[arg-type]
    service.events.publish("evaluation.made", **evaluation.model_dump())
    return evaluation
