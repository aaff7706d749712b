-- The memory of scans is lent: many at a time, given back by errors, rescans and cursors, and no more is kept than a few.
CREATE TABLE lent (part int, k text, n int) PARTITION BY LIST (part);
DO $$ BEGIN
  FOR part IN 1..20 LOOP
    EXECUTE format('CREATE TABLE lent_%1$s PARTITION OF lent FOR VALUES IN (%1$s)', part);
  END LOOP;
END $$;
INSERT INTO lent SELECT i % 20 + 1, 'key ' || i, i FROM generate_series(1, 4000) i;
CREATE INDEX lent_k ON lent USING fpbtree (k);
CREATE INDEX lent_n ON lent USING fpbtree (n);
ANALYZE lent;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
CREATE FUNCTION loans() RETURNS bigint LANGUAGE sql AS $$
  SELECT count(*) FROM pg_backend_memory_contexts WHERE name = 'fpbtree loan' $$;
-- Twenty scans are merged, twice.
SELECT k FROM lent ORDER BY k LIMIT 3;
SELECT n FROM lent ORDER BY n LIMIT 3;
SELECT loans() BETWEEN 2 AND 16 AS few;
-- An error in the midst of them, with others open around it.
BEGIN;
DECLARE outside CURSOR FOR SELECT k FROM lent ORDER BY k;
FETCH 1 FROM outside;
SAVEPOINT s;
DECLARE inside CURSOR FOR SELECT n, 1 / (n - 30) FROM lent ORDER BY n;
FETCH 1 FROM inside;
SELECT loans() > 16 AS many;
FETCH 40 FROM inside;
ROLLBACK TO s;
FETCH 2 FROM outside;
SELECT n FROM lent ORDER BY n DESC LIMIT 2;
FETCH 1 FROM outside;
COMMIT;
SELECT loans() BETWEEN 2 AND 16 AS few;
-- Scans that begin and end often, and rescans.
SELECT count(*), sum(l.n) FROM generate_series(1, 2000) i, LATERAL (SELECT n FROM lent WHERE k = 'key ' || i LIMIT 1) l;
DO $$ DECLARE found int; BEGIN
  FOR i IN 1..2000 LOOP
    SELECT n INTO STRICT found FROM lent WHERE n = i;
    BEGIN
      PERFORM 1 / (n - i) FROM lent WHERE k = 'key ' || i;
      RAISE 'not reached';
    EXCEPTION WHEN division_by_zero THEN NULL;
    END;
  END LOOP;
END $$;
SELECT loans() BETWEEN 2 AND 16 AS few;
-- Of lists and of a scan that is marked and comes back.
SELECT count(*) FROM generate_series(1, 300) i, LATERAL (SELECT n FROM lent_1 WHERE n = ANY (ARRAY[i, i + 1, i + 19])) l;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*) FROM lent_1 a JOIN lent_1 b ON a.k = b.k;
SELECT count(*) FROM lent_1 a JOIN lent_1 b ON a.n = b.n;
SELECT loans() BETWEEN 2 AND 16 AS few;
DROP TABLE lent;
DROP FUNCTION loans();
