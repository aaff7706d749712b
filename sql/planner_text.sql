-- What the planner does for btree's operator families on text, and with unique indexes: every plan is btree's.
\set ECHO none
\getenv srcdir PG_ABS_SRCDIR
\set planner :srcdir '/sql/planner.inc'
\i :planner
\set ECHO all
SELECT bt.both($$
  CREATE TABLE w (id int4 NOT NULL, c text COLLATE "C", p text NOT NULL, v varchar(40), b char(40), n name, y bytea, a int4);
  INSERT INTO w SELECT i, md5(i::text), md5(i::text), md5(i::text), md5(i::text), md5(i::text), decode(md5(i::text), 'hex'), i % 100
    FROM generate_series(1, 20000) i;
  CREATE INDEX w_c ON w USING {method} (c);
  CREATE INDEX w_p ON w USING {method} (p text_pattern_ops);
  CREATE INDEX w_v ON w USING {method} (v varchar_pattern_ops);
  CREATE INDEX w_b ON w USING {method} (b bpchar_pattern_ops);
  CREATE INDEX w_n ON w USING {method} (n);
  CREATE INDEX w_y ON w USING {method} (y);
  CREATE INDEX w_ap ON w USING {method} (a, p text_pattern_ops);
  CREATE INDEX w_lower ON w USING {method} (lower(p) text_pattern_ops);
  CREATE TABLE k (a int4 NOT NULL, b text COLLATE "C" NOT NULL, d int4);
  INSERT INTO k SELECT i, 'k' || i, i FROM generate_series(1, 3000) i;
  CREATE UNIQUE INDEX k_a ON k USING {method} (a);
  CREATE UNIQUE INDEX k_ab ON k USING {method} (b, d);
$$);
VACUUM ANALYZE fp.w, bt.w, fp.k, bt.k;
-- LIKE, with and without a known prefix, of a parameter, escaped.
SELECT * FROM bt.beside('SELECT id FROM w WHERE c LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p LIKE ''abc_e%9''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p LIKE ''%abc''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p LIKE ''a\_bc%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p LIKE ''c4ca4238a0b923820dcc509a6f75849b''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE v LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE b LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE n LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE y LIKE ''\xc4ca25''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE a = 7 AND p LIKE ''ab%''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE lower(p) LIKE ''abc%''');
-- Regular expressions with a fixed beginning.
SELECT * FROM bt.beside('SELECT id FROM w WHERE c ~ ''^abc''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p ~ ''^abc''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p ~ ''^ab[0-4]{2}''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p ~ ''^c4ca4238a0b923820dcc509a6f75849b$''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE v ~ ''^abc''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE n ~ ''^abc''');
-- Beginnings.
SELECT * FROM bt.beside('SELECT id FROM w WHERE c ^@ ''abc''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p ^@ ''abc''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE starts_with(p, ''abc'')');
-- The pattern classes' own operators, equality through them, and the order.
SELECT * FROM bt.beside('SELECT id FROM w WHERE p = ''c4ca4238a0b923820dcc509a6f75849b''');
SELECT * FROM bt.beside('SELECT id FROM w WHERE p ~>=~ ''abc'' AND p ~<~ ''abd''');
SELECT * FROM bt.beside('SELECT p FROM w ORDER BY p USING ~<~ LIMIT 3');
SELECT * FROM bt.beside('SELECT c FROM w ORDER BY c DESC LIMIT 3');
SELECT * FROM bt.beside('SELECT id FROM w WHERE n = ''c4ca4238a0b923820dcc509a6f75849b''::text');
SELECT * FROM bt.beside('SELECT min(c) FROM w WHERE c > ''f''');
SELECT * FROM bt.beside('SELECT max(c) FROM w WHERE c LIKE ''ab%''');
-- A join that a unique index makes useless is left out.
SELECT * FROM bt.beside('SELECT w.id FROM w LEFT JOIN k ON k.a = w.id WHERE w.c LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT w.id FROM w LEFT JOIN k ON k.b = w.c AND k.d = w.a WHERE w.c LIKE ''abc%''');
SELECT * FROM bt.beside('SELECT w.id FROM w LEFT JOIN k ON k.b = w.c AND k.d = 5 WHERE w.c LIKE ''abc%''');
-- What is not unique, or unique by more columns, is not.
SELECT * FROM bt.beside('SELECT count(*) FROM k LEFT JOIN w ON w.id = k.a');
SELECT * FROM bt.beside('SELECT count(*) FROM k LEFT JOIN k o ON o.b = k.b');
-- A join whose inner rows are known to be unique stops at the first.
SELECT m.method, bool_or(p.plan ~ 'Inner Unique: true') AS inner_unique
  FROM (VALUES (1, 'fp'), (2, 'bt')) m(n, method), bt.plan(m.method, 'SELECT w.id FROM w JOIN k ON k.a = w.id', 'VERBOSE, ') p
 GROUP BY m.n, m.method ORDER BY m.n;
DROP SCHEMA fp, bt CASCADE;
