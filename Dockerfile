# A device with the scikit-learn learner; docs/operations.md says how to build and run it.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
ARG EXTRAS=serve,sklearn
# another index beside the usual one: pip reads the variable
ARG PIP_EXTRA_INDEX_URL
WORKDIR /src
RUN python -m venv --without-pip /opt/cause
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# The root is read-only when it runs, so modules are compiled here: else each start and each worker would do it anew.
# A file of a library that needs a newer Python cannot be, and is left as it is.
RUN python -m pip --python /opt/cause/bin/python install --no-cache-dir --no-compile -c constraints.txt ".[${EXTRAS}]" \
 && find /opt/cause -type d -name tests -prune -exec rm -rf {} + \
 && { python -m compileall -q --invalidation-mode unchecked-hash /opt/cause || true; }

FROM ${BASE}
RUN groupadd --gid 10001 cause \
 && useradd --uid 10001 --gid cause --no-create-home --home-dir /var/lib/cause --shell /usr/sbin/nologin cause \
 && install -d -o cause -g cause -m 0700 /var/lib/cause
COPY --from=build /opt/cause /opt/cause
COPY deploy/ready.py /opt/cause/ready.py
ENV PATH=/opt/cause/bin:$PATH PYTHONDONTWRITEBYTECODE=1 CAUSE_SERVE_HOST=0.0.0.0
# what is freed is overwritten, small blocks too: docs/erasure-at-rest.md
ENV PYTHONMALLOC=malloc GLIBC_TUNABLES=glibc.malloc.perturb=255:glibc.malloc.tcache_count=0
USER 10001:10001
VOLUME /var/lib/cause
EXPOSE 8470
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=3s --start-period=20s \
  CMD ["python", "-IS", "/opt/cause/ready.py"]
ENTRYPOINT ["cause"]
CMD ["serve", "/var/lib/cause/device"]
