-- Every type that btree indexes by default: each operator and order, alone and beside an integer or a
-- text, through index, index-only and bitmap scans and a merge join, against a sequential scan.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'very happy');
ALTER TYPE mood ADD VALUE 'neutral' BEFORE 'ok';
CREATE TYPE pair AS (a int, b text);
CREATE TYPE nested AS (p pair, n numeric);
CREATE DOMAIN short AS text COLLATE "C" CHECK (length(value) < 100);
CREATE DOMAIN percent AS int CHECK (value <= 100);
CREATE DOMAIN bounds AS int4range;
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
-- "special" are values as SQL, between semicolons; "random" draws another, using r, one in 0 .. 199.
CREATE TABLE kind (name text, type text, special text, random text);
INSERT INTO kind VALUES
('boolean', 'boolean', 'true;false', 'r < 100'),
('"char"', '"char"', '0::"char";127::"char";(-128)::"char";(-1)::"char"', '(r - 100)::"char"'),
('smallint', 'smallint', '0;32767;-32768', 'r - 100'),
('integer', 'integer', '0;2147483647;-2147483648', 'r - 100'),
('bigint', 'bigint', '0;9223372036854775807;-9223372036854775808', '(r - 100) * 10000000000'),
('oid', 'oid', '0;4294967295;2147483648', 'r * 20000000::int8'),
('real', 'real', $$0;'-0';'NaN';'Infinity';'-Infinity';'3.4e38';'1e-45'$$, '(r - 100) / 7.0'),
('double precision', 'double precision', $$0;'-0';'NaN';'Infinity';'-Infinity';'1.7e308';'5e-324'$$, '(r - 100) / 7.0'),
('numeric', 'numeric', $$0;0.00;'NaN';'Infinity';'-Infinity';1e200;-1e200;1e-200;100;100.0;-100$$, 'round((r - 100) / 7.0, r % 5)'),
('money', 'money', $$'0';'-92233720368547758.08';'92233720368547758.07'$$, '(r - 100)::money'),
('date', 'date', $$'epoch';'infinity';'-infinity';'4714-11-24 BC';'5874897-12-31'$$, $$date '2000-01-01' + (r - 100)$$),
('time without time zone', 'time', $$'00:00';'24:00';'23:59:59.999999'$$, $$time '12:00' + r * interval '97 s'$$),
('time with time zone', 'timetz', $$'00:00+00';'24:00-15:59';'24:00+15:59';'12:00+02';'11:00+01'$$, $$(timetz '00:00+00' + r * interval '97 s') AT TIME ZONE make_interval(hours => r % 25 - 12)$$),
('timestamp without time zone', 'timestamp', $$'epoch';'infinity';'-infinity';'4714-11-24 00:00 BC';'294276-12-31 23:59:59.999999'$$, $$timestamp '2000-01-01' + (r - 100) * interval '7 hours'$$),
('timestamp with time zone', 'timestamptz', $$'epoch';'infinity';'-infinity';'4714-11-24 00:00 UTC BC';'294276-12-31 23:59:59.999999 UTC'$$, $$timestamptz '2000-01-01 UTC' + (r - 100) * interval '7 hours'$$),
('interval', 'interval', $$'0';'1 month';'30 days';'720 hours';'-30 days';'178000000 years';'-178000000 years'$$, $$(r - 100) * (ARRAY['1 day', '24 hours', '1 month', '30 days']::interval[])[1 + r % 4]$$),
('uuid', 'uuid', $$'00000000-0000-0000-0000-000000000000';'ffffffff-ffff-ffff-ffff-ffffffffffff'$$, 'md5(r::text)::uuid'),
('macaddr', 'macaddr', $$'00:00:00:00:00:00';'ff:ff:ff:ff:ff:ff'$$, 'left(md5(r::text), 12)::macaddr'),
('macaddr8', 'macaddr8', $$'00:00:00:00:00:00:00:00';'ff:ff:ff:ff:ff:ff:ff:ff'$$, 'left(md5(r::text), 16)::macaddr8'),
('inet', 'inet', $$'0.0.0.0/0';'10.0.0.0/8';'10.0.0.0';'::/0';'::1';'255.255.255.255'$$, $$set_masklen(CASE WHEN r % 3 = 0 THEN inet '2001:db8::' ELSE inet '10.0.0.0' END + r * 65537, 8 + r % 25)$$),
('cidr', 'cidr', $$'0.0.0.0/0';'10.0.0.0/8';'10.0.0.0';'::/0';'::1'$$, $$network(set_masklen(CASE WHEN r % 3 = 0 THEN inet '2001:db8::' ELSE inet '10.0.0.0' END + r * 65537, 8 + r % 25))$$),
('pg_lsn', 'pg_lsn', $$'0/0';'FFFFFFFF/FFFFFFFF';'80000000/0'$$, $$r * 1000000007::numeric + '0/0'::pg_lsn$$),
('xid8', 'xid8', $$'0';'18446744073709551615';'9223372036854775808'$$, '(r * 3000000019)::text::xid8'),
('tid', 'tid', $$'(0,0)';'(4294967295,65535)';'(0,1)'$$, $$format('(%s,%s)', r % 7, r % 50)::tid$$),
('oidvector', 'oidvector', $$'';'0';'0 1';'4294967295'$$, $$format('%s %s', r % 7, r)::oidvector$$),
('int2vector', 'int2vector', $$'0';'0 1';'-1';'32767 1'$$, $$format('%s %s', r % 7, r)::int2vector$$),
('text', 'text', $$'';'a';'A';'b';repeat('z', 800);E'\x01';chr(233)$$, $$left(md5(r::text), r % 9)$$),
('character varying', 'varchar(900)', $$'';'a';'a ';'A';repeat('z', 800)$$, $$repeat('common ', r % 3) || r$$),
('character', 'bpchar', $$'';'a';'a  ';'A';E'a\x01'$$, $$left(md5(r::text), r % 5) || repeat(' ', r % 3)$$),
('name', 'name', $$'';'a';repeat('n', 63)$$, $$'name_' || r$$),
('bytea', 'bytea', $$'';'\x00';'\x0000';'\x00ff';'\xff'$$, $$substr(decode(translate(md5(r::text), '13579bd', '0000fff'), 'hex'), 1, r % 9)$$),
('bit', 'bit(10)', $$B'0000000000';B'1111111111'$$, '(r * 4)::bit(10)'),
('bit varying', 'varbit', $$'';B'0';B'00';B'1';B'10000000';B'100000000'$$, 'substring((r * 4)::bit(10), 1, r % 11)'),
('jsonb', 'jsonb', $$'null';'true';'0';'""';'[]';'{}';'{"a": 1}';'[1, 2]';'[[]]';'"a"'$$, $$jsonb_build_object('n', r % 20, 't', md5((r % 10)::text))$$),
('tsvector', 'tsvector', $$'';'a';'a:1A';'a b';'b'$$, $$to_tsvector('simple', format('word%s other%s', r % 10, r % 3))$$),
('tsquery', 'tsquery', $$'';'a';'a & b';'!a';'a <-> b'$$, $$to_tsquery('simple', format('w%s | %s', r % 10, r))$$),
('int4range', 'int4range', $$'empty';'(,)';'(,5)';'[5,)';'[1,1]'$$, 'int4range(r % 20, r % 20 + r % 7)'),
('int8range', 'int8range', $$'empty';'(,)';'[1,2)'$$, 'int8range(r % 20, r % 20 + r % 7)'),
('numrange', 'numrange', $$'empty';'(,)';'[1.0,1.00]';'(1,2]';'[1,2]'$$, 'numrange(r % 20, r % 20 + r / 9.0)'),
('daterange', 'daterange', $$'empty';'(,)';'[-infinity,infinity]'$$, $$daterange('2000-01-01', date '2000-01-01' + r)$$),
('tsrange', 'tsrange', $$'empty';'(,)'$$, $$tsrange('2000-01-01', timestamp '2000-01-01' + r * interval '1 hour', '[]')$$),
('tstzrange', 'tstzrange', $$'empty';'(,)'$$, $$tstzrange('2000-01-01 UTC', timestamptz '2000-01-01 UTC' + r * interval '1 hour', '()')$$),
('int4multirange', 'int4multirange', $$'{}';'{(,)}';'{[1,2),[4,5)}'$$, 'int4multirange(int4range(r % 9, r % 9 + 2), int4range(20, 21 + r % 7))'),
('int8multirange', 'int8multirange', $$'{}';'{(,)}'$$, 'int8multirange(int8range(r % 9, r % 9 + 2))'),
('nummultirange', 'nummultirange', $$'{}';'{(,)}'$$, 'nummultirange(numrange(r % 9, r % 9 + 2.5))'),
('datemultirange', 'datemultirange', $$'{}';'{(,)}'$$, $$datemultirange(daterange('2000-01-01', date '2000-01-02' + r))$$),
('tsmultirange', 'tsmultirange', $$'{}';'{(,)}'$$, $$tsmultirange(tsrange('2000-01-01', timestamp '2000-01-02' + r * interval '1 hour'))$$),
('tstzmultirange', 'tstzmultirange', $$'{}';'{(,)}'$$, $$tstzmultirange(tstzrange('2000-01-01 UTC', timestamptz '2000-01-02 UTC' + r * interval '1 hour'))$$),
('regclass', 'regclass', $$0;'pg_class';'pg_type'$$, 'r::oid'),
('regcollation', 'regcollation', $$0;'"C"'$$, 'r::oid'),
('regconfig', 'regconfig', $$0;'simple'$$, 'r::oid'),
('regdictionary', 'regdictionary', $$0;'simple'$$, 'r::oid'),
('regnamespace', 'regnamespace', $$0;'pg_catalog'$$, 'r::oid'),
('regoper', 'regoper', $$0;4294967295::oid$$, 'r::oid'),
('regoperator', 'regoperator', $$0;'+(int4,int4)'$$, 'r::oid'),
('regproc', 'regproc', $$0;'now'$$, 'r::oid'),
('regprocedure', 'regprocedure', $$0;'now()'$$, 'r::oid'),
('regrole', 'regrole', $$0;4294967295::oid$$, 'r::oid'),
('regtype', 'regtype', $$0;'int4'$$, 'r::oid'),
-- Those that stand for many.
('integer[]', 'int[]', $$'{}';'{NULL}';'{1}';'{1,NULL}';'{{1,2},{3,4}}';'[0:1]={1,2}'$$, 'ARRAY[r % 7, r]'),
('bigint[]', 'int8[]', $$'{}';'{NULL}';'{-9223372036854775808}';'{-1,NULL}';'{0}';'{-256,-257}';'{9223372036854775807}'$$, 'ARRAY[(r - 100) * 3, CASE r % 3 WHEN 0 THEN NULL ELSE r END]'),
('double precision[]', 'float8[]', $$'{}';'{NaN}';'{-0}';'{0}';'{-Infinity}';'{NULL,1}'$$, 'ARRAY[(r - 100) / 7.0, r]'),
('boolean[]', 'bool[]', $$'{}';'{NULL}';'{t,f}';'{f,f,f,f,f,f,f,f,t}';'{{f},{f}}'$$, 'ARRAY[r < 100, r % 3 = 0, NULL, r % 2 = 0]'),
('uuid[]', 'uuid[]', $$'{}';'{NULL}';'{00000000-0000-0000-0000-000000000000}';'{ffffffff-ffff-ffff-ffff-ffffffffffff}'$$, 'ARRAY[md5((r % 9)::text), md5(r::text)]'),
('text[]', 'text[] COLLATE "C"', $$'{}';'{NULL}';'{""}';'{a,b}';'{a}';'{B}'$$, 'ARRAY[md5((r % 7)::text), r::text]'),
('numeric[]', 'numeric[]', $$'{}';'{1.0}';'{1.00}';'{NaN}'$$, 'ARRAY[r % 7, r / 3.0]'),
('an enum', 'mood', $$'sad';'very happy';'neutral'$$, $$(enum_range(NULL::mood))[1 + r % 5]$$),
('an array of enums', 'mood[]', $$'{}';'{sad}';'{neutral,ok}'$$, $$ARRAY[(enum_range(NULL::mood))[1 + r % 5], 'ok']$$),
('a composite', 'pair', $$'(,)';'(1,)';'(,a)';'(1,a)'$$, 'ROW(r % 7, r)'),
('a composite of composites', 'nested', $$'("(1,)",1.0)';'("(1,)",1.00)';ROW(NULL, 1)$$, 'ROW(ROW(r % 7, r), r / 3.0)'),
('an array of composites', 'pair[]', $$'{}';ARRAY[NULL::pair];ARRAY['(1,)'::pair]$$, 'ARRAY[ROW(r % 7, r)]::pair[]'),
('a domain over text', 'short', $$'';'a';'B'$$, 'left(md5(r::text), 5)'),
('a domain over integer', 'percent', $$0;100;-2147483648$$, 'r / 2'),
('a domain over a range', 'bounds', $$'empty';'(,)'$$, 'int4range(r % 9, r)'),
('a range of text', 'textrange', $$'empty';'(,)';'[a,b]';'[A,b]'$$, $$textrange('a', 'b' || r)$$);
-- Those that only later releases have.
INSERT INTO kind SELECT * FROM (VALUES
('oid8', 'oid8', $$'0';'18446744073709551615';'9223372036854775808'$$, '(r * 3000000019)::text::oid8'),
('regdatabase', 'regdatabase', $$0;4294967295::oid$$, 'r::oid')) later (name, type, special, random) WHERE to_regtype(type) IS NOT NULL;
-- Is there a type that btree indexes and this list forgets? Four are indexed as bytea or text, but have
-- no operators of their own that an index could serve.
CREATE FUNCTION indexed(type regtype) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE try (v %s)', type);
  CREATE INDEX ON try USING btree (v);
  DROP TABLE try;
  RETURN true;
EXCEPTION WHEN undefined_object THEN
  RETURN false;
END $$;
WITH type AS MATERIALIZED (
  SELECT oid::regtype AS type FROM pg_type t
   WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm', 'e', 'd') AND NOT EXISTS (SELECT FROM pg_type e WHERE e.typarray = t.oid))
SELECT type AS forgotten FROM type WHERE type::text NOT IN (SELECT name FROM kind) AND indexed(type) ORDER BY type::text COLLATE "C";
CREATE TABLE curious (a pg_dependencies, b pg_mcv_list, c pg_ndistinct, d pg_node_tree);
CREATE INDEX curious_idx ON curious USING fpbtree (a, b DESC, c, d);
INSERT INTO curious VALUES (NULL, NULL, NULL, (SELECT ev_qual FROM pg_rewrite LIMIT 1));
SELECT harness.sound('curious', 'curious_idx');
DROP TABLE curious;
-- Is there one that btree does not index, after all?
WITH type AS MATERIALIZED (SELECT t.oid::regtype AS type FROM kind k JOIN pg_type t ON format_type(t.oid, NULL) = k.name)
SELECT type AS not_indexed FROM type WHERE NOT indexed(type);
-- The type a kind's values are cast to, and its special values, so cast. A boolean constant the planner
-- would fold into "v" or "NOT v".
CREATE FUNCTION cast_of(k kind) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(k.type, ' COLLATE.*', '') $$;
CREATE FUNCTION specials(k kind) RETURNS text[] LANGUAGE sql AS $$
  SELECT array_agg(format(CASE k.type WHEN 'boolean' THEN '(SELECT %s)' ELSE '(%s)::%s' END, e, cast_of(k)) ORDER BY n)
    FROM unnest(string_to_array(k.special, ';')) WITH ORDINALITY u(e, n)
$$;
-- The rows first .. last of a table, NULLs and special values among them, an integer and a text beside.
CREATE FUNCTION fill(k kind, tab text, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO %s SELECT i, CASE WHEN i %% 17 = 0 THEN NULL WHEN i %% 6 = 0 THEN CASE %s END ELSE (%s)::%s END, r %% 9, left(md5((r %% 9)::text), r %% 5)
                    FROM (SELECT i, floor(random() * 200)::int AS r FROM generate_series(%s, %s) i) s',
                 tab, (SELECT string_agg(format('WHEN r %% %s = %s THEN %s', cardinality(specials(k)), n - 1, e), ' ') FROM unnest(specials(k)) WITH ORDINALITY u(e, n)),
                 k.random, cast_of(k), first, last);
END $$;
-- Conditions on values special, stored and drawn from another table alike.
CREATE FUNCTION conditions(k kind) RETURNS SETOF text LANGUAGE sql AS $$
  WITH value AS (
    SELECT e, n FROM unnest(specials(k)) WITH ORDINALITY u(e, n) WHERE n <= 3
    UNION ALL SELECT format('(SELECT v FROM other WHERE id = %s)', i), i FROM unnest('{10,20,31}'::int[]) i)
  SELECT format('v %s %s', op, e) FROM value, unnest('{<,<=,=,>=,>}'::text[]) op
  UNION ALL SELECT format('v BETWEEN %s AND %s', a.e, b.e) FROM value a, value b WHERE a.n IN (1, 10) AND b.n IN (2, 31)
  UNION ALL SELECT format('v > %s AND v < %s', a.e, b.e) FROM value a, value b WHERE a.n IN (2, 31) AND b.n IN (1, 10)
  -- There are no arrays of arrays or of the system's own, and a composite is NULL when all of its columns are.
  UNION ALL SELECT format('v = ANY (ARRAY[%s, NULL])', string_agg(e, ', ')) FROM value HAVING k.type !~ '\[\]|vector|^pg_[^l]'
  UNION ALL SELECT format('v >= ANY (ARRAY[%s])', string_agg(e, ', ')) FROM value WHERE n > 3 HAVING k.type !~ '\[\]|vector|^pg_[^l]'
  UNION ALL SELECT c FROM unnest('{v IS NULL,v IS NOT NULL}'::text[]) c WHERE k.type NOT IN ('pair', 'nested')
$$;
-- One index on t after another; each gets its share of the conditions.
CREATE TABLE variant (n int, columns text, forward text, backward text, other text);
INSERT INTO variant VALUES
(0, 'v', 'v', 'v DESC', 'true'),
(1, 'v NULLS FIRST', 'v NULLS FIRST', 'v DESC NULLS LAST', 'true'),
(2, 'v DESC', 'v DESC', 'v', 'true'),
(3, 'v DESC NULLS LAST', 'v DESC NULLS LAST', 'v NULLS FIRST', 'true'),
(4, 'v, w', 'v, w', 'v DESC, w DESC', 'w = 3'),
(5, 'w DESC, v', 'w DESC, v', 'w, v DESC', 'w > 5'),
(6, 'v DESC, x', 'v DESC, x', 'v, x DESC', $$x >= 'c' COLLATE "C"$$),
(7, 'x, v NULLS FIRST', 'x, v NULLS FIRST', 'x DESC, v DESC NULLS LAST', $$x = ANY ('{"",c4,a87f,e}')$$);
CREATE FUNCTION check_variant(k kind, v variant) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  list text := concat_ws(', ', 'v', substring(v.columns FROM '[wx]'));
  c text;
  o text;
BEGIN
  EXECUTE format('CREATE TABLE t (id int, v %s, w int, x text COLLATE "C") WITH (autovacuum_enabled = off)', k.type);
  PERFORM fill(k, 't', 1, (ARRAY[300, 0, 150])[1 + v.n % 3]);
  EXECUTE format('CREATE INDEX t_idx ON t USING fpbtree (%s)', v.columns);
  PERFORM fill(k, 't', (ARRAY[300, 0, 150])[1 + v.n % 3] + 1, 300);
  FOR c IN SELECT s.c FROM conditions(k) WITH ORDINALITY s(c, n) WHERE n % 8 = v.n OR n > 40 LOOP
    PERFORM harness.compare(k.name, format('SELECT %s{id} FROM {t} WHERE %s AND %s', list, c, v.other), '{t}', '{index,indexonly,bitmap}', false);
  END LOOP;
  FOR c IN SELECT unnest(ARRAY['true', 'v IS NOT NULL', format('v >= %s', e[1]), format('v < %s', e[cardinality(e)])]) FROM specials(k) e LIMIT CASE WHEN v.n < 4 THEN 4 ELSE 2 END LOOP
    FOREACH o IN ARRAY ARRAY[v.forward, v.backward] LOOP
      PERFORM harness.compare(k.name, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie}', list, c, o), '{t}', '{index,indexonly}', true);
      IF c = 'v IS NOT NULL' THEN
        PERFORM harness.compare(k.name, format('SELECT %s{id} FROM {t} WHERE %s ORDER BY %s{tie} OFFSET 9 LIMIT 5', list, c, o), '{t}', '{index,indexonly}', true);
      END IF;
    END LOOP;
  END LOOP;
  PERFORM harness.sound(k.name, 't_idx');
  DELETE FROM t WHERE id % 3 > 0;
  PERFORM harness.compare(k.name, format('SELECT %s{id} FROM {t} ORDER BY %s{tie}', list, v.forward), '{t}', '{index,indexonly}', true);
  DROP TABLE t;
END $$;
CREATE FUNCTION check_join(k kind) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE t (id int, v %s, w int, x text)', k.type);
  CREATE INDEX t_idx ON t USING fpbtree (v);
  PERFORM fill(k, 't', 1, 200);
  PERFORM set_config('enable_' || s, 'off', true) FROM unnest('{hashjoin,nestloop,material,memoize}'::text[]) s;
  IF k.type <> 'bounds' THEN -- such a domain's values are not merged
    PERFORM harness.compare(k.name, 'SELECT a.v FROM {t} a JOIN {t} b ON a.v = b.v', '{t}', '{index,indexonly}', false);
  END IF;
  PERFORM set_config('enable_nestloop', 'on', true), set_config('enable_mergejoin', 'off', true);
  PERFORM harness.compare(k.name, 'SELECT a.v FROM {t} a JOIN {t} b ON a.v >= b.v AND b.v >= a.v', '{t}', '{indexonly}', false);
  PERFORM set_config('enable_' || s, 'on', true) FROM unnest('{hashjoin,mergejoin,material,memoize}'::text[]) s;
  DROP TABLE t;
END $$;
CREATE FUNCTION check_kind(k kind) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE other (id int, v %s, w int, x text)', k.type);
  PERFORM fill(k, 'other', 1, 50);
  PERFORM check_variant(k, v) FROM variant v;
  PERFORM check_join(k);
  DROP TABLE other;
END $$;
SELECT setseed(0.75);
\set ECHO none
SELECT format('SELECT count(check_kind(k)) FROM kind k WHERE name = ANY (%L)', array_agg(name)) FROM (SELECT name, ntile(8) OVER () FROM kind) k GROUP BY ntile ORDER BY ntile \gexec
\set ECHO all
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION check_kind, check_join, check_variant, conditions, fill, specials, cast_of, indexed;
DROP TABLE kind, variant;
DROP TYPE textrange, nested, pair, mood;
DROP DOMAIN short, percent, bounds;
