-- Comparisons of rows: from 18 on they are index conditions, before that the server takes them for filters. The rows
-- found are those that a sequential scan finds, whatever the columns' order, direction and NULLs.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set planner :srcdir '/sql/planner.inc'
\i :planner
\set ECHO all
SET jit = off;
SELECT bt.both($$
  CREATE TABLE r (id int4 NOT NULL, a int4, b int2, c text COLLATE "C", d numeric, t timestamp);
  INSERT INTO r SELECT i, NULLIF(i % 40, 7) - 20, NULLIF(hashint4(i) & 63, 11) - 32, NULLIF('t' || (hashint4(-i) & 31), 't9'),
    NULLIF(i % 33, 3) / 4.0, timestamp '2024-03-31' + i % 17 * interval '1 hour' FROM generate_series(1, 6000) i;
  CREATE INDEX r_ab ON r USING {method} (a, b);
$$);
VACUUM ANALYZE fp.r, bt.r;
CREATE FUNCTION bt.is_condition(query text) RETURNS bool LANGUAGE sql AS
  $$ SELECT bool_or(plan ~ 'Index Cond: .*ROW') FROM bt.plan('fp', query) $$;
SELECT bt.is_condition(query) = (current_setting('server_version_num')::int >= 180000) AS as_the_server_wants,
       bt.answer('fp', query) = bt.answer('bt', query) AS same_rows, query
  FROM (VALUES ('SELECT id, a, b FROM r WHERE (a, b) > (18, 20) ORDER BY a, b, id'),
               ('SELECT a, b FROM r WHERE (a, b) > (-5, 7) ORDER BY a, b LIMIT 10'),
               ('SELECT a, b FROM r WHERE (a, b) < (-5, 7) ORDER BY a DESC, b DESC LIMIT 10'),
               ('SELECT id FROM r WHERE (a, b) >= (3, 30) AND (a, b) <= (4, -31) ORDER BY id'),
               ('SELECT id FROM r WHERE (a, b, id) < (-20, -31, 2500) ORDER BY id'),
               ('SELECT max(a) FROM r WHERE (a, b) < (-19, NULL)')) v(query);
-- A page of a list that is read page by page takes few buffers however many rows have the first column's value.
CREATE FUNCTION bt.buffers(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  PERFORM set_config('search_path', 'fp', true);
  EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) ' || query INTO plan;
  RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::int + (plan #>> '{0,Plan,Shared Read Blocks}')::int;
END $$;
CREATE TABLE fp.p AS SELECT i / 100000 AS a, i AS b FROM generate_series(1, 100000) i;
CREATE INDEX p_ab ON fp.p USING fpbtree (a, b);
VACUUM ANALYZE fp.p;
SELECT bt.buffers('SELECT a, b FROM p WHERE (a, b) > (0, 70000) ORDER BY a, b LIMIT 10') < 20
       OR current_setting('server_version_num')::int < 180000 AS few;
-- Every kind of index, operator, argument and way to scan.
CREATE FUNCTION bt.compare(indexed text, "columns" text, arguments text[]) RETURNS TABLE (checks int, wrong int, conditions int)
LANGUAGE plpgsql AS $$
DECLARE
  operator text;
  argument text;
  query text;
  way text;
  wanted text;
BEGIN
  checks := 0;
  wrong := 0;
  conditions := 0;
  SET LOCAL search_path = fp;
  EXECUTE format('CREATE INDEX r_rows ON r USING fpbtree (%s)', indexed);
  SET LOCAL enable_sort = off;
  FOREACH operator IN ARRAY '{<,<=,>,>=}'::text[] LOOP
    FOREACH argument IN ARRAY arguments LOOP
      query := format('SELECT %s FROM r WHERE (%s) %s (%s)', "columns", "columns", operator, argument);
      SET LOCAL enable_seqscan = on;
      SET LOCAL enable_indexscan = off;
      SET LOCAL enable_indexonlyscan = off;
      SET LOCAL enable_bitmapscan = off;
      EXECUTE format('SELECT md5(string_agg(s::text, %L ORDER BY s::text)) FROM (%s) s', ';', query) INTO wanted;
      SET LOCAL enable_seqscan = off;
      FOREACH way IN ARRAY '{indexscan,indexonlyscan,bitmapscan}'::text[] LOOP
        PERFORM set_config('enable_' || way, 'on', true);
        PERFORM set_config('enable_indexscan', (way <> 'bitmapscan')::text, true);
        checks := checks + 2;
        wrong := wrong + bt.differs(query, wanted)
                       + bt.differs(query || ' ORDER BY ' || replace(replace(indexed, ', ', ' DESC, ') || ' DESC', 'DESC DESC', 'ASC'), wanted);
        conditions := conditions + COALESCE(bt.is_condition(query), false)::int;
        PERFORM set_config('enable_' || way, 'off', true);
      END LOOP;
    END LOOP;
  END LOOP;
  DROP INDEX r_rows;
  RETURN NEXT;
END $$;
CREATE FUNCTION bt.differs(query text, wanted text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  got text;
BEGIN
  EXECUTE format('SELECT md5(string_agg(s::text, %L ORDER BY s::text)) FROM (%s) s', ';', query) INTO got;
  RETURN (got IS DISTINCT FROM wanted)::int;
END $$;
DROP INDEX fp.r_ab;
SELECT indexed, cols, checks, wrong, (conditions > 0) = (current_setting('server_version_num')::int >= 180000) AS as_the_server_wants
  FROM (VALUES
    (1, 'a, b', 'a, b', '{"0, 0","0::int8, 100000","10000000000, 0","-5, 7::int8","18, NULL","NULL, 3","-20, -32","19, 31"}'::text[]),
    (2, 'a DESC, b DESC', 'a, b', '{"0, 0","0::int8, 100000","-10000000000, 0","-5, 7::int8","18, NULL","-20, -32","19, 31"}'),
    (3, 'a, b DESC', 'a, b', '{"0, 0","0, 100000","-5, 7","18, NULL"}'),
    (4, 'a DESC, b', 'a, b', '{"0, 0","-5, 7","18, NULL"}'),
    (5, 'b, a', 'a, b', '{"0, 0","-5, 7","18, NULL"}'),
    (6, 'id, a, b', 'a, b', '{"0, 0","-5, 7"}'),
    (7, 'a, id, b', 'a, b', '{"0, 0","-5, 7"}'),
    (8, 'a, b, id', 'a, b, id', '{"0, 0, 0","-5, 7, 3000","-5, 7, 3000000000","18, 2, NULL"}'),
    (9, 't, a', 't, a', '{"''2024-03-31 03:00'', 0","timestamptz ''2024-03-31 03:00'', 5","date ''2024-03-31'', 5"}'),
    (10, 'c, d', 'c, d', '{"''t3'', 2.5","''t3'', NULL","NULL, 2.5","'''', 0","''t9'', 7.75"}'),
    (11, 'd DESC, c', 'd, c', '{"2.5, ''t3''","8, ''''"}'),
    (12, 'd, c DESC, a', 'd, c, a', '{"2.5, ''t3'', 4","1.25, ''t10'', -4"}'),
    (13, 'a, c', 'a, c', '{"0, ''t3''","7::int8, ''t10''","-5, ''t10''"}'))
       v(n, indexed, cols, arguments), bt.compare(indexed, cols, arguments) ORDER BY n;
DROP SCHEMA fp, bt CASCADE;
