# make wheel && docker build --target agent  -t gpuledger-agent  .
# make wheel && docker build --target server -t gpuledger-server .
# Any base with Python 3.11 or newer, venv and pip will do: --build-arg BASE=...
ARG BASE=docker.io/library/python:3.12-slim-bookworm

FROM ${BASE} AS build
COPY requirements-agent.lock requirements-server.lock dist/gpuledger-*-py3-none-any.whl /build/
RUN for role in agent server; do \
        python3 -m venv "/opt/gpuledger-$role" \
        && "/opt/gpuledger-$role/bin/python" -m pip install --no-cache-dir --no-deps --require-hashes -r "/build/requirements-$role.lock" \
        && "/opt/gpuledger-$role/bin/python" -m pip install --no-cache-dir --no-deps --no-index /build/gpuledger-*.whl \
        || exit 1; \
    done

FROM ${BASE} AS role
RUN mkdir -p /etc/gpuledger /var/lib/gpuledger && chown 10001:10001 /var/lib/gpuledger
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/gpuledger
VOLUME /var/lib/gpuledger

# The GPU host's side: run it with the NVIDIA container runtime, pid: host, and /etc/gpuledger mounted.
# It calls out to its collector and to nothing else.
FROM role AS agent
COPY --from=build /opt/gpuledger-agent /opt/gpuledger-agent
ENTRYPOINT ["/opt/gpuledger-agent/bin/gpuledger"]
CMD ["agent", "--config", "/etc/gpuledger/gpuledger.toml"]

# Collector, analyzer and pages. Everything it serves is in the image: it calls out to nothing.
FROM role AS server
COPY --from=build /opt/gpuledger-server /opt/gpuledger-server
EXPOSE 8470
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["/opt/gpuledger-server/bin/python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8470/healthz', timeout=4)"]
ENTRYPOINT ["/opt/gpuledger-server/bin/gpuledger"]
CMD ["serve", "--config", "/etc/gpuledger/gpuledger.toml"]
