"""Download a file over HTTP, and resume a download that was interrupted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
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

DownloadProgress = Callable[[int, int | None], None]
"""Called with the number of bytes received, and the total if the server states it."""


def fetch(
    url: str,
    target: Path,
    *,
    progress: DownloadProgress = lambda done, total: None,
    timeout: float = TIMEOUT,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Download a file to ``target``, which appears only when the download is complete.

    Until then the data is in a file beside it that ends in ``.part``. If such a file exists, only the rest is
    requested; if the server sends the whole file instead, the download starts again. A redirect must not leave HTTPS.
    The content is not verified: the caller compares the checksum.
    """
    import requests
    from requests.exceptions import HTTPError, RequestException

    part = target.with_name(f"{target.name}.part")
    start = part.stat().st_size if part.is_file() else 0
    headers = {"User-Agent": f"cascade-srn/{__version__}", "Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={start}-"} if start else {}
    try:
        with requests.get(
            url, headers=headers, stream=True, timeout=timeout, hooks={"response": _check_response}
        ) as response:
            if response.status_code == _RANGE_NOT_SATISFIABLE and start:
                # The partial file is longer than the remote one, so it belongs to another file.
                part.unlink()
                return fetch(url, target, progress=progress, timeout=timeout, max_bytes=max_bytes)
            response.raise_for_status()
            _receive(response, part, start, progress, max_bytes)
    except HTTPError as error:
        status = "" if error.response is None else f"{error.response.status_code} ({error.response.reason})"
        raise DataError(
            f"{url} could not be downloaded: the server answered {status}",
            "Check the address, or download the file by other means and pass it",
            option="archive",
        ) from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(
            f"{url!r} is not a web address", "Pass one that begins with http:// or https://", option="url"
        ) from error
    except RequestException as error:
        raise DataError(
            f"{url} could not be reached ({_reason(error)})",
            "Check the network, or download the file on another machine and pass it",
            option="archive",
        ) from error
    replace_durably(part, target)


def _receive(response: Any, part: Path, start: int, progress: DownloadProgress, max_bytes: int) -> None:
    """Write the content of a response to a file, after the first ``start`` bytes if the server sends only the rest."""
    from requests.exceptions import RequestException

    resumed = response.status_code == _PARTIAL_CONTENT
    content_range = response.headers.get("Content-Range", "")
    if resumed and not content_range.startswith(f"bytes {start}-"):
        raise DataError(
            f"{response.url} sent the bytes {content_range!r} instead of those from {start} on",
            f"Remove {part}, and run the command again",
        )
    n_bytes = start if resumed else 0
    stated = response.headers.get("Content-Length", "")
    expected = n_bytes + int(stated) if stated.isdigit() else None
    reason = ""
    _check_size(response.url, expected or 0, max_bytes)
    with open_without_links(part, "ab" if resumed else "wb") as handle:
        try:
            for chunk in response.iter_content(_CHUNK):
                n_bytes += len(chunk)
                if n_bytes > max_bytes:
                    part.unlink()
                    _check_size(response.url, n_bytes, max_bytes)
                handle.write(chunk)
                progress(n_bytes, expected)
        except RequestException as error:
            reason = f" ({_reason(error)})"
        except OSError as error:
            error.filename = str(part)  # the system reports a full disk without a path
            raise
    if reason or expected not in (None, n_bytes):
        raise DataError(
            f"the download of {response.url} stopped after {n_bytes} of {expected or '?'} bytes{reason}",
            "Run the same command again to resume it",
        )


def _check_size(url: str, n_bytes: int, max_bytes: int) -> None:
    if n_bytes > max_bytes:
        raise DataError(
            f"{url} has {n_bytes} bytes or more, and the limit is {max_bytes}",
            "Check the address, or download the file by other means and pass it",
            option="archive",
        )


def _check_response(response: Any, **_: Any) -> None:
    if response.is_redirect:
        _check_redirect(response.url, urljoin(response.url, response.headers["location"]))


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
