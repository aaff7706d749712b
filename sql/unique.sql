-- Unique indexes and exclusion constraints, in one session: what conflicts, what is said of it, and
-- what does not conflict although it looks so.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- All fields of what a statement raises.
CREATE FUNCTION told(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  state text; message text; detail text; hint text; sch text; tab text; col text; con text;
BEGIN
  EXECUTE statement;
  RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
    sch = SCHEMA_NAME, tab = TABLE_NAME, col = COLUMN_NAME, con = CONSTRAINT_NAME;
  RETURN concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''), nullif(sch, ''), nullif(tab, ''), nullif(col, ''), nullif(con, ''));
END $$;
\pset format unaligned
\pset tuples_only on
-- Before 18 a NOTICE comes with a new index, for the server then refuses ON CONFLICT on its table. From
-- 18 on there is nothing to notice, and the lines come from here.
CREATE TABLE announced (id int PRIMARY KEY, v int);
INSERT INTO announced VALUES (1, 10);
SELECT current_setting('server_version_num')::int >= 180000 AS modern \gset
SET client_min_messages = notice;
\set ECHO none
CREATE UNIQUE INDEX announced_v ON announced USING fpbtree (v);
\if :modern
\echo 'NOTICE:  INSERT … ON CONFLICT on table "announced" will fail while it has index "announced_v"'
\echo 'DETAIL:  Before version 18, PostgreSQL refuses it on a table with a unique index of another method than btree.'
\echo 'HINT:  Use a btree index, or an exclusion constraint with "=", where ON CONFLICT is needed.'
\endif
\set ECHO all
CREATE INDEX announced_id ON announced USING fpbtree (id);
CREATE TABLE quiet (v int, EXCLUDE USING fpbtree (v WITH =));
REINDEX INDEX announced_v;
-- Who wants neither can have silence, or an error.
SET fpbtree.unique_index = 'silent';
CREATE UNIQUE INDEX announced_silently ON quiet USING fpbtree (v);
SET fpbtree.unique_index = 'error';
CREATE TABLE refused (v int);
SELECT told(s) = CASE WHEN :'modern' THEN 'ok' ELSE '0A000 | INSERT … ON CONFLICT on table "refused" would fail while it has index "refused_v" | Before version 18, PostgreSQL refuses it on a table with a unique index of another method than btree. | Use a btree index, or an exclusion constraint with "=", where ON CONFLICT is needed.' END
  FROM (VALUES ('CREATE UNIQUE INDEX refused_v ON refused USING fpbtree (v)')) v(s);
SELECT told('CREATE INDEX refused_plain ON refused USING fpbtree (v)'), told('REINDEX INDEX announced_v');
SET fpbtree.unique_index = 'perhaps';
RESET fpbtree.unique_index;
SHOW fpbtree.unique_index;
SET client_min_messages = warning;
SELECT s, left(harness.outcome(s), 5) = CASE WHEN :'modern' THEN 'ok' ELSE 'XX000' END AS as_announced FROM unnest(ARRAY[
  'INSERT INTO announced VALUES (1, 11) ON CONFLICT DO NOTHING',
  'INSERT INTO announced VALUES (1, 11) ON CONFLICT (id) DO UPDATE SET v = excluded.v + 1',
  'INSERT INTO announced VALUES (2, 13) ON CONFLICT (id) DO NOTHING']) s;
-- On 18 an fpbtree index can be the arbiter, too.
SELECT CASE WHEN :'modern' THEN harness.outcome(s) ELSE 'ok' END FROM unnest(ARRAY[
  'INSERT INTO announced VALUES (7, 12) ON CONFLICT (v) DO UPDATE SET id = 70',
  'INSERT INTO announced VALUES (8, 80), (9, 90) ON CONFLICT (v) DO NOTHING']) s;
SELECT NOT :'modern' OR ARRAY[70, 2, 8, 9] = (SELECT array_agg(id ORDER BY v) FROM announced) AS done;
DROP TABLE announced, quiet, refused;
-- Values of each type: "a" and "same" are equal, whatever they look like; "b" is another one.
CREATE TABLE kind (type text, a text, same text, b text);
INSERT INTO kind VALUES
('bool', 'true', 't', 'false'),
('int4', '1', '1', '2'),
('int8', '-9223372036854775808', '-9223372036854775808', '9223372036854775807'),
('float4', '0', '-0', 'NaN'),
('float8', 'NaN', 'nan', '-Infinity'),
('date', 'infinity', 'infinity', '-infinity'),
('uuid', '00000000-0000-0000-0000-000000000000', '{00000000-0000-0000-0000-000000000000}', '00000000-0000-0000-0000-000000000001'),
('text', '', '', ' '),
('text COLLATE "C"', 'abc', 'abc', 'abc '),
('varchar(20) COLLATE "C"', 'abc', 'abc', 'ABC'),
('bpchar COLLATE "C"', 'abc', 'abc   ', E'abc\x01'),
('char(5)', 'abc', 'abc ', 'ab'),
('name', 'abc', 'abc', 'abd'),
('bytea', '\x00', '\000', '\x0000'),
('numeric', '1', '1.000', '1.0001'),
('numeric', 'NaN', 'nan', 'Infinity'),
('interval', '1 month', '30 days', '31 days'),
('timetz', '12:00+00', '12:00+00', '13:00+01'),
('inet', '10.0.0.1', '10.0.0.1/32', '10.0.0.1/31'),
('varbit', '10', '10', '100'),
('jsonb', '{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', '{"a": 1}'),
('int4[]', '{1,NULL}', '{1,NULL}', '{1}'),
('text[]', '{a,b}', '{"a","b"}', '{"a,b"}'),
('int4range', '[1,3]', '[1,4)', '[1,4]'),
('tsvector', 'a b', 'b a', 'a');
CREATE FUNCTION check_kind(k kind) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE u (v %s)', k.type);
  CREATE UNIQUE INDEX u_v ON u USING fpbtree (v);
  EXECUTE format('INSERT INTO u VALUES (%L), (%L), (NULL), (NULL)', k.a, k.b);
  RETURN NEXT told(format('INSERT INTO u VALUES (%L)', k.same));
  RETURN NEXT told('INSERT INTO u SELECT v FROM u WHERE v IS NOT NULL ORDER BY v DESC LIMIT 1');
  PERFORM harness.expect(k.type, (SELECT count(*) = 4 FROM u), 'rows');
  PERFORM harness.sound(k.type, 'u_v');
  DROP INDEX u_v;
  EXECUTE format('INSERT INTO u VALUES (%L)', k.same);
  -- Which of the two is shown depends on how the build sorts.
  RETURN NEXT regexp_replace(told('CREATE UNIQUE INDEX u_v ON u USING fpbtree (v)'), '=\(.*\) is', '=(...) is');
  DROP TABLE u;
END $$;
SELECT check_kind(k) FROM kind k;
-- Lists, NULLs that are distinct or not, columns on the side, descending order.
CREATE TABLE list (a int, b text COLLATE "C", c numeric, d int);
CREATE UNIQUE INDEX list_a ON list USING fpbtree (a DESC, d) WHERE a > 100;
CREATE UNIQUE INDEX list_ab ON list USING fpbtree (a, b) INCLUDE (c, d);
CREATE UNIQUE INDEX list_bc ON list USING fpbtree (b DESC, c) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX list_expression ON list USING fpbtree (lower(b), (d % 10)) WHERE b <> '';
INSERT INTO list VALUES (1, 'x', 1.0, 1), (1, 'y', 1.0, 2), (2, 'x', 2, 3), (NULL, 'x', 3, 4), (1, NULL, 4, 5), (1, NULL, 5, 6), (NULL, NULL, NULL, 7), (101, '', 7, 1);
SELECT s, told(s) FROM unnest(ARRAY[
  $$INSERT INTO list VALUES (1, 'x', 77, 77)$$,
  $$INSERT INTO list VALUES (1, 'X', 77, 1)$$,
  $$INSERT INTO list VALUES (1, 'X', 77, 12)$$,
  $$INSERT INTO list VALUES (1, NULL, 4.00, 8)$$,
  $$INSERT INTO list VALUES (NULL, 'x', 3.000, 8)$$,
  $$INSERT INTO list VALUES (5, NULL, NULL, 8)$$,
  $$INSERT INTO list VALUES (101, '', 8, 1)$$,
  $$INSERT INTO list VALUES (101, '', 8, 1)$$,
  $$INSERT INTO list VALUES (101, 'z', 8, 1)$$,
  $$UPDATE list SET b = 'x' WHERE b = 'y'$$,
  $$UPDATE list SET c = NULL WHERE b IS NULL$$,
  $$UPDATE list SET a = 101, d = 1 WHERE d = 3$$,
  $$INSERT INTO list SELECT 50 + i % 3, 'many', i, i FROM generate_series(1, 5) i$$]) s;
SELECT count(harness.sound('list', i::regclass)) FROM unnest('{list_a,list_ab,list_bc,list_expression}'::text[]) i;
-- What is built over rows that are there.
DROP INDEX list_a, list_ab, list_bc, list_expression;
SELECT s, told(s) FROM unnest(ARRAY[
  'CREATE UNIQUE INDEX list_d ON list USING fpbtree (a, d)',
  'CREATE UNIQUE INDEX list_e ON list USING fpbtree (a, b, (c > 100))',
  'CREATE UNIQUE INDEX list_n ON list USING fpbtree (a, b) NULLS NOT DISTINCT',
  'CREATE UNIQUE INDEX list_nn ON list USING fpbtree (b, c) NULLS NOT DISTINCT',
  'CREATE UNIQUE INDEX list_nnn ON list USING fpbtree ((nullif(a, a))) NULLS NOT DISTINCT',
  'CREATE UNIQUE INDEX list_p ON list USING fpbtree (c) WHERE c > 5']) s;
SELECT count(*) FROM pg_index WHERE indrelid = 'list'::regclass;
DROP TABLE list;
-- Only what is alive conflicts.
CREATE TABLE life (v int, w text COLLATE "C", x int) WITH (fillfactor = 50);
CREATE UNIQUE INDEX life_v ON life USING fpbtree (v);
CREATE UNIQUE INDEX life_w ON life USING fpbtree (w) INCLUDE (x);
INSERT INTO life SELECT i, 'key ' || i, 0 FROM generate_series(1, 500) i;
BEGIN;
DELETE FROM life WHERE v = 5;
INSERT INTO life VALUES (5, 'key 5', 1);
SELECT told($$INSERT INTO life VALUES (5, 'key 5 again', 2)$$);
SAVEPOINT s;
DELETE FROM life WHERE v = 6;
INSERT INTO life VALUES (6, 'key 6', 1);
ROLLBACK TO s;
SELECT told($$INSERT INTO life VALUES (6, 'key 6 again', 2)$$), told($$INSERT INTO life VALUES (1006, 'key 6', 2)$$);
DELETE FROM life WHERE v = 6;
INSERT INTO life VALUES (6, 'key 6', 2);
COMMIT;
BEGIN;
INSERT INTO life SELECT i, 'key ' || i, 0 FROM generate_series(501, 900) i;
ROLLBACK;
INSERT INTO life SELECT i, 'key ' || i, 0 FROM generate_series(501, 900) i;
SELECT told('UPDATE life SET v = v + 1'), told('UPDATE life SET w = ''same''');
SELECT told('UPDATE life SET v = -v, w = w || ''!'''), told('UPDATE life SET v = -v, w = rtrim(w, ''!'')');
-- Updates that leave the key alone, on its page and off it, a thousand versions of one.
DO $$
BEGIN
  FOR i IN 1 .. 1500 LOOP
    UPDATE life SET x = x + 1 WHERE v = 77;
  END LOOP;
END $$;
SELECT told($$INSERT INTO life VALUES (77, '', 2)$$), told($$INSERT INTO life VALUES (1077, 'key 77', 2)$$), (SELECT x FROM life WHERE v = 77);
BEGIN;
DELETE FROM life WHERE v = 77;
INSERT INTO life VALUES (77, 'key 77', 1);
ROLLBACK;
SELECT told($$INSERT INTO life VALUES (77, '', 2)$$), told($$INSERT INTO life VALUES (1077, 'key 77', 2)$$);
DELETE FROM life WHERE v = 77;
INSERT INTO life VALUES (77, 'key 77', 1);
SELECT count(harness.sound('life', i::regclass)) FROM unnest('{life_v,life_w}'::text[]) i;
VACUUM life;
SELECT told($$INSERT INTO life VALUES (77, '', 2)$$), told($$INSERT INTO life VALUES (1077, 'key 77', 2)$$);
SELECT count(harness.sound('life', i::regclass)) FROM unnest('{life_v,life_w}'::text[]) i;
-- An index built in the transaction that has deleted one of two.
BEGIN;
CREATE TABLE young (v text);
INSERT INTO young VALUES ('a'), ('b'), ('a');
DELETE FROM young WHERE ctid = '(0,1)';
CREATE UNIQUE INDEX young_v ON young USING fpbtree (v);
SELECT told($$INSERT INTO young VALUES ('a')$$);
COMMIT;
-- Many keys, every one of them tried again, and none taken for another.
CREATE TABLE many (id int, v int, w text COLLATE "C", x text);
CREATE UNIQUE INDEX many_v ON many USING fpbtree (v);
CREATE UNIQUE INDEX many_w ON many USING fpbtree (w);
CREATE UNIQUE INDEX many_x ON many USING fpbtree (x);
INSERT INTO many SELECT i, i * 7, repeat('long prefix ', 20) || i, 'short ' || i FROM generate_series(1, 3000) i ORDER BY hashint4(i);
CREATE FUNCTION refusals(statement text, state text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  refused int := 0;
BEGIN
  FOR i IN 1 .. 3000 LOOP
    BEGIN
      EXECUTE statement USING i;
    EXCEPTION WHEN unique_violation OR exclusion_violation THEN
      refused := refused + (SQLSTATE = state)::int;
    END;
  END LOOP;
  RETURN refused;
END $$;
SELECT refusals($$INSERT INTO many VALUES (0, $1 * 7)$$, '23505'), refusals($$INSERT INTO many (w) VALUES (repeat('long prefix ', 20) || $1)$$, '23505'),
       refusals($$INSERT INTO many (x) VALUES ('short ' || $1)$$, '23505');
SELECT refusals($$UPDATE many SET v = v + 7 WHERE id = $1$$, '23505'), refusals($$INSERT INTO many VALUES (0, $1 * 7 + 1, repeat('long prefix ', 20) || $1 || 'x', 'short ' || $1 || 'x')$$, '23505');
SELECT count(*) FROM many WHERE v % 7 = 0 AND v / 7 <> id;
SELECT count(harness.sound('many', i::regclass)) FROM unnest('{many_v,many_w,many_x}'::text[]) i;
DROP TABLE many, young, life;
-- Concurrently, and rebuilt.
CREATE TABLE later (v int, w text);
INSERT INTO later SELECT i, i FROM generate_series(1, 1000) i;
CREATE UNIQUE INDEX CONCURRENTLY later_v ON later USING fpbtree (v);
SELECT told('INSERT INTO later VALUES (5)');
INSERT INTO later VALUES (1001, '5');
CREATE UNIQUE INDEX CONCURRENTLY later_w ON later USING fpbtree (w);
SELECT indexrelid::regclass, indisunique, indisvalid FROM pg_index WHERE indrelid = 'later'::regclass ORDER BY 1::text;
-- Rebuilt once what conflicts is gone, it is valid.
DELETE FROM later WHERE v = 1001;
REINDEX INDEX CONCURRENTLY later_w;
SELECT indexrelid::regclass, indisunique, indisvalid FROM pg_index WHERE indrelid = 'later'::regclass ORDER BY 1::text;
SELECT told($$INSERT INTO later VALUES (1002, '5')$$);
REINDEX INDEX later_v;
REINDEX TABLE CONCURRENTLY later;
SELECT told('INSERT INTO later VALUES (5)'), told($$INSERT INTO later VALUES (1002, '5')$$), told($$INSERT INTO later VALUES (1002, '1002')$$);
SELECT harness.sound('later', 'later_v'), harness.sound('later', 'later_w');
DROP TABLE later;
-- A unique index's rows, when read.
CREATE TABLE lookup (id int, v text COLLATE "C");
INSERT INTO lookup SELECT i, md5(i::text) FROM generate_series(1, 2000) i UNION ALL SELECT i, NULL FROM generate_series(1, 50) i;
CREATE UNIQUE INDEX lookup_idx ON lookup USING fpbtree (v);
SELECT harness.compare('read', 'SELECT v{id} FROM {t} WHERE ' || c, '{lookup}', '{index,indexonly,bitmap}', false)
  FROM unnest(ARRAY['v = md5(''77'')', 'v > ''c''', 'v IS NULL', 'v = ANY (ARRAY(SELECT md5(g::text) FROM generate_series(-50, 50) g))']) c;
DROP TABLE lookup;
-- Who may not read the column is not told the key.
CREATE TABLE secret (v int, w text);
CREATE UNIQUE INDEX secret_v ON secret USING fpbtree (v);
CREATE UNIQUE INDEX secret_w ON secret USING fpbtree (w);
INSERT INTO secret VALUES (1, 'one');
CREATE ROLE regress_fpbtree_blind;
GRANT INSERT ON secret TO regress_fpbtree_blind;
GRANT SELECT (v) ON secret TO regress_fpbtree_blind;
GRANT USAGE ON SCHEMA public TO regress_fpbtree_blind;
SET ROLE regress_fpbtree_blind;
SELECT told('INSERT INTO secret VALUES (1, ''two'')'), told('INSERT INTO secret VALUES (2, ''one'')');
RESET ROLE;
REVOKE USAGE ON SCHEMA public FROM regress_fpbtree_blind;
DROP TABLE secret;
DROP ROLE regress_fpbtree_blind;
-- Exclusion constraints: at once, at the end of the statement, at the end of the transaction.
CREATE TABLE x (id int PRIMARY KEY, v int, w text COLLATE "C", z numeric,
  CONSTRAINT x_now EXCLUDE USING fpbtree (v WITH =),
  CONSTRAINT x_list EXCLUDE USING fpbtree (w WITH =, z WITH =) INCLUDE (v) WHERE (z > 0) DEFERRABLE,
  CONSTRAINT x_late EXCLUDE USING fpbtree ((v / 10) WITH =, w WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO x VALUES (1, 10, 'a', 1), (2, 20, 'b', 1), (3, 30, 'a', 2), (4, NULL, 'a', -1), (5, NULL, 'a', -1);
SELECT s, told(s) FROM unnest(ARRAY[
  $$INSERT INTO x VALUES (6, 10, 'c', 3)$$,
  $$INSERT INTO x VALUES (6, 60, 'a', 2.00)$$,
  $$INSERT INTO x VALUES (6, 60, NULL, 2.00)$$,
  $$INSERT INTO x VALUES (7, 61, 'z', -1)$$,
  $$UPDATE x SET v = v + 10$$,
  $$UPDATE x SET z = 3 - z WHERE id IN (1, 3)$$,
  $$UPDATE x SET z = z$$,
  $$UPDATE x SET z = 1 WHERE id = 3$$]) s;
BEGIN;
INSERT INTO x VALUES (8, 62, 'z', 7);
SELECT told('SET CONSTRAINTS x_late IMMEDIATE');
ROLLBACK;
BEGIN;
INSERT INTO x VALUES (8, 62, 'z', 7);
DELETE FROM x WHERE id = 7;
COMMIT;
BEGIN;
SET CONSTRAINTS x_list DEFERRED;
UPDATE x SET z = 2 WHERE id = 1;
UPDATE x SET z = 1 WHERE id = 3;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE x SET z = 1 WHERE id = 1;
INSERT INTO x VALUES (9, 63, 'z', 8);
UPDATE x SET w = 'y' WHERE id = 8;
COMMIT;
BEGIN;
INSERT INTO x VALUES (10, 64, 'z', 9), (11, 65, 'z', 10);
DELETE FROM x WHERE id IN (8, 9);
\set VERBOSITY terse
COMMIT;
\set VERBOSITY default
SELECT * FROM x ORDER BY id;
-- ON CONFLICT works on a table with these, on every version; with an arbiter as with btree.
SELECT s, told(s) FROM unnest(ARRAY[
  $$INSERT INTO x VALUES (12, 10, 'new', 1) ON CONFLICT DO NOTHING$$,
  $$INSERT INTO x VALUES (12, 10, 'new', 1) ON CONFLICT ON CONSTRAINT x_now DO NOTHING$$,
  $$INSERT INTO x VALUES (12, 10, 'new', 1) ON CONFLICT (id) DO NOTHING$$,
  $$INSERT INTO x VALUES (1, 100, 'new', 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v$$,
  $$INSERT INTO x VALUES (12, 100, 'new', 1) ON CONFLICT ON CONSTRAINT x_now DO UPDATE SET v = 0$$,
  $$INSERT INTO x VALUES (12, 100, 'new', 1) ON CONFLICT ON CONSTRAINT x_list DO NOTHING$$,
  $$INSERT INTO x VALUES (13, 130, 'new', 13) ON CONFLICT DO NOTHING$$]) s;
SELECT id, v FROM x WHERE id IN (1, 12, 13) ORDER BY id;
CREATE TABLE y (id int PRIMARY KEY, v text COLLATE "C", CONSTRAINT y_v EXCLUDE USING fpbtree (v WITH =));
SELECT s, told(s) FROM unnest(ARRAY[
  $$INSERT INTO y VALUES (1, 'a'), (2, 'a'), (3, 'b') ON CONFLICT DO NOTHING$$,
  $$INSERT INTO y VALUES (4, 'b'), (5, 'c'), (6, 'c') ON CONFLICT ON CONSTRAINT y_v DO NOTHING$$,
  $$INSERT INTO y VALUES (1, 'd') ON CONFLICT (id) DO UPDATE SET v = excluded.v$$,
  $$INSERT INTO y VALUES (3, 'd') ON CONFLICT (id) DO UPDATE SET v = excluded.v$$]) s;
SELECT * FROM y ORDER BY id;
SELECT count(harness.sound('exclusion', i::regclass)) FROM unnest('{x_now,x_list,x_late,y_v}'::text[]) i;
-- Added to a table that has rows already, which must agree.
CREATE TABLE xx (v text);
INSERT INTO xx VALUES ('a'), ('b'), (NULL), (NULL);
ALTER TABLE xx ADD CONSTRAINT xx_v EXCLUDE USING fpbtree (v WITH =) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE xx DROP CONSTRAINT xx_v;
INSERT INTO xx VALUES ('a');
SELECT told('ALTER TABLE xx ADD CONSTRAINT xx_v EXCLUDE USING fpbtree (v WITH =)');
DELETE FROM xx;
ALTER TABLE xx ADD CONSTRAINT xx_v EXCLUDE USING fpbtree (v WITH =);
SELECT refusals($$INSERT INTO xx VALUES ($1 % 500)$$, '23P01'), count(*) FROM xx;
SELECT count(*), harness.sound('exclusion', 'xx_v') FROM xx;
DROP TABLE x, xx, y;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION told, check_kind, refusals;
DROP TABLE kind;
