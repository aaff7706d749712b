-- Values longer than a key may be, which fit because they are compressed: in opaque columns and INCLUDE
-- columns, on leaves and as fences, beside values that are not compressed.
-- Needs: icu
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- The i-th text: of 10 to 15,000 characters, some of them equal, some alike but for their ends.
CREATE FUNCTION long(i int) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN i % 5 = 0 THEN left(md5(i::text), 10 + i % 20)
              ELSE repeat(md5((i % 40)::text) || ' ', 20 + i * 37 % 430) || CASE i % 3 WHEN 0 THEN i::text ELSE '' END END
$$;
CREATE TABLE texts (id int, v text COLLATE "en-x-icu") WITH (autovacuum_enabled = off);
CREATE TABLE documents (id int, v jsonb) WITH (autovacuum_enabled = off);
CREATE TABLE arrays (id int, v int[]) WITH (autovacuum_enabled = off);
CREATE TABLE included (id int, v int, w text) WITH (autovacuum_enabled = off);
CREATE INDEX texts_idx ON texts USING fpbtree (v);
CREATE INDEX documents_idx ON documents USING fpbtree (v DESC);
CREATE INDEX arrays_idx ON arrays USING fpbtree (v NULLS FIRST);
CREATE INDEX included_idx ON included USING fpbtree (v) INCLUDE (w);
CREATE FUNCTION fill_all(first int, last int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO texts SELECT i, CASE WHEN i % 71 <> 0 THEN long(i) END FROM generate_series(first, last) i;
  INSERT INTO documents SELECT i, jsonb_build_object('k', i % 7, 't', long(i)) FROM generate_series(first, last) i;
  INSERT INTO arrays SELECT i, CASE WHEN i % 71 <> 0 THEN array_fill(i % 13, ARRAY[1 + i * 37 % 3700]) || i % 3 END FROM generate_series(first, last) i;
  INSERT INTO included SELECT i, i % 50, long(i) FROM generate_series(first, last) i;
$$;
CREATE FUNCTION check_all(what text) RETURNS void LANGUAGE sql AS $$
  SELECT harness.compare(what || ' ' || t, q, ARRAY[t], '{index,indexonly}', true)
    FROM unnest('{texts,documents,arrays}'::text[]) t, unnest(ARRAY['SELECT v{id} FROM {t} ORDER BY v{tie}', 'SELECT v{id} FROM {t} ORDER BY v DESC{tie}']) q
   WHERE (t = 'documents') = (q ~ 'DESC') AND t <> 'arrays';
  SELECT harness.compare(what || ' ' || t, format('SELECT v{id} FROM {t} WHERE v %s (SELECT v FROM some_%s WHERE id = %s)', op, t, i), ARRAY[t], '{index,indexonly,bitmap}', false)
    FROM unnest('{texts,documents,arrays}'::text[]) t, unnest('{<,<=,=,>=,>}'::text[]) op, unnest('{4,77,445}'::int[]) i;
  SELECT harness.compare(what || ' included', 'SELECT v, w{id} FROM {t} WHERE v BETWEEN 3 AND 40', '{included}', '{index,indexonly}', false);
  SELECT harness.sound(what, (t || '_idx')::regclass) FROM unnest('{texts,documents,arrays,included}'::text[]) t;
$$;
SELECT fill_all(1, 700);
ANALYZE texts, documents, arrays, included;
CREATE TABLE some_texts AS SELECT * FROM texts;
CREATE TABLE some_documents AS SELECT * FROM documents;
CREATE TABLE some_arrays AS SELECT * FROM arrays;
SELECT check_all('grown');
REINDEX INDEX texts_idx;
REINDEX INDEX documents_idx;
REINDEX INDEX arrays_idx;
REINDEX INDEX included_idx;
SELECT check_all('built');
DELETE FROM texts WHERE id % 3 = 0;
DELETE FROM documents WHERE id % 3 = 0;
DELETE FROM arrays WHERE id % 3 = 0;
DELETE FROM included WHERE id % 3 = 0;
VACUUM texts, documents, arrays, included;
SELECT fill_all(701, 1000);
SELECT check_all('again');
SELECT test, sum(checks) AS checks, sum(mismatches) AS mismatches FROM harness.result GROUP BY test ORDER BY test;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 10;
-- Values that the table has out of line, and not compressed, are the same values.
ALTER TABLE texts ALTER v SET STORAGE EXTERNAL;
INSERT INTO texts SELECT id, v FROM texts WHERE id BETWEEN 800 AND 900;
SELECT count(*) AS "equal, however stored" FROM texts a JOIN texts b ON a.v = b.v AND a.ctid <> b.ctid WHERE a.id BETWEEN 800 AND 900;
SELECT harness.sound('stored otherwise', 'texts_idx');
-- Uniqueness is the value's.
CREATE UNIQUE INDEX one_idx ON texts USING fpbtree (v) WHERE id = 1;
INSERT INTO texts VALUES (1, repeat('long and unique ', 3000));
\set VERBOSITY sqlstate
INSERT INTO texts VALUES (1, repeat('long and unique ', 3000));
-- What does not fit even so, what is longer than is compressed, and a text in byte order: all are refused alike when
-- inserted and when built.
SELECT length(string_agg(md5(i::text), '')) > 4000 AS noisy FROM generate_series(1, 200) i;
INSERT INTO texts SELECT 2, string_agg(md5(i::text), '') FROM generate_series(1, 200) i;
INSERT INTO texts VALUES (2, repeat('x', 65536));
INSERT INTO texts VALUES (2, repeat('x', 65537));
INSERT INTO included VALUES (2, 2, repeat('x', 65537));
CREATE TABLE bytes (v text COLLATE "C");
INSERT INTO bytes VALUES (repeat('x', 2000));
CREATE INDEX ON bytes USING fpbtree (v);
CREATE TABLE longer AS SELECT repeat('x', 65537) COLLATE "en-x-icu" AS v;
CREATE INDEX ON longer USING fpbtree (v);
SELECT count(*) FROM texts WHERE v = repeat('x', 65537) OR v = repeat('x', 65536);
\set VERBOSITY default
SELECT sum(mismatches) AS mismatches FROM harness.result;
DROP FUNCTION check_all, fill_all, long;
DROP TABLE texts, documents, arrays, included, some_texts, some_documents, some_arrays, bytes, longer;
