-- PRIMARY KEY and UNIQUE constraints on fpbtree indexes: the same statements in three schemas, "ours" with
-- (method = fpbtree), "silent" with nothing said and fpbtree.constraints on, "theirs" with (method = btree), which is the
-- oracle: all is like there, but for the method.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
\set SHOW_CONTEXT never
LOAD 'fpbtree';
SELECT current_setting('server_version_num')::int >= 180000 AS modern \gset
\if :modern
\else
-- Before 18 they cannot be had.
CREATE TABLE refused (id int PRIMARY KEY WITH (method = fpbtree));
CREATE TABLE plain (id int, v int UNIQUE WITH (method = btree, fillfactor = 70));
ALTER TABLE plain ADD CONSTRAINT refused UNIQUE (id) INCLUDE (v) WITH (fillfactor = 70, method = 'fpbtree');
ALTER TABLE plain ADD PRIMARY KEY (id) WITH (method = hash);
ALTER TABLE plain ADD COLUMN w int UNIQUE WITH (method = fpbtree);
CREATE UNIQUE INDEX plain_id ON plain USING fpbtree (id) WITH (method = fpbtree);
CREATE UNIQUE INDEX plain_id_b ON plain (id);
ALTER TABLE plain ADD PRIMARY KEY USING INDEX plain_id;
SELECT fpbtree_exchange('plain_id_b', 'plain_id');
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'plain'::regclass ORDER BY 1;
DROP TABLE plain;
\quit
\endif
CREATE TABLE statement (n serial, template text);
-- {w} is the method, as storage parameters; {p} one of more of these; {m} the method of CREATE INDEX.
INSERT INTO statement (template) VALUES
('CREATE TABLE a (id int PRIMARY KEY{w}, e text UNIQUE{w}, n int, m int, UNIQUE NULLS NOT DISTINCT (n){w}, CONSTRAINT am UNIQUE (m) INCLUDE (e) WITH ({p}fillfactor = 70),
                  CONSTRAINT ad UNIQUE (id, m){w} DEFERRABLE INITIALLY DEFERRED, CONSTRAINT ai UNIQUE (m, id){w} DEFERRABLE)'),
('INSERT INTO a SELECT i, ''e'' || i, i, i FROM generate_series(1, 500) i'),
('INSERT INTO a VALUES (7, ''x'', -1, -1)'),
('INSERT INTO a VALUES (NULL, ''x'', -1, -1)'),
('INSERT INTO a VALUES (-1, ''e7'', -1, -1)'),
('INSERT INTO a VALUES (-1, ''x'', 7, -1)'),
('INSERT INTO a VALUES (-1, ''x'', -1, 7)'),
('INSERT INTO a VALUES (-1, NULL, NULL, NULL)'),
('INSERT INTO a VALUES (-2, NULL, NULL, NULL)'),
('INSERT INTO a VALUES (-2, NULL, -2, NULL)'),
('UPDATE a SET id = id + 1 WHERE id = 3'),
('UPDATE a SET id = id + 1000, e = e || ''!'' WHERE id BETWEEN 100 AND 200'),
('INSERT INTO a VALUES (7, ''x'', 8, -1) ON CONFLICT DO NOTHING'),
('INSERT INTO a VALUES (7, ''x'', 8, -1), (-7, ''x'', -8, -1) ON CONFLICT (id) DO UPDATE SET n = -excluded.n RETURNING *'),
('INSERT INTO a VALUES (-9, ''x9'', -9, 9) ON CONFLICT ON CONSTRAINT am DO UPDATE SET n = -99'),
('INSERT INTO a VALUES (-9, ''x9'', NULL, 99) ON CONFLICT (n) DO UPDATE SET n = -98'),
('INSERT INTO a VALUES (-9, ''x9'', NULL, 99) ON CONFLICT (id, m) DO NOTHING'),
('INSERT INTO a VALUES (-9, ''x9'', NULL, 99) ON CONFLICT ON CONSTRAINT ad DO NOTHING'),
('INSERT INTO a VALUES (-9, ''x9'', NULL, 99) ON CONFLICT (m, n) DO NOTHING'),
('MERGE INTO a USING (VALUES (11, 1100), (-11, 1101)) s(id, m) ON a.id = s.id WHEN MATCHED THEN UPDATE SET m = s.m WHEN NOT MATCHED THEN INSERT (id, m) VALUES (s.id, s.m)'),
-- Deferred: looked at when the transaction, or the statement, ends.
('UPDATE a SET m = m + 1 WHERE m BETWEEN 20 AND 30'),
('ALTER TABLE a DROP CONSTRAINT am'),
('UPDATE a SET m = m + 1 WHERE m BETWEEN 20 AND 30'),
('SET CONSTRAINTS ai DEFERRED; UPDATE a SET m = 20, id = -id WHERE id = 21; UPDATE a SET id = -id WHERE id = -21'),
('UPDATE a SET (id, m) = (-77, 40) WHERE id = 41; UPDATE a SET (id, m) = (40, 40) WHERE id = -77'),
('SET CONSTRAINTS ALL DEFERRED; ALTER TABLE a DROP CONSTRAINT a_pkey; INSERT INTO a VALUES (50, NULL, -50, 50); SET CONSTRAINTS ALL IMMEDIATE'),
-- Foreign keys.
('CREATE TABLE f (a int REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE, e text REFERENCES a (e) ON DELETE SET NULL, n int REFERENCES a (n) DEFERRABLE INITIALLY DEFERRED)'),
('CREATE TABLE f_of_deferrable (a int, m int, FOREIGN KEY (a, m) REFERENCES a (id, m))'),
('INSERT INTO f SELECT id, e, n FROM a WHERE id BETWEEN 60 AND 70'),
('INSERT INTO f VALUES (-12345, NULL, NULL)'),
('INSERT INTO f VALUES (NULL, ''nobody'', NULL)'),
('INSERT INTO f VALUES (NULL, NULL, -12345); SET CONSTRAINTS ALL IMMEDIATE'),
('DELETE FROM a WHERE id IN (61, 62); SET CONSTRAINTS ALL IMMEDIATE'),
('UPDATE a SET n = n - 1000 WHERE id = 63; SET CONSTRAINTS ALL IMMEDIATE'),
('UPDATE f SET n = NULL WHERE a < 66'),
('DELETE FROM a WHERE id IN (61, 62)'),
('UPDATE a SET id = -63, e = NULL WHERE id = 63'),
('UPDATE f SET e = NULL; UPDATE a SET id = -63, e = NULL WHERE id = 63'),
('ALTER TABLE a DROP CONSTRAINT a_pkey'),
('TRUNCATE a'),
-- What else goes by a key.
('CREATE VIEW v AS SELECT id, e, n, count(*) AS c FROM a GROUP BY id'),
('ALTER TABLE a DROP CONSTRAINT a_pkey CASCADE; ALTER TABLE nonesuch ADD PRIMARY KEY (id){w}'),
('ALTER TABLE IF EXISTS nonesuch ADD PRIMARY KEY (id){w}'),
('CREATE MATERIALIZED VIEW mv AS SELECT id, m FROM a; CREATE UNIQUE INDEX mv_id ON mv USING {m} (id)'),
('UPDATE a SET m = -m WHERE id > 1100; REFRESH MATERIALIZED VIEW CONCURRENTLY mv'),
('ALTER TABLE a REPLICA IDENTITY USING INDEX a_pkey'),
('ALTER TABLE a REPLICA IDENTITY USING INDEX ad'),
('CLUSTER a USING a_pkey'),
('REINDEX TABLE a'),
('COMMENT ON INDEX a_pkey IS ''of the index''; COMMENT ON CONSTRAINT a_pkey ON a IS ''of the constraint'''),
('ALTER TABLE a RENAME CONSTRAINT a_e_key TO "an ""E"""'),
('ALTER TABLE a SET UNLOGGED'),
('ALTER TABLE a SET LOGGED'),
('ALTER TABLE a ADD PRIMARY KEY (id){w}'),
('ALTER TABLE a ADD COLUMN again int PRIMARY KEY{w}'),
('ALTER TABLE a ADD COLUMN c text COLLATE "C" UNIQUE{w}, ADD UNIQUE (c, id) WITH ({p}deduplicate_items = off)'),
('ALTER TABLE a ADD COLUMN IF NOT EXISTS c text UNIQUE{w}'),
('ALTER TABLE a ADD UNIQUE (nonesuch){w}'),
('ALTER TABLE a ADD UNIQUE (id, id){w}'),
('ALTER TABLE a ADD CONSTRAINT ad UNIQUE (n){w}'),
('ALTER TABLE a ADD CONSTRAINT twice UNIQUE (m){w}'),
('UPDATE a SET c = ''c'' || id % 400'),
('UPDATE a SET c = ''c'' || id % 400 WHERE id > 0 AND id <= 400'),
-- Columns of other types: the constraints are made anew.
('ALTER TABLE a ALTER id TYPE bigint'),
('DROP VIEW v; DROP MATERIALIZED VIEW mv'),
('ALTER TABLE a ALTER id TYPE bigint'),
('ALTER TABLE a ALTER n TYPE numeric, ALTER m TYPE text USING ''m'' || m, ALTER e TYPE varchar(20)'),
('ALTER TABLE a ALTER n TYPE int USING 1'),
('ALTER TABLE a ALTER c TYPE text COLLATE "POSIX", DROP CONSTRAINT a_c_key'),
('ALTER TABLE a ALTER n TYPE int4range USING int4range(n::int, n::int + 1)'),
('ALTER TABLE a DROP CONSTRAINT a_c_id_key, ADD CONSTRAINT a_c_id_key UNIQUE (c, id, m) WITH ({p}fillfactor = 60), ALTER c TYPE bytea USING c::bytea'),
('INSERT INTO f VALUES (63, NULL, NULL)'),
('CREATE TABLE generated (a int, g int GENERATED ALWAYS AS (a * 2) STORED UNIQUE{w})'),
('INSERT INTO generated SELECT i FROM generate_series(1, 100) i'),
('ALTER TABLE generated ALTER g SET EXPRESSION AS (a * 3)'),
('ALTER TABLE generated ALTER g SET EXPRESSION AS (a / 3)'),
('CREATE TABLE heir (CONSTRAINT heir_key PRIMARY KEY (id){w}) INHERITS (generated, a)'),
('CREATE TABLE elder (id int, v int UNIQUE{w}); CREATE TABLE younger (CONSTRAINT younger_key PRIMARY KEY (id) WITH ({p}fillfactor = 50)) INHERITS (elder)'),
('INSERT INTO younger SELECT i, i FROM generate_series(1, 100) i'),
('ALTER TABLE elder ALTER id TYPE bigint'),
('ALTER TABLE ONLY elder ALTER id TYPE int'),
('INSERT INTO younger VALUES (5, 5)'),
-- Tables made in other ways.
('CREATE TABLE likeness (LIKE a INCLUDING ALL)'),
('CREATE TABLE half (LIKE a, PRIMARY KEY (id, m){w})'),
('CREATE TYPE composite AS (x int, y text)'),
('CREATE TABLE typed OF composite (PRIMARY KEY (x){w}, y WITH OPTIONS UNIQUE{w})'),
('CREATE UNLOGGED TABLE un (id int PRIMARY KEY{w})'),
('CREATE TABLE IF NOT EXISTS un (id int PRIMARY KEY{w})'),
('CREATE SCHEMA {s}_sub CREATE TABLE inside (id int PRIMARY KEY{w}, v int UNIQUE{w})'),
('CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS $f$ BEGIN FOR i IN 1..3 LOOP CREATE TEMP TABLE made (id int, PRIMARY KEY (id){w}); INSERT INTO made VALUES (i); DROP TABLE made; END LOOP; END $f$'),
('SELECT make()'),
('SELECT make()'),
('CREATE TABLE two (id int PRIMARY KEY{w}, v int PRIMARY KEY{w})'),
('CREATE TABLE two (id int, v point UNIQUE{w})'),
('CREATE TABLE two (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY{w}, v int, EXCLUDE (v WITH =))'),
('ALTER TABLE two ALTER v TYPE bigint'),
-- Partitions.
('CREATE TABLE p (id int, k text, PRIMARY KEY (id, k){w}, UNIQUE (k, id){w}) PARTITION BY LIST (k)'),
('CREATE TABLE p_a PARTITION OF p FOR VALUES IN (''a'')'),
('CREATE TABLE p_b (k text, id int, CONSTRAINT p_b_key PRIMARY KEY (id, k){w})'),
('ALTER TABLE p ATTACH PARTITION p_b FOR VALUES IN (''b'')'),
('CREATE TABLE p_c PARTITION OF p (UNIQUE (id){w}) FOR VALUES IN (''c'') PARTITION BY HASH (k)'),
('CREATE TABLE p_c PARTITION OF p (UNIQUE (id, k){w}) FOR VALUES IN (''c'') PARTITION BY HASH (id); DROP TABLE p_c'),
('CREATE TABLE p_c PARTITION OF p FOR VALUES IN (''c'') PARTITION BY HASH (id)'),
('CREATE TABLE p_c0 PARTITION OF p_c FOR VALUES WITH (MODULUS 1, REMAINDER 0)'),
('INSERT INTO p SELECT i, substr(''abc'', i % 3 + 1, 1) FROM generate_series(1, 300) i'),
('INSERT INTO p VALUES (3, ''a'')'),
('INSERT INTO p VALUES (3, ''a''), (1, ''a'') ON CONFLICT (k, id) DO UPDATE SET id = -excluded.id'),
('CREATE TABLE of_p (id int, k text, FOREIGN KEY (id, k) REFERENCES p)'),
('INSERT INTO of_p VALUES (1, ''b'')'),
('INSERT INTO of_p VALUES (1, ''c'')'),
('UPDATE p SET k = ''c'' WHERE id = 1'),
('ALTER TABLE p DETACH PARTITION p_a'),
('ALTER TABLE p ATTACH PARTITION p_a FOR VALUES IN (''a'')'),
('ALTER TABLE ONLY p ADD CONSTRAINT p_unique UNIQUE (id, k){w}'),
('ALTER TABLE p_a ALTER id TYPE bigint'),
('DROP TABLE p_b'),
-- Indexes that are there already.
('CREATE TABLE u (id int, v int, w text, x int, y int)'),
('INSERT INTO u SELECT i, i, i, i, i FROM generate_series(1, 100) i'),
('CREATE UNIQUE INDEX u_id ON u USING {m} (id) WITH (fillfactor = 70); CREATE UNIQUE INDEX u_v ON u USING {m} (v, w) INCLUDE (x); CREATE UNIQUE INDEX u_null ON u USING {m} (y) NULLS NOT DISTINCT; CREATE INDEX u_no ON u USING {m} (v)'),
('CREATE UNIQUE INDEX u_desc ON u USING {m} (id, v DESC); CREATE UNIQUE INDEX u_part ON u USING {m} (id) WHERE v > 0; CREATE UNIQUE INDEX u_expr ON u USING {m} ((id + 1)); CREATE UNIQUE INDEX u_coll ON u USING {m} (w COLLATE "POSIX"); CREATE UNIQUE INDEX u_class ON u USING {m} (w text_pattern_ops)'),
('ALTER TABLE u ADD PRIMARY KEY USING INDEX nonesuch'),
('ALTER TABLE u ADD PRIMARY KEY USING INDEX u_no'),
('ALTER TABLE u ADD PRIMARY KEY USING INDEX u_desc'),
('ALTER TABLE u ADD UNIQUE USING INDEX u_part'),
('ALTER TABLE u ADD UNIQUE USING INDEX u_expr'),
('ALTER TABLE u ADD UNIQUE USING INDEX u_coll'),
('ALTER TABLE u ADD UNIQUE USING INDEX u_class'),
('ALTER TABLE u ADD UNIQUE USING INDEX a_pkey'),
('ALTER TABLE a ADD UNIQUE USING INDEX u_id'),
('ALTER TABLE u ADD PRIMARY KEY USING INDEX u_null'),
('CREATE TABLE un_u (id int, PRIMARY KEY USING INDEX u_id)'),
('CREATE UNIQUE INDEX p_free ON p USING {m} (id, k)'),
('ALTER TABLE p ADD UNIQUE USING INDEX p_free'),
('INSERT INTO u (v) VALUES (1); ALTER TABLE u ADD PRIMARY KEY USING INDEX u_id'),
('ALTER TABLE u ADD CONSTRAINT u_key PRIMARY KEY USING INDEX u_id, ADD UNIQUE USING INDEX u_v DEFERRABLE INITIALLY DEFERRED, ADD z int, ADD CONSTRAINT u_z UNIQUE (z){w}'),
('ALTER TABLE u ADD UNIQUE USING INDEX u_key'),
('ALTER TABLE u ADD UNIQUE USING INDEX u_null'),
('INSERT INTO u VALUES (1)'),
('INSERT INTO u VALUES (-1, 1, ''1''); SET CONSTRAINTS ALL IMMEDIATE'),
('CREATE TABLE of_u (id int REFERENCES u)'),
('DROP INDEX u_v'),
('ALTER TABLE u ALTER id TYPE bigint'),
('INSERT INTO of_u VALUES (7)'),
('INSERT INTO of_u VALUES (777)');
CREATE FUNCTION run(schema text, method text, at int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  statement text;
  state text; message text; detail text; hint text; con text;
BEGIN
  PERFORM set_config('search_path', schema, true), set_config('fpbtree.constraints', CASE WHEN method IS NULL THEN 'on' ELSE 'off' END, true);
  SELECT replace(replace(replace(replace(template, '{w}', coalesce(' WITH (method = ' || method || ')', '')), '{p}', coalesce('method = ' || method || ', ', '')), '{m}', coalesce(method, 'fpbtree')), '{s}', schema)
    INTO statement FROM public.statement WHERE n = at;
  EXECUTE statement;
  RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, con = CONSTRAINT_NAME;
  RETURN replace(replace(concat_ws(' | ', state, message, nullif(detail, ''), nullif(hint, ''), nullif(con, '')), schema, 'schema'), '"fpbtree"', '"btree"');
END $$;
CREATE SCHEMA ours; CREATE SCHEMA silent; CREATE SCHEMA theirs;
CREATE TABLE outcome (n int, ours text, silent text, theirs text);
\set ECHO none
SET client_min_messages = error;
SELECT format('INSERT INTO outcome SELECT %1$s, run(''ours'', ''fpbtree'', %1$s), run(''silent'', NULL, %1$s), run(''theirs'', ''btree'', %1$s)', n) FROM statement ORDER BY n \gexec
\set ECHO all
SET client_min_messages = warning;
SELECT n, left(template, 100) AS statement, outcome.* FROM outcome JOIN statement USING (n) WHERE (ours, silent) IS DISTINCT FROM (theirs, theirs) ORDER BY n;
SELECT left(theirs, 5) AS state, count(*) FROM outcome GROUP BY 1 ORDER BY 1;
-- All there is to know of constraints and indexes.
CREATE VIEW constraints AS
  SELECT n.nspname AS schema, o.conrelid::regclass::text AS of, o.conname, o.contype, o.condeferrable, o.condeferred, o.convalidated, pg_get_constraintdef(o.oid) AS definition, obj_description(o.oid, 'pg_constraint') AS comment,
         o.conparentid <> 0 AS inherited, o.conindid
    FROM pg_constraint o JOIN pg_namespace n ON n.oid = o.connamespace;
CREATE FUNCTION state(of_schema text) RETURNS TABLE (what text) LANGUAGE sql AS $$
  SELECT replace(concat_ws(' ', of, conname, contype, condeferrable, condeferred, convalidated, definition, comment, inherited, (SELECT relname FROM pg_class WHERE oid = conindid)), of_schema, 'schema')
    FROM constraints WHERE schema IN (of_schema, of_schema || '_sub')
  UNION ALL
  SELECT replace(concat_ws(' ', i.indrelid::regclass, c.relname, replace(regexp_replace(pg_get_indexdef(c.oid), '( WITH \(method=fpbtree\)|method=fpbtree, |, method=fpbtree)', ''), 'USING fpbtree', 'USING btree'), obj_description(c.oid, 'pg_class'),
           indisunique, indnullsnotdistinct, indisprimary, indisexclusion, indimmediate, indisclustered, indisvalid, indisready, indislive, indisreplident, c.relispartition, (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = c.oid)), of_schema, 'schema')
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace::regnamespace::text IN (of_schema, of_schema || '_sub')
$$;
SELECT count(*) > 100 FROM state('theirs');
SELECT '+' || s, what FROM unnest('{ours,silent}'::text[]) s, LATERAL (SELECT * FROM state(s) EXCEPT ALL SELECT * FROM state('theirs')) d(what)
UNION ALL
SELECT '-' || s, what FROM unnest('{ours,silent}'::text[]) s, LATERAL (SELECT * FROM state('theirs') EXCEPT ALL SELECT * FROM state(s)) d(what) ORDER BY 1, 2;
-- The methods are those that were asked for; what says so is in the catalog, from where a dump takes it.
SELECT schema, contype, amname, 'method=fpbtree' = ANY (coalesce(c.reloptions, '{}')) AS said, count(*)
  FROM constraints o JOIN pg_class c ON c.oid = o.conindid JOIN pg_am a ON a.oid = c.relam
 WHERE contype <> 'f' AND schema ~ '^(ours|silent|theirs)' GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;
-- The rows, and that each of them is found.
SELECT count(*), count(DISTINCT digest) FROM unnest('{a,f,generated,younger,un,two,p,of_p,u,of_u}'::text[]) t, unnest('{ours,silent,theirs}'::text[]) s, LATERAL (SELECT t || harness.digest(format('SELECT * FROM %I.%I', s, t), false)) d(digest);
SELECT harness.sound('constraints', c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE relkind = 'i' AND amname = 'fpbtree' AND relnamespace::regnamespace::text ~ '^(ours|silent)' \g /dev/null
SELECT test, checks > 40 AS many, mismatches FROM harness.summary;
SELECT * FROM harness.problem;
-- What is refused, and told of.
CREATE TABLE refused (id int PRIMARY KEY WITH (method = hash));
CREATE TABLE refused (id int PRIMARY KEY WITH (method));
CREATE TABLE refused (id int PRIMARY KEY WITH (method = fpbtree, method = fpbtree));
CREATE TABLE refused (id int PRIMARY KEY WITH (method = fpbtree, nonesuch = 1));
CREATE TABLE refused (id int4range, v int, PRIMARY KEY (v, id WITHOUT OVERLAPS) WITH (method = fpbtree));
CREATE TABLE plain (id int UNIQUE WITH (method = fpbtree), v int);
ALTER INDEX plain_id_key SET (method = btree);
ALTER TABLE ours.p ALTER id TYPE bigint;
-- On an index of which nothing can be said.
CREATE UNIQUE INDEX plain_hash ON plain (v);
ALTER TABLE plain ADD UNIQUE USING INDEX plain_hash;
-- A partition whose key is of the other method is none of the partitioned key.
CREATE TABLE other (id int, k text, PRIMARY KEY (id, k));
ALTER TABLE ours.p ATTACH PARTITION other FOR VALUES IN ('o');
-- Nothing said is btree, unless it is to be fpbtree; exclusion and WITHOUT OVERLAPS say what they are of.
CREATE EXTENSION btree_gist;
SET fpbtree.constraints = on;
CREATE TABLE defaults (id int PRIMARY KEY, v int UNIQUE WITH (method = btree), w int, x int4range, EXCLUDE USING hash (w WITH =), UNIQUE (v, x WITHOUT OVERLAPS));
RESET fpbtree.constraints;
CREATE TABLE defaults_off (id int PRIMARY KEY);
SELECT c.relname, a.amname, c.reloptions FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid::regclass::text ~ '^defaults' ORDER BY 1;
-- An index stays where it is.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_fpbtree_place LOCATION '';
CREATE TABLE placed (id int PRIMARY KEY WITH (method = fpbtree), v int UNIQUE WITH (method = fpbtree) USING INDEX TABLESPACE regress_fpbtree_place);
SET default_tablespace = regress_fpbtree_place;
ALTER TABLE placed ALTER id TYPE bigint, ALTER v TYPE bigint;
RESET default_tablespace;
SELECT c.relname, a.amname, spcname FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam LEFT JOIN pg_tablespace s ON s.oid = reltablespace WHERE indrelid = 'placed'::regclass ORDER BY 1;
DROP TABLE placed;
DROP TABLESPACE regress_fpbtree_place;
-- Event triggers see one statement.
CREATE FUNCTION seen() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '%: %', tg_tag, (SELECT string_agg(format('%s %s', command_tag, object_identity), ', ') FROM pg_event_trigger_ddl_commands()); END $$;
CREATE EVENT TRIGGER seen ON ddl_command_end EXECUTE FUNCTION seen();
ALTER TABLE plain ALTER id TYPE bigint;
CREATE UNIQUE INDEX plain_v ON plain USING fpbtree (v);
ALTER TABLE plain ADD PRIMARY KEY USING INDEX plain_v;
DROP EVENT TRIGGER seen;
-- Moving a constraint's index, foreign keys and all: its other one takes its place.
CREATE TABLE moved (id int PRIMARY KEY, a text, b int NOT NULL, CONSTRAINT moved_a UNIQUE (a) INCLUDE (b) WITH (fillfactor = 70), UNIQUE NULLS NOT DISTINCT (b), CONSTRAINT moved_later UNIQUE (id, b) DEFERRABLE);
COMMENT ON INDEX moved_pkey IS 'of the index';
COMMENT ON CONSTRAINT moved_pkey ON moved IS 'of the constraint';
ALTER TABLE moved CLUSTER ON moved_pkey;
ALTER TABLE moved REPLICA IDENTITY USING INDEX moved_b_key;
CREATE UNIQUE INDEX moved_bare ON moved (b DESC, a);
ALTER TABLE moved ALTER a SET NOT NULL;
INSERT INTO moved SELECT i, i, i FROM generate_series(1, 1000) i;
CREATE TABLE of_moved (id int REFERENCES moved, b int REFERENCES moved (b) DEFERRABLE, a text, FOREIGN KEY (b, a) REFERENCES moved (b, a));
INSERT INTO of_moved VALUES (5, 5, '5'), (6, 6, '6');
CREATE FUNCTION indexes(regclass) RETURNS TABLE (index text) LANGUAGE sql AS $$
  SELECT concat_ws(' ', replace(pg_get_indexdef(i.indexrelid), 'public.', ''), obj_description(i.indexrelid, 'pg_class'), CASE WHEN indisprimary THEN 'primary' END, CASE WHEN indisclustered THEN 'clustered' END, CASE WHEN indisreplident THEN 'identity' END,
           CASE WHEN NOT indisvalid THEN 'invalid' END, (SELECT string_agg(format('%s of %s', conname, conrelid::regclass), ', ' ORDER BY conname) FROM pg_constraint WHERE conindid = indexrelid))
    FROM pg_index i WHERE indrelid = $1 ORDER BY 1
$$;
SELECT * FROM indexes('moved');
\set ECHO none
SELECT fpbtree_migration(i) FROM unnest('{moved_pkey,moved_a,moved_b_key,moved_bare}'::regclass[]) i \gexec
\set ECHO all
SELECT * FROM indexes('moved');
SELECT harness.sound('moved', i) FROM unnest('{moved_pkey,moved_a,moved_b_key,moved_bare}'::regclass[]) i \g /dev/null
SELECT harness.outcome(s) FROM unnest(ARRAY['INSERT INTO moved VALUES (5, ''x'', -1)', 'INSERT INTO moved VALUES (-1, ''5'', -1)', 'DELETE FROM moved WHERE id = 5', 'UPDATE moved SET a = ''x'' WHERE id = 6', 'INSERT INTO of_moved VALUES (5000)', 'INSERT INTO of_moved VALUES (NULL, 5, ''6'')',
  'INSERT INTO of_moved VALUES (7, 7, ''7'')', 'INSERT INTO moved VALUES (5, ''x'', -1) ON CONFLICT (id) DO UPDATE SET id = moved.id']) s;
SELECT fpbtree_migration('moved_later');
SELECT fpbtree_migration('ours.p_pkey', 'btree');
SELECT fpbtree_migration('ours.p_a_pkey', 'btree');
\set ECHO none
SELECT fpbtree_migration(i, 'btree') FROM unnest('{moved_pkey,moved_a,moved_b_key,moved_bare}'::regclass[]) i \gexec
\set ECHO all
SELECT * FROM indexes('moved');
-- Only with its like.
CREATE UNIQUE INDEX other_id ON moved USING fpbtree (id); CREATE UNIQUE INDEX other_desc ON moved USING fpbtree (id DESC); CREATE UNIQUE INDEX other_include ON moved USING fpbtree (id) INCLUDE (b); CREATE INDEX other_not ON moved USING fpbtree (id);
CREATE UNIQUE INDEX other_part ON moved USING fpbtree (id) WHERE id > 5; CREATE UNIQUE INDEX other_expression ON moved USING fpbtree ((id + 0)); CREATE UNIQUE INDEX other_nulls ON moved USING fpbtree (id) NULLS NOT DISTINCT; CREATE UNIQUE INDEX other_class ON moved USING fpbtree (a text_pattern_ops) INCLUDE (b);
SELECT i, harness.outcome(format('SELECT fpbtree_exchange(''moved_pkey'', %L)', i)) FROM unnest('{moved_pkey,moved_a,moved_b_key,plain_v,other_desc,other_include,other_not,other_part,other_expression,other_nulls,moved,ours.p_pkey}'::text[]) i;
SELECT harness.outcome('SELECT fpbtree_exchange(''moved_a'', ''other_class'')'), harness.outcome('SELECT fpbtree_exchange(''ours.p_pkey'', ''other_id'')'), harness.outcome('SELECT fpbtree_exchange(''moved_pkey'', 4711::oid::regclass)');
CREATE ROLE regress_fpbtree_stranger;
SET ROLE regress_fpbtree_stranger;
SELECT fpbtree_exchange('moved_pkey', 'other_id');
RESET ROLE;
DROP ROLE regress_fpbtree_stranger;
SELECT fpbtree_exchange('moved_pkey', 'other_id');
SELECT * FROM indexes('moved') WHERE index ~ 'moved_pkey|other_id ';
-- Undone.
BEGIN;
ALTER TABLE moved ALTER id TYPE bigint;
CREATE UNIQUE INDEX again ON moved (id);
SELECT fpbtree_exchange('moved_pkey', 'again');
SELECT * FROM indexes('moved') WHERE index ~ 'moved_pkey|again';
ROLLBACK;
SELECT * FROM indexes('moved') WHERE index ~ 'moved_pkey|again';
SELECT harness.outcome('INSERT INTO moved VALUES (5, ''x'', -1)'), harness.outcome('DELETE FROM moved WHERE id = 5');
SELECT test, checks, mismatches FROM harness.summary;
SELECT * FROM harness.problem;
\set ECHO none
SET client_min_messages = error;
DROP SCHEMA ours, silent, theirs, ours_sub, silent_sub, theirs_sub CASCADE;
DROP TABLE statement, outcome, plain, other, defaults, defaults_off, moved, of_moved CASCADE;
DROP FUNCTION run, state, seen, indexes;
DROP VIEW constraints;
DROP EXTENSION btree_gist;
