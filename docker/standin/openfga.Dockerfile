# OpenFGA's program and its health probe, where the public image has them.
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE}
COPY openfga /openfga
COPY grpc_health_probe /usr/local/bin/grpc_health_probe
EXPOSE 8080 8081
USER 65532:65532
ENTRYPOINT ["/openfga"]
