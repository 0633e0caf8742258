"""A file from the web, in as many attempts as it takes: what has arrived stays, and the next one goes on from it."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cascade_srn.data.atomic import open_without_links, replace_durably
from cascade_srn.errors import DataError
from cascade_srn.version import __version__

TIMEOUT = 60.0
_CHUNK = 1 << 16
_NOTHING_LEFT = 416

Progress = Callable[[int, int | None], None]
"""Told how many bytes have arrived, and of how many where the server says so."""


def fetch(url: str, target: Path, *, progress: Progress = lambda done, total: None, timeout: float = TIMEOUT) -> None:
    """Download a file. It appears at ``target`` when all of it is there.

    Until then it grows in a file beside it that ends in ``.part``; where there is one already, only the rest is asked
    for, and a server that sends everything instead is taken at its word.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"the address {url!r} is not one of the web; give one that begins with http:// or https://")
    part = target.with_name(target.name + ".part")
    if part.is_symlink():
        raise DataError(f"{part} is a symbolic link, which is not written through. Remove the link.")
    start = part.stat().st_size if part.exists() else 0
    try:
        response = _opened(url, start, timeout)
    except urllib.error.HTTPError as error:
        if error.code == _NOTHING_LEFT and start:
            # There is more here than there: it is of another file.
            part.unlink()
            fetch(url, target, progress=progress, timeout=timeout)
            return
        raise DataError(
            f"{url} could not be had: the server answered {error.code} ({error.reason}); check the address, give "
            "another one by --url, or the file, if you have it, by --archive"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"{url} could not be reached ({_reason(error)}); check the network, or give the file, downloaded on "
            "another machine if need be, by --archive"
        ) from error
    with response:
        _received(response, part, _first_byte(response, start), url, progress)
    replace_durably(part, target)


def _opened(url: str, start: int, timeout: float) -> Any:
    headers = {"User-Agent": f"cascade-srn/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)


def _first_byte(response: Any, asked: int) -> int:
    """Where in the file an answer begins: where it was asked to, or else at the beginning."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    stated = response.headers.get("Content-Range", "")
    if not stated.startswith(f"bytes {asked}-"):
        raise DataError(
            f"{response.url} was asked for the bytes from {asked} on and sent {stated or 'others'!r}; remove the file "
            "that ends in .part, and run the same command again"
        )
    return asked


def _received(response: Any, part: Path, start: int, url: str, progress: Progress) -> None:
    """Write what comes to the end of a file, or to a new one from 0 on."""
    length = response.headers.get("Content-Length")
    total = start + int(length) if length is not None and length.isdigit() else None
    done, problem = start, ""
    with open_without_links(part, "ab" if start else "wb") as handle:
        try:
            while chunk := response.read(_CHUNK):
                handle.write(chunk)
                done += len(chunk)
                progress(done, total)
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            problem = _reason(error)
    if problem or (total is not None and done != total):
        raise DataError(
            f"{url} broke off after {done} of {'?' if total is None else total} bytes"
            f"{f' ({problem})' if problem else ''}; run the same command again, and it goes on from there"
        )


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    return str(reason) or type(error).__name__
