-- INCLUDE columns: of any type, NULL or long, on integer and text keys; an index-only scan returns
-- them as they were stored.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION noise(n int, seed int) RETURNS text IMMUTABLE LANGUAGE sql AS $$
  SELECT left(string_agg(md5(seed || ' ' || i), '' ORDER BY i), n) FROM generate_series(0, n / 32) i
$$;
CREATE TABLE key (name text, columns text, options text, conditions text[], forward text, backward text);
INSERT INTO key VALUES
('integer', 'k', 'k', '{k = 77,k BETWEEN 20 AND 60,k > 110,k IS NULL,"k = ANY (''{5,7,NULL,200}'')"}', 'k', 'k DESC'),
('text', 't', 't', '{t = ''key 77'',t > ''key 5'',t < ''key 2'',t IS NULL,"t = ANY (''{key 5,key 7,none}'')"}', 't', 't DESC'),
('linguistic text', 'l', 'l DESC', '{l = ''key 77'',l > ''key 5'',l IS NOT NULL}', 'l DESC', 'l'),
('numeric and integer', 'n, k', 'n DESC, k', '{n = 7.0,n < 3,n = 7.5 AND k > 50,n IS NULL}', 'n DESC, k', 'n, k DESC');
-- "random" draws a value, using r, one in 0 .. 119.
CREATE TABLE kind (type text, random text);
INSERT INTO kind VALUES
('boolean', 'r % 2 = 0'), ('"char"', 'r::"char"'), ('smallint', 'r'), ('integer', 'r'), ('bigint', 'r * 10000000000'), ('real', $$CASE WHEN r % 2 = 0 THEN '-0' ELSE r / 7.0 END$$),
('float8', $$CASE WHEN r % 2 = 0 THEN '-0' ELSE 'NaN' END$$), ('numeric', 'round(r, r % 5)'), ('text', 'repeat(chr(97 + r % 5), r)'), ('varchar(50)', 'r'), ('bpchar', $$r || repeat(' ', r % 4)$$), ('char(7)', 'r'),
('name', $$'name_' || r$$), ('bytea', $$decode(repeat('00', r % 9), 'hex')$$), ('uuid', 'md5(r::text)::uuid'), ('date', $$date '2000-01-01' + r$$), ('timetz', $$timetz '00:00+00' + r * interval '97 s'$$),
('timestamptz', $$timestamptz 'epoch' + r * interval '1 day'$$), ('interval', $$(ARRAY['1 month', '30 days', '720 hours']::interval[])[1 + r % 3]$$), ('inet', $$inet '10.0.0.0' + r$$), ('macaddr', 'left(md5(r::text), 12)::macaddr'),
('bit(9)', 'r::bit(9)'), ('varbit', 'substring(r::bit(9), 1, r % 10)'), ('json', $$format('{"a":  %s, "a": null}', r)::json$$), ('jsonb', $$jsonb_build_object('a', r)$$),
('point', 'point(r, -r)'), ('box', 'box(point(r, 0), point(0, r))'), ('circle', 'circle(point(r, 0), r)'), ('path', $$format('((%s,1),(2,3))', r)::path$$), ('polygon', $$format('((%s,1),(2,3))', r)::polygon$$),
('xid', 'r::text::xid'), ('cid', 'r::text::cid'), ('tid', $$format('(%s,%s)', r, r)::tid$$), ('regclass', 'r::oid'), ('aclitem', $$makeaclitem(10, 10, 'SELECT', r % 2 = 0)$$), ('tsvector', $$to_tsvector('simple', 'w' || r)$$), ('tsquery', $$to_tsquery('simple', 'w' || r)$$),
('int[]', 'ARRAY[r, NULL]'), ('text[]', 'ARRAY[r::text, NULL]'), ('json[]', $$ARRAY['{ }'::json]$$), ('int4range', 'int4range(r, r + 3)'), ('nummultirange', 'nummultirange(numrange(r, r + 1.50))'), ('mood', $$'happy'$$), ('pair', 'ROW(r, r)');
CREATE FUNCTION check_column(k key, c kind, ways text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  condition text;
BEGIN
  FOREACH condition IN ARRAY k.conditions LOOP
    PERFORM harness.compare(format('%s (%s)', k.name, c.type), format('SELECT %s, v{id} FROM {t} WHERE %s', k.columns, condition), '{t}', ways, false);
  END LOOP;
  PERFORM harness.compare(format('%s (%s)', k.name, c.type), format('SELECT %s, v{id} FROM {t} ORDER BY %s{tie}', k.columns, o), '{t}', '{indexonly}', true)
     FROM unnest(ARRAY[k.forward, k.backward]) o;
  PERFORM harness.compare(format('%s (%s)', k.name, c.type), format('SELECT v FROM {t} WHERE %s', o), '{t}', '{indexonly}', false)
     FROM unnest(k.conditions) o;
  PERFORM harness.sound(format('%s (%s)', k.name, c.type), 't_idx');
END $$;
CREATE FUNCTION fill(c kind, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO t SELECT i, CASE WHEN i %% 21 > 0 THEN r END, CASE WHEN i %% 19 > 0 THEN ''key '' || r END, CASE WHEN i %% 17 > 0 THEN ''key '' || r END,
                                       CASE WHEN i %% 15 > 0 THEN round(r %% 12 / 2.0, r %% 3) END, CASE WHEN i %% 4 > 0 THEN (%s)::%s END
                    FROM (SELECT i, floor(random() * 120)::int AS r FROM generate_series(%s, %s) i) s', c.random, c.type, first, last);
END $$;
CREATE FUNCTION check_kind(k key, c kind) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE t (id int, k int, t text COLLATE "C", l text, n numeric, v %s) WITH (autovacuum_enabled = off)', c.type);
  PERFORM fill(c, 1, 250);
  EXECUTE format('CREATE INDEX t_idx ON t USING fpbtree (%s) INCLUDE (v)', k.options);
  PERFORM fill(c, 251, 500);
  PERFORM check_column(k, c, '{index,indexonly,bitmap}');
  DELETE FROM t WHERE id % 3 = 0;
  UPDATE t SET v = NULL WHERE id % 5 = 1 AND v IS NOT NULL; -- else it stays in its place
  PERFORM check_column(k, c, '{indexonly}');
  DROP TABLE t;
END $$;
-- Every type on the two main keys, some of them on the others.
SELECT setseed(0.125);
SELECT count(check_kind(k, c)) FROM key k, kind c WHERE k.name IN ('integer', 'text') OR c.type IN ('integer', 'text', 'numeric', 'json', 'pair', 'bpchar');
SELECT split_part(test, ' (', 1) AS key, count(*) AS types, sum(checks) AS checks, sum(mismatches) AS mismatches FROM harness.summary GROUP BY 1 ORDER BY 1;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION check_kind, check_column, fill;
DROP TABLE kind, key;
-- Several, beside a packed list, long ones, on a table that is written to and vacuumed.
TRUNCATE harness.result, harness.problem;
CREATE TABLE t (id int, a int, b int2, v text, w numeric, x json) WITH (autovacuum_enabled = off);
CREATE INDEX t_idx ON t USING fpbtree (a, b DESC) INCLUDE (v, w, x);
INSERT INTO t SELECT i, i % 300, i % 7, CASE WHEN i % 3 > 0 THEN noise(i % 900, i) END, CASE WHEN i % 5 > 0 THEN i / 8.0 END, CASE WHEN i % 4 > 0 THEN '[ 1 ]'::json END FROM generate_series(1, 3000) i;
CREATE FUNCTION check_all(what text) RETURNS void LANGUAGE sql AS $$
  SELECT harness.compare(what, 'SELECT a, b, v, w, x{id} FROM {t} WHERE ' || c, '{t}', '{index,indexonly,bitmap}', false)
    FROM unnest(ARRAY['a = 77', 'a > 250', 'a = 50 AND b = 1', 'b = 3', 'a = ANY (''{1,2,3,NULL}'') AND b > 2', 'a BETWEEN 10 AND 200 AND length(v) > 800', 'a > 20 AND w > 100 AND v IS NULL']) c;
  SELECT harness.compare(what, 'SELECT a, b, v, w, x{id} FROM {t} ORDER BY ' || o || '{tie}', '{t}', '{index,indexonly}', true) FROM unnest('{"a, b DESC","a DESC, b"}'::text[]) o;
  SELECT harness.compare(what, 'SELECT w{id} FROM {t} WHERE v > ''f'' AND a < 200', '{t}', '{index,indexonly,bitmap}', false);
  SELECT harness.sound(what, 't_idx');
$$;
SELECT check_all('several');
REINDEX INDEX t_idx;
SELECT check_all('several, built');
DELETE FROM t WHERE a BETWEEN 50 AND 250;
UPDATE t SET v = noise(1200, a), w = -w WHERE b = 1;
VACUUM t;
SELECT check_all('several, vacuumed');
INSERT INTO t SELECT i, i % 300, i % 7, noise(1000, i % 10), i, '{}' FROM generate_series(1, 1500) i;
SELECT check_all('several, again');
-- What does not fit is refused, and says so as a long key does.
CREATE FUNCTION refused(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  state text; message text; detail text; hint text; tab text; con text;
BEGIN
  EXECUTE statement;
  RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT,
    tab = TABLE_NAME, con = CONSTRAINT_NAME;
  RETURN concat_ws(E'\n', state, regexp_replace(message, '\d+', 'N', 'g'), regexp_replace(detail, '\d+', 'N', 'g'),
                   substring(hint FROM 'Consider.*'), tab, con);
END $$;
SELECT refused('INSERT INTO t (a, v) VALUES (1, noise(3000, 1))');
SELECT refused('UPDATE t SET v = noise(3000, 1) WHERE a = 5');
SELECT check_all('several, refused');
-- Values out of line and compressed.
CREATE TABLE u (id int, k text COLLATE "C", v text, pad text DEFAULT repeat('p', 1500)) WITH (autovacuum_enabled = off, toast_tuple_target = 128);
ALTER TABLE u ALTER pad SET STORAGE PLAIN;
CREATE INDEX u_idx ON u USING fpbtree (k) INCLUDE (v);
INSERT INTO u SELECT i, 'k' || i % 50, repeat(chr(97 + i % 3), 1000 + i % 300) FROM generate_series(1, 200) i;
ALTER TABLE u ALTER v SET STORAGE EXTERNAL;
INSERT INTO u SELECT i, 'k' || i % 50, noise(600 + i % 300, i) FROM generate_series(201, 400) i;
SELECT harness.compare('toasted', 'SELECT k, v{id} FROM {t} WHERE ' || c, '{u}', '{index,indexonly,bitmap}', false) FROM unnest('{k = ''k7'',k > ''k3'',k >= ''k4'' AND v > ''b''}'::text[]) c;
REINDEX INDEX u_idx;
SELECT harness.compare('toasted, built', 'SELECT k, v{id} FROM {t} WHERE ' || c, '{u}', '{index,indexonly,bitmap}', false) FROM unnest('{k = ''k7'',k > ''k3'',k >= ''k4'' AND v > ''b''}'::text[]) c;
SELECT harness.sound('toasted', 'u_idx');
-- The same column as key and beside it, an expression as key; an expression beside it is refused by the server.
CREATE INDEX u_twice ON u USING fpbtree (id, (lower(k))) INCLUDE (id, k);
SELECT harness.sound('twice', 'u_twice');
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT id, k FROM u WHERE id BETWEEN 3 AND 5 AND lower(k) > 'k' ORDER BY id;
SELECT left(harness.outcome(s), 5) FROM unnest('{CREATE INDEX ON u USING fpbtree (id) INCLUDE ((lower(k))),CREATE INDEX ON u USING fpbtree (id) INCLUDE (v DESC),CREATE INDEX ON u USING fpbtree () INCLUDE (v)}'::text[]) s;
-- A column on the side is no key: no order by it.
CREATE TABLE w (k int, v int);
INSERT INTO w SELECT i % 3, i FROM generate_series(1, 1000) i;
CREATE INDEX w_idx ON w USING fpbtree (k) INCLUDE (v);
VACUUM ANALYZE w;
SET enable_incremental_sort = off;
EXPLAIN (COSTS OFF) SELECT k, v FROM w ORDER BY k, v;
EXPLAIN (COSTS OFF) SELECT k, v FROM w WHERE k = 1 AND v = 7;
SELECT k, v FROM w WHERE k = 1 AND v = 7;
SELECT pg_get_indexdef('w_idx'::regclass);
SELECT p, pg_index_column_has_property('w_idx', 1, p) AS key, pg_index_column_has_property('w_idx', 2, p) AS included FROM unnest('{orderable,returnable,search_array,search_nulls}'::text[]) p;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_incremental_sort;
-- Blanks are counted in a key, but a tuple has them all: more than its header can say.
CREATE TABLE b (id int, c char(20000) COLLATE "C");
INSERT INTO b SELECT i, nullif(i % 50, 7) FROM generate_series(1, 200) i;
CREATE INDEX b_idx ON b USING fpbtree (c, id DESC);
VACUUM ANALYZE b;
SELECT harness.compare('blanks', 'SELECT id, c FROM {t} WHERE ' || c, '{b}', '{indexonly}', false) FROM unnest('{c > ''3'',c IS NULL,c = ''42'' AND id < 100}'::text[]) c;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION check_all, refused, noise;
DROP TABLE b, t, u, w;
DROP TYPE mood, pair;
