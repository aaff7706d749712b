-- The ways an executor drives a scan: cursors, marks, rescans, limits, snapshots, and tables that
-- change while they are scanned.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE TABLE s (id int, v int, w int) WITH (autovacuum_enabled = off);
INSERT INTO s SELECT i, hashint4(i) % 2000, i % 7 FROM generate_series(1, 20000) i;
INSERT INTO s SELECT i, NULL, 1 FROM generate_series(20001, 20100) i;
CREATE INDEX s_idx ON s USING fpbtree (v);
VACUUM ANALYZE s;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET jit = off;
SET max_parallel_workers_per_gather = 0;
-- Cursors: to and fro, to places, past the ends and back, with and without the heap.
CREATE TABLE small (id int, v int);
INSERT INTO small SELECT i, i / 2 FROM generate_series(0, 4999) i ORDER BY hashint4(i);
CREATE INDEX small_idx ON small USING fpbtree (v);
CREATE FUNCTION walk(query text, expected text) RETURNS TABLE (step text, ok boolean) LANGUAGE plpgsql AS $$
DECLARE
  c refcursor;
  rows int[];
  at bigint := 0; -- 0 is before the first row
  last bigint;
  move text;
  target bigint;
  got int;
BEGIN
  EXECUTE expected INTO rows;
  last := cardinality(rows);
  OPEN c SCROLL FOR EXECUTE query;
  FOREACH move IN ARRAY '{NEXT,NEXT,PRIOR,PRIOR,PRIOR,NEXT,ABSOLUTE 700,RELATIVE -1,NEXT,LAST,NEXT,NEXT,PRIOR,PRIOR,RELATIVE -900,RELATIVE 1500,FIRST,PRIOR,NEXT,ABSOLUTE -1,ABSOLUTE -1200,RELATIVE 0,ABSOLUTE 999999,PRIOR,RELATIVE 1,RELATIVE -1,ABSOLUTE 1,RELATIVE 2000,RELATIVE -1999,ABSOLUTE 0,NEXT}'::text[] LOOP
    target := CASE split_part(move, ' ', 1)
      WHEN 'NEXT' THEN at + 1 WHEN 'PRIOR' THEN at - 1 WHEN 'FIRST' THEN 1 WHEN 'LAST' THEN last
      WHEN 'RELATIVE' THEN at + split_part(move, ' ', 2)::int
      ELSE CASE WHEN split_part(move, ' ', 2)::int < 0 THEN last + 1 + split_part(move, ' ', 2)::int ELSE split_part(move, ' ', 2)::int END END;
    at := greatest(0, least(last + 1, target));
    EXECUTE format('FETCH %s FROM %I', move, c) INTO got;
    step := move;
    ok := got IS NOT DISTINCT FROM rows[at];
    RETURN NEXT;
  END LOOP;
  CLOSE c;
END $$;
SELECT way, direction, count(*) AS moves, count(*) FILTER (WHERE ok) AS right, string_agg(step, ',') FILTER (WHERE ok IS NOT TRUE) AS wrong
  FROM (VALUES ('index', 'true'), ('index only', 'false')) v (way, off), (VALUES ('ASC'), ('DESC')) d (direction),
       LATERAL (SELECT set_config('enable_indexonlyscan', (way = 'index only')::text, false)) c,
       LATERAL walk(format('SELECT v FROM small WHERE v >= 100 ORDER BY v %s', direction),
                    format('SELECT array_agg(v ORDER BY v %s) FROM small WHERE v >= 100', direction)) w
 GROUP BY 1, 2 ORDER BY 1, 2;
RESET enable_indexonlyscan;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT v FROM small WHERE v BETWEEN 10 AND 12 ORDER BY v;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
FETCH FORWARD 3 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE LAST FROM c;
FETCH PRIOR FROM c;
FETCH ABSOLUTE -2 FROM c;
ROLLBACK;
-- A cursor on an empty range, on nothing at all, on an array.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT v FROM small WHERE v BETWEEN 12 AND 10 ORDER BY v;
FETCH NEXT FROM c;
FETCH PRIOR FROM c;
CLOSE c;
DECLARE c SCROLL CURSOR FOR SELECT v FROM small WHERE v = ANY ('{7,3,NULL,5000,3,2499}') ORDER BY v;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 4 FROM c;
ROLLBACK;
-- A cursor sees what was there when it was opened, whatever happens to the index under it.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT v FROM small WHERE v > 1000 ORDER BY v;
DECLARE d SCROLL CURSOR FOR SELECT v FROM small WHERE v > 1000 ORDER BY v DESC;
MOVE 500 FROM c;
MOVE 500 FROM d;
INSERT INTO small SELECT i, i % 2600 FROM generate_series(1, 20000) i;
DELETE FROM small WHERE v BETWEEN 1200 AND 1300;
FETCH 2 FROM c;
FETCH 2 FROM d;
FETCH BACKWARD 3 FROM c;
FETCH BACKWARD 3 FROM d;
CREATE FUNCTION passed(c refcursor) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
  forward int;
  backward int;
BEGIN
  MOVE FORWARD ALL FROM c;
  GET DIAGNOSTICS forward = ROW_COUNT;
  MOVE BACKWARD ALL FROM c;
  GET DIAGNOSTICS backward = ROW_COUNT;
  RETURN ARRAY[forward, backward];
END $$;
SELECT passed('c') AS c, passed('d') AS d;
ROLLBACK;
SELECT harness.sound('cursors', 'small_idx');
-- WITH HOLD, and UPDATE ... WHERE CURRENT OF.
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT v FROM small WHERE v < 3 ORDER BY v;
DECLARE u CURSOR FOR SELECT v FROM small WHERE v > 2495 ORDER BY v FOR UPDATE;
FETCH 2 FROM u;
UPDATE small SET v = 9999 WHERE CURRENT OF u;
DELETE FROM small WHERE CURRENT OF u;
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT v FROM small WHERE v > 2495 ORDER BY v;
-- Marks: merge joins with duplicates on both sides.
CREATE TABLE left_side (id int, v int);
CREATE TABLE right_side (id int, v int);
INSERT INTO left_side SELECT i, i % 300 * CASE WHEN i % 3 = 0 THEN 1 ELSE 2 END FROM generate_series(1, 4000) i;
INSERT INTO right_side SELECT i, i % 250 * 3 FROM generate_series(1, 4000) i;
INSERT INTO left_side SELECT i, 42 FROM generate_series(1, 700) i;
INSERT INTO right_side SELECT i, 42 FROM generate_series(1, 900) i;
INSERT INTO right_side SELECT i, NULL FROM generate_series(1, 50) i;
CREATE INDEX left_side_idx ON left_side USING fpbtree (v);
CREATE INDEX right_side_idx ON right_side USING fpbtree (v);
CREATE INDEX left_side_desc ON left_side USING fpbtree (v DESC);
ANALYZE left_side, right_side;
CREATE FUNCTION check_join(query text, setting text[], node text, ways text[] DEFAULT '{index,indexonly}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  way text;
  want text;
  got text;
  plan text[];
BEGIN
  FOREACH way IN ARRAY ways LOOP
    PERFORM harness.use(way), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
            set_config('enable_nestloop', 'off', true), set_config('enable_material', 'off', true), set_config('enable_memoize', 'off', true);
    PERFORM set_config(s, 'on', true) FROM unnest(setting) s;
    plan := harness.nodes(query);
    got := harness.digest(query, false);
    PERFORM harness.use('seq'), set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'off', true);
    want := harness.digest(query, false);
    INSERT INTO harness.result SELECT node, 1, (got IS DISTINCT FROM want OR node <> ALL (plan))::int;
    INSERT INTO harness.problem SELECT node, query, way, want, got, plan WHERE got IS DISTINCT FROM want OR node <> ALL (plan);
  END LOOP;
END $$;
SELECT count(check_join(query, '{enable_mergejoin}', 'Merge Join')) FROM unnest(ARRAY[
  'SELECT l.v FROM left_side l JOIN right_side r USING (v)',
  'SELECT l.v, l.id, r.id AS r FROM left_side l JOIN right_side r USING (v)',
  'SELECT l.v, r.v AS w FROM left_side l LEFT JOIN right_side r USING (v)',
  'SELECT l.v, r.v AS w FROM left_side l FULL JOIN right_side r USING (v)',
  'SELECT l.v FROM left_side l JOIN right_side r USING (v) WHERE l.v > 30 AND r.v < 500',
  'SELECT l.v, m.id FROM left_side l JOIN left_side m USING (v) WHERE l.id % 3 = 0 AND m.id % 3 = 1',
  'SELECT v FROM left_side WHERE v NOT IN (3, 4) AND EXISTS (SELECT FROM right_side r WHERE r.v = left_side.v)',
  'SELECT v FROM left_side WHERE NOT EXISTS (SELECT FROM right_side r WHERE r.v = left_side.v)']) query;
SELECT count(check_join(query, '{enable_mergejoin}', 'Index Scan Backward on right_side_idx', '{index}')) FROM unnest(ARRAY[
  'SELECT l.v, r.id FROM left_side l JOIN right_side r USING (v) ORDER BY v DESC']) query;
-- Rescans: the inner side of a nested loop, by equality, ranges, arrays; from LATERAL and subqueries.
SELECT count(check_join(query, '{enable_nestloop}', 'Nested Loop')) FROM unnest(ARRAY[
  'SELECT l.id, r.v FROM left_side l JOIN right_side r ON r.v = l.v WHERE l.id < 900',
  'SELECT l.id, r.v FROM left_side l JOIN right_side r ON r.v BETWEEN l.v - 3 AND l.v + 3 WHERE l.id < 300',
  'SELECT l.id, r.v FROM left_side l JOIN right_side r ON r.v = ANY (ARRAY[l.v, l.v + 3, l.id, NULL]) WHERE l.id < 300',
  'SELECT l.id, r.v FROM left_side l LEFT JOIN right_side r ON r.v = l.id::int8 * 1000000 WHERE l.id < 900',
  'SELECT l.id, r.v FROM left_side l CROSS JOIN LATERAL (SELECT v FROM right_side r WHERE r.v >= l.v ORDER BY v LIMIT 3) r WHERE l.id < 700',
  'SELECT l.id, r.v FROM left_side l LEFT JOIN LATERAL (SELECT v FROM right_side r WHERE r.v < l.v ORDER BY v DESC LIMIT 2) r ON true WHERE l.id < 700',
  'SELECT g, r.v FROM generate_series(-5, 800) g JOIN right_side r ON r.v = g',
  'SELECT g, r.v FROM generate_series(1, 30) g JOIN left_side l ON l.v = g JOIN right_side r ON r.v = l.v + 3 WHERE l.id < 2000']) query;
SELECT harness.answer(query, 'index', false) = harness.answer(query, 'seq', false) AS same
  FROM unnest(ARRAY[
  'SELECT id, (SELECT max(v) FROM right_side r WHERE r.v < l.v) AS m FROM left_side l WHERE id < 200',
  'SELECT id, (SELECT count(*) FROM right_side r WHERE r.v = l.v AND r.id > l.id) AS m FROM left_side l WHERE id < 200',
  'SELECT id FROM left_side l WHERE v = (SELECT min(v) FROM right_side r WHERE r.v > l.id) AND id < 500',
  'WITH RECURSIVE w AS (SELECT min(v) AS v FROM s UNION ALL SELECT (SELECT min(v) FROM s WHERE s.v > w.v) FROM w WHERE w.v IS NOT NULL) SELECT count(*), sum(v) FROM w']) query;
-- Smallest and largest.
SELECT min(v), max(v) FROM small;
SELECT min(v) AS low, max(v) AS high FROM small WHERE v BETWEEN 700 AND 800;
SELECT min(v), max(v) FROM small WHERE v > 100000;
SELECT harness.nodes('SELECT min(v) FROM small') @> '{Limit,"Index Only Scan on small_idx"}' AS by_index;
SELECT harness.nodes('SELECT max(v) FROM small') @> '{Limit,"Index Only Scan Backward on small_idx"}' AS by_index;
SELECT min(v), max(v) FROM s WHERE v IS NULL;
-- ORDER BY ... LIMIT, DISTINCT, groups, windows.
SELECT v FROM small ORDER BY v LIMIT 3;
SELECT v FROM small ORDER BY v DESC LIMIT 3;
SELECT v FROM small WHERE v > 17 ORDER BY v OFFSET 4990;
SELECT v FROM small WHERE v <= 17 ORDER BY v DESC OFFSET 1 LIMIT 3;
SELECT count(*), sum(v) FROM (SELECT DISTINCT v FROM s WHERE v > 0) d;
SELECT harness.answer(q, 'index') = harness.answer(q, 'seq') AS same
  FROM unnest(ARRAY['SELECT v, count(*) FROM s GROUP BY v ORDER BY v', 'SELECT DISTINCT v FROM s ORDER BY v DESC',
                    'SELECT v, count(*) OVER (PARTITION BY v) AS n FROM s ORDER BY v']) q;
-- Prepared statements: a plan made for its parameters, and one made for all.
PREPARE by_value(int) AS SELECT count(*), sum(id) FROM s WHERE v = $1;
PREPARE by_range(int8, int2) AS SELECT count(*), sum(id) FROM s WHERE v > $1 AND v <= $2;
PREPARE by_array(int[]) AS SELECT count(*), sum(id) FROM s WHERE v = ANY ($1);
SET plan_cache_mode = force_generic_plan;
EXECUTE by_value(5);
EXECUTE by_value(NULL);
EXECUTE by_range(-20, 30::int2);
EXECUTE by_range(30000000000, 10);
EXECUTE by_range(-30000000000, -32768);
EXECUTE by_array('{5,NULL,7,5}');
EXECUTE by_array('{}');
EXECUTE by_array(NULL);
EXECUTE by_array('{NULL,NULL}');
CREATE FUNCTION by_parameter(low int, high int) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT count(*) FROM s WHERE v > low AND v <= high);
END $$;
SELECT bool_and(by_parameter(i * 10, i * 11) = (SELECT count(*) FROM s WHERE v + 0 > i * 10 AND v + 0 <= i * 11)) AS same FROM generate_series(-50, 50) i;
SET plan_cache_mode = force_custom_plan;
SELECT bool_and(by_parameter(i * 10, i * 11) = (SELECT count(*) FROM s WHERE v + 0 > i * 10 AND v + 0 <= i * 11)) AS same FROM generate_series(-50, 50) i;
EXECUTE by_value(5);
EXECUTE by_value(NULL);
EXECUTE by_range(-20, 30::int2);
EXECUTE by_range(30000000000, 10);
EXECUTE by_array('{5,NULL,7,5}');
EXECUTE by_array('{NULL,NULL}');
RESET plan_cache_mode;
-- A loop that changes the table it scans: every row that was there is seen once.
CREATE TABLE moving (id int, v int);
CREATE INDEX moving_idx ON moving USING fpbtree (v);
INSERT INTO moving SELECT i, i FROM generate_series(1, 3000) i;
DO $$
DECLARE
  r record;
  seen int := 0;
BEGIN
  FOR r IN SELECT id, v FROM moving WHERE v > 0 ORDER BY v LOOP
    seen := seen + 1;
    UPDATE moving SET v = v + 5000 WHERE id = r.id;
    INSERT INTO moving VALUES (r.id + 10000, r.v), (r.id + 20000, r.v + 1);
    IF r.v % 3 = 0 THEN
      DELETE FROM moving WHERE id = r.id;
    END IF;
  END LOOP;
  PERFORM harness.expect('a changing table', seen = 3000, 'rows seen', seen::text);
END $$;
UPDATE moving SET v = v + 1 WHERE v > 2000;
DELETE FROM moving WHERE v % 2 = 0;
SELECT harness.sound('a changing table', 'moving_idx');
SELECT harness.compare('a changing table', 'SELECT v{id} FROM {t} WHERE v > 100', '{moving}', '{index,indexonly,bitmap}', false);
-- Entries found dead are remembered, and stay out of the way of those that are not.
DELETE FROM moving WHERE v < 4000;
DO $$
BEGIN
  FOR i IN 1 .. 3 LOOP
    PERFORM harness.compare('after deletes', q, '{moving}', w::text[], o)
       FROM (VALUES ('SELECT v{id} FROM {t} WHERE v BETWEEN 0 AND 6000', '{index,indexonly,bitmap}', false),
                    ('SELECT v{id} FROM {t} ORDER BY v{tie}', '{index,indexonly}', true),
                    ('SELECT v{id} FROM {t} ORDER BY v DESC{tie}', '{index,indexonly}', true)) t (q, w, o);
  END LOOP;
END $$;
INSERT INTO moving SELECT i, i FROM generate_series(1, 4000) i;
SELECT harness.compare('after deletes', 'SELECT v{id} FROM {t} WHERE v BETWEEN 0 AND 6000', '{moving}', '{index,indexonly,bitmap}', false);
BEGIN;
DELETE FROM moving WHERE v BETWEEN 100 AND 3000;
SELECT count(*) FROM moving WHERE v BETWEEN 0 AND 3500;
ROLLBACK;
SELECT count(*) FROM moving WHERE v BETWEEN 0 AND 3500;
SELECT harness.sound('after deletes', 'moving_idx');
-- Snapshots: rows of this transaction, of this command, of a snapshot kept; index-only right after
-- an insert, when no page is known to be all-visible.
CREATE TABLE visible (id int, v int);
CREATE INDEX visible_idx ON visible USING fpbtree (v);
SELECT count(*) FROM visible WHERE v > 0;
INSERT INTO visible SELECT i, i FROM generate_series(1, 5000) i;
SELECT harness.nodes('SELECT count(*) FROM visible WHERE v > 0') @> '{"Index Only Scan on visible_idx"}' AS only_index;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
VACUUM visible;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
DELETE FROM visible WHERE v % 2 = 0;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
INSERT INTO visible SELECT i, i + 7000 FROM generate_series(1, 100) i;
UPDATE visible SET v = -v WHERE v < 1000;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
SAVEPOINT a;
DELETE FROM visible WHERE v > 6000;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM visible WHERE v > 0;
INSERT INTO visible SELECT id, v FROM visible WHERE v BETWEEN 1001 AND 1101;
SELECT count(*) FROM visible WHERE v BETWEEN 1001 AND 1101;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*), sum(v) FROM visible WHERE v BETWEEN 10 AND 50;
SELECT v FROM visible WHERE v BETWEEN 10 AND 20 ORDER BY v DESC;
INSERT INTO visible VALUES (0, 15);
SELECT count(*) FROM visible WHERE v = 15;
COMMIT;
SELECT harness.compare('visible', 'SELECT v{id} FROM {t} WHERE v > 10', '{visible}', '{index,indexonly,bitmap}', false), harness.sound('visible', 'visible_idx');
-- Bitmaps: of one index twice, of two, with btree; exact and lossy.
RESET enable_bitmapscan;
CREATE INDEX s_w ON s USING fpbtree (w);
CREATE INDEX s_id ON s (id);
ANALYZE s;
SET enable_indexscan = off;
CREATE TABLE bitmap (query text, nodes text[]);
INSERT INTO bitmap VALUES
('SELECT id FROM s WHERE v BETWEEN 40 AND 60 AND id < 400', '{BitmapAnd,"Bitmap Index Scan on s_idx","Bitmap Index Scan on s_id"}'),
('SELECT id FROM s WHERE v < -1990 OR id < 40', '{BitmapOr,"Bitmap Index Scan on s_idx","Bitmap Index Scan on s_id"}'),
('SELECT id FROM s WHERE v < -1990 OR v > 1990 OR v IS NULL', '{BitmapOr,"Bitmap Index Scan on s_idx"}'),
('SELECT id FROM s WHERE v BETWEEN 0 AND 300 AND (w = 3 OR id BETWEEN 1 AND 300)', '{"Bitmap Index Scan on s_idx"}');
SELECT harness.nodes(query) @> nodes AS planned FROM bitmap;
SELECT harness.answer(query, 'bitmap', false) = harness.answer(query, 'seq', false) AS same FROM bitmap;
SET work_mem = '64kB';
SELECT harness.answer('SELECT id, v FROM s WHERE v > -1500', 'bitmap', false) = harness.answer('SELECT id, v FROM s WHERE v > -1500', 'seq', false) AS same;
RESET work_mem;
RESET enable_indexscan;
-- A scan that is stopped in the middle, many times over, leaves nothing behind.
SELECT count(*) FROM generate_series(1, 3000) g, LATERAL (SELECT v FROM s WHERE v > g - 1500 ORDER BY v LIMIT 1) l;
DO $$
DECLARE
  r record;
BEGIN
  FOR i IN 1 .. 500 LOOP
    FOR r IN SELECT v FROM s WHERE v > i ORDER BY v LOOP
      EXIT;
    END LOOP;
    BEGIN
      FOR r IN SELECT v, 1 / (v - i - 20) FROM s WHERE v > i ORDER BY v LOOP
        NULL;
      END LOOP;
    EXCEPTION WHEN division_by_zero THEN
      NULL;
    END;
  END LOOP;
END $$;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP TABLE s, bitmap, small, left_side, right_side, moving, visible;
DROP FUNCTION walk, check_join, by_parameter;
