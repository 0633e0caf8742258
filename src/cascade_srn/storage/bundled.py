"""Find models: bundled ones, folders, and the Hugging Face hub. Upload them to the hub."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cascade_srn.errors import ModelError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DEFAULT = "scierc-small"
"""Name of the default model."""

_SECONDS_TO_CONNECT = 5

_MODELS, _MARKER = Path(__file__).parents[1] / "models", "config.json"


def bundled_models() -> list[str]:
    """Return the names of the bundled models."""
    return sorted(path.parent.name for path in _MODELS.glob(f"*/{_MARKER}"))


def find_model(name: str | Path | None = None) -> Path:
    """Return the folder of a model: a folder, the name of a bundled model, or a hub id, which is downloaded.

    A folder takes precedence over a bundled model of the same name. None is the default model.
    """
    if name is None:
        return _bundled(DEFAULT)
    folder = Path(os.path.expanduser(name))
    if folder.exists():
        return folder
    text = str(name)
    if text in bundled_models():
        return _bundled(text)
    if isinstance(name, Path) or text.startswith((".", "/", "~")) or text.count("/") != 1:
        raise ModelError(
            f"the model folder {text!r} does not exist",
            f"Pass the folder of a saved model, a hub id (owner/name), or a bundled model ({_list_bundled()})",
        )
    return _download(text)


def is_model(name: str | Path) -> bool:
    """Return whether this is the folder of a saved model, or the name of a bundled one. The hub is not asked."""
    folder = Path(os.path.expanduser(name))
    if not folder.exists():
        return str(name) in bundled_models()
    path = folder / _MARKER
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None  # reading a FIFO would hang
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and "cascade_srn_version" in config


def is_cached(name: str) -> bool:
    """Return whether an encoder or model of the hub has been downloaded, or is a folder."""
    from huggingface_hub import try_to_load_from_cache

    return Path(name).is_dir() or isinstance(try_to_load_from_cache(name, _MARKER), str)


def hub_is_out_of_reach() -> bool:
    """Return whether the hub cannot be reached, to avoid the repeated attempts of the hub client.

    Behind a proxy and with HF_HUB_OFFLINE this is not checked, and the result is False.
    """
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    from huggingface_hub import constants

    address = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE or address.scheme in getproxies() or not address.hostname:
        return False
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((address.hostname, port), timeout=_SECONDS_TO_CONNECT).close()
    except OSError:
        return True
    return False


def _bundled(name: str) -> Path:
    folder = _MODELS / name
    if not (folder / _MARKER).is_file():
        raise ModelError(
            f"the model {name!r} is not part of this installation (bundled models: {_list_bundled()})",
            "Pass the folder of a trained model, or a hub id",
        )
    return folder


def _list_bundled() -> str:
    return ", ".join(bundled_models()) or "none"


def _download(text: str) -> Path:
    from huggingface_hub import snapshot_download

    cached_only = hub_is_out_of_reach()
    try:
        return Path(snapshot_download(text, local_files_only=cached_only))
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if cached_only:
            reason = "the hub cannot be reached, and the model is not in the cache"
        raise ModelError(
            f"there is no folder {text!r}, and the download from the hub failed ({reason})",
            f"Check the name and the network, or use a bundled model ({_list_bundled()})",
        ) from error


def push_files(
    files: Mapping[str, Path | bytes],
    repo_id: str,
    *,
    private: bool = True,
    message: str = "Upload a cascade-srn model",
    revision: str | None = None,
    token: str | None = None,
) -> str:
    """Write files to a repository in one commit. The repository and the branch are created if they are missing.

    Args:
        files: Paths or contents, by name in the repository.
        repo_id: "owner/name", or the name of a repository of the owner of the token.
        private: Create a private repository, and refuse one that is public.
        message: Message of the commit.
        revision: Branch. None: the main branch.
        token: Token with the right to write. None: that of the environment (HF_TOKEN) or of the last login.

    Returns:
        The address of the commit.

    Raises:
        ModelError: There is no token, the hub cannot be reached, or it refuses the request.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, constants, get_token

    token = token or get_token()
    if not token:
        raise ModelError(
            "there is no token for the hub", "Run hf auth login, or set HF_TOKEN to a token with the right to write"
        )
    if constants.HF_HUB_OFFLINE or hub_is_out_of_reach():
        reason = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} cannot be reached"
        raise ModelError(f"the model cannot be uploaded ({reason})", "Check the network and the environment")
    api = HfApi(endpoint=constants.ENDPOINT, token=token)
    with _hub_errors(repo_id):
        name = _find_repository(api, repo_id, private=private)
        if revision is not None:
            api.create_branch(name, branch=revision, exist_ok=True)
        operations = [CommitOperationAdd(path, content) for path, content in files.items()]
        commit = api.create_commit(name, operations, commit_message=message, revision=revision)
        return str(commit.commit_url)


def _find_repository(api: HfApi, repo_id: str, *, private: bool) -> str:
    """Return the full id of a repository, which is created if it is missing."""
    from huggingface_hub.errors import RepositoryNotFoundError

    name = repo_id if "/" in repo_id else f"{api.whoami()['name']}/{repo_id}"
    try:
        found = api.model_info(name)
    except RepositoryNotFoundError:
        return str(api.create_repo(name, private=private, exist_ok=True).repo_id)
    if private and not found.private:
        raise ModelError(
            f"the repository {name!r} of the hub is public",
            "Choose another one, or allow a public one",
            option="private",
        )
    return name


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    """Turn errors of the hub client into errors of the model.

    The client raises errors of several libraries. The block contains nothing but calls of the client.
    """
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        problem, hint = (
            f"the upload to {repo_id!r} failed ({reason})",
            "Check the name of the repository and the network",
        )
        if status == 401:
            problem, hint = "the hub refused the token", "Log in again with hf auth login, or check HF_TOKEN"
        elif status == 403:
            problem = f"the token has no right to write to {repo_id!r}"
            hint = "Use a token with the right to write, and a repository of your own or of your organisation"
        raise ModelError(problem, hint) from error
