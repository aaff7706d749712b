-- Queries that leave out leading columns: the index is chosen without any setting where it is cheaper to jump from
-- value to value than to read the table, and not where it is not. Schemas fp and bt hold the same tables; bt's have no
-- index.
SET client_min_messages = warning;
SET max_parallel_workers_per_gather = 0;
CREATE SCHEMA fp;
CREATE SCHEMA bt;
CREATE TABLE fp.t AS
  SELECT i % 100 AS a, hashint4(i) & 16383 AS b, i AS d, ('n' || i % 100) COLLATE "C" AS name, ('city ' || i % 90) AS city,
         (i % 3)::int2 AS e, NULLIF(i % 50, 7) AS n, date '2020-01-01' + i % 60 AS day, md5(i::text) AS hex
    FROM generate_series(1, 200000) i;
CREATE TABLE bt.t AS TABLE fp.t;
CREATE INDEX t_ab ON fp.t USING fpbtree (a, b);
CREATE INDEX t_nameb ON fp.t USING fpbtree (name, (b + 1));
CREATE INDEX t_cityb ON fp.t USING fpbtree (city, (b + 2), e);
CREATE INDEX t_ehex ON fp.t USING fpbtree (e DESC, hex COLLATE "C");
CREATE INDEX t_nd ON fp.t USING fpbtree (n NULLS FIRST, d);
CREATE INDEX t_dayeb ON fp.t USING fpbtree (day, e, (b + 3));
-- A leading column with as many values as there are rows.
CREATE TABLE fp.many AS SELECT i AS id, hashint4(i) & 16383 AS b FROM generate_series(1, 200000) i;
CREATE TABLE bt.many AS TABLE fp.many;
CREATE INDEX many_idb ON fp.many USING fpbtree (id, b);
CREATE INDEX many_hexb ON fp.many USING fpbtree (md5(id::text), (b + 1));
VACUUM ANALYZE fp.t, bt.t, fp.many, bt.many;
CREATE FUNCTION bt.plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('search_path', 'fp', true);
  RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query;
END $$;
CREATE FUNCTION bt.answer(schema text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  answer text;
BEGIN
  PERFORM set_config('search_path', schema, true);
  EXECUTE format('SELECT format(''%%s rows, %%s'', count(*), md5(string_agg(s::text, %L ORDER BY s::text))) FROM (%s) s', E'\n', query) INTO answer;
  RETURN answer;
END $$;
-- The plan, and whether the rows are those of a table without an index.
CREATE FUNCTION bt.skip(query text) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT bt.plan(query)
  UNION ALL
  SELECT CASE WHEN bt.answer('fp', query) = bt.answer('bt', query) THEN 'same ' || split_part(bt.answer('bt', query), ',', 1) ELSE 'OTHER ROWS' END
$$;
-- One column left out: a number, a byte string, a text of a language's order, a descending one, one with NULLs.
SELECT bt.skip('SELECT a, b FROM t WHERE b = 77');
-- A bitmap scan costs about the same.
SET enable_bitmapscan = off;
SELECT bt.skip('SELECT d FROM t WHERE b = 77');
RESET enable_bitmapscan;
SELECT bt.skip('SELECT d FROM t WHERE b + 1 = 77');
SELECT bt.skip('SELECT d FROM t WHERE b + 2 = 77');
SELECT bt.skip('SELECT d FROM t WHERE hex COLLATE "C" = md5(''77'')');
SELECT bt.skip('SELECT d FROM t WHERE hex COLLATE "C" LIKE ''abc4%''');
SELECT bt.skip('SELECT n FROM t WHERE d = 77');
SELECT bt.skip('SELECT n FROM t WHERE d BETWEEN 77 AND 99');
-- The left-out column restricted by an inequality, or not NULL; more columns left out, one between two with conditions.
SELECT bt.skip('SELECT d FROM t WHERE a > 50 AND b = 77');
SELECT bt.skip('SELECT d FROM t WHERE name >= ''n2'' AND name < ''n5'' AND b + 1 = 78');
SELECT bt.skip('SELECT n FROM t WHERE n IS NOT NULL AND d = 7777');
SELECT bt.skip('SELECT d FROM t WHERE b + 3 = 77');
SELECT bt.skip('SELECT d FROM t WHERE day = ''2020-01-31'' AND b + 3 = 77');
SELECT bt.skip('SELECT d FROM t WHERE e = 1 AND b + 3 = 77');
-- Lists, and NULL.
SELECT bt.skip('SELECT a, b FROM t WHERE b = ANY (''{5,77,16000,NULL}'')');
SELECT bt.skip('SELECT n, d FROM t WHERE d = ANY (''{5,77,16000}'') AND n <> 7');
SELECT bt.skip('SELECT d FROM t WHERE b IS NULL');
-- A join's argument.
SELECT bt.skip('SELECT t.a, x FROM generate_series(1, 3) x JOIN t ON t.b = x * 1000');
-- Every place of the leading column would have to be looked at: the whole index is read, as it is smaller than the table.
SELECT bt.skip('SELECT id FROM many WHERE b = 77');
SELECT bt.skip('SELECT id FROM many WHERE b + 1 = 77');
SELECT bt.skip('SELECT id FROM many WHERE id > 50 AND b = 77');
-- Of few of them it is not.
SELECT bt.skip('SELECT id FROM many WHERE id BETWEEN 100 AND 900 AND b = 29');
-- What nothing is known about is not hoped for.
CREATE TABLE fp.unknown AS SELECT a, b, d FROM fp.t;
CREATE INDEX unknown_ab ON fp.unknown USING fpbtree (a, b);
CREATE TABLE bt.unknown AS TABLE fp.unknown;
SELECT bt.skip('SELECT d FROM unknown WHERE b = 77') AS before_analyze;
VACUUM ANALYZE fp.unknown;
SET enable_bitmapscan = off;
SELECT bt.skip('SELECT d FROM unknown WHERE b = 77') AS after_analyze;
RESET enable_bitmapscan;
-- A skipping scan costs and reads a small part of what a scan of the whole index does.
CREATE FUNCTION bt.measured(what text, query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  SET LOCAL search_path = fp;
  EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
  RETURN CASE what WHEN 'cost' THEN plan #>> '{0,Plan,Total Cost}'
              ELSE ((plan #>> '{0,Plan,Shared Hit Blocks}')::int + (plan #>> '{0,Plan,Shared Read Blocks}')::int)::text END::float8;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT what, bt.measured(what, format('SELECT e, hex COLLATE "C" FROM t WHERE hex COLLATE "C" = md5(%L)', '77'))
             < bt.measured(what, 'SELECT e, hex COLLATE "C" FROM t ORDER BY e DESC, hex COLLATE "C"') / 20 AS small
  FROM (VALUES ('cost'), ('pages')) v(what);
DROP SCHEMA fp, bt CASCADE;
