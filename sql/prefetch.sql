-- Reading ahead: its settings, parameters and counters. What it does is t/008's to test, on a cold server.
CREATE TABLE t (id int, v text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
-- The settings are known once the library is loaded, by its first use or by hand.
LOAD 'fpbtree';
SHOW fpbtree.prefetch;
SHOW fpbtree.prefetch_distance;
SET fpbtree.prefetch = 'sometimes';
SET fpbtree.prefetch_distance = -2;
SET fpbtree.prefetch_distance = 1001;
SET fpbtree.prefetch_distance = 'far';
SET fpbtree.nonsense = 1;
CREATE INDEX t_idx ON t USING fpbtree (id) WITH (prefetch = maybe);
CREATE INDEX t_idx ON t USING fpbtree (id) WITH (prefetch_distance = -2);
CREATE INDEX t_idx ON t USING fpbtree (id) WITH (prefetch_distance = 1001);
CREATE INDEX t_idx ON t USING fpbtree (id) WITH (prefetch_length = 1);
CREATE INDEX t_idx ON t USING fpbtree (id) WITH (fillfactor = 80, prefetch = off, prefetch_distance = 1000);
SELECT pg_get_indexdef('t_idx'::regclass);
ALTER INDEX t_idx SET (prefetch_distance = 1001);
ALTER INDEX t_idx SET (prefetch_distance = 7);
ALTER INDEX t_idx RESET (prefetch);
SELECT reloptions FROM pg_class WHERE relname = 't_idx';
CREATE INDEX t_v ON t USING fpbtree (v);
VACUUM ANALYZE t;
-- The same rows at any distance.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
CREATE FUNCTION rows_at(distance int) RETURNS TABLE (up text, down text, listed text, texts text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('fpbtree.prefetch_distance', distance::text, true);
  RETURN QUERY SELECT
    (SELECT md5(string_agg(v, ',')) FROM (SELECT v FROM t WHERE id BETWEEN 100 AND 15000 ORDER BY id) s),
    (SELECT md5(string_agg(v, ',')) FROM (SELECT v FROM t WHERE id < 9000 ORDER BY id DESC) s),
    (SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM t WHERE id = ANY (ARRAY(SELECT 37 * i FROM generate_series(1, 500) i)) ORDER BY id) s),
    (SELECT md5(string_agg(id::text, ',')) FROM (SELECT id FROM t WHERE v > '8' ORDER BY v) s);
END $$;
SELECT count(DISTINCT r) AS answers, count(*) AS tries FROM unnest('{-1,0,1,7,64,1000}'::int[]) d, rows_at(d) r;
-- The counters: of indexes of ours, for everyone.
SELECT count(*) AS rows FROM fpbtree_stat_prefetch('t_idx');
SELECT used + wasted <= requested AS plausible FROM fpbtree_stat_prefetch('t_v');
SELECT count(*) AS rows FROM fpbtree_stat_prefetch(NULL);
SELECT * FROM fpbtree_stat_prefetch('t');
SELECT * FROM fpbtree_stat_prefetch('pg_class_oid_index');
SELECT * FROM fpbtree_stat_prefetch(0);
DROP FUNCTION rows_at;
DROP TABLE t;
