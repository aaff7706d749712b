-- Statements that insert many rows: on 17 and later their entries are collected, and inserted together. Whatever may look at
-- an index in between finds all of them.
CREATE SCHEMA batches;
SET search_path = batches, public;
SET client_min_messages = warning;
\set VERBOSITY terse
CREATE FUNCTION batches.indexes(tab regclass) RETURNS SETOF regclass LANGUAGE sql AS
  'SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
   WHERE indrelid = tab AND amname = ''fpbtree'' ORDER BY 1';
-- What checks of a table's indexes say: nothing.
CREATE FUNCTION batches.flaws(tab regclass) RETURNS TABLE (index regclass, what text) LANGUAGE sql AS
  'SELECT i, f.what FROM batches.indexes(tab) i, fpbtree_check(i, true) f';
-- How many rows there are, by each index and by none.
CREATE FUNCTION batches.counted(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    by_index bigint;
    by_none bigint;
BEGIN
    PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('fpbtree.custom_scans', 'off', true);
    EXECUTE 'SELECT count(*) FROM batches.' || condition INTO by_index;
    PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
    EXECUTE 'SELECT count(*) FROM batches.' || condition INTO by_none;
    PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
    RETURN CASE WHEN by_index = by_none THEN by_none::text ELSE format('by index %s, by none %s', by_index, by_none) END;
END $$;

-- Every kind of keys, and indexes that are partial, of expressions, with more columns than keys.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE kinds (id int, k int, b bigint, u uuid, n numeric, t text, c text COLLATE "C", f float8, m mood, a int[], d date);
CREATE INDEX ON kinds USING fpbtree (k);
CREATE INDEX ON kinds USING fpbtree (b DESC NULLS LAST);
CREATE INDEX ON kinds USING fpbtree (u);
CREATE INDEX ON kinds USING fpbtree (n);
CREATE INDEX ON kinds USING fpbtree (t);
CREATE INDEX ON kinds USING fpbtree (c) INCLUDE (id, t);
CREATE INDEX ON kinds USING fpbtree (f, b);
CREATE INDEX ON kinds USING fpbtree (m, k);
CREATE INDEX ON kinds USING fpbtree (a);
CREATE INDEX ON kinds USING fpbtree (d, m, t);
CREATE INDEX ON kinds USING fpbtree (k) WHERE d > '2020-06-01';
CREATE INDEX ON kinds USING fpbtree ((k + id), lower(t));
CREATE UNIQUE INDEX ON kinds USING fpbtree (id);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
  INSERT INTO batches.kinds SELECT i, NULLIF(hashint4(i) % 1000, 7), hashint8(i)::bigint << 20, md5(i::text)::uuid, (hashint4(i + 5) % 100000) / 100.0,
    NULLIF('name ' || md5((i % 700)::text), 'name ' || md5('5')), repeat(chr(97 + i % 26), i % 40) || i, NULLIF(i % 1013, 1) / 7.0,
    (enum_range(NULL::batches.mood))[1 + i % 3], ARRAY[i % 10, i % 7, hashint4(i)], date '2020-01-01' + i % 366
  FROM generate_series(first, last) i $$;
SELECT fill(1, 3000);
SELECT fill(3001, 3100);
SET fpbtree.insert_batch = 64;
SELECT fill(3101, 9000);
SET fpbtree.insert_batch = 0;
SELECT fill(9001, 9500);
RESET fpbtree.insert_batch;
SELECT * FROM flaws('kinds');
SELECT counted('kinds WHERE k BETWEEN 1 AND 300') AS k, counted('kinds WHERE m = ''ok''') AS m, counted('kinds WHERE a > ARRAY[5]') AS a,
  counted('kinds WHERE n < 30') AS n, counted('kinds WHERE k IS NULL') AS nulls, counted('kinds WHERE c > ''k''') AS c;
-- Updates, of keys and of other columns; MERGE; deletions and insertions in one statement.
UPDATE kinds SET k = k + 1, t = t || '!' WHERE id % 3 = 0;
UPDATE kinds SET f = f WHERE id % 2 = 0;
UPDATE kinds SET b = k WHERE k BETWEEN 100 AND 400;
MERGE INTO kinds USING (SELECT i FROM generate_series(9000, 10000) i) s ON id = i
  WHEN MATCHED THEN UPDATE SET k = 5 WHEN NOT MATCHED THEN INSERT (id, k, t) VALUES (i, i, 'merged');
WITH gone AS (DELETE FROM kinds WHERE id % 5 = 0 RETURNING *) INSERT INTO kinds SELECT id + 100000, k, b, u, n, t, c, f, m, a, d FROM gone;
SELECT * FROM flaws('kinds');
SELECT counted('kinds WHERE k = 5') AS five, counted('kinds WHERE t = ''merged''') AS merged, counted('kinds WHERE k >= 0') AS k;
VACUUM kinds;
SELECT * FROM flaws('kinds');

-- Rows in every order.
CREATE TABLE orders (name text, expression text);
INSERT INTO orders VALUES ('ascending', 'i'), ('descending', '-i'), ('random', 'hashint4(i)'), ('alike', '7'), ('few', 'i % 3'), ('nulls', 'NULL'),
  ('outside_in', 'CASE WHEN i % 2 = 0 THEN i ELSE 200000 - i END'), ('halves', 'i % 2 * 1000000 + i');
SELECT format('CREATE TABLE %1$s (id int, v int); CREATE INDEX ON %1$s USING fpbtree (v); CREATE INDEX ON %1$s USING fpbtree ((v::text))', name) FROM orders \gexec
SELECT format('INSERT INTO %s SELECT i, %s FROM generate_series(1, 20000) i', name, expression) FROM orders \gexec
SELECT format('DELETE FROM %s WHERE id %% 4 < 2', name) FROM orders \gexec
SELECT 'VACUUM ' || string_agg(name, ', ') FROM orders \gexec
SELECT format('INSERT INTO %s SELECT i, %s FROM generate_series(15001, 25000) i', name, expression) FROM orders \gexec
SELECT name, f.* FROM orders, flaws(name::regclass) f;
SELECT name, counted(name || ' WHERE v >= 7') FROM orders ORDER BY name COLLATE "C";

-- Whoever looks during the statement: a function, triggers before and after, with and without subtransactions.
CREATE TABLE seen (k int, n bigint, by text);
CREATE TABLE t (k int, v int);
CREATE INDEX t_k ON t USING fpbtree (k);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    IF NEW.k % 1000 = 0 THEN
        SELECT count(*) INTO n FROM batches.t WHERE k BETWEEN NEW.k - 500 AND NEW.k;
        INSERT INTO batches.seen VALUES (NEW.k, n, TG_WHEN || ' ' || TG_LEVEL);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER before BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER after AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION look();
CREATE FUNCTION so_far(upto int) RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT count(*) FROM batches.t WHERE k BETWEEN 0 AND upto';
SET enable_seqscan = off;
INSERT INTO t SELECT i, CASE WHEN i % 500 = 0 THEN so_far(i) END FROM generate_series(1, 4000) i;
SELECT k, v FROM t WHERE v IS NOT NULL ORDER BY k;
SELECT * FROM seen ORDER BY k, by;
DROP TRIGGER before ON t;
DROP TRIGGER after ON t;
TRUNCATE t, seen;
-- What a subtransaction inserts is gone with it, and what the statement around it inserts stays.
CREATE FUNCTION attempt(i int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$
DECLARE
    n int := 0;
BEGIN
    BEGIN
        INSERT INTO batches.t SELECT 100000 + i * 1000 + j, j FROM generate_series(1, 300) j;
        SELECT count(*) INTO n FROM batches.t WHERE k BETWEEN 100000 + i * 1000 AND 100000 + i * 1000 + 999;
        IF i % 2 = 0 THEN
            RAISE EXCEPTION 'no';
        END IF;
    EXCEPTION WHEN raise_exception THEN
        NULL;
    END;
    RETURN n;
END $$;
INSERT INTO t SELECT i, CASE WHEN i % 200 = 0 THEN attempt(i / 200) END FROM generate_series(1, 2000) i;
SELECT count(*), count(v), min(v), max(v) FROM t WHERE k <= 2000;
SELECT (k - 100000) / 1000 AS attempt, count(*) FROM t WHERE k > 100000 GROUP BY 1 ORDER BY 1;
SELECT * FROM flaws('t');
BEGIN;
INSERT INTO t SELECT 200000 + i, i FROM generate_series(1, 500) i;
SAVEPOINT a;
INSERT INTO t SELECT 300000 + i, i FROM generate_series(1, 500) i;
ROLLBACK TO a;
INSERT INTO t SELECT 400000 + i, i FROM generate_series(1, 500) i;
SAVEPOINT b;
INSERT INTO t SELECT 500000 + i, i / (i - 400) FROM generate_series(1, 500) i;
ROLLBACK TO b;
RELEASE a;
COMMIT;
SELECT k / 100000 AS part, count(*) FROM t WHERE k >= 200000 GROUP BY 1 ORDER BY 1;
SELECT * FROM flaws('t');
-- An error in the middle, and all is gone.
INSERT INTO t SELECT 600000 + i, i / (i - 400) FROM generate_series(1, 500) i;
SELECT count(*) FROM t WHERE k > 600000;
-- Functions that look at the index, and one that reads it with a cursor, while a statement goes on.
TRUNCATE t;
CREATE FUNCTION checks(i int) RETURNS bigint VOLATILE LANGUAGE sql AS
  'SELECT entries FROM fpbtree_stats(''batches.t_k'') WHERE NOT EXISTS (SELECT FROM fpbtree_check(''batches.t_k'', true))';
INSERT INTO t SELECT i, CASE WHEN i % 300 = 0 THEN checks(i) END FROM generate_series(1, 900) i;
SELECT k, v FROM t WHERE v IS NOT NULL ORDER BY k;
CREATE FUNCTION reads(i int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$
DECLARE
    c refcursor := 'held';
    n int := 0;
    x int;
BEGIN
    IF i = 1500 THEN
        OPEN c FOR SELECT k FROM batches.t WHERE k > 0 ORDER BY k DESC;
    END IF;
    LOOP
        FETCH c INTO x;
        EXIT WHEN NOT FOUND OR n = 1000;
        n := n + 1;
    END LOOP;
    RETURN n;
END $$;
INSERT INTO t SELECT i, CASE WHEN i >= 1500 AND i % 100 = 0 THEN reads(i) END FROM generate_series(1001, 2000) i;
SELECT k, v FROM t WHERE k > 1000 AND v IS NOT NULL ORDER BY k;
-- Parallel workers, which have nothing of what their leader has collected.
CREATE TABLE numbers AS SELECT i AS k FROM generate_series(1, 3000) i;
ANALYZE numbers;
CREATE FUNCTION in_workers(upto int) RETURNS SETOF bigint VOLATILE LANGUAGE plpgsql
  SET parallel_setup_cost = 0 SET parallel_tuple_cost = 0 SET min_parallel_table_scan_size = 0 SET min_parallel_index_scan_size = 0
  SET max_parallel_workers_per_gather = 2 SET parallel_leader_participation = off SET enable_hashjoin = off SET enable_mergejoin = off
  SET enable_material = off SET enable_memoize = off SET enable_seqscan = on
  AS 'BEGIN RETURN QUERY SELECT count(t.k) FROM batches.numbers JOIN batches.t ON t.k = numbers.k + 2000; END';
INSERT INTO t SELECT i, CASE WHEN i % 250 = 0 THEN (SELECT n FROM in_workers(i) n) END FROM generate_series(2001, 3000) i;
SELECT k, v FROM t WHERE k > 2000 AND v IS NOT NULL ORDER BY k;
-- The statement reads the index that it inserts into.
INSERT INTO t SELECT t.k + 100000, t.v FROM t WHERE k > 0;
INSERT INTO t SELECT a.k + 200000, b.v FROM t a JOIN t b ON b.k = a.k + 1 WHERE a.k BETWEEN 100000 AND 199999;
UPDATE t SET k = k + 1000000 WHERE k > 1500;
SELECT counted('t WHERE k > 100000') AS k, counted('t WHERE k BETWEEN 1 AND 1000') AS few;
SELECT * FROM flaws('t');
RESET enable_seqscan;

-- ON CONFLICT puts rows on trial, which may be taken back.
CREATE TABLE o (id int PRIMARY KEY, k int);
CREATE INDEX o_k ON o USING fpbtree (k);
INSERT INTO o SELECT i, i FROM generate_series(1, 1000) i;
INSERT INTO o SELECT i, -i FROM generate_series(500, 1500) i ON CONFLICT DO NOTHING;
INSERT INTO o SELECT i, -i FROM generate_series(1400, 2000) i ON CONFLICT (id) DO UPDATE SET k = o.k - 1;
SELECT counted('o WHERE k < 0') AS negative, counted('o WHERE k > 0') AS positive;
SELECT * FROM flaws('o');
-- Exclusion constraints are asked of each row.
CREATE TABLE x (k int, EXCLUDE USING fpbtree (k WITH =));
INSERT INTO x SELECT i FROM generate_series(1, 1000) i;
INSERT INTO x SELECT i % 900 + 1001 FROM generate_series(1, 1000) i;
SELECT count(*) FROM x;
-- Partitions, foreign keys, temporary and unlogged tables, COPY.
CREATE TABLE p (k int, v text) PARTITION BY HASH (k);
CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE p2 PARTITION OF p FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE INDEX ON p USING fpbtree (k);
CREATE INDEX ON p USING fpbtree (v);
INSERT INTO p SELECT i, 'v' || i % 100 FROM generate_series(1, 3000) i;
UPDATE p SET k = k + 5000 WHERE k % 2 = 0;
SELECT f.* FROM unnest('{p0,p1,p2}'::regclass[]) tab, flaws(tab) f;
SELECT counted('p WHERE k > 0') AS k, counted('p WHERE v = ''v17''') AS v;
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE, next int);
CREATE INDEX ON child USING fpbtree (id);
INSERT INTO parent SELECT i FROM generate_series(1, 500) i;
INSERT INTO child SELECT i % 500 + 1, i FROM generate_series(1, 3000) i;
INSERT INTO child SELECT i % 501 + 1, i FROM generate_series(1, 3000) i;
DELETE FROM parent WHERE id % 2 = 0;
SELECT counted('child WHERE id > 0') AS rows;
SELECT * FROM flaws('child');
CREATE TEMP TABLE temporary (k int);
CREATE INDEX temporary_k ON temporary USING fpbtree (k);
CREATE UNLOGGED TABLE unlogged (k int);
CREATE INDEX ON unlogged USING fpbtree (k);
INSERT INTO temporary SELECT i FROM generate_series(1, 1000) i;
COPY temporary FROM PROGRAM 'seq 1001 2000';
INSERT INTO unlogged SELECT k FROM temporary;
SELECT * FROM flaws('temporary');
SELECT * FROM flaws('unlogged');
SELECT counted('unlogged WHERE k > 10') AS unlogged;
-- An insertion that fails while a query looks is not to be forgotten, even if the query's error is.
CREATE TYPE w AS (t text);
CREATE FUNCTION w_cmp(a w, b w) RETURNS int IMMUTABLE STRICT LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('batches.fails', true) = 'yes' THEN
        RAISE EXCEPTION 'no comparison today';
    END IF;
    RETURN bttextcmp(a.t COLLATE "C", b.t COLLATE "C");
END $$;
CREATE FUNCTION w_lt(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT batches.w_cmp($1, $2) < 0';
CREATE FUNCTION w_le(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT batches.w_cmp($1, $2) <= 0';
CREATE FUNCTION w_eq(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT batches.w_cmp($1, $2) = 0';
CREATE FUNCTION w_ge(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT batches.w_cmp($1, $2) >= 0';
CREATE FUNCTION w_gt(w, w) RETURNS bool IMMUTABLE STRICT LANGUAGE sql AS 'SELECT batches.w_cmp($1, $2) > 0';
CREATE OPERATOR < (leftarg = w, rightarg = w, function = w_lt, commutator = >, negator = >=);
CREATE OPERATOR <= (leftarg = w, rightarg = w, function = w_le, commutator = >=, negator = >);
CREATE OPERATOR = (leftarg = w, rightarg = w, function = w_eq, commutator = =);
CREATE OPERATOR >= (leftarg = w, rightarg = w, function = w_ge, commutator = <=, negator = <);
CREATE OPERATOR > (leftarg = w, rightarg = w, function = w_gt, commutator = <, negator = <=);
CREATE OPERATOR CLASS w_ops DEFAULT FOR TYPE w USING btree AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 w_cmp(w, w);
SELECT count(*) > 0 AS adopted FROM fpbtree_adopt('w_ops');
CREATE TABLE z (k w, n int);
CREATE INDEX z_k ON z USING fpbtree (k);
CREATE FUNCTION caught(i int) RETURNS int VOLATILE LANGUAGE plpgsql AS $$
BEGIN
    IF i = 400 THEN
        PERFORM set_config('enable_seqscan', 'off', true);
        BEGIN
            PERFORM set_config('batches.fails', 'yes', true);
            PERFORM k FROM batches.z WHERE k > row('')::batches.w;
        EXCEPTION WHEN raise_exception THEN
            PERFORM set_config('batches.fails', 'no', true);
        END;
    END IF;
    RETURN i;
END $$;
CREATE FUNCTION insert_all() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO batches.z SELECT row(md5(i::text))::batches.w, batches.caught(i) FROM generate_series(1, 500) i;
    RETURN 'inserted';
EXCEPTION WHEN in_failed_sql_transaction OR raise_exception THEN
    RETURN 'not inserted: ' || SQLERRM;
END $$;
CREATE TABLE outcome AS SELECT insert_all() AS what;
SELECT (SELECT CASE what WHEN 'inserted' THEN 500 ELSE 0 END FROM outcome) = count(*) AS "all or none" FROM z;
SELECT * FROM flaws('z');
DROP SCHEMA batches CASCADE;
