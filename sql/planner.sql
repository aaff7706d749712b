-- What the planner does for btree's operator families it does for their copies: every plan is btree's.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set planner :srcdir '/sql/planner.inc'
\i :planner
\set ECHO all
SELECT bt.both($$
  CREATE TABLE t (id int4 NOT NULL, big int8, rare bool, often bool NOT NULL, v int4);
  INSERT INTO t SELECT i, i % 5000, CASE WHEN i % 200 = 0 THEN i % 400 = 0 END, i % 2 = 0, hashint4(i) FROM generate_series(1, 20000) i;
  CREATE INDEX t_id ON t USING {method} (id);
  CREATE INDEX t_big ON t USING {method} (big DESC NULLS LAST);
  CREATE INDEX t_rare ON t USING {method} (rare);
  CREATE INDEX t_often ON t USING {method} (often, v);
  CREATE INDEX t_expression ON t USING {method} ((v % 1000 = 7));
  CREATE INDEX t_part ON t USING {method} (rare, id) WHERE id > 19000;
  CREATE TABLE u (id int4 NOT NULL, id2 int2, big int8);
  INSERT INTO u SELECT i * 40, i, i * 40 FROM generate_series(1, 500) i;
  CREATE INDEX u_id ON u USING {method} (id);
  CREATE INDEX u_id2 ON u USING {method} (id2);
$$);
VACUUM ANALYZE fp.t, bt.t, fp.u, bt.u;
-- Boolean conditions.
SELECT * FROM bt.beside('SELECT id FROM t WHERE rare');
SELECT * FROM bt.beside('SELECT id FROM t WHERE NOT rare');
SELECT * FROM bt.beside('SELECT id FROM t WHERE rare IS TRUE');
SELECT * FROM bt.beside('SELECT id FROM t WHERE rare IS FALSE');
SELECT * FROM bt.beside('SELECT id FROM t WHERE rare = true AND id % 3 = 0');
SELECT * FROM bt.beside('SELECT id FROM t WHERE rare IS NOT NULL AND id < 12000 AND rare');
SELECT * FROM bt.beside('SELECT rare, id FROM t WHERE rare AND id > 19500');
SELECT * FROM bt.beside('SELECT id FROM t WHERE v % 1000 = 7');
SELECT * FROM bt.beside('SELECT often, v FROM t WHERE often AND v BETWEEN 0 AND 5000000');
-- A boolean column that is fixed by a condition does not matter to the order.
SELECT * FROM bt.beside('SELECT v FROM t WHERE NOT often ORDER BY v LIMIT 5');
SELECT * FROM bt.beside('SELECT v FROM t WHERE often ORDER BY v DESC LIMIT 5');
SELECT * FROM bt.beside('SELECT often, v FROM t WHERE often = false ORDER BY often DESC, v LIMIT 5');
-- MIN and MAX.
SELECT * FROM bt.beside('SELECT min(big) FROM t');
SELECT * FROM bt.beside('SELECT max(big) FROM t WHERE big < 77');
SELECT * FROM bt.beside('SELECT min(v) FROM t WHERE often');
-- Comparisons with other types, of constants, of arrays and of joins; what follows from equalities.
SELECT * FROM bt.beside('SELECT id FROM t WHERE id = 77::int8 OR id = 78::int2');
SELECT * FROM bt.beside('SELECT id FROM t WHERE id = ANY (''{1,500,19999,500}'')');
SELECT * FROM bt.beside('SELECT id FROM t WHERE id BETWEEN 100::int8 AND 110::int2 ORDER BY id DESC');
SELECT * FROM bt.beside('SELECT t.id, u.id2 FROM t JOIN u ON t.id = u.big WHERE u.id2 = 6::int8');
SELECT * FROM bt.beside('SELECT t.id FROM t JOIN u ON t.id = u.id WHERE u.id = 400');
SELECT * FROM bt.beside('SELECT t.id FROM t JOIN u ON t.id = u.big WHERE t.id = 400::int8');
-- The order.
SELECT * FROM bt.beside('SELECT id FROM t ORDER BY id LIMIT 3');
SELECT * FROM bt.beside('SELECT big FROM t ORDER BY big DESC NULLS LAST LIMIT 3');
SELECT * FROM bt.beside('SELECT id, v FROM t ORDER BY id DESC, v LIMIT 3');
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT * FROM bt.beside('SELECT count(*), sum(t.id + u.id) FROM t JOIN u ON t.id = u.id');
RESET enable_hashjoin;
RESET enable_nestloop;
-- A prepared statement's generic plan, and one for a parameter of another type.
PREPARE by_id(int8) AS SELECT id FROM fp.t WHERE id = $1 AND often;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_id(50);
EXECUTE by_id(50);
RESET plan_cache_mode;
-- A family that lacks members of btree's is not taken for it. From 16 on the server knows boolean conditions of any
-- family with the right "=".
CREATE OPERATOR CLASS half_ops FOR TYPE bool USING fpbtree AS
  OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 btboolcmp(bool, bool), FUNCTION 4 (bool, bool) btequalimage(oid);
CREATE TABLE h AS SELECT id, rare AS b FROM fp.t;
CREATE INDEX h_b ON h USING fpbtree (b half_ops);
VACUUM ANALYZE h;
CREATE FUNCTION uses_index(query text) RETURNS bool LANGUAGE sql AS $$ SELECT bool_or(plan ~ 'Index') FROM bt.plan('public', query) $$;
SELECT uses_index('SELECT id FROM h WHERE b') = (current_setting('server_version_num')::int >= 160000) AS as_the_server_wants;
-- When it has them all it is, at once.
ALTER OPERATOR FAMILY half_ops USING fpbtree ADD OPERATOR 2 <= (bool, bool);
SELECT uses_index('SELECT id FROM h WHERE b') = (current_setting('server_version_num')::int >= 160000) AS as_the_server_wants;
BEGIN;
ALTER OPERATOR FAMILY half_ops USING fpbtree ADD OPERATOR 4 >= (bool, bool);
SELECT uses_index('SELECT id FROM h WHERE b');
ROLLBACK;
SELECT uses_index('SELECT id FROM h WHERE b') = (current_setting('server_version_num')::int >= 160000) AS as_the_server_wants;
DROP OPERATOR FAMILY half_ops USING fpbtree CASCADE;
DROP FUNCTION uses_index;
DROP TABLE h;
DROP SCHEMA fp, bt CASCADE;
