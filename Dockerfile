# The HTTP service with the bundled model.
#
#   docker build -t cascade-srn .                      on a CPU, without torch, under 450 MB
#   docker build -t cascade-srn:gpu --target gpu .     with torch and CUDA, several gigabytes
#   docker run --rm -p 127.0.0.1:8000:8000 -e CASCADE_SRN_API_KEY=... cascade-srn
#   docker run --rm --gpus all -p 127.0.0.1:8000:8000 cascade-srn:gpu
FROM python:3.11-slim AS source
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/venv

FROM source AS build-gpu
RUN /opt/venv/bin/pip install --no-cache-dir --no-compile -c constraints.txt ".[serve,train]"

FROM source AS build-cpu
RUN /opt/venv/bin/pip install --no-cache-dir --no-compile -c constraints.txt ".[serve]"

FROM python:3.11-slim AS service
RUN useradd --create-home --uid 10001 service
USER service
ENV PATH=/opt/venv/bin:$PATH HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
ENTRYPOINT ["cascade-srn", "serve", "--host", "0.0.0.0", "--port", "8000"]

FROM service AS gpu
COPY --from=build-gpu /opt/venv /opt/venv

# The last stage is the default.
FROM service AS cpu
COPY --from=build-cpu /opt/venv /opt/venv
