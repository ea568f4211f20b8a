-- The trigger that notifies when a transaction that inserted commits. The function is one for a schema, its argument is the
-- channel. It runs as whoever inserts and needs no privilege. Of equal notifications of one transaction Postgres
-- sends one, so the payload is always empty.

DO $relay$
DECLARE
	schema_name text := current_setting('relay.schema');
	function_name text := format('%I.relay_notify()', schema_name);
	body constant text := $body$
BEGIN
	-- A relay that is busy holds this lock, one a table, and looks for rows without being told. It is tried and let go in one
	-- expression, so that nothing can come between.
	IF (CASE WHEN pg_catalog.pg_try_advisory_lock_shared(8243113856839188480 + TG_RELID::pg_catalog.int8)
			THEN pg_catalog.pg_advisory_unlock_shared(8243113856839188480 + TG_RELID::pg_catalog.int8) END) THEN
		PERFORM pg_catalog.pg_notify(TG_ARGV[0], '');
	END IF;
	RETURN NULL;
END
$body$;
	found record;
BEGIN
	SELECT prosrc AS body, coalesce(obj_description(oid, 'pg_proc') LIKE 'relay: %', false) AS is_ours INTO found
	FROM pg_proc WHERE oid = to_regprocedure(function_name);

	IF found.body = body THEN
		RAISE NOTICE 'function % is there already', function_name;
		RETURN;
	ELSIF NOT found.is_ours THEN
		RAISE EXCEPTION 'function % is not relay''s', function_name USING
			ERRCODE = 'duplicate_function', HINT = format('ALTER FUNCTION %s RENAME TO another name', function_name);
	END IF;
	EXECUTE format('CREATE OR REPLACE FUNCTION %s RETURNS trigger LANGUAGE plpgsql AS %L', function_name, body);
	EXECUTE format('COMMENT ON FUNCTION %s IS %L', function_name, 'relay: wakes whoever delivers the outbox');
	RAISE NOTICE '% function %', CASE WHEN found.is_ours THEN 'replaced' ELSE 'created' END, function_name;
EXCEPTION
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE, HINT = format(
			'GRANT CREATE ON SCHEMA %I TO %I; or run this as %s, who owns the schema, or as a superuser', schema_name, current_user,
			(SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = schema_name));
END
$relay$;

DO $relay$
DECLARE
	schema_name text := current_setting('relay.schema');
	channel text := current_setting('relay.channel');
	full_name text := format('%I.%I', schema_name, current_setting('relay.table_name'));
	after_insert_statement constant smallint := 4; -- pg_trigger.tgtype: INSERT, and neither ROW nor BEFORE
	found record;
BEGIN
	IF octet_length(channel) NOT BETWEEN 1 AND 63 THEN
		-- Every insert would fail.
		RAISE EXCEPTION 'a channel''s name has 1 to 63 bytes, not %', octet_length(channel) USING ERRCODE = 'invalid_name';
	END IF;
	SELECT tgenabled AS enabled, tgfoid = to_regprocedure(format('%I.relay_notify()', schema_name))
		AND tgtype = after_insert_statement AND tgqual IS NULL
		AND tgargs = convert_to(channel, getdatabaseencoding()) || '\x00'::bytea AS is_right INTO found
	FROM pg_trigger WHERE tgrelid = to_regclass(full_name) AND tgname = 'relay_notify';

	IF found.is_right THEN
		RAISE NOTICE 'trigger relay_notify on % is there already, for channel %', full_name, quote_ident(channel);
	ELSE
		EXECUTE format($ddl$
			CREATE OR REPLACE TRIGGER relay_notify AFTER INSERT ON %s
				FOR EACH STATEMENT EXECUTE FUNCTION %I.relay_notify(%L)$ddl$, full_name, schema_name, channel);
		RAISE NOTICE '% trigger relay_notify on %, for channel %',
			CASE WHEN found IS NULL THEN 'created' ELSE 'replaced' END, full_name, quote_ident(channel);
	END IF;
	IF found.enabled NOT IN ('O', 'A') THEN
		RAISE WARNING 'trigger relay_notify on % is disabled: rows wait for the next sweep', full_name USING
			HINT = format('ALTER TABLE %s ENABLE TRIGGER relay_notify', full_name);
	END IF;
EXCEPTION
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE, HINT = format(
			'GRANT TRIGGER ON TABLE %s TO %I; or run this as %s, who owns the table, or as a superuser', full_name, current_user,
			(SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass(full_name)));
	WHEN lock_not_available THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE,
			HINT = format('a transaction that is still open uses table %s: try again when it has ended', full_name);
END
$relay$;
