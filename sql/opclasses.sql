-- The operator families of pg_catalog are btree's own, class by class and member by member: half a
-- family would make the planner reason wrongly about btree's too.
CREATE VIEW family AS
  SELECT f.oid, a.amname AS method, f.opfname AS name
    FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod
   WHERE a.amname IN ('btree', 'fpbtree') AND f.opfnamespace = 'pg_catalog'::regnamespace;
CREATE VIEW member AS
  SELECT f.method, 'class' AS kind, f.name AS family, c.opcintype::regtype AS lefttype, c.opckeytype::regtype AS righttype, NULL::int AS number,
         format('%s.%s%s', c.opcnamespace::regnamespace, c.opcname, CASE WHEN c.opcdefault THEN ' default' END) AS object
    FROM family f JOIN pg_opclass c ON c.opcfamily = f.oid
UNION ALL
  SELECT f.method, 'operator', f.name, o.amoplefttype, o.amoprighttype, o.amopstrategy,
         format('%s %s %s', o.amopopr::regoperator, o.amoppurpose, o.amopsortfamily)
    FROM family f JOIN pg_amop o ON o.amopfamily = f.oid
UNION ALL
  SELECT f.method, 'function', f.name, p.amproclefttype, p.amprocrighttype, p.amprocnum, p.amproc::oid::regprocedure::text
    FROM family f JOIN pg_amproc p ON p.amprocfamily = f.oid;
-- What one method has and the other lacks.
SELECT 'btree only' AS which, * FROM (SELECT name FROM family WHERE method = 'btree' EXCEPT SELECT name FROM family WHERE method = 'fpbtree') d
UNION ALL
SELECT 'fpbtree only', * FROM (SELECT name FROM family WHERE method = 'fpbtree' EXCEPT SELECT name FROM family WHERE method = 'btree') d;
SELECT 'btree only' AS which, * FROM (SELECT kind, family, lefttype, righttype, number, object FROM member WHERE method = 'btree'
  EXCEPT ALL SELECT kind, family, lefttype, righttype, number, object FROM member WHERE method = 'fpbtree') d
UNION ALL
SELECT 'fpbtree only', * FROM (SELECT kind, family, lefttype, righttype, number, object FROM member WHERE method = 'fpbtree'
  EXCEPT ALL SELECT kind, family, lefttype, righttype, number, object FROM member WHERE method = 'btree') d;
-- It has many, among them what was never put into a list here. (18 has skip support, number 6.)
SELECT kind, count(*) >= CASE kind WHEN 'class' THEN 44 WHEN 'operator' THEN 285 ELSE 121 END AS many
  FROM member WHERE method = 'fpbtree' GROUP BY kind ORDER BY kind;
SELECT object, lefttype, righttype FROM member WHERE method = 'fpbtree' AND kind = 'class'
   AND object ~ '\.(text|varchar|text_pattern|varchar_pattern|bpchar_pattern|name|jsonb|array|range|record_image)_ops' ORDER BY object COLLATE "C";
SELECT count(*) > 0 AS skip_support FROM member WHERE method = 'fpbtree' AND number = 6 AND kind = 'function'
HAVING (count(*) > 0) <> (current_setting('server_version_num')::int >= 180000);
-- Each is what btree would accept.
SELECT c.opcname FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod WHERE a.amname = 'fpbtree' AND NOT amvalidate(c.oid);
-- Nor is there anything to adopt.
SELECT * FROM fpbtree_adopt();
SELECT f.name, m.member FROM family f, fpbtree_missing_members(f.oid) m WHERE f.method = 'btree';
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
-- A broken class is told so, as btree tells it.
CREATE OPERATOR CLASS broken_ops FOR TYPE int4 USING fpbtree AS OPERATOR 1 <, OPERATOR 3 =, FUNCTION 1 btint4cmp(int4, int4);
CREATE OPERATOR CLASS orderless_ops FOR TYPE int4 USING fpbtree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >;
CREATE OPERATOR CLASS signature_ops FOR TYPE int4 USING fpbtree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
  FUNCTION 1 btint4cmp(int4, int4), FUNCTION 2 (int4, int4) btint8sortsupport(internal), FUNCTION 1 (int4, int8) btint4cmp(int4, int4);
SELECT opcname, amvalidate(oid) FROM pg_opclass WHERE opcname IN ('broken_ops', 'orderless_ops', 'signature_ops') ORDER BY opcname;
DROP OPERATOR FAMILY broken_ops USING fpbtree;
DROP OPERATOR FAMILY orderless_ops USING fpbtree;
DROP OPERATOR FAMILY signature_ops USING fpbtree;
-- A strategy or a support function that btree does not have is not taken.
CREATE OPERATOR CLASS strange_ops FOR TYPE int4 USING fpbtree AS OPERATOR 6 <;
CREATE OPERATOR CLASS strange_ops FOR TYPE int4 USING fpbtree AS FUNCTION 7 btint4cmp(int4, int4);
-- A class that stores another type than its own is no use: it is told by amvalidate, and refused by CREATE INDEX.
CREATE OPERATOR CLASS stored_ops FOR TYPE int8 USING fpbtree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint8cmp(int8, int8), STORAGE text;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'stored_ops';
CREATE TABLE stored (v int8);
INSERT INTO stored VALUES (1), (NULL), (2);
CREATE INDEX ON stored USING fpbtree (v stored_ops);
CREATE UNLOGGED TABLE stored_unlogged (v int8);
CREATE INDEX ON stored_unlogged USING fpbtree (v stored_ops);
DROP TABLE stored, stored_unlogged;
DROP OPERATOR FAMILY stored_ops USING fpbtree;
-- Names are the exception, with their own function.
CREATE OPERATOR CLASS short_name_ops FOR TYPE name USING fpbtree AS
  OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btnamecmp(name, name), STORAGE cstring;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'short_name_ops';
DROP OPERATOR FAMILY short_name_ops USING fpbtree;
-- The method depends on what it should: it cannot be dropped from under its indexes.
DROP INDEX property_btree;
SELECT count(*) FROM pg_depend d JOIN pg_am a ON a.oid = d.objid WHERE d.classid = 'pg_am'::regclass AND a.amname = 'fpbtree' AND d.deptype = 'e';
DROP TABLE property;
DROP VIEW member, family;
