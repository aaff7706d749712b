-- Parallel builds: several processes scan a table, sort what they have read, and load the index together. It must be the
-- index that one process builds.
-- Needs: icu
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
\set SHOW_CONTEXT never
SET max_parallel_maintenance_workers = 2;
SET min_parallel_table_scan_size = 0;
SET jit = off;
-- Large enough to be loaded in parts: by value, many to a value, and with NULLs.
CREATE TABLE wide (id int, i int4, few int4, b int8, u uuid, ts timestamptz, n numeric, t text COLLATE "C")
  WITH (autovacuum_enabled = off, parallel_workers = 2);
INSERT INTO wide
  SELECT s, hashint4(s), s % 7, hashint8extended(s, 1), md5(s::text)::uuid,
         timestamptz '2000-01-01 UTC' + hashint4(s) * interval '1 second', hashint4(s) / 1000.0, md5(s::text)
    FROM generate_series(1, 100000) s;
INSERT INTO wide (id) SELECT s FROM generate_series(100001, 105000) s;
VACUUM ANALYZE wide;
-- What builds are asked for: the index, what is in it, and a condition that finds some of it.
CREATE TABLE build (name text, what text, condition text);
INSERT INTO build VALUES
  ('int4', '(i)', 'i BETWEEN -1000000 AND 50000000'),
  ('int4, descending', '(i DESC)', 'i < -2000000000'),
  ('int4, NULLs first', '(i NULLS FIRST)', 'i IS NULL'),
  ('int4, few values', '(few)', 'few = 3'),
  ('int4, ascending', '(id)', 'id > 104000'),
  ('int8', '(b)', 'b > 9000000000000000000'),
  ('uuid', '(u)', 'u < ''02000000-0000-0000-0000-000000000000'''),
  ('timestamptz', '(ts)', 'ts < ''1935-01-01'''),
  ('numeric', '(n)', 'n BETWEEN 0 AND 30000'),
  ('text', '(t)', 't < ''02'''),
  ('text, descending', '(t DESC)', 't > ''FD'''),
  ('text, few values', '((few::text))', 'few::text = ''3'''),
  ('text, long', '((repeat(t, 50)))', 'repeat(t, 50) > ''ff'''),
  ('text, included', '(t) INCLUDE (few, i)', 't < ''02'''),
  ('collated', '(t COLLATE "en-x-icu")', 't COLLATE "en-x-icu" < ''02'''),
  ('collated, few values', '((few::text) COLLATE "en-x-icu", i)', 'few::text COLLATE "en-x-icu" = ''3'' AND i > 2000000000'),
  ('two columns', '(few, i DESC)', 'few = 5 AND i > 2000000000'),
  ('five columns', '(few, i, b, u, n)', 'few = 5 AND i > 2000000000'),
  ('partial', '(i) WHERE few < 3', 'few < 3 AND i > 2000000000'),
  ('expression', '((i / 2 + 1))', 'i / 2 + 1 > 1000000000'),
  ('expression, text', '(upper(t))', 'upper(t) > ''FF'''),
  ('included', '(i) INCLUDE (t, id)', 'i > 2100000000');
CREATE FUNCTION harness.build(b build, kind text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  query text := 'SELECT i, few{id} FROM {t} WHERE ' || b.condition;
BEGIN
  EXECUTE format('CREATE %s wide_idx ON wide USING fpbtree %s', kind, b.what);
  PERFORM harness.sound(b.name, 'wide_idx');
  PERFORM harness.compare(b.name, query, '{wide}', '{index,bitmap}', false);
  PERFORM harness.expect(b.name || ': all rows', (SELECT reltuples = (SELECT count(*) FROM wide WHERE b.what !~ 'WHERE' OR few < 3)
                                                    FROM pg_class WHERE relname = 'wide_idx'), 'reltuples');
  DROP INDEX wide_idx;
END $$;
SELECT count(*) FROM build b, harness.build(b, 'INDEX');
-- Runs that do not fit the memory, in each process.
SET maintenance_work_mem = '1MB';
SELECT count(*) FROM build b, harness.build(b, 'INDEX') WHERE name ~ '^(int4|int4, few values|uuid|text|text, few values|collated|two columns)$';
RESET maintenance_work_mem;
-- One process: the same.
SET max_parallel_maintenance_workers = 0;
SELECT count(*) FROM build b, harness.build(b, 'INDEX') WHERE name ~ '^(int4|text)';
SET max_parallel_maintenance_workers = 2;
-- Unique indexes. NULLs are no duplicates; of several duplicates the first one in order is named.
SELECT count(*) FROM build b, harness.build(b, 'UNIQUE INDEX') WHERE name IN ('int4, ascending', 'uuid', 'text', 'int8');
INSERT INTO wide (id, u, t) VALUES (0, md5('9')::uuid, md5('9'));
INSERT INTO wide (id, u, t) SELECT 0, md5(s::text)::uuid, md5(s::text) FROM unnest('{17,4711,99999}'::int[]) s;
SELECT u AS first FROM wide GROUP BY u HAVING count(u) > 1 ORDER BY u LIMIT 1;
CREATE UNIQUE INDEX wide_idx ON wide USING fpbtree (u);
CREATE UNIQUE INDEX wide_idx ON wide USING fpbtree (t);
CREATE UNIQUE INDEX wide_idx ON wide USING fpbtree (id);
SET max_parallel_maintenance_workers = 0;
CREATE UNIQUE INDEX wide_idx ON wide USING fpbtree (u);
SET max_parallel_maintenance_workers = 2;
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX wide_idx ON wide USING fpbtree (i) NULLS NOT DISTINCT;
\set VERBOSITY default
-- Rows that this transaction has deleted are still there for others, and no duplicates.
BEGIN;
DELETE FROM wide WHERE id = 0;
CREATE UNIQUE INDEX wide_idx ON wide USING fpbtree (u);
CREATE UNIQUE INDEX wide_t ON wide USING fpbtree (t);
SELECT FROM harness.sound('deleted, exact', 'wide_idx') a, harness.sound('deleted, text', 'wide_t') b;
COMMIT;
DROP INDEX wide_idx, wide_t;
-- An index built in parallel is one like any other.
CREATE INDEX wide_idx ON wide USING fpbtree (i) WITH (fillfactor = 50);
INSERT INTO wide (id, i) SELECT s, hashint4(s) FROM generate_series(200001, 230000) s;
DELETE FROM wide WHERE id % 3 = 0;
VACUUM wide;
INSERT INTO wide (id, i) SELECT s, hashint4(s) FROM generate_series(230001, 260000) s;
SELECT FROM harness.sound('changed', 'wide_idx');
SELECT FROM harness.compare('changed', 'SELECT i{id} FROM {t} WHERE i > 1500000000', '{wide}', '{index,bitmap,indexonly}', false);
SELECT FROM harness.compare('changed, backward', 'SELECT i{id} FROM {t} WHERE i > 1500000000 ORDER BY i DESC{tie}', '{wide}', '{index}', true);
-- REINDEX, concurrent builds.
REINDEX INDEX wide_idx;
SELECT FROM harness.sound('reindexed', 'wide_idx');
REINDEX INDEX CONCURRENTLY wide_idx;
SELECT FROM harness.sound('reindexed concurrently', 'wide_idx');
REINDEX TABLE wide;
SELECT FROM harness.sound('reindexed with its table', 'wide_idx');
DROP INDEX wide_idx;
CREATE INDEX CONCURRENTLY wide_idx ON wide USING fpbtree (i);
SELECT FROM harness.sound('concurrently', 'wide_idx');
DROP INDEX wide_idx;
CREATE INDEX CONCURRENTLY wide_idx ON wide USING fpbtree (t, id);
SELECT FROM harness.sound('concurrently, text', 'wide_idx');
-- The whole table rewritten, or emptied, with its index.
CLUSTER wide USING wide_idx;
SELECT FROM harness.sound('clustered', 'wide_idx');
BEGIN;
CREATE TABLE emptied (LIKE wide) WITH (parallel_workers = 2);
INSERT INTO emptied SELECT * FROM wide LIMIT 1000;
CREATE INDEX emptied_idx ON emptied USING fpbtree (i);
TRUNCATE emptied;
COMMIT;
SELECT FROM harness.sound('emptied', 'emptied_idx');
-- Partitions, unlogged tables, a materialized view.
CREATE TABLE parted (v int, id int) PARTITION BY RANGE (id);
CREATE TABLE parted_a PARTITION OF parted FOR VALUES FROM (0) TO (40000) WITH (parallel_workers = 2);
CREATE UNLOGGED TABLE parted_b PARTITION OF parted FOR VALUES FROM (40000) TO (200000) WITH (parallel_workers = 2);
INSERT INTO parted SELECT hashint4(s), s FROM generate_series(1, 120000) s;
CREATE INDEX parted_v ON parted USING fpbtree (v);
SELECT FROM harness.sound('partition', 'parted_a_v_idx') a, harness.sound('unlogged partition', 'parted_b_v_idx') b;
CREATE MATERIALIZED VIEW seen WITH (parallel_workers = 2) AS SELECT * FROM parted;
CREATE INDEX seen_idx ON seen USING fpbtree (v, id);
REFRESH MATERIALIZED VIEW seen;
SELECT FROM harness.sound('materialized view', 'seen_idx');
SELECT FROM harness.compare('materialized view', 'SELECT v, id FROM {t} WHERE v BETWEEN 0 AND 100000000', '{seen}', '{index,bitmap}', false);
-- Workers do take part: only they raise this error, for which the leader waits.
CREATE FUNCTION is_worker() RETURNS boolean LANGUAGE sql AS
  $$SELECT backend_type = 'parallel worker' FROM pg_stat_activity WHERE pid = pg_backend_pid()$$;
CREATE FUNCTION for_leaders(v int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
  IF public.is_worker() THEN
    RAISE 'a worker has come to a row';
  END IF;
  PERFORM pg_sleep(60);
  RETURN v;
END $$;
CREATE INDEX parted_a_idx ON parted_a USING fpbtree (for_leaders(v));
CREATE INDEX parted_a_idx ON parted_a USING fpbtree (for_leaders(v)) INCLUDE (id);
CREATE INDEX parted_a_idx ON parted_a USING fpbtree (v) WHERE for_leaders(v) > 0;
SELECT backend_type, count(*) FROM pg_stat_activity WHERE leader_pid = pg_backend_pid() GROUP BY 1;
-- An error that any of them may raise.
CREATE INDEX parted_a_idx ON parted_a USING fpbtree ((1 / (id - 31000)));
SET statement_timeout = '300ms';
CREATE FUNCTION slow(v int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS
  $$BEGIN PERFORM pg_sleep(0.01); RETURN v; END$$;
CREATE INDEX parted_a_idx ON parted_a USING fpbtree (slow(v));
RESET statement_timeout;
SELECT count(*) FROM pg_class WHERE relname = 'parted_a_idx';
SELECT count(*) FROM pg_ls_tmpdir();
-- Where btree asks for none, there are none: this would not end well if there were.
CREATE FUNCTION alone(v int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$
BEGIN
  IF v % 1000 = 0 THEN
    IF public.is_worker() THEN
      RAISE 'a worker has come to a row';
    END IF;
    PERFORM pg_sleep(0.05), pg_stat_clear_snapshot();
    IF EXISTS (SELECT FROM pg_stat_activity WHERE leader_pid = pg_backend_pid()) THEN
      RAISE 'there is a worker';
    END IF;
  END IF;
  RETURN v;
END $$;
SET max_parallel_maintenance_workers = 0;
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (alone(id));
DROP INDEX parted_a_alone;
SET max_parallel_maintenance_workers = 2;
ALTER TABLE parted_a SET (parallel_workers = 0);
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (alone(id));
DROP INDEX parted_a_alone;
ALTER TABLE parted_a RESET (parallel_workers);
SET maintenance_work_mem = '32MB';
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (alone(id));
DROP INDEX parted_a_alone;
RESET maintenance_work_mem;
SET min_parallel_table_scan_size = '1GB';
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (alone(id));
DROP INDEX parted_a_alone;
ALTER TABLE parted_a SET (parallel_workers = 2);
ALTER FUNCTION alone PARALLEL RESTRICTED;
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (alone(id));
DROP INDEX parted_a_alone;
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (id) WHERE alone(id) > 0;
DROP INDEX parted_a_alone;
ALTER FUNCTION alone PARALLEL SAFE;
CREATE TEMP TABLE passing WITH (parallel_workers = 2) AS SELECT * FROM parted;
CREATE INDEX passing_alone ON passing USING fpbtree (alone(id));
DROP TABLE passing;
-- None to be had.
SET max_parallel_workers = 0;
CREATE INDEX parted_a_alone ON parted_a USING fpbtree (alone(id));
SELECT FROM harness.sound('alone', 'parted_a_alone');
RESET max_parallel_workers;
SELECT * FROM harness.summary WHERE mismatches > 0;
SELECT sum(checks) AS checks FROM harness.summary;
SELECT test, left(query, 200) AS query, mode, want, got FROM harness.problem ORDER BY test, query, mode LIMIT 20;
DROP MATERIALIZED VIEW seen;
DROP TABLE wide, build, emptied, parted CASCADE;
DROP FUNCTION for_leaders, slow, alone, is_worker;
