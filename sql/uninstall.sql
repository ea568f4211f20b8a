-- The way back: the trigger goes, and its function when no other table uses it. The table, its rows and the role stay.

DO $relay$
DECLARE
	schema_name text := current_setting('relay.schema');
	full_name text := format('%I.%I', schema_name, current_setting('relay.table_name'));
	function_name text := format('%I.relay_notify()', schema_name);
	function_id oid := to_regprocedure(function_name);
BEGIN
	IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = to_regclass(full_name) AND tgname = 'relay_notify') THEN
		RAISE NOTICE 'there is no trigger relay_notify on %', full_name;
	ELSE
		EXECUTE format('DROP TRIGGER relay_notify ON %s', full_name);
		RAISE NOTICE 'removed trigger relay_notify on %', full_name;
	END IF;

	IF function_id IS NULL OR obj_description(function_id, 'pg_proc') IS NULL
			OR obj_description(function_id, 'pg_proc') NOT LIKE 'relay: %' THEN
		RAISE NOTICE 'there is no function % of relay''s', function_name;
	ELSIF EXISTS (SELECT FROM pg_trigger WHERE tgfoid = function_id) THEN
		RAISE NOTICE 'function % stays: % uses it', function_name,
			(SELECT string_agg(DISTINCT tgrelid::regclass::text, ', ') FROM pg_trigger WHERE tgfoid = function_id);
	ELSE
		EXECUTE format('DROP FUNCTION %s', function_name);
		RAISE NOTICE 'removed function %', function_name;
	END IF;
EXCEPTION
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE,
			HINT = format('run this as %s, who owns the table, or as a superuser',
				(SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass(full_name)));
	WHEN lock_not_available THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE,
			HINT = format('a transaction that is still open uses table %s: try again when it has ended', full_name);
END
$relay$;
