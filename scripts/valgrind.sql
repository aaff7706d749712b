-- What runs under valgrind: psql -v schema=NAME -v step=make|use|check. A step that finds something wrong fails.
SET search_path = :schema, public;
SELECT :'step' = 'make' AS make, :'step' = 'use' AS use \gset

\if :make
CREATE TABLE t (id int, v int, w int2, d float8, u uuid, s text COLLATE "C", n numeric);
CREATE FUNCTION fill(from_id int, to_id int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO t SELECT i, hashint4(i) % 5000, nullif(i % 50, 7), hashint4(i) / 3.0, md5(i::text)::uuid, md5(i::text), i / 7.0
  FROM generate_series(from_id, to_id) i
$$;
-- Whether an index finds what is there, whichever way it is scanned.
CREATE FUNCTION alike(condition text, ordering text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  way text;
  got text;
  wanted text;
BEGIN
  FOREACH way IN ARRAY '{seqscan,indexscan,indexonlyscan,bitmapscan}'::text[] LOOP
    PERFORM set_config('enable_' || other, (other = way OR other = 'indexscan' AND way = 'indexonlyscan')::text, true)
    FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan}'::text[]) other;
    EXECUTE format('SELECT md5(string_agg(x::text, %L)) FROM (SELECT %s FROM t WHERE %s ORDER BY %s) x', ',',
      split_part(ordering, ' ', 1), condition, ordering) INTO got;
    wanted := coalesce(wanted, got);
    IF got IS DISTINCT FROM wanted THEN
      RAISE EXCEPTION '% % by %: %, not %', condition, ordering, way, got, wanted;
    END IF;
  END LOOP;
  RETURN true;
END $$;
CREATE FUNCTION sound() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  problem text;
BEGIN
  SELECT string_agg(c::text, '; ') INTO problem FROM pg_index i, fpbtree_check(indexrelid, true) c
  WHERE indrelid = 't'::regclass;
  IF problem <> '' THEN
    RAISE EXCEPTION '%', problem;
  END IF;
END $$;
SELECT fill(1, 3000);
CREATE INDEX t_v ON t USING fpbtree (v);
CREATE INDEX t_id ON t USING fpbtree (id DESC);
CREATE INDEX t_wv ON t USING fpbtree (w, v DESC NULLS LAST);
CREATE INDEX t_d ON t USING fpbtree (d);
CREATE INDEX t_u ON t USING fpbtree (u);
CREATE UNIQUE INDEX t_s ON t USING fpbtree (s) INCLUDE (id);
CREATE INDEX t_n ON t USING fpbtree (n, s);
\endif

\if :use
SELECT fill(3001, 4500);
-- Many of one value: runs.
INSERT INTO t (id, v, s) SELECT i, 5, i FROM generate_series(10001, 10600) i;
DELETE FROM t WHERE v BETWEEN 1000 AND 3000 OR id % 4 = 0;
SELECT alike('v > 500', 'v');
VACUUM t;
SELECT fill(20001, 20700);
UPDATE t SET v = v + 1 WHERE id % 9 = 0;
BEGIN;
SELECT fill(30001, 30100);
ROLLBACK;
VACUUM t;
REINDEX INDEX t_wv;
\set VERBOSITY sqlstate
\set ON_ERROR_STOP off
INSERT INTO t SELECT * FROM t LIMIT 1;
\set ON_ERROR_STOP on
\endif

SELECT count(*) > 0 FROM (
  SELECT alike('v > -2000', 'v'), alike('v < 900', 'v DESC'), alike('v = 5', 'v'), alike('v IS NULL', 'v'),
    alike('v = ANY (''{1,5,77,1234,-3,4999}'')', 'v'), alike('w IN (3, 30) AND v > 10', 'v'), alike('v = 17', 'w'),
    alike('d BETWEEN -1e8 AND 1e8', 'd'), alike('u > ''80000000-0000-0000-0000-000000000000''', 'u DESC'),
    alike('s LIKE ''a%''', 's'), alike('s BETWEEN ''3'' AND ''5''', 's DESC'), alike('n > 300', 'n')) x;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT v FROM t WHERE v > 0 ORDER BY v;
MOVE FORWARD 300 IN c;
MOVE BACKWARD 200 IN c;
MOVE FORWARD 10 IN c;
COMMIT;
SELECT sound();
SELECT count(*) > 0 FROM pg_index i, fpbtree_stats(indexrelid) WHERE indrelid = 't'::regclass;
