-- Texts under each kind of collation: what equals, what sorts where, what a pattern may use; the index
-- agrees with a sequential scan, and the order is the sort's.
-- Needs: icu
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE COLLATION libc_c (provider = libc, locale = 'C');
CREATE COLLATION libc_utf8 (provider = libc, locale = 'C.UTF-8');
CREATE COLLATION english (provider = icu, locale = 'en');
CREATE COLLATION swedish (provider = icu, locale = 'sv');
CREATE COLLATION number_aware (provider = icu, locale = 'en-u-kn-true');
CREATE COLLATION upper_first (provider = icu, locale = 'en-u-kf-upper');
CREATE COLLATION case_blind (provider = icu, locale = 'en-u-ks-level2', deterministic = false);
CREATE COLLATION accent_blind (provider = icu, locale = 'en-u-ks-level1', deterministic = false);
CREATE TABLE kind (name text, collation_name text, type text);
INSERT INTO kind SELECT format('%s, %s', type, c), c, type
  FROM unnest('{"\"C\"","\"POSIX\"","\"default\"",libc_c,libc_utf8,ucs_basic,"\"en-x-icu\"","\"und-x-icu\"",swedish,number_aware,upper_first,case_blind,accent_blind}'::text[]) c,
       unnest('{text,varchar,bpchar}'::text[]) type
 WHERE type = 'text' OR c IN ('"C"', '"default"', '"en-x-icu"', 'case_blind');
-- Words that the collations sort differently, or take for the same.
CREATE TABLE word (n int, w text);
INSERT INTO word SELECT n - 1, w FROM unnest(ARRAY['', ' ', 'a', 'A', 'b', 'B', 'abc', 'ABC', 'aBc', 'abd', 'ab c', 'ab-c', 'résumé', 'resume', 'Resume', 'RÉSUMÉ', 're' || chr(769) || 'sume' || chr(769),
  'zebra', 'Zebra', 'ängström', 'Ångström', 'angstrom', 'öl', 'ol', 'ox', 'straße', 'strasse', 'STRASSE', 'item 2', 'item 10', 'item 1', 'ﬁsh', 'fish', '日本', '中国', chr(128512), E'\x01', '_', '~', '0', '9',
  repeat('long ', 60) || 'a', repeat('long ', 60) || 'B', repeat('long ', 60) || 'b']) WITH ORDINALITY u(w, n);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO t SELECT i, CASE WHEN i % 29 > 0 THEN w || CASE WHEN i % 3 = 0 THEN '' ELSE (abs(hashint4(i)) % 5)::text END END
    FROM generate_series(first, last) i JOIN word ON n = abs(hashint4(-i)) % (SELECT count(*) FROM word);
END $$;
CREATE FUNCTION conditions(k kind) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT format('v %s %L', op, w) FROM unnest('{<,<=,=,>=,>}'::text[]) op, word WHERE n % 4 = 2
  UNION ALL SELECT format('v = %L', w) FROM word WHERE n % 4 <> 2
  UNION ALL SELECT format('v > %L AND v <= %L', a.w, b.w) FROM word a, word b WHERE a.n IN (2, 13, 29) AND b.n IN (5, 19, 33)
  UNION ALL SELECT format('v = ANY (%L)', array_agg(w)) FROM word WHERE n % 3 = 0
  UNION ALL VALUES ('v IS NULL')
$$;
-- Images that are one to the collation are told apart by their place in the heap.
CREATE FUNCTION check_kind(k kind) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  o text[];
  c text;
BEGIN
  EXECUTE format('CREATE TABLE t (id int, v %s COLLATE %s) WITH (autovacuum_enabled = off)', k.type, k.collation_name);
  FOREACH o SLICE 1 IN ARRAY '{{v,"v DESC"},{"v DESC NULLS LAST","v NULLS FIRST"}}'::text[] LOOP
    TRUNCATE t;
    PERFORM fill(1, CASE o[1] WHEN 'v' THEN 500 ELSE 0 END);
    EXECUTE format('CREATE INDEX t_idx ON t USING fpbtree (%s)', o[1]);
    PERFORM fill(CASE o[1] WHEN 'v' THEN 501 ELSE 1 END, 1000);
    FOR c IN SELECT s.c FROM conditions(k) WITH ORDINALITY s(c, n) WHERE (n % 2 = 0) = (o[1] = 'v') LOOP
      PERFORM harness.compare(k.name, 'SELECT v{id} FROM {t} WHERE ' || c, '{t}', '{index,indexonly,bitmap}', false);
    END LOOP;
    PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} WHERE %s ORDER BY %s{tie}', bound, by), '{t}', '{index,indexonly}', true)
       FROM unnest(o) by, unnest('{true,v >= ''B'',v < ''item 2''}'::text[]) bound;
    PERFORM harness.sound(k.name, 't_idx');
    DELETE FROM t WHERE id % 2 = 0;
    PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} ORDER BY %s{tie}', o[2]), '{t}', '{index,indexonly}', true);
    DROP INDEX t_idx;
  END LOOP;
  DROP TABLE t;
END $$;
SELECT count(check_kind(k)) FROM kind k;
-- Two columns of different collations, and an index whose collation is not its column's.
CREATE TABLE t (id int, a text COLLATE case_blind, b text COLLATE "C", c text COLLATE swedish) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, x.w, y.w, z.w FROM generate_series(1, 1500) i JOIN word x ON x.n = abs(hashint4(i)) % 44 JOIN word y ON y.n = abs(hashint4(-i)) % 44 JOIN word z ON z.n = abs(hashint4(i + 9999)) % 44;
CREATE FUNCTION check_list(columns text, conditions text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  turned text := (SELECT string_agg(CASE WHEN e ~ 'DESC' THEN replace(e, ' DESC', '') ELSE e || ' DESC' END, ', ' ORDER BY n) FROM unnest(string_to_array(columns, ', ')) WITH ORDINALITY u(e, n));
BEGIN
  EXECUTE format('CREATE INDEX t_idx ON t USING fpbtree (%s)', columns);
  PERFORM harness.compare(columns, 'SELECT a, b, c{id} FROM {t} WHERE ' || c, '{t}', '{index,bitmap}', false) FROM unnest(conditions) c;
  PERFORM harness.compare(columns, format('SELECT a, b, c, id FROM {t} ORDER BY %s{tie}', o), '{t}', '{index}', true) FROM unnest(ARRAY[columns, turned]) o;
  PERFORM harness.sound(columns, 't_idx');
  DROP INDEX t_idx;
END $$;
SELECT check_list(columns, conditions) FROM (VALUES
  ('a, b', ARRAY[$$a = 'ABC'$$, $$a = 'abc' AND b > 'b'$$, $$a > 'resume' AND b = 'item 10'$$]),
  ('b, a DESC', ARRAY[$$b = 'ABC'$$, $$b = 'abc' AND a > 'b'$$, $$b > 'resume' AND a = 'Item 10'$$]),
  ('c DESC, a, b', ARRAY[$$c = 'öl' AND a = 'STRASSE'$$, $$c > 'zebra'$$, $$c = 'Ångström' AND a = 'résumé' AND b < 'z'$$]),
  ('a COLLATE "C", c', ARRAY[$$a COLLATE "C" = 'ABC'$$, $$a COLLATE "C" > 'a' AND c = 'ox'$$]),
  ('b COLLATE "en-x-icu" DESC, lower(c) COLLATE accent_blind', ARRAY[$$b COLLATE "en-x-icu" < 'B'$$, $$b COLLATE "en-x-icu" = 'abc' AND lower(c) COLLATE accent_blind = 'RESUME'$$])) v (columns, conditions);
-- Under a collation that takes different images for one, a unique index does so too; whatever is
-- stored is returned as it is.
CREATE TABLE u (v text COLLATE case_blind);
CREATE UNIQUE INDEX u_v ON u USING fpbtree (v);
INSERT INTO u VALUES ('Apple'), ('pear'), ('PLUM');
SELECT s, left(harness.outcome(format('INSERT INTO u VALUES (%L)', s)), 5) FROM unnest('{apple,APPLE,apples,Péar,plum,""}'::text[]) s;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT v FROM u WHERE v = 'APPLE' OR v = 'plum';
SELECT v FROM u WHERE v = 'aPPLE';
SELECT v FROM u WHERE v = ANY ('{PEAR,plum,PLUM,apple}') ORDER BY v;
-- An index serves the conditions of its own collation, and no others.
EXPLAIN (COSTS OFF) SELECT v FROM u WHERE v = 'apple' COLLATE "C";
EXPLAIN (COSTS OFF) SELECT v FROM u WHERE v = 'apple';
RESET enable_seqscan;
RESET enable_bitmapscan;
-- A collation of another version is told of, as with btree, until the index is rebuilt.
SELECT collversion IS NOT NULL AS versioned FROM pg_collation WHERE collname = 'english';
CREATE TABLE versioned (v text COLLATE english);
CREATE INDEX versioned_v ON versioned USING fpbtree (v);
INSERT INTO versioned SELECT w FROM word;
UPDATE pg_collation SET collversion = '0.0' WHERE collname = 'english';
\c -
SET enable_seqscan = off;
\set VERBOSITY terse
SELECT count(*) > 10 AS some FROM versioned WHERE v > 'b';
\set VERBOSITY default
SET client_min_messages = warning;
REINDEX INDEX versioned_v;
ALTER COLLATION english REFRESH VERSION;
SELECT harness.sound('versioned', 'versioned_v');
-- A collation cannot be dropped while an index needs it.
SELECT left(harness.outcome('DROP COLLATION english'), 5);
-- The classes of patterns take equal bytes for "=", and so no nondeterministic collation: btree's message.
CREATE TABLE pattern (t text COLLATE case_blind, v varchar COLLATE case_blind, b bpchar COLLATE case_blind, c text);
INSERT INTO pattern VALUES ('abc', 'abc', 'abc', 'abc'), ('ABC', 'ABC', 'ABC', 'ABC');
SELECT m AS method, c AS class, harness.outcome(format('CREATE %sINDEX ON pattern USING %s (%s %s_pattern_ops %s)', u, m, left(c, 1), c, o)) AS outcome
  FROM unnest('{text,varchar,bpchar}'::text[]) c, unnest(ARRAY['', 'UNIQUE ']) u, unnest('{"",DESC}'::text[]) o, unnest('{btree,fpbtree}'::text[]) m
 ORDER BY c, u, o, m;
SELECT harness.outcome('CREATE INDEX ON pattern USING fpbtree (c COLLATE case_blind text_pattern_ops)');
SELECT harness.outcome('CREATE INDEX ON pattern USING fpbtree (c, t text_pattern_ops)');
SELECT harness.outcome('CREATE INDEX ON pattern USING fpbtree (c text_pattern_ops, t)');
-- A column that is given such a collation takes its index with it, or nothing is changed.
CREATE TABLE pattern_later (t text);
CREATE INDEX ON pattern_later USING fpbtree (t text_pattern_ops);
SELECT harness.outcome('ALTER TABLE pattern_later ALTER t TYPE text COLLATE case_blind');
-- Abbreviated keys: what a value that is refused took is given back, and so are the states of many collations.
CREATE TABLE abbreviated (v text COLLATE english);
CREATE INDEX ON abbreviated USING fpbtree (v);
CREATE FUNCTION kept() RETURNS bigint LANGUAGE sql AS $$
  SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name IN ('TopMemoryContext', 'fpbtree abbreviated keys')
$$;
INSERT INTO abbreviated VALUES ('a');
SELECT kept() AS before \gset
SELECT left(harness.outcome($$INSERT INTO abbreviated VALUES (repeat('long ', 4000000))$$), 5);
SELECT count(*) FROM abbreviated WHERE v = repeat('long ', 4000000);
SELECT kept() - :before < 1000000 AS given_back;
DO $$
BEGIN
  FOR i IN 1 .. 60 LOOP
    EXECUTE format('CREATE COLLATION many_%s (provider = icu, locale = %L)', i, 'en-u-kn-' || CASE i % 2 WHEN 0 THEN 'true' ELSE 'false' END);
    EXECUTE format('CREATE TABLE many_%s (v text COLLATE many_%s)', i, i);
    EXECUTE format('CREATE INDEX ON many_%s USING fpbtree (v)', i);
    EXECUTE format('INSERT INTO many_%s SELECT i::text FROM generate_series(1, 20) i', i);
  END LOOP;
END $$;
SELECT count(*) AS remembered FROM pg_backend_memory_contexts WHERE name = 'fpbtree sort support';
-- What was forgotten is found again.
SET enable_seqscan = off;
SELECT string_agg(v, ' ') FROM (SELECT v FROM many_1 WHERE v > '15' ORDER BY v) s;
RESET enable_seqscan;
DO $$
BEGIN
  FOR i IN 1 .. 60 LOOP
    EXECUTE format('INSERT INTO many_%s SELECT i::text FROM generate_series(21, 40) i', i);
    PERFORM harness.sound('many', format('many_%s_v_idx', i));
    EXECUTE format('DROP TABLE many_%s', i);
    EXECUTE format('DROP COLLATION many_%s', i);
  END LOOP;
END $$;
DROP TABLE pattern, pattern_later, abbreviated;
DROP FUNCTION kept;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION check_list, check_kind, conditions, fill;
DROP TABLE t, u, versioned, word, kind;
DROP COLLATION libc_c, libc_utf8, english, swedish, number_aware, upper_first, case_blind, accent_blind;
