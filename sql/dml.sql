-- Changes: every way to put entries in and take them out, the commands that build and rebuild an
-- index, and the kinds of tables and indexes; after each the index is sound and answers as the table.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
-- Sound, and every way through the index equal to a sequential scan.
CREATE FUNCTION check_table(step text, tab text, cond text DEFAULT 'true', tester text DEFAULT 'v BETWEEN 10 AND 5000')
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM harness.sound(step, (tab || '_idx')::regclass),
          harness.compare(step, format('SELECT v{id} FROM {t} WHERE %s AND %s', cond, tester), ARRAY[tab], '{index,indexonly,bitmap}', false),
          harness.compare(step, format('SELECT v FROM {t} WHERE %s ORDER BY v', cond), ARRAY[tab], '{indexonly}', true),
          harness.compare(step, format('SELECT v FROM {t} WHERE %s ORDER BY v DESC', cond), ARRAY[tab], '{indexonly}', true);
END $$;
-- Insertion in every order: ascending, descending, random, all alike, from both ends.
CREATE TABLE orders (name text, expression text);
INSERT INTO orders VALUES ('ascending', 'i'), ('descending', '-i'), ('random', 'hashint4(i)'), ('alike', '7'),
  ('outside in', 'CASE WHEN i % 2 = 0 THEN i ELSE 200000 - i END'), ('few', 'i % 3'), ('null', 'NULL'),
  ('two halves', 'i % 2 * 1000000 + i');
\set ECHO none
-- One by one, in just this order.
SET fpbtree.insert_batch = 0;
SELECT format('CREATE TABLE o_%1$s (id int, v int) WITH (autovacuum_enabled = off, vacuum_truncate = off); CREATE INDEX o_%1$s_idx ON o_%1$s USING fpbtree (v);
               INSERT INTO o_%1$s SELECT i, %2$s FROM generate_series(1, CASE WHEN ''%1$s'' = ''alike'' THEN 100000 WHEN ''%1$s'' IN (''few'', ''null'') THEN 60000 ELSE 30000 END) i',
              replace(name, ' ', '_'), expression) FROM orders \gexec
\set ECHO all
SELECT name, count(check_table('insert ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders GROUP BY name ORDER BY name COLLATE "C";
SELECT name, entries, dead_entries, deleted_pages, leaf_pages > 10 AS many_leaves
  FROM orders, fpbtree_stats(format('o_%s_idx', replace(name, ' ', '_'))::regclass) ORDER BY name COLLATE "C";
-- Delete every second row, vacuum; then all of a range, vacuum: pages go free and are used again.
\set ECHO none
SELECT format('DELETE FROM o_%1$s WHERE id %% 2 = 0', replace(name, ' ', '_')) FROM orders \gexec
\set ECHO all
SELECT count(check_table('deleted half of ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
\set ECHO none
SELECT 'VACUUM ' || string_agg('o_' || replace(name, ' ', '_'), ', ') FROM orders \gexec
\set ECHO all
SELECT count(check_table('vacuumed half of ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
SELECT name, entries, dead_entries FROM orders, fpbtree_stats(format('o_%s_idx', replace(name, ' ', '_'))::regclass) ORDER BY name COLLATE "C";
\set ECHO none
SELECT format('DELETE FROM o_%1$s WHERE id > 3000', replace(name, ' ', '_')) FROM orders \gexec
SELECT 'VACUUM ' || string_agg('o_' || replace(name, ' ', '_'), ', ') FROM orders \gexec
\set ECHO all
SELECT count(check_table('vacuumed most of ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
CREATE TABLE size AS SELECT name, pg_relation_size(format('o_%s_idx', replace(name, ' ', '_'))) AS bytes FROM orders;
SELECT name, entries, dead_entries, deleted_pages > 0 AS has_deleted
  FROM orders, fpbtree_stats(format('o_%s_idx', replace(name, ' ', '_'))::regclass) ORDER BY name COLLATE "C";
\set ECHO none
SELECT format('INSERT INTO o_%1$s SELECT i, %2$s FROM generate_series(3001, 15000) i', replace(name, ' ', '_'), expression) FROM orders \gexec
RESET fpbtree.insert_batch;
\set ECHO all
SELECT count(check_table('refilled ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
SELECT name, pg_relation_size(format('o_%s_idx', replace(name, ' ', '_'))) <= bytes AS grew_not FROM orders JOIN size USING (name) ORDER BY name COLLATE "C";
-- Updates that move the key, and those that do not.
\set ECHO none
SELECT format('UPDATE o_%1$s SET v = coalesce(-v, 5) WHERE id %% 3 = 0; UPDATE o_%1$s SET id = id WHERE id %% 5 = 0', replace(name, ' ', '_')) FROM orders \gexec
\set ECHO all
SELECT count(check_table('updated ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
\set ECHO none
SELECT 'VACUUM ' || string_agg('o_' || replace(name, ' ', '_'), ', ') FROM orders \gexec
\set ECHO all
SELECT count(check_table('updated and vacuumed ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
-- What is free at the end of their files is given back.
\set ECHO none
SELECT format('ALTER TABLE o_%1$s RESET (vacuum_truncate); DELETE FROM o_%1$s WHERE id > 100', replace(name, ' ', '_')) FROM orders \gexec
SELECT 'VACUUM ' || string_agg('o_' || replace(name, ' ', '_'), ', ') FROM orders \gexec
\set ECHO all
SELECT count(check_table('cut off ' || name, 'o_' || replace(name, ' ', '_'))) FROM orders;
SELECT name, pg_relation_size(format('o_%s_idx', replace(name, ' ', '_'))) < bytes AS shorter FROM orders JOIN size USING (name) ORDER BY name COLLATE "C";
-- Thin leaves are merged, whatever their keys are; then the index is as small as one that is built, or nearly.
CREATE TABLE thin (id int, v int, w text, x numeric) WITH (autovacuum_enabled = off);
INSERT INTO thin SELECT i, hashint4(i), 'name ' || md5(i::text), i % 5000 FROM generate_series(1, 20000) i;
CREATE INDEX thin_v ON thin USING fpbtree (v);
CREATE INDEX thin_w ON thin USING fpbtree (w) INCLUDE (id);
CREATE INDEX thin_x ON thin USING fpbtree (x DESC);
CREATE TABLE leaves AS SELECT i, leaf_pages FROM unnest('{thin_v,thin_w,thin_x}'::regclass[]) i, fpbtree_stats(i);
DELETE FROM thin WHERE id % 10 > 0;
VACUUM thin;
SELECT i, s.leaf_pages < l.leaf_pages * 0.3 AS fewer, thin_pages, deleted_pages > 0 AS free FROM leaves l, fpbtree_stats(l.i) s;
SELECT count(harness.sound('merged', i)) FROM leaves;
SET enable_seqscan = off;
SELECT count(*), sum(v) FROM thin WHERE v > 0;
SELECT count(*), sum(id), max(w) FROM thin WHERE w > 'name 5';
SELECT count(*), sum(x) FROM thin WHERE x BETWEEN 100 AND 3000;
RESET enable_seqscan;
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET fpbtree.custom_scans = off;
SELECT count(*), sum(v) FROM thin WHERE v > 0;
SELECT count(*), sum(id), max(w) FROM thin WHERE w > 'name 5';
SELECT count(*), sum(x) FROM thin WHERE x BETWEEN 100 AND 3000;
RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan; RESET fpbtree.custom_scans;
INSERT INTO thin SELECT i, hashint4(i), 'name ' || md5(i::text), i % 5000 FROM generate_series(1, 20000) i WHERE i % 10 > 0;
SELECT i, pg_relation_size(i) <= l.leaf_pages * 8192 * 1.7 AS reused FROM leaves l;
SELECT count(harness.sound('filled again', i)) FROM leaves;
-- Everything deleted: VACUUM, then start again.
DELETE FROM o_random;
VACUUM o_random;
SELECT count(check_table('emptied', 'o_random'));
SELECT entries, dead_entries FROM fpbtree_stats('o_random_idx');
INSERT INTO o_random SELECT i, hashint4(i) FROM generate_series(1, 20000) i;
SELECT count(check_table('filled again', 'o_random'));
-- VACUUM of an index whose heap pages are clean, and one that truncates the table.
VACUUM o_random;
VACUUM (INDEX_CLEANUP off) o_random;
DELETE FROM o_random WHERE id % 2 = 1;
VACUUM (INDEX_CLEANUP off) o_random;
SELECT count(harness.compare('dead line pointers', 'SELECT v{id} FROM {t} WHERE v > 0', '{o_random}', '{index,indexonly,bitmap}', false));
VACUUM (INDEX_CLEANUP on) o_random;
SELECT count(check_table('index cleanup', 'o_random'));
VACUUM FULL o_random;
SELECT count(check_table('vacuum full', 'o_random'));
TRUNCATE o_random;
SELECT count(check_table('truncate', 'o_random'));
INSERT INTO o_random SELECT i, hashint4(i) FROM generate_series(1, 3000) i;
SELECT count(check_table('after truncate', 'o_random'));
-- Transactions that do not happen.
BEGIN;
INSERT INTO o_random SELECT i, i FROM generate_series(1, 20000) i;
ROLLBACK;
SELECT count(check_table('rollback of an insert', 'o_random'));
BEGIN;
INSERT INTO o_random SELECT i, i FROM generate_series(1, 100) i;
SAVEPOINT a;
INSERT INTO o_random SELECT i, -i FROM generate_series(1, 5000) i;
DELETE FROM o_random WHERE v BETWEEN 1 AND 50;
ROLLBACK TO a;
SAVEPOINT b;
UPDATE o_random SET v = v + 1 WHERE v BETWEEN 40 AND 90;
RELEASE b;
SELECT count(check_table('inside a transaction', 'o_random'));
COMMIT;
SELECT count(check_table('savepoints', 'o_random'));
BEGIN;
TRUNCATE o_random;
INSERT INTO o_random SELECT i, i FROM generate_series(1, 500) i;
SELECT count(check_table('truncate in a transaction', 'o_random'));
ROLLBACK;
SELECT count(check_table('rollback of truncate', 'o_random'));
BEGIN;
DROP INDEX o_random_idx;
CREATE INDEX o_random_idx ON o_random USING fpbtree (v);
SELECT count(check_table('index of this transaction', 'o_random'));
ROLLBACK;
SELECT count(check_table('rollback of an index', 'o_random'));
-- Rebuilding.
REINDEX INDEX o_few_idx;
SELECT count(check_table('reindex', 'o_few'));
REINDEX TABLE o_few;
REINDEX INDEX CONCURRENTLY o_few_idx;
SELECT count(check_table('reindex concurrently', 'o_few'));
REINDEX TABLE CONCURRENTLY o_few;
SELECT count(check_table('reindex table concurrently', 'o_few'));
DROP INDEX CONCURRENTLY o_few_idx;
CREATE INDEX CONCURRENTLY o_few_idx ON o_few USING fpbtree (v DESC);
SELECT count(check_table('create index concurrently', 'o_few'));
SELECT c.relname, indisvalid, indisready FROM pg_index i JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'o_few'::regclass;
CLUSTER o_ascending USING o_ascending_idx;
SELECT count(check_table('cluster', 'o_ascending'));
CREATE TABLE clustered (id int, v int);
INSERT INTO clustered SELECT i, hashint4(i) % 1000 FROM generate_series(1, 20000) i;
INSERT INTO clustered SELECT i, NULL FROM generate_series(1, 20) i;
CREATE INDEX clustered_idx ON clustered USING fpbtree (v);
DELETE FROM clustered WHERE id % 3 = 0;
CLUSTER clustered USING clustered_idx;
SELECT count(check_table('cluster of random values', 'clustered'));
SELECT count(*) AS out_of_order FROM (SELECT v, lag(v) OVER (ORDER BY ctid) AS before FROM clustered) s WHERE before > v;
ALTER TABLE clustered ALTER v TYPE int8;
SELECT count(check_table('another type', 'clustered'));
ALTER TABLE clustered ADD w int DEFAULT 5, DROP COLUMN id;
ALTER TABLE clustered ADD id int DEFAULT 1;
SELECT count(check_table('dropped column', 'clustered'));
-- fillfactor.
CREATE INDEX ff ON clustered USING fpbtree (v) WITH (fillfactor = 50);
SELECT reloptions FROM pg_class WHERE relname = 'ff';
CREATE TABLE before AS SELECT pg_relation_size('ff') AS bytes;
ALTER INDEX ff SET (fillfactor = 100);
REINDEX INDEX ff;
SELECT pg_relation_size('ff') < bytes * 0.7 AS smaller, reloptions FROM before, pg_class WHERE relname = 'ff';
ALTER INDEX ff RESET (fillfactor);
REINDEX INDEX ff;
SELECT pg_relation_size('ff') < bytes * 0.75 AS smaller, reloptions IS NULL AS reset FROM before, pg_class WHERE relname = 'ff';
SELECT statement, harness.outcome(statement) FROM unnest(ARRAY[
  'CREATE INDEX ff9 ON clustered USING fpbtree (v) WITH (fillfactor = 9)',
  'CREATE INDEX ff101 ON clustered USING fpbtree (v) WITH (fillfactor = 101)',
  'CREATE INDEX ffx ON clustered USING fpbtree (v) WITH (fillfactor = x)',
  'CREATE INDEX ffn ON clustered USING fpbtree (v) WITH (fillfactor)',
  'CREATE INDEX ffu ON clustered USING fpbtree (v) WITH (no_such_option = 1)',
  'CREATE INDEX ff10 ON clustered USING fpbtree (v) WITH (fillfactor = 10)',
  'ALTER INDEX ff SET (fillfactor = 5)',
  'ALTER INDEX ff SET (no_such_option = 5)',
  'ALTER INDEX ff SET (fillfactor = 70)']) statement;
SELECT count(harness.sound('fillfactor 10', 'ff10'));
DROP INDEX ff10, ff;
-- btree's deduplicate_items is taken, and kept, without effect; quietly, as there may be many of them in a dump.
SET client_min_messages = notice;
CREATE INDEX deduplicated ON clustered USING fpbtree (v) WITH (deduplicate_items = off, fillfactor = 50);
SET client_min_messages = warning;
SELECT substring(pg_get_indexdef('deduplicated'::regclass) FROM 'WITH.*') AS kept, pg_relation_size('deduplicated') = bytes AS no_effect FROM before;
SELECT statement, harness.outcome(statement) FROM unnest(ARRAY[
  'ALTER INDEX deduplicated SET (deduplicate_items = on)',
  'ALTER INDEX deduplicated RESET (deduplicate_items)',
  'ALTER INDEX deduplicated SET (deduplicate_items = perhaps)',
  'CREATE INDEX ffd ON clustered USING fpbtree (v) WITH (deduplicate_items = 3)']) statement;
DROP INDEX deduplicated;
-- Partial indexes, and indexes of expressions.
CREATE TABLE partial (id int, v int, active bool);
CREATE INDEX partial_idx ON partial USING fpbtree (v) WHERE active;
INSERT INTO partial SELECT i, i % 777, i % 4 = 0 FROM generate_series(1, 8000) i;
SELECT count(check_table('partial', 'partial', 'active'));
SELECT entries FROM fpbtree_stats('partial_idx');
UPDATE partial SET active = NOT active WHERE id % 8 < 2;
SELECT count(check_table('partial, updated', 'partial', 'active'));
VACUUM partial;
SELECT entries = (SELECT count(*) FROM partial WHERE active) AS same FROM fpbtree_stats('partial_idx');
CREATE TABLE expression (id int, v int);
CREATE INDEX expression_idx ON expression USING fpbtree ((v * 2), (v % 10));
INSERT INTO expression SELECT i, i % 500 FROM generate_series(1, 5000) i;
SELECT count(harness.sound('expression', 'expression_idx')),
       count(harness.compare('expression', 'SELECT v * 2 AS k, id FROM {t} WHERE v * 2 < 100', '{expression}', '{index,bitmap}', false)),
       count(harness.compare('expression', 'SELECT v * 2 AS k, id FROM {t} WHERE v * 2 = ANY (''{8,9,10,900}'')', '{expression}', '{index,bitmap}', false)),
       count(harness.compare('expression', 'SELECT v * 2 AS k, id FROM {t} WHERE v % 10 = 3 ORDER BY v * 2 DESC, v % 10 DESC{tie}', '{expression}', '{index}', true));
-- An expression that fails: nothing is left behind.
CREATE TABLE failing (id int, v int);
INSERT INTO failing SELECT i, i - 300 FROM generate_series(1, 600) i;
SELECT harness.outcome('CREATE INDEX failing_idx ON failing USING fpbtree ((1000 / v))');
SELECT harness.outcome('CREATE INDEX failing_idx ON failing USING fpbtree ((1000 / v)) WHERE v <> 0');
SELECT harness.outcome('INSERT INTO failing SELECT i, i FROM generate_series(1, 50) i');
DROP INDEX failing_idx;
DELETE FROM failing WHERE v = 0;
CREATE INDEX failing_idx ON failing USING fpbtree ((1000 / v));
SELECT harness.outcome('INSERT INTO failing VALUES (1, 0)');
SELECT harness.outcome('INSERT INTO failing SELECT i, 100 - i FROM generate_series(1, 200) i');
SELECT count(harness.sound('failing expression', 'failing_idx')), (SELECT count(*) FROM failing);
-- Partitions.
CREATE TABLE part (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (1000);
CREATE INDEX part_idx ON part USING fpbtree (v);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (1000) TO (2000);
CREATE TABLE part_3 (id int, v int);
INSERT INTO part_3 SELECT i, i % 50 FROM generate_series(2000, 2999) i;
CREATE INDEX part_3_v ON part_3 USING fpbtree (v);
ALTER TABLE part ATTACH PARTITION part_3 FOR VALUES FROM (2000) TO (3000);
CREATE TABLE part_default PARTITION OF part DEFAULT;
INSERT INTO part SELECT i, i % 60 FROM generate_series(0, 1999) i;
INSERT INTO part SELECT i, i % 60 FROM generate_series(3000, 3500) i;
SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.relname ~ '^part_' AND relkind IN ('i', 'I') ORDER BY 1;
UPDATE part SET id = id + 1000 WHERE id < 100;
SELECT harness.answer('SELECT id, v FROM part WHERE v < 7', 'index', false) = harness.answer('SELECT id, v FROM part WHERE v < 7', 'seq', false) AS same,
       harness.answer('SELECT v FROM part ORDER BY v', 'indexonly') = harness.answer('SELECT v FROM part ORDER BY v', 'seq') AS same_order;
SELECT count(harness.sound('partitions', i)) FROM unnest('{part_1_v_idx,part_2_v_idx,part_3_v,part_default_v_idx}'::regclass[]) i;
ALTER TABLE part DETACH PARTITION part_2;
SELECT count(harness.sound('partitions', 'part_2_v_idx'));
SELECT count(*) FROM part_2;
-- Temporary and unlogged.
CREATE TEMP TABLE temporary (id int, v int);
CREATE INDEX temporary_idx ON temporary USING fpbtree (v);
INSERT INTO temporary SELECT i, hashint4(i) % 10000 FROM generate_series(1, 20000) i;
SELECT count(check_table('temporary', 'temporary'));
DELETE FROM temporary WHERE id % 3 = 1;
VACUUM temporary;
SELECT count(check_table('temporary, vacuumed', 'temporary'));
CREATE TEMP TABLE gone (v int) ON COMMIT DELETE ROWS;
CREATE INDEX gone_idx ON gone USING fpbtree (v);
BEGIN;
INSERT INTO gone SELECT generate_series(1, 3000);
SELECT harness.answer('SELECT v FROM gone WHERE v > 2990', 'index', false) = harness.answer('SELECT v FROM gone WHERE v > 2990', 'seq', false) AS same;
COMMIT;
SELECT count(*) FROM gone WHERE v > 0;
SELECT count(harness.sound('on commit delete rows', 'gone_idx'));
CREATE UNLOGGED TABLE unlogged (id int, v int);
CREATE INDEX unlogged_idx ON unlogged USING fpbtree (v);
INSERT INTO unlogged SELECT i, hashint4(i) % 10000 FROM generate_series(1, 20000) i;
SELECT count(check_table('unlogged', 'unlogged'));
DELETE FROM unlogged WHERE id % 3 = 1;
VACUUM unlogged;
SELECT count(check_table('unlogged, vacuumed', 'unlogged'));
ALTER TABLE unlogged SET LOGGED;
SELECT count(check_table('made logged', 'unlogged'));
ALTER TABLE unlogged SET UNLOGGED;
SELECT count(check_table('made unlogged', 'unlogged'));
-- A materialised view, and an index made before any row, then filled by COPY.
CREATE MATERIALIZED VIEW view AS SELECT id, v FROM unlogged WHERE v > 0;
CREATE INDEX view_idx ON view USING fpbtree (v);
DELETE FROM unlogged WHERE v > 100;
REFRESH MATERIALIZED VIEW view;
SELECT count(check_table('materialised view', 'view'));
CREATE TABLE copied (v int, id serial);
CREATE INDEX copied_idx ON copied USING fpbtree (v);
COPY copied (v) FROM stdin;
3
-1
\N
2147483647
3
\.
SELECT count(check_table('copy', 'copied'));
-- Two indexes on one table.
CREATE INDEX copied_both ON copied USING fpbtree (id DESC, v);
INSERT INTO copied (v) SELECT i % 90 FROM generate_series(1, 3000) i;
SELECT count(check_table('two indexes', 'copied')), count(harness.sound('two indexes', 'copied_both'));
-- An exclusion constraint: any ordered method with an equality operator will do.
CREATE TABLE exclusive (id int, v int, EXCLUDE USING fpbtree (v WITH =));
INSERT INTO exclusive SELECT i, i FROM generate_series(1, 2000) i;
INSERT INTO exclusive SELECT i, NULL FROM generate_series(1, 5) i;
SELECT harness.outcome('INSERT INTO exclusive VALUES (1, 77)');
SELECT harness.outcome('UPDATE exclusive SET v = v + 1 WHERE v = 2000');
SELECT harness.outcome('UPDATE exclusive SET v = 5 WHERE v = 6');
DELETE FROM exclusive WHERE v = 77;
SELECT harness.outcome('INSERT INTO exclusive VALUES (1, 77)');
SELECT count(harness.sound('exclusion', 'exclusive_v_excl')), (SELECT count(*) FROM exclusive);
ALTER TABLE exclusive DROP CONSTRAINT exclusive_v_excl, ADD EXCLUDE USING fpbtree (v WITH =, id WITH =) DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO exclusive VALUES (1, 77);
DELETE FROM exclusive WHERE v = 77 AND ctid = (SELECT min(ctid) FROM exclusive WHERE v = 77);
COMMIT;
BEGIN;
INSERT INTO exclusive VALUES (1, 77);
COMMIT;
-- Entries of one value over many pages, deleted from the middle, the ends, everywhere.
CREATE TABLE same (id int, v int) WITH (autovacuum_enabled = off);
CREATE INDEX same_idx ON same USING fpbtree (v);
INSERT INTO same SELECT i, CASE WHEN i BETWEEN 20000 AND 80000 THEN 1 ELSE i END FROM generate_series(1, 100000) i;
DELETE FROM same WHERE id BETWEEN 40000 AND 60000;
VACUUM same;
SELECT count(check_table('duplicates', 'same'));
INSERT INTO same SELECT i, 1 FROM generate_series(1, 30000) i;
DELETE FROM same WHERE v = 1 AND id % 10 <> 0;
VACUUM same;
SELECT count(check_table('fewer duplicates', 'same'));
DELETE FROM same WHERE v = 1;
VACUUM same;
SELECT count(check_table('no duplicates', 'same'));
SELECT entries, dead_entries FROM fpbtree_stats('same_idx');
-- Rows that come and go at one end, as in a queue: the index does not grow without bound.
CREATE TABLE queue (id int, v int) WITH (autovacuum_enabled = off);
CREATE INDEX queue_idx ON queue USING fpbtree (v);
\set ECHO none
SELECT format(q, n * 5000) FROM generate_series(1, 12) n,
  unnest(ARRAY['INSERT INTO queue SELECT i, i FROM generate_series(%1$s + 1, %1$s + 5000) i', 'DELETE FROM queue WHERE v <= %1$s', 'VACUUM queue']) WITH ORDINALITY u(q, k) ORDER BY n, k \gexec
\set ECHO all
SELECT count(check_table('queue', 'queue'));
SELECT pg_relation_size('queue_idx') < 4 * 5000 * 20 AS bounded, entries FROM fpbtree_stats('queue_idx');
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
\set ECHO none
SELECT 'DROP TABLE ' || string_agg('o_' || replace(name, ' ', '_'), ', ') FROM orders \gexec
\set ECHO all
-- A build that does not fit in memory: sorted runs in files, merged.
SET maintenance_work_mem = '1MB';
CREATE TABLE spilled AS SELECT hashint4(i) AS v, hashint8(i)::int8 AS w, md5(i::text)::uuid AS u FROM generate_series(1, 300000) i;
CREATE INDEX spilled_v ON spilled USING fpbtree (v);
CREATE INDEX spilled_w ON spilled USING fpbtree (w DESC);
CREATE INDEX spilled_u ON spilled USING fpbtree (u);
SELECT i AS index, (SELECT count(*) FROM fpbtree_check(i::regclass, true)) AS problems, entries
  FROM unnest('{spilled_v,spilled_w,spilled_u}'::text[]) i, LATERAL fpbtree_stats(i::regclass);
-- The same key in the first run and in the last.
INSERT INTO spilled SELECT v, w, u FROM spilled LIMIT 1;
CREATE UNIQUE INDEX spilled_unique ON spilled USING fpbtree (u);
RESET maintenance_work_mem;
-- Few keys, and a scan that does not come to their rows in the order of TIDs: half of these have newer versions.
CREATE TABLE moved (k int, v int) WITH (fillfactor = 40);
INSERT INTO moved SELECT i % 5, i FROM generate_series(1, 100000) i;
UPDATE moved SET v = -v WHERE v % 2 = 1;
CREATE INDEX moved_k ON moved USING fpbtree (k);
SELECT count(*) AS problems FROM fpbtree_check('moved_k', true);
DROP TABLE moved;
DROP TABLE spilled;
DROP MATERIALIZED VIEW view;
DROP TABLE orders, size, clustered, before, partial, expression, failing, part, part_2, unlogged, copied, exclusive, same, queue;
DROP FUNCTION check_table;
