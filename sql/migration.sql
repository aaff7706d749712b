-- fpbtree_migration(): indexes moved from btree to fpbtree and back. What they have to be like afterwards is made by hand:
-- "twin" has the same indexes, created with fpbtree, and "origin" those that were there before.
-- Needs: citext
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
\set SHOW_CONTEXT never
LOAD 'fpbtree';
SET fpbtree.unique_index = 'silent';
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_fpbtree_place LOCATION '';
CREATE EXTENSION citext;
CREATE SCHEMA moved;
CREATE SCHEMA twin;
CREATE SCHEMA origin;
CREATE SCHEMA "Parts of";
-- A plain index: all that is done.
CREATE TABLE plain (id int, v int);
INSERT INTO plain SELECT i, i % 10 FROM generate_series(1, 100) i;
CREATE INDEX plain_v ON plain (v);
SELECT fpbtree_migration('plain_v') \gexec
SELECT pg_get_indexdef('plain_v'::regclass), (SELECT count(*) FROM pg_index WHERE indrelid = 'plain'::regclass);
SELECT fpbtree_migration('plain_v', 'btree') \gexec
SELECT pg_get_indexdef('plain_v'::regclass), (SELECT count(*) FROM pg_index WHERE indrelid = 'plain'::regclass);
SHOW lock_timeout;
-- Locks are waited for as long as the session says, or else briefly.
SELECT fpbtree_migration_block($$RAISE WARNING '%', current_setting('lock_timeout');$$) \gexec
SET lock_timeout = '7min';
SELECT fpbtree_migration_block($$RAISE WARNING '%', current_setting('lock_timeout');$$) \gexec
RESET lock_timeout;
SELECT count(*) FROM fpbtree_migration(NULL);
SELECT count(*) FROM fpbtree_migration('plain_v', NULL);
-- Indexes of every kind; {s} is the schema, {m} the method. One name has 63 bytes, and so has the next, but for the last.
CREATE TABLE statement (n serial, template text);
INSERT INTO statement (template) VALUES
('CREATE TABLE {s}.t (id int NOT NULL, n int, a int, b text, c varchar COLLATE "POSIX")'),
('INSERT INTO {s}.t SELECT i, nullif(i % 300, 0), i % 7, md5(i::text), CASE WHEN i % 3 > 0 THEN ''c '' || i % 50 END FROM generate_series(1, 299) i'),
('CREATE INDEX plain ON {s}.t USING {m} (a)'),
('CREATE INDEX "Mixed "" Case USING btree (a" ON {s}.t USING {m} (a, id)'),
('CREATE INDEX " ON ONLY t USING fpbtree (id) WITH (fillfactor=10)" ON {s}.t USING {m} (id)'),
($$CREATE INDEX "it's $migration$ \ %s %I %% ü" ON {s}.t USING {m} (n)$$),
('CREATE INDEX üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüx ON {s}.t USING {m} (n, a)'),
('CREATE INDEX üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüy ON {s}.t USING {m} (n, a)'),
('CREATE UNIQUE INDEX uniquely ON {s}.t USING {m} (id)'),
('CREATE UNIQUE INDEX nulls ON {s}.t USING {m} (n, id) NULLS NOT DISTINCT'),
('CREATE UNIQUE INDEX including ON {s}.t USING {m} (id) INCLUDE (b, c) WITH (fillfactor = 50)'),
('CREATE INDEX partial ON {s}.t USING {m} (a) WITH (fillfactor = 100) TABLESPACE regress_fpbtree_place WHERE b > '' WITH (fillfactor=20) TABLESPACE x WHERE '' AND n IS NOT NULL'),
('CREATE INDEX expressions ON {s}.t USING {m} (a, (n % 5), lower(b), (b || '' USING btree (b)'') COLLATE "C")'),
('CREATE INDEX directions ON {s}.t USING {m} (a DESC, b NULLS FIRST, c DESC NULLS LAST)'),
('CREATE INDEX collations ON {s}.t USING {m} (b COLLATE "C", c COLLATE "default")'),
('CREATE INDEX classes ON {s}.t USING {m} (b text_pattern_ops, c varchar_pattern_ops DESC)'),
('CREATE INDEX parameters ON {s}.t USING {m} (n) WITH (deduplicate_items = off, fillfactor = 70)'),
('CREATE INDEX placed ON {s}.t USING {m} (n) TABLESPACE regress_fpbtree_place'),
('CREATE INDEX citizen ON {s}.t USING {m} ((b::citext))'),
('CREATE MATERIALIZED VIEW {s}.view AS SELECT id, a FROM {s}.t'),
('CREATE INDEX view_a ON {s}.view USING {m} (a)'),
-- What they have beside.
($$COMMENT ON INDEX {s}.plain IS 'it''s \ "the" $migration$ comment'$$),
('ALTER INDEX {s}.expressions ALTER COLUMN 2 SET STATISTICS 77, ALTER COLUMN 4 SET STATISTICS 0'),
('ALTER INDEX {s}.plain DEPENDS ON EXTENSION citext'),
('ALTER INDEX {s}.plain DEPENDS ON EXTENSION plpgsql'),
('ALTER TABLE {s}.t CLUSTER ON directions'),
('ALTER MATERIALIZED VIEW {s}.view CLUSTER ON view_a');
CREATE FUNCTION run(schema text, method text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  statement text;
BEGIN
  FOR statement IN SELECT replace(replace(template, '{s}', schema), '{m}', method) FROM statement ORDER BY n LOOP
    EXECUTE statement;
  END LOOP;
END $$;
SELECT run('origin', 'btree'), run('moved', 'btree') \g /dev/null
SELECT FROM fpbtree_adopt('citext_ops') \g /dev/null
SELECT run('twin', 'fpbtree') \g /dev/null
-- All there is to know of a schema's indexes, if they are of one method.
CREATE FUNCTION state(of_schema text) RETURNS SETOF jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('name', c.relname, 'method', a.amname, 'definition', replace(pg_get_indexdef(c.oid), format(' ON %I.', of_schema), ' ON '),
           'comment', obj_description(c.oid, 'pg_class'), 'place', s.spcname, 'owner', c.relowner, 'valid', i.indisvalid, 'clustered', i.indisclustered,
           'statistics', (SELECT jsonb_agg(CASE WHEN attstattarget >= 0 THEN attstattarget END ORDER BY attnum) FROM pg_attribute WHERE attrelid = c.oid),
           'extensions', (SELECT jsonb_agg(refobjid::text ORDER BY refobjid) FROM pg_depend d WHERE (classid, objid, d.deptype) = ('pg_class'::regclass, c.oid, 'x')))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam LEFT JOIN pg_tablespace s ON s.oid = c.reltablespace
   WHERE c.relnamespace = of_schema::regnamespace
$$;
CREATE FUNCTION differences(one text, other text) RETURNS TABLE (schema text, index jsonb) LANGUAGE sql AS $$
  (SELECT one, * FROM state(one) EXCEPT ALL SELECT one, * FROM state(other))
  UNION ALL
  (SELECT other, * FROM state(other) EXCEPT ALL SELECT other, * FROM state(one))
$$;
-- What queries answer by an index, whichever it is.
CREATE FUNCTION answers(schema text) RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(harness.answer(replace(query, '{s}', schema), way, false), ', ' ORDER BY n, way)
    FROM unnest('{index,indexonly,bitmap}'::text[]) way,
         unnest(ARRAY['SELECT id FROM {s}.t WHERE id BETWEEN 100 AND 200', 'SELECT id, c FROM {s}.t WHERE id < 50', 'SELECT * FROM {s}.t WHERE lower(b) > ''8'' AND a = 3', 'SELECT a FROM {s}.view WHERE a > 4',
                      'SELECT id FROM {s}.t WHERE b::citext < ''C''', 'SELECT id FROM {s}.t WHERE b ~>~ ''4'' AND c IS NULL', 'SELECT n FROM {s}.t WHERE n IS NULL OR n > 250']) WITH ORDINALITY q(query, n)
$$;
SELECT count(*), count(DISTINCT index ->> 'method') AS methods, bool_and((index ->> 'valid')::bool) AS valid FROM state('moved') index;
SELECT * FROM differences('moved', 'origin');
SELECT schema, count(*) FROM differences('moved', 'twin') GROUP BY schema ORDER BY schema;
SELECT answers('origin') AS answers \gset
-- There. What the session would have them placed at does not matter.
SET default_tablespace = regress_fpbtree_place;
SELECT * FROM fpbtree_migration('moved.partial') LIMIT 1;
SELECT * FROM fpbtree_migration('moved."it''s $migration$ \ %s %I %% ü"') LIMIT 1;
\set ECHO none
SELECT fpbtree_migration(oid) FROM pg_class WHERE relnamespace = 'moved'::regnamespace AND relkind = 'i' ORDER BY relname \gexec
\set ECHO all
RESET default_tablespace;
SELECT * FROM differences('moved', 'twin');
SELECT answers('moved') = :'answers' AS same;
SELECT harness.sound('moved', oid) FROM pg_class WHERE relnamespace = 'moved'::regnamespace AND relkind = 'i' \g /dev/null
-- The planner knows the expressions' values; of the last none are wanted.
SELECT attname, n_distinct FROM pg_stats WHERE schemaname = 'moved' AND tablename = 'expressions' ORDER BY attname;
-- And back.
\set ECHO none
SELECT fpbtree_migration(oid, 'btree') FROM pg_class WHERE relnamespace = 'moved'::regnamespace AND relkind = 'i' ORDER BY relname \gexec
\set ECHO all
SELECT * FROM differences('moved', 'origin');
SELECT answers('moved') = :'answers' AS same;
-- Parameters that btree does not have stay behind; an index in the database's own tablespace stays there.
CREATE INDEX plain_id ON plain USING fpbtree (id) WITH (prefetch = off, fillfactor = 60, hot_cache = off, deduplicate_items = 'on', prefetch_distance = 5);
\set ECHO none
SELECT fpbtree_migration('plain_id', 'btree') \gexec
\set ECHO all
CREATE INDEX plain_id_v ON plain USING fpbtree (id, v) WITH (prefetch = off) WHERE v > 3;
\set ECHO none
SELECT fpbtree_migration('plain_id_v', 'btree') \gexec
\set ECHO all
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'plain'::regclass ORDER BY 1;
-- Replica identity: moved with the index, except to fpbtree on 17, where it would be of no use to a subscriber.
CREATE TABLE identified (id int NOT NULL);
CREATE UNIQUE INDEX identified_id ON identified (id);
ALTER TABLE identified REPLICA IDENTITY USING INDEX identified_id;
CREATE FUNCTION is_17() RETURNS bool LANGUAGE sql AS $$ SELECT current_setting('server_version_num')::int BETWEEN 170000 AND 179999 $$;
CREATE FUNCTION identity() RETURNS TABLE (method name, indisreplident bool, indexes bigint) LANGUAGE sql AS $$
  SELECT amname, i.indisreplident, (SELECT count(*) FROM pg_index WHERE indrelid = 'identified'::regclass) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = relam WHERE c.relname = 'identified_id'
$$;
SELECT CASE WHEN is_17() THEN harness.outcome($$SELECT fpbtree_migration('identified_id')$$) ~ '^0A000 .*replica identity' ELSE true END AS as_stated;
\set ECHO none
SELECT fpbtree_migration('identified_id') WHERE NOT is_17() \gexec
\set ECHO all
SELECT method = CASE WHEN is_17() THEN 'btree' ELSE 'fpbtree' END AS as_stated, indisreplident, indexes FROM identity();
\set ECHO none
SELECT fpbtree_migration('identified_id', 'btree') WHERE NOT is_17() \gexec
\set ECHO all
SELECT * FROM identity();
-- Temporary tables, one of them hiding another table.
CREATE TEMP TABLE plain (id int, v int);
CREATE INDEX plain_v ON pg_temp.plain (v);
\set ECHO none
SELECT fpbtree_migration('pg_temp.plain_v') \gexec
\set ECHO all
SELECT pg_get_indexdef('pg_temp.plain_v'::regclass), pg_get_indexdef('public.plain_v'::regclass);
\set ECHO none
SELECT fpbtree_migration('pg_temp.plain_v', 'btree') \gexec
\set ECHO all
SELECT pg_get_indexdef('pg_temp.plain_v'::regclass), (SELECT count(*) FROM pg_index WHERE indrelid = 'pg_temp.plain'::regclass);
DROP TABLE pg_temp.plain;
-- Partitioned indexes. The partitions of one are in several schemas, under the same name, and have marks of their own.
CREATE TABLE p (id int NOT NULL, v text) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (100) TO (200) PARTITION BY LIST (v);
CREATE TABLE "Parts of".p_1 PARTITION OF p_2 FOR VALUES IN ('1');
CREATE TABLE "Parts of"."P 2" PARTITION OF p_2 DEFAULT;
INSERT INTO p SELECT i, i % 5 FROM generate_series(0, 199) i;
CREATE INDEX p_id ON p (id DESC, upper(v)) WITH (fillfactor = 80) WHERE id <> 7;
COMMENT ON INDEX p_id IS 'of all';
COMMENT ON INDEX p_2_id_upper_idx IS 'of some';
COMMENT ON INDEX "Parts of".p_1_id_upper_idx IS 'of one';
ALTER INDEX p_1_id_upper_idx ALTER COLUMN 2 SET STATISTICS 5;
CREATE FUNCTION tree(of_index regclass) RETURNS TABLE (level int, definition text, comment text, statistics int, valid bool) LANGUAGE sql AS $$
  SELECT p.level, pg_get_indexdef(relid), obj_description(relid, 'pg_class'), (SELECT max(attstattarget) FROM pg_attribute WHERE attrelid = relid AND attstattarget >= 0), indisvalid
    FROM pg_partition_tree(of_index) p JOIN pg_index ON indexrelid = relid ORDER BY 1, 2
$$;
CREATE TABLE tree_before AS SELECT * FROM tree('p_id');
SELECT * FROM tree_before;
SELECT fpbtree_migration('p_id') \gexec
SELECT level, replace(definition, 'USING fpbtree', 'USING btree'), comment, statistics, valid FROM tree('p_id') EXCEPT ALL SELECT * FROM tree_before;
SELECT count(*), count(*) FILTER (WHERE definition ~ 'USING fpbtree') AS moved FROM tree('p_id');
SELECT harness.sound('tree', relid) FROM pg_partition_tree('p_id') WHERE isleaf \g /dev/null
SELECT count(*) FROM pg_class WHERE relname ~ '^fpbtree_migration_';
INSERT INTO p VALUES (150, '1');
SELECT harness.answer('SELECT * FROM p WHERE id > 120 AND id <> 7', 'index', false) = harness.answer('SELECT * FROM p WHERE id > 120 AND id <> 7', 'seq', false) AS same;
-- A partition that comes while the others are built: nothing is moved, nothing left over, and it works the next time.
CREATE TABLE run (n serial, statement text);
INSERT INTO run (statement) SELECT fpbtree_migration('p_id', 'btree');
CREATE TABLE p_3 PARTITION OF p FOR VALUES FROM (200) TO (300);
\set ECHO none
SELECT statement FROM run ORDER BY n \gexec
\set ECHO all
SELECT count(*), count(*) FILTER (WHERE definition ~ 'USING fpbtree') AS moved, bool_and(valid) AS valid FROM tree('p_id');
SELECT count(*) FROM pg_class WHERE relname ~ '^fpbtree_migration_';
DROP TABLE p_3;
-- The old tree could not be dropped: the next call does nothing else.
TRUNCATE run RESTART IDENTITY;
INSERT INTO run (statement) SELECT fpbtree_migration('p_id', 'btree');
\set ECHO none
SELECT statement FROM run WHERE statement !~ 'DROP' ORDER BY n \gexec
\set ECHO all
SELECT * FROM tree('p_id') EXCEPT ALL SELECT * FROM tree_before;
SELECT count(*) FROM pg_class WHERE relname ~ '^fpbtree_migration_';
SELECT fpbtree_migration('p_id', 'btree') \gexec
SELECT count(*) FROM pg_class WHERE relname ~ '^fpbtree_migration_';
SELECT * FROM tree('p_id') EXCEPT ALL SELECT * FROM tree_before;
-- An index that has partitions cannot be moved without them, nor they without it, nor where foreign tables are among them.
SELECT fpbtree_migration('p_1_id_upper_idx');
CREATE FOREIGN DATA WRAPPER regress_fpbtree_wrapper;
CREATE SERVER regress_fpbtree_server FOREIGN DATA WRAPPER regress_fpbtree_wrapper;
CREATE FOREIGN TABLE p_foreign PARTITION OF p FOR VALUES FROM (300) TO (400) SERVER regress_fpbtree_server;
SELECT fpbtree_migration('p_id');
DROP FOREIGN DATA WRAPPER regress_fpbtree_wrapper CASCADE;
-- Unique ones are for 18.
CREATE UNIQUE INDEX p_unique ON p (id, v);
CREATE FUNCTION modern() RETURNS bool LANGUAGE sql AS $$ SELECT current_setting('server_version_num')::int >= 180000 $$;
SELECT CASE WHEN NOT modern() THEN harness.outcome($$SELECT fpbtree_migration('p_unique')$$) ~ '^0A000 .*unique' ELSE true END AS as_stated;
\set ECHO none
SELECT fpbtree_migration('p_unique') WHERE modern() \gexec
\set ECHO all
SELECT count(*), bool_and(valid) AS valid, bool_and(definition ~ 'UNIQUE') AS uniquely, bool_and(definition ~ 'USING fpbtree' = modern()) AS as_stated FROM tree('p_unique');
-- What is refused, and why.
CREATE TABLE target (id int PRIMARY KEY, u int UNIQUE, x int, f int, EXCLUDE USING fpbtree (x WITH =));
CREATE UNIQUE INDEX target_f ON target (f);
CREATE TABLE referring (f int REFERENCES target (f));
CREATE INDEX target_hash ON target USING hash (f);
CREATE VIEW a_view AS SELECT 1 AS v;
-- From 18 on, indexes of constraints and foreign keys move with them: see the test "constraints".
SELECT i, CASE WHEN modern() THEN left(harness.outcome(s), 2) = 'ok' ELSE harness.outcome(s) ~ expected END AS as_stated
  FROM (VALUES ('target_pkey', '^2BP01 .* belongs to constraint target_pkey$'), ('target_u_key', '^2BP01 .* belongs to constraint target_u_key$'), ('target_f', '^2BP01 foreign key referring_f_fkey .* depends on'))
         AS v(i, expected), format('SELECT fpbtree_migration(%L)', i) s;
SELECT fpbtree_migration('target_x_excl', 'btree');
SELECT fpbtree_migration('target_hash');
SELECT fpbtree_migration('target_hash', 'btree');
SELECT fpbtree_migration('target');
SELECT fpbtree_migration('a_view');
SELECT fpbtree_migration('no_such_index');
SELECT fpbtree_migration(4294967294);
SELECT fpbtree_migration('plain_v', 'hash');
SELECT fpbtree_migration('plain_v', 'nonesuch');
SELECT fpbtree_migration('plain_v', 'heap');
SELECT fpbtree_migration('plain_v', 'btree');
SELECT fpbtree_migration('moved.plain', 'btree');
SELECT fpbtree_migration('pg_class_oid_index');
SELECT fpbtree_migration('pg_class_relname_nsp_index');
SELECT harness.outcome(format('SELECT fpbtree_migration(%L)', indexrelid)) ~ '^42501 .*TOAST' AS toast
  FROM pg_index WHERE indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'moved.t'::regclass);
SELECT s, left(harness.outcome(format('SELECT fpbtree_migration(%L, %L)', s, CASE s WHEN 'target_x_excl' THEN 'btree' ELSE 'fpbtree' END)), 5) AS state
  FROM unnest('{target_x_excl,target_hash,target,p_1_id_upper_idx,pg_class_oid_index}'::text[]) s;
-- Without an operator class of its own, an index could quietly become one of another order.
DROP OPERATOR FAMILY citext_ops USING fpbtree CASCADE;
SELECT fpbtree_migration('moved.citizen');
SELECT count(*) > 0 AS adopted FROM fpbtree_adopt('public.citext_ops');
\set ECHO none
SELECT fpbtree_migration('moved.citizen') \gexec
\set ECHO all
SELECT pg_get_indexdef('moved.citizen'::regclass);
-- A name that is taken.
SELECT 'fpbtree_migration_' || md5('plain_v') AS temporary \gset
CREATE TABLE :temporary ();
SELECT fpbtree_migration('plain_v');
DROP TABLE :temporary;
CREATE INDEX :temporary ON target (f);
SELECT fpbtree_migration('plain_v');
SELECT fpbtree_migration('plain_v', 'btree');
DROP INDEX :temporary;
-- Only owners; and an owner needs no more than CREATE on the schema.
CREATE ROLE regress_fpbtree_owner;
SET ROLE regress_fpbtree_owner;
SELECT fpbtree_migration('plain_v');
SELECT fpbtree_migration('p_id');
RESET ROLE;
ALTER TABLE plain OWNER TO regress_fpbtree_owner;
GRANT CREATE ON SCHEMA public TO regress_fpbtree_owner;
SET ROLE regress_fpbtree_owner;
\set ECHO none
SELECT fpbtree_migration('plain_v') \gexec
SELECT pg_get_indexdef('plain_v'::regclass);
SELECT fpbtree_migration('plain_v', 'btree') \gexec
\set ECHO all
RESET ROLE;
SELECT pg_get_indexdef('plain_v'::regclass), relowner::regrole FROM pg_class WHERE oid = 'plain_v'::regclass;
-- An invalid index.
INSERT INTO plain VALUES (1, 1), (1, 1);
CREATE UNIQUE INDEX CONCURRENTLY plain_invalid ON plain (id);
SELECT fpbtree_migration('plain_invalid');
DROP INDEX plain_invalid;
-- What stands in the way of pg_catalog in the session's search path is not taken for it.
CREATE SCHEMA regress_fpbtree_trap;
CREATE FUNCTION regress_fpbtree_trap.lower(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'a' $$;
SET search_path = regress_fpbtree_trap, pg_catalog;
\set ECHO none
SELECT public.fpbtree_migration('moved.expressions') \gexec
SET search_path = '';
SELECT public.fpbtree_migration('moved.directions') \gexec
\set ECHO all
RESET search_path;
DROP SCHEMA regress_fpbtree_trap CASCADE;
SELECT index ->> 'definition' AS definition, index ->> 'valid' AS valid FROM state('moved') index WHERE index ->> 'name' ~ 'expressions|directions|migration_' ORDER BY 1;
-- Failures on the way. Keys that are too long for fpbtree:
CREATE TABLE long (v text COLLATE "C");
INSERT INTO long SELECT string_agg(md5(i::text), '') FROM generate_series(1, 70) i;
CREATE INDEX long_v ON long (v);
COMMENT ON INDEX long_v IS 'kept';
CREATE FUNCTION indexes(of_table regclass) RETURNS TABLE (name name, method name, valid bool, comment text) LANGUAGE sql AS $$
  SELECT c.relname, a.amname, indisvalid, obj_description(c.oid, 'pg_class') FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam WHERE indrelid = of_table ORDER BY c.relname
$$;
\set VERBOSITY sqlstate
\set ECHO none
SELECT fpbtree_migration('long_v') \gexec
\set ECHO all
\set VERBOSITY default
SELECT * FROM indexes('long');
-- an index on a function that fails by now, to btree, where validity is all that is looked at;
CREATE TABLE failing (v int);
INSERT INTO failing VALUES (1), (2);
CREATE FUNCTION fails(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE INDEX failing_v ON failing USING fpbtree (fails(v));
CREATE OR REPLACE FUNCTION fails(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 / ($1 - 2)';
\set VERBOSITY sqlstate
\set ECHO none
SELECT fpbtree_migration('failing_v', 'btree') \gexec
\set ECHO all
\set VERBOSITY default
SELECT * FROM indexes('failing');
-- damage found in what was built;
TRUNCATE run RESTART IDENTITY;
INSERT INTO run (statement) SELECT fpbtree_migration('plain_v');
CREATE FUNCTION damage(regclass) RETURNS SETOF text LANGUAGE sql AS $$ SELECT 'a problem' $$;
\set ECHO none
SELECT replace(statement, 'fpbtree_check', 'damage') FROM run ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
-- no check at all;
\set ECHO none
SELECT statement FROM run WHERE statement !~ 'fpbtree_check' ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
-- an index that has changed since: its definition,
ALTER INDEX plain_v SET (fillfactor = 55);
\set ECHO none
SELECT statement FROM run ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
-- its place,
ALTER INDEX plain_v RESET (fillfactor);
ALTER INDEX plain_v SET TABLESPACE regress_fpbtree_place;
\set ECHO none
SELECT statement FROM run ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
ALTER INDEX plain_v SET TABLESPACE pg_default;
-- its name;
ALTER INDEX plain_v RENAME TO plain_w;
\set ECHO none
SELECT statement FROM run ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
ALTER INDEX plain_w RENAME TO plain_v;
-- but what is only beside it is taken as it is at last.
\set ECHO none
SELECT statement FROM run WHERE n = 1 \gexec
\set ECHO all
COMMENT ON INDEX plain_v IS 'late';
\set ECHO none
SELECT statement FROM run WHERE n > 1 ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
-- Two calls at once: the second finds it done, and changes nothing.
TRUNCATE run RESTART IDENTITY;
INSERT INTO run (statement) SELECT fpbtree_migration('plain_v', 'btree');
\set ECHO none
SELECT statement FROM run ORDER BY n \gexec
SELECT statement FROM run ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
-- Runs cut short: an invalid index, a finished one, the old one left over. The next call begins with them, or is them.
INSERT INTO plain SELECT 7, 7 FROM generate_series(1, 2);
-- Sorts of other releases come to another key first.
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY :temporary ON plain (id);
\set VERBOSITY default
SELECT fpbtree_migration('plain_v') \gexec
SELECT * FROM indexes('plain');
TRUNCATE run RESTART IDENTITY;
INSERT INTO run (statement) SELECT fpbtree_migration('plain_v', 'btree');
\set ECHO none
SELECT statement FROM run WHERE n < 2 ORDER BY n \gexec
SELECT fpbtree_migration('plain_v', 'btree') \gexec
\set ECHO all
SELECT * FROM indexes('plain');
TRUNCATE run RESTART IDENTITY;
INSERT INTO run (statement) SELECT fpbtree_migration('plain_v');
\set ECHO none
SELECT statement FROM run WHERE n < 4 ORDER BY n \gexec
\set ECHO all
SELECT * FROM indexes('plain');
SELECT fpbtree_migration('plain_v') \gexec
SELECT * FROM indexes('plain');
SELECT fpbtree_migration('plain_v');
SELECT count(*) FROM pg_class WHERE relname ~ '^fpbtree_migration_';
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
\set ECHO none
SET client_min_messages = error;
DROP SCHEMA moved, twin, origin, "Parts of" CASCADE;
DROP TABLE plain, statement, run, identified, p, tree_before, referring, target, long, failing;
DROP VIEW a_view;
DROP FUNCTION run, state, differences, answers, is_17, identity, tree, modern, damage, indexes, fails;
DROP OPERATOR FAMILY citext_ops USING fpbtree CASCADE;
DROP EXTENSION citext CASCADE;
DROP TABLESPACE regress_fpbtree_place;
REVOKE CREATE ON SCHEMA public FROM regress_fpbtree_owner;
DROP ROLE regress_fpbtree_owner;
