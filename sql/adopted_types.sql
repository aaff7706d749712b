-- Types whose classes were adopted: an extension's and a user's, each operator and order, through index,
-- index-only and bitmap scans, against a sequential scan.
-- Needs: citext hstore icu isn ltree seg
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE EXTENSION hstore;
CREATE EXTENSION isn;
CREATE EXTENSION seg;
-- Versions, ordered by their numbers: a class whose comparison is a user's own code.
CREATE TYPE version AS (number text);
CREATE FUNCTION version_cmp(a version, b version) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
  RETURN btarraycmp(string_to_array(a.number, '.')::int[], string_to_array(b.number, '.')::int[]);
END $$;
CREATE FUNCTION version_lt(version, version) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN version_cmp($1, $2) < 0; END';
CREATE FUNCTION version_le(version, version) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN version_cmp($1, $2) <= 0; END';
CREATE FUNCTION version_eq(version, version) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN version_cmp($1, $2) = 0; END';
CREATE FUNCTION version_ge(version, version) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN version_cmp($1, $2) >= 0; END';
CREATE FUNCTION version_gt(version, version) RETURNS bool IMMUTABLE STRICT LANGUAGE plpgsql AS 'BEGIN RETURN version_cmp($1, $2) > 0; END';
CREATE OPERATOR < (LEFTARG = version, RIGHTARG = version, FUNCTION = version_lt, COMMUTATOR = >, NEGATOR = >=);
CREATE OPERATOR <= (LEFTARG = version, RIGHTARG = version, FUNCTION = version_le, COMMUTATOR = >=, NEGATOR = >);
CREATE OPERATOR = (LEFTARG = version, RIGHTARG = version, FUNCTION = version_eq, COMMUTATOR = =);
CREATE OPERATOR >= (LEFTARG = version, RIGHTARG = version, FUNCTION = version_ge, COMMUTATOR = <=, NEGATOR = <);
CREATE OPERATOR > (LEFTARG = version, RIGHTARG = version, FUNCTION = version_gt, COMMUTATOR = <, NEGATOR = <=);
CREATE OPERATOR CLASS version_ops DEFAULT FOR TYPE version USING btree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 version_cmp(version, version);
SELECT count(*) FROM fpbtree_adopt();
-- "special" are values as SQL, between semicolons; "random" draws another, using r, one in 0 .. 199.
CREATE TABLE kind (name text, type text, special text, random text, class text DEFAULT '', operators text[] DEFAULT '{<,<=,=,>=,>}');
INSERT INTO kind VALUES
('ltree', 'ltree', $$'';'Top';'Top.Science';'Top.Science.Astronomy'$$, $$format('Top.n%s.n%s', r % 7, r)::ltree$$),
('ean13', 'ean13', $$'978-0-11-000222-4';'220-500-089-6440';'978-0-393-04002-9'$$, $$ean13('978-0-11-000222-4')$$),
('isbn', 'isbn', $$'0-11-000222-9'::isbn;'0-393-04002-X'::isbn$$, $$isbn(ean13 '978-0-11-000222-4')$$),
('seg', 'seg', $$'1 .. 2';'< 1';'5(+-)0.1';'1'$$, $$format('%s .. %s', r % 9, r % 9 + r)::seg$$),
('version', 'version', $$ROW('1.10');ROW('1.9');ROW('01.9');ROW('2')$$, $$ROW(format('%s.%s', r % 3, r))$$);
INSERT INTO kind VALUES
('hstore', 'hstore', $$'';'a=>1';'a=>NULL';'a=>1,b=>2'$$, $$hstore('k' || r % 7, r::text)$$, '', '{#<#,#<=#,=,#>=#,#>#}');
-- Words that go elsewhere in lower case than in upper, or than their bytes do; that change their length with their case;
-- that are alike for eight bytes and more.
INSERT INTO kind SELECT name, type, $$'';'A';'Zebra';'Ω';'éclair';'item-7';'INTERNATIONAL_7'$$,
  $$(ARRAY['Alpha', 'alpha', 'BETA', 'Zebra', '_', 'item-', 'ITEM', 'Éclair', 'ÉCLAIR', 'Ödland', 'ȺȺ', 'ω', 'Internationally ', 'INTERNATIONAL_', 'seventh', 'Seventhé'])[1 + r % 16] || r % 40$$, class, operators
  FROM (VALUES ('citext', 'citext', '', '{<,<=,=,>=,>}'::text[]),
               ('citext C', 'citext COLLATE "C"', '', '{<,<=,=,>=,>}'),
               ('citext ICU', 'citext COLLATE "en-x-icu"', '', '{<,<=,=,>=,>}'),
               ('citext pattern', 'citext', 'citext_pattern_ops', '{~<~,~<=~,=,~>=~,~>~}')) v(name, type, class, operators);
CREATE FUNCTION cast_of(k kind) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(k.type, ' COLLATE.*', '') $$;
CREATE FUNCTION specials(k kind) RETURNS text[] LANGUAGE sql AS $$
  SELECT array_agg(format('(%s)::%s', e, cast_of(k)) ORDER BY n) FROM unnest(string_to_array(k.special, ';')) WITH ORDINALITY u(e, n)
$$;
-- Rows, NULLs and special values among them.
CREATE FUNCTION fill(k kind, tab text, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('INSERT INTO %s SELECT i, CASE WHEN i %% 17 = 0 THEN NULL WHEN i %% 6 = 0 THEN (ARRAY[%s])[1 + r %% %s] ELSE (%s)::%s END
                    FROM (SELECT i, floor(random() * 200)::int AS r FROM generate_series(%s, %s) i) s',
                 tab, array_to_string(specials(k), ', '), cardinality(specials(k)), k.random, cast_of(k), first, last);
END $$;
-- The same order by the operators of the class, as it need not be the default.
CREATE FUNCTION by_class(k kind, options text) RETURNS text LANGUAGE sql AS $$
  SELECT replace(replace(options, 'ASC', 'USING ' || k.operators[1]), 'DESC', 'USING ' || k.operators[5])
$$;
-- Every condition in every way, and the order, of one kind and one order of its index.
CREATE FUNCTION check_kind(k kind, options text, first text, last text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  special text;
  op text;
BEGIN
  EXECUTE format('CREATE TABLE t (id int, v %s)', k.type);
  PERFORM fill(k, 't', 1, 600);
  EXECUTE format('CREATE INDEX t_idx ON t USING fpbtree (v %s %s)', k.class, options);
  PERFORM fill(k, 't', 601, 1500);
  DELETE FROM t WHERE id % 7 = 0;
  PERFORM harness.sound(k.name, 't_idx');
  FOREACH special IN ARRAY specials(k) LOOP
    FOREACH op IN ARRAY k.operators LOOP
      PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} WHERE v %s %s', op, special), '{t}', '{index,indexonly,bitmap}', false);
    END LOOP;
    PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} WHERE v %s %s ORDER BY v %s{tie}', op, special, first), '{t}', '{index}', true);
  END LOOP;
  PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} WHERE v = ANY (ARRAY[%s, NULL])', array_to_string(specials(k), ', ')),
                          '{t}', '{index,indexonly,bitmap}', false);
  PERFORM harness.compare(k.name, 'SELECT v{id} FROM {t} WHERE v IS NULL', '{t}', '{index,indexonly,bitmap}', false) WHERE k.name <> 'version';
  PERFORM harness.compare(k.name, format('SELECT v{id} FROM {t} ORDER BY v %s{tie}', first), '{t}', '{index}', true),
          harness.compare(k.name, format('SELECT v{id} FROM {t} ORDER BY v %s{tie}', last), '{t}', '{index}', true);
  DROP TABLE t;
END $$;
-- With entries in a wrong order a scan may go round and round.
SET statement_timeout = '2min';
SELECT count(check_kind(k, o.options, by_class(k, o.options), by_class(k, o.backwards)))
  FROM kind k, (VALUES ('ASC', 'DESC'), ('DESC', 'ASC'), ('ASC NULLS FIRST', 'DESC NULLS LAST'), ('DESC NULLS LAST', 'ASC NULLS FIRST')) o(options, backwards);
RESET statement_timeout;
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
-- Equal is what the class says, and unique what is equal.
CREATE TABLE same (c citext COLLATE "C", v version);
CREATE INDEX same_c ON same USING fpbtree (c);
CREATE INDEX same_v ON same USING fpbtree (v);
INSERT INTO same VALUES ('One', ROW('1.0')), ('ONE', ROW('01.00')), ('two', ROW('1.00.0'));
SET enable_seqscan = off;
SELECT c FROM same WHERE c = 'oNe' ORDER BY c::text COLLATE "C";
SELECT v FROM same WHERE v = ROW('1.0')::version ORDER BY (v).number COLLATE "C";
RESET enable_seqscan;
DROP TABLE same;
DROP FUNCTION check_kind, by_class, fill, specials, cast_of;
DROP TABLE kind;
DROP TYPE version CASCADE;
DROP EXTENSION citext CASCADE;
DROP EXTENSION ltree CASCADE;
DROP EXTENSION hstore CASCADE;
DROP EXTENSION isn CASCADE;
DROP EXTENSION seg CASCADE;
