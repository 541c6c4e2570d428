"""The OpenAPI schema of the service: named bodies, examples, operation ids, security."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from cause.service.operations import OPERATIONS
from cause.service.schemas import CloseRound, CreateToken, Erasure, Erasures, Problem, StartRepair

PUBLIC = ("/healthz", "/readyz")
REFERENCE = "#/components/schemas/"
Schema = dict[str, Any]


def openapi_schema(app: FastAPI) -> Schema:
    """Return the schema of an application; it is made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        components = schema.setdefault("components", {})
        named: dict[str, Schema] = components.setdefault("schemas", {})
        named["Problem"] = Problem.model_json_schema()
        for unused in ("HTTPValidationError", "ValidationError"):
            named.pop(unused, None)
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        schema["servers"] = [{"url": "/", "description": "This device"}]
        for model in (Erasure, CloseRound, CreateToken, Erasures, StartRepair):
            body = model.model_json_schema(ref_template=REFERENCE + "{model}")
            named |= body.pop("$defs", {}) | {model.__name__: body}
        for path, methods in schema["paths"].items():
            for method, operation in methods.items():
                operation["operationId"] = OPERATIONS[method.upper(), path]
                _name_bodies(operation, named)
                if path not in PUBLIC:
                    operation["security"] = [{"bearer": []}]
                    if "get" in methods and operation is methods["get"] and "200" in operation["responses"]:
                        operation["responses"].setdefault("304", {"description": "The client has it already"})
        for body in named.values():
            if body.get("type") == "object" and "examples" not in body:
                body["examples"] = [example_of(body, named)]
        app.openapi_schema = schema
    return app.openapi_schema


def _name_bodies(operation: Schema, named: dict[str, Schema]) -> None:
    """Move the titled variants of a body into the components, so that generated clients have classes of these names."""
    for content in operation.get("requestBody", {}).get("content", {}).values():
        variants = content["schema"].get("anyOf", [])
        for at, variant in enumerate(variants):
            if "title" in variant:
                named[variant["title"]] = variant
                variants[at] = {"$ref": REFERENCE + variant["title"]}


def example_of(schema: Schema, named: dict[str, Schema]) -> Any:
    """Return a value that a schema allows, made of the examples, defaults and types of its parts.

    >>> named = {"Dot": {"type": "object", "properties": {"x": {"type": "integer", "minimum": 3}}}}
    >>> example_of({"type": "array", "items": {"$ref": "#/components/schemas/Dot"}}, named)
    [{'x': 3}]
    >>> example_of({"anyOf": [{"type": "string", "examples": ["a"]}, {"type": "null"}]}, named)
    'a'
    """
    if "$ref" in schema:
        return example_of(named[schema["$ref"].removeprefix(REFERENCE)], named)
    for name in ("examples", "enum"):
        if schema.get(name):
            return schema[name][0]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return example_of(schema["anyOf"][0], named)
    kind = schema.get("type")
    if kind == "object":
        return {name: example_of(part, named) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [example_of(schema["items"], named)] * max(1, schema.get("minItems", 1))
    plain = {"integer": 1, "number": 0.5, "boolean": True, "string": "text", "null": None}
    return schema.get("default", schema.get("minimum", plain.get(str(kind))))
