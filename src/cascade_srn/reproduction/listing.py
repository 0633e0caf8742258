"""The tables and variants as text, for who wants to know what there is."""

from __future__ import annotations

from cascade_srn.evaluation.tables import aligned
from cascade_srn.reproduction.tables import COLUMNS, TABLES, Table, needed_variants
from cascade_srn.reproduction.variants import VARIANTS


def tables_text() -> str:
    """The tables by name, with what each needs, and the variants."""
    width = max(len(variant.about) for variant in VARIANTS.values())
    variants = aligned([(name, variant.about.ljust(width)) for name, variant in VARIANTS.items()])
    return "\n".join(
        [
            *(_table_text(table) for table in TABLES.values()),
            f"all: all of them, {len(needed_variants(list(TABLES.values())))} variants",
            "",
            "A variant is trained once for each seed, however many tables need it:",
            *(f"  {line}" for line in variants.splitlines()),
        ]
    )


def _table_text(table: Table) -> str:
    claims = list(dict.fromkeys(claim.statement for claim in table.claims))
    return (
        f"{table.name}: {table.title} ({table.label} in the paper)\n"
        f"  trains: {', '.join(table.variants)}\n"
        f"  measures: {', '.join(COLUMNS[column].heading for column in table.our_columns)}\n"
        f"  claims: {'; '.join(claims)}"
    )
