"""Query parameters of the explorer."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cascade_srn.apps.graph.explore import MAX_CENTRES, MAX_NEIGHBOURS, MAX_ROWS
from cascade_srn.apps.graph.explore_sql import Filters

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
        """Return the arguments of ``Explorer.ranking``."""
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
