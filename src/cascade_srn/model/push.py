"""Upload a model folder to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from cascade_srn.errors import ModelError
from cascade_srn.model.card import FOLDER_IN_CARD
from cascade_srn.model.folder import CARD_FILE, CONFIG_FILE
from cascade_srn.storage.bundled import find_model, push_files


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
    from cascade_srn.model.info import describe_model

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
