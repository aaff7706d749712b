-- Parallel scans: several processes read one index, each page once, and give back what one process gives. Parallel
-- VACUUM of several indexes.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
SET fpbtree.custom_scans = off;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
-- What processes share is dear, so that they are worth it for a few rows.
SET cpu_tuple_cost = 10;
SET random_page_cost = 0;
SET jit = off;
\set SHOW_CONTEXT never
-- Compares a query's answer by several processes with a sequential scan's by one, with the leader reading too and
-- without; each plan must scan {t}_idx in parallel in the way asked for, and each run must have started workers. Only
-- the order of what is asked for can be told from an ordered query: processes break ties as they come.
CREATE FUNCTION harness.share(what text, query text, tabs text[], ways text[], ordered boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  way text;
  tab text;
  leads text;
  q text;
  want text;
  got text;
  plan jsonb;
  shared boolean;
  bad bigint := 0;
BEGIN
  FOREACH tab IN ARRAY tabs LOOP
    FOREACH way IN ARRAY ways LOOP
      q := harness.fill(query, tab, way);
      PERFORM harness.use('seq');
      want := harness.digest(q, ordered);
      PERFORM harness.use(way), set_config('max_parallel_workers_per_gather', '3', true),
              set_config('enable_gathermerge', ordered::text, true);
      FOREACH leads IN ARRAY '{on,off}'::text[] LOOP
        PERFORM set_config('parallel_leader_participation', leads, true);
        EXECUTE 'EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ' || q INTO plan;
        shared := plan @? format(CASE way
          WHEN 'bitmap' THEN '$.** ? (@."Node Type" == "Bitmap Heap Scan" && @."Parallel Aware" == true)
                              .Plans[*] ? (@."Node Type" == "Bitmap Index Scan" && @."Index Name" == "%1$s_idx")'
          ELSE '$.** ? (@."Node Type" == "%2$s" && @."Parallel Aware" == true && @."Index Name" == "%1$s_idx")' END,
          tab, CASE way WHEN 'indexonly' THEN 'Index Only Scan' ELSE 'Index Scan' END)::jsonpath
          AND plan @? '$.** ? (@."Workers Launched" >= 1)'
          AND NOT plan @? '$.** ? (@."Node Type" == "Seq Scan" || @."Node Type" == "Sort")';
        got := harness.digest(q, ordered);
        IF got IS DISTINCT FROM want OR shared IS NOT TRUE THEN
          bad := bad + 1;
          INSERT INTO harness.problem VALUES (what, q, way || ', leader ' || leads, want, got, ARRAY[plan::text]);
        END IF;
      END LOOP;
    END LOOP;
  END LOOP;
  INSERT INTO harness.result VALUES (what, 2 * cardinality(ways) * cardinality(tabs), bad);
END $$;
-- A table for each kind of lane, and for keys whose order only a function knows; each value some ten times. "value" is
-- the value that belongs to a number i.
CREATE TABLE kind (tab text, type text, value text);
INSERT INTO kind VALUES
  ('u32', 'int4', '{i}'),
  ('u64', 'int8', '{i} * 10000000000'),
  ('u128', 'uuid', $$lpad(to_hex({i}), 32, '0')::uuid$$),
  ('bytes', 'text COLLATE "C"', $$(repeat('https://www.example.com/', {i} % 40) || lpad(({i})::text, 5, '0'))$$),
  ('opaque', 'jsonb', $$jsonb_build_array({i} / 100, repeat('x', {i} % 50) || {i})$$);
\set ECHO queries
SELECT format('CREATE TABLE %I (v %s, id int) WITH (autovacuum_enabled = off, parallel_workers = 3)', tab, type),
       format('INSERT INTO %I SELECT %s, n FROM (SELECT abs(hashint4(n)) %% 2000, n FROM generate_series(1, 20000) n) s (i, n)',
              tab, replace(value, '{i}', 'i')),
       format('INSERT INTO %I SELECT NULL, n FROM generate_series(1, 500) n', tab),
       format('CREATE INDEX %I ON %I USING fpbtree (v)', tab || '_idx', tab),
       format('VACUUM ANALYZE %I', tab)
  FROM kind \gexec
\set ECHO all
CREATE FUNCTION harness.share_kinds(what text, condition text, ordered boolean DEFAULT false, ending text DEFAULT '')
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  k kind;
  filled text;
  number text;
BEGIN
  FOR k IN TABLE kind LOOP
    filled := condition;
    FOR number IN SELECT m[1] FROM regexp_matches(condition, '\{(\d+)\}', 'g') m LOOP
      filled := replace(filled, '{' || number || '}', format('%s', replace(k.value, '{i}', number)));
    END LOOP;
    PERFORM harness.share(format('%s: %s', what, k.tab),
                          format('SELECT v%s FROM {t} WHERE %s%s', CASE WHEN ordered THEN '' ELSE '{id}' END, filled, ending),
                          ARRAY[k.tab], CASE WHEN ordered THEN '{index,indexonly}' ELSE '{index,indexonly,bitmap}' END::text[],
                          ordered);
  END LOOP;
END $$;
SELECT FROM harness.share_kinds('range', 'v BETWEEN {100} AND {1500}');
SELECT FROM harness.share_kinds('half', 'v > {1000}');
SELECT FROM harness.share_kinds('one value', 'v = {777}');
SELECT FROM harness.share_kinds('nulls', 'v IS NULL');
SELECT FROM harness.share_kinds('not null', 'v IS NOT NULL');
SELECT FROM harness.share_kinds('nothing', 'v IN ({5000}, {5001}, {5002}, {5003}, {5004}, {5005}, {5006}, {5007})');
SELECT FROM harness.share_kinds('list', 'v IN ({3}, {4}, {250}, {1200}, {1201}, {1999}, {4000}, NULL)');
SELECT FROM harness.share_kinds('ascending', 'v < {1500}', true, ' ORDER BY v');
SELECT FROM harness.share_kinds('descending', 'v < {1500}', true, ' ORDER BY v DESC');
SELECT FROM harness.share_kinds('all, nulls first', 'v IS NULL OR v IS NOT NULL', true, ' ORDER BY v DESC');
SELECT FROM harness.share_kinds('list, descending', 'v IN ({3}, {4}, {250}, {1200}, {1201}, {1999})', true, ' ORDER BY v DESC');
SELECT FROM harness.share_kinds('first few', 'v > {20}', true, ' ORDER BY v LIMIT 25');
SELECT FROM harness.share_kinds('last few', 'v > {20}', true, ' ORDER BY v DESC LIMIT 25');
-- Several columns: conditions that jump from value to value of the first, on lanes and on bytes; INCLUDE.
CREATE TABLE pair (a int, b int, id int) WITH (autovacuum_enabled = off, parallel_workers = 3);
INSERT INTO pair SELECT n % 40, abs(hashint4(n)) % 300, n FROM generate_series(1, 20000) n;
CREATE TABLE mixed (a text COLLATE "C", b numeric, id int) WITH (autovacuum_enabled = off, parallel_workers = 3);
INSERT INTO mixed SELECT repeat('a', a), b, id FROM pair;
CREATE INDEX pair_idx ON pair USING fpbtree (a, b);
CREATE INDEX mixed_idx ON mixed USING fpbtree (a DESC, b) INCLUDE (id);
VACUUM ANALYZE pair, mixed;
SELECT FROM harness.share('second column', 'SELECT a, b{id} FROM {t} WHERE b = 17', '{pair,mixed}', '{index,indexonly,bitmap}');
SELECT FROM harness.share('second column, list', 'SELECT a, b{id} FROM {t} WHERE b = ANY (''{5,7,250,299,300}'')', '{pair,mixed}', '{index,indexonly}');
SELECT FROM harness.share('second column, range', 'SELECT a, b{id} FROM {t} WHERE b BETWEEN 5 AND 9', '{pair,mixed}', '{index,indexonly}');
SELECT FROM harness.share('two lists', 'SELECT a, b{id} FROM {t} WHERE a = ANY (''{3,5,17,39,41}'') AND b = ANY (''{0,100,101,200}'')', '{pair}', '{index,indexonly}');
SELECT FROM harness.share('both columns', 'SELECT a, b FROM {t} WHERE b < 100 ORDER BY a, b', '{pair}', '{index,indexonly}', true);
SELECT FROM harness.share('both columns, backward', 'SELECT a, b FROM {t} WHERE b < 100 ORDER BY a, b DESC', '{mixed}', '{index,indexonly}', true);
SELECT FROM harness.share('included', 'SELECT a, b, id FROM {t} WHERE a >= ''aaaaa'' AND id % 3 = 0', '{mixed}', '{indexonly}');
-- Plans.
SET max_parallel_workers_per_gather = 3;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM u32 WHERE v > 100;
EXPLAIN (COSTS OFF) SELECT count(id) FROM bytes WHERE v > 'https';
EXPLAIN (COSTS OFF) SELECT v FROM opaque WHERE v > '[1]' ORDER BY v DESC;
SET enable_bitmapscan = on;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT count(id) FROM u128 WHERE v > '00000000-0000-0000-0000-000000000100';
RESET enable_indexscan;
RESET enable_indexonlyscan;
SET enable_bitmapscan = off;
-- A scan that is begun again, in the same shared memory.
SET enable_material = off;
SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT count(*), sum(id) FROM u32 WHERE v > 99) s RIGHT JOIN (VALUES (1), (2), (3)) w (x) ON true;
SELECT * FROM (SELECT count(*), sum(id) FROM u32 WHERE v > 99) s RIGHT JOIN (VALUES (1), (2), (3)) w (x) ON true;
SELECT * FROM (SELECT count(*), sum(id) FROM bytes WHERE v > 'https') s RIGHT JOIN (VALUES (1), (2), (3)) w (x) ON true;
-- Begun again before its end, and with other keys each time.
CREATE FUNCTION found(low int, high int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  n bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM u32 WHERE v BETWEEN %s AND %s', low, high) INTO n;
  RETURN n;
END $$;
SELECT count(*) FILTER (WHERE found(i * 10, i * 10 + 25) = (SELECT count(*) FROM pair WHERE abs(hashint4(id)) % 2000 BETWEEN i * 10 AND i * 10 + 25)) AS right
  FROM generate_series(0, 30) i;
-- An error in one process ends all; the session and the index go on.
SELECT sum(1 / (v - 700)) FROM u32 WHERE v > 0;
SET parallel_leader_participation = off;
SELECT sum(1 / (length(v) - 29)) FROM bytes WHERE v > 'h';
CREATE FUNCTION slow(int) RETURNS boolean PARALLEL SAFE COST 1 LANGUAGE sql AS 'SELECT pg_sleep(0.01) IS NOT NULL';
SET statement_timeout = '300ms';
SELECT count(*) FROM u32 WHERE v > 0 AND slow(v);
RESET parallel_leader_participation;
SELECT count(*) FROM u32 WHERE v > 0 AND slow(v);
RESET statement_timeout;
SELECT count(*) FROM u32 WHERE v > 0;
-- No worker to be had: the leader reads alone.
SET max_parallel_workers = 0;
SELECT count(*), sum(id) FROM u32 WHERE v > 99;
RESET max_parallel_workers;
-- A transaction's own changes, serializable.
BEGIN ISOLATION LEVEL SERIALIZABLE;
DELETE FROM u32 WHERE v = 150;
INSERT INTO u32 SELECT 100 + n % 2, -n FROM generate_series(1, 3000) n;
SELECT FROM harness.share('changed', 'SELECT v{id} FROM {t} WHERE v BETWEEN 90 AND 200', '{u32}', '{index,indexonly,bitmap}');
COMMIT;
-- Dead entries, which processes mark while others read on; then VACUUM takes them, of four indexes at once.
CREATE INDEX u32_id ON u32 USING fpbtree (id);
CREATE INDEX u32_text ON u32 USING fpbtree ((v::text COLLATE "C"));
CREATE INDEX u32_both ON u32 USING fpbtree (id, v);
DELETE FROM u32 WHERE id % 3 = 0;
SELECT FROM harness.share('dead', 'SELECT v{id} FROM {t} WHERE v > 50', '{u32}', '{index,indexonly,bitmap}');
VACUUM (PARALLEL 2) u32;
SELECT FROM harness.share('vacuumed', 'SELECT v{id} FROM {t} WHERE v > 50', '{u32}', '{index,indexonly,bitmap}');
SELECT FROM unnest('{u32_idx,u32_id,u32_text,u32_both}'::text[]) i, harness.sound('vacuumed', i::regclass);
SELECT relname, reltuples FROM pg_class WHERE relname LIKE 'u32\_%' ORDER BY relname COLLATE "C";
DELETE FROM u32 WHERE id % 3 <> 0 AND v < 1900;
VACUUM (PARALLEL 3) u32;
SELECT FROM unnest('{u32_idx,u32_id,u32_text,u32_both}'::text[]) i, harness.sound('emptied', i::regclass);
SELECT relname, reltuples, pg_relation_size(oid) > 0 AS has_pages FROM pg_class WHERE relname LIKE 'u32\_%' ORDER BY relname COLLATE "C";
SELECT FROM harness.share('emptied', 'SELECT v{id} FROM {t} WHERE v IS NOT NULL', '{u32}', '{index,indexonly,bitmap}');
SELECT * FROM harness.summary;
SELECT test, left(query, 200) AS query, mode, want, got FROM harness.problem ORDER BY test, query, mode LIMIT 20;
DROP FUNCTION found, slow, harness.share, harness.share_kinds;
DO $$ BEGIN EXECUTE (SELECT 'DROP TABLE pair, mixed, kind, ' || string_agg(DISTINCT tab, ', ') FROM kind); END $$;
