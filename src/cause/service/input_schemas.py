"""The OpenAPI schemas of request bodies, with the shapes of this device's inputs in them."""

from typing import Any

from cause.common.names import LONGEST_USER_ID
from cause.service.inputs import CSV, JSON, LARGEST, MOST_JSON, NPZ, PICTURES, TENSORS, InputLayout


def erasure_schema() -> dict[str, Any]:
    """Return the OpenAPI schema of the body of an erasure."""
    return {"required": True, "content": {JSON: {"schema": {"$ref": "#/components/schemas/Erasure"}}}}


def close_round_schema() -> dict[str, Any]:
    """Return the OpenAPI schema of the body that closes a round."""
    return {"required": False, "content": {JSON: {"schema": {"$ref": "#/components/schemas/CloseRound"}}}}


def start_repair_schema() -> dict[str, Any]:
    """Return the OpenAPI schema of the body that starts a repair."""
    return {"required": False, "content": {JSON: {"schema": {"$ref": "#/components/schemas/StartRepair"}}}}


def bulk_schema(layout: InputLayout) -> dict[str, Any]:
    """Return the OpenAPI schema of the body of samples of several users."""
    body = schema(layout, labels=True)
    for variant in body["content"][JSON]["schema"]["anyOf"]:
        sample = variant["properties"]["samples"]["items"]
        sample["properties"]["user"] = {"type": "string", "minLength": 1, "maxLength": LONGEST_USER_ID}
        sample["required"] = ["x", "y", "user"]
        variant["title"] = variant["title"].replace("Labelled", "SeveralUsers")
    body["content"][JSON]["example"]["samples"][0]["user"] = "alice"
    body["content"][CSV]["example"] = _table_example(layout, labels=True, users=True)
    return {"required": True, "content": {kind: body["content"][kind] for kind in (JSON, NPZ, CSV)}}


def rows_schema(layout: InputLayout) -> dict[str, Any]:
    """Return the OpenAPI schema of the body of rows with labels or without."""
    body, unlabelled = schema(layout, labels=True), schema(layout, labels=False)
    body["content"][JSON]["schema"]["anyOf"] += unlabelled["content"][JSON]["schema"]["anyOf"]
    return body


def schema(layout: InputLayout, *, labels: bool) -> dict[str, Any]:
    """Return the OpenAPI schema of the body of samples, with labels or without."""
    values = [0.0] * (layout.values or 4)
    example: Any = {"samples": [{"x": values, "y": 0}]} if labels else {"inputs": [values]}
    floats = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    octets = {"type": "integer", "minimum": 0, "maximum": 255}
    variants = [_variant(layout, labels, floats, "float32"), _variant(layout, labels, octets, "uint8")]
    binary = {"schema": {"type": "string", "format": "binary"}}
    table = {"schema": {"type": "string"}, "example": _table_example(layout, labels=labels, users=False)}
    content = {JSON: {"schema": {"anyOf": variants}, "example": example}, NPZ: binary, TENSORS: binary, CSV: table}
    return {"required": True, "content": content | dict.fromkeys(PICTURES, binary)}


def _table_example(layout: InputLayout, *, labels: bool, users: bool) -> str:
    """Return a table of one sample as CSV."""
    values = layout.values or 4
    header = ["user"] * users + ["label"] * labels + [f"x{at}" for at in range(values)]
    return ",".join(header) + "\n" + ",".join(["alice"] * users + ["0"] * labels + ["0.5"] * values) + "\n"


def _variant(layout: InputLayout, labels: bool, number: dict[str, Any], dtype: str) -> dict[str, Any]:
    row = {"type": "array", "items": number, "minItems": layout.values or 1, "maxItems": layout.values or 2**20}
    label = {"type": "integer", "minimum": 0, "maximum": layout.classes - 1}
    sample = {"type": "object", "properties": {"x": row, "y": label}, "required": ["x", "y"]}
    name, item = ("samples", sample | {"additionalProperties": False}) if labels else ("inputs", row)
    listed = {"type": "array", "items": item, "minItems": 1, "maxItems": MOST_JSON}
    floats = dtype == "float32"
    return {
        "title": f"{'Labelled' if labels else ''}{'Samples' if floats else 'Uint8Samples'}",
        "type": "object",
        "properties": {name: listed, "dtype": {"type": "string", "enum": [dtype]}},
        "required": [name] if floats else [name, "dtype"],
        "additionalProperties": False,
    }
