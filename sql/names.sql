-- What the other files work on. `relay install --print` shows them with the names filled in; psql reads them as they are,
-- in one transaction (without one, they refuse):
--
--     psql -1 -v ON_ERROR_STOP=1 -v schema= -v table=fga_outbox -v channel=fga_outbox \
--         -f sql/names.sql -f sql/table.sql -f sql/trigger.sql
--
-- Also, after names.sql: -v role=NAME -f sql/role.sql, and sql/uninstall.sql alone. An empty schema means: where
-- search_path finds the table, else the schema in which search_path creates. Needs Postgres 14.

-- A trigger is created under a lock that waits for running inserts and makes new ones wait behind it: not for long.
SET LOCAL lock_timeout = '5s';
SET LOCAL client_min_messages = notice;
SET LOCAL relay.schema = :'schema';
SET LOCAL relay.table_name = :'table';
SET LOCAL relay.channel = :'channel';

DO $relay$
DECLARE
	wanted text := current_setting('relay.schema');
	relation oid := to_regclass(concat_ws('.', quote_ident(nullif(wanted, '')), quote_ident(current_setting('relay.table_name'))));
	found_in text := (SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = relation);
	schema_name text := coalesce(found_in, nullif(wanted, ''), current_schema());
BEGIN
	IF octet_length(current_setting('relay.channel')) = 0 AND octet_length(current_setting('relay.table_name')) = 0 THEN
		RAISE EXCEPTION 'the names do not last: run this in one transaction' USING HINT = 'psql -1';
	ELSIF octet_length(current_setting('relay.table_name')) NOT BETWEEN 1 AND 63 THEN
		RAISE EXCEPTION 'a table''s name has 1 to 63 bytes, not %', octet_length(current_setting('relay.table_name')) USING
			ERRCODE = 'invalid_name';
	ELSIF schema_name IS NULL THEN
		RAISE EXCEPTION 'search_path names no schema that exists' USING
			ERRCODE = 'invalid_schema_name', HINT = 'name the table with its schema, such as public.fga_outbox';
	ELSIF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = schema_name) THEN
		RAISE EXCEPTION 'schema % does not exist', quote_ident(schema_name) USING
			ERRCODE = 'invalid_schema_name', HINT = format('CREATE SCHEMA %I', schema_name);
	END IF;
	PERFORM set_config('relay.schema', schema_name, true);
	-- Two installations at the same time would both find nothing, and both create.
	PERFORM pg_advisory_xact_lock(hashtextextended('relay install', 0));
END
$relay$;

-- From here on no object of another schema can stand in for one of Postgres's own.
SET LOCAL search_path = pg_catalog, pg_temp;
