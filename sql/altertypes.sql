-- Types and tables that change under their indexes: enums that grow in their middle, columns of
-- another type, domains, generated columns, composites, partitions, policies.
-- Needs: icu
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- Compares conditions and order on t's index.
CREATE FUNCTION look(what text, columns text, conditions text[], ways text[] DEFAULT '{index,indexonly,bitmap}') RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  backward text := (SELECT string_agg(c || ' DESC', ', ') FROM unnest(string_to_array(columns, ', ')) c);
BEGIN
  PERFORM harness.compare(what, format('SELECT %s{id} FROM {t} WHERE %s', columns, c), '{t}', ways, false) FROM unnest(conditions) c;
  PERFORM harness.compare(what, format('SELECT %s{id} FROM {t} ORDER BY %s{tie}', columns, o), '{t}', array_remove(ways, 'bitmap'), true) FROM unnest(ARRAY[columns, backward]) o;
  PERFORM harness.sound(what, 't_idx');
END $$;
-- Enums: values added at the end, before, after, between; renamed. The index is not rebuilt.
CREATE TYPE mood AS ENUM ('b', 'd', 'f');
CREATE TABLE t (id int, v mood, w int) WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (v, w);
CREATE UNIQUE INDEX t_unique ON t USING fpbtree (id, v);
INSERT INTO t SELECT i, (ARRAY['b', 'd', 'f', NULL]::mood[])[1 + i % 4], i % 7 FROM generate_series(1, 800) i;
SELECT pg_relation_filenode('t_idx') AS node \gset
ALTER TYPE mood ADD VALUE 'a' BEFORE 'b';
ALTER TYPE mood ADD VALUE 'c' BEFORE 'd';
ALTER TYPE mood ADD VALUE 'e' AFTER 'd';
ALTER TYPE mood ADD VALUE 'g';
ALTER TYPE mood ADD VALUE 'ca' AFTER 'c';
ALTER TYPE mood ADD VALUE 'caa' BEFORE 'ca';
INSERT INTO t SELECT i, (enum_range(NULL::mood))[1 + i % 10], i % 7 FROM generate_series(801, 2000) i;
SELECT look('enum', 'v, w', ARRAY['v = ''c''', 'v < ''c''', 'v > ''ca''', 'v BETWEEN ''caa'' AND ''e'' AND w > 3', 'v = ANY (''{a,ca,g,NULL}'')', 'v IS NULL', 'v >= ''e'' AND w = 2']);
ALTER TYPE mood RENAME VALUE 'ca' TO 'between';
SELECT look('enum', 'v, w', ARRAY['v = ''between''', 'v < ''between''']);
BEGIN;
ALTER TYPE mood ADD VALUE 'never';
ROLLBACK;
DELETE FROM t WHERE v IN ('a', 'between');
VACUUM t;
INSERT INTO t SELECT i, 'between', 1 FROM generate_series(3000, 3100) i;
SELECT look('enum', 'v, w', ARRAY['v = ''between''', 'v < ''between''', 'v = ''a''']), pg_relation_filenode('t_idx') = :node AS kept;
SELECT left(harness.outcome('INSERT INTO t VALUES (3000, ''between'')'), 5);
REINDEX INDEX t_idx;
SELECT look('enum', 'v, w', ARRAY['v > ''c''', 'v <= ''between''']);
DROP TABLE t;
-- Enough values for those after the first 32 to have numbers of another kind.
DO $$
BEGIN
  FOR i IN 1 .. 40 LOOP
    EXECUTE format('ALTER TYPE mood ADD VALUE %L BEFORE ''g''', 'x' || i);
  END LOOP;
END $$;
CREATE TABLE t (id int, v mood) WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (v);
INSERT INTO t SELECT i, (enum_range(NULL::mood))[1 + i % 49] FROM generate_series(1, 1000) i;
SELECT look('enum', 'v', ARRAY['v > ''x17''', 'v < ''x3''', 'v = ''g''', 'v = ''x40''']);
-- Columns that change their type, rebuilding the index or not.
DROP TABLE t;
CREATE TABLE t (id int, v varchar(20) COLLATE "C") WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (v);
INSERT INTO t SELECT i, i % 500 FROM generate_series(1, 1500) i;
SELECT pg_relation_filenode('t_idx') AS node \gset
ALTER TABLE t ALTER v TYPE varchar(40);
ALTER TABLE t ALTER v TYPE text;
SELECT pg_relation_filenode('t_idx') = :node AS kept;
SELECT look('altered', 'v', ARRAY['v > ''40''', 'v = ''7''']);
CREATE TABLE step (n int, type text, conversion text, conditions text[]);
INSERT INTO step VALUES
(1, 'int', 'v::int', '{v > 40,v = 7}'), (2, 'bigint', 'v', '{v > 40,v = 7::int2}'), (3, 'numeric', 'v / 4.0', '{v > 40,v = 7.00,v < 3.25}'), (4, 'float8', 'v', '{v > 40,v = 7.0,v < 3.25}'),
(5, 'text', 'v', '{v > ''40'',v = ''7''}'), (6, 'text COLLATE "en-x-icu"', 'v', '{v > ''40'',v = ''7''}'), (7, 'bytea', 'v::bytea', '{v > ''\\x34'',v = ''\\x37''}'), (8, 'text COLLATE "C"', 'encode(v, ''escape'')', '{v > ''40'',v = ''7''}'),
(9, 'numeric(12,2)', 'v::numeric', '{v > 40,v = 7.00,v < 3.25}'), (10, 'int4', 'v', '{v > 40,v = 7}'), (11, 'date', 'date ''2000-01-01'' + v', '{v > date ''2000-02-01'',v = ''2000-01-07''}'), (12, 'timestamptz', 'v', '{v > date ''2000-02-01'',v = timestamp ''2000-01-07''}'),
(13, 'jsonb', 'to_jsonb(v)', ARRAY[$$v > '"2000-02-01"'$$, 'v IS NOT NULL']), (14, 'int[]', 'ARRAY[length(v::text)]', ARRAY[$$v > '{5}'$$, $$v = '{27}'$$]);
CREATE FUNCTION take(s step) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('ALTER TABLE t ALTER v TYPE %s USING %s', s.type, s.conversion);
  PERFORM look(s.type, 'v', s.conditions);
  INSERT INTO t SELECT id + 10001, v FROM t WHERE id % 50 = 0;
  DELETE FROM t WHERE id % 97 = s.n;
  PERFORM look(s.type, 'v', s.conditions, '{index,bitmap}') WHERE s.n IN (3, 7, 13);
END $$;
SELECT take(s) FROM step s ORDER BY n;
DROP TABLE t;
-- Other columns come and go, and one that was indexed.
CREATE TABLE t (gone int, id int, v text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO t SELECT 0, i, i % 70 FROM generate_series(1, 300) i;
CREATE INDEX t_idx ON t USING fpbtree (v) INCLUDE (id);
ALTER TABLE t DROP gone;
ALTER TABLE t ADD w int DEFAULT 7;
ALTER TABLE t ADD x text;
CREATE INDEX t_wx ON t USING fpbtree (w, x);
INSERT INTO t SELECT i, i % 70, i % 3, 'x' FROM generate_series(301, 600) i;
SELECT look('columns', 'v', ARRAY['v > ''40''', 'v = ''7''']), harness.sound('columns', 't_wx');
ALTER TABLE t RENAME v TO u;
ALTER TABLE t ALTER u SET NOT NULL;
ALTER INDEX t_idx RENAME TO t_other;
ALTER INDEX t_other RENAME TO t_idx;
SELECT look('columns', 'u', ARRAY['u > ''40''', 'u = ''7''']);
ALTER TABLE t DROP x;
SELECT count(*) FROM pg_class WHERE relname = 't_wx';
ALTER INDEX t_idx SET (fillfactor = 70);
ALTER TABLE t SET UNLOGGED;
SELECT look('columns', 'u', ARRAY['u > ''40''', 'u = ''7''']);
ALTER TABLE t SET LOGGED;
SELECT look('columns', 'u', ARRAY['u > ''40''', 'u = ''7''']);
TRUNCATE t;
SELECT harness.sound('columns', 't_idx');
INSERT INTO t SELECT i, i % 70, i % 3 FROM generate_series(301, 600) i;
SELECT look('columns', 'u', ARRAY['u > ''40''', 'u = ''7''']);
DROP TABLE t;
-- Domains, of domains too, with a check that is added later.
CREATE DOMAIN word AS text COLLATE "C";
CREATE DOMAIN long_word AS word CHECK (length(value) > 2);
CREATE DOMAIN small AS int2;
CREATE TABLE t (id int, v long_word, w small) WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (v, w);
INSERT INTO t SELECT i, 'word' || i % 60, i % 9 FROM generate_series(1, 900) i;
SELECT look('domain', 'v, w', ARRAY['v > ''word4''', 'v = ''word7'' AND w < 5', 'v = ANY (''{word1,word2}''::word[])', 'w = 3 AND v > ''word5'''], '{index,indexonly,bitmap}');
ALTER DOMAIN long_word ADD CONSTRAINT not_longer CHECK (length(value) < 10);
ALTER DOMAIN word ADD CHECK (value <> 'never');
SELECT left(harness.outcome('INSERT INTO t VALUES (1, ''far too long'', 1)'), 5), left(harness.outcome('INSERT INTO t VALUES (1, ''never'', 1)'), 5);
SELECT look('domain', 'v, w', ARRAY['v > ''word4''']);
DROP TABLE t;
-- Generated columns, expressions and a part of the rows.
CREATE TABLE t (id int, a int, b text, v text COLLATE "C" GENERATED ALWAYS AS (b || a) STORED, n numeric GENERATED ALWAYS AS (a / 4.0) STORED) WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (v, n DESC);
CREATE INDEX t_lower ON t USING fpbtree (lower(b) COLLATE "C", (a % 10)) WHERE a > 100;
INSERT INTO t SELECT i, i % 333, chr(65 + i % 5) || chr(97 + i % 7) FROM generate_series(1, 1500) i;
UPDATE t SET a = a + 1000 WHERE id % 10 = 0;
UPDATE t SET b = 'Zz' WHERE id % 11 = 0;
DELETE FROM t WHERE id % 13 = 0;
SELECT harness.compare('generated', 'SELECT v, n{id} FROM {t} WHERE ' || c, '{t}', '{index,indexonly,bitmap}', false) FROM unnest(ARRAY['v > ''C''', 'v = ''Zz77''', 'v < ''Bb'' AND n > 20']) c;
SELECT harness.sound('generated', 't_idx'), harness.sound('generated', 't_lower');
DROP INDEX t_idx;
ALTER INDEX t_lower RENAME TO t_idx;
SELECT harness.compare('expression', 'SELECT id, a, b FROM {t} WHERE a > 100 AND ' || c, '{t}', '{index,bitmap}', false)
  FROM unnest(ARRAY['lower(b) COLLATE "C" = ''ab''', 'lower(b) COLLATE "C" > ''cc'' AND a % 10 = 3', 'lower(b) COLLATE "C" = ANY (''{zz,aa}'')']) c;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE lower(b) COLLATE "C" = 'ab' AND a > 50;
DROP TABLE t;
-- Composite types and whole rows, which may grow.
CREATE TYPE pair AS (a int, b text);
CREATE TABLE t (id int, v pair) WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (v);
INSERT INTO t SELECT i, ROW(i % 7, CASE WHEN i % 3 > 0 THEN chr(97 + i % 11) END)::pair FROM generate_series(1, 700) i;
SELECT look('composite', 'v', ARRAY['v = ROW(3, ''c'')::pair', 'v > ROW(4, NULL)::pair', 'v <= ROW(2, ''d'')::pair']);
SELECT left(harness.outcome('ALTER TYPE pair ADD ATTRIBUTE c numeric'), 5) AS add, left(harness.outcome('ALTER TYPE pair ALTER ATTRIBUTE a TYPE bigint'), 5) AS alter;
INSERT INTO t SELECT i, ROW(i % 7, chr(97 + i % 11), CASE WHEN i % 2 > 0 THEN i / 4.0 END)::pair FROM generate_series(701, 1000) i;
SELECT look('composite', 'v', ARRAY['v = ROW(3, ''c'', NULL)::pair', 'v > ROW(4, NULL, 2)::pair', 'v <= ROW(2, ''d'', 90.0)::pair']);
CREATE TABLE whole (a int, b text);
INSERT INTO whole SELECT i % 9, i FROM generate_series(1, 300) i;
CREATE INDEX whole_idx ON whole USING fpbtree ((whole.*));
SELECT harness.compare('whole row', 'SELECT a, b FROM {t} WHERE ' || c, '{whole}', '{index,bitmap}', false) FROM unnest(ARRAY['whole.* > ROW(5, ''7'')::whole', 'whole.* = ROW(7, ''7'')::whole']) c;
SELECT left(harness.outcome('ALTER TABLE whole ADD c int'), 5) AS add;
INSERT INTO whole SELECT i % 9, i, i % 2 FROM generate_series(1, 300) i;
SELECT harness.compare('whole row', 'SELECT a, b, c FROM {t} WHERE ' || c, '{whole}', '{index,bitmap}', false) FROM unnest(ARRAY['whole.* > ROW(5, ''7'', NULL)::whole', 'whole.* = ROW(7, ''7'', 1)::whole']) c;
SELECT harness.sound('whole row', 'whole_idx');
DROP TABLE whole, t;
-- Partitions: an index on all of them, of one made later, attached, detached; order over them all.
CREATE TABLE p (id int, v text COLLATE "C", w int) PARTITION BY LIST (w);
CREATE TABLE p_0 PARTITION OF p FOR VALUES IN (0);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1) PARTITION BY RANGE (v);
CREATE TABLE p_1a PARTITION OF p_1 FOR VALUES FROM (MINVALUE) TO ('m');
CREATE TABLE p_1z PARTITION OF p_1 FOR VALUES FROM ('m') TO (MAXVALUE);
CREATE INDEX p_idx ON p USING fpbtree (v, w);
CREATE TABLE p_2 (w int, id int, extra int, v text COLLATE "C");
ALTER TABLE p_2 DROP extra;
CREATE INDEX p_2_own ON p_2 USING fpbtree (v, w);
INSERT INTO p SELECT i, left(md5(i::text), 4), i % 2 FROM generate_series(1, 1000) i;
INSERT INTO p_2 SELECT 2, i, left(md5(i::text), 4) FROM generate_series(1, 500) i;
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES IN (2);
CREATE TABLE p_3 PARTITION OF p DEFAULT;
INSERT INTO p SELECT i, i, 3 + i % 3 FROM generate_series(1, 300) i;
SELECT c.relname, a.amname, i.indisvalid FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid JOIN pg_am a ON a.oid = c.relam JOIN pg_index i ON i.indexrelid = c.oid ORDER BY 1;
CREATE FUNCTION same(query text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN harness.answer(query, 'index', query ~ 'ORDER') = harness.answer(query, 'seq', query ~ 'ORDER') AND harness.answer(query, 'bitmap', query ~ 'ORDER') = harness.answer(query, 'seq', query ~ 'ORDER');
END $$;
SELECT q, same(q) FROM unnest(ARRAY['SELECT * FROM p WHERE v > ''c''', 'SELECT v, w FROM p ORDER BY v, w', 'SELECT v, w FROM p WHERE w = 1 ORDER BY v DESC', 'SELECT v FROM p WHERE v = ''a87f'' OR v = ''77''']) q;
ALTER TABLE p DETACH PARTITION p_2;
UPDATE p SET w = 1 - w WHERE w < 2 AND id % 3 = 0;
SELECT q, same(q) FROM unnest(ARRAY['SELECT * FROM p WHERE v > ''c''', 'SELECT v, w FROM p ORDER BY v, w', 'SELECT v FROM p_2 WHERE v > ''d'' ORDER BY v']) q;
SET enable_seqscan = off;
SET enable_sort = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v, w FROM p WHERE w < 2 ORDER BY v, w;
RESET enable_seqscan;
RESET enable_sort;
RESET enable_bitmapscan;
SELECT count(harness.sound('partition', indexrelid)) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid IN ('p_0'::regclass, 'p_1a'::regclass, 'p_1z'::regclass, 'p_2'::regclass, 'p_3'::regclass);
-- Inheritance without partitions, and a table made like another.
CREATE TABLE parent (id int, v text);
CREATE INDEX parent_v ON parent USING fpbtree (v DESC) INCLUDE (id) WITH (fillfactor = 80);
CREATE TABLE child (LIKE parent INCLUDING INDEXES) INHERITS (parent);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'child'::regclass;
DROP TABLE p, p_2, child, parent;
-- Row-level security: what a policy hides stays hidden, and a condition that might leak waits for it.
CREATE TABLE t (id int, owner text, v text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, CASE i % 3 WHEN 0 THEN 'regress_fpbtree_one' ELSE 'regress_fpbtree_two' END, 'v' || i % 100 FROM generate_series(1, 900) i;
CREATE INDEX t_idx ON t USING fpbtree (v);
CREATE ROLE regress_fpbtree_one;
CREATE FUNCTION leak(text) RETURNS boolean IMMUTABLE COST 0.0001 LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'leaked %', $1; RETURN true; END $$;
GRANT SELECT ON t TO regress_fpbtree_one;
GRANT USAGE ON SCHEMA public, harness TO regress_fpbtree_one;
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON t USING (owner = current_user);
ANALYZE t;
SET ROLE regress_fpbtree_one;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET client_min_messages = notice;
SELECT count(*) FROM t;
SELECT count(*), min(id), max(id) FROM t WHERE v = 'v7';
SELECT id FROM t WHERE v = 'v7' AND leak(owner) ORDER BY id LIMIT 1;
EXPLAIN (COSTS OFF) SELECT id FROM t WHERE v = 'v7';
SELECT max(v), min(v) FROM t;
SET client_min_messages = warning;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET ROLE;
REVOKE USAGE ON SCHEMA public, harness FROM regress_fpbtree_one;
DROP TABLE t;
DROP ROLE regress_fpbtree_one;
-- How a column is stored may change, in its indexes too, which are not rebuilt.
CREATE TABLE t (id int, v jsonb, w int[], x text) WITH (autovacuum_enabled = off);
CREATE FUNCTION add_rows(first int, last int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO t SELECT i, jsonb_build_object('n', i % 97, 'long', repeat('x', i % 200)), array_fill(i % 89, ARRAY[i % 60]), repeat('y', i % 300)
    FROM generate_series(first, last) i
$$;
SELECT add_rows(1, 400);
CREATE INDEX t_idx ON t USING fpbtree (v);
CREATE INDEX t_w ON t USING fpbtree (w DESC, v);
CREATE INDEX t_x ON t USING fpbtree (id) INCLUDE (x, w);
SELECT pg_relation_filenode('t_idx') AS node \gset
CREATE FUNCTION look_stored(storage text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  c text;
BEGIN
  FOREACH c IN ARRAY '{v,w,x}'::text[] LOOP
    EXECUTE format('ALTER TABLE t ALTER %s SET STORAGE %s', c, storage);
  END LOOP;
  PERFORM add_rows(max(id) + 1, max(id) + 300) FROM t;
  PERFORM look('stored ' || storage, 'v', '{"v > ''{\"n\": 50}''","v = ''{\"n\": 7}''"}');
  PERFORM harness.sound('stored ' || storage, i) FROM unnest('{t_idx,t_w,t_x}'::text[]) i;
  IF (SELECT count(*) FROM t WHERE x <> repeat('y', id % 300)) > 0 THEN
    RAISE 'the table is wrong';
  END IF;
END $$;
SELECT look_stored(s) FROM unnest('{plain,external,main,plain,extended}'::text[]) s;
SELECT :node = pg_relation_filenode('t_idx') AS same_file;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
VACUUM t;
EXPLAIN (COSTS OFF) SELECT id, x, w FROM t WHERE id BETWEEN 350 AND 1300;
SELECT count(*), count(*) FILTER (WHERE x = repeat('y', id % 300) AND w = array_fill(id % 89, ARRAY[id % 60])) AS right FROM t WHERE id BETWEEN 350 AND 1300;
SELECT count(*) FROM (SELECT w, v, lead(w) OVER () AS next FROM t ORDER BY w DESC, v) s WHERE next > w;
RESET enable_seqscan;
RESET enable_bitmapscan;
REINDEX TABLE t;
SELECT harness.sound('stored, built again', i) FROM unnest('{t_idx,t_w,t_x}'::text[]) i;
DROP TABLE t;
DROP FUNCTION look_stored, add_rows;
-- And that of a type.
CREATE TYPE word_list;
CREATE FUNCTION word_list_in(cstring) RETURNS word_list IMMUTABLE STRICT LANGUAGE internal AS 'textin';
CREATE FUNCTION word_list_out(word_list) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'textout';
CREATE TYPE word_list (INPUT = word_list_in, OUTPUT = word_list_out, INTERNALLENGTH = VARIABLE, STORAGE = plain, COLLATABLE = true);
CREATE FUNCTION word_list_cmp(word_list, word_list) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'bttextcmp';
CREATE FUNCTION word_list_lt(word_list, word_list) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal AS 'text_lt';
CREATE FUNCTION word_list_eq(word_list, word_list) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal AS 'texteq';
CREATE FUNCTION word_list_gt(word_list, word_list) RETURNS boolean IMMUTABLE STRICT LANGUAGE internal AS 'text_gt';
CREATE OPERATOR < (FUNCTION = word_list_lt, LEFTARG = word_list, RIGHTARG = word_list, COMMUTATOR = >);
CREATE OPERATOR = (FUNCTION = word_list_eq, LEFTARG = word_list, RIGHTARG = word_list, COMMUTATOR = =);
CREATE OPERATOR > (FUNCTION = word_list_gt, LEFTARG = word_list, RIGHTARG = word_list, COMMUTATOR = <);
CREATE OPERATOR CLASS word_list_ops DEFAULT FOR TYPE word_list USING fpbtree AS
  OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 word_list_cmp(word_list, word_list);
CREATE OPERATOR CLASS word_list_ops DEFAULT FOR TYPE word_list USING btree AS
  OPERATOR 1 <, OPERATOR 3 =, OPERATOR 5 >, FUNCTION 1 word_list_cmp(word_list, word_list);
CREATE TABLE t (id int, v word_list) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, format('%s', repeat('w' || i % 50, i % 40))::word_list FROM generate_series(1, 500) i;
CREATE INDEX t_idx ON t USING fpbtree (v) INCLUDE (id);
CREATE INDEX t_more ON t USING fpbtree (id) INCLUDE (v);
SELECT look('plain type', 'v', '{"v > ''w2''","v = ''w7w7w7w7w7w7w7''","v < ''w3''"}', '{index,bitmap}');
ALTER TYPE word_list SET (STORAGE = extended);
INSERT INTO t SELECT i, format('%s', repeat('w' || i % 50, i % 40))::word_list FROM generate_series(501, 900) i;
SELECT look('extended type', 'v', '{"v > ''w2''","v = ''w7w7w7w7w7w7w7''","v < ''w3''"}', '{index,bitmap}');
SELECT count(*) FROM fpbtree_check('t_more');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), count(*) FILTER (WHERE v = format('%s', repeat('w' || id % 50, id % 40))::word_list) AS right FROM t WHERE id > 100;
RESET enable_seqscan;
RESET enable_bitmapscan;
DROP TABLE t;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION look, take, same, leak;
DROP TABLE step;
DROP TYPE mood, pair;
DROP DOMAIN small, long_word, word;
DROP TYPE word_list CASCADE;
