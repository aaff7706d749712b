-- The operator families are btree's own, member by member: half a family would make the planner
-- reason wrongly about btree's too.
CREATE VIEW family AS
  SELECT f.oid, a.amname AS method, f.opfname AS name
    FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod
   WHERE a.amname IN ('btree', 'fpbtree')
     AND f.opfname IN ('bool_ops', 'char_ops', 'integer_ops', 'oid_ops', 'float_ops', 'datetime_ops', 'time_ops', 'money_ops',
                       'uuid_ops', 'macaddr_ops', 'macaddr8_ops', 'pg_lsn_ops', 'xid8_ops');
CREATE VIEW operator AS
  SELECT f.method, f.name, o.amoplefttype::regtype AS lefttype, o.amoprighttype::regtype AS righttype,
         o.amopstrategy AS strategy, o.amoppurpose AS purpose, o.amopopr::regoperator AS operator, o.amopsortfamily
    FROM family f JOIN pg_amop o ON o.amopfamily = f.oid;
CREATE VIEW support AS
  SELECT f.method, f.name, p.amproclefttype::regtype AS lefttype, p.amprocrighttype::regtype AS righttype,
         p.amprocnum AS number, p.amproc::regprocedure AS function
    FROM family f JOIN pg_amproc p ON p.amprocfamily = f.oid;
SELECT name, count(*) FILTER (WHERE method = 'fpbtree') AS fpbtree, count(*) FILTER (WHERE method = 'btree') AS btree
  FROM family GROUP BY name ORDER BY name COLLATE "C";
-- Operators and support functions of one method that the other lacks. (18 has skip support, number 6.)
SELECT 'btree only' AS which, * FROM (SELECT name, lefttype, righttype, strategy, purpose, operator, amopsortfamily FROM operator WHERE method = 'btree'
  EXCEPT SELECT name, lefttype, righttype, strategy, purpose, operator, amopsortfamily FROM operator WHERE method = 'fpbtree') d
UNION ALL
SELECT 'fpbtree only', * FROM (SELECT name, lefttype, righttype, strategy, purpose, operator, amopsortfamily FROM operator WHERE method = 'fpbtree'
  EXCEPT SELECT name, lefttype, righttype, strategy, purpose, operator, amopsortfamily FROM operator WHERE method = 'btree') d;
SELECT 'btree only' AS which, * FROM (SELECT name, lefttype, righttype, number, function FROM support WHERE method = 'btree'
  EXCEPT SELECT name, lefttype, righttype, number, function FROM support WHERE method = 'fpbtree') d
UNION ALL
SELECT 'fpbtree only', * FROM (SELECT name, lefttype, righttype, number, function FROM support WHERE method = 'fpbtree'
  EXCEPT SELECT name, lefttype, righttype, number, function FROM support WHERE method = 'btree') d;
SELECT count(*) > 150 AS many FROM operator WHERE method = 'fpbtree';
-- The classes: for which type, and the default as btree has it.
SELECT c.opcname, c.opcintype::regtype AS type, c.opcdefault, f.name AS family, amvalidate(c.oid),
       EXISTS (SELECT FROM pg_opclass b JOIN pg_am m ON m.oid = b.opcmethod
                WHERE m.amname = 'btree' AND (b.opcname, b.opcintype, b.opcdefault, b.opckeytype) = (c.opcname, c.opcintype, c.opcdefault, 0)) AS as_btree
  FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod LEFT JOIN family f ON f.oid = c.opcfamily
 WHERE a.amname = 'fpbtree' ORDER BY c.opcname COLLATE "C";
-- What the method says it can do.
SELECT p AS property, pg_indexam_has_property(a.oid, p) AS fpbtree
  FROM pg_am a, unnest('{can_order,can_unique,can_multi_col,can_exclude,can_include}'::text[]) WITH ORDINALITY u(p, n)
 WHERE amname = 'fpbtree' ORDER BY n;
CREATE TABLE property (v int, w float8, f float4);
CREATE INDEX property_idx ON property USING fpbtree (v DESC NULLS LAST);
CREATE INDEX property_btree ON property (v DESC NULLS LAST);
SELECT p AS property, pg_index_has_property('property_idx', p) AS fpbtree, pg_index_has_property('property_btree', p) AS btree
  FROM unnest('{clusterable,index_scan,bitmap_scan,backward_scan}'::text[]) WITH ORDINALITY u(p, n) ORDER BY n;
SELECT p AS property, pg_index_column_has_property('property_idx', 1, p) AS fpbtree, pg_index_column_has_property('property_btree', 1, p) AS btree
  FROM unnest('{asc,desc,nulls_first,nulls_last,orderable,distance_orderable,returnable,search_array,search_nulls}'::text[]) WITH ORDINALITY u(p, n) ORDER BY n;
-- A broken class is told so.
CREATE OPERATOR CLASS broken_ops FOR TYPE int4 USING fpbtree AS OPERATOR 1 <, OPERATOR 3 =, FUNCTION 1 btint4cmp(int4, int4);
SET client_min_messages = error;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'broken_ops';
RESET client_min_messages;
DROP OPERATOR CLASS broken_ops USING fpbtree CASCADE;
-- The method depends on what it should: it cannot be dropped from under its indexes.
DROP INDEX property_btree;
SELECT count(*) FROM pg_depend d JOIN pg_am a ON a.oid = d.objid WHERE d.classid = 'pg_am'::regclass AND a.amname = 'fpbtree' AND d.deptype = 'e';
DROP TABLE property;
DROP VIEW operator, support, family;
