"""Describe a model folder without loading the model, and upload it to the Hugging Face hub."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cascade_srn.config import ModelSettings
from cascade_srn.errors import ModelError
from cascade_srn.model.card import FOLDER_IN_CARD, summarize
from cascade_srn.model.folder import (
    CARD_FILE,
    CONFIG_FILE,
    ENCODER_FILE,
    LIGHT_FILE,
    WEIGHTS_FILE,
    find_light_problem,
    missing_for_torch,
    read_config,
    read_export,
    read_light,
    stored_weights,
)
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import bundled_models, find_model, push_files
from cascade_srn.storage.files import checksum

# Sections of a card whose tables are shown.
_SECTIONS = ("Scores", "Data", "Labels")
_BORDER, _ESCAPED = re.compile(r"(?<!\\)\|"), re.compile(r"\\(.)")
_RULE = re.compile(r"[\s|:-]+")


@dataclass(frozen=True)
class ModelInfo:
    """What is known about a model from its folder."""

    name: str  # Name that was asked for
    folder: Path  # Where the model is
    version: str  # Release of the package that wrote it
    settings: ModelSettings  # Settings of the model, with its thresholds
    schema: Schema  # Its labels
    n_parameters: int  # Number of stored numbers
    dtypes: tuple[str, ...]  # Their types, such as F16
    n_bytes: int  # Size of all files
    sha256: str  # SHA-256 of the weights
    damaged: tuple[str, ...]  # Files that are missing or differ from the checksums of the folder
    card: str  # Text of the model card; empty if there is none
    files: tuple[str, ...]  # Names of the files besides the configuration and the card
    # Precision of the encoder of an exported model, which runs without torch. None for other models.
    exported: str | None = None
    light: bool = False  # Whether a PyTorch model also runs without torch
    light_problem: str | None = None  # Why its files for ONNX Runtime cannot be used, if it has some

    @property
    def scores(self) -> tuple[tuple[str, ...], ...]:
        """Rows of the first table in the section "Scores" of the card, the heading first."""
        return self.table("Scores")

    def table(self, section: str) -> tuple[tuple[str, ...], ...]:
        """Return the rows of the first table in a section of the card, the heading first. There may be none."""
        found = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", self.card, re.MULTILINE | re.DOTALL)
        rows: list[tuple[str, ...]] = []
        for line in found[1].splitlines() if found else ():
            if not line.startswith("|"):
                if rows:
                    break
            elif not _RULE.fullmatch(line):
                cells = _BORDER.split(line.strip().removeprefix("|").removesuffix("|"))
                rows.append(tuple(_ESCAPED.sub(r"\1", cell.strip()) for cell in cells))
        return tuple(rows) if len({len(row) for row in rows}) == 1 else ()

    @property
    def runtime(self) -> str:
        """What runs the model in this installation, and why if that is not obvious."""
        broken = [name for name in self.damaged if self.exported is not None or name not in (ENCODER_FILE, LIGHT_FILE)]
        if broken:
            return f"none, because {' and '.join(broken)} cannot be used"
        if self.exported is not None:
            return f"ONNX Runtime, without torch; encoder in {self.exported}"
        missing = f"{' and '.join(missing)} cannot be imported" if (missing := missing_for_torch()) else ""
        if self.light:
            return f"ONNX Runtime; {missing}" if missing else "ONNX Runtime on a CPU; torch on a GPU or in bf16"
        if reasons := [reason for reason in (self.light_problem, missing) if reason]:
            return f"{'none' if missing else 'torch'}, because {' and '.join(reasons)}"
        return "torch"

    @property
    def family(self) -> str:
        """The model in one phrase."""
        return summarize(self.settings, self.schema)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "name": self.name,
            "folder": str(self.folder),
            "family": self.settings.method,
            "description": self.family,
            "version": self.version,
            "exported": self.exported,
            "light": self.light,
            "runtime": self.runtime,
            "n_parameters": self.n_parameters,
            "dtypes": list(self.dtypes),
            "n_bytes": self.n_bytes,
            "sha256": self.sha256,
            "damaged": list(self.damaged),
            "schema": self.schema.to_dict(),
            "settings": self.settings.to_dict(),
            **{section.lower(): _as_records(self.table(section)) for section in _SECTIONS},
        }

    def __str__(self) -> str:
        settings = self.settings
        relations = [f"{n} (symmetric)" if n in self.schema.symmetric else n for n in self.schema.relation_types]
        rows = [
            ("model", self.name),
            ("folder", str(self.folder)),
            ("family", self.family),
            ("runtime", self.runtime),
            ("entity types", ", ".join(self.schema.entity_types)),
            ("relation types", ", ".join(relations) if settings.joint and relations else "none"),
            ("thresholds", _join(settings.thresholds.to_dict())),
            ("overlaps", settings.overlaps or "flat"),
            ("constraints", f"{settings.constraints}, {len(self.schema.constraints)} relation types have some"),
            ("text form", settings.text_form),
            ("context words", str(settings.encoder.context_words)),
            ("size", f"{self.n_bytes / 1e6:,.1f} MB, {self.n_parameters:,} parameters in {', '.join(self.dtypes)}"),
            ("SHA-256", f"{self.sha256} ({WEIGHTS_FILE})"),
            ("written by", f"cascade-srn {self.version}"),
        ]
        if self.damaged:
            rows.append(("damaged files", ", ".join(self.damaged)))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value}" for name, value in rows]
        for section in _SECTIONS:
            if rows_of_card := self.table(section):
                lines += ["", f"{section.lower()} of the model card", *_format_rows(rows_of_card)]
        return "\n".join(lines)


def describe_model(name: str | Path | None = None) -> ModelInfo:
    """Describe a model: a folder, the name of a bundled model, or a hub id, which is downloaded.

    Raises:
        ModelError: There is no such model, or its configuration or weights cannot be read.

    Example:
        >>> describe_model("scierc-small").schema.symmetric == {"COMPARE", "CONJUNCTION"}
        True
    """
    folder = find_model(name)
    settings, schema, _, checksums = read_config(folder)
    weights, export = stored_weights(folder / WEIGHTS_FILE), read_export(folder) or {}
    # The weights of an exported encoder are in its ONNX file.
    n_parameters = export.get("n_parameters", sum(math.prod(shape) for shape, _ in weights.values()))
    found = {path.name: checksum(path) for path in folder.iterdir() if path.is_file() and path.name in checksums}
    damaged = {file for file, expected in checksums.items() if found.get(file) != expected}
    light = read_light(folder) if not export else None
    wrong, problem = (None if export else find_light_problem(folder)) or (None, None)
    if wrong is not None and wrong not in damaged:
        damaged.add(ENCODER_FILE if wrong == ENCODER_FILE else LIGHT_FILE)
    config = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    return ModelInfo(
        name=folder.name if name is None else str(name),
        folder=folder.absolute(),
        version=str(config.get("cascade_srn_version", "unknown")),
        settings=settings,
        schema=schema,
        n_parameters=n_parameters,
        dtypes=tuple(sorted({dtype for _, dtype in weights.values()} | ({"I8"} if _is_int8(export) else set()))),
        n_bytes=sum(path.stat().st_size for path in folder.iterdir() if path.is_file()),
        sha256=found.get(WEIGHTS_FILE) or checksum(folder / WEIGHTS_FILE),
        damaged=tuple(sorted(damaged)),
        card=_read_card(folder / CARD_FILE),
        files=(*checksums, *(() if light is None else (ENCODER_FILE, LIGHT_FILE))),
        exported=export.get("precision"),
        light=light is not None and problem is None,
        light_problem=problem,
    )


def _is_int8(export: dict[str, Any]) -> bool:
    return export.get("precision") == "int8"


def list_models() -> list[dict[str, str]]:
    """Return the name, the source ("bundled" or "hub cache") and the folder of each model on this machine."""
    bundled = [{"name": n, "source": "bundled", "folder": str(find_model(n))} for n in bundled_models()]
    return bundled + [{"name": n, "source": "hub cache", "folder": str(f)} for n, f in _cached_models()]


def _cached_models() -> list[tuple[str, Path]]:
    """Return the models of this package in the cache of the hub client, in their latest revision."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    from cascade_srn.storage.bundled import is_model

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return []
    found = []
    for repository in repositories:
        newest = sorted(repository.revisions, key=lambda revision: revision.last_modified, reverse=True)
        if repository.repo_type == "model" and newest and is_model(newest[0].snapshot_path):
            found.append((repository.repo_id, newest[0].snapshot_path))
    return sorted(found)


def read_languages(folder: Path) -> tuple[str, ...]:
    """Return the languages that the card of a model folder names, such as ``("en",)``; none if it names none."""
    header = re.match(r"---\n(.*?)\n---", _read_card(folder / CARD_FILE), re.DOTALL)
    try:
        values = yaml.safe_load(header[1]) if header else {}
    except yaml.YAMLError:
        return ()
    given = values.get("language", ()) if isinstance(values, dict) else ()
    return (given,) if isinstance(given, str) else tuple(map(str, given or ()))


def _read_card(path: Path) -> str:
    """Return the text of a card. It may be missing."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _as_records(rows: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def _join(values: dict[str, Any]) -> str:
    """Join the values that are set, those of single labels included."""
    flat = {key: value for key, value in values.items() if isinstance(value, int | float)}
    for group in values.values():
        flat |= group if isinstance(group, dict) else {}
    return ", ".join(f"{key} {value:g}" for key, value in flat.items())


def _format_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def push_model(
    name: str | Path,
    repo_id: str,
    *,
    private: bool = True,
    message: str | None = None,
    revision: str | None = None,
    token: str | None = None,
) -> str:
    """Upload a model to a repository of the hub, in one commit. Other files in its folder are not uploaded.

    Args:
        name: A model folder, the name of a bundled model, or a hub id.
        repo_id: "owner/name", or the name of a repository of the owner of the token. It is created if it is missing.
        private: Create a private repository, and refuse one that is public.
        message: Message of the commit.
        revision: Branch. None: the main branch.
        token: Token with the right to write. None: that of the environment (HF_TOKEN) or of the last login.

    Returns:
        The address of the commit.

    Raises:
        ModelError: The model is damaged or cannot be uploaded.
    """
    folder = find_model(name)
    found = describe_model(folder)
    if found.damaged:
        raise ModelError(
            f"the model in {str(folder)!r} has damaged files: {', '.join(found.damaged)}", "Copy the model again"
        )
    files: dict[str, Path | bytes] = {file: folder / file for file in (*found.files, CONFIG_FILE)}
    if found.card:
        files[CARD_FILE] = found.card.replace(f'"{FOLDER_IN_CARD}"', f'"{repo_id}"').encode()
    message = message or "Upload a cascade-srn model"
    return push_files(files, repo_id, private=private, message=message, revision=revision, token=token)
