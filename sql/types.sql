-- Every type, direction and place of NULL: each operator, ranges, arrays and order, through index,
-- index-only and bitmap scans, against a sequential scan and against btree.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- "special" are values as SQL expressions, "random" draws one, "absent" are rarely or never stored.
CREATE TABLE kind (name text, type text, special text[], random text, absent text[]);
INSERT INTO kind SELECT name, type, string_to_array(special, ','), random, string_to_array(absent, ',') FROM (VALUES
('bool', 'bool', 'true,false', 'random() < 0.5', ''),
('char', '"char"', '0::"char",127::"char",(-128)::"char",(-1)::"char",1::"char"',
  '(floor(random() * 60) * 4 - 120)::int::"char"', '3::"char",(-77)::"char",126::"char"'),
('int2', 'int2', '0::int2,1::int2,(-1)::int2,32767::int2,(-32768)::int2,256::int2',
  '(random() * 4000 - 2000)::int2', '3000::int2,(-32767)::int2,32766::int2'),
('int4', 'int4', '0,1,-1,2147483647,(-2147483648),65536',
  '(random() * 4000 - 2000)::int4', '2500,-3000,2147483646,(-2147483647)'),
('int8', 'int8', '0::int8,1::int8,(-1)::int8,9223372036854775807,(-9223372036854775808),4294967296',
  '((random() * 4000 - 2000)::int8 * 5000000000)', '3::int8,(-9223372036854775807),9223372036854775806'),
('oid', 'oid', '0::oid,1::oid,4294967295::oid,2147483647::oid,2147483648::oid',
  '(random() * 4000000000)::int8::oid', '7::oid,4294967294::oid'),
('float4', 'float4', $$'0'::float4,'-0'::float4,'NaN'::float4,'Infinity'::float4,'-Infinity'::float4,'3.4028235e38'::float4,'-3.4028235e38'::float4,'1e-45'::float4,'-1e-45'::float4,'1'::float4$$,
  '(random() * 2000 - 1000)::int::float4 / 8', $$'0.01'::float4,'-1e30'::float4,'2e38'::float4$$),
('float8', 'float8', $$'0'::float8,'-0'::float8,'NaN'::float8,'Infinity'::float8,'-Infinity'::float8,'1.7976931348623157e308'::float8,'-1.7976931348623157e308'::float8,'5e-324'::float8,'-5e-324'::float8,'0.1'::float8$$,
  '(random() * 2000 - 1000)::int::float8 / 7', $$'0.01'::float8,'-1e300'::float8,'1e308'::float8$$),
('date', 'date', $$date 'epoch',date '2000-01-01',date 'infinity',date '-infinity',date '4714-11-24 BC',date '5874897-12-31',date '1999-12-31'$$,
  $$date '2000-01-01' + (random() * 4000 - 2000)::int$$, $$date '0001-01-01 BC',date '3000-02-28'$$),
('timestamp', 'timestamp', $$timestamp 'epoch',timestamp '2000-01-01',timestamp 'infinity',timestamp '-infinity',timestamp '4714-11-24 00:00 BC',timestamp '294276-12-31 23:59:59.999999',timestamp '1999-12-31 23:59:59.999999'$$,
  $$timestamp '2000-01-01' + (random() * 4000 - 2000)::int * interval '7 hours'$$, $$timestamp '0001-01-01 BC',timestamp '3000-02-28 12:00'$$),
('timestamptz', 'timestamptz', $$timestamptz 'epoch',timestamptz '2000-01-01 UTC',timestamptz 'infinity',timestamptz '-infinity',timestamptz '4714-11-24 00:00 UTC BC',timestamptz '294276-12-31 23:59:59.999999 UTC',timestamptz '1999-12-31 23:59:59.999999 UTC'$$,
  $$timestamptz '2000-01-01 UTC' + (random() * 4000 - 2000)::int * interval '7 hours'$$, $$timestamptz '0001-01-01 UTC BC',timestamptz '3000-02-28 12:00 UTC'$$),
('time', 'time', $$time '00:00',time '24:00',time '23:59:59.999999',time '12:00',time '00:00:00.000001'$$,
  $$time '00:00' + (random() * 1400)::int * interval '1 minute'$$, $$time '00:00:30',time '11:11:11.111111'$$),
('money', 'money', $$0::money,'-92233720368547758.08'::money,'92233720368547758.07'::money,'0.01'::money,'-0.01'::money$$,
  '(random() * 4000 - 2000)::int::money', $$'0.5'::money,'-92233720368547758.07'::money,1234567::money$$),
('uuid', 'uuid', $$uuid '00000000-0000-0000-0000-000000000000',uuid 'ffffffff-ffff-ffff-ffff-ffffffffffff',uuid '00000000-0000-0000-0000-000000000001',uuid '00000000-0000-0001-0000-000000000000',uuid '80000000-0000-0000-8000-000000000000',uuid '7fffffff-ffff-ffff-7fff-ffffffffffff'$$,
  'md5((random() * 2000)::int::text)::uuid', $$uuid '00000000-0000-0000-0000-000000000002',uuid 'ffffffff-ffff-ffff-ffff-fffffffffffe',uuid '12345678-9abc-def0-1234-56789abcdef0'$$),
('macaddr', 'macaddr', $$macaddr '00:00:00:00:00:00',macaddr 'ff:ff:ff:ff:ff:ff',macaddr '00:00:00:00:00:01',macaddr '80:00:00:00:00:00',macaddr '7f:ff:ff:ff:ff:ff'$$,
  'left(md5((random() * 2000)::int::text), 12)::macaddr', $$macaddr '00:00:00:00:00:02',macaddr 'ff:ff:ff:ff:ff:fe',macaddr '12:34:56:78:9a:bc'$$),
('macaddr8', 'macaddr8', $$macaddr8 '00:00:00:00:00:00:00:00',macaddr8 'ff:ff:ff:ff:ff:ff:ff:ff',macaddr8 '00:00:00:00:00:00:00:01',macaddr8 '00:00:00:01:00:00:00:00',macaddr8 '80:00:00:00:80:00:00:00'$$,
  'left(md5((random() * 2000)::int::text), 16)::macaddr8', $$macaddr8 '00:00:00:00:00:00:00:02',macaddr8 '12:34:56:78:9a:bc:de:f0'$$),
('pg_lsn', 'pg_lsn', $$pg_lsn '0/0',pg_lsn 'FFFFFFFF/FFFFFFFF',pg_lsn '0/1',pg_lsn '1/0',pg_lsn '80000000/0',pg_lsn '7FFFFFFF/FFFFFFFF'$$,
  $$((random() * 4000)::int::numeric * 1000000007 + '0/0'::pg_lsn)$$, $$pg_lsn '0/2',pg_lsn 'FFFFFFFF/FFFFFFFE',pg_lsn '10/12345'$$),
('xid8', 'xid8', $$xid8 '0',xid8 '18446744073709551615',xid8 '1',xid8 '9223372036854775808',xid8 '9223372036854775807',xid8 '4294967296'$$,
  '((random() * 4000)::int::int8 * 3000000019)::text::xid8', $$xid8 '2',xid8 '18446744073709551614',xid8 '12345'$$)) v (name, type, special, random, absent);
-- Four fpbtree tables and four btree ones a type, each filled alike: two of each before the index
-- is built, two after. (A backward scan of a deduplicated btree does not return ties backwards.)
CREATE TABLE variant (n int, options text, forward text, backward text);
INSERT INTO variant VALUES
(1, 'ASC NULLS LAST', 'ASC NULLS LAST', 'DESC NULLS FIRST'),
(2, 'ASC NULLS FIRST', 'ASC NULLS FIRST', 'DESC NULLS LAST'),
(3, 'DESC NULLS LAST', 'DESC NULLS LAST', 'ASC NULLS FIRST'),
(4, 'DESC NULLS FIRST', 'DESC NULLS FIRST', 'ASC NULLS LAST');
CREATE FUNCTION set_up(k kind) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  v variant;
  method text;
  tab text;
BEGIN
  EXECUTE format('CREATE TABLE src_%s (id int, v %s)', k.name, k.type);
  EXECUTE format('INSERT INTO src_%s
                  SELECT i, CASE WHEN i %% 19 = 0 THEN NULL WHEN i %% 5 = 0
                                 THEN (ARRAY[%s])[1 + floor(random() * %s)] ELSE %s END
                    FROM generate_series(1, 3000) i',
                 k.name, array_to_string(k.special, ', '), cardinality(k.special), k.random);
  FOR v IN SELECT * FROM variant LOOP
    FOREACH method IN ARRAY '{fpbtree,btree}'::text[] LOOP
      tab := format('%s_%s_%s', left(method, 2), k.name, v.n);
      EXECUTE format('CREATE TABLE %s (id int, v %s) WITH (autovacuum_enabled = off)', tab, k.type);
      IF v.n % 2 = 1 THEN
        EXECUTE format('INSERT INTO %s SELECT * FROM src_%s ORDER BY id', tab, k.name);
      END IF;
      EXECUTE format('CREATE INDEX %1$s_idx ON %1$s USING %2$s (v %3$s)%4$s', tab, method, v.options,
                     CASE method WHEN 'btree' THEN ' WITH (deduplicate_items = off)' ELSE '' END);
      IF v.n % 2 = 0 THEN
        EXECUTE format('INSERT INTO %s SELECT * FROM src_%s ORDER BY id', tab, k.name);
      END IF;
    END LOOP;
  END LOOP;
END $$;
SELECT count(set_up(k)) FROM kind k;
-- A condition on a boolean column is written with a subquery: a plain constant the planner folds
-- into "v" or "NOT v", which only later releases match with an index of another method than btree.
CREATE FUNCTION conditions(k kind) RETURNS SETOF text LANGUAGE sql AS $$
  WITH value AS (
    SELECT CASE k.name WHEN 'bool' THEN format('(SELECT %s)', e) ELSE e END AS e, n
      FROM unnest(k.special || k.absent) WITH ORDINALITY u(e, n)),
  list AS (SELECT string_agg(e, ', ' ORDER BY n) AS every FROM value),
  type AS (SELECT k.type AS t)
  SELECT format('v %s %s', op, e) FROM value, unnest('{<,<=,=,>=,>}'::text[]) op
  UNION ALL SELECT format('v BETWEEN %s AND %s', a.e, b.e) FROM value a, value b WHERE a.n % 3 = 1 AND b.n % 4 = 2
  UNION ALL SELECT format('v > %s AND v < %s', a.e, b.e) FROM value a, value b WHERE a.n % 4 = 2 AND b.n % 3 = 1
  UNION ALL SELECT format('v >= %s AND v <= %s AND v = %s', e, e, e) FROM value WHERE n <= 2
  UNION ALL SELECT format('v = ANY (ARRAY[%s, NULL, %s])', every, every) FROM list
  UNION ALL SELECT format('v > ANY (ARRAY[%s])', every) FROM list
  UNION ALL SELECT format('v = ANY (ARRAY[%s]) AND v > %s', every, e) FROM list, value WHERE n <= 2
  UNION ALL SELECT format('v = ANY (ARRAY(SELECT v FROM src_%s WHERE id %% 100 < 4))', k.name)
  UNION ALL SELECT format('v = ANY (%L::%s[])', '{NULL}', t) FROM type
  UNION ALL SELECT format('v = ANY (%L::%s[])', '{}', t) FROM type
  UNION ALL SELECT format('v = (SELECT NULL::%s)', t) FROM type
  UNION ALL SELECT format('v < (SELECT NULL::%s)', t) FROM type
  UNION ALL VALUES ('v IS NULL'), ('v IS NOT NULL')
  UNION ALL SELECT format('v IS NOT NULL AND v >= %s', e) FROM value WHERE n = 2
  UNION ALL SELECT format('v IS NULL AND v >= %s', e) FROM value WHERE n = 2
$$;
-- Every part-th condition, on two of the four variants in turn.
CREATE FUNCTION check_rows(k kind, part int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  c text;
  i int := 0;
BEGIN
  FOR c IN SELECT * FROM conditions(k) LOOP
    i := i + 1;
    CONTINUE WHEN i % part <> 0;
    PERFORM harness.compare(k.name, 'SELECT v{id} FROM {t} WHERE ' || c,
                            (SELECT array_agg(format('fp_%s_%s', k.name, n)) FROM variant WHERE (n + i / part) % 2 = 0),
                            '{index,indexonly,bitmap}', false);
  END LOOP;
END $$;
CREATE FUNCTION check_order(k kind, variants int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  a text := CASE k.name WHEN 'bool' THEN '(SELECT true)' ELSE k.special[1] END;
  b text := CASE k.name WHEN 'bool' THEN '(SELECT false)' ELSE k.special[2] END;
  v variant;
  c text;
  direction text;
  query text;
  fp text;
BEGIN
  FOR v IN SELECT * FROM variant WHERE n = ANY (variants) LOOP
    fp := format('fp_%s_%s', k.name, v.n);
    FOREACH c IN ARRAY ARRAY['true', 'v > ' || a, 'v <= ' || a, 'v BETWEEN ' || b || ' AND ' || a, 'v = ' || b,
                             'v IS NULL', 'v IS NOT NULL', format('v >= %s AND v < %s', a, b),
                             format('v = ANY (ARRAY[%s, %s, %s])', a, b, array_to_string(k.special, ', '))] LOOP
      FOREACH direction IN ARRAY ARRAY[v.forward, v.backward] LOOP
        query := format('SELECT v{id} FROM {t} WHERE %s ORDER BY v %s{tie}', c, direction);
        PERFORM harness.compare(k.name, query, ARRAY[fp, format('bt_%s_%s', k.name, v.n)], '{index}', true);
        PERFORM harness.compare(k.name, query, ARRAY[fp], '{indexonly}', true);
        PERFORM harness.compare(k.name, query || ' OFFSET 5 LIMIT 11', ARRAY[fp], '{index,indexonly}', true);
      END LOOP;
    END LOOP;
    PERFORM harness.sound(k.name, (fp || '_idx')::regclass);
  END LOOP;
END $$;
SELECT count(check_rows(k, 1)), count(check_order(k, '{1,2,3,4}')) FROM kind k;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
-- Again with a third of the rows deleted, and yet again after VACUUM.
TRUNCATE harness.result, harness.problem;
\set ECHO none
SELECT format('DELETE FROM %s WHERE id %% 3 = 0', tablename) FROM pg_tables WHERE tablename ~ '^(fp|bt)_.*_\d$' ORDER BY 1 \gexec
\set ECHO all
SELECT count(check_rows(k, 9)), count(check_order(k, '{1}')) FROM kind k;
\set ECHO none
SELECT 'VACUUM ANALYZE ' || string_agg(tablename, ', ') FROM pg_tables WHERE tablename ~ '^(fp|bt)_.*_\d$' \gexec
\set ECHO all
SELECT count(check_rows(k, 5)), count(check_order(k, '{2,3}')) FROM kind k;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
\set ECHO none
SELECT 'DROP TABLE ' || string_agg(tablename, ', ') FROM pg_tables WHERE tablename ~ '^(src_.*|(fp|bt)_.*_\d)$' \gexec
\set ECHO all
DROP FUNCTION check_rows, check_order, conditions, set_up;
DROP TABLE kind, variant;
