"""The images of the service: their instructions, and a build where there is a Docker daemon."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cascade_srn.cli.serve import serve

ROOT = Path(__file__).parents[1]
# Each instruction on one line.
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
STEPS = [line.split(maxsplit=1) for line in LINES if line.strip() and not line.startswith("#")]


def arguments(name):
    return [rest for step, rest in STEPS if step == name]


def test_copied_files_exist_and_are_not_ignored():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    sources = [source for rest in arguments("COPY") if not rest.startswith("--from") for source in rest.split()[:-1]]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert set(sources) == kept


def test_what_the_package_needs_is_copied():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = set(re.findall(r'"([A-Z]+(?:\.md)?)"', text))
    assert named & {path.name for path in ROOT.iterdir()} <= set(" ".join(arguments("COPY")).split())


def test_the_default_image_is_without_torch():
    stages = arguments("FROM")
    assert stages[-1].endswith(" AS cpu")
    installs = [rest for rest in arguments("RUN") if "pip install" in rest]
    assert [re.findall(r"\[([\w,]+)\]", rest) for rest in installs] == [["serve,train"], ["serve"]]


def test_the_service_runs_as_a_user_without_rights():
    users = arguments("USER")
    assert users
    assert users[-1] not in ("root", "0")


def test_the_command_has_options_that_exist():
    command = json.loads(arguments("ENTRYPOINT")[0])
    options = [part.removeprefix("--") for part in command if part.startswith("--")]
    assert command[:2] == ["cascade-srn", "serve"]
    assert set(options) <= set(serve.__annotations__)
    assert command[command.index("--port") + 1] == arguments("EXPOSE")[0]


@pytest.mark.slow
def test_the_image_is_built():
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no Docker daemon")
    name = subprocess.run([docker, "build", "--quiet", str(ROOT)], check=True, timeout=1800, capture_output=True).stdout
    size = subprocess.run(
        [docker, "image", "inspect", "--format", "{{.Size}}", name.decode().strip()], check=True, capture_output=True
    ).stdout
    assert int(size) <= 450_000_000
