# A device with the scikit-learn learner; `--build-arg EXTRAS=serve,sklearn,torch` adds networks.
#   docker build -t cause .
#   docker run --rm --read-only --tmpfs /tmp --memory 1g --cpus 2 -p 127.0.0.1:8470:8470 \
#     -v cause:/var/lib/cause -e CAUSE_MASTER=… cause
FROM python:3.11-slim AS build
ARG EXTRAS=serve,sklearn
WORKDIR /src
RUN python -m venv /opt/cause
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN /opt/cause/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]" \
 && find /opt/cause -name '__pycache__' -prune -exec rm -rf {} +

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/cause --shell /usr/sbin/nologin cause \
 && install -d -o cause -g cause -m 0700 /var/lib/cause
COPY --from=build /opt/cause /opt/cause
ENV PATH=/opt/cause/bin:$PATH PYTHONDONTWRITEBYTECODE=1 CAUSE_SERVE_HOST=0.0.0.0
USER cause
VOLUME /var/lib/cause
EXPOSE 8470
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8470/readyz', timeout=2)"]
ENTRYPOINT ["cause"]
CMD ["serve", "/var/lib/cause/device"]
