-- Operators that users add to btree's families: where the copy lacks them only queries that need them do without what the
-- planner does for btree's families.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set planner :srcdir '/sql/planner.inc'
\i :planner
\set types :srcdir '/sql/pound.inc'
\i :types
\set ECHO all
SELECT bt.both($$
  CREATE TABLE t (id int4 NOT NULL, big int8 NOT NULL, v int4);
  INSERT INTO t SELECT i, i % 5000, hashint4(i) FROM generate_series(1, 20000) i;
  CREATE UNIQUE INDEX t_id ON t USING {method} (id);
  CREATE INDEX t_big ON t USING {method} (big, id);
  CREATE TABLE u (id int4 NOT NULL, big int8, w text);
  INSERT INTO u SELECT i * 40, i * 40, 'u' || i FROM generate_series(1, 500) i;
  CREATE INDEX u_big ON u USING {method} (big);
$$);
VACUUM ANALYZE fp.t, bt.t, fp.u, bt.u;
-- What the planner knows for these families alone: that a join has one row at most and can go (before 18), and row
-- comparisons (18).
CREATE FUNCTION bt.knows() RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(', ', CASE WHEN removed THEN 'join removed' ELSE 'join kept' END,
                   CASE WHEN compared = (current_setting('server_version_num')::int >= 180000) THEN 'rows compared as stated' ELSE 'rows not compared as stated' END)
    FROM (SELECT NOT bool_or(plan ~ 'Join|Nested') AS removed FROM bt.plan('fp', 'SELECT u.w FROM u LEFT JOIN t ON t.id = u.id')) r,
         (SELECT bool_or(plan ~ 'Index Cond: .*ROW') AS compared FROM bt.plan('fp', 'SELECT id FROM t WHERE (big, id) > (4998, 7) ORDER BY big, id')) c
$$;
SELECT bt.knows();
-- An operator that the copy lacks.
\set ECHO none
\i :members
\set ECHO all
SELECT member FROM pg_opfamily f, fpbtree_missing_members(f.oid) WHERE opfname = 'integer_ops' AND opfmethod = 403 AND member ~ 'OPERATOR 3' ORDER BY member COLLATE "C";
SELECT bt.knows();
-- Queries with it are answered, without its being a condition of the index.
CREATE FUNCTION bt.conditions(query text) RETURNS text LANGUAGE sql AS $$
  SELECT concat_ws(', ', CASE WHEN bt.answer('fp', query) IS NOT DISTINCT FROM bt.answer('bt', query) THEN 'same rows' ELSE 'OTHER ROWS' END,
                   CASE WHEN bool_or(plan ~ 'Index Cond: .*pound') THEN 'condition of the index' ELSE 'no condition of the index' END)
    FROM bt.plan('fp', query)
$$;
SET enable_seqscan = off;
CREATE TABLE query (n serial, query text);
INSERT INTO query (query) VALUES
  ('SELECT id FROM t WHERE id = ''400''::pound'), ('SELECT id FROM t WHERE ''400''::pound = id'), ('SELECT id FROM t WHERE id < ''5''::pound ORDER BY id'),
  ('SELECT id FROM t WHERE ''19990''::pound < id ORDER BY id'), ('SELECT id FROM t WHERE id = ANY (''{400,401}''::pound[]) ORDER BY id'), ('SELECT id FROM t WHERE NOT id >= ''5''::pound ORDER BY id'),
  ('SELECT id FROM t WHERE (id, big) = (''400''::pound, 400)'), ('SELECT id FROM t WHERE (id, big) >= (''19999''::pound, 4999) ORDER BY id'), ('SELECT id FROM t WHERE id = 7 OR id = ''400''::pound ORDER BY id'),
  -- Nowhere is a column of int4 compared with a pound, but in what follows.
  ('SELECT t.id FROM t JOIN u ON t.id = u.big WHERE u.big = ''400''::pound');
SELECT query, bt.conditions(query) FROM query ORDER BY n;
-- With those of int8 in the copy, what follows for int4 is still none of its operators.
ALTER OPERATOR FAMILY integer_ops USING fpbtree ADD
  OPERATOR 1 < (int8, pound), OPERATOR 2 <= (int8, pound), OPERATOR 3 = (int8, pound), OPERATOR 4 >= (int8, pound), OPERATOR 5 > (int8, pound), FUNCTION 1 (int8, pound) cmp(int8, pound);
SELECT query, bt.conditions(query) FROM query WHERE query ~ 'JOIN' ORDER BY n;
SELECT bt.knows();
-- A prepared statement's plan is made anew when the copy has them.
PREPARE by_pound(pound) AS SELECT id FROM fp.t WHERE id = $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE by_pound('400');
SELECT count(*) FROM fpbtree_adopt('integer_ops');
EXPLAIN (COSTS OFF) EXECUTE by_pound('400');
EXECUTE by_pound('400');
RESET plan_cache_mode;
SELECT query, bt.conditions(query) FROM query WHERE query !~ '\(id, big\) >=' ORDER BY n;
SELECT bt.knows();
RESET enable_seqscan;
DEALLOCATE by_pound;
DROP TABLE query;
DROP SCHEMA fp, bt CASCADE;
-- The copies of what was added go with what it was made of.
DROP TYPE pound CASCADE;
SELECT count(*) FROM pg_opfamily f, fpbtree_missing_members(f.oid) WHERE opfmethod = 403;
SELECT count(*) FROM fpbtree_adopt();
