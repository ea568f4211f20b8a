# Debian's Postgres, started the way the public image starts.
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE}
RUN export DEBIAN_FRONTEND=noninteractive \
	&& mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf \
	&& apt-get update -qq \
	&& apt-get install -qq --no-install-recommends postgresql-17 >/dev/null \
	&& rm -rf /var/lib/apt/lists/* \
	&& install -d -o postgres -g postgres /var/run/postgresql
ENV PATH=/usr/lib/postgresql/17/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data
COPY postgres-entrypoint /usr/local/bin/postgres-entrypoint
VOLUME /var/lib/postgresql/data
EXPOSE 5432
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint"]
CMD ["postgres"]
