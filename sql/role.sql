-- A role that may do what delivering takes, and nothing else: it reads the rows, locks them (FOR NO KEY UPDATE asks for
-- UPDATE on one column at least), and writes the three columns of a delivery.

SET LOCAL relay.role = :'role';

DO $relay$
DECLARE
	schema_name text := current_setting('relay.schema');
	full_name text := format('%I.%I', schema_name, current_setting('relay.table_name'));
	role_name text := current_setting('relay.role');
	needed record;
	is_held boolean;
BEGIN
	IF octet_length(role_name) NOT BETWEEN 1 AND 63 THEN
		RAISE EXCEPTION 'a role''s name has 1 to 63 bytes, not %', octet_length(role_name) USING ERRCODE = 'invalid_name';
	ELSIF EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
		RAISE NOTICE 'role % is there already', quote_ident(role_name);
	ELSE
		EXECUTE format('CREATE ROLE %I LOGIN', role_name);
		RAISE NOTICE 'created role %, which has no password yet: set one in psql with \password %',
			quote_ident(role_name), quote_ident(role_name);
	END IF;

	FOR needed IN
		SELECT privilege, format('SELECT %s', check_call) AS check_query FROM (VALUES
			(format('CONNECT ON DATABASE %I', current_database()),
				format('has_database_privilege(%L, %L, ''CONNECT'')', role_name, current_database())),
			(format('USAGE ON SCHEMA %I', schema_name),
				format('has_schema_privilege(%L, %L, ''USAGE'')', role_name, schema_name)),
			(format('SELECT ON TABLE %s', full_name),
				format('has_table_privilege(%L, %L, ''SELECT'')', role_name, full_name)),
			(format('UPDATE (processed_at, attempts, last_error) ON TABLE %s', full_name),
				(SELECT string_agg(format('has_column_privilege(%L, %L, %L, ''UPDATE'')', role_name, full_name, name), ' AND ')
					FROM unnest(ARRAY['processed_at', 'attempts', 'last_error']) AS name))
		) AS list (privilege, check_call)
	LOOP
		EXECUTE needed.check_query INTO is_held;
		IF is_held THEN
			RAISE NOTICE 'role % has % already', quote_ident(role_name), needed.privilege;
			CONTINUE;
		END IF;
		EXECUTE format('GRANT %s TO %I', needed.privilege, role_name);
		-- Who may grant some of it only is warned by Postgres, not stopped.
		EXECUTE needed.check_query INTO is_held;
		IF NOT is_held THEN
			RAISE EXCEPTION 'role % may not grant %', quote_ident(current_user), needed.privilege USING
				ERRCODE = 'insufficient_privilege';
		END IF;
		RAISE NOTICE 'granted % to role %', needed.privilege, quote_ident(role_name);
	END LOOP;
EXCEPTION
	WHEN insufficient_privilege THEN
		RAISE EXCEPTION '%', SQLERRM USING ERRCODE = SQLSTATE, HINT = format(
			'creating a role takes CREATEROLE, and granting takes the owner (%s of the schema, %s of the table) or a superuser',
			(SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = schema_name),
			(SELECT quote_ident(pg_get_userbyid(relowner)) FROM pg_class WHERE oid = to_regclass(full_name)));
END
$relay$;
