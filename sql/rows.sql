-- Rows of index-only scans that come from the index's pages with no tuple between: the same as the table has, in the
-- index's order, whatever is visible, and wherever the executor goes on.
CREATE SCHEMA r;
SET search_path = r, public;
SET nodes.name = 'FpbtreeRows';
SET nodes.ordered = on;
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set nodes :srcdir '/sql/nodes.inc'
\i :nodes
\set ECHO all
SET TimeZone = 'UTC';

CREATE DOMAIN short AS text COLLATE "C" CHECK (length(value) < 100);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE t (k int NOT NULL, o bool, c "char", s int2, i int4, b int8, f float4, e float8, d date, ts timestamp, tz timestamptz, ti time,
                u uuid, m macaddr, m8 macaddr8, l pg_lsn, n numeric, v interval, x text COLLATE "C", y text, p bpchar(7), a int[], h short, w mood,
                j jsonb, by bytea, na name, z timetz, ip inet) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, NULLIF(i % 5, 4) > 1, NULLIF(i % 120 - 60, 3)::"char", NULLIF(i % 301 - 150, 3)::int2, NULLIF(i % 997 - 400, 3),
    CASE WHEN i % 50 > 0 THEN (i::bigint * 7919) % 1000003 * 9007199254 - 4503599627370496 END,
    CASE i % 40 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 0 WHEN 3 THEN NULL WHEN 4 THEN '-Infinity' ELSE (i % 500 - 250) / 7.0 END::float4,
    CASE i % 40 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 0 WHEN 3 THEN NULL WHEN 4 THEN 'Infinity' ELSE (i % 500 - 250) / 7.0 END::float8,
    date '1999-12-25' + NULLIF(i % 500, 7), timestamp '1999-12-31' + i % 700 * interval '7 hours', timestamptz '1999-12-31 UTC' + NULLIF(i % 600, 5) * interval '3 s',
    time '00:00' + i % 1000 * interval '80 s', NULLIF(md5((i % 400)::text), md5('3'))::uuid, left(md5((i % 300)::text), 12)::macaddr,
    left(md5((i % 300)::text), 16)::macaddr8, '0/0'::pg_lsn + i % 600 * 1000000007::numeric, CASE WHEN i % 30 > 0 THEN round((i % 600 - 300) / 7.0, i % 6) END,
    (i % 400 - 200) * (ARRAY['1 day', '24 hours', '1 month']::interval[])[1 + i % 3], NULLIF(left(md5((i % 900)::text), i % 14), 'c'),
    CASE WHEN i % 20 > 0 THEN 'Word ' || i % 700 || repeat(' long', i % 50) END, left(md5((i % 300)::text), i % 7), ARRAY[i % 7, NULLIF(i % 30, 3)],
    left(md5((i % 300)::text), 3), (enum_range(NULL::mood))[1 + i % 3], jsonb_build_object('n', i % 20, 't', md5((i % 10)::text)),
    decode(left(md5((i % 500)::text), 2 * (i % 9)), 'hex'), 'name_' || i % 300, ('00:00:00+0' || i % 9)::timetz, '10.0.0.0'::inet + i % 600
  FROM generate_series(1, 4000) i;
-- An index of each column, ascending or descending, and of several.
SELECT format('CREATE INDEX t_%1$s ON t USING fpbtree (%1$I %2$s)', attname, (ARRAY['', 'DESC', 'NULLS FIRST', 'DESC NULLS LAST'])[1 + attnum % 4])
  FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum \gexec
CREATE INDEX t_sdo ON t USING fpbtree (s DESC NULLS LAST, d DESC, o);
CREATE INDEX t_fe ON t USING fpbtree (f, e DESC);
CREATE INDEX t_usm ON t USING fpbtree (u, s);
CREATE INDEX t_ix ON t USING fpbtree (i, x);
CREATE INDEX t_nx ON t USING fpbtree (n, x NULLS FIRST);
CREATE INDEX t_cne ON t USING fpbtree (c, n DESC, e, x DESC);
CREATE INDEX t_yib ON t USING fpbtree (y, i DESC) INCLUDE (b, n, x);
CREATE INDEX t_kna ON t USING fpbtree (k) INCLUDE (na);
CREATE INDEX t_mod ON t USING fpbtree ((k % 10), i);
CREATE INDEX t_part ON t USING fpbtree (s, i, m8) WHERE s > 20;
VACUUM (FREEZE, ANALYZE) t;

CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, query text);
-- Each type, in both directions; those of which equal values may look different, in no order.
INSERT INTO queries (query)
  SELECT format('SELECT %1$I FROM t ORDER BY %1$I %2$s', attname, direction)
    FROM pg_attribute, unnest('{ASC,DESC}'::text[]) direction WHERE attrelid = 't'::regclass AND attnum > 0 AND attname NOT IN ('f', 'e', 'n', 'v', 'z') ORDER BY attnum;
INSERT INTO queries (query)
  SELECT format('SELECT * FROM (SELECT %1$I::text AS value, count(*) FROM t GROUP BY %1$I::text) q ORDER BY value COLLATE "C"', attname)
    FROM pg_attribute WHERE attrelid = 't'::regclass AND attname IN ('f', 'e', 'n', 'v', 'z') ORDER BY attnum;
INSERT INTO queries (query) VALUES
  ('SELECT s, d, o FROM t ORDER BY s DESC NULLS LAST, d DESC, o'),
  ('SELECT o, s FROM t ORDER BY s NULLS FIRST, d, o DESC'),
  ('SELECT d + 1, o IS NULL, s::text || d FROM t ORDER BY s DESC NULLS LAST, d DESC, o'),
  ('SELECT 1 FROM t WHERE s BETWEEN -100 AND 100 ORDER BY s'),
  ('SELECT d FROM t WHERE s IN (1, 5, 7, 20, 77, 3000) AND o ORDER BY s DESC NULLS LAST, d DESC'),
  ('SELECT f::text, e::text FROM t ORDER BY f, e DESC, f::text COLLATE "C", e::text COLLATE "C"'),
  ('SELECT s, u FROM t WHERE u > ''70000000-0000-0000-0000-000000000000'' ORDER BY u, s'),
  ('SELECT i, x FROM t ORDER BY i, x'),
  ('SELECT x, i FROM t WHERE i > 0 AND x > ''3'' ORDER BY i DESC, x DESC'),
  ('SELECT n, x FROM t ORDER BY n, x NULLS FIRST, n::text COLLATE "C"'),
  ('SELECT c, n, e, x FROM t ORDER BY c, n DESC, e, x DESC, n::text COLLATE "C", e::text COLLATE "C"'),
  ('SELECT e, c, n FROM t WHERE c > ''A'' AND n < 0 ORDER BY c, n DESC, e, n::text COLLATE "C", e::text COLLATE "C"'),
  ('SELECT n, y, b, x, i FROM t ORDER BY y, i DESC, b'),
  ('SELECT x, b FROM t WHERE y >= ''Word 3'' AND y < ''Word 5'' ORDER BY y, i DESC, b, x'),
  ('SELECT y FROM t WHERE y IS NULL'),
  ('SELECT na FROM t ORDER BY k'),
  ('SELECT k % 10, i FROM t ORDER BY k % 10, i'),
  ('SELECT s, i, m8 FROM t WHERE s > 20 ORDER BY s, i, m8'),
  ('SELECT s, i FROM t WHERE s > 30 AND i % 3 = 1 ORDER BY s, i'),
  ('SELECT k, ctid > ''(0,0)'' FROM t ORDER BY k'),
  ('SELECT k FROM t WHERE k > 100 AND s % 2 = 0 ORDER BY k'),
  ('SELECT d FROM t WHERE s > -100 AND d <> ''2000-01-01'' AND NOT o ORDER BY s DESC NULLS LAST, d DESC'),
  ('SELECT y FROM t WHERE y > ''Word 2'' AND length(x) > 3 AND (n IS NULL OR n > 3) ORDER BY y'),
  ('SELECT 1 FROM t WHERE i % 7 = 3'),
  ('SELECT k FROM t WHERE k > 5 AND k = (SELECT max(q.i) + t.k - 596 FROM t q) ORDER BY k'),
  ('SELECT k FROM t WHERE k > 5 AND k IN (SELECT i FROM t q WHERE q.i > 0) IS NOT FALSE ORDER BY k'),
  ('SELECT k FROM t WHERE k > 5 AND (SELECT count(*) > 3 FROM queries) ORDER BY k'),
  ('SELECT k FROM t ORDER BY k LIMIT 3'),
  ('SELECT k FROM t ORDER BY k DESC OFFSET 3990'),
  ('SELECT k FROM t WHERE k > (SELECT max(i) FROM t) ORDER BY k'),
  ('SELECT i, count(*) FROM t GROUP BY i ORDER BY i'),
  ('SELECT x, max(length(x)), array_agg(x) FROM t GROUP BY x ORDER BY x'),
  ('SELECT DISTINCT i + 1 FROM t ORDER BY 1'),
  ('SELECT lag(x) OVER w || ''/'' || first_value(x) OVER w FROM t WINDOW w AS (ORDER BY x ROWS 3 PRECEDING)'),
  ('SELECT q.k, q.s FROM t q WHERE EXISTS (SELECT FROM t w WHERE w.i = q.k AND w.i > 0) ORDER BY k'),
  ('SELECT a.i, b.i FROM t a JOIN t b ON a.i = b.i WHERE a.i BETWEEN 5 AND 90 ORDER BY a.i'),
  ('SELECT a.x, b.x FROM t a JOIN t b ON a.x = b.x ORDER BY a.x'),
  ('SELECT a.k, b.i FROM t a LEFT JOIN t b ON a.k = b.i ORDER BY a.k, b.i'),
  ('SELECT g, (SELECT string_agg(q.s::text, '','') FROM (SELECT s FROM t WHERE s > 140 ORDER BY s) q WHERE q.s > g) FROM generate_series(130, 150) g'),
  ('SELECT k FROM t WHERE k < 200 UNION ALL SELECT i FROM t WHERE i < -200 ORDER BY 1'),
  ('WITH q AS MATERIALIZED (SELECT x FROM t ORDER BY x) SELECT q.x FROM q, q w WHERE q.x = w.x ORDER BY 1');
SELECT n, same(query), query FROM queries ORDER BY n;
SELECT plan('SELECT y FROM t ORDER BY y');
SELECT plan('SELECT y FROM t ORDER BY y DESC');
SELECT plan('SELECT b, x FROM t WHERE y > ''Word'' ORDER BY y LIMIT 5');
-- Few rows are not worth it, nor are rows that have to be looked up in the table; one setting switches it off.
SELECT plan('SELECT k FROM t WHERE k < 10');
SELECT plan('SELECT k FROM t ORDER BY k', way => 'index');

-- In several processes.
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;
SELECT plan('SELECT i FROM t ORDER BY i');
SELECT n, same(query), query FROM queries WHERE query ~ 'ORDER BY [a-z]+(| DESC)$|GROUP BY|JOIN' ORDER BY n;
RESET parallel_setup_cost; RESET parallel_tuple_cost; RESET min_parallel_index_scan_size; SET max_parallel_workers_per_gather = 0;
-- With expressions compiled.
SET jit_above_cost = 0; SET jit = on;
SELECT n, same(query) FROM queries WHERE query ~ '::text|[+%]' ORDER BY n;
RESET jit_above_cost; RESET jit;

-- Some rows are deleted, changed, and not there yet.
DELETE FROM t WHERE k % 7 = 0;
UPDATE t SET i = i + 1 WHERE k % 11 = 0;
INSERT INTO t (k, i, s, x, y) SELECT 5000 + i, i, i, 'new ' || i, 'New ' || i FROM generate_series(1, 100) i;
BEGIN;
DELETE FROM t WHERE k BETWEEN 100 AND 900;
SELECT n, same(query) FROM queries ORDER BY n;
ROLLBACK;
SELECT n, same(query) FROM queries WHERE n % 3 = 0 ORDER BY n;
VACUUM t;
SELECT n, same(query) FROM queries WHERE n % 3 = 1 ORDER BY n;
DELETE FROM t WHERE k BETWEEN 2000 AND 2100;
SELECT n, same(query) FROM queries WHERE n % 3 = 2 ORDER BY n;
VACUUM ANALYZE t;

-- Cursors, forwards and backwards, from either end, over pages of which not all rows are visible.
DELETE FROM t WHERE k BETWEEN 2500 AND 2600;
CREATE FUNCTION walk(query text, way text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  c refcursor;
  found text[] := '{}';
  row record;
  step text;
BEGIN
  PERFORM go(way);
  OPEN c SCROLL FOR EXECUTE query;
  FOREACH step IN ARRAY string_to_array('next,next,prior,next,relative 700,prior,prior,relative -300,relative 1500,relative -1,last,next,prior,relative -900,prior,first,prior,next,absolute 2000,prior,absolute -3,next,next,next,prior,prior,absolute 900,relative -899,prior,next', ',') LOOP
    CASE
      WHEN step = 'next' THEN FETCH NEXT FROM c INTO row;
      WHEN step = 'prior' THEN FETCH PRIOR FROM c INTO row;
      WHEN step = 'first' THEN FETCH FIRST FROM c INTO row;
      WHEN step = 'last' THEN FETCH LAST FROM c INTO row;
      WHEN step ~ 'relative' THEN FETCH RELATIVE split_part(step, ' ', 2)::int FROM c INTO row;
      ELSE FETCH ABSOLUTE split_part(step, ' ', 2)::int FROM c INTO row;
    END CASE;
    found := found || coalesce(row::text, 'none');
  END LOOP;
  CLOSE c;
  PERFORM go('any');
  RETURN found::text;
END $$;
SELECT query, (SELECT bool_or(line ~ 'FpbtreeRows') FROM plan(query) line) AS node, walk(query, 'node') = walk(query, 'table') AS same
  FROM unnest(ARRAY['SELECT k FROM t ORDER BY k', 'SELECT k FROM t ORDER BY k DESC', 'SELECT y FROM t ORDER BY y', 'SELECT s, d, o FROM t ORDER BY s DESC NULLS LAST, d DESC, o']) query;
-- A cursor that nobody has said to be for both directions, and one that outlives its transaction.
SET enable_seqscan = off; SET enable_sort = off;
BEGIN;
DECLARE c CURSOR FOR SELECT k FROM t ORDER BY k;
FETCH 2 FROM c;
FETCH BACKWARD 1 FROM c;
MOVE 1000 IN c;
FETCH BACKWARD 2 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT x FROM t WHERE x > 'n' ORDER BY x;
FETCH 1 FROM h;
COMMIT;
FETCH 2 FROM h;
CLOSE h;
-- Rows that are locked are not the node's, and those of a table that is joined to what is changed neither.
SELECT plan('SELECT k FROM t ORDER BY k FOR UPDATE');
SELECT plan('UPDATE queries q SET query = q.query FROM t WHERE t.k = q.n');
-- Prepared, with a parameter and without an index any more.
PREPARE q(int) AS SELECT count(*), sum(k) FROM (SELECT k FROM t WHERE k > $1 ORDER BY k OFFSET 0) q;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE q(100);
EXECUTE q(100); EXECUTE q(NULL); EXECUTE q(4000);
BEGIN;
DROP INDEX t_k, t_kna;
EXECUTE q(100);
ROLLBACK;
EXECUTE q(100);
RESET plan_cache_mode;
-- Partitions, inheritance, a view that keeps rows to itself, and row security.
CREATE TABLE parts (k int, v int) PARTITION BY RANGE (k);
CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE parts_b (v int, k int);
ALTER TABLE parts ATTACH PARTITION parts_b FOR VALUES FROM (1000) TO (3000);
CREATE INDEX ON parts USING fpbtree (k, v);
INSERT INTO parts SELECT i, -i FROM generate_series(0, 2999) i;
VACUUM (FREEZE, ANALYZE) parts;
SELECT plan('SELECT k, v FROM parts ORDER BY k DESC, v DESC');
SELECT count(*), md5(string_agg(k || ' ' || v, ',')) FROM (SELECT k, v FROM parts ORDER BY k DESC, v DESC OFFSET 0) q;
CREATE VIEW barrier WITH (security_barrier) AS SELECT k, v FROM parts_b WHERE k > 1500;
SELECT plan('SELECT v, k FROM barrier WHERE k < 2500 ORDER BY k', 'VERBOSE, ');
SELECT count(*), sum(v) FROM (SELECT v, k FROM barrier WHERE k < 2500 ORDER BY k OFFSET 0) q;
-- What EXPLAIN says of rows.
CREATE FUNCTION analyzed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
    CONTINUE WHEN line ~ 'Index Searches';
    RETURN NEXT replace(line, '.00', '');
  END LOOP;
END $$;
SELECT analyzed('SELECT k FROM parts_b WHERE k > 1500 ORDER BY k');
DELETE FROM parts_b WHERE k = 2000;
SELECT analyzed('SELECT k FROM parts_b WHERE k > 1500 ORDER BY k');
DROP SCHEMA r CASCADE;
