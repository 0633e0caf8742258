"""Find files at local paths and fsspec addresses, such as ``s3://bucket/folder``, and choose names for them."""

import glob
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from cascade_srn.errors import CascadeError, DataError, require, suggest
from cascade_srn.formats.files import is_stream, stream_error
from cascade_srn.storage.files import encodable_names, files_below

STDIN = "-"
FORMATS = {
    ".txt": "text",
    ".text": "text",
    **dict.fromkeys((".md", ".markdown", ".tex", ".html", ".htm", ".nxml"), "markup"),
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonlines": "jsonl",
    ".pdf": "pdf",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""Formats of raw text and records by suffix. "markup" is text whose markup is left out when it is segmented."""
RECORD_FORMATS = ("jsonl", "parquet", "csv", "tsv", "text")
"""Formats with one or more records per file."""
TEXT_FORMATS = ("text", "jsonl")
COMPRESSIONS = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zst": "Zstandard"}
"""Suffixes of compressed files, and what the compressions are called."""
# Files that people give, but that are not read, and what to do with them.
_ADVICE = {
    **dict.fromkeys(
        (".docx", ".doc", ".odt", ".rtf"),
        ("a file of a word processor", "Save it as plain text (.txt) or PDF in the word processor"),
    ),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".7z", ".rar"), ("an archive", "Unpack it, and give the folder")),
    ".json": ("one JSON value", "Write one object per line, with the text in a field, and name it .jsonl"),
    ".xml": ("XML", "If it is an article in JATS, rename it to .nxml; else save its text as .txt"),
}


def is_remote(address: str) -> bool:
    """Return whether an address belongs to a file system of fsspec rather than being a local path."""
    return "://" in address or ("::" in address and not os.path.lexists(address))


def split_suffixes(address: str) -> tuple[str, str]:
    """Return the suffix of an address and that of its compression, in lower case: ``.jsonl`` and ``.gz``."""
    stem, last = os.path.splitext(_path_part(address).rsplit("/", 1)[-1].lower())
    return (os.path.splitext(stem)[1], last) if last in COMPRESSIONS else (last, "")


def find_format(address: str) -> str:
    """Return the format of a file by its suffix; empty if it is not known."""
    return FORMATS.get(split_suffixes(address)[0], "")


def _path_part(address: str) -> str:
    """Return the path of the file itself, without other links of a chain and the query of a web address."""
    links = [link for link in address.split("::") if "://" in link] if is_remote(address) else []
    path = links[0] if links else address
    return path.split("?")[0] if path.startswith(("http://", "https://")) else path


def real_address(address: str) -> str:
    """Return an address that is the same for all links to a file."""
    return address if is_remote(address) else os.path.realpath(address).replace(os.sep, "/")


def find_files(
    address: str,
    formats: Collection[str] | None,
    *,
    named: Collection[str] | None = None,
    hidden: tuple[str, ...] = (".",),
    streams: bool = False,
    tell: Callable[[str], None] = lambda sentence: warnings.warn(sentence, stacklevel=3),
) -> list[str]:
    """Return the files of a path, a folder or a pattern, in order.

    Args:
        address: A file, a folder, which is searched with its subfolders, or a pattern.
        formats: Formats of files to find in folders, and by patterns without a suffix; None for all files.
        named: Formats of files and of patterns with a suffix; None for all files.
        hidden: Start of the names of files and subfolders that are not found in folders.
        streams: Accept pipes and devices.
        tell: Called with a sentence about the files of a folder or pattern that are not read. Default: a warning.
    """
    if not address.strip():
        raise DataError("an address of the input is empty", "Give a file, a folder or a pattern")
    if address.startswith(("file://", "local://")):
        from fsspec.implementations.local import LocalFileSystem

        address = str(LocalFileSystem._strip_protocol(address))
    kind, files = (_list_remote if is_remote(address) else _list_local)(address, hidden)
    if kind == "file":
        is_pipe = not is_remote(address) and is_stream(Path(address))
        if is_pipe and not streams:
            raise stream_error(Path(address))
        if named is not None and find_format(address) not in named and not is_pipe:
            if advice := _ADVICE.get(split_suffixes(address)[0]):
                raise DataError(f"{address} is {advice[0]}, which is not read", advice[1])
            raise DataError(
                f"{address} does not end in {_endings(named)}, compressed or not",
                f"Rename it, or read it from standard input: - < {address}" if streams else "Rename it",
            )
        return files
    if kind == "pattern" and not files:
        places = "the bucket and the pattern" if is_remote(address) else "the pattern and the working folder"
        raise DataError(f"no file matches {address!r}", f"Check {places}")
    accepted = named if kind == "pattern" and _names_suffix(address) else formats
    found = [file for file in files if accepted is None or find_format(file) in accepted]
    if not found:
        kinds = "" if accepted is None else f" that ends in {_endings(accepted)}, compressed or not"
        more = f" and {len(files) - 1} more" if files[1:] else ""
        problem = f"{address!r} matches {files[0]}{more}, but" if kind == "pattern" else f"{address} has"
        if named is None:
            hint, option = "Check the address, or name the format", "input_format"
        else:
            hint, option = "Check the path, or rename the files", ""
        raise DataError(f"{problem} no file{kinds}", hint, option=option)
    if len(found) < len(files):
        endings = Counter(split_suffixes(file)[0] or "without a suffix" for file in set(files).difference(found))
        counts = ", ".join(f"{count} {ending}" for ending, count in sorted(endings.items()))
        tell(f"{address}: files that are not read: {counts}")
    return found


def _endings(formats: Collection[str]) -> str:
    return ", ".join(suffix for suffix, format in FORMATS.items() if format in formats)


def _names_suffix(pattern: str) -> bool:
    """Return whether a pattern says how files end, as ``*.json`` does. It then chooses by itself."""
    suffix = split_suffixes(pattern)[0]
    return bool(suffix) and not glob.has_magic(suffix)


def _list_local(address: str, hidden: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return "file", "folder" or "pattern", and the files."""
    if os.path.isdir(address):
        below = files_below(Path(address), lambda file: not _is_hidden(file.relative_to(address).as_posix(), hidden))
        return "folder", [str(file) for file in sorted(below)]
    if os.path.lexists(address):
        return "file", [address]
    if glob.has_magic(address):
        return "pattern", [match for match in sorted(glob.glob(address, recursive=True)) if os.path.isfile(match)]
    raise _missing(address)


def _is_hidden(path: str, hidden: tuple[str, ...]) -> bool:
    return any(part.startswith(hidden) for part in path.split("/"))


def _list_remote(address: str, hidden: tuple[str, ...]) -> tuple[str, list[str]]:
    fs, path = connect(address)
    with accessing(address):
        try:
            is_folder = fs.info(path)["type"] == "directory"
        except FileNotFoundError:
            if not glob.has_magic(_path_part(address)):
                raise
            matches = [match for match, found in fs.glob(path, detail=True).items() if found["type"] == "file"]
            return "pattern", [_rejoin(address, fs, match) for match in matches]
        if not is_folder:
            return "file", [address]
        below = fs.find(path)
    start = len(path.rstrip("/")) + 1
    return "folder", [_rejoin(address, fs, file) for file in below if not _is_hidden(file[start:], hidden)]


def _rejoin(given: str, fs: Any, path: str) -> str:
    """Return the address of a path in the file system of a given address, which may be a chain."""
    if "::" not in given:
        return str(fs.unstrip_protocol(path))
    first, rest = given.split("::", 1)
    if "://" in first:  # zip://member::archive
        return f"{first.split('://')[0]}://{path.lstrip('/')}::{rest}"
    return f"{first}::{rest.split('://')[0]}://{path.removeprefix(rest.split('://')[0] + '://')}"


def _missing(address: str) -> DataError:
    places = "the bucket, the path and the credentials" if is_remote(address) else "the path and the working folder"
    return DataError(f"{address} does not exist", f"Check {places}")


def connect(address: str) -> tuple[Any, str]:
    """Return the file system of a remote address and the path in it."""
    fsspec = require("fsspec", extra="corpus")
    protocol = address.split("://")[0].split("::")[-1]
    try:
        fs, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        from fsspec.registry import known_implementations  # the module is hidden by its variable of the same name

        package = known_implementations.get(protocol, {}).get("class", "").split(".")[0]
        if package == "fsspec":  # the file system is there, but not what it needs
            package = str(getattr(error.__cause__, "name", None) or "").split(".")[0]
        hint = f"Run pip install {package}" if package else "Install the package of its file system"
        raise DataError(f"{address}: the package for {protocol}:// addresses is not installed", hint) from error
    except Exception as error:
        if protocol not in fsspec.available_protocols():
            hint = (
                suggest(protocol, fsspec.available_protocols()) or "Use a local path, s3://, gs://, hf:// or https://"
            )
            raise DataError(f"{address}: the protocol {protocol}:// is not known", hint) from error
        raise _unreadable(address, error) from error
    return fs, str(path)


@contextmanager
def accessing(address: str) -> Iterator[None]:
    """Turn errors of a file system into errors of the input.

    File systems raise errors of many libraries. The block contains nothing but calls of the file system.
    """
    try:
        yield
    except CascadeError:
        raise
    except FileNotFoundError as error:
        raise _missing(address) from error
    except PermissionError as error:
        whose = "the credentials and their rights" if is_remote(address) else "its permissions"
        raise DataError(f"{address} cannot be read (permission denied)", f"Check {whose}") from error
    except Exception as error:
        if not is_remote(address) and not isinstance(error, OSError):
            raise
        raise _unreadable(address, error) from error


def _unreadable(address: str, error: Exception) -> DataError:
    reason = getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]
    hint = "Check the address, the credentials and the connection" if is_remote(address) else "Check the file"
    return DataError(f"{address} cannot be read ({reason})", hint)


def names_below(addresses: list[str]) -> list[str]:
    """Return the path of each file below the folder that all share."""
    parts = [_path_part(address).replace(os.sep, "/").split("/") for address in addresses]
    folders = zip(*(part[:-1] for part in parts), strict=False)
    n_shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, folders))
    return ["/".join(part[n_shared:]) for part in parts]


class MissingInputError(DataError):
    """There is no such file or folder."""


def find_inputs(
    arguments: Sequence[str],
    formats: Collection[str],
    named: Collection[str],
    *,
    output: Path | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> dict[str, str | None]:
    """Find the files of several paths, folders and patterns, and choose a name for each.

    A file is named by its path below the given folder, or by its file name, without the suffix. Files with the same
    name get as many parent folders as they need to differ. Bytes that are not UTF-8 are replaced. Repeated files are
    read once. The output and its partial results of earlier runs are skipped with a message.

    Returns:
        Addresses by name; None for standard input.
    """
    written = None if output is None else _OutputFiles(output)
    found: dict[str, tuple[str, str] | None] = {}
    for argument in arguments:
        if argument == STDIN:
            found.setdefault(STDIN, None)
            continue
        if not (is_remote(argument) or os.path.exists(argument) or glob.has_magic(argument)):
            raise MissingInputError(
                f"{argument} does not exist",
                "Give a file, a folder or a pattern",
            )
        for file in find_files(argument, formats, named=named, streams=True, tell=tell):
            if written is not None and written.has(file, argument):
                tell(f"skipped {file}, which is the output or a partial output of an earlier run")
                continue
            is_below = not is_remote(argument) and os.path.isdir(argument)
            name = Path(file).relative_to(argument).as_posix() if is_below else _path_part(file).rsplit("/", 1)[-1]
            found.setdefault(real_address(file), (file, _without_suffix(name)))
    names = _choose_names(found)
    return {names[key]: None if value is None else value[0] for key, value in found.items()}


class _OutputFiles:
    """The output of a run and the partial outputs of earlier runs."""

    def __init__(self, output: Path) -> None:
        self._output = Path(os.path.realpath(output))
        stem, ending = re.escape(self._output.stem), re.escape(self._output.suffix)
        self._partial = re.compile(rf"{stem}\.partial(-[0-9]+)?{ending}")

    def has(self, path: str, argument: str) -> bool:
        """Return whether a file is the output or a partial output. Raise DataError if the argument is the output."""
        real, given = Path(os.path.realpath(path)), Path(os.path.realpath(argument))
        if real == given:
            if real == self._output:
                raise DataError(f"{path} is both input and output", "Choose another output", option="output")
            return False
        # A partial output can be a folder of brat files. A folder that is given itself is read.
        below = [folder for folder in real.parents if given in folder.parents]
        return real == self._output or any(self._is_partial(one) for one in (real, *below))

    def _is_partial(self, path: Path) -> bool:
        return path.parent == self._output.parent and self._partial.fullmatch(path.name) is not None


def _without_suffix(name: str) -> str:
    suffix, packed = split_suffixes(name)
    return name[: len(name) - len(suffix if suffix in FORMATS else "") - len(packed)]


def _choose_names(files: dict[str, tuple[str, str] | None]) -> dict[str, str]:
    """Return a distinct name for each input. Files with the same name get more of their path."""
    names = {key: "stdin" if value is None else value[1] for key, value in files.items()}
    wholes = {key: _full_name(key) for key, value in files.items() if value is not None}
    n_parts, most = 1, max((whole.count("/") + 1 for whole in wholes.values()), default=0)
    while n_parts <= most and (shared := {name for name, count in Counter(names.values()).items() if count > 1}):
        n_parts += 1
        for key, whole in wholes.items():
            if names[key] in shared:
                # If the full path is not enough, as for a.txt and a.jsonl, the suffix is kept.
                plain = whole if n_parts > whole.count("/") + 1 else _without_suffix(whole)
                names[key] = "/".join(plain.split("/")[-n_parts:])
    return dict(zip(names, encodable_names(list(names.values())), strict=True))


def _full_name(address: str) -> str:
    """Return a path without its anchor, with the drive as first folder on Windows."""
    drive, path = os.path.splitdrive(_path_part(address).partition("://")[2] or address)
    parts = f"{drive.replace(':', '')}/{path}".replace(os.sep, "/").split("/")
    return "/".join(filter(None, parts))
