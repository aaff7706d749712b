-- Aggregates over an index's own columns, made of its pages: the same answers as of the table, whatever is visible of
-- it. Each query is run with the node and without any index.
-- Needs: icu
CREATE SCHEMA agg;
SET search_path = agg, public;
SET nodes.name = 'FpbtreeAggregate';
SET nodes.ordered = off;
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set nodes :srcdir '/sql/nodes.inc'
\i :nodes
\set ECHO all

CREATE TABLE t (a int, b bigint, s smallint, d date, f float8, o boolean, x text, u uuid, k bigint NOT NULL) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT NULLIF(i % 97, 13), (i::bigint * 7919) % 1000003 * CASE WHEN i % 2 = 0 THEN 9007199254 ELSE -9007199254 END,
    NULLIF(i % 31, 3)::smallint, date '2024-01-01' + i % 500, (i % 211) / 7.0, NULLIF(i % 5, 4) > 1, 'word ' || i % 300,
    md5((i % 1000)::text)::uuid, i
  FROM generate_series(1, 30000) i;
CREATE INDEX t_a ON t USING fpbtree (a);
CREATE INDEX t_ab ON t USING fpbtree (a, b);
CREATE INDEX t_sd ON t USING fpbtree (s DESC NULLS LAST, d DESC, o);
CREATE INDEX t_bn ON t USING fpbtree (b DESC NULLS FIRST);
CREATE INDEX t_d ON t USING fpbtree (d NULLS FIRST);
CREATE INDEX t_x ON t USING fpbtree (x);
CREATE INDEX t_k ON t USING fpbtree (k) INCLUDE (x);
CREATE INDEX t_u ON t USING fpbtree (u);
CREATE INDEX t_fo ON t USING fpbtree (f, o);
CREATE INDEX t_part ON t USING fpbtree (s, a) WHERE s > 20;
CREATE TABLE inherits (LIKE t);
CREATE TABLE inherits_too () INHERITS (inherits);
INSERT INTO inherits SELECT * FROM t WHERE k < 2000;
INSERT INTO inherits_too SELECT * FROM t WHERE k BETWEEN 1000 AND 5000;
CREATE INDEX ON inherits USING fpbtree (a);
CREATE INDEX ON inherits_too USING fpbtree (a);
VACUUM (FREEZE, ANALYZE) t, inherits, inherits_too;

CREATE TABLE queries (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO queries (query) VALUES
  ('SELECT count(*) FROM t'),
  ('SELECT count(*), count(a), sum(a), avg(a), min(a), max(a) FROM t'),
  ('SELECT count(*), count(a), sum(a), avg(a), min(a), max(a) FROM t WHERE a BETWEEN 10 AND 40'),
  ('SELECT count(*), count(a), sum(a), avg(a), min(a), max(a) FROM t WHERE a > 1000'),
  ('SELECT count(*), sum(a), max(a) FROM t WHERE a IS NULL'),
  ('SELECT count(*), sum(a), max(a) FROM t WHERE a = NULL'),
  ('SELECT DISTINCT a FROM t WHERE a > 3 AND false'),
  ('SELECT count(*) FROM t WHERE a IS NOT NULL'),
  ('SELECT count(b), sum(b), avg(b), min(b), max(b) FROM t'),
  ('SELECT a, count(*), sum(b), avg(b), min(b), max(b) FROM t GROUP BY a'),
  ('SELECT a, count(*) FROM t WHERE a IN (1, 5, 77, 3000) GROUP BY a'),
  ('SELECT a, b, count(*) FROM t GROUP BY a, b'),
  ('SELECT b, a, count(*) FROM t WHERE a < 5 GROUP BY b, a'),
  ('SELECT b, count(*) FROM t WHERE a = 5 GROUP BY b'),
  ('SELECT s, count(*), count(d), min(d), max(d), bool_and(o), bool_or(o), every(o) FROM t GROUP BY s'),
  ('SELECT s, d, count(*), count(o), bool_and(o) FROM t WHERE s IN (2, 4) GROUP BY s, d'),
  ('SELECT s, avg(s), sum(s), max(s) FROM t GROUP BY s'),
  ('SELECT d, count(*) FROM t GROUP BY d'),
  ('SELECT u, count(*) FROM t GROUP BY u'),
  ('SELECT f, count(*), count(o) FROM t GROUP BY f'),
  ('SELECT count(*) FROM t WHERE x = ''word 17'''),
  ('SELECT count(*) FROM t WHERE x >= ''word 2'''),
  ('SELECT count(*) FROM t WHERE k BETWEEN 100 AND 5000'),
  ('SELECT a, count(*) + 1 AS c, max(b) - min(b) FROM t GROUP BY a HAVING sum(b) > 0 AND count(*) > 10'),
  ('SELECT sum(a) FROM t HAVING count(*) > 1000000'),
  ('SELECT a % 10, sum(c) FROM (SELECT a, count(*) AS c FROM t GROUP BY a) g GROUP BY a % 10'),
  ('SELECT v, (SELECT count(*) FROM t WHERE a = v) FROM generate_series(0, 20) v'),
  ('SELECT v, (SELECT max(b) FROM t WHERE a = v AND b < v * 1000000000000) FROM generate_series(0, 20) v'),
  ('SELECT v, c FROM generate_series(0, 10) v, LATERAL (SELECT s, count(*) AS c FROM t WHERE s < v GROUP BY s) g'),
  ('SELECT s, count(*) FROM t WHERE s > 25 GROUP BY s'),
  ('SELECT s, count(a), max(a) FROM t WHERE s > 20 GROUP BY s'),
  ('SELECT count(*) FROM t WHERE d = ''2024-03-01'' OR d IS NULL'),
  ('WITH g AS MATERIALIZED (SELECT a, count(*) AS c FROM t GROUP BY a) SELECT x.a, x.c, y.c AS d FROM g x JOIN g y ON x.a = y.a + 1'),
  ('SELECT a, count(*) FROM t GROUP BY a ORDER BY a DESC NULLS LAST LIMIT 7'),
  ('SELECT max(DISTINCT a), min(DISTINCT a), count(*) FROM t WHERE a < 50'),
  ('SELECT count(*), max(a) FROM ONLY inherits'),
  ('SELECT count(*) FILTER (WHERE a > 5), count(*) FROM t'),
  ('SELECT count(*) FILTER (WHERE a > 5 AND a % 3 = 0), sum(a) FILTER (WHERE a % 2 = 0), avg(a) FILTER (WHERE a IS NULL), max(a) FILTER (WHERE a % 3 = 1), min(a) FILTER (WHERE a % 2 = 0), max(a) FROM t'),
  ('SELECT a, count(*), count(b) FILTER (WHERE b > 0), sum(b) FILTER (WHERE b < 0), max(b) FILTER (WHERE b % 5 = 0) FROM t GROUP BY a'),
  ('SELECT a, count(*) FILTER (WHERE a % 2 = 0) FROM t GROUP BY a HAVING count(*) FILTER (WHERE b > 0) > 100'),
  ('SELECT s, count(*) FILTER (WHERE o), count(o) FILTER (WHERE d > ''2024-06-01'' OR o IS NULL), bool_or(o) FILTER (WHERE d < ''2024-03-01'') FROM t GROUP BY s'),
  ('SELECT count(*) FILTER (WHERE true), count(*) FILTER (WHERE NULL), count(a) FILTER (WHERE current_setting(''block_size'')::int = 0) FROM t'),
  ('SELECT v, (SELECT count(*) FILTER (WHERE b > v * 1000000000000) FROM t WHERE a = v) FROM generate_series(0, 20) v'),
  ('SELECT v, s, c FROM generate_series(0, 10) v, LATERAL (SELECT s, count(*) FILTER (WHERE d - date ''2024-01-01'' > v * 40) AS c FROM t WHERE s < v GROUP BY s) g'),
  ('SELECT u, count(*) FILTER (WHERE u > ''80000000-0000-0000-0000-000000000000'') FROM t GROUP BY u');
-- Sums of floats depend on the order of rows, but not of these. All NaN, an infinity, two of them, no zero but -0, nothing.
CREATE TABLE f (g int, d float8, r real) WITH (autovacuum_enabled = off);
INSERT INTO f SELECT i % 10, CASE WHEN i % 7 = 0 OR i % 10 = 9 THEN NULL WHEN i % 10 = 1 THEN 'NaN' WHEN i = 12 OR i = 33 THEN 'infinity'
                                  WHEN i = 43 THEN '-infinity' WHEN i % 10 = 4 THEN least('-0', (i % 211 - 100) / 8.0) ELSE (i % 211 - 100) / 8.0 END
  FROM generate_series(1, 20000) i;
UPDATE f SET r = d;
CREATE INDEX f_gd ON f USING fpbtree (g, d DESC NULLS FIRST);
CREATE INDEX f_gr ON f USING fpbtree (g DESC, r);
CREATE INDEX f_d ON f USING fpbtree (d);
CREATE INDEX f_r ON f USING fpbtree (r DESC);
VACUUM (FREEZE, ANALYZE) f;
INSERT INTO queries (query) VALUES
  ('SELECT count(d), sum(d), avg(d), min(d), max(d) FROM f'),
  ('SELECT count(r), sum(r), avg(r), min(r), max(r) FROM f WHERE r > -7.5'),
  ('SELECT g, count(d), sum(d), avg(d), min(d), max(d) FROM f GROUP BY g'),
  ('SELECT g, count(r), sum(r), avg(r), min(r), max(r) FROM f GROUP BY g'),
  ('SELECT g, max(d) FROM f GROUP BY g'),
  ('SELECT g, avg(d) FILTER (WHERE d > 0), sum(r) FILTER (WHERE r < 0), min(r) FILTER (WHERE r > 7) FROM f WHERE g = 5 GROUP BY g'),
  ('SELECT g, avg(d) FILTER (WHERE d > 0), sum(d) FILTER (WHERE d < 0), min(d) FILTER (WHERE d > 7) FROM f GROUP BY g'),
  ('SELECT sum(g), avg(d) FILTER (WHERE g > 4) FROM f');
-- Groups of many pages, of which the ends say all; NULLs at either end, more of them than a page holds, and groups of
-- nothing else.
CREATE TABLE g (a int, b int, c int, d date) WITH (autovacuum_enabled = off);
INSERT INTO g SELECT i % 4, CASE WHEN i % 4 = 1 THEN NULL WHEN i % 3 = 0 THEN i END, i % 5, date '2024-01-01' + i % 40 FROM generate_series(1, 60000) i;
INSERT INTO g SELECT NULL, i, i, NULL FROM generate_series(1, 5000) i;
INSERT INTO g SELECT 2147483647, -i, i, 'infinity' FROM generate_series(1, 5000) i;
CREATE INDEX g_ab ON g USING fpbtree (a, b);
CREATE INDEX g_cab ON g USING fpbtree (c DESC NULLS FIRST, a NULLS FIRST, b DESC NULLS LAST);
CREATE INDEX g_ad ON g USING fpbtree (a DESC, d DESC NULLS LAST);
CREATE INDEX g_d ON g USING fpbtree (d NULLS FIRST);
VACUUM (FREEZE, ANALYZE) g;
INSERT INTO queries (query) VALUES
  ('SELECT DISTINCT a FROM g'),
  ('SELECT DISTINCT a FROM g UNION SELECT a FROM g GROUP BY a'),
  ('SELECT count(*) FROM t UNION ALL SELECT count(*) FROM g EXCEPT SELECT 1'),
  ('SELECT DISTINCT d FROM g'),
  ('SELECT DISTINCT d FROM g WHERE d > ''2024-01-20'''),
  ('SELECT DISTINCT a, c FROM g WHERE c = 2'),
  ('SELECT a FROM g GROUP BY a'),
  ('SELECT a, c, max(b) FROM g WHERE c < 5 AND b < 300 GROUP BY c, a'),
  ('SELECT k FROM t GROUP BY k'),
  ('SELECT DISTINCT b FROM g WHERE a = 2147483647'),
  ('SELECT a, max(b) FROM g GROUP BY a'),
  ('SELECT a, min(b) FROM g GROUP BY a'),
  ('SELECT a, min(b), max(b), min(a) FROM g GROUP BY a'),
  ('SELECT a, min(b), max(b) FROM g WHERE b > 20000 GROUP BY a'),
  ('SELECT a, max(d), min(d) FROM g GROUP BY a'),
  ('SELECT a, max(d), min(d) FROM g GROUP BY a ORDER BY a DESC LIMIT 3'),
  ('SELECT a, max(d), min(d) FROM g GROUP BY a ORDER BY a LIMIT 3'),
  ('SELECT DISTINCT a FROM g ORDER BY a DESC LIMIT 2'),
  ('SELECT a, max(d) FROM g WHERE d < ''2024-01-05'' GROUP BY a HAVING max(d) > ''2024-01-03'''),
  ('SELECT a, min(b), max(b) FROM g WHERE c = 3 GROUP BY a'),
  ('SELECT a, c, min(b), max(b) FROM g WHERE c < 5 GROUP BY a, c'),
  ('SELECT v, (SELECT count(*) FROM (SELECT DISTINCT a FROM g WHERE a < v OFFSET 0) s) FROM generate_series(0, 5) v'),
  ('SELECT v, s.* FROM generate_series(0, 3) v, LATERAL (SELECT a, max(b) AS most FROM g WHERE a <= v GROUP BY a) s');
-- Groups of byte strings, some of which only a function orders, and of values that are equal but not the same; and conditions
-- that have to be looked at again, as no key is so long.
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE w (k int NOT NULL, x text, c text COLLATE "C", i text COLLATE nocase, e mood, n numeric, j jsonb, r int[], l text, p bpchar(6), na name, vc varchar(20))
  WITH (autovacuum_enabled = off);
INSERT INTO w SELECT i, 'Word ' || NULLIF(i % 40, 3), left(md5((i % 60)::text), i % 5), CASE i % 2 WHEN 1 THEN 'abc' ELSE 'ABC' END || NULLIF(i % 25, 7),
    (enum_range(NULL::mood))[1 + i % 4], round((i % 50) / 4.0 - 3, 2 + i % 3), jsonb_build_object('a', NULLIF(i % 20, 2)),
    ARRAY[i % 7, NULLIF(i % 5, 2)], repeat('long ', i % 2 * 300) || NULLIF(i % 10, 9), left('abc', i % 4), 'name ' || i % 5, 'v' || NULLIF(i % 33, 9)
  FROM generate_series(1, 20000) i;
-- Groups of one row beside each other.
INSERT INTO w (k, x, c, i, n, p) SELECT 20000 + i, 'Rare ' || i, 'rare ' || i, 'rare ' || i, 1000 + i, 'r' || i FROM generate_series(1, 7) i;
CREATE INDEX w_xk ON w USING fpbtree (x, k);
CREATE INDEX w_ck ON w USING fpbtree (c DESC, k);
CREATE INDEX w_i ON w USING fpbtree (i) INCLUDE (k);
CREATE INDEX w_i_bytes ON w USING fpbtree (i COLLATE "C");
CREATE INDEX w_en ON w USING fpbtree (e, n);
CREATE INDEX w_n ON w USING fpbtree (n DESC NULLS FIRST);
CREATE INDEX w_j ON w USING fpbtree (j);
CREATE INDEX w_r ON w USING fpbtree (r);
CREATE INDEX w_l ON w USING fpbtree (l);
CREATE INDEX w_px ON w USING fpbtree (p, x DESC NULLS LAST);
CREATE INDEX w_na ON w USING fpbtree (na);
CREATE INDEX w_pv ON w USING fpbtree (p DESC, vc);
VACUUM (FREEZE, ANALYZE) w;
INSERT INTO queries (query) VALUES
  ('SELECT x, count(*) FROM w GROUP BY x'),
  ('SELECT x, count(*) FROM w WHERE x > ''Word 2'' GROUP BY x HAVING count(*) > 499 ORDER BY x DESC'),
  ('SELECT x, count(*) FROM w WHERE x IN (''Word 3'', ''Word 5'', ''Word 77'') OR x IS NULL GROUP BY x'),
  ('SELECT x, k, count(*) FROM w WHERE x = ''Word 4'' GROUP BY x, k'),
  ('SELECT c || ''!'', count(*) + 1 FROM w GROUP BY c'),
  ('SELECT lower(i), count(*) FROM w GROUP BY i'),
  ('SELECT lower(i), count(*) FROM w WHERE i = ''Abc9'' GROUP BY i'),
  ('SELECT e, count(*) FROM w GROUP BY e'),
  ('SELECT e, trim_scale(n), count(*) FROM w GROUP BY n, e'),
  ('SELECT e, count(*) FROM w WHERE n > 0 AND e <> ''ok'' GROUP BY e'),
  ('SELECT trim_scale(n), count(*) FROM w GROUP BY n'),
  ('SELECT j, count(*) FROM w GROUP BY j'),
  ('SELECT r, count(*) FROM w WHERE r > ''{3}'' GROUP BY r'),
  ('SELECT md5(l), count(*) FROM w GROUP BY l'),
  ('SELECT p, x, count(*) FROM w GROUP BY x, p'),
  ('SELECT p, count(*) FROM w GROUP BY p ORDER BY p LIMIT 2'),
  ('SELECT x, count(*) FROM w WHERE p = ''ab'' GROUP BY x'),
  ('SELECT v, s.* FROM generate_series(0, 3) v, LATERAL (SELECT e, count(*) FROM w WHERE n > v GROUP BY e) s'),
  ('SELECT x, count(*) FROM w WHERE x < repeat(''z'', 3000) GROUP BY x'),
  ('SELECT count(*) FROM w WHERE x < repeat(''z'', 3000)'),
  ('SELECT x, count(*) FROM w WHERE x < repeat(''Word 2'', 3000) GROUP BY x'),
  ('SELECT x, count(k), min(k), max(k) FROM w GROUP BY x'),
  ('SELECT c, max(k), min(k) FROM w WHERE c > ''7'' OR c = '''' GROUP BY c HAVING min(k) > 10'),
  ('SELECT e, count(n), trim_scale(min(n)), trim_scale(max(n)) FROM w GROUP BY e'),
  ('SELECT p, count(x), min(x), max(x), count(p) FROM w GROUP BY p'),
  ('SELECT p, count(vc), min(vc), max(vc) || ''!'' FROM w GROUP BY p'),
  ('SELECT count(x), min(x), max(x), count(*), count(k) FROM w'),
  ('SELECT count(i), lower(min(i)), lower(max(i)), count(*) FROM w'),
  ('SELECT count(l), md5(min(l)), md5(max(l)), count(*) FROM w'),
  ('SELECT count(r), min(r), max(r), count(*) FROM w WHERE r < ''{5}'''),
  ('SELECT x, max(k) FROM w WHERE x < repeat(''z'', 3000) GROUP BY x'),
  ('SELECT u, s.* FROM generate_series(0, 3) u, LATERAL (SELECT e, count(n), trim_scale(max(n)) FROM w WHERE n < u GROUP BY e) s'),
  ('SELECT x, count(*) FILTER (WHERE k % 2 = 0), count(*) FROM w GROUP BY x'),
  ('SELECT x, count(*) FILTER (WHERE x LIKE ''%1%'') FROM w GROUP BY x HAVING count(*) FILTER (WHERE k < 9000) > 7'),
  ('SELECT count(*) FILTER (WHERE x LIKE ''Word 1%''), count(*) FILTER (WHERE x IS NULL) FROM w'),
  ('SELECT e, count(*) FILTER (WHERE e = ''sad''), count(*) FILTER (WHERE n > 2) FROM w GROUP BY e'),
  ('SELECT lower(i), count(*) FILTER (WHERE i > ''abc5'') FROM w GROUP BY i'),
  ('SELECT md5(l), count(*) FILTER (WHERE length(l) > 100) FROM w GROUP BY l'),
  ('SELECT j, count(*) FILTER (WHERE j ->> ''a'' > ''5'') FROM w GROUP BY j'),
  ('SELECT count(*) FILTER (WHERE x > ''Word 3'') FROM w WHERE x < repeat(''z'', 3000)'),
  ('SELECT e, count(n), sum(n), avg(n), trim_scale(max(n)), count(*) FROM w GROUP BY e'),
  ('SELECT sum(n), avg(n), count(n), count(DISTINCT n) FROM w WHERE n < 5'),
  ('SELECT x, sum(k), avg(k), count(k), max(k), count(*) FILTER (WHERE k > 500) FROM w GROUP BY x'),
  ('SELECT x, sum(k) FILTER (WHERE k % 2 = 0), count(k) FILTER (WHERE k % 3 = 0), avg(k) FROM w WHERE x > ''Word 2'' GROUP BY x'),
  ('SELECT lower(i), count(k), sum(k), avg(k) FILTER (WHERE k > 5000) FROM w GROUP BY i'),
  ('SELECT sum(k), count(k) FROM w WHERE i > ''abc5'''),
  ('SELECT e, sum(n) FILTER (WHERE n > 0), avg(n) FILTER (WHERE e = ''sad'') FROM w GROUP BY e'),
  ('SELECT x, sum(k) FROM w WHERE x < repeat(''z'', 3000) GROUP BY x');
-- The least and greatest of values that the index is not in order of.
INSERT INTO queries (query) VALUES
  ('SELECT x, max(k) FILTER (WHERE k < 500), min(k) FILTER (WHERE k % 7 = 3), count(*), min(k) FROM w GROUP BY x'),
  ('SELECT count(*), min(k), max(k), min(x), max(x) FILTER (WHERE k % 40 = 5) FROM w WHERE x > ''Word 2'''),
  ('SELECT p, min(p), max(p), max(x), min(x) FILTER (WHERE x <> ''Word 1'') FROM w GROUP BY p'),
  ('SELECT lower(i), min(k), max(k), max(k) FILTER (WHERE false) FROM w GROUP BY i'),
  ('SELECT e, max(e), trim_scale(max(n) FILTER (WHERE n < 2)), trim_scale(min(n)) FROM w GROUP BY e'),
  ('SELECT e, max(e), trim_scale(min(n)) FROM w WHERE e = ''ok'' GROUP BY e'),
  ('SELECT max(e), min(e), trim_scale(max(DISTINCT n)), count(*) FROM w WHERE n < 5'),
  ('SELECT max(vc), min(vc), max(p), min(p), count(*) FROM w WHERE p > ''a'''),
  ('SELECT min(r) FILTER (WHERE r > ''{2}''), max(r) FILTER (WHERE r < ''{2}'') FROM w'),
  ('SELECT x, max(k), min(k) FILTER (WHERE x > ''Word 3'') FROM w WHERE x < repeat(''z'', 3000) GROUP BY x'),
  ('SELECT v, (SELECT max(k) FILTER (WHERE k % 5 < v) FROM w WHERE x = ''Word '' || v) FROM generate_series(0, 5) v');
-- Aggregates of users', which keep what those with a sort operator have to; and one of whose operator no family knows.
CREATE FUNCTION least_negative(int, int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT least($1, -$2)';
CREATE AGGREGATE topmost(int) (sfunc = least_negative, stype = int, combinefunc = int4smaller, finalfunc = int4um, sortop = >, parallel = safe);
CREATE OPERATOR <# (function = int4lt, leftarg = int, rightarg = int);
CREATE AGGREGATE lowest(int) (sfunc = int4smaller, stype = int, sortop = <#);
INSERT INTO queries (query) VALUES
  ('SELECT x, topmost(k), topmost(k) FILTER (WHERE k < 700) FROM w GROUP BY x'),
  ('SELECT x, lowest(k), count(*) FROM w GROUP BY x');
-- Sums of all types that there are, of keys and beside them, of domains, and of numbers of any length.
CREATE DOMAIN amount AS numeric CHECK (VALUE <> 17);
CREATE TABLE sums (g text, n numeric, a amount, s smallint, i int, b bigint, r real, f float8, v interval, d date) WITH (autovacuum_enabled = off);
INSERT INTO sums SELECT 'group ' || i % 7, CASE WHEN i % 11 > 0 THEN (i * 7919 % 10007 - 5000)::numeric * 10::numeric ^ (i % 5 * 9 - 18) END, i * 3 + 0.5,
    i % 300, i * 1000, i * 1000000000000, i % 64 / 4.0, i % 64 / 8.0, make_interval(i % 3, i % 7, 0, i % 5, i % 24, 0, i % 50), date '2026-01-01' + i % 100
  FROM generate_series(1, 5000) i;
INSERT INTO sums (g, n) SELECT 'special ' || i, v::numeric FROM (VALUES (1, 'NaN'), (1, '5'), (2, 'infinity'), (2, '1e5'), (3, '-infinity'), (3, NULL),
    (4, 'infinity'), (4, '-infinity'), (5, '-infinity'), (5, 'NaN'), (6, NULL), (7, '1e200'), (7, '-0.5'), (8, '1e200'), (8, '-1e200'), (8, '-1e-40'), (9, '0.000')) v (i, v);
INSERT INTO sums (g, n) SELECT 'nines', repeat('9', 1 + i % 32)::numeric / 10::numeric ^ (i % 25) * (-1) ^ i FROM generate_series(1, 500) i;
CREATE INDEX sums_gn ON sums USING fpbtree (g, n DESC NULLS LAST) INCLUDE (a, s, i, b, r, f, v);
CREATE INDEX sums_gv ON sums USING fpbtree (g DESC, v, a);
CREATE INDEX sums_gif ON sums USING fpbtree (g COLLATE "C", i, f, b, s, r);
CREATE INDEX sums_dv ON sums USING fpbtree (d, v);
VACUUM (FREEZE, ANALYZE) sums;
INSERT INTO queries (query) VALUES
  ('SELECT g, count(n), sum(n), avg(n), count(*) FROM sums GROUP BY g'),
  ('SELECT sum(n), avg(n) FROM sums WHERE g >= ''group'' AND g < ''group 5'''),
  ('SELECT g, sum(n) FILTER (WHERE n > 0), sum(n) FILTER (WHERE n < 0), avg(n) FILTER (WHERE i % 2 = 0) FROM sums GROUP BY g'),
  ('SELECT g, sum(a), avg(a), sum(s), avg(s), sum(i), avg(i), sum(b), avg(b) FROM sums GROUP BY g'),
  ('SELECT g, sum(r), avg(r), sum(f), avg(f), count(a), count(v) FROM sums GROUP BY g'),
  ('SELECT g, sum(v), avg(v), sum(v) FILTER (WHERE v > ''1 year'') FROM sums GROUP BY g'),
  ('SELECT g, sum(a), count(DISTINCT v), count(*) FROM sums GROUP BY g'),
  ('SELECT g, trim_scale(n), count(a), sum(a), count(*) FROM sums WHERE g < ''special 3'' GROUP BY g, n'),
  ('SELECT d, sum(v), avg(v), count(DISTINCT v) FROM sums GROUP BY d'),
  ('SELECT sum(v), avg(v), count(v) FROM sums WHERE d < ''2026-02-01'''),
  ('SELECT g, count(DISTINCT n) FROM sums GROUP BY g'),
  ('SELECT count(DISTINCT n) FROM sums WHERE g = ''group 3'''),
  ('SELECT count(DISTINCT n), count(n), sum(n) FROM sums WHERE g = ''special 2'''),
  ('SELECT count(DISTINCT n), count(n), sum(n) FROM sums WHERE g = ''nowhere'''),
  ('SELECT g, min(a), max(a), min(s), max(i), min(b), max(b), min(r), max(f), min(v), max(v) FROM sums GROUP BY g'),
  ('SELECT g, trim_scale(min(n)), trim_scale(max(n)), trim_scale(min(n) FILTER (WHERE i % 3 = 0)), max(v) FILTER (WHERE n > 0) FROM sums GROUP BY g'),
  ('SELECT trim_scale(min(n)), trim_scale(max(n)), min(v), max(r), max(g), min(g) FROM sums WHERE g < ''special'''),
  ('SELECT g, max(f), min(f), min(b), max(r), max(i), count(i) FROM sums WHERE g = ''group 3'' GROUP BY g'),
  ('SELECT min(v), max(v), max(d), min(v) FILTER (WHERE d > ''2026-01-20'') FROM sums WHERE d < ''2026-02-01''');
-- Groups in the opposite order of the index.
INSERT INTO queries (query) VALUES
  ('SELECT a, count(*), sum(b), min(b), max(b), count(DISTINCT b) FROM t GROUP BY a ORDER BY a DESC'),
  ('SELECT a, count(*), avg(b) FROM t GROUP BY a ORDER BY a DESC NULLS LAST'),
  ('SELECT a, count(*) FROM t WHERE a BETWEEN 5 AND 50 GROUP BY a ORDER BY a DESC LIMIT 7'),
  ('SELECT s, d, count(*), bool_or(o) FROM t GROUP BY s, d ORDER BY s NULLS FIRST, d LIMIT 50'),
  ('SELECT a, max(b), min(b) FROM g GROUP BY a ORDER BY a DESC'),
  ('SELECT DISTINCT a FROM g ORDER BY a DESC LIMIT 3'),
  ('SELECT f, count(o), sum(f) FROM t GROUP BY f ORDER BY f DESC'),
  ('SELECT v, s.* FROM generate_series(3, 5) v, LATERAL (SELECT a, max(b) AS most FROM g WHERE a <= v GROUP BY a ORDER BY a DESC LIMIT 2) s'),
  ('SELECT x, count(*) FROM w GROUP BY x ORDER BY x DESC LIMIT 3'),
  ('SELECT x, count(*), sum(k), min(k), max(k), count(DISTINCT k) FROM w GROUP BY x ORDER BY x DESC'),
  ('SELECT p, x, count(*) FROM w GROUP BY p, x ORDER BY p DESC, x NULLS FIRST'),
  ('SELECT e, trim_scale(min(n)), trim_scale(max(n)), count(n), count(DISTINCT n) FROM w GROUP BY e ORDER BY e DESC LIMIT 4'),
  ('SELECT c, max(k), min(k) FILTER (WHERE k > 100), count(k) FROM w WHERE c > ''1'' GROUP BY c ORDER BY c'),
  ('SELECT x, max(k) FROM w WHERE x < repeat(''z'', 3000) GROUP BY x ORDER BY x DESC LIMIT 5');
-- How many different values there are.
INSERT INTO queries (query) VALUES
  ('SELECT count(DISTINCT a) FROM t'),
  ('SELECT count(DISTINCT a), count(a), count(*) FROM t WHERE a > 7'),
  ('SELECT a, count(DISTINCT b) FROM t GROUP BY a'),
  ('SELECT a, count(DISTINCT b), min(b), sum(b) FROM t WHERE a < 7 GROUP BY a HAVING count(DISTINCT b) > 5'),
  ('SELECT count(DISTINCT b) FROM t WHERE a = 7'),
  ('SELECT count(DISTINCT b) FROM t WHERE a = 5000'),
  ('SELECT count(DISTINCT d), count(DISTINCT d) + 1 FROM t WHERE s = 5'),
  ('SELECT s, count(DISTINCT d) FROM t GROUP BY s'),
  ('SELECT count(DISTINCT d) FROM t'),
  ('SELECT count(DISTINCT u) FROM t'),
  ('SELECT count(DISTINCT f) FROM t'),
  ('SELECT count(DISTINCT a) FROM g'),
  ('SELECT count(DISTINCT x) FROM w'),
  ('SELECT count(DISTINCT i) FROM w'),
  ('SELECT count(DISTINCT i), count(*) FROM w WHERE i < ''abc3'''),
  ('SELECT count(DISTINCT p) FROM w WHERE p > ''a'''),
  ('SELECT p, count(DISTINCT vc) FROM w GROUP BY p'),
  ('SELECT e, count(DISTINCT n) FROM w GROUP BY e'),
  ('SELECT count(DISTINCT j) FROM w'),
  ('SELECT count(DISTINCT l) FROM w'),
  ('SELECT count(DISTINCT x) FROM w WHERE x < repeat(''z'', 3000)'),
  ('SELECT v, (SELECT count(DISTINCT b) FROM t WHERE a = v) FROM generate_series(0, 5) v');
-- Groups of texts of many pages, with NULLs at either end and groups of nothing else.
CREATE TABLE h (s text, n numeric, at timestamptz) WITH (autovacuum_enabled = off);
INSERT INTO h SELECT 'state ' || NULLIF(i % 5, 4), CASE WHEN i % 5 = 1 THEN NULL WHEN i % 3 > 0 THEN round(i / 7.0, 1 + i % 3) END,
    CASE WHEN i % 5 <> 2 AND i % 10 > 1 THEN timestamptz '2026-01-01 00:00+00' + i * interval '1 min' END
  FROM generate_series(1, 40000) i;
CREATE INDEX h_sn ON h USING fpbtree (s, n);
CREATE INDEX h_sat ON h USING fpbtree (s DESC, at DESC);
VACUUM (FREEZE, ANALYZE) h;
INSERT INTO queries (query) VALUES
  ('SELECT s, max(n) FROM h GROUP BY s'),
  ('SELECT s, min(n) FROM h GROUP BY s'),
  ('SELECT s, max(n), min(n) FROM h WHERE n < 5000 GROUP BY s'),
  ('SELECT s, max(at), min(at) FROM h GROUP BY s'),
  ('SELECT s, max(at) FROM h WHERE at < ''2026-01-20 00:00+00'' GROUP BY s ORDER BY s DESC LIMIT 2'),
  ('SELECT s, max(at), count(at), count(*) FROM h GROUP BY s'),
  ('SELECT s, max(n), count(DISTINCT n), min(n), count(*) FROM h GROUP BY s ORDER BY s DESC'),
  ('SELECT s, max(at), min(at), count(at) FROM h WHERE at > ''2026-01-05 00:00+00'' GROUP BY s ORDER BY s LIMIT 2');
-- What the node does not do.
INSERT INTO queries (query) VALUES
  ('SELECT na, count(*) FROM w GROUP BY na'),
  ('SELECT x, count(*) FROM w WHERE EXISTS (SELECT FROM g) GROUP BY x'),
  ('SELECT a, max(b) FROM g WHERE current_setting(''application_name'') <> ''none'' GROUP BY a'),
  ('SELECT i, count(*) FROM (SELECT i COLLATE "C" AS i FROM w) s GROUP BY i'),
  ('SELECT x, count(k), max(c) FROM w GROUP BY x'),
  ('SELECT count(DISTINCT a) FILTER (WHERE a > 5) FROM t'),
  ('SELECT count(DISTINCT b) FROM t WHERE a < 5'),
  ('SELECT count(DISTINCT x COLLATE "C") FROM w'),
  ('SELECT count(DISTINCT a + 1) FROM t'),
  ('SELECT count(DISTINCT (a, b)) FROM t'),
  ('SELECT a, count(DISTINCT c) FROM g GROUP BY a'),
  ('SELECT sum(DISTINCT a) FROM t WHERE a < 50'),
  ('SELECT count(*) FILTER (WHERE a > 5 AND random() < 2) FROM t'),
  ('SELECT count(*) FILTER (WHERE a IN (SELECT c FROM g)) FROM t'),
  ('SELECT count(*) FILTER (WHERE s > 5) FROM t WHERE a = 3'),
  ('SELECT count(*) FILTER (WHERE na > ''name 3'') FROM w'),
  ('SELECT stddev(d) FROM f'),
  ('SELECT e, count(n), stddev(n) FROM w GROUP BY e'),
  ('SELECT e, trim_scale(max(n) FILTER (WHERE n < 2)), trim_scale(sum(DISTINCT n)) FROM w GROUP BY e'),
  ('SELECT count(*), max(x COLLATE "POSIX") FROM w'),
  ('SELECT b, count(*) FROM t WHERE a < 5 GROUP BY b'),
  ('SELECT a, b, count(*) FROM t GROUP BY GROUPING SETS ((a), (a, b))'),
  ('SELECT a + 1, count(*) FROM t GROUP BY a + 1'),
  ('SELECT sum(a::bigint) FROM t'),
  ('SELECT min(x) FROM t WHERE x > ''word 2'''),
  ('SELECT count(*) FROM t WHERE a % 2 = 0'),
  ('SELECT count(*) FROM t WHERE a = 1 AND s = 2'),
  ('SELECT string_agg(a::text, '','' ORDER BY a) FROM t WHERE a < 3 AND b > 0'),
  ('SELECT count(*) FROM t WHERE random() < 2 AND a < 3'),
  ('SELECT DISTINCT ON (a) a, b FROM g ORDER BY a, b'), -- another node's
  ('SELECT DISTINCT a, count(*) FROM g GROUP BY a, c'),
  ('SELECT DISTINCT a, generate_series(1, 2) FROM g'),
  ('SELECT DISTINCT b FROM g'),
  ('SELECT count(*) FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1)'),
  ('SELECT count(*) FROM inherits');
SELECT n, same(query), query FROM queries ORDER BY n;
-- Of numbers that are equal and do not look the same, the server takes the last one it comes to.
SELECT answer(query, 'node') = answer(query, 'index') FROM (VALUES ('SELECT e, min(n), max(n) FROM w GROUP BY e'), ('SELECT min(n), max(n), count(*) FROM w WHERE n > 1')) q(query);

-- The same where not everything is visible to everyone: rows that are gone, changed, new, or not committed.
DELETE FROM t WHERE k % 10 = 3;
UPDATE t SET a = a + 1, b = -b WHERE k % 17 = 4;
DELETE FROM g WHERE b > 50000 OR a = 2 AND b < 10000;
UPDATE g SET b = b + 1 WHERE c = 1;
DELETE FROM w WHERE k % 10 = 3 OR x = 'Word 7' OR n > 6;
UPDATE w SET x = upper(x), e = 'sad', c = NULL WHERE k % 13 = 0;
INSERT INTO t SELECT a, b, s, d, f, o, x, u, k + 100000 FROM t WHERE k < 3000;
SELECT same(query), count(*) FROM queries GROUP BY 1 ORDER BY 1;
BEGIN;
DELETE FROM t WHERE k % 7 = 1;
SAVEPOINT p;
DELETE FROM t;
ROLLBACK TO p;
SELECT same(query), count(*) FROM queries GROUP BY 1 ORDER BY 1;
ROLLBACK;
SELECT same(query), count(*) FROM queries GROUP BY 1 ORDER BY 1;
VACUUM t, g, w;
SELECT same(query), count(*) FROM queries GROUP BY 1 ORDER BY 1;
-- Few rows of a page are left, and behind them none; jumps seem to cost nothing.
BEGIN;
SET LOCAL statement_timeout = '60s';
DELETE FROM g WHERE b % 977 <> 0 OR c = 4;
DELETE FROM t WHERE k % 100 > 1;
DELETE FROM w WHERE k % 100 > 1;
SELECT same(query), count(*) FROM queries GROUP BY 1 ORDER BY 1;
SET LOCAL random_page_cost = 0;
SET LOCAL cpu_operator_cost = 0;
SELECT same(query), count(*) FROM queries GROUP BY 1 ORDER BY 1;
ROLLBACK;
-- Of a group whose middle is left out, few rows are looked up, though none is known to be visible; and more where many at its ends
-- are gone.
CREATE FUNCTION looked_up(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  PERFORM go('node');
  EXECUTE 'EXPLAIN (ANALYZE, FORMAT JSON) ' || query INTO plan;
  PERFORM go('any');
  RETURN plan #>> '{0,Plan,Plans,0,Heap Fetches}';
END $$;
CREATE TABLE wide (a int, b int, x text COLLATE "C") WITH (autovacuum_enabled = off);
INSERT INTO wide SELECT i % 5, i / 5, 'group ' || i % 5 FROM generate_series(0, 49999) i;
CREATE INDEX wide_ab ON wide USING fpbtree (a, b);
CREATE INDEX wide_xb ON wide USING fpbtree (x, b);
ANALYZE wide;
CREATE TABLE jumping (query text);
INSERT INTO jumping VALUES ('SELECT DISTINCT a FROM wide'), ('SELECT a, min(b), max(b) FROM wide GROUP BY a'), ('SELECT count(DISTINCT a) FROM wide'),
  ('SELECT x, min(b), max(b) FROM wide GROUP BY x'), ('SELECT count(DISTINCT x) FROM wide');
SELECT same(query), looked_up(query) < 150, query FROM jumping;
DELETE FROM wide WHERE b < 20 + 400 * a OR b > 9900 - 700 * a OR b BETWEEN 4000 AND 5000;
SELECT same(query), looked_up(query) < 30000, query FROM jumping;
UPDATE wide SET b = NULL WHERE b > 7000 OR a = 3;
SELECT same(query), query FROM jumping;
DROP TABLE wide;
-- Nor where a leaf has several groups, unless they are so small that it takes longer to find the next one.
CREATE TABLE several (a int, b int) WITH (autovacuum_enabled = off);
INSERT INTO several SELECT i % 100, i / 100 FROM generate_series(0, 29999) i;
CREATE INDEX several_ab ON several USING fpbtree (a, b);
ANALYZE several;
SELECT same(query), looked_up(query) < 10000 AS few, query FROM (VALUES ('SELECT DISTINCT a FROM several'), ('SELECT a, min(b), max(b) FROM several GROUP BY a')) q(query);
DELETE FROM several WHERE b >= 50;
-- 19's queries tell the visibility map what they see.
SELECT same(query), looked_up(query) > 4900 OR current_setting('server_version_num')::int >= 190000 AS all_left, query FROM (VALUES ('SELECT a, min(b), max(b) FROM several WHERE b < 50 GROUP BY a')) q(query);
DROP TABLE several;
-- With expressions compiled.
SET jit = on; SET jit_above_cost = 0;
SELECT same(query), count(*) FROM queries WHERE n % 5 = 0 GROUP BY 1 ORDER BY 1;
RESET jit; RESET jit_above_cost;
-- An empty table, and one without rows that count.
CREATE TABLE e (a int, b bigint);
CREATE INDEX e_ab ON e USING fpbtree (a, b);
SELECT same('SELECT count(*), count(a), sum(a), sum(b), avg(b), min(a), max(b) FROM e'), same('SELECT a, count(*) FROM e GROUP BY a');
INSERT INTO e VALUES (NULL, NULL), (NULL, NULL);
SELECT same('SELECT count(*), count(a), sum(a), sum(b), avg(b), min(a), max(b) FROM e'), same('SELECT a, count(*), max(b) FROM e GROUP BY a');
-- Sums beyond a bigint.
INSERT INTO e SELECT 2147483647, 9223372036854775807 FROM generate_series(1, 3000);
INSERT INTO e SELECT -2147483648, -9223372036854775808 FROM generate_series(1, 1000);
SELECT same('SELECT sum(a), avg(a), sum(b), avg(b), min(b), max(b) FROM e');
SET enable_seqscan = off;
SELECT a, count(*), sum(b), avg(b) FROM e GROUP BY a ORDER BY a;
-- Floats beyond the greatest, and conditions that fail.
CREATE TABLE huge (f float8, r real);
INSERT INTO huge SELECT 1e308, 2e38 FROM generate_series(1, 2);
INSERT INTO huge VALUES ('infinity', 'infinity');
CREATE INDEX huge_f ON huge USING fpbtree (f);
CREATE INDEX huge_r ON huge USING fpbtree (r);
VACUUM (FREEZE, ANALYZE) huge;
EXPLAIN (COSTS OFF) SELECT sum(f) FROM huge WHERE f < 'infinity';
SELECT sum(f) FROM huge WHERE f < 'infinity';
SELECT avg(f) FROM huge WHERE f < 'infinity';
SELECT sum(r) FROM huge WHERE r < 'infinity';
SELECT avg(r), max(r) FROM huge WHERE r < 'infinity';
SELECT sum(f), avg(f), sum(r), avg(r) FROM huge WHERE f = 'infinity' GROUP BY f;
UPDATE huge SET f = f / 1e100;
SELECT sum(f) FROM huge WHERE f < 1e300;
SELECT avg(f) FROM huge WHERE f < 1e300;
SELECT avg(f) FROM huge WHERE f > 1;
SELECT count(*) FILTER (WHERE 10 / (a - 2147483647) > 0) FROM e;

-- How it looks.
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE a > 5;
EXPLAIN (COSTS OFF, VERBOSE) SELECT a, count(*) + 1, max(b) FROM t WHERE a > 5 GROUP BY a HAVING sum(b) > 0 ORDER BY a;
EXPLAIN (COSTS OFF, VERBOSE) SELECT a, count(*) FILTER (WHERE b > 5 AND a < 7), max(b) FILTER (WHERE b < 5) FROM t GROUP BY a;
EXPLAIN (COSTS OFF) SELECT DISTINCT a FROM g ORDER BY a LIMIT 3;
EXPLAIN (COSTS OFF) SELECT a, max(b) FROM g GROUP BY a;
EXPLAIN (COSTS OFF) SELECT a, count(*), max(b) FROM g GROUP BY a ORDER BY a DESC LIMIT 2;
EXPLAIN (COSTS OFF) SELECT count(DISTINCT a) FROM g;
EXPLAIN (COSTS OFF) SELECT count(DISTINCT b) FROM g WHERE a = 3;
EXPLAIN (COSTS OFF) SELECT x, sum(k), avg(k) FILTER (WHERE k > 500) FROM w GROUP BY x;
EXPLAIN (COSTS OFF) SELECT s, max(at) FROM h GROUP BY s;
-- Versions differ in what else they say.
CREATE FUNCTION analyzed(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
  line text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
    CONTINUE WHEN line ~ 'Index Searches';
    -- How many, depends on whether queries tell the visibility map what they see, as 19's do.
    RETURN NEXT regexp_replace(replace(line, '.00', ''), 'Heap Fetches: [1-9]\d*', 'Heap Fetches: some');
  END LOOP;
END $$;
SELECT analyzed('SELECT a, count(*) FROM t WHERE a BETWEEN 5 AND 7 GROUP BY a');
CREATE FUNCTION explained(query text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
  RETURN plan -> 0 -> 'Plan';
END $$;
SELECT p ->> 'Node Type' AS node, p ->> 'Custom Plan Provider' AS provider, p ->> 'Group Key' AS key, p -> 'Plans' -> 0 ->> 'Node Type' AS below
  FROM explained('SELECT s, d, count(*) FROM t GROUP BY s, d') p;
-- By several processes, who have the groups of their pages each. That is worth it where rows have to be looked at: they take
-- turns at reading leaves.
CREATE TABLE copied WITH (autovacuum_enabled = off) AS SELECT a, s, b, f, (k % 50)::real AS r FROM t;
CREATE INDEX copied_a ON copied USING fpbtree (a);
CREATE INDEX copied_b ON copied USING fpbtree (b);
CREATE INDEX copied_f ON copied USING fpbtree (f);
CREATE INDEX copied_r ON copied USING fpbtree (r);
DELETE FROM copied WHERE a = 40;
ANALYZE copied;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), count(a), sum(a), avg(a), max(a) FROM copied;
SELECT count(*), count(a), sum(a), avg(a), max(a) FROM copied;
SELECT avg(a), sum(a) FROM copied WHERE a > 1000;
EXPLAIN (COSTS OFF) SELECT sum(b), avg(b), count(b) FROM copied;
SELECT sum(b), avg(b), count(b) FROM copied;
SELECT sum(b), avg(b), sum(b) FILTER (WHERE b > 0), avg(b) FILTER (WHERE b < -8000000000000000) FROM copied WHERE b < 1000;
SELECT sum(b), avg(b) FROM copied WHERE b > 9100000000000000000;
EXPLAIN (COSTS OFF) SELECT avg(f), count(f) FROM copied;
SELECT round(avg(f)::numeric, 8), count(f) FROM copied;
SELECT avg(r), sum(r), avg(r) FILTER (WHERE r < 0) FROM copied;
SELECT avg(f) FROM copied WHERE f > 1e6;
EXPLAIN (COSTS OFF) SELECT count(*) FILTER (WHERE a % 2 = 0), max(a) FILTER (WHERE a < 50), sum(a) FILTER (WHERE a > 90) FROM copied;
SELECT count(*) FILTER (WHERE a % 2 = 0), max(a) FILTER (WHERE a < 50), sum(a) FILTER (WHERE a > 90) FROM copied;
EXPLAIN (COSTS OFF) SELECT count(*), count(a), sum(a), avg(a), max(a) FROM t;
-- The same of byte strings, whose parts are the server's to finish.
CREATE TABLE copied_sums WITH (autovacuum_enabled = off) AS SELECT * FROM sums;
CREATE INDEX copied_sums_gn ON copied_sums USING fpbtree (g, n) INCLUDE (a, s, i, b, r, f, v);
DELETE FROM copied_sums WHERE g = 'group 1';
ANALYZE copied_sums;
CREATE TABLE parts (n int GENERATED ALWAYS AS IDENTITY, query text);
INSERT INTO parts (query) VALUES
  ('SELECT count(*), count(n), sum(s), avg(s), sum(i), avg(i), sum(b), avg(b), sum(a), avg(a), sum(v), avg(v) FROM copied_sums WHERE g < ''nines'''),
  ('SELECT sum(n), avg(n) FROM copied_sums WHERE g < ''special'''),
  ('SELECT g, sum(n), avg(n), sum(n) FILTER (WHERE n < 0), count(*) FROM copied_sums GROUP BY g'),
  ('SELECT g, sum(v), avg(v), sum(b), avg(b), sum(a) FILTER (WHERE n > 5), sum(r), avg(f) FROM copied_sums GROUP BY g'),
  ('SELECT max(v), min(b), max(g), min(g), max(f), max(a) FILTER (WHERE i % 2 = 0) FROM copied_sums'),
  ('SELECT g, max(v), trim_scale(min(n)), trim_scale(max(n)) FROM copied_sums GROUP BY g'),
  ('SELECT topmost(i), topmost(i) FILTER (WHERE n > 5), count(*) FROM copied_sums WHERE g < ''nines''');
EXPLAIN (COSTS OFF) SELECT g, sum(n), avg(v), max(b) FROM copied_sums GROUP BY g;
-- Of no rows there is no group, whatever they are grouped by.
CREATE TABLE nothing WITH (autovacuum_enabled = off) AS SELECT 'x'::text AS g, i AS n FROM generate_series(1, 50000) i;
CREATE INDEX nothing_gn ON nothing USING fpbtree (g, n);
CREATE INDEX nothing_n ON nothing USING fpbtree (n);
ANALYZE nothing;
DELETE FROM nothing;
SELECT g, sum(n), count(*) FROM nothing WHERE g = 'x' GROUP BY g;
SELECT n, count(*) FROM nothing WHERE n = 7 GROUP BY n;
SELECT sum(n), count(*) FROM nothing WHERE g = 'x';
SELECT DISTINCT g FROM nothing WHERE g = 'x';
-- Statements of functions have no workers.
SET parallel_leader_participation = off;
SELECT format('CREATE TABLE by_workers_%s AS SELECT string_agg(s::text, '' '' ORDER BY s::text) AS answer FROM (%s) s', n, query) FROM parts
\gexec
CREATE FUNCTION is_shared(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
  line text;
  lines text;
BEGIN
  FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
    lines := concat_ws(E'\n', lines, line);
  END LOOP;
  RETURN lines ~ 'FpbtreeAggregate.*Parallel Index Only Scan using copied_sums_gn';
END $$;
SELECT n, is_shared(query) FROM parts;
SET fpbtree.custom_scans = off;
SET max_parallel_workers_per_gather = 0;
SELECT format('SELECT %s AS n, answer = (SELECT string_agg(s::text, '' '' ORDER BY s::text) FROM (%s) s) AS same, length(answer) > 10 AS is_there FROM by_workers_%s', n, query, n) FROM parts
\gexec
RESET parallel_leader_participation;
SET fpbtree.custom_scans = on;
SET max_parallel_workers_per_gather = 0;
SELECT count(*), count(a), sum(a), avg(a), max(a) FROM copied;
SELECT count(*) FILTER (WHERE a % 2 = 0), max(a) FILTER (WHERE a < 50), sum(a) FILTER (WHERE a > 90) FROM copied;
SET fpbtree.custom_scans = off;
SELECT sum(b), avg(b), count(b) FROM copied;
SELECT sum(b), avg(b), sum(b) FILTER (WHERE b > 0), avg(b) FILTER (WHERE b < -8000000000000000) FROM copied WHERE b < 1000;
SELECT round(avg(f)::numeric, 8), count(f) FROM copied;
SELECT avg(r), sum(r), avg(r) FILTER (WHERE r < 0) FROM copied;
SET fpbtree.custom_scans = on;
RESET enable_seqscan;
RESET enable_bitmapscan;
SET fpbtree.custom_scans = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE a > 5;
RESET fpbtree.custom_scans;

-- OFFSET counts the rows of pages together, either way.
CREATE TABLE pages (query text);
INSERT INTO pages VALUES
  ('SELECT k FROM t ORDER BY k OFFSET 5000 LIMIT 10'),
  ('SELECT k FROM t ORDER BY k DESC OFFSET 5000 LIMIT 10'),
  ('SELECT k, a, x || ''!'' FROM t ORDER BY k OFFSET 7777 LIMIT 20'),
  ('SELECT k, a FROM t WHERE k > 3000 ORDER BY k DESC OFFSET 777 LIMIT 20'),
  ('SELECT k FROM t ORDER BY k OFFSET 10000000'),
  ('SELECT k FROM t ORDER BY k OFFSET 10000000 LIMIT 5'),
  ('SELECT k FROM t ORDER BY k OFFSET 20000'),
  ('SELECT a FROM t WHERE a IN (3, 50, 60) ORDER BY a OFFSET 300 LIMIT 700'),
  ('SELECT x FROM t ORDER BY x OFFSET 1234 LIMIT 40'),
  ('SELECT x FROM t WHERE x > ''word 2'' ORDER BY x DESC OFFSET 12345 LIMIT 40'),
  ('SELECT v, p.k FROM generate_series(0, 4) v, LATERAL (SELECT k FROM t WHERE k > v * 1000 ORDER BY k OFFSET v * 100 LIMIT 2) p'),
  ('SELECT v, p.k FROM generate_series(0, 4) v, LATERAL (SELECT k FROM t ORDER BY k OFFSET NULLIF(v, 2) * 5000 LIMIT 2) p'),
  ('SELECT k FROM t ORDER BY k OFFSET (SELECT max(c) FROM g) FETCH FIRST 3 ROWS ONLY'),
  ('SELECT a FROM t WHERE a < 5 ORDER BY a OFFSET 280 FETCH FIRST 1 ROW WITH TIES');
INSERT INTO pages VALUES
  ('SELECT k FROM t WHERE a % 2 = 0 ORDER BY k OFFSET 500 LIMIT 10'),
  ('SELECT k FROM t ORDER BY k LIMIT 10'),
  ('SELECT k, generate_series(1, 2) FROM t ORDER BY k OFFSET 3001 LIMIT 10');
SELECT same(query, 'FpbtreeOffset'), query FROM pages;
DELETE FROM t WHERE k % 13 = 5;
UPDATE t SET x = x || '+' WHERE k % 19 = 4;
SELECT same(query, 'FpbtreeOffset'), count(*) FROM pages GROUP BY 1 ORDER BY 1;
BEGIN;
DELETE FROM t WHERE k BETWEEN 500 AND 2000;
SELECT same(query, 'FpbtreeOffset'), count(*) FROM pages GROUP BY 1 ORDER BY 1;
ROLLBACK;
EXPLAIN (COSTS OFF, VERBOSE) SELECT k, a + 1 AS b FROM t ORDER BY k OFFSET 5000 LIMIT 10;
PREPARE o(bigint) AS SELECT k FROM t ORDER BY k OFFSET $1 LIMIT 2;
EXECUTE o(5000);
EXECUTE o(0);
EXECUTE o(NULL);
EXECUTE o(-1);
CREATE SEQUENCE called;
SELECT k, nextval('called') FROM t ORDER BY k OFFSET 100 LIMIT 1;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT k FROM t ORDER BY k OFFSET 5000 LIMIT 4;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FORWARD ALL FROM c;
FETCH BACKWARD ALL FROM c;
COMMIT;
-- Prepared statements, with a generic plan, and when the index is gone.
PREPARE p(int, int) AS SELECT count(*), sum(a) FROM t WHERE a BETWEEN $1 AND $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE p(1, 3);
EXECUTE p(1, 3);
EXECUTE p(5, 4);
EXECUTE p(NULL, 4);
PREPARE filtered(int) AS SELECT count(*) FILTER (WHERE a > $1), count(*) FROM t WHERE a < 50;
EXPLAIN (COSTS OFF) EXECUTE filtered(10);
EXECUTE filtered(10);
EXECUTE filtered(-1);
EXECUTE filtered(NULL);
DROP INDEX t_a;
EXECUTE p(1, 3);
DROP INDEX t_ab;
EXECUTE p(1, 3);
CREATE INDEX t_a ON t USING fpbtree (a);
CREATE INDEX t_ab ON t USING fpbtree (a, b);
EXECUTE p(1, 3);
RESET plan_cache_mode;
-- Cursors, both ways.
BEGIN;
DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT a, count(*) FROM t WHERE a < 4 GROUP BY a ORDER BY a;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FORWARD 5 FROM c;
COMMIT;
FETCH BACKWARD ALL FROM c;
CLOSE c;
-- A view with a barrier, row security, and partitions.
CREATE VIEW v WITH (security_barrier) AS SELECT a, b FROM t WHERE a > 90;
SELECT same('SELECT count(*) FROM v');
CREATE TABLE r (a int, owner name DEFAULT 'nobody');
INSERT INTO r SELECT i % 10, CASE WHEN i % 3 = 0 THEN 'aggregates_reader' ELSE 'nobody' END FROM generate_series(1, 3000) i;
CREATE INDEX ON r USING fpbtree (a);
CREATE INDEX ON r USING fpbtree (owner, a);
VACUUM ANALYZE r;
ALTER TABLE r ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON r USING (owner = current_user);
CREATE ROLE aggregates_reader;
GRANT SELECT ON r TO aggregates_reader;
GRANT USAGE ON SCHEMA agg TO aggregates_reader;
SELECT count(*) FROM r;
SET ROLE aggregates_reader;
SELECT count(*), count(owner) FROM r;
SELECT count(*) FROM r WHERE a = 4;
RESET ROLE;
GRANT SELECT ON t TO aggregates_reader;
REVOKE EXECUTE ON FUNCTION max(int) FROM PUBLIC;
SELECT count(*) > 0, max(a) > 0 FROM t WHERE a > 5;
SET ROLE aggregates_reader;
SELECT count(*) > 0 FROM t WHERE a > 5;
SELECT count(*) > 0, max(a) > 0 FROM t WHERE a > 5;
RESET ROLE;
GRANT EXECUTE ON FUNCTION max(int) TO PUBLIC;
REVOKE SELECT ON t FROM aggregates_reader;
DROP TABLE r;
REVOKE USAGE ON SCHEMA agg FROM aggregates_reader;
DROP ROLE aggregates_reader;
CREATE TABLE p (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
CREATE INDEX ON p USING fpbtree (a, b);
INSERT INTO p SELECT i % 200, i FROM generate_series(1, 20000) i;
VACUUM ANALYZE p;
SET enable_partitionwise_aggregate = on;
EXPLAIN (COSTS OFF) SELECT a, count(*), sum(b) FROM p GROUP BY a;
SELECT same('SELECT a, count(*), sum(b) FROM p GROUP BY a');
SELECT same('SELECT a, count(*) FILTER (WHERE b % 3 = 0), sum(b) FILTER (WHERE a < 50) FROM p GROUP BY a');
RESET enable_partitionwise_aggregate;
DROP SCHEMA agg CASCADE;
