"""Download a file over HTTP, with resumption of a download that was interrupted."""

from __future__ import annotations

import http.client
import os
import stat
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cascade_srn.errors import DataError
from cascade_srn.storage.atomic import open_without_links, replace_durably
from cascade_srn.version import __version__

TIMEOUT = 60.0
MAX_BYTES = 1 << 32
"""The largest file that :func:`fetch` accepts unless told otherwise."""
_CHUNK = 1 << 16
_NOTHING_LEFT = 416
_SCHEMES = ("http", "https")

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the total where the server states it."""


def fetch(
    url: str,
    target: Path,
    *,
    progress: Progress = lambda done, total: None,
    timeout: float = TIMEOUT,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Download a file to ``target``, which appears only when the download is complete.

    Until then the data is in a file beside it that ends in ``.part``. If such a file exists, only the rest is
    requested; if the server sends the whole file instead, the download starts again. The content is not verified:
    the caller compares the checksum.

    Args:
        url: the address, http or https.
        target: the path of the finished file.
        progress: called after each chunk.
        timeout: seconds to wait for the server.
        max_bytes: refuse a file larger than this.

    Raises:
        DataError: the address is not valid, the server cannot be reached or answers with an error, the transfer is
            incomplete or too large, or a redirect leaves HTTPS.
    """
    _check_url(url)
    part = target.with_name(target.name + ".part")
    start = _size(part)
    try:
        response = _opened(url, start, timeout)
    except urllib.error.HTTPError as error:
        if error.code == _NOTHING_LEFT and start:
            # The partial file is longer than the remote one, so it belongs to another file.
            part.unlink()
            fetch(url, target, progress=progress, timeout=timeout, max_bytes=max_bytes)
            return
        raise DataError(
            f"{url} could not be downloaded: the server answered {error.code} ({error.reason}); check the address, "
            "give another one by --url, or the file, if you have it, by --archive"
        ) from error
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"{url} could not be reached ({_reason(error)}); check the network, or give the file, downloaded on "
            "another machine if need be, by --archive"
        ) from error
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise _not_an_address(url) from error
    with response:
        _receive(response, part, _first_byte(response, start), url, progress, max_bytes)
    replace_durably(part, target)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise _not_an_address(url)


def _not_an_address(url: str) -> DataError:
    return DataError(f"{url!r} is not a web address; give one that begins with http:// or https://")


def _size(part: Path) -> int:
    """Return the size of a partial file, 0 if there is none; refuse anything but a regular file."""
    try:
        found = os.lstat(part)
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{part} is not a regular file, so the download cannot be stored there; remove it")
    return found.st_size


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from HTTPS to plain HTTP nor to another protocol."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if after not in _SCHEMES or (before == "https" and after != "https"):
            raise DataError(
                f"{req.full_url} redirects to {newurl}, which is not encrypted; give an address that stays on https "
                "by --url, or the file by --archive"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opened(url: str, start: int, timeout: float) -> Any:
    headers = {"User-Agent": f"cascade-srn/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    opener = urllib.request.build_opener(_SafeRedirects)
    return opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)


def _first_byte(response: Any, requested: int) -> int:
    """Return the offset at which a response begins: the one that was requested, or 0."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return 0
    stated = response.headers.get("Content-Range", "")
    if not stated.startswith(f"bytes {requested}-"):
        raise DataError(
            f"{response.url} was asked for the bytes from {requested} on and sent {stated or 'others'!r}; remove the "
            "file that ends in .part, and run the same command again"
        )
    return requested


def _receive(response: Any, part: Path, start: int, url: str, progress: Progress, max_bytes: int) -> None:
    """Append a response to the partial file, or write a new one if ``start`` is 0."""
    total = None if response.length is None else start + int(response.length)
    if total is not None and total > max_bytes:
        raise _too_large(url, total, max_bytes)
    done, problem = start, ""
    with open_without_links(part, "ab" if start else "wb") as handle:
        while True:
            try:
                chunk = response.read(_CHUNK)
            except (OSError, http.client.HTTPException) as error:
                problem = _reason(error)
                break
            if not chunk:
                break
            done += len(chunk)
            if done > max_bytes:
                break
            _append(handle, chunk, part)
            progress(done, total)
    if done > max_bytes:
        part.unlink()
        raise _too_large(url, done, max_bytes)
    if problem or (total is not None and done != total):
        raise DataError(
            f"{url} broke off after {done} of {'?' if total is None else total} bytes"
            f"{f' ({problem})' if problem else ''}; run the same command again, and it goes on from there"
        )


def _append(handle: Any, chunk: bytes, part: Path) -> None:
    try:
        handle.write(chunk)
        handle.flush()
    except OSError as error:
        error.filename = str(part)  # a full disk is reported without a path
        raise


def _too_large(url: str, n_bytes: int, max_bytes: int) -> DataError:
    return DataError(
        f"{url} has {n_bytes} bytes or more, and {max_bytes} is the limit; check the address, or give the file by "
        "--archive"
    )


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    return str(reason) or type(error).__name__
