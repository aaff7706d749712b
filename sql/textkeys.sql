-- Keys of any length: long common prefixes, values that differ only far behind, the longest that fit,
-- and the types whose values are stored as bytes. Each operator and order, through index, index-only
-- and bitmap scans, against a sequential scan; what an index-only scan returns is what was stored.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- n characters that do not compress.
CREATE FUNCTION noise(n int, seed int) RETURNS text IMMUTABLE LANGUAGE sql AS $$
  SELECT left(string_agg(md5(seed || ' ' || i), '' ORDER BY i), n) FROM generate_series(0, n / 32) i
$$;
-- "special" are some values, as SQL; "random" draws another, using r, one in 0 .. 999.
CREATE TABLE kind (name text, type text, class text, ops text[], special text, random text);
INSERT INTO kind SELECT name, type, class, CASE WHEN class ~ 'pattern' THEN '{~<~,~<=~,=,~>=~,~>~}' ELSE '{<,<=,=,>=,>}' END::text[], special, random FROM (VALUES
('url', 'text COLLATE "C"', '', $$'https://www.example.com/','https://www.example.com','https://','','http://zzz/'$$,
  $$format('https://www.example.com/catalogue/%s/articles/%s?id=%s', r % 20, md5((r % 50)::text), r)$$),
('far behind', 'text COLLATE "C"', '', $$repeat('x', 1200),repeat('x', 1201),repeat('x', 1199) || 'y','x',''$$,
  $$repeat('x', 1200 + r % 3) || r$$),
('short', 'text COLLATE "C"', '', $$'','a','b',E'\x7f','aa',' ',E'\x01',chr(233),chr(66000)$$,
  $$left(md5(r::text), r % 3)$$),
('any length', 'text COLLATE "C"', '', $$'','0',repeat('f', 1600),repeat('0', 1600)$$,
  $$noise(1 + (r * 1.5)::int, r % 37)$$),
('one letter', 'text COLLATE "C"', '', $$'','a',repeat('a', 1600),'b'$$,
  $$repeat('a', r)$$),
('text', 'text', '', $$'','a','A','Z','z','Zebra','zebra',chr(233),chr(66000)$$,
  $$format('%s %s', (ARRAY['Alpha', 'alpha', 'beta', chr(233) || 't' || chr(233), 'BETA'])[1 + r % 5], r)$$),
('text_pattern', 'text', 'text_pattern_ops', $$'','a','A','Z','z','alpha 77',chr(233),chr(66000)$$,
  $$format('%s %s', (ARRAY['Alpha', 'alpha', 'beta', chr(233) || 't' || chr(233), 'BETA'])[1 + r % 5], r)$$),
('varchar', 'varchar(300) COLLATE "C"', '', $$'','a','a ','a  ',repeat('v', 300)$$,
  $$repeat('common beginning ', 12) || r$$),
('varchar_pattern', 'varchar(40)', 'varchar_pattern_ops', $$'','a','a ','ab'$$,
  $$md5(r::text)$$),
('bpchar', 'bpchar COLLATE "C"', '', $$'','a','a ','a   ',E'a\x01',E'a \x01','a!',' ','   ',' a','b'$$,
  $$left('abcabc' || r, 1 + r % 9) || repeat(' ', r % 4)$$),
('char', 'char(9)', '', $$'','a','a ',E'a\x01','a!',' a','b'$$,
  $$left('abcabc' || r, 1 + r % 9)$$),
('bpchar_pattern', 'bpchar', 'bpchar_pattern_ops', $$'','a','a ','a   ',E'a\x01',E'a \x01','a!',' '$$,
  $$left('abcabc' || r, 1 + r % 9) || repeat(' ', r % 4)$$),
('name', 'name', '', $$'','a',repeat('n', 63),repeat('n', 62),repeat('n', 62) || 'o','pg_class'$$,
  $$('a_name_with_a_rather_long_beginning_' || r)::name$$),
('bytea', 'bytea', '', $$'','\x00','\x0000','\x00ff','\x0001','\x01','\xff','\xffff','\x00010000','\x000100'$$,
  $$substr(decode(translate(md5((r % 300)::text), '13579bd', '0000fff'), 'hex'), 1, r % 17)$$),
('numeric', 'numeric', '', $$0,0.0,0.000,1,1.0,1.00,-1,-1.0,'NaN','Infinity','-Infinity','1e300','-1e300','1e-300','-1e-300',9999,10000,10001,9999.9999,9999.99990,10000.0000,0.0001,0.00001,12345678901234567890.123456789$$,
  $$round(((r - 500) * 1.23456789)::numeric, r % 6)$$),
('interval', 'interval', '', $$'0','1 month','30 days','720 hours','29 days 24:00','-1 month','-30 days','1 year','360 days','1 month -30 days','178000000 years','-178000000 years','0.000001 s','-0.000001 s'$$,
  $$(r - 500) * (ARRAY['1 day', '24 hours', '1 month', '30 days']::interval[])[1 + r % 4]$$),
('timetz', 'timetz', '', $$'00:00+00','24:00-15:59','24:00+15:59','00:00+15:59','12:00+02','11:00+01','10:00+00','23:59:59.999999-07'$$,
  $$(timetz '00:00+00' + r * interval '97 seconds') AT TIME ZONE make_interval(hours => r % 25 - 12)$$),
('inet', 'inet', '', $$'0.0.0.0/0','0.0.0.0','10.0.0.0/8','10.0.0.0/9','10.0.0.0','10.1.2.3/8','10.1.2.3','255.255.255.255','::/0','::','::1','ffff::/16','ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff','::ffff:10.1.2.3','2001:db8::/32'$$,
  $$set_masklen(CASE WHEN r % 3 = 0 THEN inet '2001:db8::' ELSE inet '10.0.0.0' END + r * 65537, 8 + r % 25)$$),
('cidr', 'cidr', '', $$'0.0.0.0/0','0.0.0.0','10.0.0.0/8','10.0.0.0/9','10.128.0.0/9','10.0.0.0','::/0','ffff::/16','2001:db8::/32'$$,
  $$network(set_masklen(CASE WHEN r % 3 = 0 THEN inet '2001:db8::' ELSE inet '10.0.0.0' END + r * 65537, 8 + r % 25))$$),
('bit', 'bit(12)', '', $$B'000000000000',B'111111111111',B'000000000001',B'100000000000'$$,
  $$(r * 4)::bit(12)$$),
('varbit', 'varbit', '', $$'',B'0',B'00',B'1',B'10',B'100000000',B'10000000',B'00000000',B'000000000',B'0000000000000001'$$,
  $$substring((r * 4)::bit(12), 1, r % 13)::varbit$$)) v (name, type, class, special, random);
-- Two tables a kind: an index built over half of the rows, and one that begins empty and is filled at random.
CREATE TABLE tab (kind text, variant int, name text, options text, forward text, backward text);
INSERT INTO tab SELECT k.name, n, format('t_%s%s', translate(k.name, '() ', '___'), n), options, forward, backward
  FROM kind k, (VALUES (1, '', 'NULLS LAST', 'NULLS FIRST'), (2, 'DESC NULLS LAST', 'NULLS LAST', 'NULLS FIRST')) v (n, options, forward, backward);
-- What a kind's values are cast to.
CREATE FUNCTION cast_of(k kind) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(k.type, ' COLLATE.*', '') $$;
CREATE FUNCTION fill(k kind, tab text, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO %s SELECT i, CASE WHEN i %% 23 = 0 THEN NULL
                                                WHEN i %% 7 = 0 THEN (ARRAY[%s]::%s[])[1 + r %% cardinality(ARRAY[%s]::%s[])] ELSE (%s)::%s END
                    FROM (SELECT i, floor(random() * 1000)::int AS r FROM generate_series(%s, %s) i) s',
                 tab, k.special, cast_of(k), k.special, cast_of(k), k.random, cast_of(k), first, last);
END $$;
CREATE FUNCTION set_up(k kind, t tab) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %s (id int, v %s) WITH (autovacuum_enabled = off)', t.name, k.type);
  IF t.variant = 1 THEN
    PERFORM fill(k, t.name, 1, 600);
  END IF;
  EXECUTE format('CREATE INDEX %1$s_idx ON %1$s USING fpbtree (v %2$s %3$s)', t.name, k.class, t.options);
  PERFORM fill(k, t.name, 601, 1200);
  PERFORM harness.sound(k.name, (t.name || '_idx')::regclass);
END $$;
SELECT setseed(0.5);
SELECT count(set_up(k, t)) FROM kind k JOIN tab t ON t.kind = k.name;
-- Conditions on some of the special values and some that are stored; each table gets every second one.
CREATE FUNCTION conditions(k kind, tab text, samples int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  type text := cast_of(k);
  every text;
  e text[];
BEGIN
  EXECUTE format('SELECT array_agg(format(''%%L::%s'', v) ORDER BY n) FROM (
                    SELECT v, n FROM unnest(ARRAY[%s]::%s[]) WITH ORDINALITY u(v, n) WHERE n <= 5
                    UNION ALL (SELECT v, 1000 + id FROM %s WHERE v IS NOT NULL ORDER BY hashint4(id) LIMIT %s)) s',
                 type, k.special, type, tab, samples) INTO e;
  every := array_to_string(e, ', ');
  RETURN QUERY
    SELECT format('v %s %s', op, x) FROM unnest(e) x, unnest(k.ops) op
    UNION ALL SELECT format('v %s %s AND v %s %s', k.ops[4], a, k.ops[2], b) FROM unnest(e[1:4]) a, unnest(e[5:8]) b
    UNION ALL SELECT format('v %s %s AND v %s %s', k.ops[5], b, k.ops[1], a) FROM unnest(e[2:3]) a, unnest(e[6:8]) b
    UNION ALL SELECT format('v = ANY (ARRAY[%s, NULL, %s])', every, e[1])
    UNION ALL SELECT format('v %s ANY (ARRAY[%s])', k.ops[5], array_to_string(e[4:], ', '))
    UNION ALL SELECT format('v = ANY (ARRAY[%s]) AND v %s %s', every, k.ops[4], e[6])
    UNION ALL SELECT format('v = ANY (ARRAY(SELECT v FROM %s WHERE id %% 60 = 1))', translate(tab, '12', '21'))
    UNION ALL VALUES ('v IS NULL'), ('v IS NOT NULL');
END $$;
CREATE FUNCTION check_rows(k kind, t tab, samples int) RETURNS void LANGUAGE sql AS $$
  SELECT harness.compare(k.name, 'SELECT v{id} FROM {t} WHERE ' || c, ARRAY[t.name], '{index,indexonly,bitmap}', false)
    FROM conditions(k, t.name, samples) WITH ORDINALITY u(c, n) WHERE (n + t.variant) % 2 = 0;
$$;
CREATE FUNCTION check_order(k kind, t tab) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  less text := format('USING %s %s', CASE t.options WHEN '' THEN k.ops[1] ELSE k.ops[5] END, t.forward);
  greater text := format('USING %s %s', CASE t.options WHEN '' THEN k.ops[5] ELSE k.ops[1] END, t.backward);
  low text;
  high text;
  c text;
  o text;
BEGIN
  EXECUTE format('SELECT format(''%%L::%1$s'', min(x)), format(''%%L::%1$s'', max(x)) FROM (SELECT (v::text) AS x FROM %2$s ORDER BY hashint4(id) LIMIT 2) s', cast_of(k), t.name) INTO low, high;
  FOREACH c IN ARRAY ARRAY['true', format('v %s %s', k.ops[4], low), format('v %s %s', k.ops[1], high), 'v IS NOT NULL'] LOOP
    FOREACH o IN ARRAY ARRAY[less, greater] LOOP
      PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} WHERE %s ORDER BY v %s{tie}', c, o), ARRAY[t.name], '{index,indexonly}', true),
              harness.compare(k.name, format('SELECT v{id} FROM {t} WHERE %s ORDER BY v %s{tie} OFFSET 7 LIMIT 12', c, o), ARRAY[t.name], '{index,indexonly}', true);
    END LOOP;
  END LOOP;
  PERFORM harness.sound(k.name, (t.name || '_idx')::regclass);
END $$;
SELECT count(check_rows(k, t, 4)), count(check_order(k, t)) FROM kind k JOIN tab t ON t.kind = k.name;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 10;
-- Most rows deleted, then vacuumed, then others inserted where they were.
TRUNCATE harness.result, harness.problem;
\set ECHO none
SELECT format('DELETE FROM %s WHERE id %% 5 <> 0 OR v IS NULL', name) FROM tab \gexec
\set ECHO all
SELECT count(check_rows(k, t, 2)) FROM kind k JOIN tab t ON t.kind = k.name AND variant = 1;
\set ECHO none
SELECT 'VACUUM ' || string_agg(name, ', ') FROM tab \gexec
\set ECHO all
SELECT count(check_order(k, t)) FROM kind k JOIN tab t ON t.kind = k.name;
SELECT count(fill(k, t.name, 2001, 3000)) FROM kind k JOIN tab t ON t.kind = k.name;
SELECT count(check_rows(k, t, 2)), count(check_order(k, t)) FROM kind k JOIN tab t ON t.kind = k.name;
-- And everything deleted.
\set ECHO none
SELECT 'TRUNCATE ' || name FROM tab WHERE variant = 1 UNION ALL SELECT 'DELETE FROM ' || name FROM tab WHERE variant = 2 \gexec
SELECT 'VACUUM ' || string_agg(name, ', ') FROM tab \gexec
\set ECHO all
SELECT count(harness.sound(kind, (t.name || '_idx')::regclass)), count(fill(k, t.name, 1, 300)), count(check_order(k, t)) FROM kind k JOIN tab t ON t.kind = k.name;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 10;
\set ECHO none
SELECT 'DROP TABLE ' || string_agg(name, ', ') FROM tab \gexec
\set ECHO all
DROP FUNCTION check_rows, check_order, conditions, fill, cast_of, set_up;
DROP TABLE kind, tab;
-- Lists of columns, of which some are as long as they like.
TRUNCATE harness.result, harness.problem;
CREATE TABLE list (id int, a text COLLATE "C", b int, c numeric, d text, e bytea, f timestamptz) WITH (autovacuum_enabled = off);
INSERT INTO list SELECT i, CASE WHEN r % 9 > 0 THEN repeat('ab', r % 5) END, CASE WHEN r % 11 > 0 THEN r % 7 END, round(r % 13 / 3.0, r % 4),
                        repeat('long', r % 60) || chr(97 + r % 3), decode(repeat('00', r % 4), 'hex'), timestamptz 'epoch' + r % 5 * interval '1 day'
                   FROM (SELECT i, floor(random() * 5000)::int AS r FROM generate_series(1, 2000) i) s;
CREATE TABLE list_order (columns text, conditions text[]);
INSERT INTO list_order VALUES
('a, b', ARRAY[$$a = 'abab'$$, $$a = 'abab' AND b > 3$$, $$a > 'ab' AND b = 2$$, $$b = 4$$, $$a IS NULL AND b < 5$$, $$a = '' AND b IS NULL$$]),
('b, a', ARRAY[$$b = 3 AND a >= 'ab' AND a < 'ababab'$$, $$a < 'aba'$$, $$b IS NULL$$, $$b > 2 AND b < 5 AND a = ''$$]),
('a DESC, c, b DESC', ARRAY[$$a = 'ab' AND c = 1.0$$, $$a <= 'abab' AND c > 2 AND b = 3$$]),
('d, a', ARRAY[$$d = 'longa'$$, $$d > 'longlong' AND a = 'ab'$$, $$d = repeat('long', 50) || 'b' AND a > 'a'$$]),
('c DESC NULLS LAST, e, f', ARRAY[$$c = 3$$, $$c = 3.00 AND e = '\x0000'$$, $$c > 1 AND e > '\x00' AND f = timestamptz 'epoch'$$]),
('e, d DESC, b', ARRAY[$$e = ''$$, $$e = '\x00' AND d > 'long'$$, $$e < '\x0000' AND d = 'a' AND b = 5$$]),
('f, a, b, c, d, e', ARRAY[$$f = timestamptz 'epoch' AND a = 'ab' AND b = 2$$, $$f > timestamptz 'epoch' AND a = 'abab' AND c < 3$$]);
CREATE FUNCTION check_list(l list_order) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  names text := regexp_replace(l.columns, ' (DESC|NULLS LAST)', '', 'g');
  turned text := (SELECT string_agg(CASE WHEN c ~ 'NULLS LAST' THEN replace(c, 'DESC NULLS LAST', 'NULLS FIRST') WHEN c ~ 'DESC' THEN replace(c, ' DESC', '') ELSE c || ' DESC' END, ', ' ORDER BY n)
                    FROM unnest(string_to_array(l.columns, ', ')) WITH ORDINALITY u(c, n));
  c text;
BEGIN
  EXECUTE format('CREATE INDEX list_idx ON list USING fpbtree (%s)', l.columns);
  FOREACH c IN ARRAY l.conditions LOOP
    PERFORM harness.compare(l.columns, format('SELECT %s{id} FROM {t} WHERE %s', names, c), '{list}', '{index,indexonly,bitmap}', false),
            harness.compare(l.columns, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie}', names, c, l.columns), '{list}', '{index,indexonly}', true),
            harness.compare(l.columns, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie}', names, c, turned), '{list}', '{index,indexonly}', true);
  END LOOP;
  PERFORM harness.compare(l.columns, format('SELECT %s{id} FROM {t} ORDER BY %s{tie}', names, o), '{list}', '{index,indexonly}', true) FROM unnest(ARRAY[l.columns, turned]) o;
  PERFORM harness.sound(l.columns, 'list_idx');
  DROP INDEX list_idx;
END $$;
SELECT count(check_list(l)) FROM list_order l;
-- Arrays on several columns at once, unordered.
CREATE INDEX list_idx ON list USING fpbtree (a, b, c);
SELECT count(harness.compare('arrays', 'SELECT a, b, c{id} FROM {t} WHERE ' || c, '{list}', '{index,indexonly,bitmap}', false)) FROM unnest(ARRAY[
  $$a = ANY ('{ab,"",abab,nothing,NULL}') AND b = ANY ('{1,3,5}')$$, $$a = ANY ('{ab,abab}') AND b > 2 AND c = ANY ('{0,1,2.000,3}')$$,
  $$a > 'a' AND b = ANY ('{0,6,NULL,6}') AND c < 2$$, $$a = ANY ('{}') AND b = 1$$, $$a = ANY ('{ababab,ab}') AND a > 'abab'$$]) c;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 10;
DROP FUNCTION check_list;
DROP TABLE list, list_order;
-- The longest keys. An index takes them up to a length, the same whether it is built or grows; beyond
-- it the error tells the index, the row and what to do.
TRUNCATE harness.result, harness.problem;
CREATE TABLE long (id int, v text COLLATE "C") WITH (autovacuum_enabled = off);
ALTER TABLE long ALTER v SET STORAGE EXTERNAL;
CREATE INDEX long_idx ON long USING fpbtree (v);
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
CREATE FUNCTION longest(statement text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  fits int := 1000;
  fails int := 4000;
BEGIN
  WHILE fails - fits > 1 LOOP
    IF refused(format(statement, (fits + fails) / 2)) = 'ok' THEN
      fits := (fits + fails) / 2;
    ELSE
      fails := (fits + fails) / 2;
    END IF;
  END LOOP;
  RETURN fits;
END $$;
SELECT longest('INSERT INTO long VALUES (%1$s, noise(%1$s, 0))') AS longest \gset
SELECT :longest >= 1740 AS "long enough";
SELECT refused(format('INSERT INTO long VALUES (1, noise(%s + 1, 7))', :longest));
SELECT left(refused('INSERT INTO long VALUES (1, noise(20000, 7))'), 5) AS "far too long";
SELECT refused(format('UPDATE long SET v = noise(%s + 1, 7)', :longest));
SELECT count(*) > 0 AS some, max(length(v)) = :longest AS longest FROM long;
DELETE FROM long;
INSERT INTO long SELECT i, noise(:longest - i % 2, i) FROM generate_series(1, 300) i;
INSERT INTO long SELECT i, noise(:longest - 40, i % 3) || right(i::text, 3) FROM generate_series(1, 300) i;
INSERT INTO long SELECT i, i FROM generate_series(1, 300) i;
CREATE TABLE sample AS SELECT max(v) AS v FROM long;
CREATE FUNCTION check_long(what text) RETURNS void LANGUAGE sql AS $$
  SELECT harness.compare(what, q, '{long}', '{index,indexonly}', true)
    FROM unnest(ARRAY['SELECT v{id} FROM {t} ORDER BY v{tie}', 'SELECT v{id} FROM {t} ORDER BY v DESC{tie}']) q;
  SELECT harness.compare(what, 'SELECT v{id} FROM {t} WHERE ' || c, '{long}', '{index,indexonly,bitmap}', false)
    FROM unnest(ARRAY[$c$v > '7'$c$, $c$v BETWEEN '3' AND noise(500, 5)$c$, $c$v = '77'$c$, $c$v >= noise(3000, 1)$c$, $c$v < noise(30000, 2)$c$, $c$v = noise(5000, 3)$c$,
                      $c$v = ANY (ARRAY[noise(9000, 1), noise(500, 2), '5', '77'])$c$, $c$v = (SELECT v FROM sample)$c$]) c;
  SELECT harness.sound(what, 'long_idx');
$$;
SELECT check_long('longest, grown');
REINDEX INDEX long_idx;
SELECT check_long('longest, built');
DELETE FROM long WHERE id % 3 > 0;
VACUUM long;
INSERT INTO long SELECT i, noise(:longest, i) FROM generate_series(1, 300) i;
SELECT check_long('longest, again');
-- A build finds what does not fit as well, and leaves nothing.
DROP INDEX long_idx;
INSERT INTO long VALUES (9999, noise(:longest + 1, 1));
SELECT refused('CREATE INDEX long_idx ON long USING fpbtree (v)');
SELECT count(*) FROM pg_class WHERE relname = 'long_idx';
DELETE FROM long WHERE id = 9999;
SELECT refused('CREATE INDEX long_idx ON long USING fpbtree (v)');
SELECT check_long('longest, built');
-- Values from out of line, compressed in the row, compressed out of line: in the index they are the same.
CREATE TABLE toasted (id int, v text COLLATE "C", pad text DEFAULT repeat('p', 1500)) WITH (autovacuum_enabled = off, toast_tuple_target = 128);
ALTER TABLE toasted ALTER pad SET STORAGE PLAIN;
CREATE INDEX toasted_idx ON toasted USING fpbtree (v);
INSERT INTO toasted SELECT i, repeat(chr(97 + i % 3), 1000 + i % 500) FROM generate_series(1, 300) i;
INSERT INTO toasted SELECT i, repeat(noise(300, i), 5) FROM generate_series(1, 100) i;
ALTER TABLE toasted ALTER v SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT i, repeat(chr(97 + i % 3), 1000 + i % 500) FROM generate_series(151, 450) i;
ALTER TABLE toasted ALTER v SET STORAGE PLAIN;
INSERT INTO toasted SELECT i, repeat(chr(97 + i % 3), 1000 + i % 500) FROM generate_series(301, 600) i;
INSERT INTO toasted SELECT i, repeat(noise(300, i), 5) FROM generate_series(51, 150) i;
ALTER TABLE toasted ALTER v SET STORAGE EXTENDED;
INSERT INTO toasted SELECT i, noise(1000 + i, i) FROM generate_series(301, 600) i;
SELECT pg_column_size(v) < length(v) AS compressed, count(*) > 100 AS some FROM toasted GROUP BY 1 ORDER BY 1;
SELECT pg_relation_size(reltoastrelid) > 8192 AS out_of_line FROM pg_class WHERE relname = 'toasted';
UPDATE sample SET v = (SELECT max(v) FROM toasted);
CREATE FUNCTION check_toasted(what text) RETURNS void LANGUAGE sql AS $$
  SELECT harness.compare(what, q, '{toasted}', '{index,indexonly}', true)
    FROM unnest(ARRAY['SELECT v{id} FROM {t} ORDER BY v{tie}', 'SELECT v{id} FROM {t} ORDER BY v DESC{tie}']) q;
  SELECT harness.compare(what, 'SELECT v{id} FROM {t} WHERE ' || c, '{toasted}', '{index,indexonly,bitmap}', false)
    FROM unnest(ARRAY[$c$v = repeat('a', 1200)$c$, $c$v > repeat('b', 1399)$c$, $c$v BETWEEN repeat('a', 1477) AND repeat('b', 1021)$c$,
                      $c$v = (SELECT v FROM sample)$c$, $c$v = ANY (ARRAY(SELECT repeat('c', g) FROM generate_series(990, 1500, 10) g))$c$]) c;
  SELECT harness.sound(what, 'toasted_idx');
$$;
SELECT check_toasted('toasted');
REINDEX INDEX toasted_idx;
SELECT check_toasted('toasted, built');
UPDATE toasted SET v = v || 'x' WHERE id % 7 = 0;
DELETE FROM toasted WHERE id % 5 = 0;
SELECT check_toasted('toasted, updated');
VACUUM toasted;
SELECT check_toasted('toasted, vacuumed');
-- Conditions whose value comes from a row, still compressed or out of line.
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET enable_memoize = off;
SET enable_bitmapscan = off;
SELECT count(*) = (SELECT sum(n * n) FROM (SELECT count(*) AS n FROM toasted GROUP BY v) s) AS joined FROM toasted a JOIN toasted b ON a.v = b.v;
RESET enable_seqscan;
RESET enable_hashjoin;
RESET enable_mergejoin;
RESET enable_material;
RESET enable_memoize;
RESET enable_bitmapscan;
-- The corners of numeric.
CREATE TABLE corner (id int, v numeric);
CREATE INDEX corner_idx ON corner USING fpbtree (v);
INSERT INTO corner SELECT row_number() OVER (), s * v::numeric FROM unnest('{1,-1}'::int[]) s,
  unnest('{0,0.00,1,1.0,1.00000,9,10,99,100,999,1000,9999,9999.9,9999.9999,9999.99990000,10000,10000.0001,99999999,100000000,0.1,0.10,0.01,0.001,0.0001,0.00010,0.00001,0.99999999,0.00000000000000000001,
           12345678901234567890123456789012345678901234567890,12345678901234567890123456789012345678901234567890.1,1e2000,1e-2000,1.1e-2000,1e131071,1e-16383,NaN,Infinity}'::text[]) v;
INSERT INTO corner SELECT 100 + i, repeat('98', i * 10)::numeric + 0.5 FROM generate_series(1, 50) i;
SELECT harness.compare('numeric', q, '{corner}', '{index,indexonly}', true)
  FROM unnest(ARRAY['SELECT v{id} FROM {t} ORDER BY v{tie}', 'SELECT v{id} FROM {t} ORDER BY v DESC{tie}']) q;
SELECT count(harness.compare('numeric', format('SELECT v{id} FROM {t} WHERE v %s %L', op, v), '{corner}', '{indexonly,bitmap}', false)) FROM corner, unnest('{<,<=,=,>=,>}'::text[]) op WHERE id < 120 AND id % 3 = 1;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT v FROM corner WHERE v BETWEEN 0.05 AND 1.5 ORDER BY v;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT harness.sound('numeric', 'corner_idx');
-- Many splits: keys that come in no order, upwards, downwards, and around a place in the middle.
CREATE TABLE many (id int, v text COLLATE "C") WITH (autovacuum_enabled = off);
CREATE INDEX many_idx ON many USING fpbtree (v);
INSERT INTO many SELECT i, format('https://example.org/%s/%s', md5(i::text), repeat('p', i % 80)) FROM generate_series(1, 6000) i;
SELECT harness.sound('in no order', 'many_idx');
INSERT INTO many SELECT i, 'https://example.org/up/' || repeat('q', 100) || to_char(i, 'FM000000') FROM generate_series(1, 4000) i;
INSERT INTO many SELECT i, 'https://example.org/down/' || repeat('q', 100) || to_char(10000 - i, 'FM000000') FROM generate_series(1, 4000) i;
INSERT INTO many SELECT i, format('https://example.org/middle/%s%s', repeat('m', 60), 500000 + CASE WHEN i % 2 = 0 THEN i ELSE -i END) FROM generate_series(1, 4000) i;
SELECT harness.sound('in order', 'many_idx');
UPDATE sample SET v = (SELECT min(v) FROM many WHERE id = 77);
CREATE FUNCTION check_many(what text) RETURNS void LANGUAGE sql AS $$
  SELECT harness.compare(what, q, '{many}', '{index,indexonly}', true)
    FROM unnest(ARRAY['SELECT v{id} FROM {t} ORDER BY v{tie}', 'SELECT v{id} FROM {t} ORDER BY v DESC{tie}']) q;
  SELECT harness.compare(what, 'SELECT v{id} FROM {t} WHERE ' || c, '{many}', '{index,indexonly,bitmap}', false)
    FROM unnest(ARRAY[$c$v > 'https://example.org/up/'$c$, $c$v BETWEEN 'https://example.org/c' AND 'https://example.org/d'$c$, $c$v = 'https://example.org/'$c$,
                      $c$v = (SELECT v FROM sample)$c$]) c;
  SELECT harness.sound(what, 'many_idx');
$$;
SELECT check_many('many');
DELETE FROM many WHERE v BETWEEN 'https://example.org/8' AND 'https://example.org/up/' || repeat('q', 100) || '003500';
SELECT check_many('many, deleted');
VACUUM many;
SELECT check_many('many, vacuumed');
INSERT INTO many SELECT i, format('https://example.org/%s/%s', md5(i::text), repeat('p', i % 80)) FROM generate_series(1, 6000) i;
SELECT check_many('many, again');
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 10;
DROP FUNCTION check_many, check_toasted, check_long, longest, refused, noise;
DROP TABLE many, corner, toasted, long, sample;
-- Arguments that together are longer than any key, on columns that only a function can order.
CREATE TABLE both_long (id int, a jsonb, b jsonb) WITH (autovacuum_enabled = off);
INSERT INTO both_long SELECT i, to_jsonb(repeat('x', 300) || i % 5), to_jsonb(repeat('y', i % 300) || i) FROM generate_series(1, 400) i;
INSERT INTO both_long SELECT 1000 + i, to_jsonb(repeat('x', 1300)), to_jsonb(repeat('y', i) || i) FROM generate_series(1, 200) i;
CREATE INDEX both_long_idx ON both_long USING fpbtree (a, b);
SELECT o, n, harness.answer(q, 'index', false) = harness.answer(q, 'seq', false) AS same, harness.answer(q, 'bitmap', false) = harness.answer(q, 'seq', false) AS same
  FROM unnest('{<,<=,=,>=,>}'::text[]) o, unnest('{50,600,1500}'::int[]) n,
       format('SELECT id FROM both_long WHERE a = to_jsonb(repeat(''x'', 1300)) AND b %s to_jsonb(repeat(''y'', %s))', o, n) q ORDER BY n, o COLLATE "C";
SELECT bool_and(harness.answer(q, 'index', false) = harness.answer(q, 'seq', false)) AS same
  FROM unnest('{<,<=,=,>=,>}'::text[]) o, unnest('{50,600,1500}'::int[]) n, format('SELECT id FROM both_long WHERE b %s to_jsonb(repeat(''y'', %s))', o, n) q;
DROP TABLE both_long;
