# The HTTP service with the bundled model.
#
#   docker build -t cascade-srn .
#   docker run --rm -p 127.0.0.1:8000:8000 -e CASCADE_SRN_API_KEY=... cascade-srn
#
# On Linux, pip installs torch with CUDA libraries of several gigabytes. Without a GPU, pass the index of the CPU builds:
#   docker build --build-arg PIP_OPTIONS="--extra-index-url ..." -t cascade-srn .
FROM python:3.11-slim AS build
ARG PIP_OPTIONS=""
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir -c constraints.txt ${PIP_OPTIONS} ".[serve,torch]"

FROM python:3.11-slim
COPY --from=build /opt/venv /opt/venv
RUN useradd --create-home --uid 10001 service
USER service
ENV PATH=/opt/venv/bin:$PATH HF_HUB_OFFLINE=1
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["cascade-srn", "serve", "--host", "0.0.0.0", "--port", "8000"]
