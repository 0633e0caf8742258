"""Download a file over HTTP with pooch, and resume a download that was interrupted."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urljoin, urlsplit

from cascade_srn.errors import DataError
from cascade_srn.storage.atomic import open_without_links, replace_durably
from cascade_srn.version import __version__

TIMEOUT = 60.0
MAX_BYTES = 1 << 32
"""Default size limit of a download."""
_CHUNK = 1 << 16
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416
_SCHEMES = ("http", "https")

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the total if the server states it."""


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
    requested; if the server sends the whole file instead, the download starts again. A redirect must not leave HTTPS.
    The content is not verified: the caller compares the checksum.
    """
    import pooch  # type: ignore[import-untyped]
    from requests.exceptions import HTTPError, RequestException

    part = _PartialFile(target.with_name(f"{target.name}.part"), url, progress, max_bytes)
    start = part.n_bytes
    headers = {"User-Agent": f"cascade-srn/{__version__}", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    download = pooch.HTTPDownloader(
        chunk_size=_CHUNK, timeout=timeout, headers=headers, hooks={"response": part.begin_response}
    )
    try:
        download(url, part, None)
    except DataError:
        raise
    except HTTPError as error:
        response = error.response
        assert response is not None  # the error is that of its status
        if response.status_code == _RANGE_NOT_SATISFIABLE and start:
            # The partial file is longer than the remote one, so it belongs to another file.
            part.path.unlink()
            fetch(url, target, progress=progress, timeout=timeout, max_bytes=max_bytes)
            return
        raise DataError(
            f"{url} could not be downloaded: the server answered {response.status_code} ({response.reason})",
            "Check the address, or download the file by other means and pass it",
            option="archive",
        ) from error
    except ValueError as error:
        raise DataError(
            f"{url!r} is not a web address", "Pass one that begins with http:// or https://", option="url"
        ) from error
    except RequestException as error:
        if part.is_open:
            raise part.interrupted(error) from error
        raise DataError(
            f"{url} could not be reached ({_reason(error)})",
            "Check the network, or download the file on another machine and pass it",
            option="archive",
        ) from error
    finally:
        part.close()
    if part.expected not in (None, part.n_bytes):
        raise part.interrupted()
    replace_durably(part.path, target)


class _PartialFile:
    """Output file of pooch: checks each response before it writes, counts bytes and enforces the size limit."""

    def __init__(self, path: Path, url: str, progress: Progress, max_bytes: int) -> None:
        self.path = path
        self.expected: int | None = None
        self.n_bytes = _size_of(path)
        self._url = url
        self._progress = progress
        self._max_bytes = max_bytes
        self._handle: BinaryIO | None = None

    @property
    def is_open(self) -> bool:
        return self._handle is not None

    def begin_response(self, response: Any, **_: Any) -> None:
        """Check a response of requests and open the file for its content. Redirects are checked, too."""
        if response.is_redirect:
            _check_redirect(response.url, urljoin(response.url, response.headers["location"]))
        elif response.ok:
            resumed = response.status_code == _PARTIAL_CONTENT
            content_range = response.headers.get("Content-Range", "")
            if resumed and not content_range.startswith(f"bytes {self.n_bytes}-"):
                raise DataError(
                    f"{response.url} sent the bytes {content_range!r} instead of those from {self.n_bytes} on",
                    f"Remove {self.path}, and run the command again",
                )
            self.n_bytes = self.n_bytes if resumed else 0
            stated = response.headers.get("Content-Length", "")
            self.expected = self.n_bytes + int(stated) if stated.isdigit() else None
            if self.expected is not None and self.expected > self._max_bytes:
                raise self._too_large(self.expected)
            self._handle = open_without_links(self.path, "ab" if resumed else "wb")

    def write(self, chunk: bytes) -> None:
        assert self._handle is not None  # pooch writes only after a response without an error
        self.n_bytes += len(chunk)
        if self.n_bytes > self._max_bytes:
            self.path.unlink()
            raise self._too_large(self.n_bytes)
        try:
            self._handle.write(chunk)
            self._handle.flush()
        except OSError as error:
            error.filename = str(self.path)  # the system reports a full disk without a path
            raise
        self._progress(self.n_bytes, self.expected)

    def flush(self) -> None:
        """Do nothing: each chunk is flushed when it is written."""

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()

    def interrupted(self, error: Exception | None = None) -> DataError:
        total = "?" if self.expected is None else self.expected
        reason = f" ({_reason(error)})" if error is not None else ""
        return DataError(
            f"the download of {self._url} stopped after {self.n_bytes} of {total} bytes{reason}",
            "Run the same command again to resume it",
        )

    def _too_large(self, n_bytes: int) -> DataError:
        return DataError(
            f"{self._url} has {n_bytes} bytes or more, and the limit is {self._max_bytes}",
            "Check the address, or download the file by other means and pass it",
            option="archive",
        )


def _size_of(path: Path) -> int:
    """Return the size of a partial file, or 0 if there is none. Refuse anything but a regular file."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return 0
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} is not a regular file, so the download cannot be stored there", "Remove it")
    return found.st_size


def _check_redirect(before: str, after: str) -> None:
    """Refuse a redirect from HTTPS to plain HTTP, or to another protocol."""
    scheme = urlsplit(after).scheme
    if scheme not in _SCHEMES or (urlsplit(before).scheme == "https" and scheme != "https"):
        raise DataError(
            f"{before} redirects to {after}, which is not encrypted",
            "Pass an address that stays on https",
            option="url",
        )


def _reason(error: Exception) -> str:
    """Return the innermost message of the nested errors of requests and urllib3."""
    while isinstance(cause := getattr(error, "reason", None) or next(iter(error.args), None), Exception):
        error = cause
    return str(next(iter(error.args), "")) or type(error).__name__
