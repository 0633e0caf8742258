"""Upload files to a model repository of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cascade_srn.errors import ModelError
from cascade_srn.storage.bundled import hub_is_out_of_reach


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


def _find_repository(api: object, repo_id: str, *, private: bool) -> str:
    """Return the full id of a repository, which is created if it is missing."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    assert isinstance(api, HfApi)
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
