# make wheel && docker build --target agent  -t gpuledger-agent:0.1.0  .
# make wheel && docker build --target server -t gpuledger-server:0.1.0 .
# The server of one site; of several collectors --build-arg ROLE=fleet; with the assistant and the planners ROLE=full.
# Any base with Python 3.11 or newer, venv and pip will do: --build-arg BASE=... The digest is that of all platforms;
# `docker buildx imagetools inspect python:3.12-slim-bookworm` tells a newer one.
ARG BASE=docker.io/library/python:3.12.14-slim-bookworm@sha256:a116514e19457bcb7af7efe9c3dd0b9b71e85b317694e7882a1c52aa15a78134

# An environment for each role, without pip or anything else that only installing needs.
FROM ${BASE} AS agent-build
COPY requirements-kubernetes.lock /build/requirements.lock
COPY dist/gpuledger-*-py3-none-any.whl /build/
RUN python3 -m venv --without-pip /opt/gpuledger \
    && python3 -m pip --python /opt/gpuledger/bin/python install --no-cache-dir --no-deps --require-hashes -r /build/requirements.lock \
    && python3 -m pip --python /opt/gpuledger/bin/python install --no-cache-dir --no-deps --no-index /build/gpuledger-*.whl \
    && find /opt/gpuledger -type d -name tests -prune -exec rm -r {} +

FROM ${BASE} AS server-build
ARG ROLE=server
COPY requirements-${ROLE}.lock /build/requirements.lock
COPY dist/gpuledger-*-py3-none-any.whl /build/
RUN python3 -m venv --without-pip /opt/gpuledger \
    && python3 -m pip --python /opt/gpuledger/bin/python install --no-cache-dir --no-deps --require-hashes -r /build/requirements.lock \
    && python3 -m pip --python /opt/gpuledger/bin/python install --no-cache-dir --no-deps --no-index /build/gpuledger-*.whl \
    && find /opt/gpuledger -type d -name tests -prune -exec rm -r {} +

FROM ${BASE} AS role
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="the gpuledger authors" \
      org.opencontainers.image.licenses="Apache-2.0 AND MIT AND CC-BY-4.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN mkdir -p /etc/gpuledger /var/lib/gpuledger /run/gpuledger && chown 10001:10001 /var/lib/gpuledger /run/gpuledger
# No positions within lines: up to Python 3.11.7 tracebacks that show them disturb other threads (agent/log_format.py).
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PYTHONNODEBUGRANGES=1
USER 10001:10001
WORKDIR /var/lib/gpuledger
VOLUME /var/lib/gpuledger

# The GPU host's side, for the NVIDIA container runtime; it reads /etc/gpuledger/gpuledger.toml where that is mounted.
# It calls out to its collector and to nothing else. gRPC is in it for the kubelet.
FROM role AS agent
LABEL org.opencontainers.image.title="gpuledger agent" \
      org.opencontainers.image.description="Samples the GPUs of a host and what feeds them, for gpuledger."
COPY --from=agent-build /opt/gpuledger /opt/gpuledger
# Whether it beats; where /metrics is off it cannot be asked, and counts as well.
HEALTHCHECK --interval=60s --timeout=10s --start-period=60s --retries=3 \
    CMD ["/opt/gpuledger/bin/gpuledger", "agent", "probe"]
ENTRYPOINT ["/opt/gpuledger/bin/gpuledger"]
CMD ["agent"]

# Collector, analyzer and pages. Everything it serves and every extension of DuckDB is in the image: it calls out to nothing
# but a lake, a scheduler or a Prometheus that its settings name. It writes to its volume alone: --read-only will do.
FROM role AS server
LABEL org.opencontainers.image.title="gpuledger server" \
      org.opencontainers.image.description="Collector, analyzer and pages of gpuledger: every GPU-second, accounted for."
COPY --from=server-build /opt/gpuledger /opt/gpuledger
EXPOSE 8470
# What waits is written and sealed before the end: docker stop --time 90.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=6s --start-period=60s --retries=3 \
    CMD ["/opt/gpuledger/bin/gpuledger", "admin", "probe", "/etc/gpuledger/gpuledger.toml"]
ENTRYPOINT ["/opt/gpuledger/bin/gpuledger"]
CMD ["serve", "--config", "/etc/gpuledger/gpuledger.toml"]
