-- What a session remembers of where leaves are: that lookups use it, that it is forgotten when it has to be, and that no
-- answer depends on it.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET max_parallel_workers_per_gather = 0;
CREATE TABLE hot (id serial, v int, w int8, t text COLLATE "C", u uuid);
INSERT INTO hot (v, w, t, u)
    SELECT hashint4(i), hashint8extended(i, 1), md5(i::text), md5((-i)::text)::uuid FROM generate_series(1, 60000) i;
CREATE INDEX hot_id ON hot USING fpbtree (id) WITH (hot_cache = off);
CREATE INDEX hot_v ON hot USING fpbtree (v) WITH (hot_cache = off);
CREATE INDEX hot_w ON hot USING fpbtree (w) WITH (hot_cache = off);
CREATE INDEX hot_t ON hot USING fpbtree (t) WITH (hot_cache = off);
CREATE INDEX hot_u ON hot USING fpbtree (u) WITH (hot_cache = off);
VACUUM (ANALYZE) hot;

-- Looks up every tenth row by each of its keys, and counts those found.
CREATE FUNCTION look_up() RETURNS TABLE (key text, found bigint) LANGUAGE plpgsql AS $$
DECLARE
    r hot;
    n int[] := '{0,0,0,0,0}';
BEGIN
    FOR r IN SELECT * FROM hot WHERE id % 10 = 0 LOOP
        n[1] := n[1] + (SELECT count(*) FROM hot WHERE id = r.id);
        n[2] := n[2] + (SELECT count(*) FROM hot WHERE v = r.v);
        n[3] := n[3] + (SELECT count(*) FROM hot WHERE w = r.w);
        n[4] := n[4] + (SELECT count(*) FROM hot WHERE t = r.t);
        n[5] := n[5] + (SELECT count(*) FROM hot WHERE u = r.u);
    END LOOP;
    RETURN QUERY SELECT unnest('{id,v,w,t,u}'::text[]), unnest(n)::bigint;
END $$;

-- What the cache has done for each index since it was asked last.
CREATE FUNCTION cached() RETURNS TABLE (index text, hits bool, few_misses bool, no_stale bool, no_evictions bool, memory bool)
LANGUAGE sql AS $$
    SELECT i, s.hits > 5000, s.misses BETWEEN 1 AND 2 * leaf_pages, s.stale < 20, s.evictions = 0, s.bytes > 0
      FROM unnest('{hot_id,hot_v,hot_w,hot_t,hot_u}'::text[]) i, fpbtree_stat_hot(i::regclass) s, fpbtree_stats(i::regclass);
$$;

SELECT i, s.* FROM unnest('{hot_id,hot_v}'::text[]) i, fpbtree_stat_hot(i::regclass) s;
SELECT * FROM look_up();
SELECT * FROM cached();

-- Counted anew, and by now every leaf is known.
SELECT count(fpbtree_stat_hot_reset(i::regclass)) FROM unnest('{hot_id,hot_v,hot_w,hot_t,hot_u}'::text[]) i;
SELECT * FROM look_up();
SELECT i, hits, misses, stale FROM unnest('{hot_id,hot_v}'::text[]) i, fpbtree_stat_hot(i::regclass);

-- Turned off: nothing is asked or learned, and everything is found.
SET fpbtree.descent_cache_size = 0;
SELECT count(fpbtree_stat_hot_reset(i::regclass)) FROM unnest('{hot_id,hot_v}'::text[]) i;
SELECT * FROM look_up();
SELECT i, hits, misses, stale FROM unnest('{hot_id,hot_v}'::text[]) i, fpbtree_stat_hot(i::regclass);

-- Tiny: the indexes push each other out, again and again.
SET fpbtree.descent_cache_size = '16kB';
SELECT * FROM look_up();
SELECT sum(bytes) <= 16384 AS within FROM unnest('{hot_id,hot_v,hot_w,hot_t,hot_u}'::text[]) i, fpbtree_stat_hot(i::regclass);
RESET fpbtree.descent_cache_size;

-- Rows come, go and move; leaves are split, emptied and used again.
INSERT INTO hot (v, w, t, u)
    SELECT hashint4(i), hashint8extended(i, 1), md5(i::text), md5((-i)::text)::uuid FROM generate_series(60001, 90000) i;
SELECT * FROM look_up();
DELETE FROM hot WHERE id < 40000 OR v BETWEEN 0 AND 500000000;
VACUUM hot;
INSERT INTO hot (v, w, t, u)
    SELECT hashint4(i), hashint8extended(i, 1), md5(i::text), md5((-i)::text)::uuid FROM generate_series(90001, 130000) i;
SELECT key, found = (SELECT count(*) FROM hot WHERE id % 10 = 0) AS all FROM look_up();
SELECT count(*) FROM unnest('{hot_id,hot_v,hot_w,hot_t,hot_u}'::text[]) i, fpbtree_check(i::regclass, true);

-- Backwards, from either end, and ranges.
SELECT (SELECT max(v) FROM hot WHERE v < x.v) = (SELECT max(v) FROM (SELECT v + 0 AS v FROM hot) y WHERE y.v < x.v) AS same, count(*)
  FROM (SELECT v FROM hot WHERE id % 4000 = 0 UNION SELECT max(v) FROM hot UNION SELECT 2147483647) x GROUP BY 1;
SELECT min(v) = (SELECT min(v + 0) FROM hot), max(v) = (SELECT max(v + 0) FROM hot) FROM hot;

-- Many rows of few keys, more than one leaf of each.
CREATE TABLE few (k int, big int8);
CREATE INDEX few_k ON few USING fpbtree (k);
CREATE INDEX few_big ON few USING fpbtree (big);
INSERT INTO few SELECT i % 5, i % 3 - 1 FROM generate_series(1, 20000) i;
INSERT INTO few SELECT i % 5, i % 3 - 1 FROM generate_series(1, 20000) i;
SELECT k, (SELECT count(*) FROM few f WHERE f.k = g.k) FROM generate_series(-1, 5) g(k);
SELECT k, (SELECT count(*) FROM few f WHERE f.big = g.k) FROM generate_series(-2, 2) g(k);
SELECT count(*) FROM fpbtree_check('few_k', true);
SELECT count(*) FROM fpbtree_check('few_big', true);

-- Another file, another index: nothing of the old one is believed.
REINDEX INDEX hot_v;
SELECT hits, misses FROM fpbtree_stat_hot('hot_v');
SELECT * FROM look_up() WHERE key = 'v';
TRUNCATE hot;
SELECT * FROM look_up();
INSERT INTO hot (v) SELECT generate_series(1, 2000);
SELECT found FROM look_up() WHERE key = 'v';
BEGIN;
TRUNCATE hot;
INSERT INTO hot (v) SELECT generate_series(1, 30000);
SELECT found FROM look_up() WHERE key = 'v';
ROLLBACK;
SELECT found FROM look_up() WHERE key = 'v';

-- Temporary tables, whose pages are this session's own.
CREATE TEMP TABLE mine AS SELECT i, hashint4(i) AS v FROM generate_series(1, 30000) i;
CREATE INDEX mine_v ON mine USING fpbtree (v);
SELECT sum((SELECT count(*) FROM mine WHERE v = hashint4(g))) FROM generate_series(1, 30000) g;
SELECT hits > 20000 AS hits FROM fpbtree_stat_hot('mine_v');

-- More indexes than there is memory for.
SET fpbtree.descent_cache_size = '100kB';
DO $$
BEGIN
    FOR i IN 1 .. 40 LOOP
        EXECUTE format('CREATE TABLE hot_%s AS SELECT g AS v FROM generate_series(1, 6000) g', i);
        EXECUTE format('CREATE INDEX hot_%s_v ON hot_%s USING fpbtree (v)', i, i);
    END LOOP;
    FOR turn IN 1 .. 3 LOOP
        FOR i IN 1 .. 40 LOOP
            EXECUTE format('SELECT sum((SELECT count(*) FROM hot_%s WHERE v = g)) FROM generate_series(1, 6000, 7) g', i);
        END LOOP;
    END LOOP;
END $$;
SELECT sum(bytes) BETWEEN 50000 AND 102400 AS within FROM generate_series(1, 40) i, fpbtree_stat_hot(format('hot_%s_v', i)::regclass);

-- Wrong arguments.
SELECT * FROM fpbtree_stat_hot('hot');
SELECT fpbtree_stat_hot_reset('pg_class_oid_index');
SELECT * FROM fpbtree_stat_hot(NULL);
SET fpbtree.descent_cache_size = 'much';
SHOW fpbtree.descent_cache_size;
