"""The OpenAPI description: the framework's own, with the bodies that it does not see because we read them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from cascade_srn.serving import messages
from cascade_srn.version import __version__

REQUESTS = {
    "/extract": messages.ExtractRequest,
    "/draw": messages.DrawRequest,
    "/convert": messages.ConvertRequest,
}
_REASONS = {
    400: "The body is not JSON.",
    401: "The API key is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not said to be JSON.",
    422: "Something in the body is not as it should be; the message says what.",
    500: "The service failed.",
    503: "Not ready, full, or being stopped; Retry-After says when to try again.",
    504: "The answer was not there in time.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": messages.ErrorAnswer, "description": reason} for status, reason in _REASONS.items()
}
LICENCE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
DESCRIPTION = "Entities and relations from text. Every error has the same form: a code and a message."


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description of the service."""
    described = get_openapi(
        title="cascade-srn", version=__version__, description=DESCRIPTION, routes=app.routes, license_info=LICENCE
    )
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    forms = [(form, "validation") for form in REQUESTS.values()]
    _, found = models_json_schema(forms, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schemas |= found.get("$defs", {})
    for path, form in REQUESTS.items():
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{form.__name__}"}}}
        described["paths"][path]["post"]["requestBody"] = {"required": True, "content": content}
    described["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    return described
