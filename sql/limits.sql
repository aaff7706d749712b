-- What the server refuses to any ordered index that is not btree's own, as docs/reference.md tells it, and
-- the ways round it. The same on every version unless said otherwise; a second method made of btree's
-- handler meets the same refusals.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set harness :srcdir '/sql/harness.inc'
\i :harness
\set ECHO all
CREATE FUNCTION modern() RETURNS boolean LANGUAGE sql AS $$ SELECT current_setting('server_version_num')::int >= 180000 $$;
-- Statements, and what becomes of them before 18 and from 18 on: ok, or the SQLSTATE.
CREATE TABLE stated (n serial, statement text, before text, since text);
CREATE FUNCTION as_stated(l stated) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  got text := harness.outcome(l.statement);
  expected text := CASE WHEN modern() THEN l.since ELSE l.before END;
BEGIN
  IF got = expected OR left(got, 5) = expected THEN
    RETURN 'as stated';
  END IF;
  RETURN format('not %s, but %s', expected, got);
END $$;
-- Constraints that own their index: what works is undone by an error of its own.
CREATE TABLE t (id int NOT NULL, v text COLLATE "C" NOT NULL, w int, b bool);
INSERT INTO t SELECT i, 'v' || i, i % 10, i % 2 = 0 FROM generate_series(1, 500) i;
CREATE UNIQUE INDEX t_id ON t USING fpbtree (id);
CREATE UNIQUE INDEX t_v ON t USING fpbtree (v);
INSERT INTO stated (statement, before, since) VALUES
('CREATE TABLE none (id int PRIMARY KEY WITH (method = fpbtree), v int UNIQUE WITH (method = fpbtree) DEFERRABLE); SELECT 1 / 0', '0A000', '22012'),
('ALTER TABLE t ADD PRIMARY KEY USING INDEX t_id; SELECT 1 / 0', '42809', '22012'),
('ALTER TABLE t ADD CONSTRAINT t_unique UNIQUE USING INDEX t_v DEFERRABLE; SELECT 1 / 0', '42809', '22012');
SELECT statement, as_stated(l) FROM stated l ORDER BY n;
-- Before 18, their ways round: a unique index, with NOT NULL for a key; a constraint that excludes equals, which can be deferred.
SELECT s, left(harness.outcome(s), 5) FROM unnest(ARRAY['INSERT INTO t VALUES (5, ''other'')', 'INSERT INTO t VALUES (NULL, ''other'')', 'ALTER TABLE t ADD CONSTRAINT t_excludes EXCLUDE USING fpbtree (v WITH =) DEFERRABLE INITIALLY DEFERRED']) s;
-- ON CONFLICT, once the table has a unique index of this kind.
TRUNCATE stated;
CREATE TABLE conflict (id int PRIMARY KEY, v int, w int);
INSERT INTO conflict VALUES (1, 1, 1);
INSERT INTO stated (statement, before, since) VALUES
('INSERT INTO conflict VALUES (1, 2, 3) ON CONFLICT (id) DO NOTHING', 'ok', 'ok'),
('CREATE UNIQUE INDEX conflict_v ON conflict USING fpbtree (v)', 'ok', 'ok'),
('INSERT INTO conflict VALUES (1, 2, 3) ON CONFLICT DO NOTHING', 'XX000', 'ok'),
('INSERT INTO conflict VALUES (1, 2, 3) ON CONFLICT (id) DO UPDATE SET w = 4', 'XX000', 'ok'),
('INSERT INTO conflict VALUES (2, 1, 3) ON CONFLICT (v) DO UPDATE SET w = 5', 'XX000', 'ok'),
-- The class that is named is btree's, whatever it is called: no index of ours has it, on any version.
('INSERT INTO conflict VALUES (2, 1, 3) ON CONFLICT (v int4_ops) DO NOTHING', '42P10', '42P10'),
('INSERT INTO conflict VALUES (1, 2, 3)', '23505', '23505'),
('MERGE INTO conflict c USING (VALUES (1, 9), (7, 7)) s (id, w) ON c.id = s.id WHEN MATCHED THEN UPDATE SET w = s.w WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.id, s.w)', 'ok', 'ok'),
('DROP INDEX conflict_v', 'ok', 'ok'),
('CREATE INDEX conflict_v ON conflict USING fpbtree (v)', 'ok', 'ok'),
('ALTER TABLE conflict ADD CONSTRAINT conflict_w EXCLUDE USING fpbtree (w WITH =)', 'ok', 'ok'),
('INSERT INTO conflict VALUES (1, 2, 3) ON CONFLICT (id) DO UPDATE SET v = 6', 'ok', 'ok'),
('INSERT INTO conflict VALUES (8, 2, 9) ON CONFLICT DO NOTHING', 'ok', 'ok');
SELECT statement, as_stated(l) FROM stated l ORDER BY n;
SELECT id, v, w FROM conflict ORDER BY id;
-- Foreign keys to a table that has only such an index; another way, a btree index beside it.
TRUNCATE stated;
INSERT INTO stated (statement, before, since) VALUES
('CREATE TABLE referring (id int REFERENCES t (id))', 'XX000', 'ok'),
('DROP TABLE IF EXISTS referring', 'ok', 'ok'),
('CREATE TABLE referring (v text COLLATE "C" REFERENCES t (v))', 'XX000', 'ok'),
('DROP TABLE IF EXISTS referring', 'ok', 'ok'),
('ALTER TABLE t ADD CONSTRAINT t_key UNIQUE (id)', 'ok', 'ok'),
('DROP INDEX t_id', 'ok', 'ok'),
('CREATE TABLE referring (id int REFERENCES t (id))', 'ok', 'ok'),
('INSERT INTO referring VALUES (7)', 'ok', 'ok'),
('INSERT INTO referring VALUES (-7)', '23503', '23503'),
-- On the referring side any index will do.
('CREATE INDEX referring_id ON referring USING fpbtree (id)', 'ok', 'ok'),
('DELETE FROM t WHERE id = 7', '23503', '23503'),
('DELETE FROM t WHERE id = 8', 'ok', 'ok'),
('DROP TABLE referring', 'ok', 'ok'),
('ALTER TABLE t DROP CONSTRAINT t_key', 'ok', 'ok'),
('CREATE UNIQUE INDEX t_id ON t USING fpbtree (id)', 'ok', 'ok');
SELECT statement, as_stated(l) FROM stated l ORDER BY n;
-- Unique indexes of partitioned tables; of a partition by itself, and any other, they can be.
TRUNCATE stated;
CREATE TABLE part (id int, v text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (100);
INSERT INTO stated (statement, before, since) VALUES
('CREATE UNIQUE INDEX part_id ON part USING fpbtree (id)', '0A000', 'ok'),
('CREATE UNIQUE INDEX part_1_own ON part_1 USING fpbtree (id)', 'ok', 'ok'),
('CREATE INDEX part_v ON part USING fpbtree (v)', 'ok', 'ok');
SELECT statement, as_stated(l) FROM stated l ORDER BY n;
-- REFRESH MATERIALIZED VIEW CONCURRENTLY.
TRUNCATE stated;
CREATE MATERIALIZED VIEW view AS SELECT id, v FROM t WHERE id < 10;
INSERT INTO stated (statement, before, since) VALUES
('CREATE UNIQUE INDEX view_id ON view USING fpbtree (id)', 'ok', 'ok'),
('REFRESH MATERIALIZED VIEW CONCURRENTLY view', '55000', 'ok'),
('REFRESH MATERIALIZED VIEW view', 'ok', 'ok'),
('CREATE UNIQUE INDEX view_v ON view (v)', 'ok', 'ok'),
('REFRESH MATERIALIZED VIEW CONCURRENTLY view', 'ok', 'ok');
SELECT statement, as_stated(l) FROM stated l ORDER BY n;
SELECT count(*), harness.sound('view', 'view_id') FROM view;
-- Replica identity: the statement is accepted (17's subscriber then refuses to apply).
TRUNCATE stated;
INSERT INTO stated (statement, before, since) VALUES
('ALTER TABLE t REPLICA IDENTITY USING INDEX t_id', 'ok', 'ok'),
('ALTER TABLE t REPLICA IDENTITY DEFAULT', 'ok', 'ok'),
-- And what might be feared, but is not refused.
('CLUSTER t USING t_v', 'ok', 'ok'),
('ALTER TABLE t SET WITHOUT CLUSTER', 'ok', 'ok'),
('CREATE INDEX t_many ON t USING fpbtree (w, b, v DESC NULLS LAST)', 'ok', 'ok');
SELECT statement, as_stated(l) FROM stated l ORDER BY n;
SELECT harness.sound('clustered', i::regclass) FROM unnest('{t_id,t_v,t_many}'::text[]) i;
-- Plans. A btree table beside ours, filled alike; "same" says that the answers are.
CREATE TABLE r (a int, b int, c int) WITH (autovacuum_enabled = off);
INSERT INTO r SELECT i % 20, i % 30, i FROM generate_series(1, 3000) i;
CREATE TABLE bt AS SELECT * FROM r;
CREATE INDEX r_ab ON r USING fpbtree (a, b);
CREATE INDEX bt_ab ON bt (a, b);
ANALYZE r, bt;
CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  line text;
  lines text := '';
BEGIN
  PERFORM harness.use('indexonly');
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    lines := concat_ws(E'\n', nullif(lines, ''), line);
  END LOOP;
  RETURN lines;
END $$;
CREATE FUNCTION same(query text) RETURNS boolean LANGUAGE sql AS $$
  SELECT bool_and(harness.answer(format(query, 'r'), way, false) = harness.answer(format(query, 'bt'), 'seq', false)) FROM unnest('{seq,index,indexonly,bitmap}'::text[]) way
$$;
-- Row comparisons are filters, not conditions of the index, before 18. (A bound on the first column is a way round.)
SELECT q, same(q), modern() OR plan(format(q, 'r')) ~ 'Filter: \(ROW' AND plan(format(q, 'bt')) ~ 'Index Cond: \(ROW' AS as_stated
  FROM unnest(ARRAY['SELECT a, b FROM %s WHERE (a, b) > (17, 5)', 'SELECT a, b FROM %s WHERE (a, b) <= (2, 28)']) q;
SELECT q, same(q), plan(format(q, 'r')) ~ 'Index Cond: .*a >= 17' AS bounded
  FROM unnest(ARRAY['SELECT a, b FROM %s WHERE (a, b) > (17, 5) AND a >= 17']) q;
-- Ordered by the index, an array condition on a later column is a filter before 17; with btree too.
SELECT q, same(q), plan(format(q, 'r')) ~ 'Filter: \(b = ANY' = (current_setting('server_version_num')::int < 170000) AS as_stated, plan(format(q, 'bt')) ~ 'Filter: \(b = ANY' = (plan(format(q, 'r')) ~ 'Filter: \(b = ANY') AS as_btree
  FROM unnest(ARRAY['SELECT a, b FROM %s WHERE a > 5 AND b = ANY (''{3,1,7,NULL}'') ORDER BY a, b', 'SELECT a, b FROM %s WHERE a > 5 AND b = ANY (''{3,1,7,NULL}'') ORDER BY a DESC, b DESC']) q;
SELECT q, same(q), plan(format(q, 'r')) !~ 'Sort' AS by_index
  FROM unnest(ARRAY['SELECT a, b FROM %s WHERE a = ANY (''{3,1,7,NULL}'') ORDER BY a, b', 'SELECT a, b FROM %s WHERE a > 5 ORDER BY a, b']) q;
-- Beyond the values that ANALYZE saw, estimates go by the smallest and the largest that an index really has: from 18 on
-- as with btree; before, not. ANALYZE is the way round.
CREATE TABLE grown (v int) WITH (autovacuum_enabled = off);
INSERT INTO grown SELECT generate_series(1, 1000);
CREATE TABLE bt_grown (LIKE grown) WITH (autovacuum_enabled = off);
INSERT INTO bt_grown SELECT v FROM grown;
CREATE INDEX grown_v ON grown USING fpbtree (v);
CREATE INDEX bt_grown_v ON bt_grown (v);
ANALYZE grown, bt_grown;
INSERT INTO grown SELECT i * side FROM generate_series(1001, 10000) i, unnest('{1,-1}'::int[]) side;
INSERT INTO bt_grown SELECT i * side FROM generate_series(1001, 10000) i, unnest('{1,-1}'::int[]) side;
CREATE FUNCTION estimate(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  plan jsonb;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN plan #>> '{0,Plan,Plan Rows}';
END $$;
SELECT q, CASE WHEN modern() THEN estimate(format(q, 'grown')) = estimate(format(q, 'bt_grown')) ELSE estimate(format(q, 'grown')) * 10 < estimate(format(q, 'bt_grown')) END AS as_stated, estimate(format(q, 'bt_grown')) > 100 AS btree_knows
  FROM unnest(ARRAY['SELECT FROM %s WHERE v > 1000', 'SELECT FROM %s WHERE v < 1']) q;
ANALYZE grown, bt_grown;
SELECT q, estimate(format(q, 'grown')) = estimate(format(q, 'bt_grown')) AS as_btree, estimate(format(q, 'grown')) BETWEEN 8000 AND 10000 AS close
  FROM unnest(ARRAY['SELECT FROM %s WHERE v > 1000', 'SELECT FROM %s WHERE v < 1']) q;
-- What the planner's hook gives back is in planner.sql; the answers are right with it or without.
CREATE TABLE h (id int, b bool, v text COLLATE "C", x text) WITH (autovacuum_enabled = off);
INSERT INTO h SELECT i, i % 3 = 0, left(md5(i::text), 5), left(md5(i::text), 5) FROM generate_series(1, 2000) i;
CREATE INDEX h_b ON h USING fpbtree (b, id);
CREATE INDEX h_v ON h USING fpbtree (v);
CREATE INDEX h_x ON h USING fpbtree (x text_pattern_ops);
CREATE UNIQUE INDEX h_id ON h USING fpbtree (id);
CREATE TABLE h2 AS SELECT * FROM h;
ANALYZE h, h2;
SELECT q, bool_and(harness.answer(format(q, 'h'), way, false) = harness.answer(format(q, 'h2'), 'seq', false)) AS same
  FROM unnest(ARRAY['SELECT id FROM %s WHERE b', 'SELECT id FROM %s WHERE NOT b AND id > 50', 'SELECT id FROM %s WHERE b IS TRUE', 'SELECT id FROM %s WHERE b IS NOT TRUE', 'SELECT id FROM %s WHERE b IS UNKNOWN',
                    'SELECT id FROM %s WHERE v LIKE ''a%%''', 'SELECT id FROM %s WHERE v LIKE ''a_c%%''', 'SELECT id FROM %s WHERE v ~ ''^ab''', 'SELECT id FROM %s WHERE v ^@ ''c4''', 'SELECT id FROM %s WHERE v LIKE ''a87ff''',
                    'SELECT id FROM %s WHERE x LIKE ''a%%''', 'SELECT id FROM %s WHERE x ~ ''^(ab|ac)''', 'SELECT id FROM %s WHERE x ILIKE ''A%%''', 'SELECT id FROM %s WHERE v NOT LIKE ''a%%''',
                    'SELECT o.id FROM %s o LEFT JOIN h i ON i.id = o.id', 'SELECT o.id FROM %s o WHERE EXISTS (SELECT FROM h i WHERE i.id = o.id + 1)', 'SELECT min(id), max(id) FROM %s WHERE b', 'SELECT min(v), max(x) FROM %s',
                    'SELECT DISTINCT b FROM %s', 'SELECT id, b FROM %s ORDER BY b, id', 'SELECT count(*) FROM %s GROUP BY id']) q, unnest('{seq,index,indexonly,bitmap}'::text[]) way GROUP BY q ORDER BY q COLLATE "C";
SELECT * FROM harness.summary;
SELECT * FROM harness.problem ORDER BY test, query LIMIT 20;
DROP FUNCTION as_stated, plan, same, estimate, modern;
DROP MATERIALIZED VIEW view;
DROP TABLE stated, t, conflict, part, r, bt, grown, bt_grown, h, h2;
