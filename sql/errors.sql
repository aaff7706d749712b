-- What is refused, with which SQLSTATE: 42809 wrong object type, 42501 insufficient privilege, 42P01
-- undefined table, 42704 undefined object, 0A000 feature not supported.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE TABLE t (id int, v int, w text);
CREATE INDEX t_idx ON t USING fpbtree (v);
CREATE INDEX t_btree ON t (v);
CREATE TABLE p (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE INDEX p_idx ON p USING fpbtree (v);
CREATE VIEW a_view AS SELECT 1 AS v;
CREATE SEQUENCE a_sequence;
-- Each function on each kind of thing: the SQLSTATE, and whether the message names what is wrong.
SELECT target, f AS function, left(o, 5) AS state, o ~ target AS named
  FROM unnest('{t,t_btree,p,p_idx,a_view,a_sequence,no_such_index}'::text[]) WITH ORDINALITY u(target, n),
       unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f,
       LATERAL harness.outcome(format('SELECT * FROM %s(%L)', f, target)) o
 ORDER BY n, f;
SELECT f AS function, harness.outcome(format('SELECT * FROM %s(4294967294)', f)) !~ '^(ok|XX)' AS specific
  FROM unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f;
-- NULL gives nothing; a partition's own index is as good as any.
SELECT count(*) FROM fpbtree_check(NULL);
SELECT count(*) FROM fpbtree_check('t_idx', NULL);
SELECT count(*) FROM fpbtree_stats(NULL);
SELECT count(*) FROM fpbtree_stat_prefetch(NULL);
SELECT count(*) FROM fpbtree_stat_hot(NULL);
SELECT fpbtree_stat_hot_reset(NULL) IS NULL AS nothing;
SELECT count(*) FROM fpbtree_check('p_1_v_idx', true);
SELECT count(*) FROM fpbtree_check(index => 't_idx', heapallindexed => true);
SELECT entries, dead_entries, leaf_pages, inner_pages, deleted_pages FROM fpbtree_stats('t_idx');
-- Privileges.
CREATE ROLE regress_fpbtree_nobody;
SELECT f AS function, left(harness.outcome(format('SELECT * FROM %s(''t_idx'')', f)), 5) AS before
  FROM unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f;
GRANT USAGE ON SCHEMA harness TO regress_fpbtree_nobody;
GRANT USAGE ON SCHEMA public TO regress_fpbtree_nobody;
SET ROLE regress_fpbtree_nobody;
SELECT f AS function, left(harness.outcome(format('SELECT * FROM %s(''t_idx'')', f)), 5) AS state
  FROM unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f;
RESET ROLE;
ALTER TABLE t OWNER TO regress_fpbtree_nobody;
GRANT EXECUTE ON FUNCTION fpbtree_check, fpbtree_stats TO regress_fpbtree_nobody;
SET ROLE regress_fpbtree_nobody;
SELECT f AS function, left(harness.outcome(format('SELECT * FROM %s(''t_idx'')', f)), 5) AS owner
  FROM unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f;
SELECT f AS function, left(harness.outcome(format('SELECT * FROM %s(''p_1_v_idx'')', f)), 5) AS other
  FROM unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f;
-- Whoever may read the table may ask about its index, but not check it.
RESET ROLE;
GRANT SELECT ON p_1 TO regress_fpbtree_nobody;
SET ROLE regress_fpbtree_nobody;
SELECT f AS function, left(harness.outcome(format('SELECT * FROM %s(''p_1_v_idx'')', f)), 5) AS reader
  FROM unnest('{fpbtree_check,fpbtree_stats,fpbtree_stat_compare,fpbtree_stat_prefetch,fpbtree_stat_hot,fpbtree_stat_hot_reset}'::text[]) f;
-- What fpbtree_adopt() is made of is not for everybody.
SELECT left(harness.outcome(format('SELECT %s(%s)', f, oid)), 5) AS state, f AS function
  FROM unnest('{fpbtree_missing_members,fpbtree_mirror}'::text[]) f, pg_opfamily WHERE opfname = 'integer_ops' AND opfmethod = 403;
RESET ROLE;
REVOKE SELECT ON p_1 FROM regress_fpbtree_nobody;
REVOKE EXECUTE ON FUNCTION fpbtree_check, fpbtree_stats FROM regress_fpbtree_nobody;
REVOKE USAGE ON SCHEMA harness, public FROM regress_fpbtree_nobody;
ALTER TABLE t OWNER TO CURRENT_USER;
-- An index's own code runs as the table's owner, whoever checks it, and changes no setting.
CREATE SCHEMA regress_fpbtree_trap AUTHORIZATION regress_fpbtree_nobody;
SET search_path = regress_fpbtree_trap, public;
CREATE TABLE seen (place text, who name);
CREATE FUNCTION look(place text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO regress_fpbtree_trap.seen VALUES (place, current_user);
  PERFORM set_config('regress.seen', place, false);
END $$;
CREATE FUNCTION word_cmp(a text, b text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  PERFORM regress_fpbtree_trap.look('comparison');
  RETURN bttextcmp(a COLLATE "C", b COLLATE "C");
END $$;
CREATE OPERATOR CLASS word_ops FOR TYPE text USING fpbtree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
  FUNCTION 1 word_cmp(text, text);
CREATE FUNCTION length_of(w text) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN length(w); END $$;
CREATE FUNCTION wanted(w text) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$;
CREATE TABLE trap (w text);
INSERT INTO trap SELECT md5(i::text) FROM generate_series(1, 500) i;
CREATE INDEX trap_w ON trap USING fpbtree (w word_ops);
CREATE INDEX trap_length ON trap USING fpbtree ((length_of(w))) WHERE wanted(w);
CREATE OR REPLACE FUNCTION length_of(w text) RETURNS int VOLATILE LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_fpbtree_trap.look('expression'); RETURN length(w); END $$;
CREATE OR REPLACE FUNCTION wanted(w text) RETURNS bool VOLATILE LANGUAGE plpgsql AS $$ BEGIN PERFORM regress_fpbtree_trap.look('predicate'); RETURN true; END $$;
ALTER TABLE trap OWNER TO regress_fpbtree_nobody;
ALTER TABLE seen OWNER TO regress_fpbtree_nobody;
TRUNCATE seen;
SET regress.seen = 'nothing';
SELECT * FROM fpbtree_check('trap_w');
SELECT DISTINCT * FROM seen ORDER BY place;
SHOW regress.seen;
SELECT * FROM fpbtree_check('trap_w', true);
SELECT * FROM fpbtree_check('trap_length', true);
SELECT DISTINCT * FROM seen ORDER BY place;
SHOW regress.seen;
SELECT current_user = session_user AS still_myself;
-- Nor does it do what only a session may do.
CREATE OR REPLACE FUNCTION look(place text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE left_behind (); END $$;
SELECT left(harness.outcome('SELECT * FROM fpbtree_check(''trap_w'')'), 5) AS comparison;
SELECT left(harness.outcome('SELECT * FROM fpbtree_check(''trap_length'', true)'), 5) AS expression;
SELECT current_user = session_user AS still_myself;
RESET search_path;
DROP SCHEMA regress_fpbtree_trap CASCADE;
DROP ROLE regress_fpbtree_nobody;
-- Indexes that cannot be.
CREATE TYPE colour AS ENUM ('red', 'green');
SELECT s AS statement, replace(harness.outcome(s), 'public.', '') AS outcome FROM unnest(ARRAY[
  'CREATE INDEX ON t USING fpbtree ((ROW(v, v)))',
  'CREATE INDEX ON t USING fpbtree ((NULL::point))',
  'CREATE INDEX ON t USING fpbtree ((NULL::xid))',
  'CREATE INDEX ON t USING fpbtree (v int8_ops)',
  'CREATE INDEX ON t USING fpbtree (v COLLATE "C")',
  'CREATE INDEX ON t USING fpbtree (v no_such_ops)',
  'CREATE INDEX ON t USING fpbtree (v int4_ops (a = 1))',
  'CREATE INDEX ON t USING fpbtree (ctid)',
  'CREATE INDEX ON t USING fpbtree ((random()))',
  'CREATE INDEX ON t USING fpbtree (no_such_column)',
  'ALTER TABLE t ADD PRIMARY KEY USING INDEX t_idx',
  'ALTER TABLE t ADD UNIQUE USING INDEX t_idx']) s;
SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass;
-- As many columns as an index may have, and one more.
SELECT format('CREATE TABLE many (%s)', string_agg(format('c%s bool', n), ', ')) AS many FROM generate_series(1, 33) n \gset
:many;
SELECT format('CREATE INDEX many_idx ON many USING fpbtree (%s)', string_agg('c' || n, ', ')) AS many FROM generate_series(1, 32) n \gset
:many;
SELECT harness.outcome(format('CREATE INDEX ON many USING fpbtree (%s)', string_agg('c' || n, ', '))) FROM generate_series(1, 33) n;
INSERT INTO many (c1, c31, c32) SELECT i % 2 = 0, i % 3 = 0, NULL FROM generate_series(1, 100) i;
SELECT count(*) FROM fpbtree_check('many_idx', true);
SET enable_seqscan = off;
SELECT count(*) FROM many WHERE c1 IS NOT NULL AND c31 < (SELECT true) AND c32 IS NULL;
RESET enable_seqscan;
-- A table with an fpbtree index is a table like any other.
CREATE TABLE other (id int PRIMARY KEY, v int);
CREATE INDEX ON other USING fpbtree (v);
INSERT INTO other SELECT i, i FROM generate_series(1, 10) i;
INSERT INTO other VALUES (3, 30), (11, 11) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
INSERT INTO other VALUES (3, 31) ON CONFLICT DO NOTHING;
CREATE TABLE referring (id int REFERENCES other);
INSERT INTO referring VALUES (3);
SELECT harness.outcome('INSERT INTO referring VALUES (99)');
SELECT v FROM other WHERE v > 9 ORDER BY v;
DROP TABLE referring, other, many, t, p;
DROP TYPE colour;
DROP VIEW a_view;
DROP SEQUENCE a_sequence;
