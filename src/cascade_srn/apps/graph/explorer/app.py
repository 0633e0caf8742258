"""The explorer as an ASGI application: JSON and tables about neighbourhoods of a graph, and a page that draws them."""

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from cascade_srn.apps.graph.explorer.evidence import draw_evidence, graph_schema
from cascade_srn.apps.graph.explorer.pages import PdfPages
from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.paths import MAX_LENGTH
from cascade_srn.apps.graph.questions import Graph, without
from cascade_srn.apps.graph.reader import NotInGraph
from cascade_srn.apps.graph.store import open_graph
from cascade_srn.apps.web.app import WebPart, create_web_app, error_responses
from cascade_srn.apps.web.assets import page_assets, show_links
from cascade_srn.apps.web.metrics import Metrics
from cascade_srn.apps.web.refusals import Refusal, json_response, unavailable, unprocessable
from cascade_srn.apps.web.run import serve_app
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.errors import CascadeError
from cascade_srn.formats.table import escape_row
from cascade_srn.text.pdf import PagePicture

DESCRIPTION = (
    "Neighbourhoods, paths, evidence and rankings of a graph. Every error has the same form: a code and a message."
)
EDGE_COLUMNS = (
    *("head", "head_name", "head_label", "label", "tail", "tail_name", "tail_label", "n", "n_documents"),
    *("best_score", "mean_score", "first_date", "last_date", "symmetric", "flag"),
)
RANKING_COLUMNS = ("node", "name", "label", "n", "n_documents", "best_score", "first_date", "last_date")
EVIDENCE_COLUMNS = (
    *("document", "document_id", "title", "date", "score", "sentence_text", "sentence_start", "sentence_end"),
    *("head_text", "head_start", "head_end", "tail_text", "tail_start", "tail_end", "model", "version"),
)
PLACES = ("sentence", "head", "tail")
# Bounds of an answer.
MAX_CENTRES, MAX_NEIGHBOURS, MAX_ROWS = 40, 200, 1000
# Questions that the database works on at the same time, and the seconds that others wait for their turn.
MAX_QUESTIONS, TURN_SECONDS = 4, 2.0
ERRORS = error_responses(
    {
        401: "The API key is missing or wrong.",
        404: "The graph has no such node or edge.",
        422: "A parameter is invalid; see the message.",
        503: "Too many questions are in progress; see Retry-After.",
    }
)
PNG_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}, "description": "A picture."}}
CSV_RESPONSE: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}, "description": "A table."}}


# Longest id of a node, label or query.
MAX_TEXT = 1000
# Largest number that the database can hold.
MAX_NUMBER = (1 << 63) - 1

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Year = Annotated[int | None, Field(ge=0, le=9999)]
Offset = Annotated[int, Field(ge=0, le=MAX_NUMBER)]


class QueryForm(BaseModel):
    """Base class of all forms: no unknown parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FilterForm(QueryForm):
    """Which edges are shown. Parameters for labels may be repeated."""

    type: Annotated[list[Text], Field(description="Entity types of neighbours. Default: all.")] = []
    relation: Annotated[list[Text], Field(description="Relation types. Default: all.")] = []
    min_score: Annotated[float, Field(ge=0, le=1, description="Lowest score.")] = 0.0
    min_count: Annotated[int, Field(ge=1, le=MAX_NUMBER, description="Fewest pieces of evidence.")] = 1
    first_year: Annotated[Year, Field(description="First year of the evidence.")] = None
    last_year: Annotated[Year, Field(description="Last year of the evidence.")] = None

    def filters(self) -> Filters:
        """Return the filters of a graph."""
        return Filters(
            types=tuple(self.type),
            relations=tuple(self.relation),
            min_score=self.min_score,
            min_count=self.min_count,
            first_year=self.first_year,
            last_year=self.last_year,
        )


class SearchForm(QueryForm):
    """A search for nodes."""

    q: Annotated[Text, Field(description="Beginning or part of a name, in any case.")]
    type: Annotated[list[Text], Field(description="Entity types. Default: all.")] = []
    limit: Annotated[int, Field(ge=1, le=100)] = 12


class NodeForm(QueryForm):
    """A node."""

    node: Annotated[Text, Field(description="Id of the node.")]


class NeighbourhoodForm(FilterForm):
    """Nodes and their best neighbours."""

    node: Annotated[list[Text], Field(min_length=1, max_length=MAX_CENTRES, description="Ids of the nodes to expand.")]
    limit: Annotated[int, Field(ge=1, le=MAX_NEIGHBOURS, description="Most edges of each of these nodes.")] = 25


class EvidenceForm(FilterForm):
    """The evidence of an edge. Of the filters, only the score and the years apply."""

    edge: Annotated[int, Field(ge=0, le=MAX_NUMBER, description="Number of the edge.")]
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 10
    offset: Offset = 0


class PageForm(QueryForm):
    """A place in a document: a sentence and two entities, as offsets into its text."""

    document: Annotated[int, Field(ge=0, le=MAX_NUMBER, description="Number of the document.")]
    sentence_start: Offset
    sentence_end: Offset
    head_start: Offset
    head_end: Offset
    tail_start: Offset
    tail_end: Offset

    def places(self) -> dict[str, tuple[int, int]]:
        """Return the offsets by name."""
        return {name: (getattr(self, f"{name}_start"), getattr(self, f"{name}_end")) for name in PLACES}


class PathForm(FilterForm):
    """The shortest paths between two nodes. `type` is the type of the nodes between."""

    start: Annotated[Text, Field(description="Id or name of the first node.")]
    end: Annotated[Text, Field(description="Id or name of the last node.")]
    without: Annotated[list[Text], Field(max_length=MAX_CENTRES, description="Nodes that must not be on the way.")] = []
    max_length: Annotated[int, Field(ge=1, le=MAX_LENGTH, description="Most edges of a path.")] = 5
    limit: Annotated[int, Field(ge=1, le=20)] = 5


class TriplesForm(FilterForm):
    """Relations by their ends. `type` is not used."""

    head: Annotated[Text | None, Field(description="Id or name of the head; * stands for any characters.")] = None
    tail: Annotated[Text | None, Field(description="Id or name of the tail, likewise.")] = None
    head_type: Annotated[Text | None, Field(description="Entity type of the head.")] = None
    tail_type: Annotated[Text | None, Field(description="Entity type of the tail.")] = None
    by_year: Annotated[bool, Field(description="Count each year by itself.")] = False
    evidence: Annotated[int, Field(ge=0, le=10, description="Sentences of each row.")] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 30

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``Graph.triples``."""
        names = ("head", "tail", "head_type", "tail_type", "by_year", "evidence", "limit")
        return {name: getattr(self, name) for name in names} | {"filters": self.filters()}


class TrendsForm(QueryForm):
    """Nodes whose documents are counted by year."""

    node: Annotated[list[Text], Field(min_length=1, max_length=MAX_CENTRES, description="Ids or names of nodes.")]
    first_year: Annotated[Year, Field(description="First year.")] = None
    last_year: Annotated[Year, Field(description="Last year.")] = None


class RankingForm(FilterForm):
    """A ranking of nodes: of all, of those in the documents of a node, or of those with a relation to a node.

    With a node, `relation` is one relation of it. `type` is the type of the ranked nodes.
    """

    type: Annotated[list[Text], Field(max_length=1, description="Entity type of the ranked nodes. Default: all.")] = []
    relation: Annotated[list[Text], Field(max_length=1, description="Relation with the node.")] = []
    node: Annotated[Text | None, Field(description="Id of the node that the ranked ones are related to.")] = None
    direction: Annotated[
        Literal["in", "out"], Field(description="in: the ranked nodes are heads; out: they are tails.")
    ] = "in"
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] = 25
    offset: Offset = 0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of ``Graph.ranking``."""
        return {
            "type": next(iter(self.type), None),
            "relation": next(iter(self.relation), None),
            "node": self.node,
            "direction": self.direction,
            "filters": Filters(
                min_score=self.min_score,
                min_count=self.min_count,
                first_year=self.first_year,
                last_year=self.last_year,
            ),
            "limit": self.limit,
            "offset": self.offset,
        }


def create_explorer(graph: Graph, settings: ServeSettings | None = None, *, pdfs: str | Path | None = None) -> FastAPI:
    """Make the ASGI application that serves a graph.

    The database is closed with the lifespan of the application.

    Args:
        graph: The graph.
        settings: Settings of the service; those about the model are not used.
        pdfs: Folder with the PDF files that the graph was built from, to show evidence on their pages.

    Example:
        >>> app = create_explorer(open_graph("graph"))  # doctest: +SKIP
    """
    settings = ServeSettings() if settings is None else settings
    pages = None if pdfs is None else PdfPages(pdfs)
    own = WebPart(graph_routes(graph, pages), page_assets("graph/explorer/page"), close=graph.close)
    return create_web_app(own, settings, Metrics(), title="cascade-srn graph", description=DESCRIPTION)


def explorer_part(folder: str | Path) -> WebPart:
    """Make the explorer of the graph in a folder as a part of another application, which has its own ``/docs``."""
    assets = page_assets("graph/explorer/page")
    index = assets["/index.html"]
    assets["/index.html"] = show_links(replace(index, content=index.content.replace(b'href="docs"', b'href="../docs"')))
    graph = open_graph(folder)
    return WebPart(graph_routes(graph), assets, close=graph.close)


def serve_graph(
    folder: str | Path,
    settings: ServeSettings | None = None,
    *,
    pdfs: str | Path | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the graph in a folder until SIGINT or SIGTERM.

    Args:
        folder: A folder that :func:`cascade_srn.apps.graph.build` has written.
        settings: Settings of the service; those about the model are not used.
        pdfs: Folder with the PDF files that the graph was built from, to show evidence on their pages.
        on_ready: Called with the URL when the service accepts requests.

    Raises:
        DataError: The folder has no graph, or a damaged one.
        ConfigError: The service cannot listen on the address, or an extra is missing.
    """
    settings = ServeSettings() if settings is None else settings
    app = create_explorer(open_graph(folder), settings, pdfs=pdfs)
    serve_app(app, settings, on_ready=on_ready)


def graph_routes(graph: Graph, pages: PdfPages | None = None) -> APIRouter:
    """Make the routes of all questions to a graph.

    They are plain functions, which the framework runs in threads, because the database blocks. Their number at work is
    limited, so that expensive questions of many clients do not delay each other without end.
    """
    turns = asyncio.Semaphore(MAX_QUESTIONS)

    async def take_turn() -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turns.acquire()
        except TimeoutError:
            problem = "too many questions to the graph are in progress"
            raise unavailable("graph_busy", problem, "Try again soon", retry_after=2) from None
        try:
            yield
        finally:
            turns.release()

    router = APIRouter(prefix="/api", responses=ERRORS, dependencies=[Depends(take_turn)])
    schema = graph_schema(graph.overview)
    _ = graph.communities  # found once, so that nobody waits for them

    @router.get("/overview")
    def overview() -> Response:
        """Return numbers, labels and years of the graph, and its best-connected nodes."""
        return json_response(graph.overview)

    @router.get("/search")
    def search(form: Annotated[SearchForm, Query()]) -> Response:
        """Find nodes by the beginning or a part of a name, best first. `form` is the form that matches."""
        return _answer(lambda: {"nodes": graph.search(form.q, types=form.type, limit=form.limit)})

    @router.get("/node")
    def node(form: Annotated[NodeForm, Query()]) -> Response:
        """Return a node with its forms in the texts, the reasons of its merges, and its relations by type."""
        return _answer(lambda: graph.describe(form.node))

    @router.get("/neighbourhood")
    def neighbourhood(form: Annotated[NeighbourhoodForm, Query()]) -> Response:
        """Return nodes, their best neighbours, and the edges between all of them."""
        return _answer(lambda: graph.neighbourhood(form.node, form.filters(), limit=form.limit))

    @router.get("/neighbourhood.csv", response_class=Response, responses=CSV_RESPONSE)
    def neighbourhood_csv(form: Annotated[NeighbourhoodForm, Query()]) -> Response:
        """Return the edges of a neighbourhood as a table."""

        def find() -> list[dict[str, Any]]:
            return graph.with_names(graph.neighbourhood(form.node, form.filters(), limit=form.limit)["edges"])

        return _table("edges.csv", EDGE_COLUMNS, find)

    @router.get("/evidence")
    def evidence(form: Annotated[EvidenceForm, Query()]) -> Response:
        """Return the sentences that an edge comes from. `drawing` is an HTML fragment that needs /stylesheet.css."""

        def find() -> dict[str, Any]:
            edge = graph.edge(form.edge)
            rows = graph.evidence(form.edge, form.filters(), limit=form.limit, offset=form.offset)
            drawn = [
                without(row, "edge", "total") | {"drawing": draw_evidence(row, edge["label"], schema)} for row in rows
            ]
            if pages is not None:
                drawn = [row | {"has_page": pages.has(row["document_id"])} for row in drawn]
            return {"edge": edge, "total": rows[0]["total"] if rows else 0, "evidence": drawn}

        return _answer(find)

    @router.get("/evidence.csv", response_class=Response, responses=CSV_RESPONSE)
    def evidence_csv(form: Annotated[EvidenceForm, Query()]) -> Response:
        """Return the evidence of an edge as a table."""
        return _table(
            "evidence.csv",
            EVIDENCE_COLUMNS,
            lambda: graph.evidence(form.edge, form.filters(), limit=form.limit, offset=form.offset),
        )

    @router.get("/page.png", response_class=Response, responses=PNG_RESPONSE)
    def page(form: Annotated[PageForm, Query()]) -> Response:
        """Return the page of a PDF with a sentence and two entities marked.

        The headers have the number of the page, and where the marks start, as a share of the height.
        """

        def draw() -> PagePicture:
            found = graph.select(
                "SELECT document_id, text FROM documents WHERE document = $document", document=form.document
            )
            if pages is None or not found or not found[0]["text"] or not pages.has(found[0]["document_id"]):
                raise NotInGraph(f"there is no PDF of the document {form.document}", "Serve the graph with its files")
            return pages.draw(found[0]["document_id"], found[0]["text"], form.places())

        picture: PagePicture = _find(draw)
        headers = {
            "Cache-Control": "no-store",
            "Page-Number": str(picture.page + 1),
            "Page-Position": f"{picture.top:.4f}",
        }
        return Response(picture.png, headers=headers, media_type="image/png")

    @router.get("/communities")
    def communities() -> Response:
        """Return the best-connected nodes of the whole graph, the edges between them, and their communities."""
        return _answer(lambda: graph.communities)

    @router.get("/path")
    def path(form: Annotated[PathForm, Query()]) -> Response:
        """Find the shortest paths between two nodes, with the best sentence of each step."""

        def find() -> dict[str, Any]:
            limits = {"max_length": form.max_length, "limit": form.limit}
            return {"paths": graph.paths(form.start, form.end, form.filters(), without=form.without, **limits)}

        return _answer(find)

    @router.get("/triples")
    def triples(form: Annotated[TriplesForm, Query()]) -> Response:
        """Return relations by their ends and type, those in the most documents first."""
        return _answer(lambda: {"triples": graph.triples(**form.arguments())})

    @router.get("/triples.csv", response_class=Response, responses=CSV_RESPONSE)
    def triples_csv(form: Annotated[TriplesForm, Query()]) -> Response:
        """Return relations by their ends and type as a table."""
        columns = ("year", *EDGE_COLUMNS) if form.by_year else EDGE_COLUMNS
        return _table("triples.csv", columns, lambda: graph.triples(**form.arguments()))

    @router.get("/trends")
    def trends(form: Annotated[TrendsForm, Query()]) -> Response:
        """Count the documents of each year that mention nodes."""
        years = Filters(first_year=form.first_year, last_year=form.last_year)
        return _answer(lambda: {"trends": graph.trends(form.node, years)})

    @router.get("/ranking")
    def ranking(form: Annotated[RankingForm, Query()]) -> Response:
        """Rank nodes by the number of documents."""
        return _answer(lambda: graph.ranking(**form.arguments()))

    @router.get("/ranking.csv", response_class=Response, responses=CSV_RESPONSE)
    def ranking_csv(form: Annotated[RankingForm, Query()]) -> Response:
        """Return a ranking as a table."""
        return _table("ranking.csv", RANKING_COLUMNS, lambda: graph.ranking(**form.arguments())["rows"])

    return router


def _answer(find: Callable[[], Any]) -> Response:
    return json_response(_find(find))


def _table(name: str, columns: Sequence[str], find: Callable[[], Iterable[Mapping[str, Any]]]) -> Response:
    """Make a response with a CSV file (RFC 4180, UTF-8) without formulas."""
    content = io.StringIO()
    writer = csv.DictWriter(content, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(map(escape_row, _find(find)))
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
