-- DISTINCT ON, DISTINCT and GROUP BY by jumping from group to group: the same first rows as the server's own Unique gives,
-- whatever is visible.
-- Needs: icu
CREATE SCHEMA d;
SET search_path = d, public;
SET nodes.name = 'FpbtreeDistinct';
SET nodes.ordered = on;
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set nodes :srcdir '/sql/nodes.inc'
\i :nodes
\set ECHO all

-- Each row is told from all others by k.
CREATE TABLE t (k int NOT NULL, a int, b int, s smallint, d date, x text, u uuid, f float8, note text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, NULLIF(i % 13, 5), (i * 7919) % 30011, NULLIF(i % 4, 2), date '2024-01-01' + i % 500, 'word ' || i % 9,
    md5((i % 6)::text)::uuid, (ARRAY['NaN', 0, '-0', 1, 2]::float8[])[1 + i % 5], repeat('note ', i % 30)
  FROM generate_series(1, 20000) i;
CREATE INDEX t_abk ON t USING fpbtree (a, b, k);
CREATE INDEX t_sdk ON t USING fpbtree (s DESC NULLS LAST, d DESC, k);
CREATE INDEX t_uk ON t USING fpbtree (u, k);
CREATE INDEX t_fk ON t USING fpbtree (f, k);
CREATE INDEX t_xk ON t USING fpbtree (x, k);
CREATE INDEX t_a ON t USING fpbtree (a);
CREATE INDEX t_part ON t USING fpbtree (s, b, k) WHERE a = 3;
VACUUM (FREEZE, ANALYZE) t;
-- Keys that are byte strings, some of which only a function orders, and values that are equal but not the same.
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'fair' BEFORE 'happy';
CREATE TABLE w (k int NOT NULL, x text, c text COLLATE "C", i text COLLATE nocase, e mood, n numeric, j jsonb, r int[], l text, p bpchar(6))
  WITH (autovacuum_enabled = off);
INSERT INTO w SELECT i, 'Word ' || NULLIF(i % 40, 3), left(md5((i % 60)::text), i % 5), CASE i % 2 WHEN 1 THEN 'abc' ELSE 'ABC' END || NULLIF(i % 25, 7),
    (enum_range(NULL::mood))[1 + i % 5], round((i % 50) / 4.0 - 3, 2 + i % 3), jsonb_build_object('a', NULLIF(i % 20, 2)),
    ARRAY[i % 7, NULLIF(i % 5, 2)], repeat('long ', i % 2 * 300) || NULLIF(i % 10, 9), left('abc', i % 4)
  FROM generate_series(1, 20000) i;
-- Groups of one row beside each other.
INSERT INTO w (k, x, c, i, n, p) SELECT 20000 + i, 'Rare ' || i, 'rare ' || i, 'rare ' || i, 1000 + i, 'r' || i FROM generate_series(1, 7) i;
CREATE INDEX w_xk ON w USING fpbtree (x, k);
CREATE INDEX w_ck ON w USING fpbtree (c DESC, k);
CREATE INDEX w_cn ON w USING fpbtree (c) INCLUDE (n);
CREATE INDEX w_ik ON w USING fpbtree (i, k);
CREATE INDEX w_i_bytes ON w USING fpbtree (i COLLATE "C", k);
CREATE INDEX w_enk ON w USING fpbtree (e, n, k);
CREATE INDEX w_nk ON w USING fpbtree (n NULLS FIRST, k);
CREATE INDEX w_jk ON w USING fpbtree (j, k);
CREATE INDEX w_rk ON w USING fpbtree (r, k DESC);
CREATE INDEX w_l ON w USING fpbtree (l);
CREATE INDEX w_pxk ON w USING fpbtree (p, x DESC NULLS LAST, k);
VACUUM (FREEZE, ANALYZE) w;
CREATE TABLE devices (a int);
INSERT INTO devices VALUES (1), (3), (5), (12), (77), (NULL);
CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO queries (query) VALUES
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a DESC, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k FROM t ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a) b FROM t ORDER BY a, b'),
  ('SELECT DISTINCT ON (a) k + 1, upper(note) FROM t ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a, b) a, b, k, x FROM t ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (b, a) a, b, k, x FROM t WHERE a < 4 ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (b) a, b, k, x FROM t WHERE a = 4 ORDER BY b, k'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE a > 3 AND b > 20000 ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE a IN (1, 4, 7, 100) ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE x = ''word 3'' ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE x = ''word 3'' AND k % 7 = 2 ORDER BY a DESC, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE x = ''none'' ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE a IS NULL ORDER BY a, b, k'),
  ('SELECT DISTINCT ON (s) s, d, k, x FROM t ORDER BY s DESC NULLS LAST, d DESC, k'),
  ('SELECT DISTINCT ON (s) s, d, k, x FROM t ORDER BY s NULLS FIRST, d, k DESC'),
  ('SELECT DISTINCT ON (s, d) s, d, k, x FROM t ORDER BY s DESC NULLS LAST, d DESC, k'),
  ('SELECT DISTINCT ON (u) u, k, x FROM t ORDER BY u, k'),
  ('SELECT DISTINCT ON (u) u, k, x FROM t WHERE u <> md5(''3'')::uuid ORDER BY u, k'),
  ('SELECT DISTINCT ON (f) f = 0, k, x FROM t ORDER BY f, k'),
  ('SELECT DISTINCT ON (s) s, b, k FROM t WHERE a = 3 ORDER BY s, b, k'),
  ('SELECT * FROM (SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b, k) q WHERE q.k % 2 = 0'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b, k LIMIT 3'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b, k OFFSET 3 LIMIT 4'),
  ('SELECT v.a, q.* FROM devices v LEFT JOIN LATERAL (SELECT DISTINCT ON (b) b, k, note FROM t WHERE t.a = v.a ORDER BY b, k LIMIT 2) q ON true ORDER BY 1, 2'),
  ('SELECT v.a, ARRAY(SELECT DISTINCT ON (s) k FROM t WHERE t.d > ''2024-01-10'' AND t.s <> v.a ORDER BY s DESC NULLS LAST, d DESC, k) FROM devices v ORDER BY 1'),
-- The last rows of groups.
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a DESC, b, k'),
  ('SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE x = ''word 3'' AND k % 7 = 2 ORDER BY a, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE a > 3 AND b < 20000 ORDER BY a, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t WHERE a IN (1, 4, 7, 100) ORDER BY a, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k FROM t WHERE k % 3 = (SELECT count(*) % 3 FROM devices v WHERE v.a <> t.a) ORDER BY a, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, k, note FROM t WHERE b = 17 ORDER BY a, k DESC'),
  ('SELECT DISTINCT ON (s) s, d, k, x FROM t ORDER BY s DESC NULLS LAST, d, k DESC'),
  ('SELECT DISTINCT ON (s, d) s, d, k, x FROM t ORDER BY s DESC NULLS LAST, d DESC, k DESC'),
  ('SELECT DISTINCT ON (s) s, d, k, x FROM t ORDER BY s NULLS FIRST, d DESC, k'),
  ('SELECT DISTINCT ON (s) s, b, k FROM t WHERE a = 3 ORDER BY s, b DESC, k DESC'),
  ('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b DESC, k DESC LIMIT 3'),
-- By any of several indexes, as the order behind the groups says nothing.
  ('SELECT DISTINCT ON (a) a, s FROM t WHERE s = 1 ORDER BY a DESC, s DESC'),
-- Nothing is read where a condition can never hold.
  ('SELECT DISTINCT ON (a) a, b, k FROM t WHERE k = NULL ORDER BY a, b, k'),
  ('SELECT v.a, ARRAY(SELECT DISTINCT ON (s) k FROM t WHERE t.d > ''2024-01-10'' AND t.s <> v.a ORDER BY s DESC NULLS LAST, d, k DESC) FROM devices v ORDER BY 1'),
  ('SELECT DISTINCT ON (x) x, k, note FROM t ORDER BY x, k'),
-- Byte strings.
  ('SELECT DISTINCT ON (x) x, k, l FROM w ORDER BY x, k'),
  ('SELECT DISTINCT ON (x) x, k, l FROM w ORDER BY x, k DESC'),
  ('SELECT DISTINCT ON (x) x, k FROM w WHERE k % 77 = 5 AND p = ''ab'' ORDER BY x DESC, k'),
  ('SELECT DISTINCT x FROM w ORDER BY x'),
  ('SELECT DISTINCT x FROM w WHERE k % 30 = 0 ORDER BY x DESC'),
  ('SELECT x FROM w WHERE x BETWEEN ''Word 2'' AND ''Word 30'' GROUP BY x ORDER BY x'),
  ('SELECT count(*), count(x), max(x) FROM (SELECT DISTINCT x FROM w) s'),
  ('SELECT c FROM w GROUP BY c ORDER BY c DESC LIMIT 20'),
  ('SELECT DISTINCT c FROM w WHERE c > ''3'' AND n > 0 ORDER BY c'),
  ('SELECT DISTINCT ON (i) i, k FROM w ORDER BY i, k'),
  ('SELECT DISTINCT ON (i) i, k FROM w ORDER BY i DESC, k'),
  ('SELECT count(*), min(lower(i)), max(lower(i)) FROM (SELECT DISTINCT i FROM w) s'),
  ('SELECT count(*) FROM (SELECT DISTINCT i FROM w WHERE i = ''Abc9'') s'),
  ('SELECT count(*) FROM (SELECT DISTINCT ON (i) i, k FROM w WHERE i = ''Abc9'' AND i COLLATE "C" >= '''' ORDER BY i) s'),
  ('SELECT DISTINCT e FROM w ORDER BY e'),
  ('SELECT DISTINCT ON (e) e, n, k FROM w ORDER BY e, n, k'),
  ('SELECT DISTINCT ON (e, n) e, n, k FROM w ORDER BY e DESC, n DESC, k'),
  ('SELECT e, trim_scale(n) FROM (SELECT e, n FROM w GROUP BY e, n) s ORDER BY 1, 2'),
  ('SELECT trim_scale(n) FROM (SELECT n FROM w GROUP BY n) s ORDER BY 1'),
  ('SELECT DISTINCT ON (n) n, k FROM w WHERE e <> ''ok'' ORDER BY n NULLS FIRST, k'),
  ('SELECT DISTINCT j FROM w ORDER BY j'),
  ('SELECT DISTINCT ON (j) j, k FROM w ORDER BY j DESC, k DESC'),
  ('SELECT DISTINCT r FROM w ORDER BY r'),
  ('SELECT DISTINCT ON (r) r, k FROM w ORDER BY r, k'),
  ('SELECT DISTINCT l FROM w ORDER BY l'),
  ('SELECT p, x FROM w GROUP BY p, x ORDER BY p, x DESC NULLS LAST'),
  ('SELECT DISTINCT p FROM w WHERE x = ''Word 3'' ORDER BY p'),
  ('SELECT DISTINCT x FROM w WHERE p = ''ab'' ORDER BY x'),
  ('SELECT v.a, ARRAY(SELECT DISTINCT x FROM w WHERE w.k > v.a * 1000 ORDER BY x) FROM devices v ORDER BY 1'),
  ('SELECT v.a, s.x FROM devices v, LATERAL (SELECT x FROM w WHERE w.p = ''ab'' AND w.k > v.a GROUP BY x) s ORDER BY 1, 2'),
-- Not by jumping: conditions that are about no row, another order within the groups than the index's, columns that are no
-- prefix, and what is more than groups.
  ('SELECT DISTINCT x FROM w WHERE current_setting(''application_name'') <> ''none'' ORDER BY x'),
  ('SELECT x FROM w GROUP BY x HAVING now() < ''2001-01-01'' ORDER BY x'),
  ('SELECT DISTINCT ON (x) x, k FROM w WHERE EXISTS (SELECT FROM devices) ORDER BY x, k'),
  ('SELECT DISTINCT ON (a) a, b, k FROM t WHERE (SELECT count(*) > 3 FROM devices) ORDER BY a, b DESC, k DESC'),
  ('SELECT DISTINCT lower(x) FROM w ORDER BY 1'),
  ('SELECT x, count(*) FROM w GROUP BY x ORDER BY x'),
  ('SELECT x FROM w GROUP BY x HAVING max(k) > 19990 ORDER BY x'),
  ('SELECT DISTINCT ON (a) a, b, k FROM t ORDER BY a, b DESC, k'),
  ('SELECT DISTINCT ON (a) a, b, k FROM t ORDER BY a, b, k DESC'),
  ('SELECT DISTINCT ON (b) a, b, k FROM t ORDER BY b, a, k'),
  ('SELECT DISTINCT ON (a + 1) a, b, k FROM t ORDER BY a + 1, b, k');
SELECT n, same(query), query FROM queries ORDER BY n;
SELECT plan('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b, k');
SELECT plan('SELECT DISTINCT ON (a) a, b FROM t WHERE x = ''word 3'' ORDER BY a DESC, b DESC');
SELECT plan('SELECT DISTINCT ON (a) a, b, k, note FROM t ORDER BY a, b DESC, k DESC');
SELECT plan('SELECT DISTINCT ON (b) b, k FROM t WHERE a = 4 ORDER BY b, k');
SELECT plan('SELECT DISTINCT x FROM w');
SELECT plan('SELECT p, x FROM w GROUP BY p, x');
SELECT plan('SELECT DISTINCT ON (i) i, k FROM w ORDER BY i, k DESC');
-- Volatile conditions are looked at for each row; what is shown, for the rows that are.
SELECT plan('SELECT DISTINCT ON (a) a, b, k FROM t WHERE random() < 2 ORDER BY a, b DESC, k DESC');
SELECT plan('SELECT DISTINCT ON (a) a, b, random() FROM t ORDER BY a, b, k');
-- Each row a group of its own: nothing to jump over.
SELECT bool_or(line ~ 'FpbtreeDistinct') AS node FROM plan('SELECT DISTINCT ON (a, b, k) a, b, k, note FROM t ORDER BY a, b, k') line;

-- The first rows of groups, and whole groups, are deleted, changed, and not there yet.
BEGIN;
DELETE FROM t WHERE b < 9000 OR a = 7;
DELETE FROM w WHERE k % 40 IN (2, 5) OR n < 0 OR k < 500;
SELECT n, same(query) FROM queries ORDER BY n;
ROLLBACK;
SELECT n, same(query) FROM queries WHERE n % 3 = 0 ORDER BY n;
DELETE FROM t WHERE b > 20000 OR a = 8;
DELETE FROM w WHERE k % 40 IN (7, 9) OR n > 3;
SELECT n, same(query) FROM queries WHERE n % 3 = 1 ORDER BY n;
VACUUM t, w;
UPDATE t SET b = -b WHERE k % 100 = 0;
UPDATE w SET x = upper(x), e = 'sad', c = NULL WHERE k % 13 = 0;
INSERT INTO t SELECT 30000 + i, i % 20, -40000 - i FROM generate_series(1, 100) i;
SELECT n, same(query) FROM queries WHERE n % 3 = 2 ORDER BY n;

-- Cursors, and a plan that is kept.
SET enable_seqscan = off; SET enable_sort = off;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT DISTINCT ON (a) a, b, k FROM t ORDER BY a, b, k;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE LAST IN c;
FETCH BACKWARD 2 FROM c;
COMMIT;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT DISTINCT ON (a) a, b, k FROM t ORDER BY a, b DESC, k DESC;
FETCH 3 FROM c;
FETCH BACKWARD 1 FROM c;
FETCH LAST FROM c;
COMMIT;
PREPARE q(int) AS SELECT DISTINCT ON (a) a, b, k, x FROM t WHERE a >= $1 ORDER BY a, b, k;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE q(17);
EXECUTE q(17); EXECUTE q(19); EXECUTE q(NULL);
DROP INDEX t_abk;
SET enable_sort = on;
EXECUTE q(17);
DROP SCHEMA d CASCADE;
