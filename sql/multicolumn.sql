-- Lists of columns packed into one key: conditions on every subset of them, arrays on several at
-- once, and order by the whole list both ways; then lists too wide to pack.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- Two float columns share the one bit that remembers a negative zero, so an index-only scan need not
-- be offered for them.
CREATE TABLE shape (name text, columns text[], options text[], ways text[]);
INSERT INTO shape VALUES
('int4, int4', '{int4,int4}', '{ASC,ASC}', '{index,indexonly,bitmap}'),
('int4 desc, int4', '{int4,int4}', '{DESC NULLS LAST,ASC NULLS FIRST}', '{index,indexonly,bitmap}'),
('bool, int2, int4', '{bool,int2,int4}', '{ASC,DESC,ASC NULLS FIRST}', '{index,indexonly,bitmap}'),
('date, int4', '{date,int4}', '{DESC,DESC NULLS LAST}', '{index,indexonly,bitmap}'),
('oid, int8', '{oid,int8}', '{ASC,DESC}', '{index,indexonly,bitmap}'),
('int8, int4', '{int8,int4}', '{ASC NULLS FIRST,ASC}', '{index,indexonly,bitmap}'),
('float4, int4', '{float4,int4}', '{ASC,ASC}', '{index,indexonly,bitmap}'),
('int4, float8', '{int4,float8}', '{ASC,DESC}', '{index,indexonly,bitmap}'),
('float4, float8', '{float4,float8}', '{DESC,ASC}', '{index,bitmap}'),
('char, bool, int2, date', '{"\"char\"",bool,int2,date}', '{ASC,DESC,ASC,DESC NULLS LAST}', '{index,indexonly,bitmap}'),
('timestamptz, int2, bool', '{timestamptz,int2,bool}', '{DESC,ASC,ASC}', '{index,indexonly,bitmap}'),
('time, oid', '{time,oid}', '{ASC,ASC NULLS FIRST}', '{index,indexonly,bitmap}'),
('macaddr, macaddr8', '{macaddr,macaddr8}', '{ASC,DESC}', '{index,indexonly,bitmap}'),
('money, int2', '{money,int2}', '{ASC,ASC}', '{index,indexonly,bitmap}'),
('pg_lsn, char', '{pg_lsn,"\"char\""}', '{ASC,ASC}', '{index,indexonly,bitmap}'),
('int2, xid8', '{int2,xid8}', '{ASC,ASC}', '{index,indexonly,bitmap}'),
('bool x 8', '{bool,bool,bool,bool,bool,bool,bool,bool}', '{ASC,DESC,ASC,DESC,ASC,DESC,ASC,DESC}', '{index,indexonly,bitmap}'),
('int2, int2, int2, int2', '{int2,int2,int2,int2}', '{ASC,ASC,ASC,ASC}', '{index,indexonly,bitmap}');
-- A type's n-th value, out of eight: extremes, and values around zero.
CREATE FUNCTION value(type text, n int) RETURNS text LANGUAGE sql AS $$
  SELECT CASE type
    WHEN 'bool' THEN CASE WHEN n % 2 = 0 THEN 'true' ELSE 'false' END
    WHEN '"char"' THEN format('(%s)::"char"', ('{0,1,-1,127,-128,64,2,-2}'::int[])[n + 1])
    WHEN 'int2' THEN format('(%s)::int2', ('{0,1,-1,32767,-32768,2,-2,3}'::int[])[n + 1])
    WHEN 'int4' THEN format('(%s)', ('{0,1,-1,2147483647,-2147483648,2,-2,3}'::int[])[n + 1])
    WHEN 'int8' THEN format('(%s)::int8', ('{0,1,-1,9223372036854775807,-9223372036854775808,2,-2,3}'::text[])[n + 1])
    WHEN 'date' THEN format('%L::date', ('{2000-01-01,2000-01-02,1999-12-31,infinity,-infinity,5874897-12-31,1999-12-30,2000-01-03}'::text[])[n + 1])
    WHEN 'time' THEN format('%L::time', ('{00:00,24:00,12:00,00:00:01,23:59:59.999999,12:00:01,11:59:59,06:00}'::text[])[n + 1])
    WHEN 'timestamptz' THEN format('%L::timestamptz', ('{2000-01-01 UTC,2000-01-02 UTC,1999-12-31 UTC,infinity,-infinity,2000-01-03 UTC,1999-12-30 UTC,2000-01-04 UTC}'::text[])[n + 1])
    WHEN 'oid' THEN format('(%s)::oid', ('{0,1,2,4294967295,2147483648,2147483647,3,4}'::text[])[n + 1])
    WHEN 'macaddr' THEN format('%L::macaddr', ('{000000000000,000000000001,ffffffffffff,800000000000,7fffffffffff,000000000002,000000000003,000000000004}'::text[])[n + 1])
    WHEN 'macaddr8' THEN format('%L::macaddr8', ('{0000000000000000,0000000000000001,ffffffffffffffff,8000000000000000,7fffffffffffffff,0000000000000002,0000000000000003,0000000000000004}'::text[])[n + 1])
    WHEN 'money' THEN format('%L::money', ('{0,0.01,-0.01,92233720368547758.07,-92233720368547758.08,1,-1,2}'::text[])[n + 1])
    WHEN 'pg_lsn' THEN format('%L::pg_lsn', ('{0/0,0/1,FFFFFFFF/FFFFFFFF,80000000/0,7FFFFFFF/FFFFFFFF,1/0,2/0,3/0}'::text[])[n + 1])
    WHEN 'xid8' THEN format('%L::xid8', ('{0,1,18446744073709551615,9223372036854775808,9223372036854775807,2,3,4}'::text[])[n + 1])
    ELSE format('%L::%s', ('{0,-0,NaN,Infinity,-Infinity,1.5,-1.5,-1}'::text[])[n + 1], type) -- float4, float8
  END
$$;
-- Rows in no order, each column NULL in a seventh of them.
CREATE FUNCTION set_up(s shape, tab text, last int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  names text[] := (SELECT array_agg(chr(96 + n)) FROM generate_series(1, cardinality(s.columns)) n);
  definition text := (SELECT string_agg(format('%s %s', names[n], s.columns[n]), ', ') FROM generate_series(1, cardinality(names)) n);
  keys text := (SELECT string_agg(format('%s %s', names[n], s.options[n]), ', ' ORDER BY n) FROM generate_series(1, cardinality(names)) n);
  draws text := (SELECT string_agg(format('CASE WHEN random() < 0.15 THEN NULL ELSE (ARRAY[%s])[1 + floor(random() * 8)] END',
                                          (SELECT string_agg(value(c, v), ', ') FROM generate_series(0, 7) v)), ', ' ORDER BY n)
                   FROM unnest(s.columns) WITH ORDINALITY u(c, n));
BEGIN
  EXECUTE format('CREATE TABLE %s (%s, id int) WITH (autovacuum_enabled = off)', tab, definition);
  EXECUTE format('INSERT INTO %s SELECT %s, i FROM generate_series(1, %s) i', tab, draws, last);
  EXECUTE format('CREATE INDEX %1$s_idx ON %1$s USING fpbtree (%2$s)', tab, keys);
  EXECUTE format('INSERT INTO %s SELECT %s, i FROM generate_series(%s, %s) i', tab, draws, last + 1, 2 * last);
END $$;
-- A condition on one column; booleans get a subquery, see types.sql.
CREATE FUNCTION condition(name text, type text, n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  a text := value(type, n % 8);
  b text := value(type, (n * 5 + 3) % 8);
BEGIN
  IF type = 'bool' THEN
    a := format('(SELECT %s)', a);
    b := format('(SELECT %s)', b);
  END IF;
  RETURN CASE n / 8 % 9
    WHEN 0 THEN format('%s = %s', name, a)
    WHEN 1 THEN format('%s < %s', name, a)
    WHEN 2 THEN format('%s <= %s', name, a)
    WHEN 3 THEN format('%s > %s', name, a)
    WHEN 4 THEN format('%s >= %s', name, a)
    WHEN 5 THEN format('%s BETWEEN %s AND %s', name, a, b)
    WHEN 6 THEN format('%s IS %sNULL', name, CASE WHEN n % 2 = 0 THEN 'NOT ' END)
    ELSE format('%s = ANY (ARRAY[%s, %s, NULL, %s])', name, a, b, a)
  END;
END $$;
-- On every subset of the columns, some conditions drawn at random; the rows in any order, then
-- ordered as the index is, then the other way, then the first few.
CREATE FUNCTION check_shape(s shape, tab text, rounds int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  width int := cardinality(s.columns);
  narrow text[] := CASE WHEN 'indexonly' = ANY (s.ways) THEN '{indexonly}' ELSE '{index}' END;
  forward text;
  backward text;
  names text := (SELECT string_agg(chr(96 + n), ', ' ORDER BY n) FROM generate_series(1, cardinality(s.columns)) n);
  conditions text;
  subset int;
BEGIN
  SELECT string_agg(concat_ws(' ', chr((96 + n)::int), CASE WHEN o ~ 'DESC' THEN 'DESC' END, 'NULLS', CASE WHEN first THEN 'FIRST' ELSE 'LAST' END), ', ' ORDER BY n),
         string_agg(concat_ws(' ', chr((96 + n)::int), CASE WHEN o !~ 'DESC' THEN 'DESC' END, 'NULLS', CASE WHEN first THEN 'LAST' ELSE 'FIRST' END), ', ' ORDER BY n)
    INTO forward, backward
    FROM unnest(s.options) WITH ORDINALITY u(o, n), LATERAL (SELECT o ~ 'FIRST' OR o = 'DESC' AS first) f;
  FOR subset IN SELECT i FROM generate_series(1, (1 << width) - 1) i WHERE width <= 4 OR i % 9 = 1 LOOP
    FOR round IN 1 .. rounds LOOP
      conditions := (SELECT string_agg(condition(chr(96 + n), s.columns[n], floor(random() * 72)::int), ' AND ' ORDER BY n)
                       FROM generate_series(1, width) n WHERE subset >> (n - 1) & 1 = 1);
      PERFORM harness.compare(s.name, format('SELECT %s{id} FROM {t} WHERE %s', names, conditions), ARRAY[tab], s.ways, false),
              harness.compare(s.name, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie}', names, conditions, forward), ARRAY[tab], '{index}', true),
              harness.compare(s.name, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie}', names, conditions, backward), ARRAY[tab], narrow, true),
              harness.compare(s.name, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie} LIMIT 5', names, conditions, backward), ARRAY[tab], '{index}', true);
    END LOOP;
  END LOOP;
  PERFORM harness.compare(s.name, format('SELECT %s{id} FROM {t} ORDER BY %s{tie}', names, o), ARRAY[tab], array_remove(s.ways, 'bitmap'), true)
     FROM (VALUES (forward), (backward)) v (o);
  PERFORM harness.sound(s.name, (tab || '_idx')::regclass);
END $$;
CREATE TABLE run AS SELECT s, format('multi_%s', row_number() OVER ()) AS tab FROM shape s;
SELECT setseed(0.25);
SELECT count(set_up(s, tab, 1000)) FROM run;
SELECT count(check_shape(s, tab, 12)) FROM run;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
TRUNCATE harness.result, harness.problem;
\set ECHO none
SELECT format('DELETE FROM %s WHERE id %% 2 = 0', tab) FROM run \gexec
SELECT 'VACUUM ANALYZE ' || string_agg(tab, ', ') FROM run \gexec
\set ECHO all
SELECT count(check_shape(s, tab, 4)) FROM run;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
\set ECHO none
SELECT 'DROP TABLE ' || string_agg(tab, ', ') FROM run \gexec
\set ECHO all
-- Cross-type bounds on packed columns.
TRUNCATE harness.result, harness.problem;
CREATE TABLE packed (a int2, b int4, c date, id serial);
INSERT INTO packed SELECT (i % 50 - 25)::int2 * 1310, i % 11 - 5, date '2024-01-01' + i % 7 FROM generate_series(1, 2000) i;
CREATE INDEX packed_idx ON packed USING fpbtree (a, b DESC, c);
SELECT count(harness.compare('cross-type', 'SELECT a, b, c{id} FROM {t} WHERE ' || concat_ws(' AND ', x, y, z), '{packed}', '{index,indexonly,bitmap}', false))
  FROM unnest('{a > -40000,a < 40000::int8,a = 32767 + 1,"a = ANY (''{-32769,-31440,0,1310,99999}''::int8[])",a >= -1310,NULL}'::text[]) x,
       unnest('{b > -3000000000,b <= 2::int2,b = 3::int8,"b = ANY (''{-5,0,5,9}''::int2[])",b IS NOT NULL}'::text[]) y,
       unnest('{c >= timestamp ''2024-01-03 00:00:01'',c < timestamptz ''2024-01-05 12:00'',"c = ANY (''{2024-01-02,2024-01-04 00:00:01}''::timestamp[])",NULL}'::text[]) z;
-- Two ways to ask for one range of the list.
SELECT count(harness.compare('list', query, '{packed}', '{index,indexonly}', true))
  FROM unnest(ARRAY['SELECT a, b, c{id} FROM {t} WHERE a = 0 ORDER BY b DESC, c{tie}',
                    'SELECT a, b, c{id} FROM {t} WHERE a = 0 AND b = 1 ORDER BY c DESC{tie}',
                    'SELECT a, b, c{id} FROM {t} WHERE a >= 0 AND b = 1 AND c > ''2024-01-02'' ORDER BY a DESC, b, c DESC{tie}',
                    'SELECT a, b, c{id} FROM {t} WHERE b BETWEEN -1 AND 1 ORDER BY a, b DESC, c{tie} OFFSET 3 LIMIT 40']) query;
SELECT count(harness.sound('list', 'packed_idx'));
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
-- Too wide for lanes: the columns' bits, and a bit each for NULL, are more than 128.
CREATE TABLE wide (a int8, b int8, u uuid, i int4, d date, t timestamp, x bool, m macaddr8);
SELECT list, left(harness.outcome(format('CREATE INDEX ON wide USING fpbtree (%s)', list)), 5)
  FROM unnest('{"a, b","u, i","u, x","a, t","i, d, a","m, a","i, i, i, i","a, i, x"}'::text[]) list;
SELECT count(*) FROM pg_index WHERE indrelid = 'wide'::regclass;
DROP FUNCTION value, condition, set_up(shape, text, int), check_shape;
DROP TABLE wide, packed, run, shape;
