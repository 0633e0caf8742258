"""Routes of the explorer: JSON and tables about neighbourhoods of a graph, and the files of its page."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from fastapi.routing import APIRoute

from cascade_srn.apps.graph.explore import Explorer, NotInGraph, with_names
from cascade_srn.apps.graph.explorer import queries
from cascade_srn.apps.graph.explorer.evidence import draw_evidence, graph_schema
from cascade_srn.apps.service.messages import ErrorAnswer
from cascade_srn.apps.service.routes import render_operations
from cascade_srn.apps.web.assets import CONTENT_TYPES, Asset, add_assets, page_assets, show_links
from cascade_srn.apps.web.refusals import Refusal, json_response, unprocessable
from cascade_srn.drawing import stylesheet
from cascade_srn.errors import CascadeError

EDGE_COLUMNS = (
    *("head", "head_name", "head_label", "label", "tail", "tail_name", "tail_label", "n", "n_documents"),
    *("best_score", "mean_score", "first_date", "last_date", "symmetric", "flag"),
)
RANKING_COLUMNS = ("node", "name", "label", "n", "n_documents", "best_score", "first_date", "last_date")
EVIDENCE_COLUMNS = (
    *("document", "document_id", "title", "date", "score", "sentence_text", "sentence_start", "sentence_end"),
    *("head_text", "head_start", "head_end", "tail_text", "tail_start", "tail_end", "model", "version"),
)
ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorAnswer, "description": "The API key is missing or wrong."},
    404: {"model": ErrorAnswer, "description": "The graph has no such node or edge."},
    422: {"model": ErrorAnswer, "description": "A parameter is invalid; see the message."},
}
CSV_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}, "description": "A table."}}


def graph_routes(explorer: Explorer) -> APIRouter:
    """Make the routes of all questions to a graph.

    They are plain functions, which the framework runs in threads, because the database blocks.
    """
    router = APIRouter(prefix="/api", responses=ERRORS)
    schema = graph_schema(explorer.overview)

    @router.get("/overview")
    def overview() -> Response:
        """Return numbers, labels and years of the graph, and its best-connected nodes."""
        return json_response(explorer.overview)

    @router.get("/search")
    def search(form: Annotated[queries.SearchForm, Query()]) -> Response:
        """Find nodes by the beginning or a part of a name, best first. `form` is the form that matches."""
        return _answer(lambda: {"nodes": explorer.search(form.q, types=form.type, limit=form.limit)})

    @router.get("/node")
    def node(form: Annotated[queries.NodeForm, Query()]) -> Response:
        """Return a node with its forms in the texts, the reasons of its merges, and its relations by type."""
        return _answer(lambda: explorer.node(form.node))

    @router.get("/neighbourhood")
    def neighbourhood(form: Annotated[queries.NeighbourhoodForm, Query()]) -> Response:
        """Return nodes, their best neighbours, and the edges between all of them."""
        return _answer(lambda: explorer.neighbourhood(form.node, form.filters(), limit=form.limit))

    @router.get("/neighbourhood.csv", response_class=Response, responses=CSV_RESPONSE)
    def neighbourhood_csv(form: Annotated[queries.NeighbourhoodForm, Query()]) -> Response:
        """Return the edges of a neighbourhood as a table."""

        def find() -> list[dict[str, Any]]:
            found = explorer.neighbourhood(form.node, form.filters(), limit=form.limit)
            return with_names(found["edges"], found["nodes"])

        return _table("edges.csv", EDGE_COLUMNS, find)

    @router.get("/evidence")
    def evidence(form: Annotated[queries.EvidenceForm, Query()]) -> Response:
        """Return the sentences that an edge comes from. `drawing` is an HTML fragment that needs /stylesheet.css."""

        def find() -> dict[str, Any]:
            found = explorer.evidence(form.edge, form.filters(), limit=form.limit, offset=form.offset)
            label = found["edge"]["label"]
            rows = [{**row, "drawing": draw_evidence(row, label, schema)} for row in found["evidence"]]
            return {**found, "evidence": rows}

        return _answer(find)

    @router.get("/evidence.csv", response_class=Response, responses=CSV_RESPONSE)
    def evidence_csv(form: Annotated[queries.EvidenceForm, Query()]) -> Response:
        """Return the evidence of an edge as a table."""
        return _table(
            "evidence.csv",
            EVIDENCE_COLUMNS,
            lambda: explorer.evidence(form.edge, form.filters(), limit=form.limit, offset=form.offset)["evidence"],
        )

    @router.get("/ranking")
    def ranking(form: Annotated[queries.RankingForm, Query()]) -> Response:
        """Rank nodes by the number of documents."""
        return _answer(lambda: explorer.ranking(**form.arguments()))

    @router.get("/ranking.csv", response_class=Response, responses=CSV_RESPONSE)
    def ranking_csv(form: Annotated[queries.RankingForm, Query()]) -> Response:
        """Return a ranking as a table."""
        return _table("ranking.csv", RANKING_COLUMNS, lambda: explorer.ranking(**form.arguments())["rows"])

    return router


def _answer(find: Callable[[], Any]) -> Response:
    return json_response(_find(find))


def _table(name: str, columns: Sequence[str], find: Callable[[], Iterable[Mapping[str, Any]]]) -> Response:
    """Make a response with a CSV file (RFC 4180, UTF-8)."""
    content = io.StringIO()
    writer = csv.DictWriter(content, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(_find(find))
    headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content.getvalue().encode(), headers=headers, media_type="text/csv")


def _find(find: Callable[[], Any]) -> Any:
    """Ask the graph. Its errors are those of the request."""
    try:
        return find()
    except NotInGraph as error:
        raise Refusal(404, "not_in_graph", error.problem, error.hint) from error
    except CascadeError as error:
        raise unprocessable(error.problem, error.hint) from error


def page_routes(description: Mapping[str, Any] | None = None) -> APIRouter:
    """Make the routes of static files: the page, the library that draws graphs, the style of drawings, and /docs.

    Args:
        description: OpenAPI description; None if the explorer is a part of the service, which has its own /docs.
    """
    router = APIRouter()
    assets = page_assets("graph/explorer/page")
    index = assets.pop("/index.html")
    assets["/stylesheet.css"] = Asset(stylesheet().encode(), CONTENT_TYPES[".css"])
    if description is None:
        index = show_links(replace(index, content=index.content.replace(b'href="docs"', b'href="../docs"')))
    else:
        assets["/docs"] = Asset(render_operations(description).encode(), CONTENT_TYPES[".html"])
    assets["/"] = index
    add_assets(router, assets)
    return router


def api_paths(router: APIRouter | None) -> frozenset[str]:
    """Return the paths of all questions to a graph, which need the API key. ``router`` is that of `graph_routes`."""
    routes = () if router is None else router.routes
    return frozenset(route.path for route in routes if isinstance(route, APIRoute))
