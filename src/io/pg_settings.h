/* What every session, or every transaction through a pooler, is told. */
#ifndef RELAY_IO_PG_SETTINGS_H
#define RELAY_IO_PG_SETTINGS_H

/* What the role or the database sets for its sessions must not hinder: limits of our own for whatever hangs (a
 * statement, a lock, a transaction whose relay was stopped in the middle of it), none for a session that waits for
 * work, and the isolation that a claim with SKIP LOCKED is made for (transaction_timeout: Postgres 17 has it). And no
 * planning at every claim: without sequential and bitmap scans what is left is an index in id order, and of two that
 * cost the same Postgres takes the later one, which the partial index is; ANALYZE has it planned anew. LOCAL: is it for
 * the transaction? */
#define PG_SETTINGS(LOCAL) \
	"SELECT pg_catalog.set_config('statement_timeout', '20s', " LOCAL ")," \
	" pg_catalog.set_config('lock_timeout', '5s', " LOCAL ")," \
	" pg_catalog.set_config('idle_in_transaction_session_timeout', '90s', " LOCAL ")," \
	" pg_catalog.set_config('idle_session_timeout', '0', " LOCAL ")," \
	" CASE WHEN pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL" \
	" THEN pg_catalog.set_config('transaction_timeout', '0', " LOCAL ") END," \
	" pg_catalog.set_config('default_transaction_isolation', 'read committed', " LOCAL ")," \
	" pg_catalog.set_config('jit', 'off', " LOCAL ")," \
	" pg_catalog.set_config('enable_seqscan', 'off', " LOCAL ")," \
	" pg_catalog.set_config('enable_bitmapscan', 'off', " LOCAL ")," \
	" pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', " LOCAL ")"

#endif
