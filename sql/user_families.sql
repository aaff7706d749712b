-- The extension comes to a database whose users have added a type of their own to a family of the server's: plans of btree
-- indexes stay what they were (18 compares the families that operators are in), and what is the users' stays theirs.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
CREATE DATABASE regress_user_families;
\c regress_user_families
\set types :srcdir '/sql/pound.inc'
\i :types
\i :members
\set ECHO all
SET max_parallel_workers_per_gather = 0;
CREATE TABLE a (id int4 PRIMARY KEY, v int4);
CREATE TABLE b (id int8 PRIMARY KEY, v int4);
CREATE TABLE c (id pound PRIMARY KEY, v int4);
INSERT INTO a SELECT i, i % 7 FROM generate_series(1, 5000) i;
INSERT INTO b SELECT i, i % 7 FROM generate_series(1, 5000) i;
INSERT INTO c SELECT i::text::pound, i % 7 FROM generate_series(1, 5000) i;
VACUUM ANALYZE a, b, c;
-- What follows from equalities, what is sorted and what is merged, between types and within each.
CREATE TABLE plan (n serial, query text, line text, at text);
CREATE FUNCTION explain(moment text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  wanted text;
  got text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY[
    'SELECT FROM a, b WHERE a.id = b.id AND b.id = 77',
    'SELECT FROM a, b, c WHERE a.id = b.id AND b.id = c.id AND c.id = ''77''',
    'SELECT FROM a, b, c WHERE a.id = c.id AND c.id = b.id AND a.id = 77',
    'SELECT FROM a, c WHERE a.id = c.id AND a.id = ''77''::pound',
    'SELECT FROM a, c WHERE a.id = c.id AND a.id < 100 ORDER BY c.id',
    'SELECT FROM a JOIN c ON a.id = c.id JOIN a d ON d.id = c.id ORDER BY d.id',
    'SELECT FROM a LEFT JOIN c ON c.id = a.id',
    'SELECT FROM a, (SELECT id FROM c GROUP BY id) g WHERE g.id = a.id AND a.id = 5'] LOOP
    FOR got IN EXECUTE 'EXPLAIN (COSTS OFF) ' || wanted LOOP
      INSERT INTO plan (query, line, at) VALUES (wanted, got, moment);
    END LOOP;
  END LOOP;
END $$;
CREATE VIEW changed AS
  SELECT query, string_agg(line, E'\n' ORDER BY n) FILTER (WHERE at = 'before') AS before, string_agg(line, E'\n' ORDER BY n) FILTER (WHERE at = 'after') AS after
    FROM plan GROUP BY query
  HAVING array_agg(line ORDER BY n) FILTER (WHERE at = 'before') IS DISTINCT FROM array_agg(line ORDER BY n) FILTER (WHERE at = 'after');
SET enable_hashjoin = off;
SELECT explain('before');
CREATE EXTENSION fpbtree;
SELECT explain('after');
SELECT * FROM changed;
-- As each operator is in a btree family it is in fpbtree's of that name: those that are equal for one are equal for the other.
CREATE VIEW differing AS
  SELECT f.opfname, o.amopstrategy, o.amopopr::regoperator FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am m ON m.oid = o.amopmethod
   WHERE m.amname IN ('btree', 'fpbtree') AND f.opfnamespace = 'pg_catalog'::regnamespace
   GROUP BY f.opfname, o.amopstrategy, o.amopopr HAVING count(*) <> 2;
SELECT * FROM differing;
-- What is added later makes a difference on 18, until it is adopted.
SELECT format('CREATE FUNCTION %s(int2, pound) RETURNS bool IMMUTABLE STRICT LANGUAGE internal AS %L', f, 'int24' || f) FROM unnest('{lt,le,eq,ge,gt}'::text[]) f \gexec
CREATE OPERATOR = (LEFTARG = int2, RIGHTARG = pound, FUNCTION = eq, MERGES, COMMUTATOR = =);
ALTER OPERATOR FAMILY integer_ops USING btree ADD OPERATOR 3 = (int2, pound);
SELECT * FROM differing;
SELECT * FROM fpbtree_adopt();
SELECT * FROM differing;
DELETE FROM plan WHERE at = 'after';
SELECT explain('after');
SELECT * FROM changed;
-- The users' class is theirs, and of the extension only what is the server's.
SELECT c.opcname, c.opcnamespace::regnamespace FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod
  JOIN pg_depend d ON d.classid = 'pg_opclass'::regclass AND d.objid = c.oid AND d.deptype = 'e'
 WHERE m.amname = 'fpbtree' AND c.opcnamespace <> 'pg_catalog'::regnamespace;
CREATE INDEX c_id ON c USING fpbtree (id);
SELECT count(*) FROM fpbtree_check('c_id', true);
DROP TABLE c;
DROP TYPE pound CASCADE;
SELECT extname FROM pg_extension WHERE extname = 'fpbtree';
SELECT * FROM differing;
CREATE INDEX a_v ON a USING fpbtree (v);
\c regression
DROP DATABASE regress_user_families;
