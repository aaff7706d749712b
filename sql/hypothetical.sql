-- fpbtree_hypothetical(): what an index would be, held against what it is once it is built; and what it refuses.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
\set SHOW_CONTEXT never
LOAD 'fpbtree';
SET fpbtree.unique_index = 'silent';
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA sketches;
SET search_path = sketches, public;
CREATE FUNCTION chance(n int, seed int) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT hashint8extended(n, seed) $$;
CREATE TABLE t AS
  SELECT i AS id, (chance(i, 1) % 1000000000)::int AS random, abs(chance(i, 2) % 10000)::int AS parent, md5(i::text)::uuid AS u,
    ('user' || abs(chance(i, 3) % 1000000) || '@example.org')::text COLLATE "C" AS c, abs(chance(i, 4) % 200)::int AS tenant,
    i % 3 = 0 AS flag, chance(i, 5) AS big, NULL::int AS nothing, NULL::json AS doc
  FROM generate_series(1, 100000) i;
ALTER TABLE t ADD CONSTRAINT t_id CHECK (id > 0);
VACUUM ANALYZE t;
CREATE TABLE said (columns text, is_unique bool, pages int, size bigint, leaf_pages bigint, levels int, entries bigint, lookup_cost float8,
  ordered_cost float8, is_whole bool, sampled bigint, truth bigint, leaves bigint, height int, lookup float8, ordered float8);
-- The total cost of a plan.
CREATE FUNCTION cost(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN plan -> 0 -> 'Plan' ->> 'Total Cost';
END $$;
-- What is said of an index by a sample of so many pages; then it is built.
CREATE PROCEDURE hold(columns text, pages int, keys text[], unique_word text DEFAULT '') LANGUAGE plpgsql AS $$
DECLARE
  h record;
  statement text := format('CREATE %s INDEX made ON t USING fpbtree %s', unique_word, columns);
  tail text := coalesce(substring(columns FROM 'WHERE (.*)'), 'true');
BEGIN
  SELECT * INTO h FROM fpbtree_hypothetical(statement, pages);
  EXECUTE statement;
  SET LOCAL enable_seqscan = off;
  SET LOCAL enable_bitmapscan = off;
  SET LOCAL enable_sort = off;
  EXECUTE format('PREPARE look AS SELECT %s FROM t WHERE %s AND %s', array_to_string(keys, ', '),
    (SELECT string_agg(format('%s = $%s', k, n), ' AND ') FROM unnest(keys) WITH ORDINALITY k (k, n)), tail);
  SET LOCAL plan_cache_mode = force_generic_plan;
  INSERT INTO said
    SELECT columns, unique_word <> '', pages, h.size, h.leaf_pages, h.levels, h.entries, h.lookup_cost, h.ordered_cost, h.is_whole, h.sampled,
      pg_relation_size('made'), s.leaf_pages, s.levels,
      cost(format('EXECUTE look (%s)', (SELECT string_agg('NULL', ', ') FROM unnest(keys)))),
      cost(format('SELECT %s FROM t WHERE %s ORDER BY %1$s', array_to_string(keys, ', '), tail))
    FROM fpbtree_stats('made') s;
  DEALLOCATE look;
  DROP INDEX made;
END $$;
-- All rows, and some.
DO $$
DECLARE
  most int;
BEGIN
  FOREACH most IN ARRAY ARRAY[100000, (pg_relation_size('t') / 8192 / 4)::int] LOOP
    CALL hold('(id)', most, '{id}', 'UNIQUE');
    CALL hold('(random)', most, '{random}');
    CALL hold('(parent)', most, '{parent}');
    CALL hold('(u)', most, '{u}');
    CALL hold('(c)', most, '{c}');
    CALL hold('(tenant, random)', most, '{tenant,random}');
    CALL hold('(flag)', most, '{flag}');
    CALL hold('(big) INCLUDE (id)', most, '{big}');
    CALL hold('(random) WHERE flag', most, '{random}');
    CALL hold('(lower(c))', most, '{lower(c)}');
    CALL hold('(id) WITH (fillfactor = 50)', most, '{id}');
    CALL hold('(nothing)', most, '{nothing}');
  END LOOP;
END $$;
SELECT columns, abs(size - truth) <= greatest(truth * 0.03, 3 * 8192) AS same, abs(leaf_pages - leaves) <= greatest(leaves * 0.03, 3) AS same_leaves,
    levels = height AS same_levels, sampled = entries AS all_rows
  FROM said WHERE is_whole;
SELECT columns, size::float8 / truth BETWEEN 0.8 AND 1.2 AS near, sampled < entries AS by_sample FROM said WHERE NOT is_whole;
SELECT columns, is_whole, lookup_cost / lookup BETWEEN 0.9 AND 1.1 AS lookup, ordered_cost / ordered BETWEEN 0.9 AND 1.1 AS ordered
  FROM said ORDER BY is_whole DESC, columns;
-- By a btree index of the same columns.
CREATE INDEX like_it ON t (parent, c DESC);
SELECT sampled_index, is_whole FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (parent, c DESC)');
SELECT sampled_index IS NULL AS by_rows FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (parent, c)');
SELECT sampled_index IS NULL AS by_rows FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (parent, c DESC) WHERE flag');
-- No rows; temporary and unlogged tables.
CREATE TABLE none (id int, name name);
SELECT size, entries, sampled, levels FROM fpbtree_hypothetical('CREATE INDEX ON none USING fpbtree (id)');
SELECT size FROM fpbtree_hypothetical('CREATE INDEX ON none USING fpbtree (name)');
CREATE TEMP TABLE mine AS SELECT i AS id FROM generate_series(1, 5000) i;
SELECT entries, is_whole FROM fpbtree_hypothetical('CREATE INDEX ON mine USING fpbtree (id DESC NULLS LAST)');
CREATE UNLOGGED TABLE unlogged AS SELECT i AS id, repeat('x', 1900 * (i / 100)) || i AS long FROM generate_series(1, 100) i;
SELECT entries FROM fpbtree_hypothetical('CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON unlogged USING fpbtree (id, (id + 1))');
-- What speaks against it.
SELECT why_not FROM fpbtree_hypothetical('CREATE INDEX ON unlogged USING fpbtree (long)');
SELECT size, why_not FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (doc)');
SELECT (why_not LIKE 'ON CONFLICT%') IS DISTINCT FROM (current_setting('server_version_num')::int >= 180000) AS told
  FROM fpbtree_hypothetical('CREATE UNIQUE INDEX ON t USING fpbtree (id)');
-- What is no such statement.
SELECT * FROM fpbtree_hypothetical('SELECT 1');
SELECT * FROM fpbtree_hypothetical('');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id); CREATE INDEX ON t USING fpbtree (id)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t (id)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING absent (id)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON absent USING fpbtree (id)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (absent)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (lower(nowhere_at_all))');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (ctid)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree ((random() * id))');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id) WHERE now() > ''2026-01-01''');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id COLLATE "C")');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id text_ops)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id) WITH (fillfactor = 5)');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id) INCLUDE ((id + 1))');
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id)', 9);
SELECT * FROM fpbtree_hypothetical(NULL);
CREATE TABLE parts (id int) PARTITION BY RANGE (id);
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON parts USING fpbtree (id)');
CREATE VIEW v AS SELECT * FROM t;
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON v USING fpbtree (id)');
-- An expression that fails.
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree ((1 / (id - 7)))');
-- For the owner alone, as whom the table's expressions run.
CREATE ROLE regress_fpbtree_sketcher;
CREATE ROLE regress_fpbtree_sketch_owner;
GRANT USAGE, CREATE ON SCHEMA sketches TO regress_fpbtree_sketcher, regress_fpbtree_sketch_owner;
GRANT SELECT ON t TO regress_fpbtree_sketcher;
SET ROLE regress_fpbtree_sketcher;
SELECT * FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id)');
RESET ROLE;
SET ROLE regress_fpbtree_sketch_owner;
CREATE TABLE owned AS SELECT i AS id FROM generate_series(1, 3) i;
CREATE FUNCTION who(int) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE '%', current_user; RETURN $1; END $$;
RESET ROLE;
SET client_min_messages = notice;
SELECT entries FROM fpbtree_hypothetical('CREATE INDEX ON sketches.owned USING fpbtree (sketches.who(id))');
SET client_min_messages = warning;
-- In transactions, also in those that may change nothing; and nothing is left behind.
BEGIN READ ONLY;
SELECT entries FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (id)', 100000);
SAVEPOINT s;
SELECT entries FROM fpbtree_hypothetical('CREATE INDEX ON t USING fpbtree (absent)');
ROLLBACK TO s;
SELECT mode FROM pg_locks WHERE relation = 't'::regclass AND pid = pg_backend_pid();
COMMIT;
SHOW enable_seqscan;
SELECT relname FROM pg_class WHERE relnamespace = 'sketches'::regnamespace AND relkind = 'i';
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE id = 5;
RESET search_path;
SET client_min_messages = error;
DROP SCHEMA sketches CASCADE;
DROP ROLE regress_fpbtree_sketcher, regress_fpbtree_sketch_owner;
