"""A server for the Model Context Protocol: extraction and questions to a graph as tools for language models.

Every answer of the graph has sentences and the ids of their documents, so that an agent can cite them. Needs the extra
``serve``, and ``graph`` for a graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import Field

from cascade_srn.apps.graph.filters import Filters
from cascade_srn.apps.graph.questions import Graph
from cascade_srn.apps.graph.safe_sql import MAX_ROWS, SafeSql
from cascade_srn.apps.web.middleware import HostCheck, KeyCheck, SecurityHeaders
from cascade_srn.apps.web.settings import Limits, ServeSettings
from cascade_srn.errors import CascadeError
from cascade_srn.formats.jsonl import to_record
from cascade_srn.version import __version__

if TYPE_CHECKING:
    from cascade_srn.extractor import Extractor

MAX_CHARACTERS = Limits.characters
PATH = "/mcp"
_TABLES = """
Tables: nodes(node, name, label, n_mentions, n_documents, degree, first_date, last_date, identifier);
edges(edge, head, label, tail, n, n_documents, best_score, first_date, last_date, "symmetric", flag), head and tail are
nodes; evidence(edge, document, document_id, sentence_text, head_text, tail_text, score, date);
mentions(node, document, document_id, "start", "end", text, label, score); documents(document, document_id, title, date,
text). Join on document, not on document_id. Select document_id and sentence_text, so that the answer can be cited."""

P = ParamSpec("P")
Answer = dict[str, Any]
Name = Annotated[str, Field(max_length=1000, description="Id or name of a node, in any case.")]
OptionalName = Annotated[
    str | None, Field(max_length=1000, description="Id or name of a node; * stands for any characters. Default: any.")
]
Labels = Annotated[list[str], Field(max_length=100, description="Labels to choose. Default: all.")]
OptionalLabel = Annotated[str | None, Field(description="Entity type. Default: any.")]
Limit = Annotated[int, Field(ge=1, le=100, description="Most results.")]
Year = Annotated[int | None, Field(ge=0, le=9999, description="Count documents from or up to this year.")]
Score = Annotated[float, Field(ge=0, le=1, description="Lowest score.")]


def create_agent_server(
    load_extractor: Callable[[], Extractor], graph: Graph | None = None, sql: SafeSql | None = None
) -> MCPServer:
    """Make a server with the tools ``extract`` and, with a graph, ``search``, ``node``, ``neighbours``, ``path``, …

    Args:
        load_extractor: Loads the model when a text is first extracted from.
        graph: The graph to ask.
        sql: Answers queries in SQL. Without it, there is no such tool.
    """
    instructions = "Extract entities and relations from text with the tool extract."
    if graph is not None:
        instructions += _describe(graph)
    server = MCPServer("cascade-srn", version=__version__, instructions=instructions, log_level="WARNING")
    _add_extract(server, load_extractor)
    if graph is not None:
        _add_questions(server, graph)
    if sql is not None:
        _add_sql(server, sql)
    return server


def create_agent_app(server: MCPServer, settings: ServeSettings) -> Any:
    """Make the ASGI application of a server, with the checks of host and API key of all services."""
    # HostCheck does this.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: Any = server.streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, transport_security=security
    )
    app = KeyCheck(app, api_key=settings.api_key, public=())
    return SecurityHeaders(HostCheck(app, host=settings.host, allowed=settings.allowed_hosts))


def _describe(graph: Graph) -> str:
    counts = graph.record["counts"]
    types = ", ".join(row["label"] for row in graph.types)
    relations = ", ".join(row["label"] for row in graph.relations)
    years = f" Their years are {graph.years['first']} to {graph.years['last']}." if graph.years else ""
    return (
        f" The other tools ask a graph of {counts['nodes']} nodes and {counts['edges']} edges from "
        f"{counts['documents']} documents.{years} Entity types: {types}. Relation types: {relations}. Find the id of a "
        "node with search. Edges have numbers; evidence lists their sentences. Cite document_id and sentence_text."
    )


def _tool(server: MCPServer, function: Callable[P, Answer], description: str | None = None) -> None:
    """Add a tool that only reads. Errors of the caller are messages, and not failures of the server."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return function(*args, **kwargs)
        except CascadeError as error:
            raise ToolError(error.message()) from error

    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    server.add_tool(run, description=description, annotations=hints)


def _add_extract(server: MCPServer, load: Callable[[], Extractor]) -> None:
    lock = threading.Lock()
    loaded: list[Extractor] = []

    def extract(
        text: Annotated[str, Field(max_length=MAX_CHARACTERS, description="Plain text.")],
        id: Annotated[str, Field(max_length=1000, description="Id of the document, for citing it.")] = "",
    ) -> Answer:
        """Extract entities and relations from a text. Offsets are characters of the text, the end excluded."""
        # One text at a time: a model uses all cores.
        with lock:
            if not loaded:
                loaded.append(load())
            document = loaded[0].extract(text)
        return to_record(document) | {"id": id}

    _tool(server, extract)


def _add_questions(server: MCPServer, graph: Graph) -> None:
    def search(
        text: Annotated[str, Field(max_length=1000, description="Part of a name, in any case.")],
        types: Labels = [],  # noqa: B006
        limit: Limit = 10,
    ) -> Answer:
        """Find nodes by a part of their name or of another form in the texts, with a passage that mentions each."""
        rows = graph.search(text, types=types, limit=limit)
        return {"nodes": [_compact(row) | {"quotes": graph.quote(row["node"], limit=1)} for row in rows]}

    def node(node: Name) -> Answer:
        """Return a node: its forms in the texts, relations by type, and passages that mention it."""
        known = graph.resolve(node)
        found = graph.describe(known)
        return _compact(found, "merges", "votes") | {"quotes": graph.quote(known)}

    def neighbours(
        node: Name,
        relations: Labels = [],  # noqa: B006
        types: Labels = [],  # noqa: B006
        min_score: Score = 0.0,
        first_year: Year = None,
        last_year: Year = None,
        limit: Limit = 20,
    ) -> Answer:
        """Return the relations of a node in both directions, each with its best sentence."""
        filters = _filters(types, relations, min_score, first_year, last_year)
        rows = graph.neighbours(node, filters, limit=limit, evidence=1)
        total = rows[0]["total"] if rows else 0
        return {"total": total, "edges": [_compact(row, "total", "neighbour", "neighbour_label") for row in rows]}

    def path(
        start: Name,
        end: Name,
        relations: Labels = [],  # noqa: B006
        without: Annotated[list[str], Field(max_length=100, description="Nodes that must not be on the way.")] = [],  # noqa: B006
        min_score: Score = 0.0,
        max_length: Annotated[int, Field(ge=1, le=8, description="Most steps of a path.")] = 5,
        limit: Annotated[int, Field(ge=1, le=10, description="Most paths.")] = 3,
    ) -> Answer:
        """Find the shortest paths between two nodes, with the best sentence of each step."""
        filters = _filters((), relations, min_score)
        found = graph.paths(start, end, filters, without=without, max_length=max_length, limit=limit)
        return {
            "paths": [
                {"nodes": [node["name"] for node in one["nodes"]], "steps": [_compact(step) for step in one["steps"]]}
                for one in found
            ]
        }

    def triples(
        head: OptionalName = None,
        tail: OptionalName = None,
        head_type: OptionalLabel = None,
        tail_type: OptionalLabel = None,
        relations: Labels = [],  # noqa: B006
        by_year: Annotated[bool, Field(description="Count each year by itself; the limit is that of a year.")] = False,
        min_score: Score = 0.0,
        first_year: Year = None,
        last_year: Year = None,
        limit: Limit = 20,
    ) -> Answer:
        """List relations by their ends and type, those in the most documents first, each with its best sentence."""
        filters = _filters((), relations, min_score, first_year, last_year)
        ends = {"head_type": head_type, "tail_type": tail_type}
        rows = graph.triples(head, tail, filters, **ends, by_year=by_year, limit=limit, evidence=1)
        return {"triples": [_compact(row) for row in rows]}

    def evidence(
        edge: Annotated[int, Field(ge=0, description="Number of the edge.")],
        limit: Limit = 10,
        offset: Annotated[int, Field(ge=0, description="Sentences to leave out at the start.")] = 0,
    ) -> Answer:
        """List the sentences that an edge comes from, with their documents, best first."""
        rows = graph.evidence(edge, limit=limit, offset=offset)
        total = rows[0]["total"] if rows else 0
        names = ("edge", "total", "model", "version", "shard", "input", "row", "sentence", "relation")
        return {
            "edge": _compact(graph.edge(edge)),
            "total": total,
            "evidence": [_compact(row, *names) for row in rows],
        }

    for function in (search, node, neighbours, path, triples, evidence):
        _tool(server, function)


def _add_sql(server: MCPServer, sql: SafeSql) -> None:
    def run_sql(
        query: Annotated[str, Field(max_length=20_000, description="One SELECT statement in DuckDB's SQL.")],
        limit: Annotated[int, Field(ge=1, le=MAX_ROWS, description="Most rows.")] = 100,
    ) -> Answer:
        return sql.query(query, limit=limit)

    run_sql.__name__ = "sql"
    _tool(server, run_sql, f"Run a read-only SQL query on the graph, with limits on rows and time.{_TABLES}")


def _filters(
    types: Sequence[str],
    relations: Sequence[str],
    min_score: float = 0.0,
    first_year: int | None = None,
    last_year: int | None = None,
) -> Filters:
    return Filters(tuple(types), tuple(relations), min_score, 1, first_year, last_year)


def _compact(row: Answer, *names: str) -> Answer:
    """Return a row without some columns, and without empty values."""
    return {name: value for name, value in row.items() if name not in names and value not in (None, "")}
