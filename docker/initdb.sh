#!/bin/bash
# Run by Postgres's image when its volume is new: OpenFGA's own database, and the role that relay connects as.
# `relay install --role relay` gives it what it needs.
psql -qX -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" \
	-v openfga_password="$OPENFGA_DB_PASSWORD" -v relay_password="$RELAY_DB_PASSWORD" <<'SQL'
CREATE ROLE openfga LOGIN PASSWORD :'openfga_password';
CREATE DATABASE openfga OWNER openfga;
CREATE ROLE relay LOGIN PASSWORD :'relay_password';
SQL
