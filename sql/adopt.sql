-- fpbtree_adopt(): operator classes of extensions and of users.
-- Needs: citext hstore isn ltree seg
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE SCHEMA adopted;
CREATE SCHEMA "Con ""trib";
CREATE EXTENSION citext SCHEMA "Con ""trib";
CREATE EXTENSION ltree SCHEMA adopted;
CREATE EXTENSION hstore SCHEMA adopted;
CREATE EXTENSION isn SCHEMA adopted;
CREATE EXTENSION seg SCHEMA adopted;
-- Everything about a method's families: classes, operators, functions, and what each depends on how.
CREATE VIEW adopted.family AS
  SELECT f.oid, a.amname AS method, f.opfnamespace::regnamespace AS schema, f.opfname AS name, f.opfowner AS owner
    FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod WHERE a.amname IN ('btree', 'fpbtree');
CREATE VIEW adopted.member AS
  SELECT f.method, 'class' AS kind, f.schema, f.name, c.opcintype::regtype AS lefttype, c.opckeytype::regtype AS righttype, NULL::int AS number,
         format('%s.%I%s', c.opcnamespace::regnamespace, c.opcname, CASE WHEN c.opcdefault THEN ' default' END) AS object
    FROM adopted.family f JOIN pg_opclass c ON c.opcfamily = f.oid
UNION ALL
  SELECT f.method, 'operator', f.schema, f.name, o.amoplefttype, o.amoprighttype, o.amopstrategy, format('%s %s', o.amopopr::regoperator, d.how)
    FROM adopted.family f JOIN pg_amop o ON o.amopfamily = f.oid
         LEFT JOIN LATERAL (SELECT string_agg(format('%s %s', deptype, refclassid::regclass), ', ' ORDER BY refclassid) AS how
                              FROM pg_depend WHERE classid = 'pg_amop'::regclass AND objid = o.oid AND f.schema <> 'pg_catalog'::regnamespace) d ON true
UNION ALL
  SELECT f.method, 'function', f.schema, f.name, p.amproclefttype, p.amprocrighttype, p.amprocnum, format('%s %s', p.amproc::oid::regprocedure, d.how)
    FROM adopted.family f JOIN pg_amproc p ON p.amprocfamily = f.oid
         LEFT JOIN LATERAL (SELECT string_agg(format('%s %s', deptype, refclassid::regclass), ', ' ORDER BY refclassid) AS how
                              FROM pg_depend WHERE classid = 'pg_amproc'::regclass AND objid = p.oid AND f.schema <> 'pg_catalog'::regnamespace) d ON true;
CREATE VIEW adopted.difference AS
  SELECT 'btree only' AS which, * FROM (SELECT kind, schema, name, lefttype, righttype, number, object FROM adopted.member WHERE method = 'btree'
    EXCEPT ALL SELECT kind, schema, name, lefttype, righttype, number, object FROM adopted.member WHERE method = 'fpbtree') d
  UNION ALL
  SELECT 'fpbtree only', * FROM (SELECT kind, schema, name, lefttype, righttype, number, object FROM adopted.member WHERE method = 'fpbtree'
    EXCEPT ALL SELECT kind, schema, name, lefttype, righttype, number, object FROM adopted.member WHERE method = 'btree') d;
SELECT which, schema, name, kind, count(*) FROM adopted.difference GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
-- Without it a value is taken for one of a type that it looks like, whose operators are others.
\set VERBOSITY default
CREATE TABLE adopted.alike (k "Con ""trib".citext, d varchar);
CREATE DOMAIN adopted.called AS "Con ""trib".citext;
ALTER TABLE adopted.alike ADD c adopted.called;
SET client_min_messages = notice;
CREATE INDEX alike_k ON adopted.alike USING fpbtree (k, d, c);
CREATE INDEX ON adopted.alike USING fpbtree (d, (k::text)) INCLUDE (k);
REINDEX INDEX adopted.alike_k;
SET client_min_messages = warning;
DROP TABLE adopted.alike;
DROP DOMAIN adopted.called;
-- What it does not take.
SELECT fpbtree_adopt('nonesuch_ops');
SELECT fpbtree_adopt('citext_ops', 'adopted.nonesuch_ops');
SELECT fpbtree_adopt('Citext_Ops', 'public.citext_ops');
SELECT fpbtree_adopt('adopted.ltree_ops.btree');
SELECT fpbtree_adopt('adopted.gist_ltree_ops');
SELECT fpbtree_adopt(NULL);
SELECT fpbtree_adopt('ltree_ops', NULL);
SELECT fpbtree_adopt(VARIADIC NULL);
\set VERBOSITY sqlstate
SELECT fpbtree_adopt('nonesuch_ops');
SELECT fpbtree_adopt('a.b.c');
SELECT fpbtree_adopt('');
SELECT fpbtree_adopt('a b');
SELECT fpbtree_adopt(NULL);
\set VERBOSITY default
CREATE ROLE regress_adopt CREATEROLE;
GRANT CREATE ON SCHEMA adopted TO regress_adopt;
SET ROLE regress_adopt;
SELECT fpbtree_adopt('ltree_ops');
SELECT fpbtree_adopt();
SELECT fpbtree_mirror(oid) FROM pg_opfamily WHERE opfname = 'ltree_ops';
RESET ROLE;
-- None of this did anything.
SELECT count(*) FROM adopted.family WHERE method = 'fpbtree' AND schema <> 'pg_catalog'::regnamespace;
-- By the names of classes and of families, in any number, with and without schema; whole families always.
SELECT * FROM fpbtree_adopt('citext_ops', '"Con ""trib".Citext_Pattern_ops', 'adopted.isbn_ops');
SELECT * FROM fpbtree_adopt('isn_ops', 'citext_ops', 'citext_ops');
-- All the rest.
SELECT * FROM fpbtree_adopt();
SELECT * FROM fpbtree_adopt();
SELECT * FROM adopted.difference;
SELECT c.opcname FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
 WHERE a.amname = 'fpbtree' AND c.opcname !~ '^(ean13|is[bsm]n|upc)' AND NOT amvalidate(c.oid);
-- Ordinary objects of whoever called, not the extension's: a dump has them.
SELECT count(*) FROM adopted.family f JOIN pg_depend d ON d.classid = 'pg_opfamily'::regclass AND d.objid = f.oid
 WHERE f.method = 'fpbtree' AND f.schema <> 'pg_catalog'::regnamespace AND d.deptype = 'e';
SELECT DISTINCT owner::regrole = current_user::regrole AS mine FROM adopted.family WHERE method = 'fpbtree';
-- A type of one's own, and a class that is not the default.
CREATE TYPE adopted.pound;
CREATE FUNCTION adopted.pound_in(cstring) RETURNS adopted.pound IMMUTABLE STRICT LANGUAGE internal AS 'int4in';
CREATE FUNCTION adopted.pound_out(adopted.pound) RETURNS cstring IMMUTABLE STRICT LANGUAGE internal AS 'int4out';
CREATE TYPE adopted.pound (INPUT = adopted.pound_in, OUTPUT = adopted.pound_out, LIKE = int4);
CREATE FUNCTION adopted.pound_lt(adopted.pound, adopted.pound) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4lt';
CREATE FUNCTION adopted.pound_le(adopted.pound, adopted.pound) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4le';
CREATE FUNCTION adopted.pound_eq(adopted.pound, adopted.pound) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4eq';
CREATE FUNCTION adopted.pound_ge(adopted.pound, adopted.pound) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4ge';
CREATE FUNCTION adopted.pound_gt(adopted.pound, adopted.pound) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS 'int4gt';
CREATE FUNCTION adopted.pound_cmp(adopted.pound, adopted.pound) RETURNS int IMMUTABLE STRICT LANGUAGE internal AS 'btint4cmp';
CREATE OPERATOR adopted.< (LEFTARG = adopted.pound, RIGHTARG = adopted.pound, FUNCTION = adopted.pound_lt, COMMUTATOR = OPERATOR(adopted.>));
CREATE OPERATOR adopted.<= (LEFTARG = adopted.pound, RIGHTARG = adopted.pound, FUNCTION = adopted.pound_le);
CREATE OPERATOR adopted.= (LEFTARG = adopted.pound, RIGHTARG = adopted.pound, FUNCTION = adopted.pound_eq, MERGES);
CREATE OPERATOR adopted.>= (LEFTARG = adopted.pound, RIGHTARG = adopted.pound, FUNCTION = adopted.pound_ge);
CREATE OPERATOR adopted.> (LEFTARG = adopted.pound, RIGHTARG = adopted.pound, FUNCTION = adopted.pound_gt);
SET search_path = adopted, public;
CREATE OPERATOR FAMILY "Pound's" USING btree;
CREATE OPERATOR CLASS pound_ops DEFAULT FOR TYPE pound USING btree FAMILY "Pound's" AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 pound_cmp(pound, pound);
-- Another class for the same type, in another schema, without members of its own; a family without any class.
CREATE OPERATOR CLASS public.pound2_ops FOR TYPE pound USING btree FAMILY "Pound's" AS STORAGE pound;
CREATE OPERATOR FAMILY bare_ops USING btree;
CREATE OPERATOR CLASS int4_backwards FOR TYPE int4 USING btree FAMILY bare_ops AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4);
SELECT * FROM fpbtree_adopt('pound2_ops');
SELECT * FROM fpbtree_adopt();
-- Families that grow: by operators and functions, about one type or two, and by classes.
ALTER OPERATOR FAMILY bare_ops USING btree ADD
  OPERATOR 1 < (int4, int8), OPERATOR 2 <= (int4, int8), OPERATOR 3 = (int4, int8), OPERATOR 4 >= (int4, int8), OPERATOR 5 > (int4, int8),
  FUNCTION 1 (int4, int8) btint48cmp(int4, int8), FUNCTION 2 (int4, int4) btint4sortsupport(internal),
  OPERATOR 1 < (int2, int2), OPERATOR 2 <= (int2, int2), OPERATOR 3 = (int2, int2), OPERATOR 4 >= (int2, int2), OPERATOR 5 > (int2, int2),
  FUNCTION 1 (int2, int2) btint2cmp(int2, int2);
SELECT member FROM pg_opfamily f, fpbtree_missing_members(f.oid) WHERE opfname = 'bare_ops' AND opfmethod = 403 ORDER BY member COLLATE "C";
SELECT * FROM fpbtree_adopt('bare_ops');
CREATE OPERATOR CLASS int2_again FOR TYPE int2 USING btree FAMILY bare_ops AS STORAGE int2;
CREATE OPERATOR CLASS int8_again FOR TYPE int8 USING btree FAMILY bare_ops AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(int8, int8), FUNCTION 4 btequalimage(oid);
SELECT * FROM fpbtree_adopt('int2_again');
-- One of the server's own, grown by a user.
ALTER OPERATOR FAMILY bool_ops USING btree ADD OPERATOR 3 = (int4, int4);
SELECT * FROM fpbtree_adopt();
SELECT * FROM adopted.difference;
ALTER OPERATOR FAMILY bool_ops USING btree DROP OPERATOR 3 (int4, int4);
ALTER OPERATOR FAMILY bool_ops USING fpbtree DROP OPERATOR 3 (int4, int4);
-- They can be used.
CREATE TABLE used AS SELECT i AS v FROM generate_series(1, 2000) i;
CREATE INDEX used_v ON used USING fpbtree (v int4_backwards);
ANALYZE used;
EXPLAIN (COSTS OFF) SELECT v FROM used WHERE v = 77::int8 OR v = 78;
SELECT v FROM used WHERE v = 77::int8 OR v = 78;
SELECT pg_get_indexdef('used_v'::regclass);
-- Two families of one name.
CREATE OPERATOR CLASS public.pound_ops FOR TYPE int8 USING btree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(int8, int8);
SELECT fpbtree_adopt('pound_ops');
SELECT * FROM fpbtree_adopt('public.pound_ops');
-- A search path set to mislead, temporary tables too.
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.less(int4, int4) RETURNS bool IMMUTABLE LANGUAGE sql AS 'SELECT $1 OPERATOR(pg_catalog.>) $2';
CREATE OPERATOR hostile.< (LEFTARG = int4, RIGHTARG = int4, FUNCTION = hostile.less);
CREATE FUNCTION hostile.trap(oid, oid) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped'; END $$;
CREATE FUNCTION hostile.format(text, VARIADIC "any") RETURNS text LANGUAGE internal AS 'pg_backend_pid';
CREATE OPERATOR hostile.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = hostile.trap);
CREATE TEMP TABLE pg_opfamily AS SELECT * FROM pg_catalog.pg_opfamily WHERE false;
CREATE TABLE hostile.pg_am AS SELECT 0::oid AS oid, 'fpbtree'::name AS amname;
CREATE DOMAIN hostile.text AS pg_catalog.text CHECK (false);
CREATE OPERATOR CLASS public.int4_path FOR TYPE int4 USING btree AS OPERATOR 1 pg_catalog.<, OPERATOR 2 <=, OPERATOR 3 =,
  OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int4, int4);
SET search_path = hostile, pg_temp, pg_catalog;
SELECT pg_catalog.count(a.*) FROM public.fpbtree_adopt() a;
RESET search_path;
SELECT * FROM adopted.difference;
DROP TABLE pg_temp.pg_opfamily;
-- In a subtransaction that fails, and in a read-only transaction.
CREATE OPERATOR CLASS adopted.int4_late FOR TYPE int4 USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
  FUNCTION 1 btint4cmp(int4, int4);
BEGIN;
SAVEPOINT s;
SELECT * FROM fpbtree_adopt();
ROLLBACK TO s;
SELECT * FROM fpbtree_adopt('int4_late');
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM fpbtree_adopt('int4_late');
ROLLBACK;
-- The original cannot be dropped from under its copy alone; with it, it can.
\set VERBOSITY terse
DROP EXTENSION seg;
\set VERBOSITY default
DROP EXTENSION seg CASCADE;
DROP EXTENSION citext CASCADE;
-- Of a copy that leaves its family, empty, as it would be with a class dropped by itself.
SELECT name, (SELECT count(*) FROM adopted.member m WHERE m.method = f.method AND m.name = f.name) AS members FROM adopted.family f WHERE name ~ '^(seg|citext)' ORDER BY name;
CREATE EXTENSION seg SCHEMA adopted;
SELECT * FROM fpbtree_adopt();
SELECT * FROM adopted.difference;
DROP SCHEMA adopted, hostile, "Con ""trib" CASCADE;
DROP OPERATOR FAMILY public.pound_ops USING btree;
DROP OPERATOR FAMILY public.pound_ops USING fpbtree;
DROP OPERATOR FAMILY public.int4_path USING btree;
DROP OPERATOR FAMILY public.int4_path USING fpbtree;
DROP ROLE regress_adopt;
SELECT * FROM fpbtree_adopt();
